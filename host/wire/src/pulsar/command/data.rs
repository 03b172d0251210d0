//! What commands and metadata are made of.

#![expect(
    missing_docs,
    reason = "fields have the names of PulsarApi.proto; what they do not say is said here"
)]

use prost::Message;

/// Where a message lies. `-1` as ledger or entry arrives as `u64::MAX`.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct MessageIdData {
    #[prost(uint64, required, tag = "1")]
    pub ledger_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub entry_id: u64,
    #[prost(int32, optional, tag = "3", default = "-1")]
    pub partition: Option<i32>,
    #[prost(int32, optional, tag = "4", default = "-1")]
    pub batch_index: Option<i32>,
    /// Words of a bit set, lowest first: a set bit is a message not acknowledged. See [`ack_set`](crate::pulsar::ack_set).
    #[prost(int64, repeated, packed = "false", tag = "5")]
    pub ack_set: Vec<i64>,
    #[prost(int32, optional, tag = "6")]
    pub batch_size: Option<i32>,
    #[prost(message, optional, boxed, tag = "7")]
    pub first_chunk_message_id: Option<Box<MessageIdData>>,
}

/// A property.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct KeyValue {
    #[prost(string, required, tag = "1")]
    pub key: String,
    #[prost(string, required, tag = "2")]
    pub value: String,
}

/// A counted property.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct KeyLongValue {
    #[prost(string, required, tag = "1")]
    pub key: String,
    #[prost(uint64, required, tag = "2")]
    pub value: u64,
}
