//! Compiled components: made by a child process with limits, kept under the artifact's digest.
//!
//! wasmtime promises nothing of the time and memory that compiling takes, so it happens where both end
//! with a process. What the child hands back is trusted as our own code is: the folder belongs to this
//! user alone, and each file carries a checksum against torn writes and bad disks.

#![expect(unsafe_code, reason = "takes back code that our own compiler child made")]

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, DirBuilder, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};
use sha2::{Digest, Sha256};
use tracing::{debug, warn};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::artifact::{CompilerCommand, OpenError};
use crate::component::Runtime;

#[cfg(test)]
mod tests;

/// Address space of the child. A component of 2.6 MB needed 256 MB with two compiling threads.
const CHILD_MEMORY: u64 = 1 << 30;

/// Processor seconds of the child, all its threads together.
const CHILD_CPU_SECONDS: u64 = 60;

/// How long the child may take by the clock, if it waits instead of working.
const CHILD_TIMEOUT: Duration = Duration::from_secs(120);

/// The most compiled code that is taken from a child. A component of 13 MB compiles to three times that.
const MAX_COMPILED: u64 = 256 << 20;

/// The most that is read of what a child says when it fails.
const MAX_COMPLAINT: u64 = 16 << 10;

/// How many compiled components are kept; the ones written longest ago go first. A host with more
/// extensions than this recompiles some at each start.
const MAX_CACHED: usize = 512;

/// What stands before compiled code, in the child's answer and in files: this, the code's length as
/// u64 and its SHA-256. So neither a line printed by a library nor a torn file is taken for code.
const MAGIC: &[u8; 12] = b"weir-code-1\n";

const HEADER: usize = MAGIC.len() + 8 + 32;

/// The exit code of a child that says on standard error why it refuses the component.
const REFUSED: u8 = 3;

/// The environment variable that tells a program that it was started as the compiler.
pub const COMPILER_CHILD: &str = "WEIR_COMPILER_CHILD";

/// The main function of the compiler child: reads a component from standard input, compiles it under
/// limits that it sets for itself first, and writes the code to standard output.
pub fn compile_child() -> ExitCode {
    ExitCode::from(child())
}

/// The exit code of a compiler child, after it has done its work.
fn child() -> u8 {
    match limit_self().and_then(|()| compile(io::stdin().lock())) {
        Ok(code) => {
            let mut stdout = io::stdout().lock();
            let written = stdout.write_all(&frame(&code)).and_then(|()| stdout.flush());
            u8::from(written.is_err())
        }
        Err(error) => {
            // The parent may have gone away; there is nobody else to tell then.
            let _ = write!(io::stderr(), "{error}");
            REFUSED
        }
    }
}

/// Sets the limits of this process, before a byte of the component is read.
fn limit_self() -> Result<(), String> {
    let limits = [
        (Resource::As, CHILD_MEMORY),
        (Resource::Cpu, CHILD_CPU_SECONDS),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ];
    for (resource, most) in limits {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(|error| format!("cannot limit the compiler: {error}"))?;
    }
    Ok(())
}

fn compile(mut input: impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(|error| format!("cannot read the component: {error}"))?;
    let engine = Runtime::engine_without_ticker();
    engine.precompile_component(&bytes).map_err(|error| format!("{error:#}"))
}

fn frame(code: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(HEADER + code.len());
    framed.extend_from_slice(MAGIC);
    framed.extend_from_slice(&(code.len() as u64).to_le_bytes());
    framed.extend_from_slice(&Sha256::digest(code));
    framed.extend_from_slice(code);
    framed
}

/// The code in a frame, wherever the frame begins; `None` if there is none or it is damaged.
fn unframe(bytes: &[u8]) -> Option<&[u8]> {
    let start = bytes.windows(MAGIC.len()).position(|window| window == MAGIC)?;
    let (header, rest) = bytes[start + MAGIC.len()..].split_at_checked(HEADER - MAGIC.len())?;
    let length = u64::from_le_bytes(*header.first_chunk()?);
    let code = rest.get(..usize::try_from(length).ok()?)?;
    (Sha256::digest(code)[..] == header[8..]).then_some(code)
}

/// Compiles components, or finds them compiled.
pub(crate) struct Compiler {
    command: CompilerCommand,
    cache: Cache,
}

