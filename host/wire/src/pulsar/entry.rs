//! Stored entries: what a producer sent, from the checksum on, read message by message.
//!
//! ```text
//! [0x0e02, u32 n, n bytes of broker metadata]   what a broker with interceptors adds; skipped
//! [0x0e01, u32 CRC32C of all that follows]
//! u32 metadata length | metadata | payload
//! ```
//!
//! If the metadata have a number of messages, the payload, unpacked, is a batch: for each message a u32
//! length, its metadata, its payload.
//!
//! An entry is never encoded anew from its decoded metadata: fields that we do not know would be lost.
//! [`OpenEntry::keep`] (`entry/rewrite.rs`) edits the bytes. `entry/message.rs` reads single messages,
//! `entry/build.rs` makes entries.

mod build;
mod message;
mod rewrite;

use std::ops::Range;

use bytes::Bytes;
use prost::Message as _;

pub use build::{BatchBuilder, single, write};
pub use message::Message;

use super::codec::{CodecError, decompress};
use super::command::{CompressionType, shape};
use super::frame::DecodeError;
use super::metadata::MessageMetadata;
use message::{BATCHED, OUTER, Parsed, Span, parse};

/// Announces the checksum.
const CHECKSUM_MAGIC: u16 = 0x0e01;

/// Announces a broker's metadata.
const BROKER_MAGIC: u16 = 0x0e02;

/// How many fields the metadata of an entry may have, those of its properties included. A field takes
/// at most some 40 bytes when it is decoded, so this is 2.5 MiB beside the texts themselves.
const MAX_METADATA_FIELDS: usize = 64 * 1024;

