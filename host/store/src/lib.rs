//! Ledgers, cursors and metadata on local disk. Knows no protocol and no extension.
//!
//! Entries lie behind [`EntryLog`], so that measuring may choose another engine for them; metadata and
//! cursors are records by table and key. All of it is one engine (fjall, a log-structured tree) in one
//! folder, written through one journal:
//!
//! | file | holds |
//! | --- | --- |
//! | [`entries`] | the seam: what an entry is, what a log of entries does |
//! | [`records`] | metadata as JSON, and cursors |
//! | [`store`] | opening, format, errors |
//! | `log` | the seam's implementation: a queue in front of one writer, reads beside it |
//! | `writer` | the writing thread: positions, group commit, one fsync a group |
//! | `disk` | the engine: commit, failure and reopening |
//! | `health` | whether writes are taken, for whoever asks |
//! | `journal` | cutting a torn tail before the engine reads it |
//! | `layout` | bytes of keys and values |

mod disk;
pub mod entries;
mod health;
mod journal;
mod layout;
mod log;
pub mod records;
pub mod store;
mod writer;

pub use entries::{Appended, Counts, EntryLog, Position, Series, StoredEntry, TopicId};
pub use health::Paused;
pub use records::{CursorState, Records};
pub use store::{FORMAT, Options, Recovered, Store, StoreError};
