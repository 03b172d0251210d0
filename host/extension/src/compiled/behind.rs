//! Cranelift's code for what Winch's runs meanwhile: made by a thread of its own, one component at a time,
//! and put in place when it is ready.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use tracing::{debug, error, info};

use super::{Compiler, NotCompiled};
use crate::child::Ender;
use crate::component::{Code, Runtime};

/// The most bytes of components that wait. What does not fit keeps Winch's code until the next start.
const MAX_WAITING: usize = 256 << 20;

/// The thread. Dropping it ends the compilation under way.
pub(crate) struct Behind {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    runtime: Arc<Runtime>,
    compiler: Arc<Compiler>,
    waiting: Mutex<VecDeque<Job>>,
    work: Condvar,
    ender: Ender,
}

struct Job {
    bytes: Vec<u8>,
    sha256: String,
    /// Gone when another version is in force meanwhile.
    code: Weak<Code>,
}

impl Behind {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives none.
    pub(crate) fn start(runtime: Arc<Runtime>, compiler: Arc<Compiler>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            runtime,
            compiler,
            waiting: Mutex::default(),
            work: Condvar::new(),
            ender: Ender::default(),
        });
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("weir-compile".into()).spawn(move || worker.work())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Has better code made for a component.
    pub(crate) fn improve(&self, bytes: &[u8], sha256: &str, code: &Arc<Code>) {
        let mut waiting = self.shared.waiting.lock();
        waiting.retain(|job| job.code.strong_count() > 0);
        let held: usize = waiting.iter().map(|job| job.bytes.len()).sum();
        if held + bytes.len() > MAX_WAITING {
            code.stays("too many components wait to be compiled".to_owned());
            return;
        }
        waiting.push_back(Job {
            bytes: bytes.to_vec(),
            sha256: sha256.to_owned(),
            code: Arc::downgrade(code),
        });
        self.shared.work.notify_one();
    }
}

impl Shared {
    fn work(&self) {
        while let Some(job) = self.next() {
            let Job { bytes, sha256, code } = job;
            if code.strong_count() == 0 {
                continue;
            }
            let made = self.compiler.best(&self.runtime, &bytes, &sha256, &self.ender);
            drop(bytes);
            let Some(code) = code.upgrade() else { continue };
            let replaced = made.and_then(|component| {
                code.replace(&component).map_err(|error| NotCompiled::Failed(error.to_string()))
            });
            match replaced {
                Ok(()) => info!(sha256, class = code.class(), "Cranelift's code is in force"),
                Err(NotCompiled::GivenUp) => debug!(sha256, "not compiled by Cranelift: weir is stopping"),
                Err(error) => {
                    info!(sha256, class = code.class(), %error, "Winch's code stays in force");
                    code.stays(error.to_string());
                }
            }
        }
    }

    /// Waits for the next one; `None` when there will be none.
    fn next(&self) -> Option<Job> {
        let mut waiting = self.waiting.lock();
        loop {
            if self.ender.has_ended() {
                return None;
            }
            if let Some(job) = waiting.pop_front() {
                return Some(job);
            }
            self.work.wait(&mut waiting);
        }
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        {
            // With the lock, so that the thread cannot look before and wait after.
            let _waiting = self.shared.waiting.lock();
            self.shared.ender.end();
        }
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            error!("the compiling thread had panicked");
        }
    }
}
