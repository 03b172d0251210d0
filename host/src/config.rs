//! The configuration: one struct for each section of `conf/host.toml`, which shows every key with its
//! default and is compared with [`Config::default`] by a test.
//!
//! A value comes from, last wins: the default, the file, the environment (`WEIR_LISTEN_PULSAR`), the
//! command line (`--set listen.pulsar=…`). `load.rs` merges them; `check.rs` looks at the whole once, before
//! anything is opened.

mod check;
mod load;
mod units;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_extension::{ClassName, TopicName};
use weir_filter::{Binding, FilterRef, OnFailure, Origin, Target};

pub(crate) use check::log_filter;
pub(crate) use load::{Sources, load};
pub(crate) use units::{ByteSize, Share};

/// Everything that can be configured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Config {
    /// Where to listen, and what to tell clients.
    pub(crate) listen: Listen,
    /// The embedded store.
    pub(crate) storage: Storage,
    /// The embedded broker.
    pub(crate) broker: Broker,
    /// The drop folder, and artifacts in general.
    pub(crate) plugins: Plugins,
    /// Which lister answers.
    pub(crate) listing: weir_listing::Config,
    /// What one peer may make weir hold.
    pub(crate) limits: Limits,
    /// What is logged.
    pub(crate) log: Log,
    /// Limits and configuration of extensions, by class name.
    pub(crate) extensions: BTreeMap<ClassName, Extension>,
    /// Which filters stand between which topics and subscriptions.
    pub(crate) bindings: Vec<BindingEntry>,
}

/// `[listen]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Listen {
    /// Where Pulsar clients connect; port 0 takes a free one. Default: "127.0.0.1:6650".
    pub(crate) pulsar: String,
    /// Where admin calls, `/metrics` and the readiness address are served. Default: "127.0.0.1:8080".
    pub(crate) admin: String,
    /// `host` or `host:port` that lookups tell clients to connect to. Empty: the address at which the
    /// asking client reached us. Default: "".
    pub(crate) advertised: String,
    /// The token that registrations must bring once `admin` is not loopback. Empty: read from
    /// `token-file`. Default: "".
    pub(crate) token: String,
    /// The file that holds the token. Empty: `token` in the data folder, made at the first start.
    /// Default: "".
    pub(crate) token_file: PathBuf,
}

/// `[storage]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Storage {
    /// The folder that holds everything weir keeps. Default: "data".
    pub(crate) data: PathBuf,
    /// A ledger is closed after so many entries. Default: 50000.
    pub(crate) max_entries_per_ledger: u64,
}

/// `[broker]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Broker {
    /// The cluster's name, as admin calls show it. Default: "standalone".
    pub(crate) cluster: String,
    /// Topics come into being when a client first uses them. Default: true.
    pub(crate) auto_create_topics: bool,
    /// The most partitions that a topic may have. Default: 1000.
    pub(crate) max_partitions: u32,
    /// A message that a filter broke on is judged again after this long, then after twice as long, …
    /// Default: "1s".
    #[serde(with = "units::duration")]
    pub(crate) withhold_first_pause: Duration,
    /// … up to this. Default: "1m".
    #[serde(with = "units::duration")]
    pub(crate) withhold_longest_pause: Duration,
    /// When so many messages of a subscription are withheld, delivery pauses. Default: 1000.
    pub(crate) max_withheld: usize,
}

