//! The writing thread: takes what is queued, gives positions, writes one batch, syncs once, answers.
//!
//! While one group is being synced the next one gathers, so a slower disk makes larger groups instead of
//! a longer queue: an append alone costs one fsync, a thousand at once cost one fsync too.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_channel::Sender;
use fjall::OwnedWriteBatch;
use parking_lot::{Condvar, Mutex, RwLock};

use crate::disk::{Disk, Durability, Engine};
use crate::entries::{Appended, Counts, Position, Series, TopicId};
use crate::health::Health;
use crate::layout;
use crate::store::StoreError;

/// Bytes of entries that may wait or be under way. An entry larger than that is taken alone.
pub(crate) const MAX_HELD_BYTES: usize = 128 << 20;
/// Entries that may wait or be under way, however small.
pub(crate) const MAX_HELD_ENTRIES: usize = 128 * 1024;
/// A group is closed once it has so many bytes: what one fsync writes, and the engine holds once more.
const GROUP_BYTES: usize = 8 << 20;
/// A group is closed once it has so many entries.
const GROUP_ENTRIES: usize = 8 * 1024;
/// Cursors are synced after so long; [`crate::Records::put_cursor`] promises a second.
const SYNC_WITHIN: Duration = Duration::from_millis(500);

const NEXT_LEDGER: &str = "next-ledger";

/// One entry to be appended.
pub(crate) struct Append {
    pub(crate) series: Series,
    pub(crate) topic: TopicId,
    pub(crate) bytes: Bytes,
    pub(crate) messages: u32,
    pub(crate) done: Appended,
}

enum Job {
    Append(Append),
    Delete { topic: TopicId, answer: Sender<Result<(), StoreError>> },
}

enum Work {
    Group {
        appends: Vec<Append>,
        covers_sync: bool,
    },
    Delete {
        topic: TopicId,
        answer: Sender<Result<(), StoreError>>,
    },
    Sync,
    /// To open the engine anew after a failure, whether or not anybody writes.
    Recover,
    Stop,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// Entries waiting or under way, and their bytes.
    entries: usize,
    bytes: usize,
    /// When something that only survives the process has to be synced.
    sync_at: Option<Instant>,
    closing: bool,
}

/// What waits for the writer. Bounded by [`MAX_HELD_BYTES`] and [`MAX_HELD_ENTRIES`].
pub(crate) struct Queue {
    /// Held for a push or a pop, never while something is written or called but `health`.
    waiting: Mutex<Waiting>,
    changed: Condvar,
    health: Arc<Health>,
}

impl Queue {
    pub(crate) fn new(health: Arc<Health>) -> Self {
        Self { waiting: Mutex::default(), changed: Condvar::new(), health }
    }

    /// Wakes the writer: it is to look when the next try is due.
    pub(crate) fn look_again(&self) {
        // Under the lock, so that a writer that has just looked is waiting by now.
        let _looked = self.waiting.lock();
        self.changed.notify_one();
    }

    /// Takes an append, or answers it at once with the reason why not.
    pub(crate) fn push(&self, append: Append) {
        let mut waiting = self.waiting.lock();
        let bytes = waiting.bytes.saturating_add(append.bytes.len());
        let full = bytes > MAX_HELD_BYTES || waiting.entries >= MAX_HELD_ENTRIES;
        let refusal = if waiting.closing {
            StoreError::Closed
        } else if append.series.has_ended() {
            self.health.paused().map_or(StoreError::AfterFailure, StoreError::Paused)
        } else if full && waiting.entries > 0 {
            StoreError::Busy { entries: waiting.entries, bytes: waiting.bytes }
        } else {
            waiting.bytes = bytes;
            waiting.entries += 1;
            waiting.jobs.push_back(Job::Append(append));
            drop(waiting);
            self.changed.notify_one();
            return;
        };
        // Under the lock: whoever queues the next one of it finds it ended.
        append.series.end();
        drop(waiting);
        (append.done)(Err(refusal));
    }

