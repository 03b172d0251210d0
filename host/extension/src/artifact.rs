//! The seam between the table and the two forms: what an opened artifact can do, whatever it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::child::ChildCommand;
use crate::compiled::{Behind, Cache, Compiler};
use crate::component::{self, Runtime, Tier};
use crate::extensions::{ClassName, Form, Kind};
use crate::filter::{Broke, MessageFilter};
use crate::lister::TopicLister;
use crate::message::Field;
use crate::native::Libraries;

mod describe;
mod sniff;

pub(crate) use describe::fields_of;
pub(crate) use sniff::sniff;

/// What an artifact says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    /// Its class name.
    pub class: ClassName,
    /// What it can do.
    pub kinds: Vec<Kind>,
    /// Its own version, free text.
    pub version: String,
    /// The contract's version that it was built against: `major.minor`.
    pub contract: String,
    /// The JSON Schema of its configuration.
    pub schema: Value,
}

/// An opened artifact: a native library, a compiled component or a built-in. Instances are made from it.
pub(crate) trait Loaded: Send + Sync {
    /// What it says of itself.
    fn description(&self) -> &Description;

    /// Who compiled what runs of it; `None` where nobody did.
    fn compiled_by(&self) -> Option<CompiledBy> {
        None
    }

    /// Hands it a configuration (JSON that its schema has accepted) and gives back the fields that it
    /// will read then. Empty for a lister.
    ///
    /// # Errors
    /// When it refuses the configuration (kind `Error`), or breaks.
    fn configure(&self, config: &str) -> Result<Vec<Field>, Broke>;

    /// A fresh filter instance; `fields` are what [`configure`](Self::configure) gave back.
    ///
    /// # Errors
    /// When it cannot be made.
    fn filter(&self, config: &str, fields: &Arc<[Field]>) -> Result<Box<dyn MessageFilter>, Broke>;

    /// A fresh lister instance.
    ///
    /// # Errors
    /// When it cannot be made.
    fn lister(&self, config: &str) -> Result<Box<dyn TopicLister>, Broke>;
}

/// Who compiled the code in force of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompiledBy {
    /// `winch` or `cranelift`.
    pub by: &'static str,
    /// What comes after Winch's code, or why nothing does.
    pub note: Option<String>,
}

/// What one extension may use. From `[extensions."…"]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For one message (or one listing); a batch gets more, to at most this and 500 ms.
    pub deadline: Duration,
    /// All memories of one instance together, in bytes.
    pub memory: usize,
}

impl Limits {
    /// What a batch may take longer than one message. Keeps a dispatcher's wait bounded whatever the
    /// size of its batches.
    const BATCH_ALLOWANCE: Duration = Duration::from_millis(500);

    /// How long a call for `n` messages may take.
    pub(crate) fn deadline_of(&self, n: usize) -> Duration {
        let all = self.deadline.saturating_mul(u32::try_from(n).unwrap_or(u32::MAX));
        all.min(self.deadline.saturating_add(Self::BATCH_ALLOWANCE))
    }
}

impl Default for Limits {
    /// 50 ms and 64 MiB.
    fn default() -> Self {
        Self { deadline: Duration::from_millis(50), memory: 64 << 20 }
    }
}

/// What the loader of artifacts needs to know.
#[derive(Clone, Debug)]
pub struct LoaderOptions {
    /// Where compiled code and copies of native libraries lie; made if missing, for this user only.
    pub folder: PathBuf,
    /// How the children that compile components and try libraries are started.
    pub child: ChildCommand,
    /// Components of this many bytes and more run Winch's code until that of Cranelift is ready.
    pub winch_from: usize,
    /// The most native libraries that are held open.
    pub max_libraries: usize,
}

impl LoaderOptions {
    /// From where on [`winch_from`](Self::winch_from) pays: a component of 115 KB takes Cranelift 220 ms of a
    /// busy core, and Winch 42. One of 20 KB is there in less than people notice either way, and is then
    /// compiled once.
    pub const WINCH_FROM: usize = 48 << 10;

    /// The defaults, with this folder.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, child: ChildCommand::default(), winch_from: Self::WINCH_FROM, max_libraries: 256 }
    }
}

/// What opening artifacts has cost since the start, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoaderFigures {
    /// Native libraries that are open. They are never closed: code of theirs may still run.
    pub libraries: usize,
    /// The most that may be.
    pub max_libraries: usize,
    /// Components compiled, by either compiler.
    pub compilations: u64,
    /// The time that it took, by the clock.
    pub compiling: Duration,
    /// Components whose code was found compiled.
    pub found_compiled: u64,
    /// Files of compiled code that were damaged or foreign, and made anew.
    pub damaged: u64,
}

/// Opens artifacts. One for each process: it owns the engine, the compiled-code cache and the folder in
/// which native libraries get paths never used before.
pub(crate) struct Loader {
    runtime: Arc<Runtime>,
    compiler: Arc<Compiler>,
    behind: Behind,
    libraries: Libraries,
}