/// `[plugins]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Plugins {
    /// The drop folder: artifacts put there are taken up while weir runs. Default: "plugins".
    pub(crate) folder: PathBuf,
    /// How often the folder is looked at where the system tells of no changes. Default: "1s".
    #[serde(with = "units::duration")]
    pub(crate) poll: Duration,
    /// If not empty, the only native libraries that are opened, by their SHA-256. Default: [].
    pub(crate) native_sha256: Vec<String>,
    /// The most native libraries that are held open. They are never closed, so each new version is one
    /// more, until a restart. Default: 256.
    pub(crate) max_native_libraries: usize,
    /// The largest artifact that is taken. Default: "64MiB".
    pub(crate) max_artifact_size: ByteSize,
    /// How many earlier versions of each class are kept on disk. Default: 3.
    pub(crate) keep_versions: usize,
    /// A new version of a filter has passed its trial after so many messages. 0: no trials. Default: 1000.
    pub(crate) trial_messages: u64,
    /// It is not taken back before so many messages. Default: 100.
    pub(crate) trial_minimum: u64,
    /// It is taken back when it breaks on more than this share of them. Default: "1%".
    pub(crate) trial_broken: Share,
}

/// `[limits]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Limits {
    /// The largest entry that a producer may send. Default: "5MiB".
    pub(crate) max_message_size: ByteSize,
    /// Pulsar connections at one time; further ones are told so and closed. Default: 10000.
    pub(crate) connections: usize,
    /// Producers and consumers of one connection together. Default: 10000.
    pub(crate) handles_per_connection: usize,
    /// A connection that has not said hello by then is closed. Default: "10s".
    #[serde(with = "units::duration")]
    pub(crate) handshake_timeout: Duration,
    /// A silent peer is asked for a sign of life after this long, and closed after twice; so is one that takes
    /// none of what waits for it. Default: "30s".
    #[serde(with = "units::duration")]
    pub(crate) keep_alive: Duration,
    /// Requests of one connection that wait for their answer; then reading stops. Default: 1000.
    pub(crate) pending_requests: usize,
    /// Bytes of one connection that were published and are not yet durable; then reading stops.
    /// Default: "32MiB".
    pub(crate) pending_publish: ByteSize,
    /// Bytes of one connection that wait to be written to it; then delivery stops. Default: "16MiB".
    pub(crate) pending_output: ByteSize,
    /// Bytes of stored entries of one connection that are in memory on their way to its consumers, all
    /// together; then nothing more is read for them. Default: "16MiB".
    pub(crate) pending_deliveries: ByteSize,
    /// The same of all connections together. Default: "256MiB".
    pub(crate) all_deliveries: ByteSize,
    /// The largest body of an admin call, artifacts aside. Default: "1MiB".
    pub(crate) admin_body: ByteSize,
    /// Connections to the admin address at one time; further ones wait. Default: 256.
    pub(crate) admin_connections: usize,
    /// A peer of the admin address that sends and takes next to nothing for this long is closed. An upload
    /// is answered after its compilation, which may take two minutes. Default: "3m".
    #[serde(with = "units::duration")]
    pub(crate) admin_idle: Duration,
    /// Threads that call filters. 0: one for each processor. Default: 0.
    pub(crate) judging_threads: usize,
    /// How long a stop waits for what is under way; half of it for clients that do not read. Default: "20s".
    #[serde(with = "units::duration")]
    pub(crate) drain_timeout: Duration,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Log {
    /// What is logged: a level, or levels by target (`info,weir_extension=debug`).
    /// Default: "info,fjall=warn,lsm_tree=warn", as the engine of the store speaks up at each start.
    pub(crate) filter: String,
    /// `"text"` for people or `"json"` for programs; both go to standard error. Default: "text".
    pub(crate) format: LogFormat,
}

/// How a log line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// `[extensions."class"]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Extension {
    /// How long it may take for one message; a batch gets more, up to a cap. Default: "50ms".
    #[serde(with = "units::duration")]
    pub(crate) deadline: Duration,
    /// How much memory one instance may hold. Default: "64MiB".
    pub(crate) memory: ByteSize,
    /// Its configuration, checked against the schema that the artifact declares. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<Value>,
}

/// `[[bindings]]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct BindingEntry {
    /// One topic. Either this or `pattern`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) topic: Option<TopicName>,
    /// All topics whose name matches this regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pattern: Option<String>,
    /// The subscription; all of the topic's without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subscription: Option<String>,
    /// The filters, in the order in which they are asked.
    pub(crate) filters: Vec<FilterEntry>,
    /// What becomes of a message that breaks a filter. Default: "withhold".
    #[serde(default)]
    pub(crate) on_failure: OnFailure,
}

