//! The engine on its disk: committing, and coming back after a failure.
//!
//! The engine refuses every write after one that failed, since it cannot know what reached the disk. It
//! still reads. So a failed write is answered with its error, and the engine is opened anew from what is
//! on the disk: by the writer, or by a write that comes when it is due, with growing pauses while that
//! keeps failing. Opened anew it holds all that was acknowledged, and perhaps what failed last.
//!
//! It is taken for good again once it has written something, and a file beside it as large as a group of
//! entries: on a disk with room for a few bytes each next write would fail like the one before.

use std::fs::{self, File};
use std::io::Write;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, Readable};
use parking_lot::RwLock;

use crate::entries::{Position, TopicId};
use crate::health::Health;
use crate::journal;
use crate::layout;
use crate::store::StoreError;

/// The engine's cache of blocks read, in bytes.
const CACHE_BYTES: u64 = 64 << 20;
/// Entries are collected in memory up to so many bytes, then written out in order of their keys.
const ENTRIES_IN_MEMORY_BYTES: u64 = 64 << 20;
/// The same for each of the other tables.
const RECORDS_IN_MEMORY_BYTES: u64 = 8 << 20;
/// Threads that write out and merge. Two leave a small machine its cores.
const WORKER_THREADS: usize = 2;
/// Keys that one step of a deletion removes.
const DELETE_STEP: usize = 1024;
/// The pause before the second try to reopen; the first has none, each next one doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// After a failure there has to be room for so many bytes: what the writer writes at a time.
const ROOM_BYTES: usize = 8 << 20;
/// Where that is tried out, beside the engine's folder.
const ROOM_FILE: &str = "room";
/// The store's counter that is written to see whether the engine writes.
const RECOVERIES: &str = "recoveries";

/// The engine's number for the table of entries: the first that [`Disk::create`] makes.
pub(crate) const ENTRIES_ID: u64 = 1;

const TOPIC_LIVE: u8 = 0;
const TOPIC_DELETING: u8 = 1;

/// The open engine and its tables.
pub(crate) struct Engine {
    db: Database,
    /// Topic, ledger, entry → header and bytes. The one table that grows with traffic.
    pub(crate) entries: Keyspace,
    /// Topic → whether it is being deleted; eight bytes and one for each topic that took an entry.
    pub(crate) topics: Keyspace,
    /// Table and key → JSON.
    pub(crate) records: Keyspace,
    /// Topic and subscription → cursor.
    pub(crate) cursors: Keyspace,
    /// The store's own counters.
    pub(crate) counters: Keyspace,
}

impl Engine {
    fn open(folder: &Path) -> Result<Self, StoreError> {
        let db = Database::builder(folder)
            .cache_size(CACHE_BYTES)
            .worker_threads(WORKER_THREADS)
            // Producers compress; and our check of the journal's tail reads values as they are.
            .journal_compression(fjall::CompressionType::None)
            .manual_journal_persist(true)
            .open()?;
        let table = |name, in_memory| {
            db.keyspace(name, || KeyspaceCreateOptions::default().max_memtable_size(in_memory))
        };
        let entries = table("entries", ENTRIES_IN_MEMORY_BYTES)?;
        let engine = Self {
            topics: table("topics", RECORDS_IN_MEMORY_BYTES)?,
            records: table("records", RECORDS_IN_MEMORY_BYTES)?,
            cursors: table("cursors", RECORDS_IN_MEMORY_BYTES)?,
            counters: table("counters", RECORDS_IN_MEMORY_BYTES)?,
            entries,
            db,
        };
        if engine.entries.id() != ENTRIES_ID {
            return Err(StoreError::damaged("the table of entries is not the engine's first"));
        }
        Ok(engine)
    }

    /// A view in which nothing moves.
    pub(crate) fn snapshot(&self) -> fjall::Snapshot {
        self.db.snapshot()
    }

