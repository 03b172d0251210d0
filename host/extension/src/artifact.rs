//! The seam between the table and the two forms: what an opened artifact can do, whatever it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::compiled::{Cache, Compiler};
use crate::component::{self, Runtime};
use crate::extensions::{ClassName, Form, Kind};
use crate::filter::{Broke, MessageFilter};
use crate::lister::TopicLister;
use crate::message::Field;
use crate::native::{self, Libraries};

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
    /// How the compiler child is started.
    pub compiler: CompilerCommand,
}

/// How a child process that compiles a component is started. It is to call
/// [`compile_child`](crate::compile_child) and nothing else.
#[derive(Clone, Debug)]
pub struct CompilerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

impl Default for CompilerCommand {
    /// This very program, with `compile-component`.
    fn default() -> Self {
        // The link names the running image even after the file was replaced by an upgrade.
        let running = PathBuf::from("/proc/self/exe");
        let program = match std::env::current_exe() {
            Ok(exe) if !running.exists() => exe,
            _ => running,
        };
        Self { program, args: vec!["compile-component".into()] }
    }
}

/// Opens artifacts. One for each process: it owns the engine, the compiled-code cache and the folder in
/// which native libraries get paths never used before.
pub(crate) struct Loader {
    runtime: Runtime,
    compiler: Compiler,
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
        let runtime = Runtime::new();
        let cache = Cache::open(&options.folder.join("compiled"), runtime.engine())?;
        let compiler = Compiler::new(options.compiler, cache);
        let libraries = Libraries::open(&options.folder.join("native"))?;
        Ok(Self { runtime, compiler, libraries })
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
        let component = self.compiler.component(self.runtime.engine(), bytes, sha256)?;
        Ok(Arc::new(component::Extension::open(&self.runtime, &component, limits)?))
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
        let library = self.libraries.open_library(bytes, sha256, from)?;
        Ok(Arc::new(native::Extension::open(library)?))
    }

    /// How many native libraries are open. They are never closed: code of theirs may still run.
    #[cfg_attr(not(test), expect(dead_code, reason = "a number for the metrics, which are not served yet"))]
    pub(crate) fn libraries(&self) -> usize {
        self.libraries.count()
    }
}

/// A filter instance, and the fields that it reads.
#[doc(hidden)]
pub type FilterAndFields = (Box<dyn MessageFilter>, Arc<[Field]>);

/// An instance of a file's filter with `config`, and the fields that it reads: past the table, for
/// benchmarks. Compiled code is kept in `folder`; this very program is started as the compiler.
///
/// # Errors
/// A sentence, when the file is no artifact or refuses its configuration.
#[doc(hidden)]
pub fn opened(path: &Path, config: &str, folder: &Path) -> Result<FilterAndFields, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let compiler = CompilerCommand::default();
    let loader = Loader::new(LoaderOptions { folder: folder.to_owned(), compiler })
        .map_err(|error| format!("{} cannot be used: {error}", folder.display()))?;
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