/// Why bytes could not be opened: one sentence for the person who sent them, with what was found and
/// what was expected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct OpenError(pub String);

impl Loader {
    /// Starts the engine and makes the folders.
    ///
    /// # Errors
    /// When the folder cannot be made, or belongs to another user.
    pub(crate) fn new(options: LoaderOptions) -> std::io::Result<Self> {
        let runtime = Arc::new(Runtime::new());
        let LoaderOptions { folder, child, winch_from, max_libraries } = options;
        let cache = Cache::open(&folder.join("compiled"))?;
        let compiler = Arc::new(Compiler::new(child.clone(), cache, winch_from));
        let behind = Behind::start(runtime.clone(), compiler.clone())?;
        let libraries = Libraries::open(&folder.join("native"), child, max_libraries)?;
        Ok(Self { runtime, compiler, behind, libraries })
    }

    /// Which form the bytes have.
    ///
    /// # Errors
    /// When they are neither a component nor a library of this machine, or are cut: says what they are.
    pub(crate) fn sniff(bytes: &[u8]) -> Result<Form, OpenError> {
        sniff(bytes)
    }

    /// Compiles (in a limited child process, cached by digest) and describes a component.
    ///
    /// # Errors
    /// When it is not one of ours: no component, wrong world, unknown import, wrong contract version,
    /// too greedy, breaks when asked to describe itself.
    pub(crate) fn component(
        &self,
        bytes: &[u8],
        sha256: &str,
        limits: Limits,
    ) -> Result<Arc<dyn Loaded>, OpenError> {
        match sniff(bytes)? {
            Form::Component => {}
            Form::Native | Form::BuiltIn => {
                return Err(OpenError("it is a native library; only components are taken here".into()));
            }
        }
        let (component, tier) = self.compiler.first(&self.runtime, bytes, sha256)?;
        let extension = component::Extension::open(&self.runtime, &component, tier, limits)?;
        if tier == Tier::Winch {
            self.behind.improve(bytes, sha256, extension.code());
        }
        Ok(Arc::new(extension))
    }

    /// Opens a native library from a private copy of `path`'s bytes under a path never used before.
    ///
    /// # Errors
    /// When it is for another machine, has no root module of ours, another contract, or panics.
    pub(crate) fn native(
        &self,
        bytes: &[u8],
        sha256: &str,
        from: &Path,
        limits: Limits,
    ) -> Result<Arc<dyn Loaded>, OpenError> {
        match sniff(bytes)? {
            Form::Native => {}
            Form::Component | Form::BuiltIn => {
                return Err(OpenError("it is a component, not a native library".into()));
            }
        }
        // Native code cannot be limited: what it may use is what the process may use.
        let _ = limits;
        let extension = self.libraries.extension(bytes, sha256, from)?;
        Ok(extension)
    }

    /// What opening artifacts has cost since the start.
    pub(crate) fn figures(&self) -> LoaderFigures {
        let counters = &self.compiler.counters;
        LoaderFigures {
            libraries: self.libraries.count(),
            max_libraries: self.libraries.most(),
            compilations: counters.compilations.load(Ordering::Relaxed),
            compiling: Duration::from_micros(counters.micros.load(Ordering::Relaxed)),
            found_compiled: counters.found.load(Ordering::Relaxed),
            damaged: counters.damaged.load(Ordering::Relaxed),
        }
    }
}

/// A filter instance, and the fields that it reads.
#[doc(hidden)]
pub type FilterAndFields = (Box<dyn MessageFilter>, Arc<[Field]>);

/// An instance of a file's filter with `config`, and the fields that it reads: past the table, for
/// benchmarks. Compiled code is kept in `folder`; this very program is started as the child.
///
/// # Errors
/// A sentence, when the file is no artifact or refuses its configuration.
#[doc(hidden)]
pub fn opened(path: &Path, config: &str, folder: &Path) -> Result<FilterAndFields, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    // What is measured is the code that is in force in the long run.
    let options = LoaderOptions { winch_from: usize::MAX, ..LoaderOptions::new(folder.to_owned()) };
    let loader =
        Loader::new(options).map_err(|error| format!("{} cannot be used: {error}", folder.display()))?;
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    // On a busy machine a thread may wait longer than a message may take.
    let limits = Limits { deadline: Duration::from_secs(60), ..Limits::default() };
    let open = || {
        Ok::<_, OpenError>(match Loader::sniff(&bytes)? {
            Form::Component => loader.component(&bytes, &digest, limits)?,
            _ => loader.native(&bytes, &digest, path, limits)?,
        })
    };
    let loaded = open().map_err(|error| error.to_string())?;
    let fields: Arc<[Field]> = loaded.configure(config).map_err(|broke| broke.to_string())?.into();
    let filter = loaded.filter(config, &fields).map_err(|broke| broke.to_string())?;
    Ok((filter, fields))
}
