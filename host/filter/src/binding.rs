//! A binding: (topic or pattern, subscription) to an ordered list of filters and a failure policy.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use weir_extension::{ClassName, TopicName, Unavailable};

/// The most filters that one binding may name.
pub const MAX_FILTERS: usize = 32;

/// The longest pattern of a binding, in bytes.
pub const MAX_PATTERN_BYTES: usize = 1024;

/// The longest subscription of a binding, in bytes.
pub const MAX_SUBSCRIPTION_BYTES: usize = 4096;

/// The most bindings that are kept. The table is copied at each change: at this many, in about a
/// millisecond.
pub const MAX_BINDINGS: usize = 10_000;

/// Which topics a binding covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// One topic, by its base name: all its partitions are covered.
    Topic(TopicName),
    /// All topics whose whole base name, domain dropped, matches this regular expression (in the syntax of
    /// Rust's `regex`). `persistent://` or `non-persistent://` at its start keeps it to that domain.
    Pattern(String),
}

/// What becomes of a message that a filter breaks on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// The filter that broke counts as having accepted it: it goes on to the next one, or is delivered.
    Deliver,
    /// It is judged again, with growing pauses.
    #[default]
    Withhold,
    /// It is acknowledged for good, as long as the filter works otherwise: while it breaks on everything,
    /// nothing is acknowledged.
    Discard,
}

/// One filter of a binding. Reads as `"class"` or as `{ class = "class", config = { … } }`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FilterRef {
    /// Its class name.
    pub class: ClassName,
    /// Its configuration here; without one, that of its class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
}

/// Who wrote a binding down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The configuration file: REST cannot change it.
    File,
    /// REST or the command line.
    Rest,
}

/// A rule: which filters stand between these topics and this subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Binding {
    /// Which topics: a member `topic` or `pattern`.
    #[serde(flatten)]
    pub target: Target,
    /// Which subscription; all of the topic's without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    /// The filters, in the order in which they are asked. Not empty.
    pub filters: Vec<FilterRef>,
    /// What becomes of messages that break a filter.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Who wrote it down.
    pub origin: Origin,
}

/// Why a binding was refused; the table is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindingError {
    /// It names no filter.
    #[error("a binding needs at least one filter")]
    NoFilter,
    /// It names too many filters.
    #[error("a binding may name {MAX_FILTERS} filters, this one names {count}")]
    TooManyFilters {
        /// How many it names.
        count: usize,
    },
    /// It names one partition of a topic.
    #[error("{topic} is one partition; bind {}, which covers all of them", topic.base())]
    OnePartition {
        /// What it names.
        topic: TopicName,
    },
    /// Its subscription is empty or too long.
    #[error("a subscription has 1 to {MAX_SUBSCRIPTION_BYTES} bytes, this one has {length}")]
    BadSubscription {
        /// Its length in bytes.
        length: usize,
    },
    /// Its pattern is empty, too long, no regular expression, or too large once compiled.
    #[error("pattern {pattern:?} cannot be used: {reason}")]
    BadPattern {
        /// The pattern, cut to 200 characters.
        pattern: String,
        /// Why not.
        reason: String,
    },
    /// Another pattern covers the same topic for the same subscription.
    #[error(
        "patterns {pattern:?} and {other:?} both match {topic}; bind that topic by its name, or change one"
    )]
    Conflict {
        /// The pattern that was to be bound.
        pattern: String,
        /// The one that is.
        other: String,
        /// A topic that both match, without its domain; or the pattern, where they are the same.
        topic: String,
    },
    /// The configuration file has this binding.
    #[error("{target} is bound under `bindings` in the configuration file and can be changed only there")]
    FixedByFile {
        /// What is bound there.
        target: Target,
    },
    /// There are too many bindings.
    #[error("there are {MAX_BINDINGS} bindings, no more are taken")]
    TooManyBindings,
    /// One of its filters is there, and is no filter or refuses this configuration.
    #[error(transparent)]
    Filter(#[from] Unavailable),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(topic) => write!(f, "topic {topic}"),
            Self::Pattern(pattern) => write!(f, "pattern {pattern:?}"),
        }
    }
}

impl<'de> Deserialize<'de> for FilterRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            class: ClassName,
            config: Option<Value>,
        }
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = FilterRef;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a class name, or a table of `class` and `config`")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<FilterRef, E> {
                Ok(FilterRef { class: ClassName::new(text).map_err(E::custom)?, config: None })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FilterRef, A::Error> {
                let Table { class, config } = Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(FilterRef { class, config })
            }
        }
        deserializer.deserialize_any(Either)
    }
}
