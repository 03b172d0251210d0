//! Opening libraries: once for each digest, in a child first, and for good.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use abi_stable::library::{LibHeader, LibraryError, lib_header_from_path};
use abi_stable::std_types::{RResult, RStr, RString};
use parking_lot::{Condvar, Mutex};
use tracing::{debug, info, warn};
use weir_plugin_api::native::{Failure, FilterBox, Host, ListerBox, v1_0};

use super::{Extension, rehearsal};
use crate::artifact::OpenError;
use crate::child::ChildCommand;
use crate::compiled::private_folder;

/// How long opening a library may take in the child. It takes milliseconds.
const OPENING: Duration = Duration::from_secs(10);

/// The folder in which each library gets a path of its own, and what is open.
pub(crate) struct Libraries {
    folder: PathBuf,
    child: ChildCommand,
    most: usize,
    pub(super) patience: Duration,
    /// Those open, and about to be.
    opened: AtomicUsize,
    /// By digest. Grows up to `most`: what is open is never closed, so it is used again.
    by_digest: Mutex<HashMap<String, Open>>,
    /// The digests that are being opened: by one thread each, so that none is open twice.
    opening: Mutex<HashSet<String>>,
    /// One of them is not any more.
    settled: Condvar,
}

/// What is open of a digest. Not locked while anything of the library runs.
#[derive(Clone)]
enum Open {
    Taken(Arc<Extension>),
    /// It was refused as it was started or described, which may have a reason that passes.
    Refused(&'static LibHeader),
}

/// A library of ours, open for good: the functions of its root module.
pub(crate) struct Library {
    pub(super) version: String,
    pub(super) start: extern "C" fn(Host),
    pub(super) describe: extern "C" fn() -> RString,
    pub(super) filter: extern "C" fn(RStr<'_>) -> RResult<FilterBox, Failure>,
    pub(super) lister: extern "C" fn(RStr<'_>) -> RResult<ListerBox, Failure>,
}

/// Why a library was not taken.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// For people.
    pub(super) sentence: String,
    /// What abi_stable says of types that differ: a dump of them, tens of kilobytes long.
    pub(super) report: Option<String>,
}

impl From<Refusal> for OpenError {
    fn from(refusal: Refusal) -> Self {
        if let Some(report) = refusal.report {
            debug!(report, "types of a native library differ from ours");
        }
        Self(refusal.sentence)
    }
}

impl From<String> for Refusal {
    fn from(sentence: String) -> Self {
        Self { sentence, report: None }
    }
}

impl Libraries {
    /// Opens the folder, making it if need be. At most `most` libraries will be open; `child` is how the
    /// child is started that tries each.
    ///
    /// # Errors
    /// When it cannot be made, or belongs to another user.
    pub(crate) fn open(folder: &Path, child: ChildCommand, most: usize) -> io::Result<Self> {
        private_folder(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            child,
            most,
            patience: OPENING,
            opened: AtomicUsize::new(0),
            by_digest: Mutex::default(),
            opening: Mutex::default(),
            settled: Condvar::new(),
        })
    }

    /// How many libraries are open. Each holds about half a megabyte until the process ends.
    pub(crate) fn count(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    /// The most libraries that may be open.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Opens a library from a copy of its own, or gives back the open one of that digest. `from` is for the
    /// log.
    ///
    /// # Errors
    /// When it is no library of ours, or of another major version of the contract; when it crashes or hangs
    /// as it is opened, which ends a child only; when as many are open as may be.
    pub(crate) fn extension(
        &self,
        bytes: &[u8],
        sha256: &str,
        from: &Path,
    ) -> Result<Arc<Extension>, OpenError> {
        let _alone = self.alone(sha256);
        let open = self.by_digest.lock().get(sha256).cloned();
        let header = match open {
            Some(Open::Taken(extension)) => return Ok(extension),
            Some(Open::Refused(header)) => header,
            None => {
                let header = self.map(bytes, sha256, from)?;
                self.by_digest.lock().insert(sha256.to_owned(), Open::Refused(header));
                header
            }
        };
        let library = Library::of(header, header.version_strings().version.to_string())?;
        let contract = library.version.clone();
        let extension = Arc::new(Extension::open(library)?);
        info!(from = %from.display(), contract, libraries = self.count(), "native library opened");
        self.by_digest.lock().insert(sha256.to_owned(), Open::Taken(extension.clone()));
        Ok(extension)
    }

    /// Maps a library that is not, for good, after a child has opened it.
    fn map(&self, bytes: &[u8], sha256: &str, from: &Path) -> Result<&'static LibHeader, OpenError> {
        let copy = self.copy(bytes, sha256)?;
        // Before it counts: one that is refused here was never open.
        rehearsal::in_child(&self.child, &copy.0, self.patience)?;
        let count = self.opened.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < self.most).then_some(open + 1)
        });
        if count.is_err() {
            return Err(OpenError(format!(
                "{} native libraries are open, the most that weir holds (plugins.max-native-libraries); an \
                 open library cannot be closed, so a restart is needed to open others",
                self.most
            )));
        }
        header(&copy.0).map_err(|refusal| {
            // The system did not map it, or abi_stable has closed it again.
            self.opened.fetch_sub(1, Ordering::Relaxed);
            debug!(from = %from.display(), "a library was opened in a child and not in weir");
            refusal.into()
        })
    }

    /// Waits until no other thread opens these bytes.
    fn alone<'a>(&'a self, sha256: &'a str) -> Alone<'a> {
        let mut opening = self.opening.lock();
        while !opening.insert(sha256.to_owned()) {
            self.settled.wait(&mut opening);
        }
        Alone { libraries: self, sha256 }
    }

    /// Writes a copy. dlopen knows a library by its path, by its inode too, and gives back the first one for
    /// ever: so each gets a path that this process never used before. The inode is not used again while the
    /// library is mapped, which is until the end.
    pub(super) fn copy(&self, bytes: &[u8], sha256: &str) -> Result<Copy, OpenError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let copy = Copy(self.folder.join(format!("{sha256}-{}-{next}.so", std::process::id())));
        let written = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&copy.0)
            .and_then(|mut file| file.write_all(bytes));
        match written {
            Ok(()) => Ok(copy),
            Err(error) => Err(OpenError(format!("its copy {} cannot be written: {error}", copy.0.display()))),
        }
    }
}

