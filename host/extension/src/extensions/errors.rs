//! What can go wrong at the door, with a configuration, at a removal and at a look-up.

use std::io;
use std::path::PathBuf;

use super::key::{ClassName, Kind, kinds_in_words};

/// Why an artifact was not registered. The one in force, if any, is untouched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// It is larger than artifacts may be.
    #[error("the artifact has {size} bytes, at most {limit} are taken (plugins.max-artifact-size)")]
    TooLarge {
        /// Its size in bytes, as announced or as counted.
        size: u64,
        /// The largest that is taken.
        limit: u64,
    },
    /// It is neither a WebAssembly component nor a shared library, or is cut: the sentence says what it is.
    #[error("not an extension: {0}")]
    NotAnArtifact(String),
    /// It is a shared library and came over a socket. Those run with weir's own rights.
    #[error(
        "this is a native library; those are taken from the plug-in folder only, over the network send a WebAssembly component"
    )]
    NativeOverSocket,
    /// It is a shared library that the configuration does not list.
    #[error("native library with sha256 {sha256} is not listed in plugins.native-sha256")]
    NativeNotAllowed {
        /// Its digest, in lower-case hex.
        sha256: String,
    },
    /// It cannot be loaded, or does not keep to the contract: the sentence says how.
    #[error("{0}")]
    Refused(String),
    /// The class is a part of weir and cannot be replaced.
    #[error("{class} is built into weir and cannot be replaced; give the extension another class name")]
    BuiltIn {
        /// The class.
        class: ClassName,
    },
    /// Other bytes with the same CRC32: whoever compares checksums would take the two for one.
    #[error(
        "{class}: another artifact with the same crc32 {crc32:08x} is registered (sha256 {registered}, this one {found}); \
         change the artifact, its version number for example"
    )]
    ChecksumConflict {
        /// The class.
        class: ClassName,
        /// The CRC32 that both have.
        crc32: u32,
        /// SHA-256 of the registered one.
        registered: String,
        /// SHA-256 of this one.
        found: String,
    },
    /// The request declared a checksum that the bytes do not have.
    #[error("the artifact has {which} {actual}, the request declared {declared}")]
    ChecksumMismatch {
        /// `crc32` or `sha256`.
        which: &'static str,
        /// As declared.
        declared: String,
        /// As computed.
        actual: String,
    },
    /// The artifact declares another class than the request named.
    #[error("the request names class {declared}, the artifact declares {found}")]
    OtherClass {
        /// As the request named it.
        declared: ClassName,
        /// As the artifact declares it.
        found: ClassName,
    },
    /// Another file of the drop folder already brings this class.
    #[error("it brings class {class}, which {} brings already; remove one of the two", first.display())]
    SourceConflict {
        /// The class.
        class: ClassName,
        /// The file that brought it first.
        first: PathBuf,
    },
    /// The class is in use as something that this artifact does not do.
    #[error("{class} is in use as a {wanted}, the artifact is a {}", kinds_in_words(found))]
    WrongKind {
        /// The class.
        class: ClassName,
        /// What it is used as.
        wanted: Kind,
        /// What the artifact declares.
        found: Vec<Kind>,
    },
    /// A configuration that is in use is refused by this artifact.
    #[error("{class} does not take its configuration: {}{reason}", at(path))]
    ConfigRefused {
        /// The class.
        class: ClassName,
        /// Where in the configuration, as a JSON pointer; empty for the whole.
        path: String,
        /// What is wrong there.
        reason: String,
    },
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The configuration file sets the configuration that came with it.
    #[error("{key} is set in the configuration file and cannot be changed here")]
    ConfigSetByFile {
        /// The key of the file: `extensions."demo.LateFlights".config`.
        key: String,
    },
    /// These very bytes were in force, and were taken back.
    #[error(
        "{class}: version {version} was taken back and is not taken again unless it is forced ({how}): {reason}"
    )]
    TakenBack {
        /// The class.
        class: ClassName,
        /// What the artifact says of its own version.
        version: String,
        /// Why it was taken back.
        reason: String,
        /// How it is forced.
        how: &'static str,
    },
    /// It could not be kept on disk.
    #[error("cannot keep the registration: {0}")]
    Store(#[source] io::Error),
}

/// Why a configuration was not taken. The one in force is untouched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Nothing of that name is registered.
    #[error("{class} is not registered")]
    Missing {
        /// The class.
        class: ClassName,
    },
    /// The configuration file sets it.
    #[error("{key} is set in the configuration file and cannot be changed here")]
    SetByFile {
        /// The key of the file: `extensions."demo.LateFlights".config`.
        key: String,
    },
    /// The extension does not take it.
    #[error("{class} does not take this configuration: {}{reason}", at(path))]
    Refused {
        /// The class.
        class: ClassName,
        /// Where in the configuration, as a JSON pointer; empty for the whole.
        path: String,
        /// What is wrong there.
        reason: String,
    },
    /// It could not be kept on disk.
    #[error("cannot keep the configuration: {0}")]
    Store(#[source] io::Error),
}

/// Why a class did not go back to the version before. The one in force is untouched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RollbackError {
    /// Nothing of that name is registered.
    #[error("{class} is not registered")]
    Missing {
        /// The class.
        class: ClassName,
    },
    /// It is a part of weir.
    #[error("{class} is built into weir and has one version")]
    BuiltIn {
        /// The class.
        class: ClassName,
    },
    /// No version before the one in force is kept.
    #[error(
        "{class} has no version before {version} to go back to (plugins.keep-versions says how many are kept)"
    )]
    NoneBefore {
        /// The class.
        class: ClassName,
        /// What the one in force says of its own version.
        version: String,
    },
    /// The version before cannot be used any more.
    #[error("{class} cannot go back to version {version}: {reason}")]
    Refused {
        /// The class.
        class: ClassName,
        /// What the version before says of its own version.
        version: String,
        /// One sentence.
        reason: String,
    },
    /// It could not be kept on disk.
    #[error("cannot keep the rollback: {0}")]
    Store(#[source] io::Error),
}

/// Why an extension was not removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveError {
    /// Nothing of that name is registered.
    #[error("{class} is not registered")]
    Missing {
        /// The class.
        class: ClassName,
    },
    /// It is a part of weir.
    #[error("{class} is built into weir and cannot be removed")]
    BuiltIn {
        /// The class.
        class: ClassName,
    },
    /// A binding or the listing names it.
    #[error(
        "{class} is in use as a {kind}; unbind it first, or force the removal (its subscriptions then pause)"
    )]
    InUse {
        /// The class.
        class: ClassName,
        /// What it is used as.
        kind: Kind,
    },
    /// The removal could not be kept on disk; nothing was removed.
    #[error("cannot keep the removal: {0}")]
    Store(#[source] io::Error),
}

/// Why an extension cannot be called at all, as opposed to a call that [`Broke`](crate::Broke).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// Nothing of that name is registered.
    #[error("{class} is not registered")]
    Missing {
        /// The class that was asked for.
        class: ClassName,
    },
    /// It is registered and does not do what it is bound for.
    #[error("{class} is not a {wanted}")]
    WrongKind {
        /// The class that was asked for.
        class: ClassName,
        /// What it should have been.
        wanted: Kind,
    },
    /// It could not be opened again, refused its configuration, or an instance could not be made.
    #[error("{class} cannot be used: {reason}")]
    Refused {
        /// The class that was asked for.
        class: ClassName,
        /// One sentence.
        reason: String,
    },
}

/// A place in a configuration, for the start of a sentence.
pub(super) fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("at {path}: ") }
}
