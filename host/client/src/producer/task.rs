//! The task behind a partition's producer.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info, warn};
use weir_wire::pulsar::command::{
    CommandCloseProducer, CommandProducer, CommandSend, CommandSendError, CommandSendReceipt, MessageIdData,
};
use weir_wire::pulsar::entry::{BatchBuilder, single};
use weir_wire::pulsar::{Command, MessageMetadata};

use super::{BatchOptions, MAX_PENDING, ProducerOptions};
use crate::client::{Client, pairs, partition_of};
use crate::connection::{Connection, ProducerEvent};
use crate::error::Error;
use crate::message::{MessageId, OutgoingMessage, now};

/// What a task is asked to do.
#[derive(Debug)]
pub(super) enum Work {
    Send(OutgoingMessage, Answer),
    Close(oneshot::Sender<()>),
}

type Answer = oneshot::Sender<Result<MessageId, Error>>;

/// An entry that has no receipt yet.
#[derive(Debug)]
struct Pending {
    send: CommandSend,
    entry: Bytes,
    answers: Vec<Answer>,
    batched: bool,
}

/// A batch that is being collected.
#[derive(Debug)]
struct Collecting {
    batch: BatchBuilder,
    first: u64,
    answers: Vec<Answer>,
    due: Instant,
}

/// The producer, as one server knows it.
#[derive(Debug)]
struct Link {
    connection: Connection,
    events: mpsc::Receiver<ProducerEvent>,
}

#[derive(Debug)]
pub(super) struct Task {
    client: Client,
    topic: String,
    options: ProducerOptions,
    id: u64,
    /// Grows with each reconnect, so that the server knows which of two is the newer one.
    epoch: u64,
    name: String,
    next_sequence: u64,
    link: Link,
    work: mpsc::Receiver<Work>,
    collecting: Option<Collecting>,
    pending: VecDeque<Pending>,
    closing: Option<oneshot::Sender<()>>,
}

/// The first pause before another try to connect; it doubles up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(10);

/// How long a close may take that nobody may be waiting for.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What a server says that knows no entry of the producer.
const SEQUENCE_UNKNOWN: i64 = -1;

impl Task {
    /// Makes the producer on the server that serves `topic`.
    ///
    /// # Errors
    /// When that is refused.
    pub(super) async fn start(
        client: Client,
        topic: String,
        options: ProducerOptions,
        work: mpsc::Receiver<Work>,
    ) -> Result<Self, Error> {
        let id = client.next_id();
        let made = make(&client, &topic, &options, id, options.name.as_deref(), 0).await?;
        Ok(Self {
            client,
            topic,
            options,
            id,
            epoch: 0,
            name: made.name,
            next_sequence: made.next_sequence,
            link: made.link,
            work,
            collecting: None,
            pending: VecDeque::new(),
            closing: None,
        })
    }

