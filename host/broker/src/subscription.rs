//! A subscription: its cursor, its consumers, and how entries get from one to the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use weir_store::Position;

use crate::error::BrokerError;

/// How consumers share a subscription. (Failover and key-shared ones are not served yet.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionType {
    /// One consumer; others are refused.
    Exclusive,
    /// Entries go to the consumers in turn.
    Shared,
}

/// Where a new subscription begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With what is published from now on.
    Latest,
    /// With the first entry there is.
    Earliest,
    /// With this entry, or the next one there is.
    At(Position),
    /// With what follows this entry.
    After(Position),
}

/// Where a subscription is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// Behind the last entry.
    Latest,
    /// To the first entry.
    Earliest,
    /// To this entry: it is the next to be delivered.
    Position(Position),
    /// To the first entry published at or after this time, in milliseconds since 1970. Reads the topic
    /// from its first entry on: a hundred times the entries take a hundred times as long.
    PublishTime(u64),
}

/// How a consumer subscribes.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// The subscription's name: not empty, at most [`MAX_SUBSCRIPTION_NAME_BYTES`].
    pub subscription: String,
    /// How it is shared.
    pub kind: SubscriptionType,
    /// Where it begins if it is new.
    pub start: Start,
    /// Whether the subscription outlives its consumers, and the process.
    pub durable: bool,
    /// Whether the subscription may be made if it is not there.
    pub create: bool,
    /// The consumer's name, for statistics.
    pub consumer_name: String,
    /// What the client says of itself.
    pub metadata: BTreeMap<String, String>,
}

/// An entry on its way to a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Where it lies; what the client acknowledges.
    pub position: Position,
    /// How often its consumer asked for it to be delivered again.
    pub redelivery_count: u32,
    /// The producer's bytes; or, if part of its batch is rejected, waiting or acknowledged, the batch
    /// rewritten to the other messages. Nothing has to be hidden from the client beside this (no `ack_set`).
    pub entry: Bytes,
    /// How many messages are in `entry`: what it costs in permits.
    pub messages: u32,
}

/// Which acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// These positions.
    Individual,
    /// Everything that was delivered up to the position. On a shared subscription it does nothing, as
    /// Pulsar's.
    Cumulative,
}

/// One acknowledged position, as the client sees the entry (indexes count in what it was delivered).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Which entry.
    pub position: Position,
    /// The batch indexes that are still to be acknowledged; `None`: the whole entry is.
    pub unacked: Option<Vec<u32>>,
    /// How many messages the client says the batch has, if it says so: an acknowledgement of indexes
    /// that belongs to an earlier delivery of another shape is left aside then.
    pub batch_size: Option<u32>,
}

/// The longest name of a subscription.
pub const MAX_SUBSCRIPTION_NAME_BYTES: usize = 4096;

/// A consumer: what its client asks of the subscription. Dropping it closes the consumer: what it had not
/// acknowledged is delivered to others, or to the next.
pub struct Consumer {
    pub(crate) todo: Arc<()>,
}

/// The other half of a [`Consumer`]: the entries for it.
pub struct Deliveries {
    pub(crate) todo: Arc<()>,
}

impl Deliveries {
    /// The next delivery; `None` once the consumer is closed: dropped, or by the broker (topic or
    /// subscription deleted, seek, drain), when the client has to be told. Cancel-safe.
    pub async fn next(&mut self) -> Option<Delivery> {
        let _ = &self.todo;
        todo!()
    }
}

impl Consumer {
    /// Its name.
    pub fn name(&self) -> &str {
        let _ = &self.todo;
        todo!()
    }

    /// Lets the broker send this many more messages.
    pub fn flow(&self, permits: u32) {
        let _ = permits;
        todo!()
    }

    /// Acknowledges; done in memory when this is called, and the future resolves once the cursor would
    /// survive the end of the process. Unknown positions and indexes are ignored.
    ///
    /// # Errors
    /// When the store cannot write.
    pub fn acknowledge(
        &self,
        kind: AckKind,
        acks: &[Ack],
    ) -> impl Future<Output = Result<(), BrokerError>> + Send + use<> {
        let _ = (kind, acks);
        async { todo!() }
    }

    /// Asks for these entries again, or for all that are not acknowledged. On an exclusive subscription
    /// it is always all, so that their order is kept.
    pub fn redeliver(&self, positions: Option<&[Position]>) {
        let _ = positions;
        todo!()
    }

    /// Moves the cursor. All consumers of the subscription are closed first: their clients come again.
    ///
    /// # Errors
    /// When the store cannot read or write.
    pub async fn seek(&self, to: SeekTo) -> Result<(), BrokerError> {
        let _ = to;
        todo!()
    }

    /// The topic's last entry with its position; `None` while there is none.
    ///
    /// # Errors
    /// When the store cannot read.
    pub async fn last_entry(&self) -> Result<Option<(Position, Bytes)>, BrokerError> {
        todo!()
    }

    /// Everything up to here is acknowledged or rejected; `None` before the first entry.
    pub fn mark_delete(&self) -> Option<Position> {
        todo!()
    }

    /// Deletes the subscription, and closes this consumer. With `force` the others are closed, too.
    ///
    /// # Errors
    /// When it has other consumers and `force` is false: [`BrokerError::InUse`].
    pub async fn unsubscribe(&self, force: bool) -> Result<(), BrokerError> {
        let _ = force;
        todo!()
    }
}
