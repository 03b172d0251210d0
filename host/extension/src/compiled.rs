//! Compiled components: made by a child process with limits, kept under the artifact's digest.
//!
//! wasmtime promises nothing of the time and memory that compiling takes, so it happens where both end
//! with a process. Large components are compiled by Winch first, which takes a fifth of the time; the
//! better code of Cranelift follows (`compiled/behind.rs`). What a child hands back is trusted as our own
//! code is: the folder belongs to this user alone (`compiled/cache.rs`), and each file is compared with a
//! digest before it is used.

#![expect(unsafe_code, reason = "takes back code that our own compiler child made")]

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, setpriority_process};
use tracing::{debug, warn};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::artifact::OpenError;
use crate::child::{self, ChildCommand, End, Ended, Ender, Errand, REFUSED, Task, sentence};
use crate::component::{Runtime, Tier};
use crate::frame;

mod behind;
mod cache;
#[cfg(test)]
mod tests;

pub(crate) use behind::Behind;
pub(crate) use cache::{Cache, private_folder};
use cache::{Cached, Name};

/// Address space of the child. A component of 2.6 MB needed 192 MB.
const CHILD_MEMORY: u64 = 1 << 30;

/// Processor seconds of the child, which has one thread.
const CHILD_CPU_SECONDS: u64 = 60;

/// How long a child may take by the clock, if it waits instead of working.
const CHILD_TIMEOUT: Duration = Duration::from_secs(120);

/// As above, where nobody waits for it.
const BEHIND_TIMEOUT: Duration = Duration::from_secs(900);

/// How far the child stands back when the processors are busy (`nice`): it gets about a tenth of one then.
const CHILD_NICE: i32 = 10;

/// As above, where nobody waits for it: about a seventieth.
const BEHIND_NICE: i32 = 19;

/// The most compiled code that is taken from a child. A component of 13 MB compiles to three times that.
const MAX_COMPILED: u64 = 256 << 20;

/// The part of a child that compiles: limits itself before it reads a byte of the component.
///
/// # Errors
/// A sentence, when it is no valid component, or none that this compiler can compile.
pub(crate) fn compile(task: Task) -> Result<(), String> {
    child::limit_self(&limits(CHILD_CPU_SECONDS))?;
    let (tier, nice) = match task {
        Task::Winch => (Tier::Winch, CHILD_NICE),
        Task::Behind => (Tier::Cranelift, BEHIND_NICE),
        Task::Cranelift | Task::Library => (Tier::Cranelift, CHILD_NICE),
    };
    setpriority_process(None, nice).map_err(|error| format!("the child cannot stand back: {error}"))?;
    let mut bytes = Vec::new();
    io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|error| format!("the component cannot be read: {error}"))?;
    let engine = Runtime::compiling_engine(tier).map_err(|error| format!("{error:#}"))?;
    let code = engine.precompile_component(&bytes).map_err(|error| format!("{error:#}"))?;
    child::answer(task, &code)
}

/// The limits of a child that may work for so many seconds.
fn limits(cpu_seconds: u64) -> [(Resource, u64); 4] {
    [(Resource::As, CHILD_MEMORY), (Resource::Cpu, cpu_seconds), (Resource::Core, 0), (Resource::Fsize, 0)]
}

/// Compiles components, or finds them compiled.
pub(crate) struct Compiler {
    command: ChildCommand,
    cache: Cache,
    /// Components of this many bytes and more are compiled by Winch first.
    winch_from: usize,
    pub(crate) counters: Counters,
}

/// What compiling has cost since the start.
#[derive(Default)]
pub(crate) struct Counters {
    /// Children started.
    pub(crate) compilations: AtomicU64,
    /// Time that they took by the clock, in microseconds.
    pub(crate) micros: AtomicU64,
    /// Components that were found compiled.
    pub(crate) found: AtomicU64,
    /// Files of compiled code that were damaged or foreign.
    pub(crate) damaged: AtomicU64,
}

/// Why there is no compiled code.
#[derive(Debug, thiserror::Error)]
enum NotCompiled {
    /// It is no component, or has what this compiler cannot compile.
    #[error("it is not a valid component: {0}")]
    Refused(String),
    /// It takes more than the limits.
    #[error("it is too large: compiling it took {0}")]
    TooLarge(String),
    /// Weir is stopping.
    #[error("compiling it was given up, as weir is stopping")]
    GivenUp,
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl From<NotCompiled> for OpenError {
    fn from(error: NotCompiled) -> Self {
        Self(error.to_string())
    }
}

impl Compiler {
    pub(crate) fn new(command: ChildCommand, cache: Cache, winch_from: usize) -> Self {
        Self { command, cache, winch_from, counters: Counters::default() }
    }

    /// The best code of these bytes that there is at once, and by whom: what is kept, else Winch's for a
    /// large component, else Cranelift's. Two at once for the same bytes both compile; one's file replaces
    /// the other's, which is equal.
    ///
    /// # Errors
    /// When the bytes are no valid component, or compiling them takes more than the limits.
    pub(crate) fn first(
        &self,
        runtime: &Runtime,
        bytes: &[u8],
        sha256: &str,
    ) -> Result<(Component, Tier), OpenError> {
        for tier in [Tier::Cranelift, Tier::Winch] {
            if let Some(component) = runtime.engine(tier).and_then(|engine| self.kept(engine, sha256)) {
                return Ok((component, tier));
            }
        }
        if let Some(winch) = runtime.engine(Tier::Winch).filter(|_| bytes.len() >= self.winch_from) {
            match self.compiled(winch, Task::Winch, bytes, sha256, &Ender::default()) {
                Ok(component) => return Ok((component, Tier::Winch)),
                // What takes Winch too long takes Cranelift longer.
                Err(error @ NotCompiled::TooLarge(_)) => return Err(error.into()),
                // It lacks some of what Cranelift has: garbage collection, tail calls, exceptions.
                Err(error) => debug!(sha256, %error, "not compiled by Winch; Cranelift is next"),
            }
        }
        let component =
            self.compiled(runtime.cranelift(), Task::Cranelift, bytes, sha256, &Ender::default())?;
        Ok((component, Tier::Cranelift))
    }

