//! What exists: tenants, namespaces, topics with their properties. Records in the store, a table in
//! memory, and the listing's index, kept the same.

use std::collections::BTreeMap;

use weir_filter::TopicName;

/// A base topic as listings and REST show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its base name.
    pub name: TopicName,
    /// How many partitions; `None` if it is not partitioned.
    pub partitions: Option<u32>,
    /// What its creator said of it.
    pub properties: BTreeMap<String, String>,
}
