//! What the broker must know of a protocol's entries, without knowing the protocol.

use bytes::Bytes;
use weir_filter::Messages;

/// Reads the entries of one protocol. `host` implements it over `wire`.
pub trait EntryDecoder: Send + Sync + 'static {
    /// Opens an entry: decompresses and splits it. Called on a judging thread.
    ///
    /// # Errors
    /// When the bytes are not an entry (encrypted, corrupt, too large when decompressed).
    fn open(&self, entry: &Bytes) -> Result<Box<dyn OpenedEntry>, DecodeError>;
}

/// An entry whose messages can be seen one by one.
pub trait OpenedEntry: Send {
    /// How many messages it holds; at least 1.
    fn len(&self) -> usize;

    /// Whether it is a batch, so that single messages of it can be left out.
    fn is_batch(&self) -> bool;

    /// Appends one row for each message, in order.
    fn view<'a>(&'a self, messages: &mut Messages<'a>);

    /// The entry rewritten to the messages at which `keep` is true: same producer, times, sequence ids
    /// and compression, the count of messages to match.
    ///
    /// # Errors
    /// When it cannot be written (a codec failed).
    fn keep(&self, keep: &[bool]) -> Result<Bytes, DecodeError>;
}

/// Why an entry's messages cannot be seen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry cannot be read: {0}")]
pub struct DecodeError(pub String);
