//! One connection to a server: handshake, requests and their answers, what comes unasked, liveness.
//!
//! Two tasks a connection: one reads and hands out what comes, one writes what it is given, as much as
//! there is at once. Both end when the last handle is dropped, the peer goes, or it breaks the protocol;
//! then everyone who waits on the connection is told why.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval_at, timeout};
use tracing::debug;
use weir_wire::pulsar::command::{
    AuthData, CommandAuthResponse, CommandConnect, CommandMessage, CommandPing, CommandPong,
    CommandSendError, CommandSendReceipt, FeatureFlags,
};
use weir_wire::pulsar::frame::{encode, encode_with_payload};
use weir_wire::pulsar::{
    Command, DEFAULT_MAX_MESSAGE_SIZE, Decoder, Frame, Limits, NO_REQUEST, PROTOCOL_VERSION,
};

use crate::error::Error;

/// How a connection introduces itself.
#[derive(Clone)]
pub(crate) struct Hello {
    /// A token, if the server wants one.
    pub(crate) token: Option<String>,
    /// The broker that the server is to pass everything on to, if it is a proxy.
    pub(crate) proxy_to: Option<String>,
    /// How long an answer may take, the handshake's among them.
    pub(crate) timeout: Duration,
    /// How long the server may be silent; twice that, and it is given up.
    pub(crate) keep_alive: Duration,
}

/// What comes for a producer.
#[derive(Debug)]
pub(crate) enum ProducerEvent {
    Receipt(CommandSendReceipt),
    Error(CommandSendError),
}

/// What comes for a consumer.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) message: CommandMessage,
    pub(crate) entry: Bytes,
}

/// A connection. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    shared: Arc<Shared>,
    outgoing: mpsc::UnboundedSender<Bytes>,
    timeout: Duration,
    /// The largest payload with metadata that the server takes.
    pub(crate) max_message_size: usize,
    /// What both sides speak.
    pub(crate) protocol_version: i32,
}

/// What the reading task and the handles share. No lock is held while anything is waited for.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    next_request: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Why the connection has ended, once it has.
    ended: Option<Error>,
    requests: HashMap<u64, Waiting>,
    producers: HashMap<u64, mpsc::Sender<ProducerEvent>>,
    consumers: HashMap<u64, mpsc::Sender<Delivered>>,
}

#[derive(Debug)]
struct Waiting {
    request: &'static str,
    answer: oneshot::Sender<Result<Command, Error>>,
}

impl Connection {
    /// Shakes hands over `stream` and starts to read and write.
    ///
    /// # Errors
    /// When the server refuses, answers something else, or not in time.
    pub(crate) async fn open<S>(mut stream: S, hello: Hello) -> Result<Self, Error>
    where
        S: AsyncRead + AsyncWrite + Send + 'static + Unpin,
    {
        let mut decoder = Decoder::new(Limits::client(DEFAULT_MAX_MESSAGE_SIZE));
        let mut buffer = BytesMut::with_capacity(READ_BUFFER);
        let shake = handshake(&mut stream, &hello, &decoder, &mut buffer);
        let Ok(shaken) = timeout(hello.timeout, shake).await else {
            return Err(Error::Timeout { request: "CONNECT", after: hello.timeout });
        };
        let (protocol_version, max_message_size) = shaken?;
        decoder.set_limits(Limits::client(max_message_size));

        let shared = Arc::new(Shared::default());
        let (outgoing, to_write) = mpsc::unbounded_channel();
        let (reader, writer) = tokio::io::split(stream);
        let reading = Reading {
            reader,
            decoder,
            buffer,
            shared: shared.clone(),
            outgoing: outgoing.downgrade(),
            writer: tokio::spawn(write_all(writer, to_write)),
            keep_alive: hello.keep_alive,
        };
        tokio::spawn(reading.run());
        Ok(Self { shared, outgoing, timeout: hello.timeout, max_message_size, protocol_version })
    }