    /// A counter's value; 0 before it was written.
    pub(crate) fn counter(&self, name: &str) -> Result<u64, StoreError> {
        let Some(value) = self.counters.get(name)? else { return Ok(0) };
        let bytes = <[u8; 8]>::try_from(&*value)
            .map_err(|_not_eight| StoreError::damaged("a counter is not eight bytes long"))?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// The last entry of a topic: its position and header.
    pub(crate) fn last_entry(
        &self,
        topic: TopicId,
    ) -> Result<Option<(Position, layout::Header)>, StoreError> {
        let Some(guard) = self.entries.prefix(layout::topic_key(topic)).next_back() else {
            return Ok(None);
        };
        let (key, value) = guard.into_inner()?;
        Ok(Some((layout::decode_entry_key(&key)?, layout::Header::decode(&value)?)))
    }
}

/// What [`Disk::topics`] finds.
#[derive(Default)]
pub(crate) struct Topics {
    /// How many are not being deleted.
    pub(crate) live: usize,
    /// Those whose deletion began and did not end.
    pub(crate) deleting: Vec<TopicId>,
}

/// Where a write can be made to fail, for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// Before anything is written.
    Write,
    /// When all is written and nothing is synced.
    Sync,
    /// When a failed engine is opened anew.
    Reopen,
}

/// What fails, for tests: in use nothing does.
pub(crate) struct Faults(Option<Box<dyn Fn(Point) -> std::io::Result<()> + Send + Sync>>);

impl Faults {
    pub(crate) fn none() -> Self {
        Self(None)
    }

    #[cfg(test)]
    pub(crate) fn new(fault: impl Fn(Point) -> std::io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(fault)))
    }

    fn check(&self, point: Point) -> Result<(), StoreError> {
        match &self.0 {
            None => Ok(()),
            Some(fault) => Ok(fault(point)?),
        }
    }
}

/// How durable a commit is when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It survives the end of the process.
    Process,
    /// It survives the end of the machine.
    Machine,
}

struct State {
    /// `None` when the last attempt to reopen it failed: then nothing can be read either.
    engine: Option<Engine>,
    /// Whether writes are refused: until the engine is open again and has written something.
    failed: bool,
    /// Failures since the last commit that went well.
    failures: u32,
    /// All failures since the start.
    ever: u64,
}

pub(crate) struct Disk {
    folder: PathBuf,
    /// Readers and committers share it; reopening has it alone. Taken last: nothing else is locked or
    /// called while it is held.
    state: RwLock<State>,
    /// Says the same as `state.failed`, with the cause, to those that must not wait for it.
    health: Arc<Health>,
    /// Called after each failure.
    on_failure: OnceLock<Box<dyn Fn() + Send + Sync>>,
    faults: Faults,
    /// Held for the life of the store, also while the engine is reopened.
    _lock: File,
}

impl Disk {
    /// Makes an empty engine in a folder that is not there yet.
    pub(crate) fn create(folder: &Path) -> Result<(), StoreError> {
        let engine = Engine::open(folder)?;
        engine.db.persist(PersistMode::SyncAll)?;
        Ok(())
    }

    pub(crate) fn open(folder: &Path, lock: File, faults: Faults) -> Result<Self, StoreError> {
        let state = State { engine: Some(Engine::open(folder)?), failed: false, failures: 0, ever: 0 };
        Ok(Self {
            folder: folder.to_owned(),
            state: RwLock::new(state),
            health: Arc::default(),
            on_failure: OnceLock::new(),
            faults,
            _lock: lock,
        })
    }

    pub(crate) fn health(&self) -> Arc<Health> {
        self.health.clone()
    }

    /// Has `listener` called after each failure; to be set once.
    pub(crate) fn on_failure(&self, listener: impl Fn() + Send + Sync + 'static) {
        if self.on_failure.set(Box::new(listener)).is_err() {
            tracing::error!("who hears of failures was told twice; the first stands");
        }
    }

