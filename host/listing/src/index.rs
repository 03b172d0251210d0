//! The topics there are, with their properties.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_extension::{NamespaceName, TopicName, Topics};

/// All topics, by namespace. Readers take a snapshot and never wait for a writer.
#[derive(Default)]
pub struct Index {}

impl Index {
    /// Adds a base topic, or replaces its partitions and properties. `partitions` is `None` for a topic
    /// that is not partitioned.
    pub fn put(&self, topic: &TopicName, partitions: Option<u32>, properties: BTreeMap<String, String>) {
        let _ = (topic, partitions, properties);
        todo!()
    }

    /// Takes a base topic out; gives back whether it was there.
    pub fn remove(&self, topic: &TopicName) -> bool {
        let _ = topic;
        todo!()
    }

    /// One snapshot of a namespace's topics, in one mode.
    pub fn snapshot(&self, namespace: &NamespaceName, mode: weir_extension::Mode) -> Arc<dyn Topics> {
        let _ = (namespace, mode);
        todo!()
    }
}
