//! The one door and the one table: artifacts come in by [`Extensions::register`], and whoever calls an
//! extension finds the one in force here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::filter::{Broke, MessageFilter};
use crate::lister::TopicLister;
use crate::message::Field;

/// The name that an extension goes by: letters, digits and `._-`, at most [`ClassName::MAX_BYTES`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ClassName(Arc<str>);

impl ClassName {
    /// The longest class name that is taken.
    pub const MAX_BYTES: usize = 255;

    /// Checks a class name.
    ///
    /// # Errors
    /// A sentence that names what is wrong.
    pub fn new(text: &str) -> Result<Self, String> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '$');
        if text.is_empty() || text.len() > Self::MAX_BYTES {
            return Err(format!(
                "a class name has 1 to {} characters, this one has {}",
                Self::MAX_BYTES,
                text.len()
            ));
        }
        match text.chars().find(|c| !good(*c)) {
            Some(bad) => {
                Err(format!("class name {text:?} holds {bad:?}; letters, digits and ._-$ are allowed"))
            }
            None => Ok(Self(text.into())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ClassName {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::new(&text)
    }
}

impl std::fmt::Display for ClassName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// For whom an extension is registered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// For everybody: drop folder, REST, command line.
    Installed,
}

/// What the table is keyed by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// For whom.
    pub scope: Scope,
    /// By which name.
    pub class: ClassName,
}

/// What an extension can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Judges messages.
    Filter,
    /// Answers which topics there are.
    Lister,
}

/// In which form an extension came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// A shared library, trusted; from the drop folder only.
    Native,
    /// A WebAssembly component, sandboxed.
    Component,
    /// Part of weir.
    BuiltIn,
}

/// Where an artifact comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A settled file of the drop folder. May be either form.
    File(PathBuf),
    /// Bytes that arrived on a socket (REST, later request 302). Components only.
    Upload {
        /// The class that the request names; the artifact must declare the same.
        class: ClassName,
        /// The artifact.
        bytes: Bytes,
    },
}

/// What [`Extensions::register`] did.
#[derive(Clone, Debug, Serialize)]
pub struct Registered {
    /// What it is registered as.
    pub class: ClassName,
    /// CRC32 of the artifact's bytes.
    pub crc32: u32,
    /// SHA-256 of the artifact's bytes, in lower-case hex.
    pub sha256: String,
    /// The same bytes were in force already: nothing was done.
    pub unchanged: bool,
    /// A version was in force before and has been replaced.
    pub replaced: bool,
}

/// Why an artifact was not registered. The one in force, if any, is untouched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// It is not an artifact of a known form, or cannot be loaded: the sentence says what it is.
    #[error("{0}")]
    Refused(String),
}

/// Why an extension cannot be called at all, as opposed to a call that [`Broke`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// Nothing of that name is registered.
    #[error("{class} is not registered")]
    Missing {
        /// The class that was asked for.
        class: ClassName,
    },
    /// It is registered and does not do what it is bound for.
    #[error("{class} is not a {wanted:?}")]
    WrongKind {
        /// The class that was asked for.
        class: ClassName,
        /// What it should have been.
        wanted: Kind,
    },
    /// It refused its configuration, or an instance could not be made.
    #[error("{class} cannot be used: {reason}")]
    Refused {
        /// The class that was asked for.
        class: ClassName,
        /// One sentence.
        reason: String,
    },
}

/// One entry of the table, for people and REST.
#[derive(Clone, Debug, Serialize)]
pub struct ExtensionInfo {
    /// The class name.
    pub class: ClassName,
    /// What it can do.
    pub kinds: Vec<Kind>,
    /// In which form it came.
    pub form: Form,
    /// CRC32 of the bytes, eight hex digits.
    pub crc32: String,
    /// SHA-256 of the bytes, in lower-case hex.
    pub sha256: String,
    /// What the artifact says of its own version.
    pub version: String,
    /// The file or address that it came from.
    pub source: String,
    /// `in-force`, or why not.
    pub state: String,
    /// When it came into force.
    pub since: SystemTime,
    /// The last refusal, if any since.
    pub last_error: Option<String>,
}

/// The table of extensions.
pub struct Extensions {}

/// One version with one configuration, in force: what instances are made from.
pub struct Configured {}

impl Extensions {
    /// The one door. Reads, sniffs, checks and loads an artifact, and swaps it in.
    ///
    /// Blocks while a component is compiled; call it off the async threads.
    ///
    /// # Errors
    /// Each leaves the version in force as it was.
    pub fn register(&self, source: Source) -> Result<Registered, RegisterError> {
        let _ = source;
        todo!()
    }

    /// The extension of that class, ready to make instances, with this configuration or (if `None`) the
    /// one registered for the class. Costs one atomic load and a look-up once it has been asked for.
    ///
    /// # Errors
    /// When it cannot be called: delivery pauses then, unless the policy says otherwise.
    pub fn configured(
        &self,
        class: &ClassName,
        kind: Kind,
        config: Option<&Value>,
    ) -> Result<Arc<Configured>, Unavailable> {
        let _ = (class, kind, config);
        todo!()
    }
}

impl Configured {
    /// A number that no other version or configuration has: the key of a worker's instances.
    pub fn id(&self) -> u64 {
        todo!()
    }

    /// The fields that it reads.
    pub fn reads(&self) -> &Arc<[Field]> {
        todo!()
    }

    /// A fresh instance for the calling worker.
    ///
    /// # Errors
    /// When it cannot be made, with the reason.
    pub fn filter(self: &Arc<Self>) -> Result<Box<dyn MessageFilter>, Broke> {
        todo!()
    }

    /// A fresh lister for the calling worker.
    ///
    /// # Errors
    /// When it cannot be made, with the reason.
    pub fn lister(self: &Arc<Self>) -> Result<Box<dyn TopicLister>, Broke> {
        todo!()
    }
}
