//! The threads that judge: a fixed number, each with warm instances of its own.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use tokio::sync::{Semaphore, oneshot};
use weir_extension::{Configured, MessageFilter};

use crate::judge::ONE_BY_ONE;

/// How many batches wait for each thread before callers wait in turn.
const QUEUED_PER_THREAD: usize = 16;

/// The most instances that one thread keeps warm. One more, and the one not used for longest goes.
const MAX_INSTANCES: usize = 256;

type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// The pool of judging threads. Dropping it waits until they have finished the work in hand.
pub struct Workers {
    /// `None` only while it is being dropped.
    queue: Option<Sender<Job>>,
    /// One for each batch that may wait or run: sending to the queue never blocks.
    places: Arc<Semaphore>,
    threads: Vec<JoinHandle<()>>,
}

/// One judging thread, as the work that runs on it sees it: its warm instances.
///
/// Instances are shared by all chains that use the same version with the same configuration, so their
/// number is that of the versions in use, not of topics.
pub struct Worker {
    /// By [`Configured::id`].
    instances: HashMap<u64, Warm>,
    /// Counts uses, to tell which is the oldest.
    uses: u64,
    /// How long messages of a batch that broke are judged one by one.
    patience: Duration,
}

struct Warm {
    instance: Box<dyn MessageFilter>,
    of: Weak<Configured>,
    last_use: u64,
}

/// The work panicked. The panic is in the log and its thread goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work panicked: {0}")]
pub struct Panicked(String);

impl Workers {
    /// Starts `n` threads, at least one.
    ///
    /// # Panics
    /// When the system gives no thread.
    pub fn new(n: usize) -> Self {
        let n = n.max(1);
        let places = n * (1 + QUEUED_PER_THREAD);
        let (queue, jobs) = crossbeam_channel::bounded(places);
        let start = |i| {
            let jobs = jobs.clone();
            let thread = std::thread::Builder::new().name(format!("weir-judge-{i}"));
            thread.spawn(move || work(&jobs)).expect("the system gives a thread")
        };
        let threads = (0..n).map(start).collect();
        Self { queue: Some(queue), places: Arc::new(Semaphore::new(places)), threads }
    }

    /// Runs `work` on one of the threads and gives back what it returns: one hop a batch.
    ///
    /// Waits for a place first, in the order of callers. Once it has one, dropping the future does not
    /// stop the work.
    ///
    /// # Errors
    /// When the work panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        let (tell, told) = oneshot::channel();
        let job: Job = Box::new(move |worker| {
            let done = catch_unwind(AssertUnwindSafe(|| work(worker)));
            drop(place);
            let done = done.map_err(|panic| {
                let text = panic_text(&*panic);
                tracing::error!(panic = text, "a judging thread caught a panic and goes on");
                // Whatever it was about to do with its instances, it has not done.
                *worker = Worker::default();
                Panicked(text)
            });
            // The caller may have gone: then nobody wants to know.
            drop(tell.send(done));
        });
        let queue = self.queue.as_ref().expect("the pool is not being dropped");
        queue.send(job).expect("the threads live as long as the pool");
        told.await.unwrap_or_else(|_| Err(Panicked("its thread has ended".to_owned())))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue = None;
        let this = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last reference may lie in the work of one of them.
            if thread.thread().id() != this && thread.join().is_err() {
                tracing::error!("a judging thread had panicked");
            }
        }
    }
}

fn work(jobs: &Receiver<Job>) {
    let mut worker = Worker::default();
    for job in jobs {
        job(&mut worker);
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self { instances: HashMap::new(), uses: 0, patience: ONE_BY_ONE }
    }
}

impl Worker {
    /// How long messages of a batch that broke are judged one by one.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    #[cfg(test)]
    pub(crate) fn with_patience(patience: Duration) -> Self {
        Self { patience, ..Self::default() }
    }

    /// The warm instance of that id, if there is one; it is the caller's.
    pub(crate) fn take(&mut self, id: u64) -> Option<Box<dyn MessageFilter>> {
        self.instances.remove(&id).map(|warm| warm.instance)
    }

    /// Keeps an instance for the next batch, and lets those go whose version has gone.
    pub(crate) fn keep(&mut self, of: &Arc<Configured>, instance: Box<dyn MessageFilter>) {
        self.uses += 1;
        if self.instances.len() >= MAX_INSTANCES {
            let oldest = self.instances.iter().min_by_key(|(_, warm)| warm.last_use).map(|(id, _)| *id);
            oldest.and_then(|id| self.instances.remove(&id));
        }
        self.instances.retain(|_, warm| warm.of.strong_count() > 0);
        let warm = Warm { instance, of: Arc::downgrade(of), last_use: self.uses };
        self.instances.insert(of.id(), warm);
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

#[cfg(test)]
mod tests;
