//! A subscription: its cursor, its consumers, and how entries get from one to the others.

use std::collections::BTreeMap;

use bytes::Bytes;
use weir_store::Position;

use crate::broker::BrokerError;

/// How consumers share a subscription.
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
}

/// How a consumer subscribes.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// The subscription's name.
    pub subscription: String,
    /// How it is shared.
    pub kind: SubscriptionType,
    /// Where it begins if it is new.
    pub start: Start,
    /// Whether the subscription outlives its consumers.
    pub durable: bool,
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
    /// How often it was delivered before.
    pub redelivery_count: u32,
    /// The producer's bytes, or those of the accepted part of its batch.
    pub entry: Bytes,
    /// How many messages are in `entry`: what it costs in permits.
    pub messages: u32,
}

/// Which acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// These positions.
    Individual,
    /// Everything up to the position.
    Cumulative,
}

/// One acknowledged position, as the client sees the entry (indexes count in what it was delivered).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Which entry.
    pub position: Position,
    /// The batch indexes that are still to be acknowledged; `None`: the whole entry is.
    pub unacked: Option<Vec<u32>>,
}

/// A consumer's end of a subscription. Dropping it closes the consumer: what it had not acknowledged is
/// delivered to others, or to the next.
pub struct Consumer {}

impl Consumer {
    /// The next delivery; `None` once the consumer was closed by the broker (topic deleted, for one).
    pub async fn next(&mut self) -> Option<Delivery> {
        todo!()
    }

    /// Lets the broker send this many more messages.
    pub fn flow(&self, permits: u32) {
        let _ = permits;
        todo!()
    }

    /// Acknowledges. Returns once the cursor would survive the end of the process.
    ///
    /// # Errors
    /// When the store cannot write.
    pub async fn acknowledge(&self, kind: AckKind, acks: Vec<Ack>) -> Result<(), BrokerError> {
        let _ = (kind, acks);
        todo!()
    }

    /// Asks for these entries again, or for all that are not acknowledged.
    pub fn redeliver(&self, positions: Option<Vec<Position>>) {
        let _ = positions;
        todo!()
    }

    /// Deletes the subscription.
    ///
    /// # Errors
    /// When it has other consumers.
    pub async fn unsubscribe(self) -> Result<(), BrokerError> {
        todo!()
    }
}
