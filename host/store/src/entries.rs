//! Entries: what producers sent, in order, by topic, ledger and entry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::health::Paused;
use crate::store::StoreError;

/// A number that a topic keeps for ever; never used again after the topic is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicId(pub u64);

/// Where an entry lies. Ordered as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// Grows over the life of the store; starting the store starts a new one for each topic.
    pub ledger: u64,
    /// Counts from 0 in each ledger, without gaps.
    pub entry: u64,
}

/// An entry as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// Where it lies.
    pub position: Position,
    /// How many messages it holds.
    pub messages: u32,
    /// The producer's bytes.
    pub bytes: Bytes,
}

/// Called once an append is durable, or has failed. Runs on the writer's thread: hand it on, do no work.
pub type Appended = Box<dyn FnOnce(Result<Position, StoreError>) + Send>;

/// The appends that one producer makes in order: once one of them has failed, none after it is stored, so that
/// what is sent again does not come behind what followed it. Cheap to clone; all clones are one series.
#[derive(Clone, Debug, Default)]
pub struct Series(Arc<AtomicU8>);

impl Series {
    /// Nothing more is taken; what is queued is written.
    const ENDED: u8 = 1;
    /// Nothing that is queued is written either.
    const BROKEN: u8 = 2;

    /// Whether an append of it has failed: the next one will, too.
    pub fn has_ended(&self) -> bool {
        self.0.load(Ordering::Acquire) >= Self::ENDED
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.0.load(Ordering::Acquire) >= Self::BROKEN
    }

    /// One was refused before it was queued: those queued before it may still be stored.
    pub(crate) fn end(&self) {
        self.0.fetch_max(Self::ENDED, Ordering::AcqRel);
    }

    /// One that was queued has failed.
    pub(crate) fn break_off(&self) {
        self.0.fetch_max(Self::BROKEN, Ordering::AcqRel);
    }
}

/// The seam behind which entries lie.
///
/// Positions of a topic are given in the order of the calls, and `done` is called in that order too.
///
/// At a hundred times the entries, finding a position costs a few more steps of a search and nothing is
/// held in memory for it. At a hundred times the topics, each that takes entries costs some 60 bytes.
pub trait EntryLog: Send + Sync {
    /// Appends one entry. Returns at once; `done` is called when it would survive a crash.
    ///
    /// At most 128 MiB or 131,072 entries wait or are under way. An append beyond that is refused with
    /// [`StoreError::Busy`], and `done` is then called before this returns, so before those still under
    /// way: callers that must keep an order stop taking from their peers before that many are open.
    ///
    /// `done` gets [`StoreError::Engine`] when the disk fails (is full, for one). Nothing acknowledged is
    /// lost by that, and appends work again when the disk does: the store tries by itself, with pauses of
    /// up to ten seconds in which appends are refused with [`StoreError::Paused`]. The entry of a failed
    /// append may be found later all the same; never between acknowledged ones of its own ledger. The topic
    /// goes on in a new ledger.
    fn append(&self, topic: TopicId, bytes: Bytes, messages: u32, done: Appended) {
        self.append_in(&Series::default(), topic, bytes, messages, done);
    }

    /// As [`append`](Self::append), in a series: after one of it that failed (was refused, for one) `done` gets
    /// [`StoreError::AfterFailure`], or [`StoreError::Paused`] as long as that is so, and nothing is kept. An
    /// entry that is too long is refused alone.
    fn append_in(&self, series: &Series, topic: TopicId, bytes: Bytes, messages: u32, done: Appended);

    /// Why appends are refused right now; `None` while they are taken. Does not wait for the disk.
    fn paused(&self) -> Option<Paused>;

    /// Entries from `from` on (inclusive; across ledgers), at most `max_entries` and, after the first,
    /// `max_bytes`. Blocks on the disk. Only what is durable is seen.
    ///
    /// # Errors
    /// When the disk cannot be read.
    fn read(
        &self,
        topic: TopicId,
        from: Position,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<Vec<StoredEntry>, StoreError>;

    /// The first and the last durable entry of a topic; `None` while it has none.
    ///
    /// # Errors
    /// When the disk cannot be read.
    fn bounds(&self, topic: TopicId) -> Result<Option<(Position, Position)>, StoreError>;

    /// The number of entries, messages and bytes in a range: from `after` (exclusive; `None`: from the
    /// first) to the last. Reads two entries, however many lie between.
    ///
    /// # Errors
    /// When the disk cannot be read.
    fn count_after(&self, topic: TopicId, after: Option<Position>) -> Result<Counts, StoreError>;

    /// Forgets all entries of a topic, for good: none is seen any more, even if the machine ends meanwhile,
    /// and what is appended later is refused with [`StoreError::TopicDeleted`]. Blocks for a write,
    /// whatever the topic holds; their room is given back by [`remove`](Self::remove). No matter if the
    /// topic is forgotten already.
    ///
    /// # Errors
    /// When the disk cannot be written.
    fn forget(&self, topic: TopicId) -> Result<(), StoreError>;

    /// Removes the entries and cursors of a forgotten topic. Blocks; takes about a microsecond an entry, in
    /// steps of a thousand between which others are served and `go_on` is asked. Gives back whether it came
    /// to the end: if it did not, the topic is [`forgotten`](Self::forgotten), also after the next start.
    ///
    /// # Errors
    /// When the disk cannot be written.
    fn remove(&self, topic: TopicId, go_on: &dyn Fn() -> bool) -> Result<bool, StoreError>;

    /// The topics that are forgotten and not removed yet. Reads a few bytes a topic.
    ///
    /// # Errors
    /// When the disk cannot be read.
    fn forgotten(&self) -> Result<Vec<TopicId>, StoreError>;
}

/// How much lies in a range of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries.
    pub entries: u64,
    /// Messages in them.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}
