//! Consuming.
//!
//! A task for each topic (or partition) subscribes, splits entries into messages and hands them to the
//! consumer over one channel that holds as many as the consumer's queue. Permits are given back as
//! messages get into that channel, so what a server can make us hold is twice the queue. When its
//! connection ends, or the server says so, the task subscribes again.

mod task;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use weir_wire::pulsar::Command;
use weir_wire::pulsar::command::{
    AckType, CommandAck, CommandRedeliverUnacknowledgedMessages, CommandUnsubscribe, InitialPosition,
    MessageIdData, SubType,
};

use crate::client::Client;
use crate::connection::Connection;
use crate::error::Error;
use crate::message::ReceivedMessage;
use task::Task;

/// How a consumer subscribes.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// How the subscription is shared. Default: exclusive.
    pub sub_type: SubType,
    /// Where the subscription begins if it is new. Default: with what comes from now on.
    pub initial_position: InitialPosition,
    /// Whether it outlives its consumers. Default: true.
    pub durable: bool,
    /// Its name, for people.
    pub name: Option<String>,
    /// What it says of itself.
    pub properties: Vec<(String, String)>,
    /// How many messages may be under way. At least 1. Default: 1000.
    pub queue: u32,
    /// Whether a topic that does not exist may come into being. Default: true. Say false for topics that
    /// come from a list: one that was deleted meanwhile would come back.
    pub create_topic: bool,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            sub_type: SubType::Exclusive,
            initial_position: InitialPosition::Latest,
            durable: true,
            name: None,
            properties: Vec::new(),
            queue: 1000,
            create_topic: true,
        }
    }
}

/// A consumer of one or more topics under one subscription.
///
/// Dropped, it is closed on the server as well as can be done; [`Consumer::close`] waits for that.
#[derive(Debug)]
pub struct Consumer {
    subscription: String,
    messages: mpsc::Receiver<Result<ReceivedMessage, Error>>,
    sources: Vec<Source>,
    timeout: Duration,
    /// Set when it is closed: a subscription that ends then is not taken up again.
    closing: Arc<AtomicBool>,
}

/// One topic or partition, as the consumer's handle sees it.
#[derive(Debug)]
struct Source {
    topic: Arc<str>,
    id: u64,
    /// The connection on which it is subscribed; `None` while it connects again.
    connection: watch::Receiver<Option<Connection>>,
    /// Asks the task to close it, and to say what came of that.
    close: oneshot::Sender<Closed>,
}

/// What came of closing a topic.
type Closed = oneshot::Sender<Result<(), Error>>;

impl Client {
    /// Subscribes to topics, each with all its partitions.
    ///
    /// # Errors
    /// When the server refuses one of them; those subscribed before it are closed again.
    pub async fn subscribe(
        &self,
        topics: &[String],
        subscription: &str,
        options: ConsumerOptions,
    ) -> Result<Consumer, Error> {
        let (sender, messages) = mpsc::channel(options.queue.max(1) as usize);
        let mut consumer = Consumer {
            subscription: subscription.to_owned(),
            messages,
            sources: Vec::new(),
            timeout: self.timeout(),
            closing: Arc::default(),
        };
        for topic in topics {
            for name in self.partitions(topic, options.create_topic).await? {
                let topic: Arc<str> = name.into();
                let id = self.next_id();
                let (subscribed, connection) = watch::channel(None);
                let (close, closing) = oneshot::channel();
                let task = Task::start(
                    task::Subject {
                        client: self.clone(),
                        topic: topic.clone(),
                        subscription: subscription.to_owned(),
                        id,
                        source: consumer.sources.len(),
                        options: options.clone(),
                    },
                    sender.clone(),
                    subscribed,
                    task::Ending { ordered: closing, closing: consumer.closing.clone() },
                )
                .await?;
                consumer.sources.push(Source { topic, id, connection, close });
                tokio::spawn(task.run());
            }
        }
        Ok(consumer)
    }
}

impl Consumer {
    /// The subscription.
    pub fn subscription(&self) -> &str {
        &self.subscription
    }

