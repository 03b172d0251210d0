//! The Pulsar binary protocol: frames, commands, stored entries.
//!
//! | module | does |
//! | --- | --- |
//! | [`frame`] | cuts a stream of bytes into frames, and writes frames |
//! | [`command`] | the commands that frames carry |
//! | [`metadata`] | what producers say of entries and messages |
//! | [`entry`] | reads a stored entry message by message, rewrites it to a part of a batch, makes new ones |
//! | [`codec`] | the four compressions, with bounds |
//! | [`ack_set`] | which messages of a batch are still to be acknowledged |
//!
//! Which error code stands for which failure is the server's business: here is only [`ServerError`].

pub mod ack_set;
pub mod codec;
pub mod command;
pub mod entry;
mod fields;
pub mod frame;
pub mod metadata;

pub use command::{Command, ServerError};
pub use entry::{Entry, EntryError, OpenEntry};
pub use frame::{DecodeError, Decoder, Frame, Limits};
pub use metadata::{MessageMetadata, SingleMessageMetadata};

/// The protocol version that is spoken here. A server answers the lower of its own and the client's.
pub const PROTOCOL_VERSION: i32 = 21;

/// The largest payload with metadata, in bytes, unless a server says otherwise. Pulsar: `maxMessageSize`.
pub const DEFAULT_MAX_MESSAGE_SIZE: usize = 5 * 1024 * 1024;

/// What a frame may have beyond the largest message, for its command and lengths.
/// Source: Pulsar `Commands.MESSAGE_SIZE_FRAME_PADDING`.
pub const FRAME_PADDING: usize = 10 * 1024;

/// The request id of what answers no request: −1, which is this as an unsigned number.
pub const NO_REQUEST: u64 = u64::MAX;
