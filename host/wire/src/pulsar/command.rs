//! Commands: what a frame says.
//!
//! The messages are written by hand after `PulsarApi.proto`, for prost: no compiler of protobuf is
//! needed to build. Optional fields are `Option`s, so that a zero can be sent where clients want one, and
//! have a getter that knows the default. A command's number is the number of its field in `BaseCommand`
//! too, which is why that message needs no struct.
//!
//! Transactions (50 to 63) and what 5.0 adds (70 to 81) are not here: no server offers them unasked, and a
//! frame that carries one is [`Frame::Unknown`](super::Frame::Unknown).

mod connection;
mod consuming;
mod data;
mod enums;
mod lookup;
mod producing;
mod schema;
pub(super) mod shape;

use bytes::{BufMut, Bytes};
use prost::Message;

pub use connection::*;
pub use consuming::*;
pub use data::*;
pub use enums::*;
pub use lookup::*;
pub use producing::*;
pub use schema::*;

use super::fields::{put_bytes_key, put_varint_field, varint_len};
use super::frame::DecodeError;

/// Makes [`Command`] from the table of commands: number, Pulsar's name, variant, message.
macro_rules! commands {
    ($($number:literal $name:literal $variant:ident($message:ident),)*) => {
        /// A command.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each variant is the message of its name, which says what it is for")]
        pub enum Command {
            $($variant($message),)*
        }

        impl Command {
            /// Its number on the wire.
            pub fn number(&self) -> i32 {
                match self { $(Self::$variant(_) => $number,)* }
            }

            /// Its name in `PulsarApi.proto`: `GET_TOPICS_OF_NAMESPACE`, for one.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)* }
            }

            fn body_len(&self) -> usize {
                match self { $(Self::$variant(body) => body.encoded_len(),)* }
            }

            fn encode_body(&self, out: &mut impl BufMut) {
                match self { $(Self::$variant(body) => body.encode_raw(out),)* }
            }

            fn decode_body(number: i32, body: Bytes) -> Result<Option<Self>, prost::DecodeError> {
                match number {
                    $($number => $message::decode(body).map(|body| Some(Self::$variant(body))),)*
                    _ => Ok(None),
                }
            }
        }

        /// The name of the command of a number; `None` for one that is not served.
        pub(super) fn name_of(number: i32) -> Option<&'static str> {
            match number { $($number => Some($name),)* _ => None }
        }

        $(impl From<$message> for Command {
            fn from(body: $message) -> Self {
                Self::$variant(body)
            }
        })*

        /// One of each, with every required field and no other.
        #[cfg(test)]
        pub(super) fn one_of_each() -> Vec<Command> {
            vec![$(Command::$variant($message::default()),)*]
        }
    };
}

