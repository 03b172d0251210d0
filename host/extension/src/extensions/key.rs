//! The nouns that the table is made of: class names, kinds, forms, keys, checksums.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The name that an extension goes by: letters, digits and `._-$`, at most [`ClassName::MAX_BYTES`].
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

impl std::str::FromStr for ClassName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::new(text)
    }
}

impl std::fmt::Display for ClassName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// For whom an extension is registered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

impl Key {
    /// The key of a class that is there for everybody.
    pub fn installed(class: ClassName) -> Self {
        Self { scope: Scope::Installed, class }
    }
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

impl Kind {
    /// The word for people: `filter` or `lister`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Lister => "lister",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
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

impl Form {
    /// The word for people: `native`, `component` or `built-in`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Component => "component",
            Self::BuiltIn => "built-in",
        }
    }
}

/// What tells one artifact from another. The CRC32 says whether a registration has changed, the SHA-256
/// is the artifact's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checksums {
    /// CRC32 (the one of zip and Java) of the bytes.
    pub crc32: u32,
    /// SHA-256 of the bytes, in lower-case hex.
    pub sha256: String,
    /// Number of bytes.
    pub size: u64,
}

impl Checksums {
    /// Those of some bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { crc32: crc32fast::hash(bytes), sha256: hex(&Sha256::digest(bytes)), size: bytes.len() as u64 }
    }
}

/// Bytes in lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a String takes everything");
    }
    text
}

/// Kinds for a sentence: `filter and lister`.
pub(crate) fn kinds_in_words(kinds: &[Kind]) -> String {
    kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(" and ")
}
