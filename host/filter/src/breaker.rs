//! When a filter breaks on everything, it is left alone for a while: judging a batch one message at a
//! time, each until its deadline, is the most expensive way to learn nothing.

use std::time::{Duration, Instant};

use weir_extension::Broke;

/// After this many batches in a row of which every message broke alone, a filter rests …
const BATCHES: u32 = 3;
/// … if they were at least this many messages …
const MESSAGES: usize = 32;
/// … within this time: a few that are withheld, and tried again with growing pauses while nothing else
/// comes, do not stop what may come after them.
const WITHIN: Duration = Duration::from_secs(300);
/// With the policy to discard, at most this many messages in a row are acknowledged of which none got a
/// verdict, and none before the filter gave its first one: one that breaks on everything must not
/// acknowledge a backlog, however slowly that comes in.
const DISCARDED_IN_A_ROW: usize = 8;
/// The first rest; each further one is twice as long.
const FIRST_REST: Duration = Duration::from_secs(1);
/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// What is known of one filter's failures between one topic and one subscription.
///
/// After a rest, one batch is a trial: if any of its messages gets a verdict, all is well again, if none
/// does, the next rest is twice as long. Another version begins with a clean slate.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    /// The [`Configured::id`](weir_extension::Configured::id) that the rest is about.
    filter: u64,
    batches: u32,
    messages: usize,
    /// When the first of these batches broke.
    since: Option<Instant>,
    rest: Option<Rest>,
    /// It has given a verdict.
    proven: bool,
    /// Messages that broke alone since its last verdict, however long ago that was.
    unanswered: usize,
}

#[derive(Debug)]
struct Rest {
    until: Instant,
    length: Duration,
    broke: Broke,
}

impl Breaker {
    /// How much longer the filter rests, and how it broke the last time; `None` if it may be called.
    pub(crate) fn resting(&self, filter: u64, now: Instant) -> Option<(Duration, Broke)> {
        let rest = self.rest.as_ref().filter(|_| self.filter == filter)?;
        let left = rest.until.checked_duration_since(now).filter(|left| !left.is_zero())?;
        Some((left, rest.broke.clone()))
    }

    /// Whether the filter, rather than the messages, may be to blame for what broke last: nothing is to be
    /// acknowledged on its account then.
    pub(crate) fn doubts(&self) -> bool {
        !self.proven || self.unanswered > DISCARDED_IN_A_ROW
    }

    /// A batch in which at least one message got a verdict.
    pub(crate) fn worked(&mut self, filter: u64) {
        *self = Self { filter, proven: true, ..Self::default() };
    }

    /// A batch in which every message broke alone. Gives back how long the filter rests now, if it does.
    pub(crate) fn broke(
        &mut self,
        filter: u64,
        messages: usize,
        broke: &Broke,
        now: Instant,
    ) -> Option<Duration> {
        let long_ago = |since: Instant| now.saturating_duration_since(since) > WITHIN;
        if self.filter != filter {
            *self = Self { filter, ..Self::default() };
        } else if self.rest.is_none() && self.since.is_some_and(long_ago) {
            (self.batches, self.messages, self.since) = (0, 0, None);
        }
        self.since.get_or_insert(now);
        self.unanswered = self.unanswered.saturating_add(messages);
        self.batches = self.batches.saturating_add(1);
        self.messages = self.messages.saturating_add(messages);
        let length = match &self.rest {
            Some(rest) => (rest.length * 2).min(LONGEST_REST),
            None if self.batches >= BATCHES && self.messages >= MESSAGES => FIRST_REST,
            None => return None,
        };
        self.rest = Some(Rest { until: now + length, length, broke: broke.clone() });
        Some(length)
    }
}

#[cfg(test)]
mod tests {
    use weir_extension::BrokeKind;

    use super::*;

    fn trap() -> Broke {
        Broke { kind: BrokeKind::Trap, reason: "unreachable".to_owned() }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_filter_rests_after_three_batches_and_longer_each_time() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        assert_eq!(breaker.broke(1, 256, &trap(), now), None);
        assert_eq!(breaker.broke(1, 256, &trap(), now), None);
        for rest in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(breaker.broke(1, 256, &trap(), now), Some(seconds(rest)));
            assert_eq!(breaker.resting(1, now), Some((seconds(rest), trap())));
            assert_eq!(breaker.resting(1, now + seconds(rest)), None);
            now += seconds(rest);
        }
    }

    #[test]
    fn one_verdict_ends_it() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..3 {
            breaker.broke(1, 256, &trap(), now);
        }
        breaker.worked(1);
        assert_eq!(breaker.resting(1, now), None);
        assert_eq!(breaker.broke(1, 256, &trap(), now), None);
    }

    #[test]
    fn one_message_tried_again_and_again_is_not_everything() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..31 {
            assert_eq!(breaker.broke(1, 1, &trap(), now), None);
        }
    }

    #[test]
    fn a_few_messages_tried_again_for_hours_are_not_everything() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        for _ in 0..1000 {
            assert_eq!(breaker.broke(1, 3, &trap(), now), None);
            now += seconds(60);
        }
        // What comes in a rush is, from the eleventh time on.
        now += WITHIN;
        let rests = (0..12).filter_map(|_| breaker.broke(1, 3, &trap(), now));
        assert_eq!(rests.collect::<Vec<_>>(), [seconds(1), seconds(2)]);
    }

    #[test]
    fn a_filter_is_in_doubt_until_it_works_and_after_a_few_failures() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        breaker.broke(1, 1, &trap(), now);
        assert!(breaker.doubts(), "it has never given a verdict");
        breaker.worked(1);
        for n in 1..100 {
            // Slower than what lets it rest.
            now += WITHIN * 2;
            assert_eq!(breaker.broke(1, 1, &trap(), now), None);
            assert_eq!(breaker.doubts(), n > DISCARDED_IN_A_ROW, "{n}");
        }
        breaker.worked(1);
        breaker.broke(1, DISCARDED_IN_A_ROW + 1, &trap(), now);
        assert!(breaker.doubts(), "as many at once");
        breaker.worked(1);
        breaker.broke(2, 1, &trap(), now);
        assert!(breaker.doubts(), "another version has to show that it works");
    }

    #[test]
    fn another_version_begins_anew() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..3 {
            breaker.broke(1, 256, &trap(), now);
        }
        assert_eq!(breaker.resting(2, now), None);
        assert_eq!(breaker.broke(2, 256, &trap(), now), None);
    }
}
