//! What the configuration as a whole must hold to, beyond the types of its keys.
//!
//! Each key either has a line here or is one of which any value is right; a test goes through all of them.
//! Upper bounds keep out what nobody means (a pause of a thousand years, a million threads), not what is
//! merely much.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use weir_extension::{Extensions, MAX_CONFIG_BYTES};
use weir_filter::{Bindings, FilterRef};

use super::units::ByteSize;
use super::{BindingEntry, Config, Limits, Listen};

/// The longest time that any key may name: what waits for longer is never missed, and moments further
/// away than some centuries cannot be counted. A year.
const LONGEST: Duration = Duration::from_secs(31_557_600);

/// More threads than this are a slip of the keyboard.
const MOST_THREADS: u64 = 1024;

/// A page of WebAssembly memory: an instance with less cannot be made.
const LEAST_MEMORY: ByteSize = ByteSize(64 << 10);

/// What is wrong with one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The key, dotted: `limits.keep-alive`, `bindings[2]`.
    pub(super) key: String,
    /// What it holds and what was expected; follows the key in a sentence.
    pub(super) reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.reason)
    }
}

/// Looks at everything, once, at the start: all that is wrong, in the order of `conf/host.toml`.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut found = Findings::default();
    listen(&config.listen, &mut found);
    folders(config, &mut found);

    found.number("storage.max-entries-per-ledger", config.storage.max_entries_per_ledger, 1..=u64::MAX);
    let broker = &config.broker;
    found.require("broker.cluster", is_name(&broker.cluster), || {
        format!("is {:?}, expected letters, digits and -=:. only", broker.cluster)
    });
    found.number("broker.max-partitions", broker.max_partitions.into(), 1..=1_000_000);
    found.span("broker.withhold-first-pause", broker.withhold_first_pause, Duration::from_millis(1));
    found.span("broker.withhold-longest-pause", broker.withhold_longest_pause, Duration::from_millis(1));
    found.require(
        "broker.withhold-longest-pause",
        broker.withhold_longest_pause >= broker.withhold_first_pause,
        || {
            let [longest, first] =
                [broker.withhold_longest_pause, broker.withhold_first_pause].map(humantime::format_duration);
            format!("is {longest}, expected at least broker.withhold-first-pause, which is {first}")
        },
    );
    found.count("broker.max-withheld", broker.max_withheld, 1..=1_000_000);

    let plugins = &config.plugins;
    found.span("plugins.poll", plugins.poll, Duration::from_millis(10));
    for digest in &plugins.native_sha256 {
        let is_digest = digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit());
        found.require("plugins.native-sha256", is_digest, || {
            format!("holds {digest:?}, expected 64 hex digits")
        });
    }
    found.count("plugins.max-native-libraries", plugins.max_native_libraries, 0..=100_000);
    // An artifact is read whole, into memory.
    found.size("plugins.max-artifact-size", plugins.max_artifact_size, ByteSize(1024)..=ByteSize(1 << 30));
    found.count("plugins.keep-versions", plugins.keep_versions, 0..=1000);
    found.number("plugins.trial-messages", plugins.trial_messages, 0..=1_000_000_000);
    found.number("plugins.trial-minimum", plugins.trial_minimum, 1..=1_000_000_000);
    let (minimum, messages) = (plugins.trial_minimum, plugins.trial_messages);
    found.require("plugins.trial-minimum", messages == 0 || minimum <= messages, || {
        format!("is {minimum}, expected at most plugins.trial-messages, which is {messages}")
    });

    let listing = &config.listing;
    found.config("listing.config", listing.config.as_ref());
    found.count("listing.pattern-max-length", listing.pattern_max_length, 0..=100_000);
    found.count("listing.concurrent-calls", listing.concurrent_calls.get(), 1..=MOST_THREADS);
    found.count("listing.max-in-flight", listing.max_in_flight.get(), 1..=1_000_000);
    found.count("listing.max-topics", listing.max_topics, 1..=100_000_000);
    found.count("listing.max-properties", listing.max_properties, 0..=10_000);
    found.count("listing.max-property-length", listing.max_property_length, 1..=1 << 20);

    limits(&config.limits, &mut found);
    if let Err(reason) = log_filter(&config.log.filter) {
        found.add("log.filter", reason);
    }
    for (class, extension) in &config.extensions {
        let key = |name: &str| format!("extensions.\"{class}\".{name}");
        found.span(&key("deadline"), extension.deadline, Duration::from_micros(1));
        // More is not addressed by a component.
        found.size(&key("memory"), extension.memory, LEAST_MEMORY..=ByteSize(4 << 30));
        found.config(&key("config"), extension.config.as_ref());
    }
    bindings(config, &mut found);
    found.0
}

