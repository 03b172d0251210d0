//! The task behind a topic's or partition's subscription.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;
use tracing::{info, warn};
use weir_wire::pulsar::Command;
use weir_wire::pulsar::codec::MAX_UNCOMPRESSED_SIZE;
use weir_wire::pulsar::command::{CommandCloseConsumer, CommandFlow, CommandSubscribe};
use weir_wire::pulsar::entry::{Entry, Message, verify_checksum};

use super::{Closed, ConsumerOptions};
use crate::client::{Client, pairs, partition_of};
use crate::connection::{Connection, Delivered};
use crate::error::Error;
use crate::message::{BatchAcks, MessageId, ReceivedMessage};

/// What is subscribed, and by whom.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) client: Client,
    pub(super) topic: Arc<str>,
    pub(super) subscription: String,
    pub(super) id: u64,
    /// Its number among the consumer's topics.
    pub(super) source: usize,
    pub(super) options: ConsumerOptions,
}

/// How a task learns that it is to end.
#[derive(Debug)]
pub(super) struct Ending {
    /// The order to close, given before the consumer stops to receive.
    pub(super) ordered: oneshot::Receiver<Closed>,
    /// The consumer is being closed: a subscription that ends is not taken up again.
    pub(super) closing: Arc<AtomicBool>,
}

#[derive(Debug)]
pub(super) struct Task {
    subject: Subject,
    messages: mpsc::Sender<Result<ReceivedMessage, Error>>,
    subscribed: watch::Sender<Option<Connection>>,
    connection: Connection,
    deliveries: mpsc::Receiver<Delivered>,
    ending: Ending,
    /// Permits that are to be given back.
    used: u32,
}

/// The first pause before another try to subscribe; it doubles up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(10);

impl Task {
    /// Subscribes, and lets the first messages come.
    ///
    /// # Errors
    /// When the server refuses.
    pub(super) async fn start(
        subject: Subject,
        messages: mpsc::Sender<Result<ReceivedMessage, Error>>,
        subscribed: watch::Sender<Option<Connection>>,
        ending: Ending,
    ) -> Result<Self, Error> {
        let (connection, deliveries) = subject.subscribe().await?;
        subscribed.send_replace(Some(connection.clone()));
        Ok(Self { subject, messages, subscribed, connection, deliveries, ending, used: 0 })
    }

    /// Works until the consumer is dropped or closed, or subscribing again is refused for good.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                () = self.messages.closed() => break,
                delivered = self.deliveries.recv() => match delivered {
                    Some(delivered) => if self.take(delivered).await.is_err() { break },
                    None if self.ending.closing.load(Ordering::Relaxed) => {
                        // What is there to close is closed when the order comes.
                        self.messages.closed().await;
                        break;
                    }
                    None => {
                        self.subscribed.send_replace(None);
                        if !self.subscribe_again().await {
                            return;
                        }
                    }
                },
            }
        }
        self.close().await;
    }

    /// Hands on the messages of an entry, and gives back their permits.
    async fn take(&mut self, delivered: Delivered) -> Result<(), Gone> {
        let (received, permits) = match self.subject.messages(&delivered) {
            Ok(read) => read,
            Err(error) => (vec![Err(error)], 1),
        };
        for message in received {
            self.messages.send(message).await.map_err(|_consumer_was_dropped| Gone)?;
        }
        self.used += permits;
        if self.used > self.subject.options.queue / 2 {
            self.connection.send(&flow(self.subject.id, self.used));
            self.used = 0;
        }
        Ok(())
    }

    /// Subscribes until it succeeds. False: there is no use in it.
    async fn subscribe_again(&mut self) -> bool {
        let mut pause = FIRST_PAUSE;
        loop {
            if self.messages.is_closed() {
                return false;
            }
            match self.subject.subscribe().await {
                Ok((connection, deliveries)) => {
                    self.subscribed.send_replace(Some(connection.clone()));
                    (self.connection, self.deliveries, self.used) = (connection, deliveries, 0);
                    return true;
                }
                Err(error) if error.is_permanent() => {
                    warn!(topic = %self.subject.topic, %error, "consumer ended");
                    // If the consumer was dropped, nobody wants to know.
                    drop(self.messages.send(Err(error)).await);
                    return false;
                }
                Err(error) => {
                    info!(topic = %self.subject.topic, %error, ?pause, "consumer not connected; trying again");
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = self.messages.closed() => return false,
                    }
                    pause = LAST_PAUSE.min(pause * 2);
                }
            }
        }
    }

    /// Closes the consumer on the server: with an answer if it was ordered; else, dropped, without one.
    async fn close(mut self) {
        self.connection.remove_consumer(self.subject.id);
        let close = |request_id| CommandCloseConsumer {
            consumer_id: self.subject.id,
            request_id,
            ..Default::default()
        };
        match self.ending.ordered.try_recv() {
            Ok(closed) => {
                let outcome = self.connection.request(close).await;
                // With its connection the consumer has ended too, and that is what was ordered.
                let outcome = if self.connection.is_closed() { Ok(()) } else { outcome.map(|_| ()) };
                // Whoever has given up waiting is not told.
                drop(closed.send(outcome));
            }
            Err(_) => self.connection.send(&close(UNHEARD).into()),
        }
    }
}

