//! A topic: its producers, its entries, its subscriptions.

use std::sync::Arc;

use bytes::Bytes;
use weir_store::Position;

use crate::broker::BrokerError;
use crate::subscription::{Consumer, ConsumerOptions};

/// One topic, or one partition of a partitioned one, that can be written to and read from.
pub struct Topic {}

/// Where an entry went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its position.
    pub position: Position,
}

impl Topic {
    /// Appends an entry of `messages` messages. Resolves once it is durable; appends of one caller keep
    /// the order in which their futures were made.
    ///
    /// # Errors
    /// When it is too large, or the store cannot write.
    pub fn publish(
        &self,
        entry: Bytes,
        messages: u32,
    ) -> impl Future<Output = Result<Published, BrokerError>> + Send + use<> {
        let _ = (entry, messages);
        async { todo!() }
    }

    /// Adds a consumer to a subscription, making the subscription if it is not there.
    ///
    /// # Errors
    /// When the subscription is taken, of another type, or may not be made.
    pub async fn subscribe(self: &Arc<Self>, options: ConsumerOptions) -> Result<Consumer, BrokerError> {
        let _ = options;
        todo!()
    }
}
