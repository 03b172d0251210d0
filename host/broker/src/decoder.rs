//! What the broker must know of a protocol's entries, without knowing the protocol.

use bytes::Bytes;
use weir_filter::{Messages, TopicName};

/// Reads the entries of one protocol. `host` implements it over `wire`.
pub trait EntryDecoder: Send + Sync + 'static {
    /// Opens an entry: decompresses and splits it. Called on a judging thread.
    ///
    /// # Errors
    /// When the bytes are not an entry (encrypted, corrupt, too large when decompressed). Where the binding
    /// says to deliver what breaks it is delivered then, else it is withheld: no filter has judged it, so
    /// it is never acknowledged.
    fn open(&self, entry: &Bytes) -> Result<Box<dyn OpenedEntry>, DecodeError>;

    /// When the producer published the entry, in milliseconds since 1970: for seeking by time. Should
    /// read the head of the entry only.
    ///
    /// # Errors
    /// When the bytes are not an entry.
    fn publish_time(&self, entry: &Bytes) -> Result<u64, DecodeError>;
}

/// An entry whose messages can be seen one by one.
pub trait OpenedEntry: Send {
    /// How many messages it holds; at least 1.
    fn len(&self) -> usize;

    /// Never: an entry holds a message.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes it takes unpacked, about: what holding it open costs.
    fn unpacked_bytes(&self) -> usize;

    /// Whether it is a batch, so that single messages of it can be left out.
    fn is_batch(&self) -> bool;

    /// Appends one row for each message, in order. `topic` is where the entry lies, partition and all.
    fn view<'a>(&'a self, topic: &'a TopicName, messages: &mut Messages<'a>);

    /// The entry rewritten to the messages at which `keep` is true: same producer, times, sequence ids
    /// and compression, the count of messages to match. `keep` has [`len`](Self::len) items, at least
    /// one of them true; only called on batches.
    ///
    /// # Errors
    /// When it cannot be written (a codec failed).
    fn keep(&self, keep: &[bool]) -> Result<Bytes, DecodeError>;
}

/// Why an entry's messages cannot be seen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry cannot be read: {0}")]
pub struct DecodeError(pub String);
