//! The Pulsar binary protocol by hand: frames, the few commands that tests send, and any answer as numbered
//! fields. Shares nothing with weir's own encoder, so that both cannot be wrong in the same way.
//!
//! Source: Pulsar's `PulsarApi.proto` and the framing of its binary protocol page.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::wait::PATIENCE;

/// Command types, which are their field numbers in `BaseCommand` too.
pub mod kind {
    /// CONNECT.
    pub const CONNECT: u64 = 2;
    /// CONNECTED.
    pub const CONNECTED: u64 = 3;
    /// SUBSCRIBE.
    pub const SUBSCRIBE: u64 = 4;
    /// PRODUCER.
    pub const PRODUCER: u64 = 5;
    /// SEND.
    pub const SEND: u64 = 6;
    /// SEND_RECEIPT.
    pub const SEND_RECEIPT: u64 = 7;
    /// SEND_ERROR.
    pub const SEND_ERROR: u64 = 8;
    /// MESSAGE.
    pub const MESSAGE: u64 = 9;
    /// ACK.
    pub const ACK: u64 = 10;
    /// FLOW.
    pub const FLOW: u64 = 11;
    /// SUCCESS.
    pub const SUCCESS: u64 = 13;
    /// ERROR.
    pub const ERROR: u64 = 14;
    /// CLOSE_PRODUCER.
    pub const CLOSE_PRODUCER: u64 = 15;
    /// CLOSE_CONSUMER.
    pub const CLOSE_CONSUMER: u64 = 16;
    /// PRODUCER_SUCCESS.
    pub const PRODUCER_SUCCESS: u64 = 17;
    /// PING.
    pub const PING: u64 = 18;
    /// PONG.
    pub const PONG: u64 = 19;
    /// PARTITIONED_METADATA.
    pub const PARTITIONED_METADATA: u64 = 21;
    /// PARTITIONED_METADATA_RESPONSE.
    pub const PARTITIONED_METADATA_RESPONSE: u64 = 22;
    /// LOOKUP.
    pub const LOOKUP: u64 = 23;
    /// LOOKUP_RESPONSE.
    pub const LOOKUP_RESPONSE: u64 = 24;
    /// SEEK.
    pub const SEEK: u64 = 28;
    /// GET_LAST_MESSAGE_ID.
    pub const GET_LAST_MESSAGE_ID: u64 = 29;
    /// GET_TOPICS_OF_NAMESPACE.
    pub const GET_TOPICS_OF_NAMESPACE: u64 = 32;
    /// GET_TOPICS_OF_NAMESPACE_RESPONSE.
    pub const GET_TOPICS_OF_NAMESPACE_RESPONSE: u64 = 33;
    /// ACK_RESPONSE.
    pub const ACK_RESPONSE: u64 = 38;
}

/// `ServerError` values that tests name.
pub mod error {
    /// MetadataError.
    pub const METADATA: u64 = 1;
    /// PersistenceError.
    pub const PERSISTENCE: u64 = 2;
    /// ServiceNotReady.
    pub const SERVICE_NOT_READY: u64 = 6;
    /// ChecksumError.
    pub const CHECKSUM: u64 = 9;
    /// TopicNotFound.
    pub const TOPIC_NOT_FOUND: u64 = 11;
    /// InvalidTopicName.
    pub const INVALID_TOPIC_NAME: u64 = 17;
    /// NotAllowedError.
    pub const NOT_ALLOWED: u64 = 22;
}

/// The largest answer that a test takes.
const MAX_FRAME: usize = 16 << 20;

/// A protobuf message being written.
#[derive(Clone, Debug, Default)]
pub struct Fields(Vec<u8>);

impl Fields {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an integer, enum or bool.
    #[must_use]
    pub fn int(mut self, field: u64, value: u64) -> Self {
        varint(&mut self.0, field << 3);
        varint(&mut self.0, value);
        self
    }

    /// Adds a string, bytes, or a message that is written already.
    #[must_use]
    pub fn bytes(mut self, field: u64, value: impl AsRef<[u8]>) -> Self {
        varint(&mut self.0, field << 3 | 2);
        varint(&mut self.0, value.as_ref().len() as u64);
        self.0.extend_from_slice(value.as_ref());
        self
    }

