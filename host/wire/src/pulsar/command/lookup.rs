//! Where topics are, and which there are.

#![expect(
    missing_docs,
    reason = "fields have the names of PulsarApi.proto; what they do not say is said here"
)]

use prost::Message;

use super::{KeyValue, LookupType, MetadataLookupType, ResourceType, ServerError, TopicsMode};

/// How many partitions has this topic?
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandPartitionedTopicMetadata {
    #[prost(string, required, tag = "1")]
    pub topic: String,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    #[prost(string, optional, tag = "3")]
    pub original_principal: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub original_auth_data: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub original_auth_method: Option<String>,
    #[prost(bool, optional, tag = "6", default = "true")]
    pub metadata_auto_creation_enabled: Option<bool>,
}

/// The answer to [`CommandPartitionedTopicMetadata`]. Both `response` and `partitions` must be present,
/// though `Success` and "not partitioned" are zeros: clients take an absent field for a failure.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandPartitionedTopicMetadataResponse {
    #[prost(uint32, optional, tag = "1")]
    pub partitions: Option<u32>,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    #[prost(enumeration = "MetadataLookupType", optional, tag = "3")]
    pub response: Option<i32>,
    #[prost(enumeration = "ServerError", optional, tag = "4")]
    pub error: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub message: Option<String>,
}

/// Which broker serves this topic?
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandLookupTopic {
    #[prost(string, required, tag = "1")]
    pub topic: String,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    #[prost(bool, optional, tag = "3")]
    pub authoritative: Option<bool>,
    #[prost(string, optional, tag = "4")]
    pub original_principal: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub original_auth_data: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub original_auth_method: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub advertised_listener_name: Option<String>,
    #[prost(message, repeated, tag = "8")]
    pub properties: Vec<KeyValue>,
}

/// The answer to [`CommandLookupTopic`]. `response` must be present, though `Redirect` is zero: clients take
/// an absent field for a failure, and one of them dies of it.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandLookupTopicResponse {
    #[prost(string, optional, tag = "1")]
    pub broker_service_url: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub broker_service_url_tls: Option<String>,
    #[prost(enumeration = "LookupType", optional, tag = "3")]
    pub response: Option<i32>,
    #[prost(uint64, required, tag = "4")]
    pub request_id: u64,
    #[prost(bool, optional, tag = "5")]
    pub authoritative: Option<bool>,
    #[prost(enumeration = "ServerError", optional, tag = "6")]
    pub error: Option<i32>,
    #[prost(string, optional, tag = "7")]
    pub message: Option<String>,
    #[prost(bool, optional, tag = "8")]
    pub proxy_through_service_url: Option<bool>,
}

/// Which topics has this namespace? `properties` are PIP-452's.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandGetTopicsOfNamespace {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(string, required, tag = "2")]
    pub namespace: String,
    #[prost(enumeration = "TopicsMode", optional, tag = "3")]
    pub mode: Option<i32>,
    #[prost(string, optional, tag = "4")]
    pub topics_pattern: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub topics_hash: Option<String>,
    #[prost(message, repeated, tag = "6")]
    pub properties: Vec<KeyValue>,
}

/// The answer to [`CommandGetTopicsOfNamespace`]. Empty `topics` with `changed` mean that there are none.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandGetTopicsOfNamespaceResponse {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(string, repeated, tag = "2")]
    pub topics: Vec<String>,
    /// A promise that the pattern has been applied exactly: clients do not check.
    #[prost(bool, optional, tag = "3")]
    pub filtered: Option<bool>,
    #[prost(string, optional, tag = "4")]
    pub topics_hash: Option<String>,
    /// False only if the client sent an equal hash; `topics` is empty then.
    #[prost(bool, optional, tag = "5", default = "true")]
    pub changed: Option<bool>,
}

/// Tells the client of topics that come and go (PIP-145).
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandWatchTopicList {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub watcher_id: u64,
    #[prost(string, required, tag = "3")]
    pub namespace: String,
    #[prost(string, required, tag = "4")]
    pub topics_pattern: String,
    #[prost(string, optional, tag = "5")]
    pub topics_hash: Option<String>,
}

/// The answer to [`CommandWatchTopicList`].
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandWatchTopicListSuccess {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub watcher_id: u64,
    #[prost(string, repeated, tag = "3")]
    pub topic: Vec<String>,
    #[prost(string, required, tag = "4")]
    pub topics_hash: String,
}

/// What has changed since the last answer or update.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandWatchTopicUpdate {
    #[prost(uint64, required, tag = "1")]
    pub watcher_id: u64,
    #[prost(string, repeated, tag = "2")]
    pub new_topics: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub deleted_topics: Vec<String>,
    #[prost(string, required, tag = "4")]
    pub topics_hash: String,
}

/// Ends a watch.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandWatchTopicListClose {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub watcher_id: u64,
}

/// The topic has moved to another cluster.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandTopicMigrated {
    #[prost(uint64, required, tag = "1")]
    pub resource_id: u64,
    #[prost(enumeration = "ResourceType", required, tag = "2")]
    pub resource_type: i32,
    #[prost(string, optional, tag = "3")]
    pub broker_service_url: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub broker_service_url_tls: Option<String>,
}
