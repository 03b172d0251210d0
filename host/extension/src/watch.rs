//! The drop folder: finds out which files of it are new, changed or gone, and hands them to the door.
//!
//! Events of the system only say *when* to look; *what* has changed is told by looking at the folder.
//! So a lost event, a network mount without events, a folder that is replaced as a whole and a link
//! whose target changes elsewhere cost at most one polling interval. A look is one `stat` a file.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use notify::event::{EventKind, ModifyKind, RenameMode};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tracing::{debug, error, info, warn};

use crate::extensions::{Extensions, Source};

#[cfg(test)]
mod tests;

/// How often the quiet period of a file doubles that is refused again and again: most likely it is
/// being written, slowly.
const MAX_DOUBLINGS: u32 = 3;

/// How the folder is watched.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// How long a file's size, times and inode must stay the same before it is read. Default: 300 ms.
    pub quiet: Duration,
    /// How often the folder is looked at without an event. Default: 2 s.
    pub poll: Duration,
    /// Whether the system is asked for events. Default: yes.
    pub events: bool,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self { quiet: Duration::from_millis(300), poll: Duration::from_secs(2), events: true }
    }
}

/// The watcher of one folder: a thread that ends, after the file in hand, when this is stopped or dropped.
pub struct Watcher {
    commands: Sender<Command>,
    thread: Option<JoinHandle<()>>,
}

enum Command {
    /// The system saw something; these paths were deleted or moved away.
    Event(Vec<PathBuf>),
    /// Look now, do not wait for files to settle, and say so when done.
    Rescan(Sender<()>),
    Stop,
}

/// What the watcher's thread knows.
struct Folder {
    extensions: Arc<Extensions>,
    path: PathBuf,
    options: WatchOptions,
    files: HashMap<PathBuf, Seen>,
    /// Since when files that something was taken from are missing.
    missing: HashMap<PathBuf, Instant>,
    readable: bool,
    /// Every file has been looked at once: what is there now and was not is written by somebody.
    started: bool,
    /// Of the table, when files that wait for something else were last tried.
    generation: u64,
}

/// What is known of one file.
struct Seen {
    /// As it was last looked at, and since when it has been so.
    stamp: Stamp,
    since: Instant,
    /// It has been handed to the door in this state.
    tried: bool,
    /// How often it has been refused in a row.
    refusals: u32,
}

/// What differs after any change of a file: contents cannot be written without the change time moving,
/// nor another file put in its place without another inode.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Watcher {
    /// Watches a folder. When this returns, every file in it has been tried once, and what came from
    /// files that are gone has been withdrawn.
    ///
    /// # Errors
    /// When the folder cannot be read, or the system gives no thread. Where it only gives no events, the
    /// folder is polled.
    pub fn start(extensions: Arc<Extensions>, folder: PathBuf, options: WatchOptions) -> io::Result<Self> {
        // One spelling for one file, whatever the working directory was at this start.
        let path = fs::canonicalize(folder)?;
        fs::read_dir(&path)?;
        let (commands, inbox) = mpsc::channel();
        let events = if options.events { events_of(&path, commands.clone()) } else { None };
        let mut folder = Folder {
            extensions,
            path,
            options,
            files: HashMap::new(),
            missing: HashMap::new(),
            readable: true,
            started: false,
            generation: 0,
        };
        folder.look(Duration::ZERO);
        let thread = std::thread::Builder::new().name("weir-drop-folder".to_owned()).spawn(move || {
            folder.run(&inbox);
            drop(events);
        })?;
        Ok(Self { commands, thread: Some(thread) })
    }

    /// Looks at the folder now, without waiting for files to settle; returns when all is done.
    pub fn rescan(&self) {
        let (done, wait) = mpsc::channel();
        // A thread that is gone has nothing to look at; `wait` then ends at once.
        let _ = self.commands.send(Command::Rescan(done));
        let _ = wait.recv();
    }

    /// Ends the watcher's thread and waits for it.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let _ = self.commands.send(Command::Stop);
        if thread.join().is_err() {
            error!("the thread of the drop folder panicked");
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.end();
    }
}

