//! The stock Python client, in scripts of `tests/python`, talked to by lines.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use serde_json::Value;

use crate::wait::PATIENCE;

/// A running script. Killed when dropped.
pub struct Script {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

/// The interpreter that has the stock client; `None`, said loudly, if it is missing and may be.
#[must_use]
pub fn interpreter() -> Option<PathBuf> {
    let path = crate::target().join("python/bin/python");
    crate::is_there(&path, "python").then_some(path)
}

/// Starts a script of `tests/python` with its arguments. `None` without an interpreter.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn start(script: &str, arguments: &[&str]) -> Option<Script> {
    let mut child = Command::new(interpreter()?)
        .arg("-u")
        .arg(crate::workspace().join("tests/python").join(script))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the interpreter starts");
    let output = BufReader::new(child.stdout.take().expect("was piped"));
    let (sender, lines) = unbounded();
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            // A test may have seen enough.
            let _ = sender.send(line);
        }
    });
    let input = child.stdin.take();
    Some(Script { name: script.to_owned(), child, input, lines })
}

impl Script {
    /// The next line that it prints; `None` once it has ended its output.
    ///
    /// # Panics
    /// When nothing comes in time.
    #[track_caller]
    pub fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("{} printed nothing for {PATIENCE:?}", self.name),
        }
    }

    /// The next line, as JSON.
    ///
    /// # Panics
    /// When there is none, or it is something else.
    #[track_caller]
    pub fn json(&self) -> Value {
        let line = self.line().unwrap_or_else(|| panic!("{} ended", self.name));
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{} printed {line:?}: {error}", self.name))
    }

    /// All lines up to its end, as JSON.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn rest(mut self) -> Vec<Value> {
        self.input = None;
        let mut values = Vec::new();
        while let Some(line) = self.line() {
            let value = serde_json::from_str(&line);
            values.push(value.unwrap_or_else(|error| panic!("{} printed {line:?}: {error}", self.name)));
        }
        let status = self.child.wait().expect("the script ended");
        assert!(status.success(), "{} failed: {status}", self.name);
        values
    }

    /// Sends it a line.
    ///
    /// # Panics
    /// When it has ended.
    #[track_caller]
    pub fn send(&mut self, line: &str) {
        let input = self.input.as_mut().expect("its input is open");
        writeln!(input, "{line}").unwrap_or_else(|error| panic!("{} takes no line: {error}", self.name));
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // Ended or not, nothing of it stays.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
