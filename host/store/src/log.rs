//! [`EntryLog`] on the engine: appends go to the writer's queue, reads go to the engine at once.

use std::ops::Bound;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use fjall::Readable;
use parking_lot::{Mutex, RwLock};

use crate::disk::Disk;
use crate::entries::{Appended, Counts, EntryLog, Position, Series, StoredEntry, TopicId};
use crate::health::Paused;
use crate::layout::{self, HEADER_BYTES, Header};
use crate::store::{Options, StoreError};
use crate::writer::{Append, Deleted, Queue, Writer};

/// The engine's limit for a value, less our header.
const MAX_ENTRY_BYTES: usize = u32::MAX as usize - HEADER_BYTES;

const LAST: Position = Position { ledger: u64::MAX, entry: u64::MAX };
const FIRST: Position = Position { ledger: 0, entry: 0 };

pub(crate) struct Log {
    pub(crate) disk: Arc<Disk>,
    queue: Arc<Queue>,
    deleted: Arc<Deleted>,
    writer: Option<JoinHandle<()>>,
    /// Held while a topic's number is taken; nothing else is locked inside but the disk.
    pub(crate) new_topic: Mutex<()>,
}

impl Log {
    /// Starts the writer. Nothing is seen of the topics that are being deleted.
    pub(crate) fn start(
        disk: Arc<Disk>,
        options: &Options,
        deleting: impl IntoIterator<Item = TopicId>,
    ) -> Result<Self, StoreError> {
        let queue = Arc::new(Queue::new(disk.health()));
        let deleted: Arc<Deleted> = Arc::new(RwLock::new(deleting.into_iter().collect()));
        let waiting = queue.clone();
        disk.on_failure(move || waiting.look_again());
        let writer =
            Writer::new(disk.clone(), queue.clone(), deleted.clone(), options.max_entries_per_ledger);
        let writer = thread::Builder::new().name("weir-store".to_owned()).spawn(|| writer.run())?;
        Ok(Self { disk, queue, deleted, writer: Some(writer), new_topic: Mutex::new(()) })
    }

    pub(crate) fn sync_soon(&self) {
        self.queue.sync_soon();
    }

    fn is_deleted(&self, topic: TopicId) -> bool {
        self.deleted.read().contains(&topic)
    }
}

impl EntryLog for Log {
    fn append_in(&self, series: &Series, topic: TopicId, bytes: Bytes, messages: u32, done: Appended) {
        if bytes.len() > MAX_ENTRY_BYTES {
            return done(Err(StoreError::EntryTooLarge { bytes: bytes.len(), limit: MAX_ENTRY_BYTES }));
        }
        self.queue.push(Append { series: series.clone(), topic, bytes, messages, done });
    }

    fn paused(&self) -> Option<Paused> {
        self.disk.health().paused()
    }

    fn read(
        &self,
        topic: TopicId,
        from: Position,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<Vec<StoredEntry>, StoreError> {
        if self.is_deleted(topic) {
            return Ok(Vec::new());
        }
        self.disk.read(|engine| {
            let (mut entries, mut bytes) = (Vec::new(), 0_usize);
            let range = layout::entry_key(topic, from)..=layout::entry_key(topic, LAST);
            for guard in engine.snapshot().range(&engine.entries, range).take(max_entries) {
                let (key, value) = guard.into_inner()?;
                let entry = layout::decode_entry(&key, value)?;
                bytes = bytes.saturating_add(entry.bytes.len());
                if bytes > max_bytes && !entries.is_empty() {
                    break;
                }
                entries.push(entry);
            }
            Ok(entries)
        })
    }

    fn bounds(&self, topic: TopicId) -> Result<Option<(Position, Position)>, StoreError> {
        if self.is_deleted(topic) {
            return Ok(None);
        }
        self.disk.read(|engine| {
            let prefix = layout::topic_key(topic);
            let mut entries = engine.snapshot().prefix(&engine.entries, prefix);
            let Some(first) = entries.next() else { return Ok(None) };
            let first = layout::decode_entry_key(&first.key()?)?;
            let last = match entries.next_back() {
                Some(last) => layout::decode_entry_key(&last.key()?)?,
                None => first,
            };
            Ok(Some((first, last)))
        })
    }

    fn count_after(&self, topic: TopicId, after: Option<Position>) -> Result<Counts, StoreError> {
        if self.is_deleted(topic) {
            return Ok(Counts::default());
        }
        // Each entry says how much lies before it, so the two ends are enough.
        self.disk.read(|engine| {
            let from = match after {
                None => Bound::Included(layout::entry_key(topic, FIRST)),
                Some(after) => Bound::Excluded(layout::entry_key(topic, after)),
            };
            let range = (from, Bound::Included(layout::entry_key(topic, LAST)));
            let mut entries = engine.snapshot().range(&engine.entries, range);
            let Some(first) = entries.next() else { return Ok(Counts::default()) };
            let first = Header::decode(&first.value()?)?;
            let last = match entries.next_back() {
                Some(last) => Header::decode(&last.value()?)?,
                None => first,
            };
            let (to, from) = (last.through(), first.before);
            Ok(Counts {
                entries: to.entries - from.entries,
                messages: to.messages - from.messages,
                bytes: to.bytes - from.bytes,
            })
        })
    }

    fn forget(&self, topic: TopicId) -> Result<(), StoreError> {
        let (answer, answered) = crossbeam_channel::bounded(1);
        self.queue.delete(topic, answer);
        // The writer answers all that is queued before it ends.
        answered.recv().map_err(|_writer_gone| StoreError::Closed)?
    }

    fn remove(&self, topic: TopicId, go_on: &dyn Fn() -> bool) -> Result<bool, StoreError> {
        self.disk.finish_deletion(topic, go_on)
    }

    fn forgotten(&self) -> Result<Vec<TopicId>, StoreError> {
        Ok(self.disk.topics()?.deleting)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.queue.close();
        let Some(writer) = self.writer.take() else { return };
        // The last holder may be a callback, which runs on the writer: it ends by itself then.
        if writer.thread().id() != thread::current().id() && writer.join().is_err() {
            tracing::error!("the store's writer had panicked");
        }
    }
}
