//! SUBSCRIBE, FLOW, UNSUBSCRIBE, CLOSE_CONSUMER, and the task that sends what is delivered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use weir_broker::{Consumer, ConsumerOptions, Deliveries, Position, Start, SubscriptionType, TopicName};
use weir_wire::pulsar::command::{
    CommandCloseConsumer, CommandFlow, CommandMessage, CommandSubscribe, CommandUnsubscribe, InitialPosition,
    MessageIdData, SubType,
};
use weir_wire::pulsar::entry::deliverable;
use weir_wire::pulsar::{NO_REQUEST, ServerError};

use super::connection::{Connection, Ended};
use super::errors::Refused;
use super::frames;
use super::outbox::Outbox;
use super::producer::too_many;
use crate::metrics::Metrics;

/// A consumer of this connection.
pub(super) struct Consuming {
    pub(super) consumer: Consumer,
    pub(super) topic: TopicName,
    pub(super) subscription: String,
    /// Sends what is delivered; ends when the broker closes the consumer.
    delivering: JoinHandle<()>,
    /// Set once that has ended: nothing is sent for the consumer any more, CLOSE_CONSUMER included.
    told: CancellationToken,
    /// The client has asked for the end itself, and is not to be told of it.
    asked_to_end: Arc<AtomicBool>,
}

impl Consuming {
    /// Resolves when the client of a closed consumer has been told.
    pub(super) fn told(&self) -> WaitForCancellationFutureOwned {
        self.told.clone().cancelled_owned()
    }

    /// Gives it back to the broker. What was not acknowledged will be delivered again.
    pub(super) async fn close(self) {
        self.delivering.abort();
        // Aborted is what it should be: nothing is sent for it after this.
        let _aborted = self.delivering.await;
    }
}

impl Connection<'_> {
    pub(super) async fn subscribe(&mut self, request: CommandSubscribe) -> Result<(), Ended> {
        let (id, request_id) = (request.consumer_id, request.request_id);
        if self.consumers.get(&id).is_some_and(|known| !known.consumer.is_closed()) {
            return Ok(self.answers.answer(frames::success(request_id)).await?);
        }
        // Kept until the next one is there: a reader's subscription lives as long as its consumers, and the
        // broker closes them when it moves the cursor.
        let closed = self.consumers.remove(&id);
        let (consuming, refused) = match self.new_consumer(request).await {
            Ok(consuming) => (Some(consuming), None),
            Err(refused) => (None, Some(refused)),
        };
        match (consuming, closed) {
            (Some(consuming), closed) => {
                if let Some(closed) = closed {
                    closed.close().await;
                }
                self.consumers.insert(id, consuming);
            }
            (None, Some(closed)) => drop(self.consumers.insert(id, closed)),
            (None, None) => {}
        }
        match refused {
            // Nothing is delivered before FLOW, which clients send after this.
            None => Ok(self.answers.answer(frames::success(request_id)).await?),
            Some(refused) => self.refuse(request_id, refused).await,
        }
    }

    async fn new_consumer(&self, request: CommandSubscribe) -> Result<Consuming, Refused> {
        let kind = match request.sub_type() {
            SubType::Exclusive => SubscriptionType::Exclusive,
            SubType::Shared => SubscriptionType::Shared,
            other @ (SubType::Failover | SubType::KeyShared) => {
                let text = format!("{other:?} subscriptions are not served yet; use Exclusive or Shared");
                return Err(Refused::new(ServerError::NotAllowedError, text));
            }
        };
        if request.read_compacted() {
            return Err(Refused::new(ServerError::NotAllowedError, "compacted topics are not served yet"));
        }
        if !self.has_room() {
            return Err(too_many(self.service.limits.handles_per_connection));
        }
        let start = start(&request);
        let durable = request.durable();
        let topic = TopicName::new(&request.topic)?;
        let topic = self.service.broker.topic(&topic, request.force_topic_creation()).await?;
        let options = ConsumerOptions {
            subscription: request.subscription.clone(),
            kind,
            start,
            durable,
            create: true,
            consumer_name: request.consumer_name.unwrap_or_default(),
            metadata: frames::properties(request.metadata),
            share: self.share.clone(),
        };
        let (consumer, deliveries) = topic.subscribe(options).await?;
        let asked_to_end = Arc::new(AtomicBool::new(false));
        let sending = Sending {
            consumer_id: request.consumer_id,
            partition: topic.name().partition().and_then(|index| i32::try_from(index).ok()).unwrap_or(-1),
            outbox: self.outbox.clone(),
            metrics: self.service.metrics.clone(),
            asked_to_end: Arc::clone(&asked_to_end),
        };
        let told = CancellationToken::new();
        let ended = told.clone().drop_guard();
        let delivering = tokio::spawn(async move {
            // Dropped with the task, however it ends.
            let _ended = ended;
            sending.run(deliveries).await;
        });
        Ok(Consuming {
            consumer,
            topic: topic.name().clone(),
            subscription: request.subscription,
            delivering,
            told,
            asked_to_end,
        })
    }

    pub(super) fn flow(&self, request: &CommandFlow) -> Result<(), Ended> {
        if request.message_permits == 0 {
            return Err(Ended::Violation("FLOW came with no permits".into()));
        }
        // A consumer that is not there was closed while this was under way.
        if let Some(consuming) = self.consumers.get(&request.consumer_id) {
            consuming.consumer.flow(request.message_permits);
        }
        Ok(())
    }

    pub(super) async fn unsubscribe(&mut self, request: CommandUnsubscribe) -> Result<(), Ended> {
        let Some(consuming) = self.consumers.remove(&request.consumer_id) else {
            return self.refuse(request.request_id, Refused::no_consumer()).await;
        };
        consuming.asked_to_end.store(true, Ordering::Relaxed);
        match consuming.consumer.unsubscribe(request.force()).await {
            Ok(()) => {
                consuming.close().await;
                Ok(self.answers.answer(frames::success(request.request_id)).await?)
            }
            Err(error) => {
                consuming.asked_to_end.store(false, Ordering::Relaxed);
                self.consumers.insert(request.consumer_id, consuming);
                self.refuse(request.request_id, error.into()).await
            }
        }
    }

    /// A consumer that is not there was closed already.
    pub(super) async fn close_consumer(&mut self, request: CommandCloseConsumer) -> Result<(), Ended> {
        if let Some(consuming) = self.consumers.remove(&request.consumer_id) {
            consuming.close().await;
        }
        Ok(self.answers.answer(frames::success(request.request_id)).await?)
    }
}