    /// Whether it has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.state.lock().ended.is_some()
    }

    /// Sends what `request` makes of a new request id, and waits for the answer.
    ///
    /// # Errors
    /// When the server answers with an error, not in time, or the connection ends.
    pub(crate) async fn request<C: Into<Command>>(
        &self,
        request: impl FnOnce(u64) -> C,
    ) -> Result<Command, Error> {
        let id = self.shared.next_request.fetch_add(1, Ordering::Relaxed);
        let command = request(id).into();
        let name = command.name();
        let (answer, answered) = oneshot::channel();
        self.shared.wait_for(id, Waiting { request: name, answer })?;
        let _forget = Forget { shared: &self.shared, id };
        self.send(&command);
        match timeout(self.timeout, answered).await {
            Ok(Ok(answer)) => answer,
            // Dropped without an answer: the connection ended between two locks.
            Ok(Err(_)) => Err(self.shared.ended()),
            Err(_) => Err(Error::Timeout { request: name, after: self.timeout }),
        }
    }

    /// Sends a command that is not answered. If the connection has ended, whoever waits on it is told.
    pub(crate) fn send(&self, command: &Command) {
        let mut frame = BytesMut::new();
        encode(command, &mut frame);
        self.write(frame.freeze());
    }

    /// Sends an entry.
    pub(crate) fn send_entry(&self, command: &Command, entry: &Bytes) {
        let mut frame = BytesMut::new();
        encode_with_payload(command, entry, &mut frame);
        self.write(frame.freeze());
    }

    fn write(&self, frame: Bytes) {
        if self.outgoing.send(frame).is_err() {
            debug!("not written: the connection has ended");
        }
    }

    /// Takes in what comes for a producer, up to `capacity` at a time. The channel ends with the producer.
    ///
    /// # Errors
    /// When the connection has ended.
    pub(crate) fn add_producer(
        &self,
        id: u64,
        capacity: usize,
    ) -> Result<mpsc::Receiver<ProducerEvent>, Error> {
        let (events, receiver) = mpsc::channel(capacity);
        self.shared.alive()?.producers.insert(id, events);
        Ok(receiver)
    }

    /// Takes in what comes for a consumer, up to `capacity` at a time. The channel ends with the consumer.
    ///
    /// # Errors
    /// When the connection has ended.
    pub(crate) fn add_consumer(&self, id: u64, capacity: usize) -> Result<mpsc::Receiver<Delivered>, Error> {
        let (deliveries, receiver) = mpsc::channel(capacity);
        self.shared.alive()?.consumers.insert(id, deliveries);
        Ok(receiver)
    }

    /// Lets what comes for the producer fall.
    pub(crate) fn remove_producer(&self, id: u64) {
        self.shared.state.lock().producers.remove(&id);
    }

    /// Lets what comes for the consumer fall.
    pub(crate) fn remove_consumer(&self, id: u64) {
        self.shared.state.lock().consumers.remove(&id);
    }
}

/// Takes a request back when nobody waits for its answer any more.
struct Forget<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.shared.state.lock().requests.remove(&self.id);
    }
}

