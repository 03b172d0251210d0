//! Whether the store takes writes, and until when it waits if it does not.
//!
//! Asked by whoever is to tell others (a readiness address, a producer that comes), so it never waits for
//! the disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The store takes no writes for now: one failed (a full disk, for one), and it has not been opened anew.
/// What it is asked to write meanwhile is refused at once, and nothing of it is kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("storage is paused: {cause}, next try in {} s", seconds(*retry_in))]
pub struct Paused {
    /// What failed last.
    pub cause: Arc<str>,
    /// When the store will try again by itself, from now; zero while it tries.
    pub retry_in: Duration,
}

/// At least one: "0 s" would be over before it is read.
fn seconds(retry_in: Duration) -> u64 {
    retry_in.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX).max(1)
}

/// What is known of it, for whoever asks.
#[derive(Default)]
pub(crate) struct Health {
    /// Held for moments. The cause, and when the next try is due.
    failure: Mutex<Option<(Arc<str>, Instant)>>,
}

impl Health {
    pub(crate) fn paused(&self) -> Option<Paused> {
        let failure = self.failure.lock();
        failure.as_ref().map(|(cause, at)| Paused {
            cause: Arc::clone(cause),
            retry_in: at.saturating_duration_since(Instant::now()),
        })
    }

    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.failure.lock().as_ref().map(|(_, at)| *at)
    }

    pub(crate) fn failed(&self, cause: &str, retry_at: Instant) {
        *self.failure.lock() = Some((cause.into(), retry_at));
    }

    pub(crate) fn recovered(&self) {
        *self.failure.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_why_and_for_how_long() {
        for (millis, seconds) in [(0, 1), (400, 1), (1000, 1), (1001, 2), (9999, 10)] {
            let paused = Paused { cause: "no space".into(), retry_in: Duration::from_millis(millis) };
            let text = format!("storage is paused: no space, next try in {seconds} s");
            assert_eq!(paused.to_string(), text);
        }
    }
}