    /// The name that the server knows the producer by.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Works until the handle is dropped or closed and everything has been answered.
    pub(super) async fn run(mut self) {
        let mut open = true;
        while open || !self.pending.is_empty() {
            let due = self.collecting.as_ref().map(|collecting| collecting.due);
            let room = open && self.waiting() < MAX_PENDING;
            tokio::select! {
                event = self.link.events.recv() => match event {
                    Some(ProducerEvent::Receipt(receipt)) => self.receipt(&receipt),
                    Some(ProducerEvent::Error(error)) => self.refused(error),
                    None => if !self.reconnect().await { break },
                },
                work = self.work.recv(), if room => match work {
                    Some(Work::Send(message, answer)) => self.take(&message, answer),
                    Some(Work::Close(closed)) => {
                        self.closing = Some(closed);
                        open = false;
                        self.flush();
                    }
                    None => {
                        open = false;
                        self.flush();
                    }
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.flush(),
            }
        }
        self.close().await;
    }

    /// How many messages have no receipt.
    fn waiting(&self) -> usize {
        let collected = self.collecting.as_ref().map_or(0, |collecting| collecting.answers.len());
        self.pending.iter().map(|pending| pending.answers.len()).sum::<usize>() + collected
    }

    fn take(&mut self, message: &OutgoingMessage, answer: Answer) {
        let sequence_id = self.next_sequence;
        self.next_sequence += 1;
        match self.options.batch {
            Some(options) => self.collect(&options, message, sequence_id, answer),
            None => {
                let metadata = message.alone(self.metadata(sequence_id));
                let entry = single(metadata, &message.payload, self.options.compression);
                let send = CommandSend { producer_id: self.id, sequence_id, ..Default::default() };
                self.send(send, entry, vec![answer], false);
            }
        }
    }

    fn collect(
        &mut self,
        options: &BatchOptions,
        message: &OutgoingMessage,
        sequence_id: u64,
        answer: Answer,
    ) {
        let full = |collecting: &Collecting| {
            collecting.batch.size() + message.payload.len() > options.max_bytes
                && !collecting.batch.is_empty()
        };
        if self.collecting.as_ref().is_some_and(full) {
            self.flush();
        }
        let collecting = self.collecting.get_or_insert_with(|| Collecting {
            batch: BatchBuilder::new(),
            first: sequence_id,
            answers: Vec::new(),
            due: Instant::now() + options.max_delay,
        });
        collecting.batch.push(message.batched(sequence_id), &message.payload);
        collecting.answers.push(answer);
        if collecting.batch.len() >= options.max_messages || collecting.batch.size() >= options.max_bytes {
            self.flush();
        }
    }

    /// Sends the batch that is being collected, if there is one.
    fn flush(&mut self) {
        let Some(Collecting { batch, first, answers, .. }) = self.collecting.take() else { return };
        let number = batch.len();
        let send = CommandSend {
            producer_id: self.id,
            sequence_id: first,
            num_messages: Some(number as i32),
            highest_sequence_id: Some(first + number as u64 - 1),
            ..Default::default()
        };
        let entry = batch.finish(self.metadata(first), self.options.compression);
        self.send(send, entry, answers, true);
    }

    fn metadata(&self, sequence_id: u64) -> MessageMetadata {
        MessageMetadata {
            producer_name: self.name.clone(),
            sequence_id,
            publish_time: now(),
            ..Default::default()
        }
    }

    fn send(
        &mut self,
        send: CommandSend,
        entry: Result<Bytes, weir_wire::pulsar::codec::CodecError>,
        answers: Vec<Answer>,
        batched: bool,
    ) {
        let limit = self.link.connection.max_message_size;
        let entry = match entry {
            Ok(entry) if entry.len() <= limit => entry,
            Ok(entry) => return answer_all(answers, &Error::TooLarge { size: entry.len(), limit }),
            Err(error) => return answer_all(answers, &Error::Pack(error.to_string())),
        };
        self.link.connection.send_entry(&send.clone().into(), &entry);
        self.pending.push_back(Pending { send, entry, answers, batched });
    }

    fn receipt(&mut self, receipt: &CommandSendReceipt) {
        // One for an entry that was refused, or answered before a reconnect, finds nothing.
        let found = self.pending.iter().position(|pending| pending.send.sequence_id == receipt.sequence_id);
        let Some(pending) = found.and_then(|at| self.pending.remove(at)) else {
            debug!(topic = %self.topic, sequence_id = receipt.sequence_id, "receipt for nothing that is waited for");
            return;
        };
        let id = receipt.message_id.clone().unwrap_or_else(|| MessageIdData {
            ledger_id: u64::MAX,
            entry_id: u64::MAX,
            ..Default::default()
        });
        let partition = partition_of(&self.topic);
        for (index, answer) in pending.answers.into_iter().enumerate() {
            let index = if pending.batched { index as i32 } else { -1 };
            // Whoever has given up waiting is not told.
            drop(answer.send(Ok(MessageId::new(&id, partition, index))));
        }
    }

    fn refused(&mut self, error: CommandSendError) {
        let found = self.pending.iter().position(|pending| pending.send.sequence_id == error.sequence_id);
        if let Some(pending) = found.and_then(|at| self.pending.remove(at)) {
            let error = Error::Server { request: "SEND", error: error.error(), message: error.message };
            answer_all(pending.answers, &error);
        }
    }

    /// Makes the producer again and sends again what has no receipt. False: there is no use in it.
    async fn reconnect(&mut self) -> bool {
        let mut pause = FIRST_PAUSE;
        loop {
            // Whoever has given up waiting does not want it sent.
            self.pending.retain(|pending| pending.answers.iter().any(|answer| !answer.is_closed()));
            if self.pending.is_empty() && self.collecting.is_none() && self.work.is_closed() {
                return false;
            }
            self.epoch += 1;
            let made = make(&self.client, &self.topic, &self.options, self.id, Some(&self.name), self.epoch);
            match made.await {
                Ok(made) => {
                    self.link = made.link;
                    break;
                }
                Err(error) if error.is_permanent() => {
                    warn!(topic = %self.topic, %error, "producer ended");
                    for pending in self.pending.drain(..) {
                        answer_all(pending.answers, &error);
                    }
                    return false;
                }
                Err(error) => {
                    info!(topic = %self.topic, %error, ?pause, "producer not connected; trying again");
                    sleep(pause).await;
                    pause = LAST_PAUSE.min(pause * 2);
                }
            }
        }
        for pending in &self.pending {
            self.link.connection.send_entry(&pending.send.clone().into(), &pending.entry);
        }
        true
    }

    async fn close(self) {
        self.link.connection.remove_producer(self.id);
        let close = self.link.connection.request(|request_id| CommandCloseProducer {
            producer_id: self.id,
            request_id,
            ..Default::default()
        });
        match timeout(CLOSE_TIMEOUT, close).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => debug!(topic = %self.topic, %error, "producer not closed on the server"),
            Err(_) => debug!(topic = %self.topic, "producer not closed on the server in time"),
        }
        if let Some(closed) = self.closing {
            // Whoever has given up waiting is not told.
            let _ = closed.send(());
        }
    }
}

