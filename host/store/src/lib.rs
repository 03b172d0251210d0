//! Ledgers, cursors and metadata on local disk. Knows no protocol and no extension.
//!
//! Entries lie behind [`EntryLog`], so that measuring may choose another engine for them; metadata and
//! cursors are records by table and key.

pub mod entries;
pub mod records;
pub mod store;

pub use entries::{Appended, EntryLog, Position, StoredEntry, TopicId};
pub use records::{CursorState, Records};
pub use store::{Options, Recovered, Store, StoreError};
