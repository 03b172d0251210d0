//! Children of this very program, for what may go wrong without harm: compiling a component, and opening
//! a native library for the first time.
//!
//! A child learns its task from an environment variable, gets its input on standard input and answers
//! with a frame on standard output. What the tasks are is in `compiled/` and `native/`.

use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, setrlimit, waitid,
};
use tracing::debug;

use crate::{compiled, frame, native};

#[cfg(test)]
pub(crate) mod tests;

/// The environment variable that tells a program that it was started as a child, and for what.
pub const CHILD: &str = "WEIR_CHILD";

/// The exit code of a child that says on standard error why it refuses its input.
pub(crate) const REFUSED: u8 = 3;

/// The most that is read of what a child says on standard error.
const MAX_COMPLAINT: u64 = 16 << 10;

/// How long a child's output is read on after its end. What it wrote is in the pipe by then; a process that
/// it started, and that left its group, may hold the pipe open for as long as it likes.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// How a child process is started. It is to call [`child_main`] and nothing else.
#[derive(Clone, Debug)]
pub struct ChildCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

impl Default for ChildCommand {
    /// This very program, with `child`.
    fn default() -> Self {
        // The link names the running image even after the file was replaced by an upgrade.
        let running = PathBuf::from("/proc/self/exe");
        let program = match std::env::current_exe() {
            Ok(exe) if !running.exists() => exe,
            _ => running,
        };
        Self { program, args: vec!["child".into()] }
    }
}

/// What a child is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Compile a component with Winch: somebody waits for it.
    Winch,
    /// Compile a component with Cranelift: somebody waits for it.
    Cranelift,
    /// Compile a component with Cranelift while Winch's code runs: nobody waits.
    Behind,
    /// Open a native library.
    Library,
}

impl Task {
    const ALL: [Self; 4] = [Self::Winch, Self::Cranelift, Self::Behind, Self::Library];

    /// As the environment variable has it; also the label of the child's answer.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Winch => "winch",
            Self::Cranelift => "cranelift",
            Self::Behind => "behind",
            Self::Library => "library",
        }
    }
}

/// The main function of a child: does its task under limits that it sets for itself first.
pub fn child_main() -> ExitCode {
    ExitCode::from(work())
}

/// The exit code of a child, after it has done its work.
fn work() -> u8 {
    let told = std::env::var(CHILD).unwrap_or_default();
    let done = match Task::ALL.into_iter().find(|task| task.as_str() == told) {
        Some(Task::Library) => native::rehearse(),
        Some(task) => compiled::compile(task),
        None => Err(format!("{CHILD} is {told:?}: weir starts its children by itself")),
    };
    match done {
        Ok(()) => 0,
        Err(sentence) => {
            // The parent may have gone away; there is nobody else to tell then.
            let _ = write!(io::stderr(), "{sentence}");
            REFUSED
        }
    }
}

/// Sets limits of this process.
pub(crate) fn limit_self(limits: &[(Resource, u64)]) -> Result<(), String> {
    for (resource, most) in limits {
        // Linux looks at the hard limit of processor time first, and sends SIGKILL: the parent is to see
        // SIGXCPU, which nothing else sends.
        let hard = if *resource == Resource::Cpu { most + 1 } else { *most };
        let limit = Rlimit { current: Some(*most), maximum: Some(hard) };
        setrlimit(*resource, limit).map_err(|error| format!("the child cannot be limited: {error}"))?;
    }
    Ok(())
}

/// Answers the parent.
pub(crate) fn answer(task: Task, content: &[u8]) -> Result<(), String> {
    let mut stdout = io::stdout().lock();
    let header = frame::header(task.as_str(), content);
    let written =
        stdout.write_all(&header).and_then(|()| stdout.write_all(content)).and_then(|()| stdout.flush());
    written.map_err(|error| format!("the answer cannot be written: {error}"))
}

/// How a child ended.
pub(crate) struct Ended {
    /// What it wrote to standard output, up to the limit.
    pub(crate) output: Vec<u8>,
    /// What it wrote to standard error.
    pub(crate) complaint: String,
    pub(crate) status: ExitStatus,
    pub(crate) by: End,
}

/// Who ended a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It ended, or was ended by one of its limits.
    Itself,
    /// It took too long.
    Clock,
    /// [`Ender::end`] was called.
    Ender,
}

/// Ends a child from another thread, and those started later.
#[derive(Default)]
pub(crate) struct Ender(Mutex<(bool, Option<mpsc::Sender<End>>)>);

impl Ender {
    /// Ends the running child, if there is one; none is started from here on.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        state.0 = true;
        if let Some(running) = state.1.take() {
            // It has ended meanwhile if nobody listens.
            let _ = running.send(End::Ender);
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.lock().0
    }

    fn attach(&self, running: mpsc::Sender<End>) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.0 {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "weir is stopping"));
        }
        state.1 = Some(running);
        Ok(())
    }
}

/// What to start a child for.
pub(crate) struct Errand<'a> {
    pub(crate) task: Task,
    pub(crate) input: &'a [u8],
    /// How long it may take by the clock.
    pub(crate) timeout: Duration,
    /// The most that is kept of its answer.
    pub(crate) max_output: u64,
}

