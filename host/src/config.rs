//! The configuration: one struct for each section of `conf/host.toml`, which shows every key with its
//! default and is compared with [`Config::default`] by a test.
//!
//! A value comes from, last wins: the default, the file, the environment (`WEIR_LISTEN_PULSAR`), the
//! command line (`--set listen.pulsar=…`). `load.rs` merges them; [`Config::check`] looks at the whole
//! once, before anything is opened.

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

pub(crate) use load::{Sources, load};
pub(crate) use units::ByteSize;

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
    /// Looks at what no single field can see, once, at the start.
    ///
    /// # Errors
    /// A sentence that names the key, what it holds and what would be right.
    fn check(&self) -> Result<(), String> {
        for (key, address) in [("listen.pulsar", &self.listen.pulsar), ("listen.admin", &self.listen.admin)] {
            let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
            if port.is_none_or(|port| port.parse::<u16>().is_err()) {
                return Err(format!("{key} is {address:?}, expected host:port, as in \"127.0.0.1:6650\""));
            }
        }
        if self.listen.advertised.contains("://") || self.listen.advertised.contains('/') {
            return Err(format!(
                "listen.advertised is {:?}, expected host or host:port without a scheme",
                self.listen.advertised
            ));
        }
        if !self.listen.token.is_empty() && !self.listen.token_file.as_os_str().is_empty() {
            return Err("listen.token and listen.token-file are both set; one of them has to go".into());
        }
        let at_least = |key: &str, found: u64, least: u64| match found < least {
            true => Err(format!("{key} is {found}, expected at least {least}")),
            false => Ok(()),
        };
        let limits = &self.limits;
        at_least("storage.max-entries-per-ledger", self.storage.max_entries_per_ledger, 1)?;
        at_least("broker.max-partitions", u64::from(self.broker.max_partitions), 1)?;
        at_least("broker.max-withheld", self.broker.max_withheld as u64, 1)?;
        at_least("limits.max-message-size", limits.max_message_size.0, 1024)?;
        at_least("limits.connections", limits.connections as u64, 1)?;
        at_least("limits.handles-per-connection", limits.handles_per_connection as u64, 1)?;
        at_least("limits.pending-requests", limits.pending_requests as u64, 1)?;
        at_least("limits.admin-connections", limits.admin_connections as u64, 1)?;
        at_least("limits.admin-body", limits.admin_body.0, 1024)?;
        at_least("plugins.max-artifact-size", self.plugins.max_artifact_size.0, 1024)?;
        // Pulsar's frames carry their length in 31 bits, the frame's own head included.
        if limits.max_message_size.0 > 1 << 30 {
            return Err(format!(
                "limits.max-message-size is {}, expected at most 1GiB",
                limits.max_message_size
            ));
        }
        for (key, span) in [
            ("limits.keep-alive", limits.keep_alive),
            ("limits.handshake-timeout", limits.handshake_timeout),
            ("limits.admin-idle", limits.admin_idle),
            ("plugins.poll", self.plugins.poll),
            ("broker.withhold-first-pause", self.broker.withhold_first_pause),
            ("broker.withhold-longest-pause", self.broker.withhold_longest_pause),
        ] {
            if span.is_zero() {
                return Err(format!("{key} is 0, expected a duration above it"));
            }
        }
        for digest in &self.plugins.native_sha256 {
            if digest.len() != 64 || !digest.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(format!("plugins.native-sha256 holds {digest:?}, expected 64 hex digits"));
            }
        }
        for (class, extension) in &self.extensions {
            if extension.deadline.is_zero() {
                return Err(format!("extensions.\"{class}\".deadline is 0, expected a duration above it"));
            }
        }
        self.bindings().map(drop)
    }

    /// The bindings of the file, as the filters' room takes them.
    ///
    /// # Errors
    /// When one names neither topic nor pattern, or both.
    pub(crate) fn bindings(&self) -> Result<Vec<Binding>, String> {
        let binding = |(i, entry): (usize, &BindingEntry)| {
            let target = match (&entry.topic, &entry.pattern) {
                (Some(topic), None) => Target::Topic(topic.base()),
                (None, Some(pattern)) => Target::Pattern(pattern.clone()),
                (Some(_), Some(_)) => {
                    return Err(format!("bindings[{i}] has both topic and pattern; one has to go"));
                }
                (None, None) => return Err(format!("bindings[{i}] has neither topic nor pattern")),
            };
            if entry.filters.is_empty() {
                return Err(format!("bindings[{i}] names no filter; expected filters = [\"class name\"]"));
            }
            Ok(Binding {
                target,
                subscription: entry.subscription.clone(),
                filters: entry.filters.iter().map(FilterEntry::to_ref).collect(),
                on_failure: entry.on_failure,
                origin: Origin::File,
            })
        };
        self.bindings.iter().enumerate().map(binding).collect()
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
