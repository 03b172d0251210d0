//! Bindings: (topic or pattern, subscription) to an ordered list of filters and a failure policy.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_extension::{ClassName, Extensions, TopicName};

use crate::chain::Chain;

/// Which topics a binding covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// One topic, by its base name: all its partitions are covered.
    Topic(TopicName),
    /// All topics whose whole base name, domain dropped, matches this regular expression.
    Pattern(String),
}

/// What becomes of a message that a filter breaks on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// It is delivered as if accepted.
    Deliver,
    /// It is judged again, with growing pauses.
    #[default]
    Withhold,
    /// It is acknowledged for good.
    Discard,
}

/// One filter of a binding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterRef {
    /// Its class name.
    pub class: ClassName,
    /// Its configuration here; without one, that of its class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
pub struct Binding {
    /// Which topics.
    pub target: Target,
    /// Which subscription; all of the topic's without one.
    pub subscription: Option<String>,
    /// The filters, in the order in which they are asked. Not empty.
    pub filters: Vec<FilterRef>,
    /// What becomes of messages that break a filter.
    pub on_failure: OnFailure,
    /// Who wrote it down.
    pub origin: Origin,
}

/// Why a binding was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindingError {
    /// It names no filter.
    #[error("a binding needs at least one filter")]
    NoFilter,
}

/// The table of bindings. Read without a lock, once a batch.
pub struct Bindings {
    extensions: Arc<Extensions>,
}

impl Bindings {
    /// An empty table; `extensions` is where chains find their filters.
    pub fn new(extensions: Arc<Extensions>) -> Self {
        Self { extensions }
    }

    /// Sets the binding of this target and subscription, replacing the one there was.
    ///
    /// # Errors
    /// See [`BindingError`]; the table is as it was then.
    pub fn put(&self, binding: Binding) -> Result<(), BindingError> {
        let _ = (binding, &self.extensions);
        todo!()
    }

    /// Takes a binding away; gives back whether there was one.
    ///
    /// # Errors
    /// When the configuration file wrote it.
    pub fn remove(&self, target: &Target, subscription: Option<&str>) -> Result<bool, BindingError> {
        let _ = (target, subscription);
        todo!()
    }

    /// All bindings, in order of target and subscription.
    pub fn list(&self) -> Vec<Binding> {
        todo!()
    }

    /// A number that grows whenever any binding changes: chains found under an older one are found anew.
    pub fn generation(&self) -> u64 {
        todo!()
    }

    /// The chain between a topic and a subscription: `None` where no binding covers them.
    ///
    /// An exact topic beats a pattern, a binding that names the subscription beats one that does not.
    pub fn chain(&self, topic: &TopicName, subscription: &str) -> Option<Arc<Chain>> {
        let _ = (topic, subscription);
        todo!()
    }

    /// Whether any binding names this class (removal is refused then).
    pub fn uses(&self, class: &ClassName) -> bool {
        let _ = class;
        todo!()
    }
}