fn answer_all(answers: Vec<Answer>, error: &Error) {
    for answer in answers {
        // Whoever has given up waiting is not told.
        drop(answer.send(Err(error.clone())));
    }
}

/// A producer that was made.
struct Made {
    link: Link,
    name: String,
    next_sequence: u64,
}

async fn make(
    client: &Client,
    topic: &str,
    options: &ProducerOptions,
    id: u64,
    name: Option<&str>,
    epoch: u64,
) -> Result<Made, Error> {
    let connection = client.connection_for(topic).await?;
    let events = connection.add_producer(id, MAX_PENDING + 1)?;
    let made = connection
        .request(|request_id| CommandProducer {
            topic: topic.to_owned(),
            producer_id: id,
            request_id,
            producer_name: name.map(str::to_owned),
            metadata: pairs(&options.properties),
            epoch: Some(epoch),
            user_provided_producer_name: Some(options.name.is_some()),
            ..Default::default()
        })
        .await;
    let answer = match made {
        Ok(Command::ProducerSuccess(answer)) => answer,
        Ok(other) => {
            connection.remove_producer(id);
            return Err(Error::Answer { request: "PRODUCER", answer: other.name() });
        }
        Err(error) => {
            connection.remove_producer(id);
            return Err(error);
        }
    };
    let next_sequence = match answer.last_sequence_id() {
        SEQUENCE_UNKNOWN => 0,
        last => u64::try_from(last).map_or(0, |last| last + 1),
    };
    Ok(Made { link: Link { connection, events }, name: answer.producer_name, next_sequence })
}
