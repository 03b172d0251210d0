//! Frames: how commands and entries lie in a stream of bytes.
//!
//! ```text
//! u32 total | u32 command length | command                            a simple command
//! u32 total | u32 command length | command | stored entry             SEND and MESSAGE
//! ```
//!
//! All lengths are big-endian and count what follows them. What the entry looks like is not looked at
//! here: `entry.rs` knows.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::command::{Command, name_of};
use super::fields::{FieldError, Value, fields};
use super::{DEFAULT_MAX_MESSAGE_SIZE, FRAME_PADDING};

/// A frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A command alone.
    Simple(Command),
    /// SEND or MESSAGE, and the entry that it carries: the very bytes that are stored and delivered.
    Payload(Command, Bytes),
    /// A command of this number, which is not served. The frame is well formed.
    Unknown(i32),
}

/// What a peer may make us hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest frame, without its first four bytes.
    pub frame: usize,
    /// How many fields a command may have, those of the messages within it included. An
    /// acknowledgement of n entries has about 3n; decoded, a field takes at most some 40 bytes beside
    /// its text (packed numbers: eight times what they take in the frame).
    pub fields: usize,
}

impl Limits {
    /// For a server: clients acknowledge by the thousand, not by the million.
    pub const MAX_REQUEST_FIELDS: usize = 256 * 1024;
    /// For a client, whose server may list a very large namespace.
    pub const MAX_RESPONSE_FIELDS: usize = 16 * 1024 * 1024;

    /// For a server whose largest payload with metadata is `max_message_size` bytes.
    pub const fn server(max_message_size: usize) -> Self {
        Self { frame: max_message_size + FRAME_PADDING, fields: Self::MAX_REQUEST_FIELDS }
    }

    /// For a client of a server whose largest payload with metadata is `max_message_size` bytes.
    pub const fn client(max_message_size: usize) -> Self {
        Self { frame: max_message_size + FRAME_PADDING, fields: Self::MAX_RESPONSE_FIELDS }
    }
}

impl Default for Limits {
    /// A server's, with Pulsar's default message size.
    fn default() -> Self {
        Self::server(DEFAULT_MAX_MESSAGE_SIZE)
    }
}

