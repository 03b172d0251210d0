//! The threads that judge: a fixed number, each with warm instances of its own.
//!
//! Nothing ends a loop in a native library. A watch notices a thread that is held for long and starts
//! another in its place, so that only the subscription waits whose filter it is; how many threads may be
//! lost that way has a ceiling.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};
use weir_extension::{Configured, MessageFilter, Messages};

use crate::chain::Pinned;
use crate::judge::ONE_BY_ONE;

/// How many batches wait for each thread before callers wait in turn.
const QUEUED_PER_THREAD: usize = 16;

/// The most cells that a view keeps from one batch to the next, 16 bytes each: a thousand messages of 64
/// fields.
const MAX_SPARE_CELLS: usize = 1 << 16;

/// The most instances that one thread keeps warm. One more, and the one not used for longest goes.
const MAX_INSTANCES: usize = 256;

/// How long one call of an extension holds a thread before another is started in its place. Components end
/// at their deadline, which is far below.
const HELD_AFTER: Duration = Duration::from_secs(10);

/// The most threads that may be held at once and have another in their place. Beyond, the pool shrinks.
const MAX_HELD: usize = 16;

type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// The pool of judging threads. Dropping it waits until they have finished the work in hand, but not for
/// one that an extension holds.
pub struct Workers {
    /// `None` only while it is being dropped.
    queue: Option<Sender<Job>>,
    /// One for each batch that may wait or run: sending to the queue never blocks.
    places: Arc<Semaphore>,
    threads: Arc<Threads>,
    watch: Option<JoinHandle<()>>,
    /// Dropped, it ends the watch.
    stop: Option<Sender<()>>,
}

/// The threads of a pool, and what replaces those that are held.
struct Threads {
    jobs: Receiver<Job>,
    began: Instant,
    held_after: Duration,
    /// As many as the pool has, and those that are held.
    all: Mutex<Vec<Thread>>,
}

struct Thread {
    seat: Arc<Seat>,
    handle: JoinHandle<()>,
    /// Disconnected when it ends.
    end: Receiver<()>,
}

/// A thread as the watch sees it.
struct Seat {
    began: Instant,
    /// When its last call began, in milliseconds after `began` and one more; 0 while it waits for work.
    busy_since: AtomicU64,
    /// Another one has taken its place: it ends after the work in hand.
    replaced: AtomicBool,
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
    /// The memory of the last view, for the next one of the same fields.
    spare: Option<Messages<'static>>,
    /// How long messages of a batch that broke are judged one by one.
    patience: Duration,
    /// Of its thread; none in tests without one.
    seat: Option<Arc<Seat>>,
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
        Self::held_after(n, HELD_AFTER)
    }

    fn held_after(n: usize, held_after: Duration) -> Self {
        let n = n.max(1);
        // Work that is held keeps its place.
        let places = n * (1 + QUEUED_PER_THREAD) + MAX_HELD;
        let (queue, jobs) = bounded(places);
        let threads = Threads { jobs, began: Instant::now(), held_after, all: Mutex::default() };
        let threads = Arc::new(threads);
        let started: std::io::Result<Vec<Thread>> = (0..n).map(|_| threads.start()).collect();
        *threads.all.lock() = started.expect("the system gives a thread");
        let (stop, stopped) = bounded(0);
        let watched = Arc::clone(&threads);
        let watch = std::thread::Builder::new().name("weir-judge-watch".to_owned());
        let watch = watch.spawn(move || watched.watch(&stopped)).expect("the system gives a thread");
        let places = Arc::new(Semaphore::new(places));
        Self { queue: Some(queue), places, threads, watch: Some(watch), stop: Some(stop) }
    }

    /// How many threads an extension holds at this moment, those that have another in their place included.
    pub fn held(&self) -> usize {
        let all = self.threads.all.lock();
        all.iter().filter(|thread| thread.seat.is_held(self.threads.held_after)).count()
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
                worker.forget_instances();
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
        self.stop = None;
        if let Some(watch) = self.watch.take()
            && watch.join().is_err()
        {
            tracing::error!("the watch of the judging threads had panicked");
        }
        let this = std::thread::current().id();
        for thread in self.threads.all.lock().drain(..) {
            // The last reference may lie in the work of one of them.
            if thread.handle.thread().id() != this {
                thread.end_within(self.threads.held_after);
            }
        }
    }
}

