//! The one door and the one table: artifacts come in by [`Extensions::register`], and whoever calls an
//! extension finds the one in force here.
//!
//! Readers take one atomic load and never wait. Whoever changes the table opens, describes and
//! configures first, under no lock, and only then takes the writer's lock to write the change down and
//! to swap the table. Two changes of one key that overlap are both made, the later swap last; if what a
//! change was checked against is gone by then, it is checked again.
//!
//! In `extensions/`: the nouns (`key`), what is kept (`durable`), what an artifact is held to (`door`), what a
//! version is (`version`, `schema`, `times`), the table of them (`table`), the trial of a new one (`trial`), the
//! drop folder (`files`), and the four that change it: `register`, `rollback`, `config`, `withdraw`.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tracing::{error, info};

mod config;
mod door;
mod durable;
mod errors;
mod files;
#[cfg(test)]
pub(crate) mod fixture;
mod info;
mod key;
mod opener;
mod options;
mod register;
mod rollback;
mod schema;
mod table;
#[cfg(test)]
mod tests;
mod times;
mod trial;
mod version;
mod withdraw;

pub use config::ClassConfig;
pub use errors::{ConfigError, RegisterError, RemoveError, RollbackError, Unavailable};
pub use info::{
    ExtensionInfo, Inspection, KeptVersion, RefusedFile, Registered, RolledBack, TakenBackVersion, TrialInfo,
};
pub use key::{ClassName, Form, Key, Kind, Scope};
pub use options::{ClassOptions, Options};
pub use schema::{MAX_CONFIG_BYTES, MAX_SCHEMA_BYTES};
pub(crate) use table::millis;
pub use times::Times;
pub use trial::{Trial, TrialRule};
pub use version::{Configured, Counts, Tally};

use crate::artifact::{Loader, LoaderFigures};
use crate::builtin::Builtin;
use durable::{Files, Found, Store};
use key::Checksums;
use opener::Opener;
use options::Permits;
use register::Refused;
use table::{Entry, LastError, Origin, Record, Registration, State, Table};
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
        /// The configuration of the class from then on, checked with the artifact: both come into force, or
        /// neither. `None` leaves the one that is set.
        config: Option<Value>,
        /// Takes it although it was taken back before.
        force: bool,
        /// Who sent it, for the listing: `PUT from 127.0.0.1:41000`.
        from: String,
    },
}

/// The table of extensions.
pub struct Extensions {
    table: ArcSwap<Table>,
    /// Grows after each swap that a caller of an extension could notice.
    generation: AtomicU64,
    /// Taken by whoever changes the table, never across a call into an extension, and before `listeners`.
    books: Mutex<Books>,
    /// `None` for a table of built-ins only.
    door: Option<Door>,
    usage: OnceLock<Box<Usage>>,
    opened_at: SystemTime,
    listeners: Mutex<Vec<Arc<dyn Fn() + Send + Sync>>>,
    /// For trials, which end on threads of their own.
    this: Weak<Self>,
    /// Versions that were taken back by themselves.
    taken_back: AtomicU64,
}

type Usage = dyn Fn(&ClassName) -> Option<Kind> + Send + Sync;

/// What artifacts come in through.
struct Door {
    options: Options,
    store: Store,
    opener: Arc<dyn Opener>,
    loads: Permits,
}

/// What only writers look at.
#[derive(Default)]
struct Books {
    /// The configurations that are set, by the file or by REST, whether the class is there or not.
    configs: HashMap<ClassName, Arc<Value>>,
    files: Files,
    /// Files that were refused, until they change or go. One for each path of the drop folder.
    refused: BTreeMap<PathBuf, Refused>,
    /// Since when classes are not registered any more that somebody removed.
    removed: HashMap<ClassName, SystemTime>,
}

impl Extensions {
    /// A table of built-ins only: no folder, nothing on disk, nothing to register.
    pub fn with_builtins(builtins: Vec<Builtin>) -> Arc<Self> {
        let extensions = Self::new(None, Books::default());
        for builtin in builtins {
            extensions.put_builtin(builtin);
        }
        extensions
    }

