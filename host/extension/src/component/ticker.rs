//! The clock that ends calls: a thread that counts the engines' epochs up, and once a second closes the
//! account of what extensions have said.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use wasmtime::Engine;

use crate::said;

/// How often the epochs grow: a call ends at most this much after its deadline. Two hundred wakings a
/// second cost nothing that can be measured.
const TICK: Duration = Duration::from_millis(5);

/// After how many ticks [`said::settle`] is called: a second.
const SETTLE: u32 = 200;

/// The running clock; dropping it ends its thread.
pub(super) struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(super) fn start(engines: Vec<Engine>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("weir-epoch".into())
            .spawn(move || {
                let mut ticks = 0;
                while !stopped.load(Ordering::Relaxed) {
                    std::thread::park_timeout(TICK);
                    engines.iter().for_each(Engine::increment_epoch);
                    ticks = (ticks + 1) % SETTLE;
                    if ticks == 0 {
                        said::settle();
                    }
                }
            })
            .expect("the system gives a thread");
        Self { stop, thread: Some(thread) }
    }

    /// How many ticks from now a deadline is. One more than fit, since the first may come at once.
    #[inline]
    pub(super) fn ticks(&self, deadline: Duration) -> u64 {
        // In microseconds of 64 bits: a division of 128 bits costs 10 ns.
        let micros =
            deadline.as_secs().saturating_mul(1_000_000).saturating_add(deadline.subsec_micros().into());
        micros.div_ceil(TICK.as_micros() as u64) + 1
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the epoch thread panicked; calls of extensions were not ended");
            }
        }
    }
}
