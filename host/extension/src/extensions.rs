//! The one door and the one table: artifacts come in by [`Extensions::register`], and whoever calls an
//! extension finds the one in force here.
//!
//! Readers take one atomic load and never wait. Whoever changes the table opens, describes and
//! configures first, under no lock, and only then takes the writer's lock to write the change down and
//! to swap the table.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};

mod errors;
mod info;
mod key;
mod schema;
mod table;
mod version;

pub use errors::{ConfigError, RegisterError, RemoveError, Unavailable};
pub use info::{ExtensionInfo, Inspection, RefusedFile, Registered};
pub use key::{ClassName, Form, Key, Kind, Scope};
pub use schema::{MAX_CONFIG_BYTES, MAX_SCHEMA_BYTES};
pub use version::{Configured, Counts, Tally};

use crate::builtin::Builtin;
use key::Checksums;
use table::{Entry, Origin, Record, Registration, Table};
use version::Version;

/// Where an artifact comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A settled file of the drop folder. May be either form.
    File(PathBuf),
    /// Bytes that arrived on a socket (REST, later request 302). Components only.
    Upload {
        /// The class that the request names; the artifact must declare the same.
        class: ClassName,
        /// The artifact.
        bytes: Bytes,
        /// The CRC32 that the request declares (`X-Weir-Crc32`); checked if given.
        crc32: Option<u32>,
        /// The SHA-256 that the request declares (`X-Weir-Sha256`), in hex; checked if given.
        sha256: Option<String>,
        /// Who sent it, for the listing: `PUT from 127.0.0.1:41000`.
        from: String,
    },
}

/// The table of extensions.
pub struct Extensions {
    table: ArcSwap<Table>,
    /// Grows after each swap that a caller of an extension could notice.
    generation: AtomicU64,
    /// Taken by whoever changes the table; never across a call into an extension.
    writer: Mutex<()>,
}

impl Extensions {
    /// A table of built-ins only: no folder, nothing on disk, nothing to register.
    pub fn with_builtins(builtins: Vec<Builtin>) -> Arc<Self> {
        let extensions = Arc::new(Self {
            table: ArcSwap::default(),
            generation: AtomicU64::new(0),
            writer: Mutex::new(()),
        });
        for builtin in builtins {
            extensions.put_builtin(builtin);
        }
        extensions
    }

    /// Puts a built-in into the table, in place of the one of that class.
    ///
    /// # Panics
    /// When its schema is no JSON Schema: that is a mistake in weir.
    pub fn put_builtin(&self, builtin: Builtin) {
        let version = Version::new(Form::BuiltIn, Arc::new(builtin))
            .expect("a built-in declares a kind and a valid JSON Schema");
        let description = version.description();
        let key = Key::installed(description.class.clone());
        let record = Record {
            checksums: Checksums { crc32: 0, sha256: String::new(), size: 0 },
            form: Form::BuiltIn,
            origin: Origin::BuiltIn,
            since: SystemTime::now(),
            version: description.version.clone(),
            kinds: description.kinds.clone(),
            contract: description.contract.clone(),
        };
        let entry = Entry {
            registration: Registration { key: key.clone(), in_force: record, kept: Vec::new() },
            default: version.configured(&no_config()),
            opened: Ok(Arc::new(version)),
            config: None,
            last_error: None,
        };
        let _writer = self.writer.lock();
        self.swap(|table| {
            table.entries.insert(key, Arc::new(entry));
        });
    }

    /// The one door. Reads, sniffs, checks and loads an artifact, and swaps it in.
    ///
    /// Blocks while a component is compiled; call it off the async threads.
    ///
    /// # Errors
    /// Each leaves the version in force as it was.
    pub fn register(&self, source: Source) -> Result<Registered, RegisterError> {
        let _ = source;
        todo!()
    }

    /// Takes a built-in out of the table; gives back whether it was there. Calls in flight end on it.
    pub fn remove_builtin(&self, class: &ClassName) -> bool {
        let key = Key::installed(class.clone());
        let _writer = self.writer.lock();
        let there = self.table.load().entries.get(&key).is_some_and(|entry| entry.is_built_in());
        if there {
            self.swap(|table| {
                table.entries.remove(&key);
            });
        }
        there
    }

    /// The extension of that class, ready to make instances, with this configuration or (if `None`) the
    /// one registered for the class. Costs one atomic load and a look-up once it has been asked for.
    ///
    /// # Errors
    /// When it cannot be called: delivery pauses then, unless the policy says otherwise.
    pub fn configured(
        &self,
        class: &ClassName,
        kind: Kind,
        config: Option<&Value>,
    ) -> Result<Arc<Configured>, Unavailable> {
        let entry = self.entry(class).ok_or_else(|| Unavailable::Missing { class: class.clone() })?;
        entry.configured(kind, config)
    }

    /// A number that grows whenever an answer of [`configured`](Self::configured) may have changed. One
    /// atomic load: ask before you look up, and look up again when it has grown.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Everything registered, by class name.
    pub fn list(&self) -> Vec<ExtensionInfo> {
        let table = self.table.load();
        let mut list: Vec<_> = table.entries.values().map(|entry| entry.info()).collect();
        list.sort_by(|a, b| a.class.cmp(&b.class));
        list
    }

    /// One entry of [`list`](Self::list).
    pub fn info(&self, class: &ClassName) -> Option<ExtensionInfo> {
        self.entry(class).map(|entry| entry.info())
    }

    fn entry(&self, class: &ClassName) -> Option<Arc<Entry>> {
        self.table.load().entries.get(&Key::installed(class.clone())).cloned()
    }

    /// Swaps in a changed copy of the table. Only under the writer's lock.
    fn swap(&self, change: impl FnOnce(&mut Table)) {
        let mut table = Table::clone(&self.table.load());
        change(&mut table);
        self.table.store(Arc::new(table));
        self.generation.fetch_add(1, Ordering::Release);
    }
}

/// What an extension is given when nobody has configured it.
fn no_config() -> Value {
    json!({})
}
