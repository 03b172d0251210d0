//! Which fields a message must have.
//!
//! prost takes a missing required field for zero and an unknown value of an enumeration for the first
//! one; in a command of a peer both are faults: a subscription of an unknown type is not an exclusive
//! one. So a command is walked before it is decoded. The walk allocates nothing, and counts what the
//! decoding would allocate.

use crate::pulsar::fields::{Value, fields};
use crate::pulsar::frame::DecodeError;

/// What is required of a message.
pub(crate) struct Shape {
    name: &'static str,
    /// Number and name of required fields.
    required: &'static [(u32, &'static str)],
    /// The messages within it of which something is required.
    nested: &'static [(u32, &'static Shape)],
    /// Enumerations that decide what a command does, with their highest value.
    enums: &'static [(u32, u64)],
}

/// How deep messages may lie in each other: a chunk's first id, within an id, within a command.
const MAX_DEPTH: usize = 8;

impl Shape {
    const fn new(name: &'static str, required: &'static [(u32, &'static str)]) -> Self {
        Self { name, required, nested: &[], enums: &[] }
    }

    const fn nested(mut self, nested: &'static [(u32, &'static Shape)]) -> Self {
        self.nested = nested;
        self
    }

    const fn enums(mut self, enums: &'static [(u32, u64)]) -> Self {
        self.enums = enums;
        self
    }

    /// Checks a message, and takes its fields off `budget`.
    ///
    /// # Errors
    /// When a required field is missing, an enumeration's value unknown, the bytes are no message, or it
    /// has more fields than the budget.
    pub(crate) fn check(&self, message: &[u8], budget: &mut usize) -> Result<(), DecodeError> {
        self.check_at(message, budget, 0)
    }

    fn check_at(&self, message: &[u8], budget: &mut usize, depth: usize) -> Result<(), DecodeError> {
        if depth > MAX_DEPTH {
            return Err(DecodeError::TooDeep { message: self.name });
        }
        let mut seen = 0_u64;
        for field in fields(message) {
            let field = field.map_err(|source| DecodeError::Fields { message: self.name, source })?;
            *budget = budget.checked_sub(1).ok_or(DecodeError::TooManyFields { message: self.name })?;
            if field.tag < 64 {
                seen |= 1 << field.tag;
            }
            match field.value {
                Value::Varint(value) => self.check_enum(field.tag, value)?,
                Value::Bytes(bytes, _) => {
                    if let Some((_, shape)) = self.nested.iter().find(|(tag, _)| *tag == field.tag) {
                        shape.check_at(bytes, budget, depth + 1)?;
                    }
                }
                Value::Fixed => {}
            }
        }
        match self.required.iter().find(|(tag, _)| seen & (1 << tag) == 0) {
            Some((_, field)) => Err(DecodeError::MissingField { message: self.name, field }),
            None => Ok(()),
        }
    }

    fn check_enum(&self, tag: u32, value: u64) -> Result<(), DecodeError> {
        match self.enums.iter().find(|(of, _)| *of == tag) {
            Some((_, highest)) if value > *highest => {
                let named = self.required.iter().find(|(of, _)| *of == tag);
                let field = named.map_or("enumeration", |(_, name)| *name);
                Err(DecodeError::UnknownValue { message: self.name, field, value })
            }
            _ => Ok(()),
        }
    }
}