    /// Adds what was written elsewhere.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// What was written.
    #[must_use]
    pub fn done(self) -> Vec<u8> {
        self.0
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// A protobuf message that was read: each field's number and value, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message(pub Vec<(u64, Field)>);

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// An integer, enum or bool.
    Int(u64),
    /// Text, bytes, or a message in it.
    Bytes(Vec<u8>),
}

impl Message {
    /// Reads one; `None` if the bytes are none.
    #[must_use]
    pub fn read(mut bytes: &[u8]) -> Option<Self> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = read_varint(&mut bytes)?;
            let value = match tag & 7 {
                0 => Field::Int(read_varint(&mut bytes)?),
                1 => Field::Bytes(bytes.split_off(..8)?.to_vec()),
                2 => {
                    let length = usize::try_from(read_varint(&mut bytes)?).ok()?;
                    Field::Bytes(bytes.split_off(..length)?.to_vec())
                }
                5 => Field::Bytes(bytes.split_off(..4)?.to_vec()),
                _ => return None,
            };
            fields.push((tag >> 3, value));
        }
        Some(Self(fields))
    }

    /// The last integer of that number.
    #[must_use]
    pub fn int(&self, field: u64) -> Option<u64> {
        self.0.iter().rev().find_map(|(number, value)| match value {
            Field::Int(value) if *number == field => Some(*value),
            _ => None,
        })
    }

    /// All texts of that number.
    #[must_use]
    pub fn texts(&self, field: u64) -> Vec<String> {
        let texts = self.0.iter().filter_map(|(number, value)| match value {
            Field::Bytes(bytes) if *number == field => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        });
        texts.collect()
    }

    /// The text of that number; empty if there is none.
    #[must_use]
    pub fn text(&self, field: u64) -> String {
        self.texts(field).pop().unwrap_or_default()
    }

    /// The message of that number.
    #[must_use]
    pub fn message(&self, field: u64) -> Option<Self> {
        self.0.iter().rev().find_map(|(number, value)| match value {
            Field::Bytes(bytes) if *number == field => Self::read(bytes),
            _ => None,
        })
    }
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// A command that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its type.
    pub kind: u64,
    /// Its own message.
    pub body: Message,
    /// What follows it in the frame: an entry, from its checksum's magic on.
    pub entry: Vec<u8>,
}

/// The bytes of a frame with a command.
#[must_use]
pub fn frame(kind: u64, body: Fields) -> Vec<u8> {
    frame_with(kind, body, &[])
}

/// The bytes of a frame with a command and an entry behind it.
///
/// # Panics
/// When it is larger than the protocol can say.
#[must_use]
pub fn frame_with(kind: u64, body: Fields, entry: &[u8]) -> Vec<u8> {
    let command = Fields::new().int(1, kind).bytes(kind, body.done()).done();
    let size = |bytes: usize| u32::try_from(bytes).expect("a test's frame is small").to_be_bytes();
    let mut frame = Vec::new();
    frame.extend_from_slice(&size(4 + command.len() + entry.len()));
    frame.extend_from_slice(&size(command.len()));
    frame.extend_from_slice(&command);
    frame.extend_from_slice(entry);
    frame
}

/// An entry of one message: checksum, metadata, payload.
///
/// # Panics
/// When it is larger than the protocol can say.
#[must_use]
pub fn entry(producer: &str, sequence: u64, properties: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    entry_of(properties_of(producer, sequence, properties), payload)
}

/// Properties of a message, as a test writes them.
pub type Properties<'a> = &'a [(&'a str, &'a str)];

