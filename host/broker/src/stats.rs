//! What a topic tells of itself. Plain data under Pulsar's names: a caller makes JSON of it.
//!
//! Source of the names: Pulsar's `TopicStats`, `SubscriptionStats`, `ConsumerStats`, `PublisherStats`.
//! Only members that this broker really knows are here; clients take missing ones for 0. Counters begin
//! at 0 when the topic is loaded, as Pulsar's do.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::Serialize;

/// A topic, or one partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicStats {
    /// Messages published.
    pub msg_in_counter: u64,
    /// Their bytes, as stored.
    pub bytes_in_counter: u64,
    /// Messages sent to consumers, of all subscriptions.
    pub msg_out_counter: u64,
    /// Their bytes.
    pub bytes_out_counter: u64,
    /// Bytes of a published message, on average.
    pub average_msg_size: f64,
    /// Bytes of all entries that are kept.
    pub storage_size: u64,
    /// The backlog of the slowest subscription, in bytes of its unread entries.
    pub backlog_size: u64,
    /// Connected producers.
    pub publishers: Vec<PublisherStats>,
    /// Subscriptions by name.
    pub subscriptions: BTreeMap<String, SubscriptionStats>,
}

/// A connected producer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PublisherStats {
    /// Unique in this broker.
    pub producer_id: u64,
    /// Its name.
    pub producer_name: String,
    /// Always `Shared`.
    pub access_mode: &'static str,
    /// Messages published by it.
    pub msg_in_counter: u64,
    /// Their bytes.
    pub bytes_in_counter: u64,
    /// Bytes of a message, on average.
    pub average_msg_size: f64,
    /// Seconds since 1970 at which it came.
    pub connected_since: u64,
    /// What the client says of itself.
    pub metadata: BTreeMap<String, String>,
}

/// A subscription.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionStats {
    /// Messages that are not acknowledged: unread ones and those out at consumers or waiting. (Pulsar
    /// counts entries here; a batch counts with its messages.)
    pub msg_backlog: u64,
    /// Entries that are not acknowledged.
    pub backlog_entries: u64,
    /// Bytes of the unread ones.
    pub backlog_size: u64,
    /// Messages out at consumers.
    pub unacked_messages: u64,
    /// Entries waiting to be delivered once more.
    pub msg_in_replay: u64,
    /// `Exclusive` or `Shared`; empty while no consumer has come since the topic was loaded.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Whether it outlives its consumers.
    #[serde(rename = "isDurable")]
    pub durable: bool,
    /// The cursor's mark-delete position as `ledger:entry`; `-1:-1` before the first entry.
    pub mark_delete_position: String,
    /// The position of the last entry that was read, in the same form.
    pub read_position: String,
    /// Runs of acknowledged entries beyond the mark-delete position.
    pub non_contiguous_deleted_messages_ranges: u64,
    /// Connected consumers.
    pub consumers: Vec<ConsumerStats>,
    /// Messages sent.
    pub msg_out_counter: u64,
    /// Their bytes.
    pub bytes_out_counter: u64,
    /// Entries sent more than once.
    pub redelivered_counter: u64,
    /// What the filters made of the messages.
    #[serde(flatten)]
    pub filter: FilterStats,
    /// Why delivery waits at the cursor, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<PausedStats>,
}

/// What the chain between a topic and a subscription has said since the topic was loaded. `processed` counts
/// judgements: it is the sum of what was accepted, rejected, rescheduled, delivered or discarded after a
/// failure, and of the attempts that ended withheld; so rescheduled and withheld messages count in it more
/// than once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FilterStats {
    /// Messages judged.
    #[serde(rename = "filterProcessedMsgCount")]
    pub processed: u64,
    /// All filters said yes.
    #[serde(rename = "filterAcceptedMsgCount")]
    pub accepted: u64,
    /// A filter said no.
    #[serde(rename = "filterRejectedMsgCount")]
    pub rejected: u64,
    /// A filter wants to be asked again.
    #[serde(rename = "filterRescheduledMsgCount")]
    pub rescheduled: u64,
    /// A filter broke, and the message was delivered.
    #[serde(rename = "filterBrokeDeliveredMsgCount")]
    pub broke_delivered: u64,
    /// Messages that were withheld, each once however often it was tried again: a filter broke on them, or
    /// they could not be read.
    #[serde(rename = "filterBrokeWithheldMsgCount")]
    pub broke_withheld: u64,
    /// Judgements that ended so, the first of each message and those after it.
    #[serde(rename = "filterWithheldAttemptCount")]
    pub withheld_attempts: u64,
    /// A filter broke, and the message was acknowledged.
    #[serde(rename = "filterBrokeDiscardedMsgCount")]
    pub broke_discarded: u64,
    /// Messages that wait at this moment because a filter broke on them.
    #[serde(rename = "withheldMsgNow")]
    pub withheld_now: u64,
    /// Messages that wait at this moment because a filter rescheduled them.
    #[serde(rename = "rescheduledMsgNow")]
    pub rescheduled_now: u64,
    /// How a filter broke last, in its own words if it gave any; at most 1024 bytes.
    #[serde(rename = "filterLastFailure", skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
}

impl FilterStats {
    /// Whether nothing has been judged.
    pub fn is_empty(&self) -> bool {
        self.processed == 0
    }
}

/// Why a subscription waits at its cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PausedStats {
    /// A sentence that names the class.
    pub reason: String,
    /// Since when.
    pub since: SystemTime,
}

/// A connected consumer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerStats {
    /// Its name.
    pub consumer_name: String,
    /// Messages that it may still be sent; negative after a batch larger than what was left.
    pub available_permits: i64,
    /// Messages out at it.
    pub unacked_messages: u64,
    /// Messages sent to it.
    pub msg_out_counter: u64,
    /// Their bytes.
    pub bytes_out_counter: u64,
    /// Seconds since 1970 at which it came.
    pub connected_since: u64,
    /// What the client says of itself.
    pub metadata: BTreeMap<String, String>,
}
