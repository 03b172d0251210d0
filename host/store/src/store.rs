//! Opening the store: one folder, one data format with a version, one process.
//!
//! The folder holds `format` (a line that names the version), `lock`, and `engine/`, which belongs to the
//! engine. A new engine is made beside as `engine.new` and renamed, so that a crash while it is made
//! leaves nothing that looks like data.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, Faults};
use crate::entries::EntryLog;
use crate::health::Paused;
use crate::journal;
use crate::log::Log;
use crate::records::Records;

/// The version of the data format that this weir writes and reads.
pub const FORMAT: u32 = 1;

const FORMAT_FILE: &str = "format";
const FORMAT_WORDS: &str = "weir store format ";
const LOCK_FILE: &str = "lock";
pub(crate) const ENGINE_FOLDER: &str = "engine";
const NEW_ENGINE_FOLDER: &str = "engine.new";

/// What may be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// A ledger is closed, and the next begun, after so many entries; at least 1. Default: 50,000.
    /// Pulsar: `managedLedgerMaxEntriesPerLedger`.
    pub max_entries_per_ledger: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_entries_per_ledger: 50_000 }
    }
}

/// What opening found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Topics that have taken entries.
    pub topics: usize,
    /// Sentences about what was cut off a torn tail; empty after a clean stop.
    pub repaired: Vec<String>,
}

/// Why the store could not do something.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk or the engine failed. What was acknowledged is safe; a write that failed may or may not
    /// be there later. The store tries again by itself: see [`EntryLog::append`].
    #[error("storage failed: {0}")]
    Engine(Arc<dyn std::error::Error + Send + Sync>),
    /// A write failed a while ago, and the store has not recovered. Nothing of this one was kept.
    #[error(transparent)]
    Paused(Paused),
    /// What was read is not what was written.
    #[error("stored data is damaged: {0}")]
    Damaged(Arc<str>),
    /// A record is not of the type that was asked for.
    #[error("record {key:?} of table {table} cannot be read or written")]
    Record {
        /// Which table.
        table: String,
        /// Which key.
        key: String,
        /// What JSON said.
        #[source]
        source: Arc<serde_json::Error>,
    },
    /// More is waiting to be written than may be held in memory. Nothing of this append was kept.
    #[error("{entries} entries with {bytes} bytes wait to be written, which is all that may wait")]
    Busy {
        /// How many wait.
        entries: usize,
        /// Their bytes.
        bytes: usize,
    },
    /// An earlier append of the same [`Series`](crate::Series) failed. Nothing of this one was kept.
    #[error("an entry before this one was not stored, so this one is not: the producer has to come again")]
    AfterFailure,
    /// The topic was deleted.
    #[error("topic {} is deleted", .0.0)]
    TopicDeleted(crate::entries::TopicId),
    /// A table, key or subscription name is too long.
    #[error("a name takes {bytes} bytes, the limit is {limit}")]
    KeyTooLong {
        /// Bytes with what the store adds.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// An entry is longer than the engine takes.
    #[error("an entry has {bytes} bytes, the limit is {limit}")]
    EntryTooLarge {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The store is being closed.
    #[error("the store is closed")]
    Closed,
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

impl StoreError {
    pub(crate) fn damaged(what: &str) -> Self {
        Self::Damaged(what.into())
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self::Engine(Arc::new(error))
    }
}

impl From<fjall::Error> for StoreError {
    fn from(error: fjall::Error) -> Self {
        match error {
            // The engine's own text is a debug print; the system's is a sentence.
            fjall::Error::Io(error) => Self::from(error),
            fjall::Error::Storage(fjall::LsmError::Io(error)) => Self::from(error),
            // A write behind the scenes failed; the engine logs which.
            fjall::Error::Poisoned => {
                Self::from(io::Error::other("the engine could not write out what it holds"))
            }
            other => Self::Engine(Arc::new(other)),
        }
    }
}

/// The store of one broker.
///
/// Closing it, by dropping it with everything it gave out, writes what is queued and waits for it.
pub struct Store {
    log: Arc<Log>,
}

impl Store {
    /// Opens a folder, making it if it is not there.
    ///
    /// What is left of a deletion that was interrupted is not seen, and waits for
    /// [`EntryLog::remove`]. Opening reads what the journal holds (at
    /// most some 512 MiB) and one key a topic, whatever the number of entries: at a hundred times the
    /// entries it takes no longer, at a hundred times the topics it reads a hundred times eight bytes.
    ///
    /// # Errors
    /// When it is of another format, in use, or cannot be read.
    #[expect(clippy::needless_pass_by_value, reason = "a caller makes its options for this call")]
    pub fn open(folder: &Path, options: Options) -> Result<(Self, Recovered), StoreError> {
        Self::open_with(folder, &options, Faults::none())
    }

    pub(crate) fn open_with(
        folder: &Path,
        options: &Options,
        faults: Faults,
    ) -> Result<(Self, Recovered), StoreError> {
        fs::create_dir_all(folder)?;
        let lock = lock(folder)?;
        check_format(folder)?;
        let engine = folder.join(ENGINE_FOLDER);
        let mut repaired = Vec::new();
        if engine.try_exists()? {
            repaired.extend(journal::cut_torn_tail(&engine)?);
        } else {
            let new = folder.join(NEW_ENGINE_FOLDER);
            if new.try_exists()? {
                fs::remove_dir_all(&new)?;
            }
            Disk::create(&new)?;
            fs::rename(&new, &engine)?;
            File::open(folder)?.sync_all()?;
        }
        for sentence in &repaired {
            tracing::warn!(folder = %folder.display(), "{sentence}");
        }
        let disk = Arc::new(Disk::open(&engine, lock, faults)?);
        let topics = disk.topics()?;
        let log = Log::start(disk, options, topics.deleting)?;
        Ok((Self { log: Arc::new(log) }, Recovered { topics: topics.live, repaired }))
    }

    /// The entries.
    pub fn entries(&self) -> Arc<dyn EntryLog> {
        self.log.clone()
    }

    /// Metadata and cursors.
    pub fn records(&self) -> Records {
        Records::new(self.log.clone())
    }
}

fn lock(folder: &Path) -> Result<File, StoreError> {
    let file = File::options().create(true).truncate(false).write(true).open(folder.join(LOCK_FILE))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(StoreError::InUse { folder: folder.display().to_string() }),
        Err(fs::TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Compares the folder's format with ours; a folder without data gets ours.
fn check_format(folder: &Path) -> Result<(), StoreError> {
    let path = folder.join(FORMAT_FILE);
    let found = match fs::read_to_string(&path) {
        Ok(text) if text.trim_end() == format!("{FORMAT_WORDS}{FORMAT}") => return Ok(()),
        Ok(text) => match text.trim_end().strip_prefix(FORMAT_WORDS) {
            Some(version) => version.chars().take(16).collect(),
            None => "unknown (its file `format` is not ours)".to_owned(),
        },
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            "unknown (its file `format` is not text)".to_owned()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if !folder.join(ENGINE_FOLDER).try_exists()? {
                return write_format(folder, &path);
            }
            "unknown (its file `format` is missing)".to_owned()
        }
        Err(error) => return Err(error.into()),
    };
    Err(StoreError::Format { folder: folder.display().to_string(), found, expected: FORMAT })
}

fn write_format(folder: &Path, path: &Path) -> Result<(), StoreError> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    writeln!(file, "{FORMAT_WORDS}{FORMAT}")?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(folder)?.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests;