/// What is logged, as `log.filter` writes it.
///
/// # Errors
/// When it is not a level, nor levels by target. A word alone would be taken for a target, of which
/// everything is logged: a level with a slip in it would silence all the rest.
pub(crate) fn log_filter(text: &str) -> Result<EnvFilter, String> {
    let expected =
        "expected a level (error, warn, info, debug, trace, off), or target=level, with commas between";
    let mut depth = 0_usize;
    let directives = text.split(|c: char| {
        depth = match c {
            '[' | '{' => depth + 1,
            ']' | '}' => depth.saturating_sub(1),
            _ => depth,
        };
        c == ',' && depth == 0
    });
    for directive in directives.map(str::trim) {
        let level = match directive.rsplit_once('=') {
            // A span, of which everything is logged.
            _ if directive.ends_with(']') => continue,
            Some((_, level)) => level,
            None => directive,
        };
        if level.is_empty() || level.parse::<LevelFilter>().is_err() {
            return Err(format!("is {text:?}, of which {directive:?} has no level; {expected}"));
        }
    }
    EnvFilter::try_new(text).map_err(|error| format!("is {text:?}: {error}; {expected}"))
}

fn listen(listen: &Listen, found: &mut Findings) {
    let addresses = [("listen.pulsar", &listen.pulsar), ("listen.admin", &listen.admin)];
    for (key, address) in addresses {
        found.require(key, host_and_port(address).is_some(), || {
            format!("is {address:?}, expected host:port, as in \"127.0.0.1:6650\"")
        });
    }
    if let (Some(pulsar), Some(admin)) = (host_and_port(&listen.pulsar), host_and_port(&listen.admin)) {
        found.require("listen.admin", !meet(pulsar, admin), || {
            format!("is {:?}, which listen.pulsar takes already ({:?})", listen.admin, listen.pulsar)
        });
    }
    found.require("listen.advertised", listen.advertised.is_empty() || is_host(&listen.advertised), || {
        format!("is {:?}, expected host or host:port without a scheme", listen.advertised)
    });
    let both = !listen.token.is_empty() && !listen.token_file.as_os_str().is_empty();
    found.require("listen.token", !both, || {
        "is set, and listen.token-file is too; one of them has to go".to_owned()
    });
    // It comes in a header, after a space.
    found.require("listen.token", listen.token.bytes().all(|b| b.is_ascii_graphic()), || {
        "holds a space, or a character that is not ASCII; no client could send it".to_owned()
    });
}

fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':').filter(|(host, _)| !host.is_empty())?;
    Some((host, port.parse().ok()?))
}

/// Whether two listeners cannot both be had. Port 0 is a free one.
fn meet((one, port): (&str, u16), (other, same): (&str, u16)) -> bool {
    let ip = |host: &str| match host.trim_start_matches('[').trim_end_matches(']') {
        "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        host => host.parse::<IpAddr>().ok(),
    };
    let everywhere = |host: &str| ip(host).is_some_and(|ip| ip.is_unspecified());
    let equal = match (ip(one), ip(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    };
    port == same && port != 0 && (equal || everywhere(one) || everywhere(other))
}

/// `host`, `host:port`, an IPv6 address with or without brackets.
fn is_host(text: &str) -> bool {
    let named = |host: &str| {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
    };
    let bracketed = |host: &str| {
        let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        inside.is_some_and(|inside| inside.parse::<Ipv6Addr>().is_ok())
    };
    let with_port =
        host_and_port(text).is_some_and(|(host, port)| port != 0 && (named(host) || bracketed(host)));
    with_port || named(text) || bracketed(text) || text.parse::<Ipv6Addr>().is_ok()
}

fn folders(config: &Config, found: &mut Findings) {
    let (data, plugins) = (&config.storage.data, &config.plugins.folder);
    for (key, folder) in [("storage.data", data), ("plugins.folder", plugins)] {
        found.require(key, !folder.as_os_str().is_empty(), || "is empty, expected a folder".to_owned());
    }
    for own in ["store", "extensions"] {
        found.require("plugins.folder", !plugins.starts_with(data.join(own)), || {
            let own = data.join(own);
            format!(
                "is {}, which lies in {}, where weir keeps files of its own",
                plugins.display(),
                own.display()
            )
        });
    }
}

/// As Pulsar takes names: `[-=:.\w]+`.
fn is_name(text: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '=' | ':' | '.' | '_');
    !text.is_empty() && text.chars().all(good)
}

