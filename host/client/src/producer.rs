//! Producing.
//!
//! A task for each partition owns what has been sent and not been answered. When its connection ends, it
//! looks the topic up again, makes its producer again, and sends all of that again in the same order
//! with the same sequence ids; a server that deduplicates knows them.

mod task;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use weir_wire::pulsar::command::CompressionType;

use crate::client::Client;
use crate::error::Error;
use crate::message::{MessageId, OutgoingMessage};
use task::{Task, Work};

/// How many messages of a partition may wait for their receipts; the next one waits before it is taken.
pub const MAX_PENDING: usize = 1000;

/// How a producer sends.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    /// Its name; the server invents one without.
    pub name: Option<String>,
    /// What it says of itself.
    pub properties: Vec<(String, String)>,
    /// How it collects batches; without, each message is an entry. Default: [`BatchOptions::default`].
    pub batch: Option<BatchOptions>,
    /// How entries are packed. Default: not at all.
    pub compression: CompressionType,
    /// How long a message may wait for its receipt. Default: 30 s.
    pub send_timeout: Duration,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            name: None,
            properties: Vec::new(),
            batch: Some(BatchOptions::default()),
            compression: CompressionType::None,
            send_timeout: Duration::from_secs(30),
        }
    }
}

/// When a batch is full. The defaults are Pulsar's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// At so many messages. Default: 1000.
    pub max_messages: usize,
    /// Before it has more bytes. Default: 128 KiB.
    pub max_bytes: usize,
    /// So long after its first message. Default: 1 ms.
    pub max_delay: Duration,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self { max_messages: 1000, max_bytes: 128 * 1024, max_delay: Duration::from_millis(1) }
    }
}

/// A producer of one topic. Messages of one caller arrive in order within a partition.
///
/// Dropped, it sends what it still has; [`Producer::close`] waits for that.
#[derive(Debug)]
pub struct Producer {
    topic: String,
    partitions: Vec<Partition>,
    next: AtomicUsize,
    timeout: Duration,
}

#[derive(Debug)]
struct Partition {
    work: mpsc::Sender<Work>,
    name: String,
}

/// A message on its way.
#[derive(Debug)]
pub struct Receipt {
    answer: oneshot::Receiver<Result<MessageId, Error>>,
    timeout: Duration,
}

impl Receipt {
    /// Waits until the message is durable; gives where it lies.
    ///
    /// # Errors
    /// When it was refused, or not answered in time: it may have been stored then.
    pub async fn wait(self) -> Result<MessageId, Error> {
        match timeout(self.timeout, self.answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::Ended("producer")),
            Err(_) => Err(Error::Timeout { request: "SEND", after: self.timeout }),
        }
    }
}

impl Client {
    /// Makes a producer of a topic, or of all its partitions.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn producer(&self, topic: &str, options: ProducerOptions) -> Result<Producer, Error> {
        let mut partitions = Vec::new();
        for name in self.partitions(topic, true).await? {
            let (work, to_do) = mpsc::channel(MAX_PENDING);
            let task = Task::start(self.clone(), name, options.clone(), to_do).await?;
            partitions.push(Partition { work, name: task.name().to_owned() });
            tokio::spawn(task.run());
        }
        Ok(Producer {
            topic: topic.to_owned(),
            partitions,
            next: AtomicUsize::new(0),
            timeout: options.send_timeout,
        })
    }
}

impl Producer {
    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The name that the server knows it by; of the first partition, if it has several.
    pub fn name(&self) -> &str {
        self.partitions.first().map_or("", |partition| &partition.name)
    }

    /// Sends a message and waits until it is durable; gives where it lies.
    ///
    /// # Errors
    /// See [`Receipt::wait`].
    pub async fn send(&self, message: OutgoingMessage) -> Result<MessageId, Error> {
        self.enqueue(message).await?.wait().await
    }

    /// Takes a message; waits only while [`MAX_PENDING`] others of its partition have no receipt.
    ///
    /// # Errors
    /// When the producer has ended, or there is no room in time.
    pub async fn enqueue(&self, message: OutgoingMessage) -> Result<Receipt, Error> {
        let partition = &self.partitions[self.partition(&message)];
        let (answer, answered) = oneshot::channel();
        match timeout(self.timeout, partition.work.send(Work::Send(message, answer))).await {
            Ok(Ok(())) => Ok(Receipt { answer: answered, timeout: self.timeout }),
            Ok(Err(_)) => Err(Error::Ended("producer")),
            Err(_) => Err(Error::Timeout { request: "SEND", after: self.timeout }),
        }
    }

    /// Sends what is left, waits for the receipts, and closes the producer.
    ///
    /// # Errors
    /// When not all was answered in time.
    pub async fn close(self) -> Result<(), Error> {
        let mut last = Ok(());
        for partition in self.partitions {
            let (done, closed) = oneshot::channel();
            if partition.work.send(Work::Close(done)).await.is_err() {
                continue;
            }
            if timeout(self.timeout, closed).await.is_err() {
                last = Err(Error::Timeout { request: "CLOSE_PRODUCER", after: self.timeout });
            }
        }
        last
    }

    /// By key, or in turn.
    fn partition(&self, message: &OutgoingMessage) -> usize {
        let number = self.partitions.len();
        match &message.key {
            Some(key) => java_hash(key) as usize % number,
            None => self.next.fetch_add(1, Ordering::Relaxed) % number,
        }
    }
}

/// The hash by which Pulsar's clients choose a key's partition, unless told otherwise: Java's
/// `String.hashCode`, without its sign.
fn java_hash(key: &str) -> u32 {
    let hash = key.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    (hash & i32::MAX) as u32
}

#[cfg(test)]
mod tests;