/// The shape of a command by its number; `None` where nothing is required (PING, for one).
pub(super) fn of_command(number: i32) -> Option<&'static Shape> {
    Some(match number {
        2 => &COMMAND_CONNECT,
        3 => &COMMAND_CONNECTED,
        4 => &COMMAND_SUBSCRIBE,
        5 => &COMMAND_PRODUCER,
        6 => &COMMAND_SEND,
        7 => &COMMAND_SEND_RECEIPT,
        8 => &COMMAND_SEND_ERROR,
        9 => &COMMAND_MESSAGE,
        10 => &COMMAND_ACK,
        11 => &COMMAND_FLOW,
        12 => &COMMAND_UNSUBSCRIBE,
        13 => &COMMAND_SUCCESS,
        14 => &COMMAND_ERROR,
        15 => &COMMAND_CLOSE_PRODUCER,
        16 => &COMMAND_CLOSE_CONSUMER,
        17 => &COMMAND_PRODUCER_SUCCESS,
        20 => &COMMAND_REDELIVER_UNACKNOWLEDGED_MESSAGES,
        21 => &COMMAND_PARTITIONED_TOPIC_METADATA,
        22 => &COMMAND_PARTITIONED_TOPIC_METADATA_RESPONSE,
        23 => &COMMAND_LOOKUP_TOPIC,
        24 => &COMMAND_LOOKUP_TOPIC_RESPONSE,
        25 => &COMMAND_CONSUMER_STATS,
        26 => &COMMAND_CONSUMER_STATS_RESPONSE,
        27 => &COMMAND_REACHED_END_OF_TOPIC,
        28 => &COMMAND_SEEK,
        29 => &COMMAND_GET_LAST_MESSAGE_ID,
        30 => &COMMAND_GET_LAST_MESSAGE_ID_RESPONSE,
        31 => &COMMAND_ACTIVE_CONSUMER_CHANGE,
        32 => &COMMAND_GET_TOPICS_OF_NAMESPACE,
        33 => &COMMAND_GET_TOPICS_OF_NAMESPACE_RESPONSE,
        34 => &COMMAND_GET_SCHEMA,
        35 => &COMMAND_GET_SCHEMA_RESPONSE,
        38 => &COMMAND_ACK_RESPONSE,
        39 => &COMMAND_GET_OR_CREATE_SCHEMA,
        40 => &COMMAND_GET_OR_CREATE_SCHEMA_RESPONSE,
        64 => &COMMAND_WATCH_TOPIC_LIST,
        65 => &COMMAND_WATCH_TOPIC_LIST_SUCCESS,
        66 => &COMMAND_WATCH_TOPIC_UPDATE,
        67 => &COMMAND_WATCH_TOPIC_LIST_CLOSE,
        68 => &COMMAND_TOPIC_MIGRATED,
        _ => return None,
    })
}

static COMMAND_CONNECT: Shape = Shape::new("CommandConnect", &[(1, "client_version")]);
static COMMAND_CONNECTED: Shape = Shape::new("CommandConnected", &[(1, "server_version")]);
static COMMAND_ERROR: Shape = Shape::new("CommandError", &[(1, "request_id"), (2, "error"), (3, "message")]);
static COMMAND_SUCCESS: Shape = Shape::new("CommandSuccess", &[(1, "request_id")]).nested(&[(2, &SCHEMA)]);
static COMMAND_PARTITIONED_TOPIC_METADATA: Shape =
    Shape::new("CommandPartitionedTopicMetadata", &[(1, "topic"), (2, "request_id")]);
static COMMAND_PARTITIONED_TOPIC_METADATA_RESPONSE: Shape =
    Shape::new("CommandPartitionedTopicMetadataResponse", &[(2, "request_id")]);
static COMMAND_LOOKUP_TOPIC: Shape =
    Shape::new("CommandLookupTopic", &[(1, "topic"), (2, "request_id")]).nested(&[(8, &KEY_VALUE)]);
static COMMAND_LOOKUP_TOPIC_RESPONSE: Shape = Shape::new("CommandLookupTopicResponse", &[(4, "request_id")]);
static COMMAND_GET_TOPICS_OF_NAMESPACE: Shape =
    Shape::new("CommandGetTopicsOfNamespace", &[(1, "request_id"), (2, "namespace")])
        .nested(&[(6, &KEY_VALUE)]);
