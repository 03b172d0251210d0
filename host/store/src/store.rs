//! Opening the store: one folder, one data format with a version, one process.

use std::path::Path;
use std::sync::Arc;

use crate::entries::EntryLog;
use crate::records::Records;

/// The version of the data format that this weir writes and reads.
pub const FORMAT: u32 = 1;

/// What may be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// A ledger is closed, and the next begun, after so many entries. Pulsar: `managedLedgerMaxEntriesPerLedger`.
    pub max_entries_per_ledger: u64,
}

/// What opening found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Topics with entries.
    pub topics: usize,
    /// Sentences about what was cut off a torn tail; empty after a clean stop.
    pub repaired: Vec<String>,
}

/// Why the store could not do something.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk or the engine failed.
    #[error("storage failed: {0}")]
    Engine(Arc<dyn std::error::Error + Send + Sync>),
    /// The folder holds another format.
    #[error("{folder} holds data of format {found}, this weir reads format {expected}")]
    Format {
        /// Which folder.
        folder: String,
        /// What it holds.
        found: String,
        /// What we read.
        expected: u32,
    },
    /// Another process has the folder open.
    #[error("{folder} is in use by another process")]
    InUse {
        /// Which folder.
        folder: String,
    },
}

/// The store of one broker.
pub struct Store {}

impl Store {
    /// Opens a folder, making it if it is not there.
    ///
    /// # Errors
    /// When it is of another format, in use, or cannot be read.
    pub fn open(folder: &Path, options: Options) -> Result<(Self, Recovered), StoreError> {
        let _ = (folder, options);
        todo!()
    }

    /// The entries.
    pub fn entries(&self) -> Arc<dyn EntryLog> {
        todo!()
    }

    /// Metadata and cursors.
    pub fn records(&self) -> Records {
        todo!()
    }
}