/// The consumer was dropped.
struct Gone;

/// The id of a request whose answer nobody hears; requests that are heard count from 0.
const UNHEARD: u64 = u64::MAX - 1;

impl Subject {
    async fn subscribe(&self) -> Result<(Connection, mpsc::Receiver<Delivered>), Error> {
        let connection = self.client.connection_for(&self.topic).await?;
        let queue = self.options.queue.max(1);
        // A server may exceed the permits by one batch, which is one entry: there are never more entries
        // under way than permits.
        let deliveries = connection.add_consumer(self.id, queue as usize + 1)?;
        let answer = connection
            .request(|request_id| CommandSubscribe {
                topic: self.topic.to_string(),
                subscription: self.subscription.clone(),
                sub_type: self.options.sub_type.into(),
                consumer_id: self.id,
                request_id,
                consumer_name: self.options.name.clone(),
                durable: Some(self.options.durable),
                metadata: pairs(&self.options.properties),
                initial_position: Some(self.options.initial_position.into()),
                force_topic_creation: Some(self.options.create_topic),
                ..Default::default()
            })
            .await;
        match answer {
            Ok(Command::Success(_)) => {}
            Ok(other) => {
                connection.remove_consumer(self.id);
                return Err(Error::Answer { request: "SUBSCRIBE", answer: other.name() });
            }
            Err(error) => {
                connection.remove_consumer(self.id);
                return Err(error);
            }
        }
        connection.send(&flow(self.id, queue));
        Ok((connection, deliveries))
    }

    /// The messages of an entry that are still to be acknowledged, and what the entry costs in permits.
    fn messages(&self, delivered: &Delivered) -> Result<(Vec<Result<ReceivedMessage, Error>>, u32), Error> {
        let id = &delivered.message.message_id;
        let failed = |source| Error::Entry {
            topic: self.topic.clone(),
            ledger: id.ledger_id,
            entry: id.entry_id,
            source: Arc::new(source),
        };
        verify_checksum(&delivered.entry).map_err(failed)?;
        let entry = Entry::parse(&delivered.entry).map_err(failed)?;
        let permits = entry.messages();
        let open = entry.open(MAX_UNCOMPRESSED_SIZE).map_err(failed)?;
        let batch =
            open.is_batch().then(|| Arc::new(BatchAcks::new(open.len() as u32, &delivered.message.ack_set)));
        let partition =
            id.partition.filter(|partition| *partition >= 0).unwrap_or_else(|| partition_of(&self.topic));
        let mut received = Vec::with_capacity(open.len());
        for (index, message) in open.messages().enumerate() {
            let shown = batch.as_ref().is_none_or(|batch| batch.is_unacked(index as u32));
            if !shown || message.is_compacted_out() {
                continue;
            }
            let index = if batch.is_some() { index as i32 } else { -1 };
            let id = MessageId::new(id, partition, index);
            received.push(Ok(self.received(
                &message,
                id,
                batch.clone(),
                delivered.message.redelivery_count(),
            )));
        }
        Ok((received, permits))
    }

    fn received(
        &self,
        message: &Message<'_>,
        id: MessageId,
        batch: Option<Arc<BatchAcks>>,
        redelivery_count: u32,
    ) -> ReceivedMessage {
        ReceivedMessage {
            topic: self.topic.clone(),
            id,
            redelivery_count,
            producer_name: message.producer_name().to_owned(),
            sequence_id: message.sequence_id(),
            publish_time: message.publish_time(),
            event_time: message.event_time(),
            key: message.key().map(str::to_owned),
            properties: message
                .properties()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            payload: message.payload(),
            source: self.source,
            batch,
        }
    }
}

fn flow(consumer_id: u64, message_permits: u32) -> Command {
    CommandFlow { consumer_id, message_permits }.into()
}
