//! A producer: a name on a topic, and what goes in by it.

use std::sync::Arc;

use bytes::Bytes;
use weir_store::Position;

use crate::error::BrokerError;

/// Where an entry went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its position.
    pub position: Position,
}

/// A connected producer. Dropping it gives its name free.
pub struct Producer {
    pub(crate) todo: Arc<()>,
}

impl Producer {
    /// Its name: the one it came with, or one made for it.
    pub fn name(&self) -> &str {
        let _ = &self.todo;
        todo!()
    }

    /// Appends an entry of `messages` messages, byte for byte. It is queued when this is called, and the
    /// future resolves once it is durable: calls made one after another are stored, and resolve, in that
    /// order.
    ///
    /// # Errors
    /// When it is too large, has no message, the producer has been closed, or the store cannot write.
    pub fn publish(
        &self,
        entry: Bytes,
        messages: u32,
    ) -> impl Future<Output = Result<Published, BrokerError>> + Send + use<> {
        let _ = (entry, messages);
        async { todo!() }
    }

    /// Resolves when the broker has closed the producer (topic deleted by force, drain): its client has
    /// to be told. Cancel-safe.
    pub async fn closed(&self) {
        todo!()
    }
}