static COMMAND_GET_TOPICS_OF_NAMESPACE_RESPONSE: Shape =
    Shape::new("CommandGetTopicsOfNamespaceResponse", &[(1, "request_id")]);
static COMMAND_WATCH_TOPIC_LIST: Shape = Shape::new(
    "CommandWatchTopicList",
    &[(1, "request_id"), (2, "watcher_id"), (3, "namespace"), (4, "topics_pattern")],
);
static COMMAND_WATCH_TOPIC_LIST_SUCCESS: Shape =
    Shape::new("CommandWatchTopicListSuccess", &[(1, "request_id"), (2, "watcher_id"), (4, "topics_hash")]);
static COMMAND_WATCH_TOPIC_UPDATE: Shape =
    Shape::new("CommandWatchTopicUpdate", &[(1, "watcher_id"), (4, "topics_hash")]);
static COMMAND_WATCH_TOPIC_LIST_CLOSE: Shape =
    Shape::new("CommandWatchTopicListClose", &[(1, "request_id"), (2, "watcher_id")]);
static COMMAND_TOPIC_MIGRATED: Shape =
    Shape::new("CommandTopicMigrated", &[(1, "resource_id"), (2, "resource_type")]).enums(&[(2, 1)]);
static COMMAND_PRODUCER: Shape =
    Shape::new("CommandProducer", &[(1, "topic"), (2, "producer_id"), (3, "request_id")])
        .nested(&[(6, &KEY_VALUE), (7, &SCHEMA)]);
static COMMAND_PRODUCER_SUCCESS: Shape =
    Shape::new("CommandProducerSuccess", &[(1, "request_id"), (2, "producer_name")]);
static COMMAND_SEND: Shape =
    Shape::new("CommandSend", &[(1, "producer_id"), (2, "sequence_id")]).nested(&[(9, &MESSAGE_ID_DATA)]);
static COMMAND_SEND_RECEIPT: Shape =
    Shape::new("CommandSendReceipt", &[(1, "producer_id"), (2, "sequence_id")])
        .nested(&[(3, &MESSAGE_ID_DATA)]);
static COMMAND_SEND_ERROR: Shape =
    Shape::new("CommandSendError", &[(1, "producer_id"), (2, "sequence_id"), (3, "error"), (4, "message")]);
static COMMAND_CLOSE_PRODUCER: Shape =
    Shape::new("CommandCloseProducer", &[(1, "producer_id"), (2, "request_id")]);
static COMMAND_SUBSCRIBE: Shape = Shape::new(
    "CommandSubscribe",
    &[(1, "topic"), (2, "subscription"), (3, "subType"), (4, "consumer_id"), (5, "request_id")],
)
.nested(&[(9, &MESSAGE_ID_DATA), (10, &KEY_VALUE), (12, &SCHEMA), (17, &KEY_SHARED_META), (18, &KEY_VALUE)])
.enums(&[(3, 3)]);
static KEY_SHARED_META: Shape =
    Shape::new("KeySharedMeta", &[(1, "keySharedMode")]).nested(&[(3, &INT_RANGE)]).enums(&[(1, 1)]);
static INT_RANGE: Shape = Shape::new("IntRange", &[(1, "start"), (2, "end")]);
static COMMAND_FLOW: Shape = Shape::new("CommandFlow", &[(1, "consumer_id"), (2, "messagePermits")]);
static COMMAND_MESSAGE: Shape =
    Shape::new("CommandMessage", &[(1, "consumer_id"), (2, "message_id")]).nested(&[(2, &MESSAGE_ID_DATA)]);
static COMMAND_ACK: Shape = Shape::new("CommandAck", &[(1, "consumer_id"), (2, "ack_type")])
    .nested(&[(3, &MESSAGE_ID_DATA), (5, &KEY_LONG_VALUE)])
    .enums(&[(2, 1)]);
