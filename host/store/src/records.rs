//! Records: metadata as JSON by table and key, and cursors.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::disk::Durability;
use crate::entries::{Position, TopicId};
use crate::layout;
use crate::log::Log;
use crate::store::StoreError;

const NEXT_TOPIC: &str = "next-topic";

/// Metadata and cursors. Cheap to clone. All calls block on the disk.
///
/// A durable write is one fsync (some 0.1 ms on an SSD) that nobody shares: fit for what people and
/// connections do, not for what messages do. A table is read whole at a start, so a hundred times the
/// topics means a hundred times the start; one key costs the same at any size.
#[derive(Clone)]
pub struct Records {
    log: Arc<Log>,
}

/// How far a subscription has come: everything up to `mark_delete`, what lies in `done`, and of what is in
/// `partly` all but the indexes named there.
///
/// Its size grows with the holes in what is acknowledged, not with the acknowledgements. Of more than
/// 100,000 runs, or partly acknowledged entries, only the first so many are kept; what is left out is
/// delivered again after a restart. Pulsar: `managedLedgerMaxUnackedRangesToPersist`, 10,000.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CursorState {
    /// Everything up to here is acknowledged; `None`: nothing yet, from the first entry on.
    pub mark_delete: Option<Position>,
    /// Runs beyond it, ascending: after the first position (exclusive) up to the second (inclusive) every
    /// entry is acknowledged.
    pub done: Vec<(Position, Position)>,
    /// Batches beyond it, ascending, of which only these indexes are still to be acknowledged.
    pub partly: Vec<(Position, Vec<u32>)>,
}

impl Records {
    pub(crate) fn new(log: Arc<Log>) -> Self {
        Self { log }
    }

    /// Whether the store cannot be written at this moment, and how often writing it has failed since the
    /// start, each vain try to open it again included. Does not touch the disk.
    pub fn failures(&self) -> (bool, u64) {
        self.log.disk.failures()
    }

    /// A number for a new topic, never given before and never again, also after a crash.
    ///
    /// # Errors
    /// When the disk cannot be written.
    pub fn new_topic_id(&self) -> Result<TopicId, StoreError> {
        // Two threads must not read the same number.
        let _one_at_a_time = self.log.new_topic.lock();
        self.log.disk.commit(Durability::Machine, |engine, batch| {
            let next = engine.counter(NEXT_TOPIC)?;
            batch.insert(&engine.counters, NEXT_TOPIC, (next + 1).to_be_bytes());
            Ok(TopicId(next))
        })
    }

    /// One record; `None` if there is none.
    ///
    /// # Errors
    /// When the disk cannot be read, or the record is not of this type.
    pub fn get<T: DeserializeOwned>(&self, table: &str, key: &str) -> Result<Option<T>, StoreError> {
        let encoded = layout::record_key(table, key)?;
        match self.log.disk.read(|engine| Ok(engine.records.get(&encoded)?))? {
            None => Ok(None),
            Some(value) => serde_json::from_slice(&value).map(Some).map_err(record_error(table, key)),
        }
    }

    /// Writes one record; durable when this returns.
    ///
    /// # Errors
    /// When the disk cannot be written, or the key is longer than 32 KiB.
    pub fn put<T: Serialize>(&self, table: &str, key: &str, value: &T) -> Result<(), StoreError> {
        let encoded = layout::record_key(table, key)?;
        let value = serde_json::to_vec(value).map_err(record_error(table, key))?;
        self.log.disk.commit(Durability::Machine, |engine, batch| {
            batch.insert(&engine.records, encoded, value);
            Ok(())
        })
    }

