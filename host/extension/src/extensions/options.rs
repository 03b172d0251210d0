//! What the table is opened with: `[plugins]` and `[extensions."…"]` of the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;

use super::key::ClassName;
use super::trial::TrialRule;
use crate::artifact::{Limits, LoaderOptions};
use crate::child::ChildCommand;

/// What [`Extensions::open`](super::Extensions::open) needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where registrations, their artifacts, compiled code and copies of native libraries are kept; made
    /// if missing.
    pub folder: PathBuf,
    /// How the children that compile components and try libraries are started. Default: this very program,
    /// with `child`.
    pub child: ChildCommand,
    /// Components of this many bytes and more run Winch's code until that of Cranelift is ready. Default:
    /// [`LoaderOptions::WINCH_FROM`].
    pub winch_from: usize,
    /// The most native libraries that are held open: they are never closed. Default: 256.
    pub max_native_libraries: usize,
    /// The largest artifact that is taken, in bytes. Default: 64 MiB.
    pub max_artifact_size: u64,
    /// The digests (lower-case hex) of the native libraries that may be loaded; all, if there is no list.
    pub native_sha256: Option<BTreeSet<String>>,
    /// How many versions before the one in force are kept. Default: 2.
    pub keep_versions: usize,
    /// When a new version is taken back by itself. Needs a version that is kept.
    pub trial: TrialRule,
    /// How many artifacts are opened at once; each may take a core and some hundred MiB while a large
    /// component is compiled. Default: 2.
    pub concurrent_loads: usize,
    /// What an extension may use that is not listed in `classes`.
    pub limits: Limits,
    /// By class name: what the configuration file says of it.
    pub classes: BTreeMap<ClassName, ClassOptions>,
}

/// What the configuration file says of one extension.
#[derive(Clone, Debug)]
pub struct ClassOptions {
    /// What it may use.
    pub limits: Limits,
    /// Its configuration: wins over what REST has set, and cannot be changed by REST.
    pub config: Option<Value>,
}

impl Options {
    /// The defaults, with this folder and these limits.
    pub fn new(folder: PathBuf, limits: Limits) -> Self {
        let loader = LoaderOptions::new(folder);
        Self {
            child: loader.child,
            winch_from: loader.winch_from,
            max_native_libraries: loader.max_libraries,
            folder: loader.folder,
            max_artifact_size: 64 << 20,
            native_sha256: None,
            keep_versions: 2,
            trial: TrialRule::default(),
            concurrent_loads: 2,
            limits,
            classes: BTreeMap::new(),
        }
    }

    pub(super) fn loader(&self) -> LoaderOptions {
        LoaderOptions {
            folder: self.folder.clone(),
            child: self.child.clone(),
            winch_from: self.winch_from,
            max_libraries: self.max_native_libraries,
        }
    }

    pub(super) fn limits_of(&self, class: Option<&ClassName>) -> Limits {
        class.and_then(|class| self.classes.get(class)).map_or(self.limits, |options| options.limits)
    }

    pub(super) fn config_of(&self, class: &ClassName) -> Option<&Value> {
        self.classes.get(class)?.config.as_ref()
    }
}

/// A number of things that may happen at once.
pub(super) struct Permits {
    free: parking_lot::Mutex<usize>,
    freed: parking_lot::Condvar,
}

/// One of them, until it is dropped.
pub(super) struct Permit<'a>(&'a Permits);

impl Permits {
    pub(super) fn new(n: usize) -> Self {
        Self { free: parking_lot::Mutex::new(n.max(1)), freed: parking_lot::Condvar::new() }
    }

    /// Waits for its turn.
    pub(super) fn take(&self) -> Permit<'_> {
        let mut free = self.free.lock();
        self.freed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}
