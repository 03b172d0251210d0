//! What admin calls exchange. The server may use these structs too; what a newer server adds is kept in
//! `other` where it is shown to people, and passed over elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An extension, as `GET /weir/v1/extensions` shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Extension {
    /// Its class name.
    pub class: String,
    /// What it can do: `filter`, `lister`.
    pub kinds: Vec<String>,
    /// `native`, `component` or `built-in`.
    pub form: String,
    /// CRC32 of its bytes, eight hex digits; empty for a built-in.
    pub crc32: String,
    /// SHA-256 of its bytes, in hex; empty for a built-in.
    pub sha256: String,
    /// What it says of its own version.
    pub version: String,
    /// The file or address that it came from.
    pub source: String,
    /// `in-force`, or what keeps it from being called.
    pub state: String,
    /// When it came into force, in milliseconds since 1970.
    pub since: u64,
    /// The last refusal of an artifact or configuration for this class.
    pub last_error: Option<String>,
    /// When that was, in milliseconds since 1970.
    pub last_error_at: Option<u64>,
    /// What else the server says.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Extension {
    /// Whether it is there and needs a configuration that nobody has set.
    pub fn is_unconfigured(&self) -> bool {
        self.state.starts_with("waits for a configuration")
    }
}

/// A line that an extension wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct LogLine {
    /// Its number among the lines of its class.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// The class that wrote it.
    pub class: String,
    /// The version of the class.
    pub version: String,
    /// `trace`, `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// The line; control characters are escaped in it.
    pub text: String,
}

/// What a registration did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Registered {
    /// What it is registered as.
    pub class: String,
    /// CRC32 of its bytes, eight hex digits.
    pub crc32: String,
    /// SHA-256 of its bytes, in hex.
    pub sha256: String,
    /// The same bytes were in force already.
    pub unchanged: bool,
    /// It has replaced a version before it.
    pub replaced: bool,
    /// A configuration came with it and is in force.
    pub configured: bool,
}

/// What a rollback did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct RolledBack {
    /// The class.
    pub class: String,
    /// SHA-256 of what is in force now, in hex.
    pub sha256: String,
    /// What it says of its own version.
    pub version: String,
    /// SHA-256 of what was in force.
    pub from_sha256: String,
    /// What that says of its own version.
    pub from_version: String,
    /// The configuration that the version had came back with it.
    pub configuration_too: bool,
}

/// A file of the drop folder that is not in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct RefusedFile {
    /// Where it lies.
    pub path: String,
    /// Why it is not in force.
    pub reason: String,
    /// Since when, in milliseconds since 1970.
    pub since: u64,
    /// What else the server says.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A binding: which filters stand between topics and a subscription. Either `topic` or `pattern` is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Binding {
    /// One topic, by its base name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// All topics that match this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// One subscription; all of them without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    /// The filters, in order.
    pub filters: Vec<Filter>,
    /// What becomes of messages that break a filter; the server's default without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<String>,
    /// Who wrote it down: `file` or `rest`. Only in answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// A filter of a binding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Filter {
    /// By its class name, with the configuration of its class.
    Class(String),
    /// With a configuration of its own.
    Configured {
        /// Its class name.
        class: String,
        /// Its configuration here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        config: Option<Value>,
    },
}

impl Filter {
    /// Its class name.
    pub fn class(&self) -> &str {
        match self {
            Self::Class(class) | Self::Configured { class, .. } => class,
        }
    }
}

/// A partitioned topic's metadata, as `…/partitions` shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartitionedMetadata {
    /// How many partitions; 0 if it is not partitioned.
    pub partitions: u32,
    /// Whether it is being deleted.
    pub deleted: bool,
    /// What its creator said of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// What a tenant may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TenantInfo {
    /// Who administers it.
    pub admin_roles: Vec<String>,
    /// Where its namespaces may be.
    pub allowed_clusters: Vec<String>,
}