static COMMAND_ACK_RESPONSE: Shape = Shape::new("CommandAckResponse", &[(1, "consumer_id")]);
static COMMAND_REDELIVER_UNACKNOWLEDGED_MESSAGES: Shape =
    Shape::new("CommandRedeliverUnacknowledgedMessages", &[(1, "consumer_id")])
        .nested(&[(2, &MESSAGE_ID_DATA)]);
static COMMAND_UNSUBSCRIBE: Shape =
    Shape::new("CommandUnsubscribe", &[(1, "consumer_id"), (2, "request_id")]);
static COMMAND_SEEK: Shape =
    Shape::new("CommandSeek", &[(1, "consumer_id"), (2, "request_id")]).nested(&[(3, &MESSAGE_ID_DATA)]);
static COMMAND_CLOSE_CONSUMER: Shape =
    Shape::new("CommandCloseConsumer", &[(1, "consumer_id"), (2, "request_id")]);
static COMMAND_GET_LAST_MESSAGE_ID: Shape =
    Shape::new("CommandGetLastMessageId", &[(1, "consumer_id"), (2, "request_id")]);
static COMMAND_GET_LAST_MESSAGE_ID_RESPONSE: Shape =
    Shape::new("CommandGetLastMessageIdResponse", &[(1, "last_message_id"), (2, "request_id")])
        .nested(&[(1, &MESSAGE_ID_DATA), (3, &MESSAGE_ID_DATA)]);
static COMMAND_ACTIVE_CONSUMER_CHANGE: Shape =
    Shape::new("CommandActiveConsumerChange", &[(1, "consumer_id")]);
static COMMAND_REACHED_END_OF_TOPIC: Shape = Shape::new("CommandReachedEndOfTopic", &[(1, "consumer_id")]);
static COMMAND_CONSUMER_STATS: Shape =
    Shape::new("CommandConsumerStats", &[(1, "request_id"), (4, "consumer_id")]);
static COMMAND_CONSUMER_STATS_RESPONSE: Shape =
    Shape::new("CommandConsumerStatsResponse", &[(1, "request_id")]);
static SCHEMA: Shape =
    Shape::new("Schema", &[(1, "name"), (3, "schema_data"), (4, "type")]).nested(&[(5, &KEY_VALUE)]);
static COMMAND_GET_SCHEMA: Shape = Shape::new("CommandGetSchema", &[(1, "request_id"), (2, "topic")]);
static COMMAND_GET_SCHEMA_RESPONSE: Shape =
    Shape::new("CommandGetSchemaResponse", &[(1, "request_id")]).nested(&[(4, &SCHEMA)]);
static COMMAND_GET_OR_CREATE_SCHEMA: Shape =
    Shape::new("CommandGetOrCreateSchema", &[(1, "request_id"), (2, "topic"), (3, "schema")])
        .nested(&[(3, &SCHEMA)]);
static COMMAND_GET_OR_CREATE_SCHEMA_RESPONSE: Shape =
    Shape::new("CommandGetOrCreateSchemaResponse", &[(1, "request_id")]);
static MESSAGE_ID_DATA: Shape =
    Shape::new("MessageIdData", &[(1, "ledgerId"), (2, "entryId")]).nested(&[(7, &MESSAGE_ID_DATA)]);
pub(crate) static MESSAGE_METADATA: Shape =
    Shape::new("MessageMetadata", &[(1, "producer_name"), (2, "sequence_id"), (3, "publish_time")])
        .nested(&[(4, &KEY_VALUE), (13, &ENCRYPTION_KEYS)]);
static ENCRYPTION_KEYS: Shape =
    Shape::new("EncryptionKeys", &[(1, "key"), (2, "value")]).nested(&[(3, &KEY_VALUE)]);
static KEY_VALUE: Shape = Shape::new("KeyValue", &[(1, "key"), (2, "value")]);
static KEY_LONG_VALUE: Shape = Shape::new("KeyLongValue", &[(1, "key"), (2, "value")]);