    /// The topics and partitions that are subscribed.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &str> {
        self.sources.iter().map(|source| &*source.topic)
    }

    /// Waits for the next message, for as long as it takes. Safe to drop and call again.
    ///
    /// # Errors
    /// [`Error::Entry`]: an entry cannot be read; the next ones can. Others: one of the topics has ended.
    /// [`Error::Ended`]: all have.
    pub async fn receive(&mut self) -> Result<ReceivedMessage, Error> {
        self.messages.recv().await.unwrap_or(Err(Error::Ended("consumer")))
    }

    /// Waits for the next message at most so long; `Ok(None)` if none has come.
    ///
    /// # Errors
    /// As [`Consumer::receive`].
    pub async fn receive_within(&mut self, wait: Duration) -> Result<Option<ReceivedMessage>, Error> {
        // Not in time is an answer here.
        timeout(wait, self.receive()).await.ok().transpose()
    }

    /// Acknowledges a message, and waits until the server has taken note.
    ///
    /// A message of a batch is acknowledged by its index. The entry is done when all of it is.
    ///
    /// # Errors
    /// When the server cannot, or is not there in time: the message will come again.
    pub async fn acknowledge(&self, message: &ReceivedMessage) -> Result<(), Error> {
        self.acknowledge_all([message]).await
    }

    /// Acknowledges messages, in one request for each of their topics.
    ///
    /// # Errors
    /// As [`Consumer::acknowledge`].
    pub async fn acknowledge_all<'m>(
        &self,
        messages: impl IntoIterator<Item = &'m ReceivedMessage>,
    ) -> Result<(), Error> {
        let mut ids: Vec<Vec<MessageIdData>> = vec![Vec::new(); self.sources.len()];
        for message in messages {
            let id = match &message.batch {
                Some(batch) => batch.acknowledge(&message.id),
                None => message.id.entry_data(),
            };
            let of_source = &mut ids[message.source];
            // The last word on an entry says all that the ones before it said.
            match of_source.last_mut().filter(|last| same_entry(last, &id)) {
                Some(last) => *last = id,
                None => of_source.push(id),
            }
        }
        for (source, ids) in self.sources.iter().zip(ids) {
            if !ids.is_empty() {
                self.send_ack(source, AckType::Individual, ids).await?;
            }
        }
        Ok(())
    }

    /// Acknowledges a message and all before it of its topic or partition. Not for shared subscriptions.
    ///
    /// # Errors
    /// As [`Consumer::acknowledge`].
    pub async fn acknowledge_cumulative(&self, message: &ReceivedMessage) -> Result<(), Error> {
        let id = match &message.batch {
            Some(batch) => batch.acknowledge_up_to(&message.id),
            None => message.id.entry_data(),
        };
        self.send_ack(&self.sources[message.source], AckType::Cumulative, vec![id]).await
    }

    /// Asks for everything again that has not been acknowledged.
    ///
    /// # Errors
    /// When a topic is not connected in time.
    pub async fn redeliver(&self) -> Result<(), Error> {
        for source in &self.sources {
            let connection = self.connected(source).await?;
            let command =
                CommandRedeliverUnacknowledgedMessages { consumer_id: source.id, ..Default::default() };
            connection.send(&command.into());
        }
        Ok(())
    }

    /// Closes the consumer; the subscription stays, with what is not acknowledged.
    ///
    /// # Errors
    /// When a server does not answer in time. The consumer is of no use in any case.
    pub async fn close(mut self) -> Result<(), Error> {
        self.closing.store(true, Ordering::Relaxed);
        let mut outcomes = Vec::new();
        for source in self.sources {
            let (closed, outcome) = oneshot::channel();
            // A task that has ended has nothing to close.
            if source.close.send(closed).is_ok() {
                outcomes.push(outcome);
            }
        }
        // From here on the tasks find that nobody receives, and look for their order.
        self.messages.close();
        let mut result = Ok(());
        for outcome in outcomes {
            match timeout(self.timeout, outcome).await {
                Ok(Ok(Ok(())) | Err(_)) => {}
                Ok(Ok(Err(error))) => result = Err(error),
                Err(_) => result = Err(Error::Timeout { request: "CLOSE_CONSUMER", after: self.timeout }),
            }
        }
        result
    }

    /// Deletes the subscription, with its cursors, and closes the consumer.
    ///
    /// # Errors
    /// When the subscription has other consumers, or a server does not answer in time. The consumer is of
    /// no use in any case.
    pub async fn unsubscribe(self) -> Result<(), Error> {
        self.closing.store(true, Ordering::Relaxed);
        for source in &self.sources {
            let connection = self.connected(source).await?;
            let consumer_id = source.id;
            connection
                .request(|request_id| CommandUnsubscribe { consumer_id, request_id, ..Default::default() })
                .await?;
        }
        self.close().await
    }

    async fn send_ack(
        &self,
        source: &Source,
        ack_type: AckType,
        ids: Vec<MessageIdData>,
    ) -> Result<(), Error> {
        let connection = self.connected(source).await?;
        let ack = CommandAck {
            consumer_id: source.id,
            ack_type: ack_type.into(),
            message_id: ids,
            ..Default::default()
        };
        if connection.protocol_version < ACK_RECEIPTS {
            connection.send(&ack.into());
            return Ok(());
        }
        let answer =
            connection.request(|request_id| CommandAck { request_id: Some(request_id), ..ack }).await?;
        match answer {
            Command::AckResponse(answer) if answer.error.is_some() => Err(Error::Server {
                request: "ACK",
                error: answer.error(),
                message: answer.message.unwrap_or_default(),
            }),
            Command::AckResponse(_) => Ok(()),
            other => Err(Error::Answer { request: "ACK", answer: other.name() }),
        }
    }

    /// The connection on which the source is subscribed, once it is.
    async fn connected(&self, source: &Source) -> Result<Connection, Error> {
        let mut connection = source.connection.clone();
        match timeout(self.timeout, connection.wait_for(Option::is_some)).await {
            Ok(Ok(connected)) => connected.clone().ok_or(Error::Ended("consumer")),
            Ok(Err(_)) => Err(Error::Ended("consumer")),
            Err(_) => Err(Error::Timeout { request: "SUBSCRIBE", after: self.timeout }),
        }
    }
}

/// The protocol version from which acknowledgements are answered.
const ACK_RECEIPTS: i32 = 17;

fn same_entry(one: &MessageIdData, other: &MessageIdData) -> bool {
    (one.ledger_id, one.entry_id) == (other.ledger_id, other.entry_id)
}

#[cfg(test)]
mod tests;