/// An entry of several messages, each with its properties and payload.
///
/// # Panics
/// When it is larger than the protocol can say.
#[must_use]
pub fn batch_entry(producer: &str, sequence: u64, messages: &[(Properties<'_>, &[u8])]) -> Vec<u8> {
    let size = |n: usize| u32::try_from(n).expect("a test's messages are small");
    let mut all = Vec::new();
    for (properties, payload) in messages {
        let mut metadata = Fields::new();
        for (key, value) in *properties {
            metadata = metadata.bytes(1, Fields::new().bytes(1, key).bytes(2, value).done());
        }
        let metadata = metadata.int(3, size(payload.len()).into()).done();
        all.extend_from_slice(&size(metadata.len()).to_be_bytes());
        all.extend_from_slice(&metadata);
        all.extend_from_slice(payload);
    }
    entry_of(properties_of(producer, sequence, &[]).int(11, size(messages.len()).into()), &all)
}

/// An entry of one message that its producer has encrypted, as far as anybody without the key can see.
///
/// # Panics
/// When it is larger than the protocol can say.
#[must_use]
pub fn sealed_entry(producer: &str, sequence: u64, payload: &[u8]) -> Vec<u8> {
    let key = Fields::new().bytes(1, "key-1").bytes(2, [1, 2, 3]);
    entry_of(properties_of(producer, sequence, &[]).bytes(13, key.done()).bytes(15, [7; 12]), payload)
}

fn properties_of(producer: &str, sequence: u64, properties: &[(&str, &str)]) -> Fields {
    let mut metadata = Fields::new().bytes(1, producer).int(2, sequence).int(3, 1_700_000_000_000);
    for (key, value) in properties {
        metadata = metadata.bytes(4, Fields::new().bytes(1, key).bytes(2, value).done());
    }
    metadata
}

/// An entry with these metadata.
///
/// # Panics
/// When it is larger than the protocol can say.
#[must_use]
pub fn entry_of(metadata: Fields, payload: &[u8]) -> Vec<u8> {
    let metadata = metadata.done();
    let mut checked = Vec::new();
    checked
        .extend_from_slice(&u32::try_from(metadata.len()).expect("a test's metadata is small").to_be_bytes());
    checked.extend_from_slice(&metadata);
    checked.extend_from_slice(payload);
    let mut entry = vec![0x0e, 0x01];
    entry.extend_from_slice(&crc32c::crc32c(&checked).to_be_bytes());
    entry.extend_from_slice(&checked);
    entry
}

/// CONNECT as the stock clients send it.
#[must_use]
pub fn connect() -> Vec<u8> {
    frame(kind::CONNECT, Fields::new().bytes(1, "weir-tests").int(4, 21).bytes(5, "none"))
}

/// A connection to the Pulsar port.
pub struct Connection {
    stream: TcpStream,
}

impl Connection {
    /// Connects, and says nothing yet.
    ///
    /// # Panics
    /// When it cannot connect.
    #[track_caller]
    #[must_use]
    pub fn raw(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the Pulsar port takes connections");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout can be set");
        stream.set_nodelay(true).expect("small writes go out at once");
        Self { stream }
    }

    /// Connects and shakes hands.
    ///
    /// # Panics
    /// When it is not welcome.
    #[track_caller]
    #[must_use]
    pub fn open(address: SocketAddr) -> Self {
        let mut connection = Self::raw(address);
        connection.write(&connect());
        let answer = connection.read();
        assert_eq!(answer.kind, kind::CONNECTED, "{answer:?}");
        connection
    }

    /// Writes bytes as they are. A peer that has closed already is no failure: what it answers is.
    pub fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends a command.
    pub fn send(&mut self, kind: u64, body: Fields) {
        self.write(&frame(kind, body));
    }

    /// The next command; PINGs are answered on the way.
    ///
    /// # Panics
    /// When the connection ends instead.
    #[track_caller]
    pub fn read(&mut self) -> Received {
        match self.receive() {
            Ok(Some(received)) => received,
            Ok(None) => panic!("the connection was closed"),
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// The next command of that type; others are passed over.
    ///
    /// # Panics
    /// When the connection ends first.
    #[track_caller]
    pub fn read_kind(&mut self, kind: u64) -> Received {
        loop {
            let received = self.read();
            if received.kind == kind {
                return received;
            }
        }
    }

    /// The next command; `None` once the peer has closed.
    ///
    /// # Errors
    /// When nothing comes in time.
    pub fn receive(&mut self) -> io::Result<Option<Received>> {
        loop {
            let Some(size) = self.number()? else { return Ok(None) };
            let broken = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
            if !(4..=MAX_FRAME).contains(&size) {
                return Err(broken(format!("a frame of {size} bytes")));
            }
            let mut frame = vec![0; size];
            self.stream.read_exact(&mut frame)?;
            let (head, rest) = frame.split_at(4);
            let length = head.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
            let command = rest.get(..length).and_then(Message::read);
            let command = command.ok_or_else(|| broken(format!("not a command: {frame:02x?}")))?;
            let kind = command.int(1).ok_or_else(|| broken("a command without a type".to_owned()))?;
            if kind == kind::PING {
                self.send(kind::PONG, Fields::new());
                continue;
            }
            let body = command.message(kind).unwrap_or(Message(Vec::new()));
            return Ok(Some(Received { kind, body, entry: rest[length..].to_vec() }));
        }
    }

    fn number(&mut self) -> io::Result<Option<usize>> {
        let mut bytes = [0; 4];
        let mut filled = 0;
        while filled < 4 {
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => return Ok(None),
                Ok(read) => filled += read,
                // How a system says that the peer closed with bytes unread.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(usize::try_from(u32::from_be_bytes(bytes)).ok())
    }

    /// Waits until the peer closes; returns the commands that it sent before.
    ///
    /// # Panics
    /// When it does not close in time.
    #[track_caller]
    pub fn until_closed(&mut self) -> Vec<Received> {
        let mut received = Vec::new();
        loop {
            match self.receive() {
                Ok(Some(command)) => received.push(command),
                Ok(None) => return received,
                Err(error) => panic!("the connection was not closed: {error} (after {received:?})"),
            }
        }
    }

    /// Ends our side of the connection; what the peer still says can be read.
    pub fn shut(&self) {
        // A peer that has closed already is no failure.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Makes a producer; the answer may be an error.
    ///
    /// # Panics
    /// When there is no answer.
    #[track_caller]
    pub fn producer(&mut self, topic: &str, producer: u64, request: u64) -> Received {
        self.send(kind::PRODUCER, Fields::new().bytes(1, topic).int(2, producer).int(3, request));
        self.read()
    }

    /// Subscribes, exclusively, from the earliest; the answer may be an error.
    ///
    /// # Panics
    /// When there is no answer.
    #[track_caller]
    pub fn subscribe(&mut self, topic: &str, subscription: &str, consumer: u64, request: u64) -> Received {
        let body = Fields::new().bytes(1, topic).bytes(2, subscription).int(3, 0).int(4, consumer);
        self.send(kind::SUBSCRIBE, body.int(5, request).int(13, 1));
        self.read()
    }

    /// Publishes an entry of one message; the answer may be an error.
    ///
    /// # Panics
    /// When there is no answer.
    #[track_caller]
    pub fn publish(&mut self, producer: u64, sequence: u64, entry: &[u8]) -> Received {
        self.write(&frame_with(kind::SEND, Fields::new().int(1, producer).int(2, sequence), entry));
        self.read()
    }
}