/// Starts a child, hands it its input and waits for its end.
///
/// # Errors
/// When it cannot be started or waited for.
pub(crate) fn run(command: &ChildCommand, errand: &Errand<'_>, ender: &Ender) -> io::Result<Ended> {
    let mut child = Command::new(&command.program);
    child.args(&command.args);
    if errand.task != Task::Library {
        // A compiler needs nothing of it; a library is to see what it will see in weir.
        child.env_clear();
    }
    let mut child = child
        .env(CHILD, errand.task.as_str())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own: what it starts ends with it.
        .process_group(0)
        .spawn()?;
    converse(&mut child, errand, ender)
}

/// Writes to the child, reads from it and waits for its end, all at once: with one after the other,
/// both sides would wait once a pipe is full.
fn converse(child: &mut Child, errand: &Errand<'_>, ender: &Ender) -> io::Result<Ended> {
    let mut stdin = child.stdin.take().expect("piped above");
    let output = Drained::start(child.stdout.take().expect("piped above"), errand.max_output)?;
    let complaint = Drained::start(child.stderr.take().expect("piped above"), MAX_COMPLAINT)?;
    let pid = Pid::from_child(child);
    let (ended, end) = mpsc::channel();
    let attached = ender.attach(ended.clone());
    let by = std::thread::scope(|scope| {
        // A child that ends early closes its input: its status says why. Nothing else holds it open: a
        // compiler starts nothing, and a library's input, a path, fits into the pipe.
        scope.spawn(move || drop(stdin.write_all(errand.input)));
        let watch = scope.spawn(move || {
            // It is not taken off yet: until that is done below, no other process can get its number.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let seen = retry_on_intr(|| waitid(WaitId::Pid(pid), options));
            // Nobody listens any more if the clock was first.
            let _ = ended.send(End::Itself);
            seen
        });
        let by = match attached {
            Ok(()) => end.recv_timeout(errand.timeout).unwrap_or(End::Clock),
            Err(_) => End::Ender,
        };
        if by != End::Itself {
            kill(pid);
        }
        watch.join().map_err(|_panic| io::Error::other("the waiting thread panicked"))??;
        Ok::<_, io::Error>(by)
    })?;
    // What it has started and left behind.
    kill(pid);
    let status = child.wait()?;
    let until = Instant::now() + AFTERWARDS;
    Ok(Ended {
        output: output.until(until),
        complaint: String::from_utf8_lossy(&complaint.until(until)).into_owned(),
        status,
        by,
    })
}

/// Ends a child that has not been taken off, and its group: it may have left that itself.
fn kill(child: Pid) {
    for killed in [kill_process(child, Signal::KILL), kill_process_group(child, Signal::KILL)] {
        if let Err(error) = killed {
            debug!(%error, "a child ended as it was killed");
        }
    }
}

/// What a thread reads from a pipe.
struct Drained {
    kept: Arc<Mutex<Vec<u8>>>,
    at_end: Receiver<()>,
}

impl Drained {
    /// Reads to the end, keeping the first bytes: a writer whose reader stops would wait for ever.
    fn start(pipe: impl Read + Send + 'static, keep: u64) -> io::Result<Self> {
        let kept = Arc::new(Mutex::default());
        let (ended, at_end) = mpsc::channel();
        let into = Arc::downgrade(&kept);
        std::thread::Builder::new().name("child-output".into()).spawn(move || {
            // What was read before an error is judged by its checksum.
            if let Err(error) = drain(pipe, keep, &into) {
                debug!(%error, "a child's output cannot be read");
            }
            // Nobody listens any more if it was given up.
            let _ = ended.send(());
        })?;
        Ok(Self { kept, at_end })
    }

    /// What was read to the end, or until then. The thread of one that was given up ends, and closes the
    /// pipe, as soon as something is written to it.
    fn until(self, then: Instant) -> Vec<u8> {
        let left = then.saturating_duration_since(Instant::now());
        if let Err(RecvTimeoutError::Timeout) = self.at_end.recv_timeout(left) {
            debug!("something that a child has started holds its output open");
        }
        std::mem::take(&mut *self.kept.lock())
    }
}

fn drain(mut pipe: impl Read, keep: u64, into: &Weak<Mutex<Vec<u8>>>) -> io::Result<()> {
    let keep = usize::try_from(keep).unwrap_or(usize::MAX);
    let mut chunk = vec![0; 64 << 10];
    loop {
        let read = match pipe.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let Some(kept) = into.upgrade().filter(|_| read > 0) else { return Ok(()) };
        let mut kept = kept.lock();
        let room = keep - kept.len();
        kept.extend_from_slice(&chunk[..read.min(room)]);
    }
}

/// A signal's number and name, for a sentence.
pub(crate) fn signal_of(status: ExitStatus) -> Option<String> {
    const NAMES: [(i32, &str); 8] = [
        (4, "SIGILL"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (15, "SIGTERM"),
    ];
    let signal = status.signal()?;
    let known = NAMES.iter().find(|(number, _)| *number == signal);
    Some(known.map_or_else(|| format!("signal {signal}"), |(_, name)| format!("signal {signal} ({name})")))
}

/// The first lines of foreign text, on one line.
pub(crate) fn sentence(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(300).collect()
}