    pub(crate) fn delete(&self, topic: TopicId, answer: Sender<Result<(), StoreError>>) {
        self.waiting.lock().jobs.push_back(Job::Delete { topic, answer });
        self.changed.notify_one();
    }

    pub(crate) fn sync_soon(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.sync_at.is_none() {
            waiting.sync_at = Some(Instant::now() + SYNC_WITHIN);
            drop(waiting);
            self.changed.notify_one();
        }
    }

    pub(crate) fn close(&self) {
        self.waiting.lock().closing = true;
        self.changed.notify_one();
    }

    fn next(&self) -> Work {
        let mut waiting = self.waiting.lock();
        loop {
            match waiting.jobs.pop_front() {
                Some(Job::Delete { topic, answer }) => return Work::Delete { topic, answer },
                Some(Job::Append(first)) => return waiting.group(first),
                None => {}
            }
            if waiting.sync_at.is_some_and(|at| waiting.closing || at <= Instant::now()) {
                waiting.sync_at = None;
                return Work::Sync;
            }
            if waiting.closing {
                return Work::Stop;
            }
            let retry_at = self.health.retry_at();
            if retry_at.is_some_and(|at| at <= Instant::now()) {
                return Work::Recover;
            }
            match waiting.sync_at.into_iter().chain(retry_at).min() {
                Some(at) => drop(self.changed.wait_until(&mut waiting, at)),
                None => self.changed.wait(&mut waiting),
            }
        }
    }

    fn written(&self, entries: usize, bytes: usize) {
        let mut waiting = self.waiting.lock();
        waiting.entries -= entries;
        waiting.bytes -= bytes;
    }
}

impl Waiting {
    /// What may go with `first` into one batch.
    fn group(&mut self, first: Append) -> Work {
        let mut bytes = first.bytes.len();
        let mut appends = vec![first];
        while bytes < GROUP_BYTES && appends.len() < GROUP_ENTRIES {
            match self.jobs.pop_front() {
                Some(Job::Append(append)) => {
                    bytes += append.bytes.len();
                    appends.push(append);
                }
                Some(delete) => {
                    self.jobs.push_front(delete);
                    break;
                }
                None => break,
            }
        }
        Work::Group { appends, covers_sync: self.sync_at.take().is_some() }
    }
}

/// Where a topic's next entry goes.
#[derive(Clone, Copy)]
struct Tail {
    ledger: u64,
    next_entry: u64,
    /// What the topic has taken so far.
    taken: Counts,
}

/// The topics deleted since the start, so that a late append makes no ghost. Eight bytes a deletion.
pub(crate) type Deleted = RwLock<HashSet<TopicId>>;

pub(crate) struct Writer {
    pub(crate) disk: Arc<Disk>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) deleted: Arc<Deleted>,
    pub(crate) max_entries_per_ledger: u64,
    /// The topics that took entries since the start; about 60 bytes each, so 100,000 busy topics take 6 MB.
    tails: HashMap<TopicId, Tail>,
}

impl Writer {
    pub(crate) fn new(
        disk: Arc<Disk>,
        queue: Arc<Queue>,
        deleted: Arc<Deleted>,
        max_entries_per_ledger: u64,
    ) -> Self {
        let max_entries_per_ledger = max_entries_per_ledger.max(1);
        Self { disk, queue, deleted, max_entries_per_ledger, tails: HashMap::new() }
    }