/// The right to open what has this digest.
struct Alone<'a> {
    libraries: &'a Libraries,
    sha256: &'a str,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.libraries.opening.lock().remove(self.sha256);
        self.libraries.settled.notify_all();
    }
}

/// A library's copy. Dropped, its name goes: an open library needs it no more.
pub(super) struct Copy(pub(super) PathBuf);

impl Drop for Copy {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            warn!(path = %self.0.display(), %error, "copy of a library not removed");
        }
    }
}

impl Library {
    /// Opens a library: runs its constructors and compares its types with ours.
    ///
    /// # Errors
    /// When it is no library of ours, or of another major version of the contract.
    pub(super) fn open(path: &Path) -> Result<Self, Refusal> {
        let header = header(path)?;
        Self::of(header, header.version_strings().version.to_string())
    }

    pub(super) fn of(header: &'static LibHeader, version: String) -> Result<Self, Refusal> {
        let (major, minor) = version.split_once('.').unwrap_or((&version, "0"));
        if major != "1" {
            return Err(format!("it was built for contract {version}, this host speaks 1.x").into());
        }
        match minor.split('.').next() {
            #[cfg(test)]
            Some(minor) if minor != "0" => super::tests::open_as_next_minor(header, version),
            // A library of a later minor is taken as the latest that we know: its types only grew.
            _ => Self::of_first_minor(header, version),
        }
    }

    pub(super) fn of_first_minor(header: &'static LibHeader, version: String) -> Result<Self, Refusal> {
        let root: v1_0::RootRef = header.init_root_module().map_err(|error| explain(&error))?;
        Ok(Self {
            version,
            start: root.start(),
            describe: root.describe(),
            filter: root.filter(),
            lister: root.lister(),
        })
    }
}

pub(super) fn header(path: &Path) -> Result<&'static LibHeader, Refusal> {
    lib_header_from_path(path).map_err(|error| explain(&error))
}

/// A sentence about why a library was not taken.
pub(super) fn explain(error: &LibraryError) -> Refusal {
    let sentence = match error {
        LibraryError::OpenError { err, .. } => format!("the system cannot load it: {}", first_line(err)),
        LibraryError::GetSymbolError { .. } => {
            "it is a native library without weir's root module; end its crate with the SDK's export!".into()
        }
        LibraryError::IncompatibleVersionNumber { expected_version, actual_version, .. } => {
            format!("it was built for contract {actual_version}, this host speaks {expected_version}")
        }
        LibraryError::InvalidAbiHeader(_) | LibraryError::InvalidCAbi { .. } => {
            "it was built with another version of abi_stable than this host's; build it with the SDK of this host".into()
        }
        LibraryError::AbiInstability(report) => {
            let sentence = "its types differ from those of the contract version that it names; build it with the SDK, unchanged (the full report is in the log at level debug)";
            return Refusal { sentence: sentence.into(), report: Some(report.to_string()) };
        }
        LibraryError::RootModule { err, .. } => format!("its root module was not made: {}", first_line(err)),
        other => format!("it was not taken: {}", first_line(other)),
    };
    sentence.into()
}

fn first_line(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("").trim().chars().take(300).collect()
}
