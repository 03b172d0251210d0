//! A producer: a name on a topic, and what goes in by it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use weir_store::{Position, Series};

use crate::error::BrokerError;
use crate::stats::PublisherStats;
use crate::subscription::seconds;
use crate::topic::Topic;

/// Where an entry went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its position.
    pub position: Position,
}

/// A connected producer. Dropping it gives its name free.
pub struct Producer {
    topic: Arc<Topic>,
    badge: Arc<Badge>,
    series: Series,
}

/// What a topic knows of a producer.
pub(crate) struct Badge {
    pub(crate) id: u64,
    pub(crate) name: String,
    metadata: BTreeMap<String, String>,
    since: SystemTime,
    messages: AtomicU64,
    bytes: AtomicU64,
    /// The broker has closed it.
    pub(crate) closed: CancellationToken,
}

impl Badge {
    pub(crate) fn new(id: u64, name: String, metadata: BTreeMap<String, String>) -> Self {
        Self {
            id,
            name,
            metadata,
            since: SystemTime::now(),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            closed: CancellationToken::new(),
        }
    }

    pub(crate) fn stats(&self) -> PublisherStats {
        let messages = self.messages.load(Ordering::Relaxed);
        let bytes = self.bytes.load(Ordering::Relaxed);
        PublisherStats {
            producer_id: self.id,
            producer_name: self.name.clone(),
            access_mode: "Shared",
            msg_in_counter: messages,
            bytes_in_counter: bytes,
            average_msg_size: average(bytes, messages),
            connected_since: seconds(self.since),
            metadata: self.metadata.clone(),
        }
    }
}

/// Bytes of a message, on average; 0 of none.
#[expect(clippy::cast_precision_loss, reason = "a statistic; exact up to 2^52 bytes")]
pub(crate) fn average(bytes: u64, messages: u64) -> f64 {
    if messages == 0 { 0.0 } else { bytes as f64 / messages as f64 }
}

impl Producer {
    pub(crate) fn new(topic: Arc<Topic>, badge: Arc<Badge>) -> Self {
        Self { topic, badge, series: Series::default() }
    }

    /// Its name: the one it came with, or one made for it.
    pub fn name(&self) -> &str {
        &self.badge.name
    }

    /// Appends an entry of `messages` messages, byte for byte. It is queued when this is called, and the
    /// future resolves once it is durable: calls made one after another are stored, and resolve, in that
    /// order. Dropping the future takes nothing back.
    ///
    /// The caller bounds how many it has under way; the store refuses what is too much
    /// ([`StoreError::Busy`](weir_store::StoreError::Busy)).
    ///
    /// # Errors
    /// When it is too large, has no message, the producer has been closed, or the store cannot write. After
    /// the store could not, nothing more of this producer is stored: its client sends again by a new one.
    pub fn publish(
        &self,
        entry: Bytes,
        messages: u32,
    ) -> impl Future<Output = Result<Published, BrokerError>> + Send + use<> {
        let size = entry.len();
        let queued = self.append(entry, messages);
        let badge = Arc::clone(&self.badge);
        async move {
            let told = queued?.await.map_err(|_dropped| BrokerError::lost("an append"))?;
            let position = told?;
            badge.messages.fetch_add(u64::from(messages), Ordering::Relaxed);
            badge.bytes.fetch_add(size as u64, Ordering::Relaxed);
            Ok(Published { position })
        }
    }

    fn append(
        &self,
        entry: Bytes,
        messages: u32,
    ) -> Result<oneshot::Receiver<Result<Position, weir_store::StoreError>>, BrokerError> {
        let core = self.topic.core();
        let max = core.engine.options.max_message_size;
        if entry.len() > max {
            return Err(BrokerError::TooLarge { size: entry.len(), max });
        }
        if messages == 0 {
            return Err(BrokerError::Invalid("an entry holds at least one message".to_owned()));
        }
        if self.badge.closed.is_cancelled() {
            return Err(BrokerError::Closing(format!("producer {} has been closed", self.badge.name)));
        }
        Ok(core.append(&self.series, entry, messages))
    }

    /// Whether the store could not write what it sent: it can send nothing more.
    pub fn has_failed(&self) -> bool {
        self.series.has_ended()
    }

    /// Resolves when the broker has closed the producer (topic deleted by force, drain): its client has
    /// to be told. Cancel-safe.
    pub async fn closed(&self) {
        self.badge.closed.cancelled().await;
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.topic.remove_producer(&self.badge);
    }
}