/// Why bytes are not a frame. The connection cannot go on: where the next frame begins is not known, or
/// its peer does not mean what it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The peer speaks another protocol.
    #[error("the peer speaks {0}, not the Pulsar binary protocol")]
    NotPulsar(&'static str),
    /// The frame cannot hold a command.
    #[error("a frame announces {announced} bytes; the smallest has {MIN_FRAME}")]
    FrameTooSmall {
        /// What it announces.
        announced: usize,
    },
    /// The frame is larger than is taken.
    #[error("a frame announces {announced} bytes; at most {limit} are taken")]
    FrameTooLarge {
        /// What it announces.
        announced: usize,
        /// See [`Limits::frame`].
        limit: usize,
    },
    /// The command is larger than its frame.
    #[error("a command announces {announced} bytes; its frame has room for {room}")]
    CommandTooLarge {
        /// What it announces.
        announced: usize,
        /// What the frame has left for it.
        room: usize,
    },
    /// A command other than SEND and MESSAGE is followed by something.
    #[error("{bytes} bytes follow the command {command}, which carries no payload")]
    TrailingBytes {
        /// Which command.
        command: &'static str,
        /// How many bytes.
        bytes: usize,
    },
    /// A command says what it is, and lacks what it should hold.
    #[error("the command {command} has no body")]
    NoBody {
        /// Which command.
        command: &'static str,
    },
    /// A field that must be there is not.
    #[error("{message} lacks its required field {field}")]
    MissingField {
        /// Which message.
        message: &'static str,
        /// Which field.
        field: &'static str,
    },
    /// A field that decides what a command does has a value that is not known.
    #[error("field {field} of {message} has the unknown value {value}")]
    UnknownValue {
        /// Which message.
        message: &'static str,
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// Decoding the command would take more memory than is given.
    #[error("{message} has more fields than a command may have")]
    TooManyFields {
        /// The message that was one too many.
        message: &'static str,
    },
    /// Messages lie too deep in each other.
    #[error("{message} lies too deep within other messages")]
    TooDeep {
        /// The innermost message.
        message: &'static str,
    },
    /// The bytes are not the fields of a message.
    #[error("{message} cannot be read: {source}")]
    Fields {
        /// Which message.
        message: &'static str,
        /// Where and why.
        source: FieldError,
    },
    /// A field has another type than its message says.
    #[error("the command {command} cannot be read")]
    Malformed {
        /// Which command.
        command: &'static str,
        /// Which field, and why.
        source: prost::DecodeError,
    },
}

/// The smallest frame: a command's length, and a command that says what it is.
const MIN_FRAME: usize = LENGTH + 2;

/// A length on the wire.
const LENGTH: usize = 4;

/// Cuts a stream of bytes into frames.
///
/// Announced lengths are checked as soon as they have arrived, and nothing is reserved for them: what a
/// connection holds is what has come in, and what the reader adds to its buffer for the next read.
#[derive(Clone, Debug)]
pub struct Decoder {
    limits: Limits,
}

impl Decoder {
    /// A decoder with these limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }

    /// Replaces the limits: a client does so when the server has told its own.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Takes the next frame off `buffer`. `Ok(None)`: it has not all arrived.
    ///
    /// Payloads share `buffer`'s memory.
    ///
    /// # Errors
    /// See [`DecodeError`]; `buffer` is of no use then.
    pub fn decode(&self, buffer: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        let Some(total) = length_at(buffer, 0) else { return Ok(None) };
        self.check_total(total, buffer)?;
        let Some(command) = length_at(buffer, LENGTH) else { return Ok(None) };
        let room = total - LENGTH;
        if command > room {
            return Err(DecodeError::CommandTooLarge { announced: command, room });
        }
        if buffer.len() < LENGTH + total {
            return Ok(None);
        }
        let mut frame = buffer.split_to(LENGTH + total).freeze();
        frame.advance(2 * LENGTH);
        let command = frame.split_to(command);
        self.frame(&command, frame).map(Some)
    }

    fn check_total(&self, total: usize, buffer: &[u8]) -> Result<(), DecodeError> {
        if total < MIN_FRAME {
            return Err(DecodeError::FrameTooSmall { announced: total });
        }
        if total > self.limits.frame {
            return Err(match other_protocol(buffer) {
                Some(name) => DecodeError::NotPulsar(name),
                None => DecodeError::FrameTooLarge { announced: total, limit: self.limits.frame },
            });
        }
        Ok(())
    }

    fn frame(&self, command: &Bytes, payload: Bytes) -> Result<Frame, DecodeError> {
        let (number, body) = base_command(command)?;
        let Some(name) = name_of(number) else { return Ok(Frame::Unknown(number)) };
        let body = match body {
            Some(body) => body,
            // The only commands that say all by their number.
            None if name == "PING" || name == "PONG" => Bytes::new(),
            None => return Err(DecodeError::NoBody { command: name }),
        };
        match Command::decode(number, body, self.limits.fields)? {
            Some(command @ (Command::Send(_) | Command::Message(_))) => Ok(Frame::Payload(command, payload)),
            Some(command) if payload.is_empty() => Ok(Frame::Simple(command)),
            Some(_) => Err(DecodeError::TrailingBytes { command: name, bytes: payload.len() }),
            None => Ok(Frame::Unknown(number)),
        }
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

/// Finds the number of a command, and its body if it has one.
fn base_command(command: &Bytes) -> Result<(i32, Option<Bytes>), DecodeError> {
    const MESSAGE: &str = "BaseCommand";
    let mut number = None;
    for field in fields(command) {
        let field = field.map_err(|source| DecodeError::Fields { message: MESSAGE, source })?;
        if let (1, Value::Varint(value)) = (field.tag, &field.value) {
            // As protobuf does: an enumeration's number is the low half of what is on the wire.
            number = Some(*value as i32);
        }
    }
    let number = number.ok_or(DecodeError::MissingField { message: MESSAGE, field: "type" })?;
    let body = fields(command).flatten().filter(|field| i32::try_from(field.tag) == Ok(number)).last();
    Ok((
        number,
        body.and_then(|field| match field.value {
            Value::Bytes(_, range) => Some(command.slice(range)),
            Value::Varint(_) | Value::Fixed => None,
        }),
    ))
}

fn length_at(buffer: &[u8], at: usize) -> Option<usize> {
    let bytes = buffer.get(at..at + LENGTH)?;
    Some(u32::from_be_bytes(bytes.try_into().expect("LENGTH is the size of a u32")) as usize)
}

/// What the first bytes of a stream say, if they are another protocol's.
fn other_protocol(start: &[u8]) -> Option<&'static str> {
    const HTTP: [&[u8]; 6] = [b"GET ", b"PUT ", b"POST", b"HEAD", b"DELE", b"OPTI"];
    if HTTP.iter().any(|method| start.starts_with(method)) {
        return Some("HTTP");
    }
    // A handshake record of any version of TLS.
    start.starts_with(&[0x16, 0x03]).then_some("TLS")
}

/// Writes the frame of a command alone.
pub fn encode(command: &Command, out: &mut BytesMut) {
    encode_header(command, 0, out);
}

/// Writes the frame of SEND or MESSAGE with its entry, which is copied as it is.
pub fn encode_with_payload(command: &Command, entry: &[u8], out: &mut BytesMut) {
    encode_header(command, entry.len(), out);
    out.put_slice(entry);
}

/// Writes the frame of SEND or MESSAGE up to its entry, whose `entry_len` bytes the caller writes
/// next: without a copy, if its socket takes several buffers at once.
pub fn encode_header(command: &Command, entry_len: usize, out: &mut BytesMut) {
    let command_len = command.encoded_len();
    out.reserve(2 * LENGTH + command_len + entry_len.min(MAX_INLINE));
    out.put_u32((LENGTH + command_len + entry_len) as u32);
    out.put_u32(command_len as u32);
    command.encode(out);
}

/// Up to this size an entry is likely to be copied behind its header.
const MAX_INLINE: usize = 64 * 1024;

#[cfg(test)]
mod tests;