/// Where a new subscription begins. A start message is where a reader begins: its whole entry is
/// delivered, and the client leaves out what lies before the message.
fn start(request: &CommandSubscribe) -> Start {
    match &request.start_message_id {
        _ if request.start_message_rollback_duration_sec() > 0 => {
            Start::Since(seconds_ago(request.start_message_rollback_duration_sec()))
        }
        Some(id) => match place(id) {
            Place::Earliest => Start::Earliest,
            Place::Latest => Start::Latest,
            Place::At(position) => Start::At(position),
        },
        None if request.initial_position() == InitialPosition::Earliest => Start::Earliest,
        None => Start::Latest,
    }
}

/// Where a message id points, when a client says by it where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Earliest,
    Latest,
    At(Position),
}

pub(super) fn place(id: &MessageIdData) -> Place {
    // On the wire, earliest is -1:-1 and latest the largest signed number, twice. An entry of -1 lies before
    // the first one of its ledger.
    const LATEST: u64 = i64::MAX as u64;
    match (id.ledger_id, id.entry_id) {
        (u64::MAX, _) => Place::Earliest,
        (LATEST, _) => Place::Latest,
        (ledger, u64::MAX) => Place::At(Position { ledger, entry: 0 }),
        (ledger, entry) => Place::At(Position { ledger, entry }),
    }
}

fn seconds_ago(seconds: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_sub(seconds.saturating_mul(1000))
}

/// The task of one consumer.
struct Sending {
    consumer_id: u64,
    partition: i32,
    outbox: Outbox,
    metrics: Metrics,
    asked_to_end: Arc<AtomicBool>,
}

impl Sending {
    async fn run(self, mut deliveries: Deliveries) {
        while let Some(delivery) = deliveries.next().await {
            let command = CommandMessage {
                consumer_id: self.consumer_id,
                message_id: MessageIdData {
                    ledger_id: delivery.position.ledger,
                    entry_id: delivery.position.entry,
                    partition: Some(self.partition),
                    ..MessageIdData::default()
                },
                redelivery_count: (delivery.redelivery_count > 0).then_some(delivery.redelivery_count),
                ..CommandMessage::default()
            };
            self.metrics.delivered_messages.inc_by(u64::from(delivery.messages));
            self.metrics.delivered_bytes.inc_by(delivery.entry.len() as u64);
            // Some clients take the first bytes of any entry for a checksum.
            let entry = deliverable(&delivery.entry).unwrap_or(delivery.entry);
            if self.outbox.deliver(frames::message(command, entry), delivery.held).await.is_err() {
                return;
            }
        }
        if self.asked_to_end.load(Ordering::Relaxed) {
            return;
        }
        let closed = CommandCloseConsumer {
            consumer_id: self.consumer_id,
            request_id: NO_REQUEST,
            ..CommandCloseConsumer::default()
        };
        let _gone = self.outbox.send(frames::simple(closed)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_begin_where_their_message_id_says() {
        let id = |ledger_id, entry_id| MessageIdData { ledger_id, entry_id, ..MessageIdData::default() };
        assert_eq!(place(&id(u64::MAX, u64::MAX)), Place::Earliest);
        assert_eq!(place(&id(i64::MAX as u64, i64::MAX as u64)), Place::Latest);
        assert_eq!(place(&id(3, 7)), Place::At(Position { ledger: 3, entry: 7 }));
        assert_eq!(place(&id(3, u64::MAX)), Place::At(Position { ledger: 3, entry: 0 }));
    }
}
