//! What may be chosen of this room, `[listing]` in the configuration file, and the limits that may not.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_extension::ClassName;

/// The most names of its own that a lister may return in one answer.
///
/// Topics of the index are ranks and cost a bit each; a name costs its length and a node, so an answer of
/// this many holds some 20 MB.
pub const MAX_OWN_NAMES: usize = 100_000;

/// The longest name of its own that a lister may return, in bytes: that of a topic's name.
pub const MAX_OWN_NAME_BYTES: usize = weir_extension::names::MAX_NAME_BYTES;

/// The most names that a lister reads from a set in one call.
pub const MAX_PAGE: usize = 10_000;

/// `[listing]`: who answers, and how much may be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Config {
    /// The class name of the lister that answers. Default: "weir.PropertyEquality".
    pub class: ClassName,
    /// Its configuration here; without one, that of its class. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// Whether patterns are applied here; if not, answers are unfiltered and clients filter. Default: true.
    /// Pulsar: `enableBrokerSideSubscriptionPatternEvaluation`.
    pub evaluate_patterns: bool,
    /// The longest pattern that is applied here, in UTF-16 units, as sent; longer ones are left to the
    /// client. Default: 50. Pulsar: `subscriptionPatternMaxLength`.
    pub pattern_max_length: usize,
    /// How many calls to listers run at once, each on a thread and an instance of its own. Default: 4.
    pub concurrent_calls: NonZeroUsize,
    /// How many different listings may be under way or wait; one more is refused. Default: 1000.
    pub max_in_flight: NonZeroUsize,
    /// The most topics that one answer may name, partitions counted one by one. Default: 1000000.
    pub max_topics: usize,
    /// The most properties that a client may send with a listing. Default: 64.
    pub max_properties: usize,
    /// The longest key or value of such a property, in bytes. Default: 4096.
    pub max_property_length: usize,
}

impl Default for Config {
    fn default() -> Self {
        let some = |n| NonZeroUsize::new(n).expect("the defaults are not zero");
        Self {
            class: crate::property_equality::class(),
            config: None,
            evaluate_patterns: true,
            pattern_max_length: 50,
            concurrent_calls: some(4),
            max_in_flight: some(1000),
            max_topics: 1_000_000,
            max_properties: 64,
            max_property_length: 4096,
        }
    }
}