    /// Reads. Works while writes fail, as long as the engine is open.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Engine) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let state = self.state.read();
        match &state.engine {
            Some(engine) => read(engine),
            None => Err(self.refusal()),
        }
    }

    /// Commits what `fill` puts into a batch, all or nothing, and gives back what it gives back.
    ///
    /// An error of `fill` is only handed on; a failed commit has the engine reopened before the next.
    pub(crate) fn commit<T>(
        &self,
        durability: Durability,
        fill: impl FnOnce(&Engine, &mut OwnedWriteBatch) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.recover()?;
        let result = {
            let state = self.state.read();
            let Some(engine) = state.engine.as_ref().filter(|_| !state.failed) else {
                return Err(self.refusal());
            };
            let mut batch = engine.db.batch();
            let filled = fill(engine, &mut batch)?;
            self.write(batch, durability).map(|()| (filled, state.failures))
        };
        match result {
            Ok((filled, 0)) => Ok(filled),
            Ok((filled, _)) => {
                self.state.write().failures = 0;
                Ok(filled)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Makes all that was committed survive the end of the machine.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let result = {
            let state = self.state.read();
            let Some(engine) = state.engine.as_ref().filter(|_| !state.failed) else {
                return Err(self.refusal());
            };
            self.faults.check(Point::Sync).and_then(|()| Ok(engine.db.persist(PersistMode::SyncAll)?))
        };
        result.map_err(|error| self.failed(error))
    }

    fn write(&self, batch: OwnedWriteBatch, durability: Durability) -> Result<(), StoreError> {
        self.faults.check(Point::Write)?;
        if let Err(error) = self.faults.check(Point::Sync) {
            batch.durability(Some(PersistMode::Buffer)).commit()?;
            return Err(error);
        }
        let mode = match durability {
            Durability::Process => PersistMode::Buffer,
            Durability::Machine => PersistMode::SyncAll,
        };
        Ok(batch.durability(Some(mode)).commit()?)
    }

    /// Whether writes fail at this moment, and how many writes and tries to recover failed since the start.
    pub(crate) fn failures(&self) -> (bool, u64) {
        let state = self.state.read();
        (state.failed, state.ever)
    }

    /// Notes a failure of a write; gives it back.
    fn failed(&self, error: StoreError) -> StoreError {
        {
            let mut state = self.state.write();
            // Another thread may have met the same failure; its pause counts.
            if !state.failed {
                let pause = self.pause(&mut state, &error);
                tracing::error!(%error, ?pause, "a write failed; nothing is written until the store is open again");
            }
        }
        self.tell();
        error
    }

    /// Refuses writes for a while; gives back how long.
    fn pause(&self, state: &mut State, error: &StoreError) -> Duration {
        let pause = pause_after(state.failures);
        state.failed = true;
        state.failures = state.failures.saturating_add(1);
        state.ever += 1;
        let cause = match error {
            // "Storage failed" is what being paused says.
            StoreError::Engine(cause) => cause.to_string(),
            other => other.to_string(),
        };
        self.health.failed(&cause, Instant::now() + pause);
        pause
    }

    fn tell(&self) {
        if let Some(listener) = self.on_failure.get() {
            listener();
        }
    }

    /// What a write is answered with while none is taken.
    fn refusal(&self) -> StoreError {
        self.health.paused().map_or(StoreError::Closed, StoreError::Paused)
    }

    /// Opens the engine anew if a write failed and the next try is due.
    ///
    /// # Errors
    /// When it is not due, or does not work: nothing can be written then.
    pub(crate) fn recover(&self) -> Result<(), StoreError> {
        if !self.state.read().failed {
            return Ok(());
        }
        let tried = {
            let mut state = self.state.write();
            if !state.failed {
                return Ok(());
            }
            if self.health.retry_at().is_some_and(|at| Instant::now() < at) {
                return Err(self.refusal());
            }
            let tried = self.reopen(&mut state);
            match &tried {
                Ok(()) => {
                    state.failed = false;
                    self.health.recovered();
                    tracing::info!(folder = %self.folder.display(), "the store is open again after a failed write");
                }
                Err(error) => {
                    let pause = self.pause(&mut state, error);
                    tracing::error!(%error, ?pause, "the store does not work yet");
                }
            }
            tried
        };
        tried.map_err(|_told_in_the_refusal| {
            self.tell();
            self.refusal()
        })
    }

    /// Opens the engine anew and has it write. As long as there is no room the old one stays, and reads.
    fn reopen(&self, state: &mut State) -> Result<(), StoreError> {
        self.faults.check(Point::Reopen)?;
        self.try_room()?;
        // The old engine has to be gone, with its lock, before the folder can be opened again.
        state.engine = None;
        // A write that ended early is a torn tail, as after a crash.
        if let Some(sentence) = journal::cut_torn_tail(&self.folder)? {
            tracing::warn!(folder = %self.folder.display(), "{sentence}");
        }
        let engine = state.engine.insert(Engine::open(&self.folder)?);
        let mut batch = engine.db.batch();
        batch.insert(&engine.counters, RECOVERIES, (engine.counter(RECOVERIES)? + 1).to_be_bytes());
        self.write(batch, Durability::Machine)
    }

    fn try_room(&self) -> Result<(), StoreError> {
        // Not zeros, for which some file systems need no room.
        let bytes = vec![0xa5; 64 * 1024];
        let path = self.folder.with_file_name(ROOM_FILE);
        let tried = File::create(&path).and_then(|mut file| {
            for _ in 0..ROOM_BYTES / bytes.len() {
                file.write_all(&bytes)?;
            }
            file.sync_all()
        });
        let removed = fs::remove_file(&path);
        Ok(tried.and(removed)?)
    }

    /// Marks a topic as being deleted, durably; from here on a crash does not bring it back.
    pub(crate) fn begin_deletion(&self, topic: TopicId) -> Result<(), StoreError> {
        self.commit(Durability::Machine, |engine, batch| {
            batch.insert(&engine.topics, layout::topic_key(topic), [TOPIC_DELETING]);
            Ok(())
        })
    }

    /// Removes what a topic has, in steps, so that no batch grows with the topic; `go_on` is asked before
    /// each. Gives back whether nothing is left.
    pub(crate) fn finish_deletion(
        &self,
        topic: TopicId,
        go_on: &dyn Fn() -> bool,
    ) -> Result<bool, StoreError> {
        for table in [|e: &Engine| e.entries.clone(), |e: &Engine| e.cursors.clone()] {
            let mut after: Option<fjall::UserKey> = None;
            loop {
                if !go_on() {
                    return Ok(false);
                }
                after = self.commit(Durability::Process, |engine, batch| {
                    let table = table(engine);
                    let prefix = layout::topic_key(topic);
                    let from = match &after {
                        None => Bound::Included(prefix.to_vec()),
                        Some(key) => Bound::Excluded(key.to_vec()),
                    };
                    let mut last = None;
                    for guard in table.range((from, Bound::<Vec<u8>>::Unbounded)).take(DELETE_STEP) {
                        let key = guard.key()?;
                        if !key.starts_with(&prefix) {
                            break;
                        }
                        batch.remove(&table, key.clone());
                        last = Some(key);
                    }
                    Ok(last)
                })?;
                if after.is_none() {
                    break;
                }
            }
        }
        self.commit(Durability::Machine, |engine, batch| {
            batch.remove(&engine.topics, layout::topic_key(topic));
            Ok(())
        })?;
        Ok(true)
    }

    /// The topics that have, or had, entries.
    pub(crate) fn topics(&self) -> Result<Topics, StoreError> {
        self.read(|engine| {
            let mut topics = Topics::default();
            for guard in engine.snapshot().iter(&engine.topics) {
                let (key, state) = guard.into_inner()?;
                if *state == [TOPIC_DELETING] {
                    let topic = <[u8; 8]>::try_from(&*key)
                        .map_err(|_not_eight| StoreError::damaged("a topic's key is not eight bytes long"))?;
                    topics.deleting.push(TopicId(u64::from_be_bytes(topic)));
                } else {
                    topics.live += 1;
                }
            }
            Ok(topics)
        })
    }

    /// Notes that a topic has entries, in the batch that brings its first.
    pub(crate) fn note_topic(engine: &Engine, batch: &mut OwnedWriteBatch, topic: TopicId) {
        batch.insert(&engine.topics, layout::topic_key(topic), [TOPIC_LIVE]);
    }
}

fn pause_after(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        n => FIRST_PAUSE.saturating_mul(1 << (n - 1).min(16)).min(LONGEST_PAUSE),
    }
}
