//! `weir.PropertyEquality`, the lister that answers unless another is configured.

use std::sync::Arc;

use weir_extension::{Broke, Builtin, ClassName, ListRequest, TopicLister, TopicSet, Topics};

/// Lists the topics that have every property that the client sent, with an equal value; all of them if it
/// sent none.
#[derive(Debug)]
struct PropertyEquality;

impl TopicLister for PropertyEquality {
    fn answer(&mut self, request: &ListRequest, topics: &Arc<dyn Topics>) -> Result<TopicSet, Broke> {
        let mut pairs = request.properties.iter().map(|(key, value)| topics.with_property(key, value));
        let Some(first) = pairs.next() else { return Ok(topics.all()) };
        Ok(pairs.fold(first, |set, other| set.intersect(&other)))
    }
}

/// `weir.PropertyEquality`, to be handed to [`Extensions`](weir_extension::Extensions). It takes no
/// configuration.
pub fn property_equality() -> Builtin {
    let none = serde_json::json!({ "type": "object", "additionalProperties": false });
    Builtin::lister(class(), |_| Ok(Box::new(PropertyEquality))).with_schema(none)
}

pub(crate) fn class() -> ClassName {
    ClassName::new("weir.PropertyEquality").expect("it is a good class name")
}