    /// Opens the table, with what was in force when weir last ran. See [`Watcher`](crate::Watcher) for
    /// the drop folder. What cannot be opened again, or does
    /// not take its configuration any more, is listed with the reason and cannot be called.
    ///
    /// # Errors
    /// When the folder cannot be read or written, or holds what weir did not write.
    pub fn open(options: Options, builtins: Vec<Builtin>) -> io::Result<Arc<Self>> {
        let loader = Arc::new(Loader::new(options.loader())?);
        Self::open_with(options, builtins, loader)
    }

    pub(crate) fn open_with(
        options: Options,
        builtins: Vec<Builtin>,
        opener: Arc<dyn Opener>,
    ) -> io::Result<Arc<Self>> {
        let (store, Found { registrations, configs, files }) = Store::open(&options.folder)?;
        let mut books = Books { files, ..Books::default() };
        books.configs.extend(configs.into_iter().map(|(class, config)| (class, Arc::new(config))));
        for (class, listed) in &options.classes {
            if let Some(config) = &listed.config {
                books.configs.insert(class.clone(), Arc::new(config.clone()));
            }
        }
        let loads = Permits::new(options.concurrent_loads);
        let extensions = Self::new(Some(Door { options, store, opener, loads }), books);
        for builtin in builtins {
            extensions.put_builtin(builtin);
        }
        for registration in registrations {
            extensions.put_back(registration);
        }
        Ok(extensions)
    }