fn limits(limits: &Limits, found: &mut Findings) {
    let at_least = |bytes: u64| ByteSize(bytes)..=ByteSize(1 << 40);
    // Pulsar's frames carry their length in 31 bits, the frame's own head included.
    found.size("limits.max-message-size", limits.max_message_size, ByteSize(1024)..=ByteSize(1 << 30));
    found.count("limits.connections", limits.connections, 1..=10_000_000);
    found.count("limits.handles-per-connection", limits.handles_per_connection, 1..=10_000_000);
    found.span("limits.handshake-timeout", limits.handshake_timeout, Duration::from_millis(1));
    found.span("limits.keep-alive", limits.keep_alive, Duration::from_millis(1));
    found.count("limits.pending-requests", limits.pending_requests, 1..=1_000_000);
    found.size("limits.pending-publish", limits.pending_publish, at_least(1024));
    found.size("limits.pending-output", limits.pending_output, at_least(1024));
    found.size("limits.pending-deliveries", limits.pending_deliveries, at_least(1024));
    found.size("limits.all-deliveries", limits.all_deliveries, at_least(1024));
    // What no consumer can take is put down when half of it is taken, and a quarter is kept for newcomers: a
    // read of the largest message has to fit into the last one.
    let (all, message) = (limits.all_deliveries, limits.max_message_size);
    found.require("limits.all-deliveries", all.0 / 4 >= message.0, || {
        format!("is {all}, expected at least four times limits.max-message-size, which is {message}")
    });
    // A body is read whole, into memory.
    found.size("limits.admin-body", limits.admin_body, ByteSize(1024)..=ByteSize(1 << 30));
    found.count("limits.admin-connections", limits.admin_connections, 1..=10_000_000);
    found.span("limits.admin-idle", limits.admin_idle, Duration::from_millis(1));
    found.count("limits.judging-threads", limits.judging_threads, 0..=MOST_THREADS);
    found.span("limits.drain-timeout", limits.drain_timeout, Duration::ZERO);
}

/// Each binding by itself, then beside those before it.
fn bindings(config: &Config, found: &mut Findings) {
    // The table that `serve` fills in the same way says what it takes. Which classes the drop folder brings is
    // not known yet: those built in are.
    let table = Bindings::new(Extensions::with_builtins(vec![weir_listing::property_equality()]));
    let mut before = Vec::new();
    for (i, entry) in config.bindings.iter().enumerate() {
        let key = format!("bindings[{i}]");
        for filter in &entry.filters {
            let FilterRef { class, config } = filter.to_ref();
            found.config(&format!("{key}.filters.\"{class}\".config"), config.as_ref());
        }
        let binding = match entry.binding() {
            Ok(binding) => binding,
            Err(reason) => {
                found.add(&key, reason);
                continue;
            }
        };
        let names = (binding.target.clone(), binding.subscription.clone());
        if let Some(first) = before.iter().position(|(_, known)| *known == names) {
            let (first, _) = &before[first];
            let reason =
                format!("has the {} and the subscription of bindings[{first}]; one has to go", kind(entry));
            found.add(&key, reason);
            continue;
        }
        before.push((i, names));
        if let Err(error) = table.put(binding, []) {
            found.add(&key, format!("is refused: {error}"));
        }
    }
}

fn kind(entry: &BindingEntry) -> &'static str {
    if entry.topic.is_some() { "topic" } else { "pattern" }
}

#[derive(Default)]
struct Findings(Vec<Problem>);

impl Findings {
    fn add(&mut self, key: &str, reason: String) {
        self.0.push(Problem { key: key.to_owned(), reason });
    }

    fn require(&mut self, key: &str, holds: bool, reason: impl FnOnce() -> String) {
        if !holds {
            self.add(key, reason());
        }
    }

    fn within<T: PartialOrd>(
        &mut self,
        key: &str,
        found: &T,
        range: &RangeInclusive<T>,
        show: fn(&T) -> String,
    ) {
        if found < range.start() {
            self.add(key, format!("is {}, expected at least {}", show(found), show(range.start())));
        } else if found > range.end() {
            self.add(key, format!("is {}, expected at most {}", show(found), show(range.end())));
        }
    }

    fn number(&mut self, key: &str, found: u64, range: RangeInclusive<u64>) {
        self.within(key, &found, &range, ToString::to_string);
    }

    fn count(&mut self, key: &str, found: usize, range: RangeInclusive<u64>) {
        self.number(key, found as u64, range);
    }

    fn size(&mut self, key: &str, found: ByteSize, range: RangeInclusive<ByteSize>) {
        self.within(key, &found, &range, ToString::to_string);
    }

    fn span(&mut self, key: &str, found: Duration, least: Duration) {
        self.within(key, &found, &(least..=LONGEST), |span| humantime::format_duration(*span).to_string());
    }

    /// A configuration for an extension. Its schema is known once the extension is.
    fn config(&mut self, key: &str, config: Option<&serde_json::Value>) {
        let size = config.map_or(0, |config| config.to_string().len());
        self.require(key, size <= MAX_CONFIG_BYTES, || {
            format!("has {size} bytes as JSON, expected at most {MAX_CONFIG_BYTES}")
        });
    }
}
