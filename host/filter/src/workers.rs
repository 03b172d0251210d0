//! The threads that judge: a fixed number, each with warm instances of its own.

use std::sync::Arc;

use weir_extension::Messages;

use crate::chain::{Chain, Judgement};

/// The pool of judging threads. Dropping it ends them after the work in hand.
pub struct Workers {}

/// One judging thread, as the work that runs on it sees it: its warm instances.
pub struct Worker {}

impl Workers {
    /// Starts `n` threads.
    ///
    /// # Panics
    /// When the system gives no thread.
    pub fn new(n: usize) -> Self {
        let _ = n;
        todo!()
    }

    /// Runs `work` on one of the threads and gives back what it returns: one hop a batch.
    ///
    /// Dropping the future does not stop the work.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce(&mut Worker) -> T + Send + 'static) -> T {
        let _ = work;
        todo!()
    }
}

impl Worker {
    /// Judges a batch: each filter gets what the ones before it accepted. When a call breaks, its
    /// messages are judged one by one on a fresh instance; only what breaks alone bears the policy.
    pub fn judge(&mut self, chain: &Arc<Chain>, messages: &Messages<'_>) -> Judgement {
        let _ = (chain, messages);
        todo!()
    }
}