/// Has the system's events sent to the watcher's thread, as long as the result is held.
fn events_of(path: &Path, commands: Sender<Command>) -> Option<RecommendedWatcher> {
    let tell = move |event: notify::Result<notify::Event>| {
        let removed = match event {
            Ok(event) => match event.kind {
                EventKind::Access(_) => return,
                EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => event.paths,
                _ => Vec::new(),
            },
            Err(error) => {
                warn!(%error, "an event of the drop folder was lost");
                Vec::new()
            }
        };
        // The thread has ended: nobody looks any more.
        let _ = commands.send(Command::Event(removed));
    };
    let watcher = notify::recommended_watcher(tell).and_then(|mut watcher| {
        watcher.watch(path, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    watcher
        .inspect_err(
            |error| warn!(path = %path.display(), %error, "no events for the drop folder; polling it"),
        )
        .ok()
}

impl Folder {
    fn run(&mut self, inbox: &Receiver<Command>) {
        let mut next_look = Instant::now() + self.options.quiet;
        loop {
            let wait = next_look.saturating_duration_since(Instant::now());
            match inbox.recv_timeout(wait) {
                Ok(Command::Event(removed)) => {
                    for path in removed.iter().filter(|path| is_artifact(path)) {
                        self.extensions.forget_digest(path);
                    }
                    // A large copy is thousands of events: look once for all that come in a while.
                    next_look = next_look.min(Instant::now() + self.options.quiet / 4);
                }
                Ok(Command::Rescan(done)) => {
                    self.look(Duration::ZERO);
                    // Nobody may wait for it any more.
                    let _ = done.send(());
                }
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    self.look(self.options.quiet);
                    let again = if self.is_settling() { self.options.quiet } else { self.options.poll };
                    next_look = Instant::now() + again;
                }
            }
        }
    }

    /// Something changed that has not been quiet for long enough.
    fn is_settling(&self) -> bool {
        !self.missing.is_empty() || self.files.values().any(|seen| !seen.tried)
    }

    /// Looks at every file; what has been the same for `quiet` and has not been tried is tried.
    fn look(&mut self, quiet: Duration) {
        let found = match list(&self.path) {
            Ok(found) => found,
            // Not the same as an empty folder: nothing is withdrawn because a mount is away.
            Err(error) => {
                if std::mem::replace(&mut self.readable, false) {
                    error!(path = %self.path.display(), %error, "the drop folder cannot be read; what is in force stays");
                }
                return;
            }
        };
        if !std::mem::replace(&mut self.readable, true) {
            info!(path = %self.path.display(), "the drop folder can be read again");
        }
        self.files.retain(|path, _| found.contains_key(path));
        // New names first: a file that was moved takes over before its old name is missed.
        for (path, stamp) in &found {
            self.look_at(path, *stamp, quiet);
        }
        self.started = true;
        self.look_for_missing(&found, quiet);
        self.retry_waiting();
    }

    /// What another file, a binding or a configuration stood in the way of is tried again when the table
    /// has changed.
    fn retry_waiting(&mut self) {
        let generation = self.extensions.generation();
        if std::mem::replace(&mut self.generation, generation) == generation {
            return;
        }
        for path in self.extensions.waiting_files() {
            if let Some(seen) = self.files.get_mut(&path) {
                seen.tried = false;
            }
        }
    }

    fn look_at(&mut self, path: &Path, stamp: Stamp, quiet: Duration) {
        let now = Instant::now();
        let fresh = || Seen { stamp, since: now, tried: false, refusals: 0 };
        let before = self.files.get(path).map(|seen| seen.stamp);
        if before.map_or(self.started, |before| before != stamp) {
            self.extensions.file_rewritten(path);
        }
        let seen = self.files.entry(path.to_owned()).or_insert_with(fresh);
        if seen.stamp != stamp {
            *seen = Seen { refusals: seen.refusals, ..fresh() };
        }
        let quiet = quiet * 2u32.pow(seen.refusals.min(MAX_DOUBLINGS));
        if seen.tried || now.duration_since(seen.since) < quiet {
            return;
        }
        seen.tried = true;
        match self.extensions.register(Source::File(path.to_owned())) {
            Ok(_) => seen.refusals = 0,
            Err(_) => {
                seen.refusals += 1;
                // The door has told why. If it is half a file, the other half is a change.
                debug!(path = %path.display(), refusals = seen.refusals, "pending: tried again when it changes");
            }
        }
    }

    fn look_for_missing(&mut self, found: &BTreeMap<PathBuf, Stamp>, quiet: Duration) {
        let now = Instant::now();
        let mut missing = HashMap::new();
        for path in self.extensions.known_files() {
            let gone = || fs::metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            if found.contains_key(&path) || !gone() {
                continue;
            }
            let since = self.missing.get(&path).copied().unwrap_or(now);
            if now.duration_since(since) < quiet {
                missing.insert(path, since);
            } else {
                self.extensions.file_gone(&path);
            }
        }
        self.missing = missing;
    }
}

/// The artifacts in a folder: links are followed, so that the files of a mounted volume, which are links
/// through a link that is swapped, count as changed when that is.
fn list(folder: &Path) -> io::Result<BTreeMap<PathBuf, Stamp>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !is_artifact(&path) {
            continue;
        }
        // A link to nothing, or a file that has just gone: not there.
        if let Ok(metadata) = fs::metadata(&path)
            && metadata.is_file()
        {
            found.insert(path, Stamp::of(&metadata));
        }
    }
    Ok(found)
}

/// Whether a path is named as artifacts are: `*.so` or `*.wasm`, not hidden. Editors' leftovers
/// (`x.so~`, `.x.so.swp`) and files under a temporary name are not.
fn is_artifact(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && path.extension().is_some_and(|extension| extension == "so" || extension == "wasm")
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}
