//! Waiting for a condition, never for a time.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

/// What a busy machine may take for anything that a test waits for; the stock client's minute between two
/// looks for new topics included.
pub const PATIENCE: Duration = Duration::from_secs(150);

/// How long to leave a condition alone between two looks at it.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Looks again and again until `look` gives a value; returns it.
///
/// # Panics
/// When it gave none within [`PATIENCE`]: with what it said last.
#[track_caller]
pub fn until<T, E: Display>(what: &str, mut look: impl FnMut() -> Result<T, E>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(value) => return value,
            Err(not_yet) => {
                assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}: {not_yet}");
            }
        }
        thread::park_timeout(BETWEEN_LOOKS);
    }
}