/// Why an entry cannot be read or rewritten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// It ends too early.
    #[error("the entry ends within its {0}")]
    Cut(&'static str),
    /// Its checksum is another one.
    #[error("the entry has crc32c {actual:08x}, its producer wrote {announced:08x}")]
    Checksum {
        /// What the entry says.
        announced: u32,
        /// What its bytes give.
        actual: u32,
    },
    /// Its metadata cannot be read.
    #[error("the entry's metadata cannot be read")]
    Metadata(#[source] DecodeError),
    /// Its producer's key is needed to read it.
    #[error("the entry is encrypted")]
    Encrypted,
    /// A compression that is not known.
    #[error("the entry has the unknown compression {0}")]
    Compression(i32),
    /// It cannot be unpacked.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// Its metadata give a number of messages that cannot be.
    #[error("a batch of {announced} messages cannot lie in {bytes} bytes")]
    BatchSize {
        /// What its metadata say.
        announced: i32,
        /// The size of its unpacked payload.
        bytes: usize,
    },
    /// A message of its batch cannot be read.
    #[error("message {index} of the batch: {reason}")]
    Batched {
        /// Which message, from 0.
        index: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Its payload goes on after its last message.
    #[error("{bytes} bytes follow the last message of the batch")]
    AfterBatch {
        /// How many bytes.
        bytes: usize,
    },
    /// It was asked to leave out messages, and is not a batch that can do so.
    #[error("a part of the entry cannot be kept: {0}")]
    NotDivisible(&'static str),
}

/// A stored entry, not unpacked yet.
#[derive(Clone, Debug)]
pub struct Entry {
    stored: Bytes,
    checksum: Option<u32>,
    metadata: MessageMetadata,
    metadata_bytes: Bytes,
    payload: Bytes,
}

impl Entry {
    /// Reads an entry's metadata. Neither verifies its checksum nor looks at its payload.
    ///
    /// # Errors
    /// When it is cut short, or its metadata are not those of an entry.
    pub fn parse(stored: &Bytes) -> Result<Self, EntryError> {
        let layout = Layout::of(stored)?;
        let metadata_bytes = stored.slice(layout.metadata.clone());
        shape::MESSAGE_METADATA
            .check(&metadata_bytes, &mut { MAX_METADATA_FIELDS })
            .map_err(EntryError::Metadata)?;
        let metadata = MessageMetadata::decode(metadata_bytes.clone()).map_err(|source| {
            EntryError::Metadata(DecodeError::Malformed { command: "MessageMetadata", source })
        })?;
        Ok(Self {
            stored: stored.clone(),
            checksum: layout.checksum,
            metadata,
            metadata_bytes,
            payload: stored.slice(layout.metadata.end..),
        })
    }

    /// What its producer says of it.
    pub fn metadata(&self) -> &MessageMetadata {
        &self.metadata
    }

    /// The checksum that its producer wrote; `None` if it wrote none.
    pub fn checksum(&self) -> Option<u32> {
        self.checksum
    }

    /// The payload as it was sent: packed, or encrypted.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// How many messages it holds, and how many permits it costs: at least 1.
    pub fn messages(&self) -> u32 {
        u32::try_from(self.metadata.num_messages_in_batch()).unwrap_or(1).max(1)
    }

    /// Whether it is a batch, be it of one message. A marker or a part of a larger message is none.
    pub fn is_batch(&self) -> bool {
        self.metadata.num_messages_in_batch.is_some() && !self.is_marker() && !self.is_chunk()
    }

    /// Whether it was written by a broker for brokers, to mark a point of a transaction or replication.
    pub fn is_marker(&self) -> bool {
        self.metadata.marker_type.is_some()
    }

    /// Whether it is one of several parts of a message, packed before it was cut.
    pub fn is_chunk(&self) -> bool {
        self.metadata.num_chunks_from_msg() > 1
    }

    /// Whether its payload cannot be read without its producer's key.
    pub fn is_encrypted(&self) -> bool {
        !self.metadata.encryption_keys.is_empty() || self.metadata.encryption_algo.is_some()
    }

    /// Unpacks it, to at most `limit` bytes, and finds its messages. Costs the unpacking, one walk over
    /// what came out, and a row of some 100 bytes for each message.
    ///
    /// The part of a chunked message and the content of a marker are given as they are.
    ///
    /// # Errors
    /// When it is encrypted, corrupt, larger than `limit`, or not the batch that its metadata announce.
    pub fn open(self, limit: usize) -> Result<OpenEntry, EntryError> {
        if self.is_encrypted() {
            return Err(EntryError::Encrypted);
        }
        let compression = self.compression()?;
        let body = if self.is_chunk() || self.is_marker() {
            self.payload.clone()
        } else {
            decompress(compression, &self.payload, self.metadata.uncompressed_size() as usize, limit)?
        };
        let mut open = OpenEntry {
            batch: self.is_batch(),
            entry: self,
            body,
            messages: Vec::new(),
            properties: Vec::new(),
        };
        if open.batch {
            open.find_messages()?;
        } else {
            open.find_only_message()?;
        }
        Ok(open)
    }

    fn compression(&self) -> Result<CompressionType, EntryError> {
        match self.metadata.compression {
            None => Ok(CompressionType::None),
            // The getter would take what it does not know for none.
            Some(number) => CompressionType::try_from(number)
                .map_err(|_says_the_number_too| EntryError::Compression(number)),
        }
    }
}

/// An entry whose messages can be seen one by one.
#[derive(Clone, Debug)]
pub struct OpenEntry {
    entry: Entry,
    batch: bool,
    /// The payload, unpacked.
    body: Bytes,
    messages: Vec<Parsed>,
    /// The properties of all messages, one after the other: name and value.
    properties: Vec<(Span, Span)>,
}

impl OpenEntry {
    /// How many messages it holds. At least 1, but for a batch that a compaction has emptied.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether it holds no message.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The bytes that it holds in memory: its payload unpacked, and what was noted of each message.
    pub fn unpacked_bytes(&self) -> usize {
        self.body.len() + size_of_val(self.messages.as_slice()) + size_of_val(self.properties.as_slice())
    }

    /// Whether it is a batch, so that single messages can be left out.
    pub fn is_batch(&self) -> bool {
        self.batch
    }

    /// The entry as it is stored.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The message at `index`; `None` if there are fewer.
    pub fn message(&self, index: usize) -> Option<Message<'_>> {
        self.messages.get(index).map(|parsed| Message::new(self, parsed))
    }

    /// All messages, in order.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = Message<'_>> {
        self.messages.iter().map(|parsed| Message::new(self, parsed))
    }

    /// Where the texts of its messages lie.
    fn text(&self) -> &[u8] {
        if self.batch { &self.body } else { &self.entry.metadata_bytes }
    }

    fn find_only_message(&mut self) -> Result<(), EntryError> {
        let metadata = self.entry.metadata_bytes.clone();
        let mut parsed =
            parse(&metadata, 0..metadata.len(), &OUTER, &mut self.properties).map_err(|reason| {
                // prost has read the same bytes, with the same rules; so this is not reached.
                EntryError::Batched { index: 0, reason }
            })?;
        parsed.payload = 0..self.body.len();
        parsed.record = 0..self.body.len();
        self.messages.push(parsed);
        Ok(())
    }

    fn find_messages(&mut self) -> Result<(), EntryError> {
        /// A length, and metadata that hold at least the size of the payload.
        const SMALLEST: usize = 4 + 2;
        let announced = self.entry.metadata.num_messages_in_batch();
        let compacted = &self.entry.metadata.compacted_batch_indexes;
        let bytes = self.body.len();
        let number =
            if compacted.is_empty() { usize::try_from(announced).ok() } else { Some(compacted.len()) }
                .filter(|number| *number > 0 && *number <= bytes / SMALLEST)
                .ok_or(EntryError::BatchSize { announced, bytes })?;
        self.messages.reserve_exact(number);
        let body = self.body.clone();
        let mut at = 0;
        for index in 0..number {
            let parsed = batched(&body, at, &mut self.properties)
                .map_err(|reason| EntryError::Batched { index, reason })?;
            at = parsed.record.end;
            self.messages.push(parsed);
        }
        if at < bytes {
            return Err(EntryError::AfterBatch { bytes: bytes - at });
        }
        Ok(())
    }
}

/// Reads the message of a batch that begins at `at`.
fn batched(body: &[u8], at: usize, properties: &mut Vec<(Span, Span)>) -> Result<Parsed, String> {
    let cut = |what: &str| format!("the payload ends within its {what}");
    let length = be_u32(body, at).ok_or_else(|| cut("length"))? as usize;
    let start = at + 4;
    if length > body.len() - start {
        return Err(cut("metadata"));
    }
    let mut parsed = parse(body, start..start + length, &BATCHED, properties)?;
    let size = parsed.payload_size.ok_or("its metadata lack the size of its payload")?;
    let size = usize::try_from(size).map_err(|_negative| format!("its payload has a size of {size}"))?;
    let start = start + length;
    if size > body.len() - start {
        return Err(cut("payload"));
    }
    parsed.payload = start..start + size;
    parsed.record = at..start + size;
    Ok(parsed)
}

/// Verifies the checksum of a stored entry; gives it back, or `None` if the producer wrote none.
///
/// # Errors
/// When it is another one than the entry says, or the entry is cut short.
pub fn verify_checksum(stored: &[u8]) -> Result<Option<u32>, EntryError> {
    let layout = Layout::of(stored)?;
    let Some(announced) = layout.checksum else { return Ok(None) };
    let actual = crc32c::crc32c(&stored[layout.covered..]);
    if actual != announced {
        return Err(EntryError::Checksum { announced, actual });
    }
    Ok(Some(actual))
}

/// The entry as it may be delivered to any client: with a checksum, without a broker's metadata. One
/// that is so already is given back as it is; all others have their metadata and payload copied as they are.
///
/// Not all clients look whether there is a checksum; one takes the first bytes of the metadata for it.
///
/// # Errors
/// When the entry is cut short.
pub fn deliverable(stored: &Bytes) -> Result<Bytes, EntryError> {
    let layout = Layout::of(stored)?;
    match layout.checksum {
        Some(_) if layout.covered == CHECKSUM_LEN => Ok(stored.clone()),
        Some(_) => Ok(stored.slice(layout.covered - CHECKSUM_LEN..)),
        None => {
            let metadata = &stored[layout.metadata.clone()];
            Ok(build::frame(metadata, &stored[layout.metadata.end..]))
        }
    }
}

/// The magic and the checksum.
const CHECKSUM_LEN: usize = 6;

/// Where the parts of a stored entry lie.
struct Layout {
    checksum: Option<u32>,
    /// Where what the checksum covers begins.
    covered: usize,
    metadata: Range<usize>,
}

impl Layout {
    fn of(stored: &[u8]) -> Result<Self, EntryError> {
        let mut at = 0;
        if be_u16(stored, at) == Some(BROKER_MAGIC) {
            let length = be_u32(stored, at + 2).ok_or(EntryError::Cut("broker metadata"))?;
            at = 6 + length as usize;
        }
        let mut checksum = None;
        if be_u16(stored, at) == Some(CHECKSUM_MAGIC) {
            checksum = Some(be_u32(stored, at + 2).ok_or(EntryError::Cut("checksum"))?);
            at += CHECKSUM_LEN;
        }
        let length = be_u32(stored, at).ok_or(EntryError::Cut("metadata length"))? as usize;
        let metadata = at + 4..(at + 4).saturating_add(length);
        if metadata.end > stored.len() {
            return Err(EntryError::Cut("metadata"));
        }
        Ok(Self { checksum, covered: at, metadata })
    }
}

fn be_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_be_bytes(*chunk))
}

fn be_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_be_bytes(*chunk))
}

#[cfg(test)]
mod tests;