    /// Works until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        loop {
            match self.queue.next() {
                Work::Group { appends, covers_sync } => {
                    if !self.write(appends) && covers_sync {
                        self.queue.sync_soon();
                    }
                }
                Work::Delete { topic, answer } => {
                    let result = self.begin_deletion(topic);
                    // Who asked may have gone; the deletion stands and is finished at the next start.
                    let _ = answer.send(result);
                }
                Work::Sync => {
                    if let Err(error) = self.disk.sync() {
                        tracing::warn!(%error, "cursors not synced; the next write tries again");
                    }
                }
                // What became of it is logged there.
                Work::Recover => drop(self.disk.recover()),
                Work::Stop => return,
            }
        }
    }

    /// Writes a group and answers each of it, in order. Returns whether it was written.
    fn write(&mut self, appends: Vec<Append>) -> bool {
        let (entries, bytes) = (appends.len(), appends.iter().map(|append| append.bytes.len()).sum());
        let disk = self.disk.clone();
        let result = disk.commit(Durability::Machine, |engine, batch| self.fill(engine, batch, &appends));
        let written = result.is_ok();
        match result {
            Ok((tails, positions)) => {
                self.tails.extend(tails);
                for (append, position) in appends.into_iter().zip(positions) {
                    if position.is_err() {
                        append.series.break_off();
                    }
                    answer(append.done, position);
                }
            }
            Err(error) => {
                for append in &appends {
                    // What failed may be found again when the engine is reopened: these topics go on in
                    // a new ledger, after whatever is there then.
                    self.tails.remove(&append.topic);
                    append.series.break_off();
                }
                for append in appends {
                    answer(append.done, Err(error.clone()));
                }
            }
        }
        self.queue.written(entries, bytes);
        written
    }

    /// Puts a group into a batch. Changes nothing of ours: the commit may still fail.
    #[expect(clippy::type_complexity, reason = "two results of one pass, named where they are taken apart")]
    fn fill(
        &self,
        engine: &Engine,
        batch: &mut OwnedWriteBatch,
        appends: &[Append],
    ) -> Result<(HashMap<TopicId, Tail>, Vec<Result<Position, StoreError>>), StoreError> {
        let mut tails = HashMap::new();
        let mut positions = Vec::with_capacity(appends.len());
        let first_ledger = engine.counter(NEXT_LEDGER)?;
        let mut next_ledger = first_ledger;
        for append in appends {
            let topic = append.topic;
            if append.series.is_broken() {
                positions.push(Err(StoreError::AfterFailure));
                continue;
            }
            if self.deleted.read().contains(&topic) {
                positions.push(Err(StoreError::TopicDeleted(topic)));
                continue;
            }
            let mut tail = match tails.get(&topic).or_else(|| self.tails.get(&topic)) {
                Some(tail) => *tail,
                None => {
                    let taken = match engine.last_entry(topic)? {
                        Some((_, header)) => header.through(),
                        None => {
                            Disk::note_topic(engine, batch, topic);
                            Counts::default()
                        }
                    };
                    next_ledger += 1;
                    Tail { ledger: next_ledger - 1, next_entry: 0, taken }
                }
            };
            if tail.next_entry >= self.max_entries_per_ledger {
                tail.ledger = next_ledger;
                tail.next_entry = 0;
                next_ledger += 1;
            }
            let position = Position { ledger: tail.ledger, entry: tail.next_entry };
            let value = layout::encode_entry(append.messages, tail.taken, &append.bytes);
            batch.insert(&engine.entries, layout::entry_key(topic, position), value);
            tail.next_entry += 1;
            tail.taken.entries += 1;
            tail.taken.messages += u64::from(append.messages);
            tail.taken.bytes += append.bytes.len() as u64;
            tails.insert(topic, tail);
            positions.push(Ok(position));
        }
        if next_ledger != first_ledger {
            batch.insert(&engine.counters, NEXT_LEDGER, next_ledger.to_be_bytes());
        }
        Ok((tails, positions))
    }

    fn begin_deletion(&mut self, topic: TopicId) -> Result<(), StoreError> {
        self.disk.begin_deletion(topic)?;
        self.deleted.write().insert(topic);
        self.tails.remove(&topic);
        Ok(())
    }
}

/// Calls what the caller gave us. It must not panic; if it does, the others still get their answers.
fn answer(done: Appended, result: Result<Position, StoreError>) {
    if catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
        tracing::error!("a callback of an append panicked");
    }
}
