//! What the table says of itself, for people and REST.

use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::{ClassName, Form, Kind};
use super::table::millis;
use super::version::Counts;

/// What [`Extensions::register`](super::Extensions::register) did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Registered {
    /// What it is registered as.
    pub class: ClassName,
    /// CRC32 of the artifact's bytes, eight hex digits.
    pub crc32: String,
    /// SHA-256 of the artifact's bytes, in lower-case hex.
    pub sha256: String,
    /// The same bytes were in force already: nothing was done.
    pub unchanged: bool,
    /// A version was in force before and has been replaced.
    pub replaced: bool,
    /// A configuration came with it and is in force.
    pub configured: bool,
}

/// One entry of the table.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ExtensionInfo {
    /// The class name.
    pub class: ClassName,
    /// What it can do.
    pub kinds: Vec<Kind>,
    /// In which form it came.
    pub form: Form,
    /// CRC32 of the bytes, eight hex digits; empty for a built-in.
    pub crc32: String,
    /// SHA-256 of the bytes, in lower-case hex; empty for a built-in.
    pub sha256: String,
    /// The number of bytes; zero for a built-in.
    pub size: u64,
    /// What the artifact says of its own version.
    pub version: String,
    /// The contract's version that it was built against.
    pub contract: String,
    /// What runs: the code that `winch` or `cranelift` made of a component; `native`; `built-in`. Empty if it
    /// was not opened.
    pub code: String,
    /// What comes after Winch's code, or why nothing does.
    pub code_note: Option<String>,
    /// The file or address that it came from.
    pub source: String,
    /// `in-force`, or what keeps it from being called: `waits for a configuration: …` for instance.
    pub state: String,
    /// When it came into force, in milliseconds since 1970.
    #[serde(with = "millis")]
    pub since: SystemTime,
    /// The last refusal of an artifact or configuration for this class, if it came after that.
    pub last_error: Option<String>,
    /// When that was, in milliseconds since 1970.
    #[serde(default, with = "millis::option")]
    pub last_error_at: Option<SystemTime>,
    /// How many versions before this one are kept.
    pub versions_kept: usize,
    /// Those versions, the newest first.
    #[serde(default)]
    pub kept: Vec<KeptVersion>,
    /// How its trial stands, while it is on trial.
    #[serde(default)]
    pub trial: Option<TrialInfo>,
    /// The versions that were taken back and are not taken again unless they are forced, the last one first.
    #[serde(default)]
    pub taken_back: Vec<TakenBackVersion>,
    /// What this version has done since it was loaded.
    pub counts: Counts,
}

/// A version that was in force before and is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct KeptVersion {
    /// SHA-256 of its bytes, in lower-case hex.
    pub sha256: String,
    /// What it says of its own version.
    pub version: String,
    /// The file or address that it came from.
    pub source: String,
    /// When it came into force, in milliseconds since 1970.
    #[serde(with = "millis")]
    pub since: SystemTime,
    /// When it left force, in milliseconds since 1970.
    #[serde(default, with = "millis::option")]
    pub until: Option<SystemTime>,
    /// Why it left force.
    pub reason: String,
}

/// The trial of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TrialInfo {
    /// Messages that it was judged by so far: its verdicts, and those that it alone broke on.
    pub judged: u64,
    /// Messages that it broke on and the last good version did not.
    pub broke: u64,
    /// After so many messages it has passed.
    pub messages: u64,
    /// What the last good version says of its own version.
    pub last_good: String,
    /// SHA-256 of the last good version.
    pub last_good_sha256: String,
}

/// A version that was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TakenBackVersion {
    /// SHA-256 of its bytes, in lower-case hex.
    pub sha256: String,
    /// What it says of its own version.
    pub version: String,
    /// Why it was taken back.
    pub reason: String,
    /// When, in milliseconds since 1970.
    #[serde(with = "millis")]
    pub at: SystemTime,
}

/// What [`Extensions::rollback`](super::Extensions::rollback) did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RolledBack {
    /// The class.
    pub class: ClassName,
    /// SHA-256 of what is in force now.
    pub sha256: String,
    /// What it says of its own version.
    pub version: String,
    /// SHA-256 of what was in force, and is not taken again unless it is forced.
    pub from_sha256: String,
    /// What that says of its own version.
    pub from_version: String,
    /// The configuration that the version had came back with it: it does not take the later one.
    pub configuration_too: bool,
}

/// A file of the drop folder that is not in force, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RefusedFile {
    /// The file.
    pub path: PathBuf,
    /// The class that it declares, as far as that could be read.
    pub class: Option<ClassName>,
    /// Why it was refused.
    pub reason: String,
    /// When, in milliseconds since 1970.
    #[serde(with = "millis")]
    pub since: SystemTime,
}

/// What an artifact is, without registering it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Inspection {
    /// The class that it declares.
    pub class: ClassName,
    /// What it can do.
    pub kinds: Vec<Kind>,
    /// In which form it is.
    pub form: Form,
    /// What it says of its own version.
    pub version: String,
    /// The contract's version that it was built against.
    pub contract: String,
    /// CRC32 of the bytes, eight hex digits.
    pub crc32: String,
    /// SHA-256 of the bytes, in lower-case hex.
    pub sha256: String,
    /// The number of bytes.
    pub size: u64,
    /// The JSON Schema of its configuration.
    pub schema: Value,
}