    /// Deletes the record at `from` and writes one at `to`, both or neither; durable when this returns. Each
    /// is a table and a key.
    ///
    /// # Errors
    /// When the disk cannot be written, or the key is longer than 32 KiB.
    pub fn replace<T: Serialize>(
        &self,
        from: (&str, &str),
        to: (&str, &str),
        value: &T,
    ) -> Result<(), StoreError> {
        let (old, new) = (layout::record_key(from.0, from.1)?, layout::record_key(to.0, to.1)?);
        let value = serde_json::to_vec(value).map_err(record_error(to.0, to.1))?;
        self.log.disk.commit(Durability::Machine, |engine, batch| {
            batch.remove(&engine.records, old);
            batch.insert(&engine.records, new, value);
            Ok(())
        })
    }

    /// Deletes one record, or nothing if there is none; durable when this returns.
    ///
    /// # Errors
    /// When the disk cannot be written.
    pub fn delete(&self, table: &str, key: &str) -> Result<(), StoreError> {
        let encoded = layout::record_key(table, key)?;
        self.log.disk.commit(Durability::Machine, |engine, batch| {
            batch.remove(&engine.records, encoded);
            Ok(())
        })
    }

    /// All records of a table whose key begins with `prefix`, in the order of the keys' bytes.
    ///
    /// # Errors
    /// When the disk cannot be read, or a record is not of this type.
    pub fn scan<T: DeserializeOwned>(
        &self,
        table: &str,
        prefix: &str,
    ) -> Result<Vec<(String, T)>, StoreError> {
        let start = layout::record_key(table, prefix)?;
        let skip = start.len() - prefix.len();
        self.log.disk.read(|engine| {
            let mut records = Vec::new();
            for guard in engine.records.prefix(&start) {
                let (key, value) = guard.into_inner()?;
                let key = text(&key[skip..])?;
                let record = serde_json::from_slice(&value).map_err(record_error(table, &key))?;
                records.push((key, record));
            }
            Ok(records)
        })
    }

    /// Writes a cursor. Survives the end of the process at once, and the end of the machine within a
    /// second: an acknowledgement lost with a machine only means a message delivered again.
    ///
    /// Waits for the fsync that may be under way, so some tenths of a millisecond.
    ///
    /// # Errors
    /// When the disk cannot be written, or the subscription's name is longer than 32 KiB.
    pub fn put_cursor(
        &self,
        topic: TopicId,
        subscription: &str,
        cursor: &CursorState,
    ) -> Result<(), StoreError> {
        let key = layout::cursor_key(topic, subscription)?;
        let value = layout::encode_cursor(cursor);
        self.log.disk.commit(Durability::Process, |engine, batch| {
            batch.insert(&engine.cursors, key, value);
            Ok(())
        })?;
        self.log.sync_soon();
        Ok(())
    }

    /// All cursors of a topic, by subscription.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub fn cursors(&self, topic: TopicId) -> Result<Vec<(String, CursorState)>, StoreError> {
        let prefix = layout::topic_key(topic);
        self.log.disk.read(|engine| {
            let mut cursors = Vec::new();
            for guard in engine.cursors.prefix(prefix) {
                let (key, value) = guard.into_inner()?;
                cursors.push((text(&key[prefix.len()..])?, layout::decode_cursor(&value)?));
            }
            Ok(cursors)
        })
    }

    /// Forgets a cursor, or nothing if there is none; durable when this returns.
    ///
    /// # Errors
    /// When the disk cannot be written.
    pub fn delete_cursor(&self, topic: TopicId, subscription: &str) -> Result<(), StoreError> {
        let key = layout::cursor_key(topic, subscription)?;
        self.log.disk.commit(Durability::Machine, |engine, batch| {
            batch.remove(&engine.cursors, key);
            Ok(())
        })
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").finish_non_exhaustive()
    }
}

fn record_error(table: &str, key: &str) -> impl FnOnce(serde_json::Error) -> StoreError {
    let (table, key) = (table.to_owned(), key.to_owned());
    move |source| StoreError::Record { table, key, source: Arc::new(source) }
}

fn text(bytes: &[u8]) -> Result<String, StoreError> {
    String::from_utf8(bytes.to_vec()).map_err(|_not_text| StoreError::damaged("a key is not text"))
}