commands! {
    2 "CONNECT" Connect(CommandConnect),
    3 "CONNECTED" Connected(CommandConnected),
    4 "SUBSCRIBE" Subscribe(CommandSubscribe),
    5 "PRODUCER" Producer(CommandProducer),
    6 "SEND" Send(CommandSend),
    7 "SEND_RECEIPT" SendReceipt(CommandSendReceipt),
    8 "SEND_ERROR" SendError(CommandSendError),
    9 "MESSAGE" Message(CommandMessage),
    10 "ACK" Ack(CommandAck),
    11 "FLOW" Flow(CommandFlow),
    12 "UNSUBSCRIBE" Unsubscribe(CommandUnsubscribe),
    13 "SUCCESS" Success(CommandSuccess),
    14 "ERROR" Error(CommandError),
    15 "CLOSE_PRODUCER" CloseProducer(CommandCloseProducer),
    16 "CLOSE_CONSUMER" CloseConsumer(CommandCloseConsumer),
    17 "PRODUCER_SUCCESS" ProducerSuccess(CommandProducerSuccess),
    18 "PING" Ping(CommandPing),
    19 "PONG" Pong(CommandPong),
    20 "REDELIVER_UNACKNOWLEDGED_MESSAGES" RedeliverUnacknowledgedMessages(CommandRedeliverUnacknowledgedMessages),
    21 "PARTITIONED_METADATA" PartitionedTopicMetadata(CommandPartitionedTopicMetadata),
    22 "PARTITIONED_METADATA_RESPONSE" PartitionedTopicMetadataResponse(CommandPartitionedTopicMetadataResponse),
    23 "LOOKUP" LookupTopic(CommandLookupTopic),
    24 "LOOKUP_RESPONSE" LookupTopicResponse(CommandLookupTopicResponse),
    25 "CONSUMER_STATS" ConsumerStats(CommandConsumerStats),
    26 "CONSUMER_STATS_RESPONSE" ConsumerStatsResponse(CommandConsumerStatsResponse),
    27 "REACHED_END_OF_TOPIC" ReachedEndOfTopic(CommandReachedEndOfTopic),
    28 "SEEK" Seek(CommandSeek),
    29 "GET_LAST_MESSAGE_ID" GetLastMessageId(CommandGetLastMessageId),
    30 "GET_LAST_MESSAGE_ID_RESPONSE" GetLastMessageIdResponse(CommandGetLastMessageIdResponse),
    31 "ACTIVE_CONSUMER_CHANGE" ActiveConsumerChange(CommandActiveConsumerChange),
    32 "GET_TOPICS_OF_NAMESPACE" GetTopicsOfNamespace(CommandGetTopicsOfNamespace),
    33 "GET_TOPICS_OF_NAMESPACE_RESPONSE" GetTopicsOfNamespaceResponse(CommandGetTopicsOfNamespaceResponse),
    34 "GET_SCHEMA" GetSchema(CommandGetSchema),
    35 "GET_SCHEMA_RESPONSE" GetSchemaResponse(CommandGetSchemaResponse),
    36 "AUTH_CHALLENGE" AuthChallenge(CommandAuthChallenge),
    37 "AUTH_RESPONSE" AuthResponse(CommandAuthResponse),
    38 "ACK_RESPONSE" AckResponse(CommandAckResponse),
    39 "GET_OR_CREATE_SCHEMA" GetOrCreateSchema(CommandGetOrCreateSchema),
    40 "GET_OR_CREATE_SCHEMA_RESPONSE" GetOrCreateSchemaResponse(CommandGetOrCreateSchemaResponse),
    64 "WATCH_TOPIC_LIST" WatchTopicList(CommandWatchTopicList),
    65 "WATCH_TOPIC_LIST_SUCCESS" WatchTopicListSuccess(CommandWatchTopicListSuccess),
    66 "WATCH_TOPIC_UPDATE" WatchTopicUpdate(CommandWatchTopicUpdate),
    67 "WATCH_TOPIC_LIST_CLOSE" WatchTopicListClose(CommandWatchTopicListClose),
    68 "TOPIC_MIGRATED" TopicMigrated(CommandTopicMigrated),
}

impl Command {
    /// How many bytes [`Command::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        let body = self.body_len();
        let number = self.number() as u64;
        1 + varint_len(number) + varint_len(number << 3) + varint_len(body as u64) + body
    }

    /// Writes it as a `BaseCommand`.
    pub fn encode(&self, out: &mut impl BufMut) {
        let number = self.number();
        put_varint_field(1, number as u64, out);
        put_bytes_key(number as u32, self.body_len(), out);
        self.encode_body(out);
    }

    /// Reads the body of the command `number`, in which at most `budget` fields may lie.
    ///
    /// `Ok(None)`: a command that is not served.
    ///
    /// # Errors
    /// When a required field is missing, or the bytes are not its message.
    pub(super) fn decode(number: i32, body: Bytes, mut budget: usize) -> Result<Option<Self>, DecodeError> {
        if let Some(shape) = shape::of_command(number) {
            shape.check(&body, &mut budget)?;
        }
        Self::decode_body(number, body).map_err(|source| DecodeError::Malformed {
            command: name_of(number).unwrap_or("a command that is not served"),
            source,
        })
    }
}

impl KeyValue {
    /// A property.
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.into() }
    }
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}
