//! Schemas, which are only passed on.

#![expect(
    missing_docs,
    reason = "fields have the names of PulsarApi.proto; what they do not say is said here"
)]

use bytes::Bytes;
use prost::Message;

use super::{KeyValue, SchemaType, ServerError};

/// The schema of a topic's messages, opaque here.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Schema {
    #[prost(string, required, tag = "1")]
    pub name: String,
    #[prost(bytes = "bytes", required, tag = "3")]
    pub schema_data: Bytes,
    #[prost(enumeration = "SchemaType", required, tag = "4")]
    pub schema_type: i32,
    #[prost(message, repeated, tag = "5")]
    pub properties: Vec<KeyValue>,
}

/// Which schema has this topic, at this version?
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandGetSchema {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(string, required, tag = "2")]
    pub topic: String,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub schema_version: Option<Bytes>,
}

/// The answer to [`CommandGetSchema`].
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandGetSchemaResponse {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(enumeration = "ServerError", optional, tag = "2")]
    pub error_code: Option<i32>,
    #[prost(string, optional, tag = "3")]
    pub error_message: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub schema: Option<Schema>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub schema_version: Option<Bytes>,
}

/// Which version has this schema? It is added if it is new.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandGetOrCreateSchema {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(string, required, tag = "2")]
    pub topic: String,
    #[prost(message, required, tag = "3")]
    pub schema: Schema,
    #[prost(string, optional, tag = "4")]
    pub producer_name: Option<String>,
}

/// The answer to [`CommandGetOrCreateSchema`].
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandGetOrCreateSchemaResponse {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(enumeration = "ServerError", optional, tag = "2")]
    pub error_code: Option<i32>,
    #[prost(string, optional, tag = "3")]
    pub error_message: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub schema_version: Option<Bytes>,
}
