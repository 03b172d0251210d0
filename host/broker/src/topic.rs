//! A topic: its producers, its entries, its subscriptions.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_filter::TopicName;

use crate::error::BrokerError;
use crate::producer::Producer;
use crate::stats::TopicStats;
use crate::subscription::{Consumer, ConsumerOptions, Deliveries, Start};

/// One topic, or one partition of a partitioned one, that can be written to and read from.
pub struct Topic {}

impl Topic {
    /// Its full name, partition and all.
    pub fn name(&self) -> &TopicName {
        todo!()
    }

    /// Adds a producer. Without a name it gets one that no producer of this store ever had.
    ///
    /// # Errors
    /// [`BrokerError::ProducerBusy`] when one of that name is connected; when there are too many; when
    /// the topic is being deleted.
    pub fn add_producer(
        self: &Arc<Self>,
        name: Option<String>,
        metadata: BTreeMap<String, String>,
    ) -> Result<Producer, BrokerError> {
        let _ = (name, metadata);
        todo!()
    }

    /// Adds a consumer to a subscription, making the subscription if it is not there. The cursor of a new
    /// one is durable when this returns. Nothing is delivered before [`Consumer::flow`].
    ///
    /// # Errors
    /// [`BrokerError::ConsumerBusy`] when it is taken or of another type;
    /// [`BrokerError::SubscriptionNotFound`] when it is not there and `create` is false.
    pub async fn subscribe(
        self: &Arc<Self>,
        options: ConsumerOptions,
    ) -> Result<(Consumer, Deliveries), BrokerError> {
        let _ = options;
        todo!()
    }

    /// Makes a durable subscription without a consumer.
    ///
    /// # Errors
    /// When it exists.
    pub async fn create_subscription(self: &Arc<Self>, name: &str, start: Start) -> Result<(), BrokerError> {
        let _ = (name, start);
        todo!()
    }

    /// Deletes a subscription and its cursor. With `force`, its consumers are closed first.
    ///
    /// # Errors
    /// When there is none, or it has consumers.
    pub async fn delete_subscription(&self, name: &str, force: bool) -> Result<(), BrokerError> {
        let _ = (name, force);
        todo!()
    }

    /// Names of its subscriptions, sorted.
    pub fn subscriptions(&self) -> Vec<String> {
        todo!()
    }

    /// What it tells of itself. Counts the backlog in the store.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn stats(&self) -> Result<TopicStats, BrokerError> {
        todo!()
    }
}
