//! Which message it was: a message that broke a filter is named in the log, so many of them a second.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::warn;
use weir_filter::{Failure, Outcome, TopicName};
use weir_store::Position;

use super::window::Indexes;

/// How many messages are named in a second, those of all topics together. A filter may break on every message,
/// and messages that are withheld break it again and again; the counters have them all.
const NAMED_A_SECOND: u32 = 20;

static NAMED: Mutex<Limit> = Mutex::new(Limit { since: None, named: 0, untold: 0 });

/// What was named since when, and what was not for that reason.
struct Limit {
    since: Option<Instant>,
    named: u32,
    untold: u64,
}

impl Limit {
    /// Whether one more may be named; then it says how many were not since the last one that was.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let began = self.since.get_or_insert(now);
        if now.saturating_duration_since(*began) >= Duration::from_secs(1) {
            (*began, self.named) = (now, 0);
        }
        if self.named >= NAMED_A_SECOND {
            self.untold += 1;
            return None;
        }
        self.named += 1;
        Some(std::mem::take(&mut self.untold))
    }
}

/// Names the messages of an entry that broke a filter.
pub(super) fn name(topic: &TopicName, at: Position, shape: &Indexes, outcomes: &[Outcome]) {
    for (nth, outcome) in (0..).zip(outcomes) {
        let (policy, failure) = match outcome {
            Outcome::Accept | Outcome::Reject | Outcome::Reschedule(_) => continue,
            Outcome::Deliver(failure) => ("deliver", failure),
            Outcome::Withhold(failure) => ("withhold", failure),
            Outcome::Discard(failure) => ("discard", failure),
        };
        // Of the others no message is to blame: their filter was not asked.
        if !matches!(**failure, Failure::Broke { .. }) {
            continue;
        }
        let Some(unnamed_before) = NAMED.lock().take(Instant::now()) else { continue };
        let (ledger, entry, index) = (at.ledger, at.entry, shape.original(nth).unwrap_or(nth));
        warn!(%topic, ledger, entry, index, policy, %failure, unnamed_before, "a message broke a filter");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_named_a_second_and_the_others_are_told() {
        let (mut limit, now) = (Limit { since: None, named: 0, untold: 0 }, Instant::now());
        for _ in 0..NAMED_A_SECOND {
            assert_eq!(limit.take(now), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(limit.take(now + Duration::from_millis(999)), None);
        }
        assert_eq!(limit.take(now + Duration::from_secs(1)), Some(7));
        assert_eq!(limit.take(now + Duration::from_secs(1)), Some(0));
    }
}