impl Threads {
    fn start(&self) -> std::io::Result<Thread> {
        let busy_since = AtomicU64::new(0);
        let seat = Arc::new(Seat { began: self.began, busy_since, replaced: AtomicBool::new(false) });
        let (running, end) = bounded(0);
        let (jobs, of) = (self.jobs.clone(), Arc::clone(&seat));
        let handle = std::thread::Builder::new().name("weir-judge".to_owned()).spawn(move || {
            let _running: Sender<()> = running;
            work(&jobs, &of);
        })?;
        Ok(Thread { seat, handle, end })
    }

    /// Looks after the threads until `stopped` is disconnected.
    fn watch(&self, stopped: &Receiver<()>) {
        while stopped.recv_timeout(self.held_after / 4) == Err(RecvTimeoutError::Timeout) {
            let mut all = self.all.lock();
            all.retain(|thread| !(thread.seat.is_replaced() && thread.handle.is_finished()));
            let lost = all.iter().filter(|thread| thread.seat.is_replaced()).count();
            let held = |thread: &&Thread| !thread.seat.is_replaced() && thread.seat.is_held(self.held_after);
            let held: Vec<Arc<Seat>> =
                all.iter().filter(held).map(|thread| Arc::clone(&thread.seat)).collect();
            for (nth, seat) in held.iter().enumerate() {
                let held = lost + nth + 1;
                if held > MAX_HELD {
                    tracing::error!(held, "no thread is started in place of one that an extension holds");
                    break;
                }
                match self.start() {
                    Ok(thread) => {
                        all.push(thread);
                        seat.replaced.store(true, Ordering::Relaxed);
                        tracing::error!(
                            held,
                            "an extension holds a judging thread; another is started in its place"
                        );
                    }
                    Err(error) => tracing::error!(%error, "no thread in place of one that is held"),
                }
            }
        }
    }
}

impl Thread {
    /// Waits for its end, unless an extension holds it.
    fn end_within(self, held_after: Duration) {
        while self.end.recv_timeout(held_after) == Err(RecvTimeoutError::Timeout) {
            if self.seat.is_held(held_after) {
                tracing::error!("a judging thread is left behind: an extension holds it");
                return;
            }
        }
        if self.handle.join().is_err() {
            tracing::error!("a judging thread had panicked");
        }
    }
}

impl Seat {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A call begins.
    fn beat(&self) {
        self.busy_since.store(self.now() + 1, Ordering::Relaxed);
    }

    fn rest(&self) {
        self.busy_since.store(0, Ordering::Relaxed);
    }

    fn is_held(&self, after: Duration) -> bool {
        match self.busy_since.load(Ordering::Relaxed) {
            0 => false,
            since => Duration::from_millis((self.now() + 1).saturating_sub(since)) >= after,
        }
    }

    fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }
}

fn work(jobs: &Receiver<Job>, seat: &Arc<Seat>) {
    let mut worker = Worker { seat: Some(Arc::clone(seat)), ..Worker::default() };
    while !seat.is_replaced()
        && let Ok(job) = jobs.recv()
    {
        seat.beat();
        job(&mut worker);
        seat.rest();
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self { instances: HashMap::new(), uses: 0, spare: None, patience: ONE_BY_ONE, seat: None }
    }
}

impl Worker {
    /// A view without messages, with the fields that a chain reads: in the memory of the last one that was
    /// [given back](Self::give_back), and with what it learned, if that had the same fields.
    pub fn view<'a>(&mut self, chain: &Pinned) -> Messages<'a> {
        match self.spare.take() {
            Some(spare) if Arc::ptr_eq(spare.fields(), chain.reads()) => spare.recycle(),
            _ => Messages::new(Arc::clone(chain.reads())),
        }
    }

    /// Keeps the memory of a view for the next one, unless it is much.
    pub fn give_back(&mut self, view: Messages<'_>) {
        if view.len() * view.fields().len() <= MAX_SPARE_CELLS {
            self.spare = Some(view.recycle());
        }
    }

    /// How long messages of a batch that broke are judged one by one.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    #[cfg(test)]
    pub(crate) fn with_patience(patience: Duration) -> Self {
        Self { patience, ..Self::default() }
    }

    /// Tells the watch that a call into an extension begins.
    pub(crate) fn beat(&self) {
        if let Some(seat) = &self.seat {
            seat.beat();
        }
    }

    fn forget_instances(&mut self) {
        self.instances.clear();
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
