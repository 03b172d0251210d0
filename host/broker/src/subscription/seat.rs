//! A consumer as its subscription sees it: permits, a bounded queue, and what is out at it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use weir_store::Position;

use super::Delivery;
use crate::budget::Share;
use crate::stats::ConsumerStats;

/// Deliveries that wait for a consumer's connection: a client may give any number of permits and then not
/// read, so permits alone bound nothing.
const MAX_QUEUED_ENTRIES: usize = 256;

/// Bytes that wait for a consumer's connection, after the first delivery.
const MAX_QUEUED_BYTES: usize = 4 * 1024 * 1024;

/// With so many messages out at one consumer of a shared subscription, it gets no more. Pulsar:
/// `maxUnackedMessagesPerConsumer`.
const MAX_UNACKED_MESSAGES: u64 = 50_000;

pub(crate) struct Seat {
    pub name: String,
    pub metadata: BTreeMap<String, String>,
    pub since: SystemTime,
    /// Its connection's.
    pub share: Share,
    /// Messages that it may still be sent. Negative after a batch larger than what was left.
    pub permits: i64,
    pub queue: VecDeque<Delivery>,
    queued_bytes: usize,
    /// Entries in the queue or sent, and not acknowledged.
    pub out: BTreeSet<Position>,
    /// Messages in them that are not acknowledged.
    pub unacked: u64,
    sent_messages: u64,
    sent_bytes: u64,
    /// Told of each delivery, and of the end.
    pub wake: Arc<Notify>,
}

impl Seat {
    pub(crate) fn new(
        name: String,
        metadata: BTreeMap<String, String>,
        share: Share,
        wake: Arc<Notify>,
    ) -> Self {
        Self {
            name,
            metadata,
            since: SystemTime::now(),
            share,
            permits: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            out: BTreeSet::new(),
            unacked: 0,
            sent_messages: 0,
            sent_bytes: 0,
            wake,
        }
    }

    pub(crate) fn can_take(&self, shared: bool) -> bool {
        self.permits > 0
            && self.queue.len() < MAX_QUEUED_ENTRIES
            && self.queued_bytes < MAX_QUEUED_BYTES
            && !(shared && self.unacked >= MAX_UNACKED_MESSAGES)
    }

    /// How many entries it can take now, at most.
    pub(crate) fn entries_wanted(&self) -> u64 {
        let free = MAX_QUEUED_ENTRIES.saturating_sub(self.queue.len());
        u64::try_from(self.permits).unwrap_or(0).min(free as u64)
    }

    pub(crate) fn push(&mut self, delivery: Delivery) {
        self.permits -= i64::from(delivery.messages);
        self.queued_bytes += delivery.entry.len();
        self.out.insert(delivery.position);
        self.queue.push_back(delivery);
        self.wake.notify_one();
    }

    pub(crate) fn pop(&mut self) -> Option<Delivery> {
        let delivery = self.queue.pop_front()?;
        self.queued_bytes -= delivery.entry.len();
        self.sent_messages += u64::from(delivery.messages);
        self.sent_bytes += delivery.entry.len() as u64;
        Some(delivery)
    }

    /// An entry is out at this consumer no more: `left` of its messages were not acknowledged. One that
    /// was only queued gives its permits back.
    pub(crate) fn release(&mut self, position: Position, left: u64, queued: bool) {
        self.out.remove(&position);
        self.unacked = self.unacked.saturating_sub(left);
        if queued && let Some(at) = self.queue.iter().position(|delivery| delivery.position == position) {
            let delivery = self.queue.remove(at).expect("it was just found");
            self.queued_bytes -= delivery.entry.len();
            self.permits += i64::from(delivery.messages);
        }
    }

    pub(crate) fn stats(&self) -> ConsumerStats {
        ConsumerStats {
            consumer_name: self.name.clone(),
            available_permits: self.permits,
            unacked_messages: self.unacked,
            msg_out_counter: self.sent_messages,
            bytes_out_counter: self.sent_bytes,
            connected_since: seconds(self.since),
            metadata: self.metadata.clone(),
        }
    }
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    // A clock before 1970 is shown as 1970.
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
