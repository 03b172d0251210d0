//! Producing.

#![expect(
    missing_docs,
    reason = "fields have the names of PulsarApi.proto; what they do not say is said here"
)]

use bytes::Bytes;
use prost::Message;

use super::{KeyValue, MessageIdData, ProducerAccessMode, Schema, ServerError};

/// Makes a producer. Without `producer_name` the server invents one.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandProducer {
    #[prost(string, required, tag = "1")]
    pub topic: String,
    #[prost(uint64, required, tag = "2")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "3")]
    pub request_id: u64,
    #[prost(string, optional, tag = "4")]
    pub producer_name: Option<String>,
    #[prost(bool, optional, tag = "5")]
    pub encrypted: Option<bool>,
    #[prost(message, repeated, tag = "6")]
    pub metadata: Vec<KeyValue>,
    #[prost(message, optional, tag = "7")]
    pub schema: Option<Schema>,
    #[prost(uint64, optional, tag = "8")]
    pub epoch: Option<u64>,
    #[prost(bool, optional, tag = "9", default = "true")]
    pub user_provided_producer_name: Option<bool>,
    #[prost(enumeration = "ProducerAccessMode", optional, tag = "10")]
    pub producer_access_mode: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    pub topic_epoch: Option<u64>,
    #[prost(bool, optional, tag = "12")]
    pub txn_enabled: Option<bool>,
    #[prost(string, optional, tag = "13")]
    pub initial_subscription_name: Option<String>,
}

/// The answer to [`CommandProducer`].
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandProducerSuccess {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(string, required, tag = "2")]
    pub producer_name: String,
    #[prost(int64, optional, tag = "3", default = "-1")]
    pub last_sequence_id: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub schema_version: Option<Bytes>,
    #[prost(uint64, optional, tag = "5")]
    pub topic_epoch: Option<u64>,
    #[prost(bool, optional, tag = "6", default = "true")]
    pub producer_ready: Option<bool>,
}

/// An entry follows. The producer knows it again by `sequence_id`.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandSend {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
    /// For counting only: what is stored is said by the metadata.
    #[prost(int32, optional, tag = "3", default = "1")]
    pub num_messages: Option<i32>,
    #[prost(uint64, optional, tag = "4")]
    pub txnid_least_bits: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub txnid_most_bits: Option<u64>,
    #[prost(uint64, optional, tag = "6")]
    pub highest_sequence_id: Option<u64>,
    #[prost(bool, optional, tag = "7")]
    pub is_chunk: Option<bool>,
    #[prost(bool, optional, tag = "8")]
    pub marker: Option<bool>,
    #[prost(message, optional, tag = "9")]
    pub message_id: Option<MessageIdData>,
}

/// The entry is durable. Receipts come in the order of the entries.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandSendReceipt {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
    #[prost(message, optional, tag = "3")]
    pub message_id: Option<MessageIdData>,
    #[prost(uint64, optional, tag = "4")]
    pub highest_sequence_id: Option<u64>,
}

/// The entry was not taken.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandSendError {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
    #[prost(enumeration = "ServerError", required, tag = "3")]
    pub error: i32,
    #[prost(string, required, tag = "4")]
    pub message: String,
}

/// Closes a producer; from a server, with [`NO_REQUEST`](crate::pulsar::NO_REQUEST), it asks the client to reconnect.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct CommandCloseProducer {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    /// Where to reconnect, if the server knows.
    #[prost(string, optional, tag = "3")]
    pub assigned_broker_service_url: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub assigned_broker_service_url_tls: Option<String>,
}