impl Shared {
    fn alive(&self) -> Result<parking_lot::MutexGuard<'_, State>, Error> {
        let state = self.state.lock();
        match &state.ended {
            Some(error) => Err(error.clone()),
            None => Ok(state),
        }
    }

    fn wait_for(&self, id: u64, waiting: Waiting) -> Result<(), Error> {
        self.alive()?.requests.insert(id, waiting);
        Ok(())
    }

    fn ended(&self) -> Error {
        self.state.lock().ended.clone().unwrap_or_else(|| Error::Closed("it was given up".to_owned()))
    }

    /// Ends the connection: everyone who waits is told, everyone who comes later too.
    fn end(&self, error: &Error) {
        let mut state = self.state.lock();
        let ended = std::mem::take(&mut *state);
        state.ended = Some(error.clone());
        drop(state);
        for waiting in ended.requests.into_values() {
            // Whoever has given up waiting is not told.
            drop(waiting.answer.send(Err(error.clone())));
        }
    }

    /// Hands a frame to whom it is for; gives back what is to be answered.
    fn dispatch(&self, frame: Frame) -> Result<Option<Command>, Error> {
        match frame {
            Frame::Unknown(number) => debug!(number, "command passed over"),
            Frame::Payload(Command::Message(message), entry) => self.deliver(message, entry)?,
            Frame::Payload(command, _) => debug!(command = command.name(), "command passed over"),
            Frame::Simple(command) => return self.dispatch_command(command),
        }
        Ok(None)
    }

    fn dispatch_command(&self, command: Command) -> Result<Option<Command>, Error> {
        match command {
            Command::Ping(_) => return Ok(Some(CommandPong {}.into())),
            Command::Pong(_) => {}
            Command::SendReceipt(receipt) => {
                self.tell_producer(receipt.producer_id, ProducerEvent::Receipt(receipt))?;
            }
            Command::SendError(error) => {
                self.tell_producer(error.producer_id, ProducerEvent::Error(error))?;
            }
            // Their channels end, and they connect again.
            Command::CloseProducer(close) => drop(self.state.lock().producers.remove(&close.producer_id)),
            Command::CloseConsumer(close) => drop(self.state.lock().consumers.remove(&close.consumer_id)),
            Command::Error(error) if error.request_id == NO_REQUEST => {
                return Err(Error::Closed(format!("{}: {}", error.error(), error.message)));
            }
            command => self.answer(command),
        }
        Ok(None)
    }

    fn answer(&self, command: Command) {
        let Some(id) = answers(&command) else {
            debug!(command = command.name(), "command passed over");
            return;
        };
        let Some(waiting) = self.state.lock().requests.remove(&id) else {
            debug!(id, command = command.name(), "nobody waits for this answer any more");
            return;
        };
        let answer = match command {
            Command::Error(error) => {
                Err(Error::Server { request: waiting.request, error: error.error(), message: error.message })
            }
            answer => Ok(answer),
        };
        // Whoever has given up waiting is not told.
        drop(waiting.answer.send(answer));
    }

    fn deliver(&self, message: CommandMessage, entry: Bytes) -> Result<(), Error> {
        let id = message.consumer_id;
        let consumer = self.state.lock().consumers.get(&id).cloned();
        // One that has just been closed may still be sent to.
        let Some(consumer) = consumer else { return Ok(()) };
        match consumer.try_send(Delivered { message, entry }) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(Error::Closed(format!("more was sent to consumer {id} than it has permitted")))
            }
        }
    }

    fn tell_producer(&self, id: u64, event: ProducerEvent) -> Result<(), Error> {
        let producer = self.state.lock().producers.get(&id).cloned();
        let Some(producer) = producer else { return Ok(()) };
        match producer.try_send(event) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Error::Closed(format!(
                "more receipts were sent to producer {id} than it has sent entries"
            ))),
        }
    }
}

/// The request that a command answers.
fn answers(command: &Command) -> Option<u64> {
    match command {
        Command::Success(answer) => Some(answer.request_id),
        Command::Error(answer) => Some(answer.request_id),
        Command::ProducerSuccess(answer) => Some(answer.request_id),
        Command::LookupTopicResponse(answer) => Some(answer.request_id),
        Command::PartitionedTopicMetadataResponse(answer) => Some(answer.request_id),
        Command::GetTopicsOfNamespaceResponse(answer) => Some(answer.request_id),
        Command::GetLastMessageIdResponse(answer) => Some(answer.request_id),
        Command::ConsumerStatsResponse(answer) => Some(answer.request_id),
        Command::AckResponse(answer) => answer.request_id,
        _ => None,
    }
}

/// What is read at once, at most, unless a frame is larger.
const READ_BUFFER: usize = 64 * 1024;

/// How many bytes of small frames are written at once.
const WRITE_BUFFER: usize = 64 * 1024;

/// Sends CONNECT; gives the protocol version and message size that the server answers.
async fn handshake<S>(
    stream: &mut S,
    hello: &Hello,
    decoder: &Decoder,
    buffer: &mut BytesMut,
) -> Result<(i32, usize), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let method = if hello.token.is_some() { "token" } else { "none" };
    let auth_data = hello.token.clone().map(Bytes::from);
    let connect = CommandConnect {
        client_version: concat!("weir-", env!("CARGO_PKG_VERSION")).to_owned(),
        auth_data: auth_data.clone(),
        protocol_version: Some(PROTOCOL_VERSION),
        auth_method_name: Some(method.to_owned()),
        proxy_to_broker_url: hello.proxy_to.clone(),
        feature_flags: Some(FeatureFlags { supports_auth_refresh: Some(true), ..Default::default() }),
        ..Default::default()
    };
    write_command(stream, &connect.into()).await?;
    loop {
        let frame = loop {
            if let Some(frame) = decoder.decode(buffer)? {
                break frame;
            }
            if stream.read_buf(buffer).await.map_err(|error| lost(&error))? == 0 {
                return Err(Error::Closed("the server closed it during the handshake".to_owned()));
            }
        };
        match frame {
            Frame::Simple(Command::Connected(connected)) => {
                let size = connected.max_message_size.and_then(|size| usize::try_from(size).ok());
                let size = size.filter(|size| *size > 0).unwrap_or(DEFAULT_MAX_MESSAGE_SIZE);
                return Ok((connected.protocol_version().min(PROTOCOL_VERSION), size));
            }
            Frame::Simple(Command::AuthChallenge(_)) => {
                let response = CommandAuthResponse {
                    response: Some(AuthData {
                        auth_method_name: Some(method.to_owned()),
                        auth_data: auth_data.clone(),
                    }),
                    protocol_version: Some(PROTOCOL_VERSION),
                    ..Default::default()
                };
                write_command(stream, &response.into()).await?;
            }
            Frame::Simple(Command::Error(error)) => {
                return Err(Error::Server {
                    request: "CONNECT",
                    error: error.error(),
                    message: error.message,
                });
            }
            Frame::Simple(other) | Frame::Payload(other, _) => {
                return Err(Error::Answer { request: "CONNECT", answer: other.name() });
            }
            Frame::Unknown(_) => {
                return Err(Error::Answer { request: "CONNECT", answer: "an unknown command" });
            }
        }
    }
}

