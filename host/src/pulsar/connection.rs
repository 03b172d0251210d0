//! One connection: its state, and the loop that takes its commands one after another.
//!
//! A command is finished before the next one is taken, except for what is put in a [`Lane`]: listings,
//! receipts and acknowledgements wait there for their turn. So requests are answered in the order in
//! which they came. When a lane or the outbox is full, the loop waits, and the peer with it.
//!
//! Source of the rules: Pulsar `ServerCnx` and `PulsarHandler`.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};
use weir_broker::Share;
use weir_wire::pulsar::command::{Command, CommandPing, CommandPong};
use weir_wire::pulsar::{Decoder, Frame, Limits};

use super::Service;
use super::consumer::Consuming;
use super::errors::Refused;
use super::frames;
use super::lane::Lane;
use super::outbox::{Closed, Outbox, outbox};
use super::producer::Producing;

/// Room that is made in the read buffer for each read: a few hundred small commands.
const READ_BUFFER: usize = 32 * 1024;

/// The largest frame before the handshake: room for a token in CONNECT, and no more.
const MAX_FIRST_FRAME: usize = 64 * 1024;

/// How many listings of one connection may wait for their turn to be answered; then reading stops. An
/// answer may name every topic of a namespace, and is held until then.
const MAX_LISTINGS: usize = 8;

/// How many closed producers are remembered: SENDs that were under way when one was closed are ignored.
const MAX_CLOSED_REMEMBERED: usize = 256;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    /// The peer is gone.
    #[error(transparent)]
    Gone(#[from] Closed),
    /// The socket failed.
    #[error(transparent)]
    Socket(#[from] std::io::Error),
    /// The peer does not keep to the protocol.
    #[error("{0}")]
    Violation(String),
}

/// What a connection has.
pub(super) struct Connection<'s> {
    pub(super) service: &'s Arc<Service>,
    /// The address at which the peer reached us.
    pub(super) local: SocketAddr,
    /// Whether the peer has said CONNECT.
    pub(super) greeted: bool,
    /// What is to be sent at once: pings, messages.
    pub(super) outbox: Outbox,
    /// Answers to requests, in order.
    pub(super) answers: Lane,
    /// Receipts for what was sent, in order.
    pub(super) receipts: Lane,
    /// Acknowledgements that want no answer.
    pub(super) acks: Lane,
    /// What its consumers may have in memory together.
    pub(super) share: Share,
    /// As many permits as there may be bytes published and not yet durable.
    pub(super) publishing: Arc<Semaphore>,
    /// As many permits as there may be listings whose answers wait.
    pub(super) listings: Arc<Semaphore>,
    pub(super) producers: HashMap<u64, Producing>,
    pub(super) consumers: HashMap<u64, Consuming>,
    closed_producers: VecDeque<u64>,
}

/// Serves one connection to its end.
pub(super) async fn run(socket: TcpStream, service: &Arc<Service>, stop: CancellationToken) {
    // Answers are small and waited for: never hold one back to fill a segment.
    let local = match socket.set_nodelay(true).and_then(|()| socket.local_addr()) {
        Ok(local) => local,
        Err(error) => return debug!(%error, "a connection was gone before it was served"),
    };
    let limits = &service.limits;
    let (reader, writer_half) = socket.into_split();
    let (outbox, writer) = outbox(limits.pending_output.bytes(), limits.keep_alive.saturating_mul(2));
    let (answers, answering) = Lane::new(limits.pending_requests, outbox.clone());
    let (receipts, receipting) = Lane::new(limits.pending_requests, outbox.clone());
    let (acks, acking) = Lane::new(limits.pending_requests, outbox.clone());
    let liveness = Liveness::default();
    let publishing = limits.pending_publish.bytes().clamp(1, Semaphore::MAX_PERMITS);

    let mut work = JoinSet::new();
    work.spawn(answering);
    work.spawn(receipting);
    work.spawn(acking);
    let mut writing = tokio::spawn(writer.run(writer_half));

    let mut connection = Connection {
        service,
        local,
        greeted: false,
        outbox: outbox.clone(),
        answers,
        receipts,
        acks,
        share: service.broker.share(),
        publishing: Arc::new(Semaphore::new(publishing)),
        listings: Arc::new(Semaphore::new(MAX_LISTINGS)),
        producers: HashMap::new(),
        consumers: HashMap::new(),
        closed_producers: VecDeque::new(),
    };
    let mut written = None;
    let ended = tokio::select! {
        biased;
        result = &mut writing => { written = Some(result); Ok(()) }
        () = stop.cancelled() => Ok(()),
        reason = liveness.watch(limits, outbox) => Err(Ended::Violation(reason.to_owned())),
        ended = connection.read(reader, &liveness) => ended,
    };
    match &ended {
        Ok(()) => debug!("closed"),
        Err(Ended::Gone(_) | Ended::Socket(_)) => debug!("the peer is gone"),
        Err(Ended::Violation(reason)) => {
            service.metrics.protocol_errors.inc();
            info!(%reason, "closed by us");
        }
    }
    connection.close().await;
    if written.is_some() {
        return;
    }
    // What is under way is still answered (a publish that becomes durable gets its receipt), unless the
    // peer broke the rules, and for half of what a stop may take: the broker wants to end in order, too,
    // whatever a peer does that does not read.
    let violated = matches!(ended, Err(Ended::Violation(_)));
    let patience = if violated { Duration::ZERO } else { limits.drain_timeout / 2 };
    let abort = writing.abort_handle();
    let finish = async {
        while work.join_next().await.is_some() {}
        writing.await
    };
    // Dropped unfinished, the lanes end with their set.
    if tokio::time::timeout(patience, finish).await.is_err() {
        abort.abort();
    }
}

