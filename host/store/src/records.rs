//! Records: metadata as JSON by table and key, and cursors.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::entries::{Position, TopicId};
use crate::store::StoreError;

/// Metadata and cursors. Cheap to clone.
#[derive(Clone)]
pub struct Records {}

/// How far a subscription has come. An entry is done when it lies at or before `mark_delete`, or in
/// `acked` with `None`; `Some` holds the batch indexes that are still to be acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CursorState {
    /// Everything up to here is acknowledged; `None`: nothing yet, from the first entry on.
    pub mark_delete: Option<Position>,
    /// What is acknowledged, wholly or in part, beyond it.
    pub acked: BTreeMap<Position, Option<Vec<u32>>>,
}

impl Records {
    /// One record; `None` if there is none.
    ///
    /// # Errors
    /// When the disk cannot be read, or the record is not of this type.
    pub fn get<T: DeserializeOwned>(&self, table: &str, key: &str) -> Result<Option<T>, StoreError> {
        let _ = (table, key);
        todo!()
    }

    /// Writes one record; durable when this returns.
    ///
    /// # Errors
    /// When the disk cannot be written.
    pub fn put<T: Serialize>(&self, table: &str, key: &str, value: &T) -> Result<(), StoreError> {
        let _ = (table, key, value);
        todo!()
    }

    /// Deletes one record; durable when this returns.
    ///
    /// # Errors
    /// When the disk cannot be written.
    pub fn delete(&self, table: &str, key: &str) -> Result<(), StoreError> {
        let _ = (table, key);
        todo!()
    }

    /// All records of a table whose key begins with `prefix`, in the order of the keys.
    ///
    /// # Errors
    /// When the disk cannot be read, or a record is not of this type.
    pub fn scan<T: DeserializeOwned>(
        &self,
        table: &str,
        prefix: &str,
    ) -> Result<Vec<(String, T)>, StoreError> {
        let _ = (table, prefix);
        todo!()
    }

    /// Writes a cursor. Survives the end of the process at once, and the end of the machine within a
    /// second: an acknowledgement lost with a machine only means a message delivered again.
    ///
    /// # Errors
    /// When the disk cannot be written.
    pub fn put_cursor(
        &self,
        topic: TopicId,
        subscription: &str,
        cursor: &CursorState,
    ) -> Result<(), StoreError> {
        let _ = (topic, subscription, cursor);
        todo!()
    }

    /// All cursors of a topic, by subscription.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub fn cursors(&self, topic: TopicId) -> Result<Vec<(String, CursorState)>, StoreError> {
        let _ = topic;
        todo!()
    }

    /// Forgets a cursor; durable when this returns.
    ///
    /// # Errors
    /// When the disk cannot be written.
    pub fn delete_cursor(&self, topic: TopicId, subscription: &str) -> Result<(), StoreError> {
        let _ = (topic, subscription);
        todo!()
    }
}
