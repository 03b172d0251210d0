//! Removing what deleted topics had: in the background, one topic after another, and after a restart where it
//! was left. Nobody waits for it, and no lock is held meanwhile.
//!
//! A deletion is durable before it comes here; what is removed here is seen by nobody. A topic of the same
//! name that was made since has other numbers, and is not touched.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_store::{EntryLog, Records};

use crate::catalogue::{Doomed, forget_doomed};
use crate::error::BrokerError;

/// After a failure of the store.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// The sending end of the one task that removes. A deletion that waits costs some hundred bytes.
pub(crate) struct Removal {
    queue: mpsc::UnboundedSender<Doomed>,
    left: Arc<AtomicUsize>,
}

impl Removal {
    /// Starts the task, with what was left over. It ends, between two steps, when `stop` says so.
    pub(crate) fn start(
        records: Records,
        log: Arc<dyn EntryLog>,
        tasks: &TaskTracker,
        stop: CancellationToken,
        left_over: Vec<Doomed>,
    ) -> Self {
        let (queue, waiting) = mpsc::unbounded_channel();
        let removal = Self { queue, left: Arc::default() };
        left_over.into_iter().for_each(|doomed| removal.add(doomed));
        let work = Work { records, log, stop, left: Arc::clone(&removal.left) };
        tasks.spawn(work.run(waiting));
        removal
    }

    /// Removes a deleted topic, in its turn.
    pub(crate) fn add(&self, doomed: Doomed) {
        self.left.fetch_add(1, Ordering::Relaxed);
        // If the task has ended the broker is draining, and the next start finds it.
        let _ended = self.queue.send(doomed);
    }

    /// Deletions that are not at their end.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }
}

struct Work {
    records: Records,
    log: Arc<dyn EntryLog>,
    stop: CancellationToken,
    left: Arc<AtomicUsize>,
}

impl Work {
    async fn run(self, mut waiting: mpsc::UnboundedReceiver<Doomed>) {
        loop {
            let doomed = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                doomed = waiting.recv() => doomed,
            };
            let Some(doomed) = doomed else { return };
            while let Err(error) = self.remove(&doomed).await {
                tracing::warn!(topic = doomed.name, %error, "a deleted topic was not removed; trying again");
                tokio::select! {
                    () = self.stop.cancelled() => return,
                    () = tokio::time::sleep(FAILURE_PAUSE) => {}
                }
            }
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
    }

    async fn remove(&self, doomed: &Doomed) -> Result<(), BrokerError> {
        let (records, log, stop) = (self.records.clone(), Arc::clone(&self.log), self.stop.clone());
        let doomed = doomed.clone();
        let work = move || {
            for id in &doomed.ids {
                log.forget(*id)?;
                if !log.remove(*id, &|| !stop.is_cancelled())? {
                    return Ok(());
                }
            }
            forget_doomed(&records, &doomed)?;
            tracing::debug!(topic = doomed.name, "a deleted topic is removed");
            Ok(())
        };
        tokio::task::spawn_blocking(work).await.map_err(|_panicked| BrokerError::lost("a removal"))?
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_filter::TopicName;
    use weir_listing::Index;
    use weir_store::{Options, Position, Store, TopicId};

    use crate::catalogue::Catalogue;

    use super::*;

    const ENTRIES: usize = 3_000;

    fn open(folder: &tempfile::TempDir) -> (Store, Catalogue, Vec<Doomed>) {
        let (store, _) = Store::open(folder.path(), Options::default()).unwrap();
        let (catalogue, doomed) =
            Catalogue::open(store.records(), &*store.entries(), Arc::new(Index::default()), 10).unwrap();
        (store, catalogue, doomed)
    }

    fn append(store: &Store, id: TopicId) {
        let (tell, told) = std::sync::mpsc::channel();
        for _ in 0..ENTRIES {
            let tell = tell.clone();
            let done = Box::new(move |result: Result<Position, _>| tell.send(result).unwrap());
            store.entries().append(id, bytes::Bytes::from_static(b"m"), 1, done);
        }
        drop(tell);
        assert!(told.iter().all(|result| result.is_ok()));
    }

    fn count(store: &Store, id: TopicId) -> u64 {
        store.entries().count_after(id, None).unwrap().entries
    }

    #[tokio::test]
    async fn deleting_removes_nothing_itself_and_is_finished_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let name = TopicName::new("public/default/t").unwrap();
        let old = {
            let (store, catalogue, doomed) = open(&folder);
            assert!(doomed.is_empty());
            catalogue.create_tenant("public").unwrap();
            catalogue.create_namespace(&name.namespace()).unwrap();
            catalogue.create_topic(&name, None, BTreeMap::new()).unwrap();
            let old = catalogue.id(&name).unwrap();
            append(&store, old);
            let doomed = catalogue.delete_topic(&name).unwrap();
            assert_eq!((doomed.ids.as_slice(), count(&store, old)), (&[old][..], ENTRIES as u64));
            // The end of the process: the task never began.
            old
        };

        let (store, catalogue, doomed) = open(&folder);
        assert_eq!(doomed.len(), 1);
        assert!(catalogue.info(&name).is_none());
        // One of the same name is a new one; and deleting that, too, takes nothing of the first away.
        catalogue.create_topic(&name, None, BTreeMap::new()).unwrap();
        let second = catalogue.id(&name).unwrap();
        append(&store, second);
        let more = catalogue.delete_topic(&name).unwrap();
        catalogue.create_topic(&name, None, BTreeMap::new()).unwrap();
        let third = catalogue.id(&name).unwrap();
        append(&store, third);
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let removal = Removal::start(store.records(), store.entries(), &tasks, stop.clone(), doomed);
        removal.add(more);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while removal.left() > 0 {
            assert!(tokio::time::Instant::now() < deadline, "{} are left", removal.left());
            tokio::task::yield_now().await;
        }
        stop.cancel();
        tasks.close();
        tasks.wait().await;
        drop((store, catalogue, removal));

        let (store, catalogue, doomed) = open(&folder);
        assert!(doomed.is_empty());
        assert_eq!(catalogue.id(&name), Some(third));
        assert_eq!([old, second, third].map(|id| count(&store, id)), [0, 0, ENTRIES as u64]);
    }

    #[tokio::test]
    async fn a_stop_between_two_steps_leaves_the_rest_to_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let name = TopicName::new("public/default/t").unwrap();
        {
            let (store, catalogue, _) = open(&folder);
            catalogue.create_tenant("public").unwrap();
            catalogue.create_namespace(&name.namespace()).unwrap();
            catalogue.create_topic(&name, None, BTreeMap::new()).unwrap();
            append(&store, catalogue.id(&name).unwrap());
            let doomed = catalogue.delete_topic(&name).unwrap();
            let stop = CancellationToken::new();
            stop.cancel();
            let work = Work { records: store.records(), log: store.entries(), stop, left: Arc::default() };
            work.remove(&doomed).await.unwrap();
        }
        let (store, _, doomed) = open(&folder);
        assert_eq!((doomed.len(), store.entries().forgotten().unwrap()), (1, doomed[0].ids.clone()));
    }
}
