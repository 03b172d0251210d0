//! PRODUCER and CLOSE_PRODUCER.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use weir_broker::{BrokerError, Producer, StoreError, TopicName};
use weir_wire::pulsar::command::{
    CommandCloseProducer, CommandProducer, CommandProducerSuccess, ProducerAccessMode,
};
use weir_wire::pulsar::{NO_REQUEST, ServerError};

use super::connection::{Connection, Ended};
use super::errors::Refused;
use super::frames;
use super::outbox::Outbox;

/// A producer of this connection.
pub(super) struct Producing {
    pub(super) producer: Arc<Producer>,
    /// Waits for the broker to close the producer, and tells the client.
    watch: JoinHandle<()>,
}

impl Producing {
    fn new(producer: Producer, producer_id: u64, outbox: Outbox) -> Self {
        let producer = Arc::new(producer);
        let watched = Arc::clone(&producer);
        let watch = tokio::spawn(async move {
            watched.closed().await;
            let closed = CommandCloseProducer {
                producer_id,
                request_id: NO_REQUEST,
                ..CommandCloseProducer::default()
            };
            let _gone = outbox.send(frames::simple(closed)).await;
        });
        Self { producer, watch }
    }

    /// Whether the broker has closed it, so that nothing can be sent by it any more.
    pub(super) fn is_closed(&self) -> bool {
        self.watch.is_finished()
    }

    /// Whether what is sent by it can be stored.
    fn can_send(&self) -> bool {
        !self.is_closed() && !self.producer.has_failed()
    }

    /// Gives it back to the broker: its name is free when this returns.
    pub(super) async fn close(self) {
        self.watch.abort();
        // The task holds the producer until it has ended; aborted is what it should be.
        let _aborted = self.watch.await;
    }
}

impl Connection<'_> {
    pub(super) async fn add_producer(&mut self, request: CommandProducer) -> Result<(), Ended> {
        let (id, request_id) = (request.producer_id, request.request_id);
        if let Some(known) = self.producers.get(&id).filter(|known| known.can_send()) {
            let name = known.producer.name().to_owned();
            return self.welcome_producer(request_id, name).await;
        }
        if let Some(of_no_use) = self.producers.remove(&id) {
            of_no_use.close().await;
        }
        match self.new_producer(request).await {
            Ok(producer) => {
                let name = producer.name().to_owned();
                self.producers.insert(id, Producing::new(producer, id, self.outbox.clone()));
                self.welcome_producer(request_id, name).await
            }
            Err(refused) => self.refuse(request_id, refused).await,
        }
    }

    async fn new_producer(&self, request: CommandProducer) -> Result<Producer, Refused> {
        if request.producer_access_mode() != ProducerAccessMode::Shared {
            let text = "exclusive producers are not served yet; use the access mode Shared";
            return Err(Refused::new(ServerError::NotAllowedError, text));
        }
        if request.txn_enabled() {
            return Err(Refused::new(ServerError::NotAllowedError, "transactions are not served"));
        }
        if !self.has_room() {
            return Err(too_many(self.service.limits.handles_per_connection));
        }
        // Its first SEND would fail, and cost the client its connection: better to come later.
        if let Some(paused) = self.service.broker.paused() {
            return Err(BrokerError::Storage(StoreError::Paused(paused)).into());
        }
        let topic = TopicName::new(&request.topic)?;
        let topic = self.service.broker.topic(&topic, true).await?;
        if let Some(subscription) = request.initial_subscription_name.filter(|name| !name.is_empty())
            && !topic.subscriptions().contains(&subscription)
        {
            match topic.create_subscription(&subscription, weir_broker::Start::Latest).await {
                // Another producer with the same wish was quicker.
                Ok(()) | Err(BrokerError::AlreadyExists(_)) => {}
                Err(other) => return Err(other.into()),
            }
        }
        let name = request.producer_name.filter(|name| !name.is_empty());
        Ok(topic.add_producer(name, frames::properties(request.metadata))?)
    }

    async fn welcome_producer(&self, request_id: u64, producer_name: String) -> Result<(), Ended> {
        let success = CommandProducerSuccess {
            request_id,
            producer_name,
            last_sequence_id: Some(-1),
            // Schemas are not kept: no version, so that consumers use the schema they bring.
            schema_version: Some(Bytes::new()),
            topic_epoch: None,
            producer_ready: Some(true),
        };
        Ok(self.answers.answer(frames::simple(success)).await?)
    }

    /// Answers once everything sent by the producer before has its receipt. A producer that is not there
    /// was closed already.
    pub(super) async fn close_producer(&mut self, request: CommandCloseProducer) -> Result<(), Ended> {
        if let Some(producing) = self.producers.remove(&request.producer_id) {
            producing.close().await;
            self.remember_closed(request.producer_id);
        }
        let (sent, is_sent) = oneshot::channel();
        self.receipts
            .push(async move {
                let _nobody_waits = sent.send(());
                None
            })
            .await?;
        let success = frames::success(request.request_id);
        let answer = async move {
            // Dropped unsent only with the connection.
            let _sent_or_gone = is_sent.await;
            Some(success)
        };
        Ok(self.answers.push(answer).await?)
    }
}

/// A connection has as many producers and consumers as it may.
pub(super) fn too_many(limit: usize) -> Refused {
    let text =
        format!("a connection has at most {limit} producers and consumers (limits.handles-per-connection)");
    Refused::new(ServerError::TooManyRequests, text)
}