impl Compiler {
    pub(crate) fn new(command: CompilerCommand, cache: Cache) -> Self {
        Self { command, cache }
    }

    /// The compiled component of these bytes. Two at once for the same bytes both compile; one's file
    /// replaces the other's, which is equal.
    ///
    /// # Errors
    /// When the bytes are no valid component, or compiling them takes more than the limits.
    pub(crate) fn component(
        &self,
        engine: &Engine,
        bytes: &[u8],
        sha256: &str,
    ) -> Result<Component, OpenError> {
        if let Some(code) = self.cache.get(sha256) {
            match load(engine, &code) {
                Ok(component) => return Ok(component),
                // Made by another build whose compatibility hash is the same; cannot happen, costs a line.
                Err(error) => warn!(sha256, %error, "compiled code not taken; compiling again"),
            }
        }
        let code = run_child(&self.command, bytes, CHILD_TIMEOUT)?;
        self.cache.put(sha256, &code);
        load(engine, &code)
            .map_err(|error| OpenError(format!("its compiled code was not taken by the engine: {error:#}")))
    }
}

/// Makes compiled code callable.
fn load(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: `code` comes from `run_child` or from `Cache::get`, and from nowhere else. The first is
    // what a process of our own image wrote to a pipe of ours; the second is what we wrote of it into a
    // folder of this user alone (`Cache::open` checks owner and mode), with its checksum compared.
    // wasmtime itself checks version and settings.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
    unsafe {
        Component::deserialize(engine, code)
    }
}

/// Starts the compiler, hands it `bytes` and gives back the code.
fn run_child(command: &CompilerCommand, bytes: &[u8], timeout: Duration) -> Result<Vec<u8>, OpenError> {
    let cannot = |error: io::Error| OpenError(format!("the compiler cannot be run: {error}"));
    let mut child = Command::new(&command.program)
        .args(&command.args)
        .env_clear()
        .env(COMPILER_CHILD, "1")
        // Each thread's arena takes 64 MB of address space, which is what is limited.
        .env("MALLOC_ARENA_MAX", "2")
        .env("RAYON_NUM_THREADS", "2")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    let Conversation { output, complaint, status, in_time } = converse(&mut child, bytes, timeout);
    let status = status.map_err(cannot)?;
    match status.code() {
        Some(0) => unframe(&output).map(<[u8]>::to_vec).ok_or_else(|| {
            OpenError(format!("its compiled code is damaged, or larger than {MAX_COMPILED} bytes"))
        }),
        Some(code) if code == i32::from(REFUSED) => {
            Err(OpenError(format!("it is not a valid component: {}", sentence(&complaint))))
        }
        _ if !in_time => {
            Err(OpenError(format!("it is too large: compiling it took longer than {} s", timeout.as_secs())))
        }
        _ => Err(OpenError(died(status, &complaint))),
    }
}

struct Conversation {
    output: Vec<u8>,
    complaint: String,
    status: io::Result<ExitStatus>,
    /// It ended by itself.
    in_time: bool,
}

/// Writes to the child, reads from it and waits for its end, all at once: with one after the other,
/// both sides would wait once a pipe is full.
fn converse(child: &mut Child, bytes: &[u8], timeout: Duration) -> Conversation {
    let mut stdin = child.stdin.take().expect("piped above");
    let stdout = child.stdout.take().expect("piped above");
    let stderr = child.stderr.take().expect("piped above");
    let pid = Pid::from_child(child);
    let (ended, end) = mpsc::channel();
    std::thread::scope(|scope| {
        // A child that ends early closes its input: its status says why.
        scope.spawn(move || drop(stdin.write_all(bytes)));
        let output = scope.spawn(move || drain(stdout, MAX_COMPILED + HEADER as u64));
        let complaint = scope.spawn(move || drain(stderr, MAX_COMPLAINT));
        let status = scope.spawn(move || {
            let status = child.wait();
            // Nobody listens any more if the clock was first.
            let _ = ended.send(());
            status
        });
        let in_time = end.recv_timeout(timeout).is_ok();
        if !in_time && let Err(error) = kill_process(pid, Signal::KILL) {
            debug!(%error, "compiler ended as it was killed");
        }
        let complaint = complaint.join().unwrap_or_default();
        Conversation {
            output: output.join().unwrap_or_default(),
            complaint: String::from_utf8_lossy(&complaint).into_owned(),
            status: status.join().unwrap_or_else(|_| Err(io::Error::other("the waiting thread panicked"))),
            in_time,
        }
    })
}