    /// The code of Cranelift, kept or made behind; Winch's, if kept, is let go then.
    fn best(
        &self,
        runtime: &Runtime,
        bytes: &[u8],
        sha256: &str,
        ender: &Ender,
    ) -> Result<Component, NotCompiled> {
        let engine = runtime.cranelift();
        let component = match self.kept(engine, sha256) {
            Some(component) => component,
            None => self.compiled(engine, Task::Behind, bytes, sha256, ender)?,
        };
        if let Some(winch) = runtime.engine(Tier::Winch) {
            self.cache.remove(&Name::new(sha256, &key_of(winch)));
        }
        Ok(component)
    }

    fn kept(&self, engine: &Engine, sha256: &str) -> Option<Component> {
        let file = self.cache.get(Name::new(sha256, &key_of(engine)))?;
        let component = match Checked::kept(&file) {
            Some(code) => load(engine, &code).map_err(|error| format!("{error:#}")),
            None => Err("its digest differs".to_owned()),
        };
        match component {
            Ok(component) => {
                self.counters.found.fetch_add(1, Ordering::Relaxed);
                Some(component)
            }
            Err(reason) => {
                self.counters.damaged.fetch_add(1, Ordering::Relaxed);
                warn!(sha256, reason, "compiled code is damaged or foreign; compiling again");
                None
            }
        }
    }

    fn compiled(
        &self,
        engine: &Engine,
        task: Task,
        bytes: &[u8],
        sha256: &str,
        ender: &Ender,
    ) -> Result<Component, NotCompiled> {
        let timeout = if task == Task::Behind { BEHIND_TIMEOUT } else { CHILD_TIMEOUT };
        let began = Instant::now();
        let ended = run(&self.command, task, bytes, timeout, ender);
        self.counters.compilations.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.counters.micros.fetch_add(micros, Ordering::Relaxed);
        let ended = ended?;
        let code = Checked::made(task, &ended).ok_or_else(|| {
            NotCompiled::Failed(format!("its compiled code is damaged, or larger than {MAX_COMPILED} bytes"))
        })?;
        let component = load(engine, &code).map_err(|error| {
            NotCompiled::Failed(format!("its compiled code was not taken by the engine: {error:#}"))
        })?;
        self.cache.put(&Name::new(sha256, &key_of(engine)), code.0);
        Ok(component)
    }
}

/// Code whose digest has been compared. Made by the two functions below, and by nothing else.
struct Checked<'a>(&'a [u8]);

impl<'a> Checked<'a> {
    /// What a compiler child of ours has answered.
    fn made(task: Task, ended: &'a Ended) -> Option<Self> {
        frame::content(task.as_str(), &ended.output).map(Self)
    }

    /// What was kept of such an answer.
    fn kept(file: &'a Cached) -> Option<Self> {
        file.code().map(Self)
    }
}

/// Makes compiled code callable.
fn load(engine: &Engine, code: &Checked<'_>) -> wasmtime::Result<Component> {
    // SAFETY: `Checked` is what a process of our own image wrote to a pipe of ours, or what we wrote of
    // that into a folder of this user alone (`cache.rs` checks owner and mode, of the file too), with its
    // digest compared. wasmtime itself checks version and settings.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
    unsafe {
        Component::deserialize(engine, code.0)
    }
}

/// What an engine's code is kept under: changes with its version and settings, and with the processor's
/// features.
fn key_of(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Starts the compiler and hands it `bytes`.
fn run(
    command: &ChildCommand,
    task: Task,
    bytes: &[u8],
    timeout: Duration,
    ender: &Ender,
) -> Result<Ended, NotCompiled> {
    let max_output = MAX_COMPILED + frame::HEADER as u64;
    let errand = Errand { task, input: bytes, timeout, max_output };
    let ended = child::run(command, &errand, ender)
        .map_err(|error| NotCompiled::Failed(format!("the compiler cannot be run: {error}")))?;
    match (ended.by, ended.status.code()) {
        (End::Clock, _) => Err(NotCompiled::TooLarge(format!("longer than {} s", timeout.as_secs()))),
        (End::Ender, _) => Err(NotCompiled::GivenUp),
        (End::Itself, Some(0)) => Ok(ended),
        (End::Itself, Some(code)) if code == i32::from(REFUSED) => {
            Err(NotCompiled::Refused(sentence(&ended.complaint)))
        }
        (End::Itself, _) => Err(died(ended.status, &ended.complaint)),
    }
}

/// What a child's end without an answer means.
fn died(status: ExitStatus, complaint: &str) -> NotCompiled {
    const SIGABRT: i32 = 6;
    const SIGKILL: i32 = 9;
    const SIGSEGV: i32 = 11;
    const SIGXCPU: i32 = 24;
    match status.signal() {
        Some(SIGXCPU) => NotCompiled::TooLarge(format!("more than {CHILD_CPU_SECONDS} s of processor time")),
        // What cannot be allocated ends in SIGABRT, a stack that cannot grow in SIGSEGV; SIGKILL is what a
        // system that has run out of memory sends.
        Some(SIGABRT | SIGKILL | SIGSEGV) => {
            NotCompiled::TooLarge(format!("more than {} MiB of memory", CHILD_MEMORY >> 20))
        }
        _ => NotCompiled::Failed(format!("the compiler ended with {status}: {}", sentence(complaint))),
    }
}