/// One filter of a binding: its class name, or that and a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a class name, or { class = \"…\", config = { … } }")]
pub(crate) enum FilterEntry {
    /// `"demo.LateFlights"`
    Class(ClassName),
    /// `{ class = "demo.LateFlights", config = { minutes = 5 } }`
    Configured(FilterRef),
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            pulsar: "127.0.0.1:6650".into(),
            admin: "127.0.0.1:8080".into(),
            advertised: String::new(),
            token: String::new(),
            token_file: PathBuf::new(),
        }
    }
}

impl Default for Storage {
    fn default() -> Self {
        Self { data: "data".into(), max_entries_per_ledger: 50_000 }
    }
}

impl Default for Broker {
    fn default() -> Self {
        Self {
            cluster: "standalone".into(),
            auto_create_topics: true,
            max_partitions: 1000,
            withhold_first_pause: Duration::from_secs(1),
            withhold_longest_pause: Duration::from_secs(60),
            max_withheld: 1000,
        }
    }
}

impl Default for Plugins {
    fn default() -> Self {
        Self {
            folder: "plugins".into(),
            poll: Duration::from_secs(1),
            native_sha256: Vec::new(),
            max_native_libraries: 256,
            max_artifact_size: ByteSize(64 << 20),
            keep_versions: 3,
            trial_messages: 1000,
            trial_minimum: 100,
            trial_broken: Share(10_000),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_message_size: ByteSize(5 << 20),
            connections: 10_000,
            handles_per_connection: 10_000,
            handshake_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(30),
            pending_requests: 1000,
            pending_publish: ByteSize(32 << 20),
            pending_output: ByteSize(16 << 20),
            pending_deliveries: ByteSize(16 << 20),
            all_deliveries: ByteSize(256 << 20),
            admin_body: ByteSize(1 << 20),
            admin_connections: 256,
            admin_idle: Duration::from_secs(180),
            judging_threads: 0,
            drain_timeout: Duration::from_secs(20),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info,fjall=warn,lsm_tree=warn".into(), format: LogFormat::Text }
    }
}

impl Default for Extension {
    fn default() -> Self {
        Self { deadline: Duration::from_millis(50), memory: ByteSize(64 << 20), config: None }
    }
}

impl Config {
    /// The bindings of the file, as the filters' room takes them.
    ///
    /// # Errors
    /// When one names neither topic nor pattern, or both.
    pub(crate) fn bindings(&self) -> Result<Vec<Binding>, String> {
        let of = |(i, entry): (usize, &BindingEntry)| {
            entry.binding().map_err(|reason| format!("bindings[{i}] {reason}"))
        };
        self.bindings.iter().enumerate().map(of).collect()
    }
}

impl BindingEntry {
    fn binding(&self) -> Result<Binding, String> {
        let target = match (&self.topic, &self.pattern) {
            (Some(topic), None) => Target::Topic(topic.clone()),
            (None, Some(pattern)) => Target::Pattern(pattern.clone()),
            (Some(_), Some(_)) => return Err("has both topic and pattern; one has to go".to_owned()),
            (None, None) => return Err("has neither topic nor pattern; expected one of them".to_owned()),
        };
        if self.filters.is_empty() {
            return Err("names no filter; expected filters = [\"class name\"]".to_owned());
        }
        Ok(Binding {
            target,
            subscription: self.subscription.clone(),
            filters: self.filters.iter().map(FilterEntry::to_ref).collect(),
            on_failure: self.on_failure,
            origin: Origin::File,
        })
    }
}

impl FilterEntry {
    fn to_ref(&self) -> FilterRef {
        match self {
            Self::Class(class) => FilterRef { class: class.clone(), config: None },
            Self::Configured(filter) => filter.clone(),
        }
    }
}