/// Reads to the end, keeping the first bytes: a writer whose reader stops would wait for ever.
fn drain(mut pipe: impl Read, keep: u64) -> Vec<u8> {
    let mut kept = Vec::new();
    let read = (&mut pipe).take(keep).read_to_end(&mut kept);
    // What was read before an error is judged by its checksum.
    if let Err(error) = read.and_then(|_| io::copy(&mut pipe, &mut io::sink())) {
        debug!(%error, "compiler's output cannot be read");
    }
    kept
}

/// What a child's end without an answer means.
fn died(status: ExitStatus, complaint: &str) -> String {
    const SIGABRT: i32 = 6;
    const SIGKILL: i32 = 9;
    const SIGSEGV: i32 = 11;
    const SIGXCPU: i32 = 24;
    match status.signal() {
        Some(SIGXCPU) => {
            format!("it is too large: compiling it took more than {CHILD_CPU_SECONDS} s of processor time")
        }
        Some(SIGABRT | SIGKILL | SIGSEGV) => {
            format!("it is too large: compiling it took more than {} MiB of memory", CHILD_MEMORY >> 20)
        }
        _ => format!("the compiler ended with {status}: {}", sentence(complaint)),
    }
}

/// The first lines of foreign text, on one line.
fn sentence(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(300).collect()
}

/// Compiled code by the artifact's digest, in a folder that only this user may enter.
///
/// Grows by one file for each artifact and each version of the engine, to [`MAX_CACHED`].
pub(crate) struct Cache {
    folder: PathBuf,
    /// Changes with the engine's version and settings, and with the machine.
    engine: String,
}

impl Cache {
    /// Opens the folder, making it if need be.
    ///
    /// # Errors
    /// When it cannot be made, or belongs to another user.
    pub(crate) fn open(folder: &Path, engine: &Engine) -> io::Result<Self> {
        private_folder(folder)?;
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self { folder: folder.to_owned(), engine: format!("{:016x}", hasher.finish()) })
    }

    fn path(&self, sha256: &str) -> PathBuf {
        self.folder.join(format!("{sha256}-{}.cwasm", self.engine))
    }

    /// The code kept for these bytes; `None` if there is none, or it is damaged.
    fn get(&self, sha256: &str) -> Option<Vec<u8>> {
        let path = self.path(sha256);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                warn!(path = %path.display(), %error, "compiled code cannot be read; compiling again");
                return None;
            }
        };
        let code = unframe(&bytes).map(<[u8]>::to_vec);
        if code.is_none() {
            warn!(path = %path.display(), "compiled code is damaged; compiling again");
        }
        code
    }

    /// Keeps code. A failure costs a compilation later, and no more.
    fn put(&self, sha256: &str, code: &[u8]) {
        let path = self.path(sha256);
        let written = tempfile::NamedTempFile::new_in(&self.folder).and_then(|mut file| {
            file.write_all(&frame(code))?;
            file.persist(&path).map_err(|error| error.error)
        });
        match written {
            Ok(_) => debug!(path = %path.display(), "compiled code kept"),
            Err(error) => warn!(path = %path.display(), %error, "compiled code not kept"),
        }
        if let Err(error) = self.prune(MAX_CACHED) {
            warn!(folder = %self.folder.display(), %error, "old compiled code not removed");
        }
    }

    /// Removes the oldest files above `most`.
    fn prune(&self, most: usize) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            files.push((entry.metadata()?.modified()?, entry.path()));
        }
        files.sort();
        for (_, path) in files.iter().take(files.len().saturating_sub(most)) {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

/// Makes a folder that only this user may enter, or checks that it is one. What lies in it is run.
///
/// # Errors
/// When it cannot be made, is a link, or belongs to another user.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let metadata = fs::symlink_metadata(folder)?;
    let refuse = |why: &str| Err(io::Error::other(format!("{} {why}", folder.display())));
    if !metadata.is_dir() {
        return refuse("is not a folder; code that is run may not lie behind a link");
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return refuse("belongs to another user; code that is run may not lie there");
    }
    if metadata.mode() & 0o077 != 0 {
        File::open(folder)?.set_permissions(fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}