impl Connection<'_> {
    async fn read(&mut self, mut socket: OwnedReadHalf, liveness: &Liveness) -> Result<(), Ended> {
        let limits = Limits::server(self.service.limits.max_message_size.bytes());
        let mut decoder = Decoder::new(Limits { frame: limits.frame.min(MAX_FIRST_FRAME), ..limits });
        let mut buffer = BytesMut::new();
        loop {
            while let Some(frame) =
                decoder.decode(&mut buffer).map_err(|error| Ended::Violation(error.to_string()))?
            {
                liveness.heard.store(true, Ordering::Relaxed);
                self.frame(frame).await?;
                if self.greeted {
                    liveness.greeted.store(true, Ordering::Relaxed);
                    decoder.set_limits(limits);
                }
            }
            buffer.reserve(READ_BUFFER);
            if socket.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn frame(&mut self, frame: Frame) -> Result<(), Ended> {
        let command = match frame {
            Frame::Simple(command) => command,
            Frame::Payload(Command::Send(send), entry) => {
                self.handshaken("SEND")?;
                return self.send(&send, entry).await;
            }
            Frame::Payload(command, _) => return Err(not_for_servers(command.name())),
            Frame::Unknown(number) => {
                return Err(Ended::Violation(format!("the command with number {number} is not served")));
            }
        };
        if let Command::Connect(connect) = command {
            return self.connect(connect).await;
        }
        self.handshaken(command.name())?;
        match command {
            Command::Ping(_) => Ok(self.outbox.send(frames::simple(CommandPong {})).await?),
            // Having heard it was all.
            Command::Pong(_) | Command::AuthResponse(_) => Ok(()),
            Command::PartitionedTopicMetadata(request) => self.partitions(request).await,
            Command::LookupTopic(request) => self.lookup(&request).await,
            Command::GetTopicsOfNamespace(request) => self.list_topics(request).await,
            Command::Producer(request) => self.add_producer(request).await,
            Command::CloseProducer(request) => self.close_producer(request).await,
            Command::Subscribe(request) => self.subscribe(request).await,
            Command::Flow(request) => self.flow(&request),
            Command::Ack(request) => self.acknowledge(request).await,
            Command::RedeliverUnacknowledgedMessages(request) => {
                self.redeliver(&request);
                Ok(())
            }
            Command::Unsubscribe(request) => self.unsubscribe(request).await,
            Command::CloseConsumer(request) => self.close_consumer(request).await,
            Command::Seek(request) => self.seek(request).await,
            Command::GetLastMessageId(request) => self.last_message_id(request).await,
            Command::ConsumerStats(request) => self.consumer_stats(request).await,
            Command::GetSchema(request) => self.schema(request).await,
            Command::GetOrCreateSchema(request) => self.register_schema(&request).await,
            Command::WatchTopicList(request) => self.watch_topics(request.request_id).await,
            Command::WatchTopicListClose(request) => self.watch_topics(request.request_id).await,
            other => Err(not_for_servers(other.name())),
        }
    }

    fn handshaken(&self, command: &str) -> Result<(), Ended> {
        match self.greeted {
            true => Ok(()),
            false => Err(Ended::Violation(format!("{command} came before CONNECT"))),
        }
    }

    /// Answers one request with a refusal.
    pub(super) async fn refuse(&self, request_id: u64, refused: Refused) -> Result<(), Ended> {
        debug!(request_id, code = %refused.code, text = refused.text, "refused");
        Ok(self.answers.answer(frames::error(request_id, refused.code, refused.text)).await?)
    }

    /// Whether the connection may have one more producer or consumer.
    pub(super) fn has_room(&self) -> bool {
        self.producers.len() + self.consumers.len() < self.service.limits.handles_per_connection
    }

    /// Remembers that a producer was closed: SENDs that were under way to it are no violation.
    pub(super) fn remember_closed(&mut self, producer_id: u64) {
        if self.closed_producers.len() == MAX_CLOSED_REMEMBERED {
            self.closed_producers.pop_front();
        }
        self.closed_producers.push_back(producer_id);
    }

    pub(super) fn was_closed(&self, producer_id: u64) -> bool {
        self.closed_producers.contains(&producer_id)
    }

    /// Gives producers and consumers back to the broker; whoever waits for their names finds them free
    /// when this returns.
    async fn close(mut self) {
        for (_, producing) in self.producers.drain() {
            producing.close().await;
        }
        for (_, consuming) in self.consumers.drain() {
            consuming.close().await;
        }
    }
}

fn not_for_servers(command: &str) -> Ended {
    Ended::Violation(format!("{command} is not for a server"))
}

/// Whether there is somebody at the other end.
#[derive(Default)]
struct Liveness {
    /// A command has come since the last look.
    heard: AtomicBool,
    /// The handshake is done.
    greeted: AtomicBool,
}

impl Liveness {
    /// Asks a silent peer for a sign of life. Comes back, with the reason, when it gave none, or has not
    /// said hello in time. Bytes that never become a command are no sign.
    async fn watch(&self, limits: &crate::config::Limits, outbox: Outbox) -> &'static str {
        tokio::time::sleep(limits.handshake_timeout).await;
        if !self.greeted.load(Ordering::Relaxed) {
            return "it did not say hello in time";
        }
        loop {
            let heard = self.heard.swap(false, Ordering::Relaxed);
            let ask = async {
                // A peer that reads nothing is not asked; it will be found silent.
                if !heard {
                    let _closed = outbox.send(frames::simple(CommandPing {})).await;
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = ask => {}
                () = tokio::time::sleep(limits.keep_alive) => {}
            }
            if !heard && !self.heard.load(Ordering::Relaxed) {
                return "it gave no sign of life";
            }
        }
    }
}
