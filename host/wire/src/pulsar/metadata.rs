//! What producers say of entries and of the messages in them.

#![expect(
    missing_docs,
    reason = "fields have the names of PulsarApi.proto; what they do not say is said here"
)]

use bytes::Bytes;
use prost::Message;

use crate::pulsar::command::{CompressionType, KeyValue};

/// What a producer says of an entry. Read, never written again: encoding it would lose the fields that it
/// does not know; see [`OpenEntry::keep`](crate::pulsar::OpenEntry::keep).
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct MessageMetadata {
    #[prost(string, required, tag = "1")]
    pub producer_name: String,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
    /// Milliseconds since 1970.
    #[prost(uint64, required, tag = "3")]
    pub publish_time: u64,
    #[prost(message, repeated, tag = "4")]
    pub properties: Vec<KeyValue>,
    #[prost(string, optional, tag = "5")]
    pub replicated_from: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub partition_key: Option<String>,
    #[prost(string, repeated, tag = "7")]
    pub replicate_to: Vec<String>,
    #[prost(enumeration = "CompressionType", optional, tag = "8")]
    pub compression: Option<i32>,
    /// Of the whole payload, in bytes.
    #[prost(uint32, optional, tag = "9")]
    pub uncompressed_size: Option<u32>,
    /// Its presence makes the payload a batch, even when it is 1.
    #[prost(int32, optional, tag = "11", default = "1")]
    pub num_messages_in_batch: Option<i32>,
    /// Milliseconds since 1970; 0 means none.
    #[prost(uint64, optional, tag = "12")]
    pub event_time: Option<u64>,
    #[prost(message, repeated, tag = "13")]
    pub encryption_keys: Vec<EncryptionKeys>,
    #[prost(string, optional, tag = "14")]
    pub encryption_algo: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "15")]
    pub encryption_param: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "16")]
    pub schema_version: Option<Bytes>,
    #[prost(bool, optional, tag = "17")]
    pub partition_key_b64_encoded: Option<bool>,
    #[prost(bytes = "bytes", optional, tag = "18")]
    pub ordering_key: Option<Bytes>,
    #[prost(int64, optional, tag = "19")]
    pub deliver_at_time: Option<i64>,
    #[prost(int32, optional, tag = "20")]
    pub marker_type: Option<i32>,
    #[prost(uint64, optional, tag = "22")]
    pub txnid_least_bits: Option<u64>,
    #[prost(uint64, optional, tag = "23")]
    pub txnid_most_bits: Option<u64>,
    #[prost(uint64, optional, tag = "24")]
    pub highest_sequence_id: Option<u64>,
    #[prost(bool, optional, tag = "25")]
    pub null_value: Option<bool>,
    #[prost(string, optional, tag = "26")]
    pub uuid: Option<String>,
    #[prost(int32, optional, tag = "27")]
    pub num_chunks_from_msg: Option<i32>,
    #[prost(int32, optional, tag = "28")]
    pub total_chunk_msg_size: Option<i32>,
    #[prost(int32, optional, tag = "29")]
    pub chunk_id: Option<i32>,
    #[prost(bool, optional, tag = "30")]
    pub null_partition_key: Option<bool>,
    /// Which messages of the batch a compaction has left in the payload.
    #[prost(int32, repeated, packed = "false", tag = "31")]
    pub compacted_batch_indexes: Vec<i32>,
    #[prost(bytes = "bytes", optional, tag = "32")]
    pub schema_id: Option<Bytes>,
    #[prost(uint32, optional, tag = "33")]
    pub entry_hash_min: Option<u32>,
    #[prost(uint32, optional, tag = "34")]
    pub entry_hash_max: Option<u32>,
}

/// What a producer says of one message of a batch.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct SingleMessageMetadata {
    #[prost(message, repeated, tag = "1")]
    pub properties: Vec<KeyValue>,
    #[prost(string, optional, tag = "2")]
    pub partition_key: Option<String>,
    /// In bytes; the payload follows.
    #[prost(int32, required, tag = "3")]
    pub payload_size: i32,
    #[prost(bool, optional, tag = "4")]
    pub compacted_out: Option<bool>,
    #[prost(uint64, optional, tag = "5")]
    pub event_time: Option<u64>,
    #[prost(bool, optional, tag = "6")]
    pub partition_key_b64_encoded: Option<bool>,
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub ordering_key: Option<Bytes>,
    #[prost(uint64, optional, tag = "8")]
    pub sequence_id: Option<u64>,
    #[prost(bool, optional, tag = "9")]
    pub null_value: Option<bool>,
    #[prost(bool, optional, tag = "10")]
    pub null_partition_key: Option<bool>,
}

/// What a broker with interceptors adds in front of an entry.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct BrokerEntryMetadata {
    #[prost(uint64, optional, tag = "1")]
    pub broker_timestamp: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub index: Option<u64>,
}

/// A key that an entry is encrypted with, itself encrypted.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct EncryptionKeys {
    #[prost(string, required, tag = "1")]
    pub key: String,
    #[prost(bytes = "bytes", required, tag = "2")]
    pub value: Bytes,
    #[prost(message, repeated, tag = "3")]
    pub metadata: Vec<KeyValue>,
}
