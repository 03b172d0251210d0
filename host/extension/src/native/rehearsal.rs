//! A library's first opening, in a child of weir: its constructors and its initialiser run whatever it is,
//! and may crash, hang or end the process. Then that was a child.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, Signal, getpid, kill_process};

use super::Extension;
use super::library::{Library, Refusal};
use crate::child::{self, ChildCommand, End, Ended, Ender, Errand, REFUSED, Task, sentence, signal_of};
use crate::frame;

/// The most that a library may print in the child before what it is refused for is not found any more.
const MAX_OUTPUT: u64 = 1 << 20;

/// The child's part: opens the library whose path stands on standard input, starts it, asks it what it is,
/// and says how that went.
///
/// # Errors
/// When it cannot be asked or answered.
pub(crate) fn rehearse() -> Result<(), String> {
    child::limit_self(&[(Resource::Core, 0)])?;
    let mut path = Vec::new();
    io::stdin().lock().read_to_end(&mut path).map_err(|error| format!("no path: {error}"))?;
    let opened = Library::open(Path::new(OsStr::from_bytes(&path)))
        .and_then(|library| Extension::open(library).map_err(|error| Refusal::from(error.0)));
    let answer = match opened {
        Ok(_) => String::new(),
        Err(Refusal { sentence, report }) => format!("{sentence}\0{}", report.unwrap_or_default()),
    };
    child::answer(Task::Library, answer.as_bytes())?;
    // Nothing more of the library is to run: what it does at a process's end is not what was asked.
    kill_process(getpid(), Signal::KILL).map_err(|error| format!("the child cannot end: {error}"))
}

/// Has a child open the library.
///
/// # Errors
/// When it is refused, or the child ended otherwise.
pub(super) fn in_child(command: &ChildCommand, path: &Path, patience: Duration) -> Result<(), Refusal> {
    let input = path.as_os_str().as_bytes();
    let errand = Errand { task: Task::Library, input, timeout: patience, max_output: MAX_OUTPUT };
    let ended = child::run(command, &errand, &Ender::default())
        .map_err(|error| format!("the child that is to open it first cannot be run: {error}"))?;
    match frame::content(Task::Library.as_str(), &ended.output) {
        Some([]) => Ok(()),
        Some(refusal) => {
            let refusal = String::from_utf8_lossy(refusal);
            let (sentence, report) = refusal.split_once('\0').unwrap_or((&refusal, ""));
            let report = (!report.is_empty()).then(|| report.to_owned());
            Err(Refusal { sentence: sentence.to_owned(), report })
        }
        None => Err(died(&ended, patience).into()),
    }
}

/// What a child's end without an answer means.
fn died(ended: &Ended, patience: Duration) -> String {
    let said = match sentence(&ended.complaint) {
        said if said.is_empty() => String::new(),
        said => format!("; it said: {said}"),
    };
    match (ended.by, signal_of(ended.status), ended.status.code()) {
        (End::Clock, ..) => {
            format!("opening it did not end within {patience:?}: an initialiser of it waits or loops{said}")
        }
        (End::Ender, ..) => "opening it was given up, as weir is stopping".into(),
        (End::Itself, Some(signal), _) => {
            format!("it crashed as it was opened, with {signal}; that was a child of weir{said}")
        }
        (End::Itself, None, Some(code)) if code == i32::from(REFUSED) && !said.is_empty() => {
            format!("a child of weir could not open it{said}")
        }
        (End::Itself, None, code) => format!(
            "it ended the process as it was opened, with exit code {}; that was a child of weir{said}",
            code.unwrap_or_default()
        ),
    }
}