    fn new(door: Option<Door>, books: Books) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            table: ArcSwap::default(),
            generation: AtomicU64::new(0),
            books: Mutex::new(books),
            door,
            usage: OnceLock::new(),
            opened_at: SystemTime::now(),
            listeners: Mutex::default(),
            taken_back: AtomicU64::new(0),
        })
    }

    /// Puts a built-in into the table, in place of the one of that class.
    ///
    /// # Panics
    /// When its schema is no JSON Schema: that is a mistake in weir.
    pub fn put_builtin(&self, builtin: Builtin) {
        let version =
            Version::new(Arc::new(builtin)).expect("a built-in declares a kind and a valid JSON Schema");
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
            left: None,
        };
        let config = self.books.lock().configs.get(&key.class).cloned();
        let entry = Entry {
            registration: Registration::first(key, record),
            default: version.configured(config.as_deref().unwrap_or(&no_config())),
            opened: Ok(Arc::new(version)),
            config,
            last_error: None,
            trial: None,
        };
        let books = self.books.lock();
        self.swap(books, |table| table.put(entry));
    }

    /// Takes a built-in out of the table; gives back whether it was there. Calls in flight end on it.
    pub fn remove_builtin(&self, class: &ClassName) -> bool {
        let key = Key::installed(class.clone());
        let books = self.books.lock();
        let there = self.table.load().entries.get(&key).is_some_and(|entry| entry.is_built_in());
        if there {
            self.swap(books, |table| {
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

    /// As [`configured`](Self::configured), with the trial of the version while it is on trial.
    ///
    /// # Errors
    /// When it cannot be called.
    pub fn on_trial(
        &self,
        class: &ClassName,
        kind: Kind,
        config: Option<&Value>,
    ) -> Result<(Arc<Configured>, Option<Trial>), Unavailable> {
        let entry = self.entry(class).ok_or_else(|| Unavailable::Missing { class: class.clone() })?;
        Ok((entry.configured(kind, config)?, entry.trial(kind, config)))
    }

    /// A number that grows whenever an answer of [`configured`](Self::configured) may have changed. One
    /// atomic load: ask before you look up, and look up again when it has grown.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Has `listener` called after each change of [`generation`](Self::generation), on the thread that
    /// made the change: it is to wake somebody, not to work.
    pub fn on_change(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.listeners.lock().push(Arc::new(listener));
    }

    /// Tells the table how to find out what a class is in use as. Asked at registrations and removals;
    /// to be set once, before any. A second one is not taken.
    pub fn set_usage(&self, usage: impl Fn(&ClassName) -> Option<Kind> + Send + Sync + 'static) {
        if self.usage.set(Box::new(usage)).is_err() {
            error!("the usage of classes was told twice; the first stands");
        }
    }

    /// Everything registered, by class name. Files that were refused are in [`refused`](Self::refused).
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

    /// What opening artifacts has cost since the start, and how many native libraries are open.
    pub fn figures(&self) -> LoaderFigures {
        self.door.as_ref().map(|door| door.opener.figures()).unwrap_or_default()
    }

    fn entry(&self, class: &ClassName) -> Option<Arc<Entry>> {
        self.table.load().entries.get(&Key::installed(class.clone())).cloned()
    }

    fn used_as(&self, class: &ClassName) -> Option<Kind> {
        self.usage.get()?(class)
    }

    /// Swaps in a changed copy of the table, gives the writer's lock back and tells the listeners.
    fn swap(&self, books: MutexGuard<'_, Books>, change: impl FnOnce(&mut Table)) {
        self.edit(&books, change);
        self.generation.fetch_add(1, Ordering::Release);
        drop(books);
        let listeners = self.listeners.lock().clone();
        listeners.iter().for_each(|listener| listener());
    }

    /// Swaps in a changed copy of the table that answers no look-up differently.
    fn edit(&self, _: &MutexGuard<'_, Books>, change: impl FnOnce(&mut Table)) {
        let mut table = Table::clone(&self.table.load());
        change(&mut table);
        self.table.store(Arc::new(table));
    }

    /// [`swap`](Self::swap)s, then deletes those of `artifacts` that no registration names any more.
    fn swap_and_sweep(
        &self,
        door: &Door,
        books: MutexGuard<'_, Books>,
        artifacts: &[String],
        change: impl FnOnce(&mut Table),
    ) {
        self.edit(&books, change);
        let table = self.table.load();
        for sha256 in artifacts.iter().filter(|sha256| !table.names(sha256)) {
            door.store.drop_artifact(sha256);
        }
        self.swap(books, |_| {});
    }

    /// Notes a refusal at the entry of a class, if there is one.
    fn note_error(&self, books: &MutexGuard<'_, Books>, class: &ClassName, reason: &str) {
        if let Some(entry) = self.entry(class) {
            let mut entry = Entry::clone(&entry);
            entry.last_error = Some(LastError { reason: reason.to_owned(), at: SystemTime::now() });
            self.edit(books, |table| table.put(entry));
        }
    }

    /// Opens again what was in force when weir last ran.
    fn put_back(&self, registration: Registration) {
        let class = registration.key.class.clone();
        let config = self.books.lock().configs.get(&class).cloned();
        let opened = self.reopen(&class, &registration.in_force);
        let default = match &opened {
            Ok(version) => version.configured(config.as_deref().unwrap_or(&no_config())),
            Err(reason) => Err(schema::Refusal::whole(reason.clone())),
        };
        let trial = registration.last_good.as_deref().filter(|_| opened.is_ok());
        let trial = trial
            .and_then(|last_good| self.trial_again(&class, &registration.kept, last_good, config.clone()));
        let entry = Entry { registration, opened, default, config, last_error: None, trial };
        let Record { checksums, version, .. } = &entry.registration.in_force;
        match entry.state() {
            State::InForce => info!(%class, version, sha256 = checksums.sha256, "extension in force again"),
            // As before the stop; bindings may bring configurations of their own.
            state @ State::Unconfigured(_) => info!(%class, version, %state, "extension opened again"),
            state => error!(%class, version, %state, "extension not in force after the start"),
        }
        let books = self.books.lock();
        if self.entry(&class).is_some_and(|entry| entry.is_built_in()) {
            error!(%class, "an extension of this name is built into weir now; the registered one is not used");
            return;
        }
        self.swap(books, |table| table.put(entry));
    }

    /// Opens a version again that is kept on disk.
    fn reopen(&self, class: &ClassName, record: &Record) -> Result<Arc<Version>, String> {
        let door = self.door.as_ref().expect("registrations are read through a door");
        let Record { checksums, form, origin, .. } = record;
        let bytes = door
            .store
            .artifact(&checksums.sha256)
            .map_err(|error| format!("its artifact {} cannot be read: {error}", checksums.sha256))?;
        if Checksums::of(&bytes) != *checksums {
            return Err(format!("its artifact {} is damaged: the digest differs", checksums.sha256));
        }
        let version =
            door.open(&bytes, checksums, *form, origin, Some(class)).map_err(|error| error.to_string())?;
        if version.description().class == *class {
            Ok(Arc::new(version))
        } else {
            Err(format!("it declares class {} now", version.description().class))
        }
    }
}

/// What an extension is given when nobody has configured it.
fn no_config() -> Value {
    json!({})
}
