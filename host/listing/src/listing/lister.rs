//! The lister in force, and the calls to it: on blocking threads, a bounded number at once, each with an
//! instance of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Semaphore;
use weir_extension::{
    Broke, BrokeKind, ClassName, Configured, Extensions, Kind, ListRequest, Tally, TopicLister, TopicSet,
    Topics, Unavailable,
};

use super::ListError;
use crate::config::{Config, MAX_OWN_NAMES};
use crate::topics::View;

pub(super) struct Lister {
    extensions: Arc<Extensions>,
    class: ClassName,
    config: Option<Value>,
    /// What was found, and in which generation of the table.
    found: ArcSwapOption<Found>,
    /// One for each call that may run.
    calls: Arc<Semaphore>,
    /// Instances that nobody uses, with the id of what they were made from; no more than may run.
    idle: Mutex<Vec<(u64, Box<dyn TopicLister>)>>,
}

struct Found {
    generation: u64,
    lister: Arc<Configured>,
}

impl Lister {
    pub(super) fn new(extensions: Arc<Extensions>, config: &Config) -> Self {
        Self {
            extensions,
            class: config.class.clone(),
            config: config.config.clone(),
            found: ArcSwapOption::empty(),
            calls: Arc::new(Semaphore::new(config.concurrent_calls.get())),
            idle: Mutex::default(),
        }
    }

    /// The version in force. An atomic load as long as the table has not changed; else it is found off
    /// the thread, since a version may have to be configured.
    pub(super) async fn current(self: &Arc<Self>) -> Result<Arc<Configured>, ListError> {
        if let Some(found) = &*self.found.load()
            && found.generation == self.extensions.generation()
        {
            return Ok(Arc::clone(&found.lister));
        }
        let this = Arc::clone(self);
        let resolved = self.off_thread(move || this.resolve()).await;
        Ok(resolved.ok_or(ListError::Stopped)??)
    }

    /// Finds the version in force. Blocks.
    pub(super) fn resolve(&self) -> Result<Arc<Configured>, Unavailable> {
        // Read first: a change that comes between the two is found at the next call.
        let generation = self.extensions.generation();
        let lister = self.extensions.configured(&self.class, Kind::Lister, self.config.as_ref())?;
        self.found.store(Some(Arc::new(Found { generation, lister: Arc::clone(&lister) })));
        Ok(lister)
    }

    /// Runs something that takes its time, when one of the places for calls is free. `None` if it
    /// panicked, which is logged, or the runtime is ending.
    pub(super) async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let place = Arc::clone(&self.calls).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        match done.await {
            Ok(done) => Some(done),
            Err(error) => {
                if error.is_panic() {
                    tracing::error!(class = %self.class, %error, "a listing panicked; its callers get an error");
                }
                None
            }
        }
    }

    /// Asks, on an instance that nobody else uses. One that broke is thrown away.
    pub(super) fn ask(
        &self,
        lister: &Arc<Configured>,
        request: &ListRequest,
        view: &Arc<View>,
    ) -> Result<TopicSet, ListError> {
        let mut instance = match self.take(lister.id()) {
            Some(instance) => instance,
            None => lister.lister().map_err(|broke| Unavailable::Refused {
                class: lister.class().clone(),
                reason: format!("no instance of it could be made: {broke}"),
            })?,
        };
        let topics: Arc<dyn Topics> = Arc::<View>::clone(view);
        let began = Instant::now();
        // An instance that panicked is not used again, so nobody sees what it left half done.
        let answer = catch_unwind(AssertUnwindSafe(|| instance.answer(request, &topics)))
            .unwrap_or_else(|_| broke(BrokeKind::Panic, "it panicked".to_owned()));
        let answer = answer.and_then(|set| match set.names.len() {
            0..=MAX_OWN_NAMES => Ok(set),
            n => broke(
                BrokeKind::BadAnswer,
                format!("it returned {n} names, at most {MAX_OWN_NAMES} are taken"),
            ),
        });
        let mut tally = Tally { calls: 1, elapsed: began.elapsed(), ..Tally::default() };
        match &answer {
            Ok(_) => tally.answered = 1,
            Err(broke) => tally.broken_call(broke.kind),
        }
        lister.count(&tally);
        match answer {
            Ok(set) => {
                self.keep(lister.id(), instance);
                Ok(set)
            }
            Err(broke) => {
                let class = lister.class().clone();
                tracing::warn!(%class, %broke, namespace = %request.namespace, "lister broke; its callers get an error");
                Err(ListError::Broke { class, broke })
            }
        }
    }

    fn take(&self, id: u64) -> Option<Box<dyn TopicLister>> {
        let mut idle = self.idle.lock();
        let at = idle.iter().position(|(of, _)| *of == id)?;
        Some(idle.swap_remove(at).1)
    }

    /// Keeps an instance for the next call, and drops those of other versions: a newer one is in force,
    /// or this one is about to go.
    fn keep(&self, id: u64, instance: Box<dyn TopicLister>) {
        let mut idle = self.idle.lock();
        let (same, others): (Vec<_>, Vec<_>) = idle.drain(..).partition(|(of, _)| *of == id);
        *idle = same;
        idle.push((id, instance));
        // Dropping an instance is a call into the extension: not under the lock.
        drop(idle);
        drop(others);
    }
}

fn broke<T>(kind: BrokeKind, reason: String) -> Result<T, Broke> {
    Err(Broke { kind, reason })
}
