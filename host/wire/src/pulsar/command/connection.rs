//! Connection: handshake, authentication, liveness, and the two general answers.

#![expect(
    missing_docs,
    reason = "fields have the names of PulsarApi.proto; what they do not say is said here"
)]

use bytes::Bytes;
use prost::Message;

use super::{AuthMethod, Schema, ServerError};

/// The first command of a connection, client to server.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandConnect {
    #[prost(string, required, tag = "1")]
    pub client_version: String,
    #[prost(enumeration = "AuthMethod", optional, tag = "2")]
    pub auth_method: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub auth_data: Option<Bytes>,
    /// What the client speaks; the server answers the lower of both.
    #[prost(int32, optional, tag = "4")]
    pub protocol_version: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub auth_method_name: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub proxy_to_broker_url: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub original_principal: Option<String>,
    #[prost(string, optional, tag = "8")]
    pub original_auth_data: Option<String>,
    #[prost(string, optional, tag = "9")]
    pub original_auth_method: Option<String>,
    #[prost(message, optional, tag = "10")]
    pub feature_flags: Option<FeatureFlags>,
    #[prost(string, optional, tag = "11")]
    pub proxy_version: Option<String>,
}

/// The answer to [`CommandConnect`]. `max_message_size` is the largest payload with metadata, in bytes.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandConnected {
    #[prost(string, required, tag = "1")]
    pub server_version: String,
    #[prost(int32, optional, tag = "2")]
    pub protocol_version: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub max_message_size: Option<i32>,
    #[prost(message, optional, tag = "4")]
    pub feature_flags: Option<FeatureFlags>,
}

/// What a side can do beyond its protocol version. Absent means false.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct FeatureFlags {
    #[prost(bool, optional, tag = "1")]
    pub supports_auth_refresh: Option<bool>,
    #[prost(bool, optional, tag = "2")]
    pub supports_broker_entry_metadata: Option<bool>,
    #[prost(bool, optional, tag = "3")]
    pub supports_partial_producer: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    pub supports_topic_watchers: Option<bool>,
    #[prost(bool, optional, tag = "5")]
    pub supports_get_partitioned_metadata_without_auto_creation: Option<bool>,
    #[prost(bool, optional, tag = "6")]
    pub supports_repl_dedup_by_lid_and_eid: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    pub supports_topic_watcher_reconcile: Option<bool>,
    #[prost(bool, optional, tag = "8")]
    pub supports_scalable_topics: Option<bool>,
    #[prost(bool, optional, tag = "9")]
    pub supports_tc_metadata_discovery: Option<bool>,
}

/// The server asks for (more) credentials.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandAuthChallenge {
    #[prost(string, optional, tag = "1")]
    pub server_version: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub challenge: Option<AuthData>,
    #[prost(int32, optional, tag = "3")]
    pub protocol_version: Option<i32>,
}

/// The answer to [`CommandAuthChallenge`].
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandAuthResponse {
    #[prost(string, optional, tag = "1")]
    pub client_version: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub response: Option<AuthData>,
    #[prost(int32, optional, tag = "3")]
    pub protocol_version: Option<i32>,
}

/// Credentials, opaque to all but the named method.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct AuthData {
    #[prost(string, optional, tag = "1")]
    pub auth_method_name: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub auth_data: Option<Bytes>,
}

/// Are you there? Answered at once with [`CommandPong`].
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandPing {}

/// The answer to [`CommandPing`].
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandPong {}

/// A request has failed. With [`NO_REQUEST`](crate::pulsar::NO_REQUEST) as id it concerns the connection.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandError {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(enumeration = "ServerError", required, tag = "2")]
    pub error: i32,
    #[prost(string, required, tag = "3")]
    pub message: String,
}

/// A request that asks for nothing has been done.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandSuccess {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(message, optional, tag = "2")]
    pub schema: Option<Schema>,
}