async fn write_command<S: AsyncWrite + Unpin>(stream: &mut S, command: &Command) -> Result<(), Error> {
    let mut frame = BytesMut::new();
    encode(command, &mut frame);
    stream.write_all(&frame).await.map_err(|error| lost(&error))
}

fn lost(error: &std::io::Error) -> Error {
    Error::Closed(error.to_string())
}

/// Writes what comes until the last handle is dropped or the peer is gone.
async fn write_all<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut frames: mpsc::UnboundedReceiver<Bytes>,
) -> std::io::Result<()> {
    let mut small = BytesMut::new();
    while let Some(frame) = frames.recv().await {
        let mut next = Some(frame);
        while let Some(frame) = next {
            if small.len() + frame.len() > WRITE_BUFFER {
                writer.write_all(&small).await?;
                small.clear();
            }
            if frame.len() > WRITE_BUFFER {
                writer.write_all(&frame).await?;
            } else {
                small.extend_from_slice(&frame);
            }
            next = frames.try_recv().ok();
        }
        writer.write_all(&small).await?;
        small.clear();
        writer.flush().await?;
    }
    writer.shutdown().await
}

/// The reading task.
struct Reading<R> {
    reader: R,
    decoder: Decoder,
    buffer: BytesMut,
    shared: Arc<Shared>,
    outgoing: mpsc::WeakUnboundedSender<Bytes>,
    writer: JoinHandle<std::io::Result<()>>,
    keep_alive: Duration,
}

impl<R: AsyncRead + Unpin> Reading<R> {
    async fn run(mut self) {
        let error = self.read().await;
        debug!(%error, "connection ended");
        self.shared.end(&error);
        self.writer.abort();
    }

    /// Reads until it ends; gives back why.
    async fn read(&mut self) -> Error {
        let mut tick = interval_at(Instant::now() + self.keep_alive, self.keep_alive);
        let mut heard = true;
        loop {
            match self.take_frames() {
                Ok(0) => {}
                Ok(_) => heard = true,
                Err(error) => return error,
            }
            tokio::select! {
                read = self.reader.read_buf(&mut self.buffer) => match read {
                    Ok(0) => return Error::Closed("the server closed it".to_owned()),
                    Ok(_) => {}
                    Err(error) => return lost(&error),
                },
                _ = tick.tick() => {
                    if !heard {
                        return Error::Closed(format!("the server was silent for {:?}", self.keep_alive));
                    }
                    heard = false;
                    self.reply(&CommandPing {}.into());
                }
                written = &mut self.writer => return match written {
                    Ok(Ok(())) => Error::Closed("it was closed here".to_owned()),
                    Ok(Err(error)) => lost(&error),
                    Err(error) => Error::Closed(error.to_string()),
                },
            }
        }
    }

    /// Hands out all frames that have arrived; gives their number.
    fn take_frames(&mut self) -> Result<usize, Error> {
        let mut frames = 0;
        while let Some(frame) = self.decoder.decode(&mut self.buffer)? {
            frames += 1;
            if let Some(answer) = self.shared.dispatch(frame)? {
                self.reply(&answer);
            }
        }
        Ok(frames)
    }

    fn reply(&self, command: &Command) {
        // With the last handle gone, the writer ends, and with it this task.
        let Some(outgoing) = self.outgoing.upgrade() else { return };
        let mut frame = BytesMut::new();
        encode(command, &mut frame);
        if outgoing.send(frame.freeze()).is_err() {
            debug!("not written: the connection has ended");
        }
    }
}

#[cfg(test)]
mod tests;
