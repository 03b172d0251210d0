//! What can go wrong with a request, and with the connection that carries it.

use std::sync::Arc;
use std::time::Duration;

use weir_wire::pulsar::{DecodeError, EntryError, ServerError};

/// Why a call failed. Cheap to clone: a connection's end is told to all who wait on it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The service address cannot be used.
    #[error("service address {url:?}: {reason}")]
    Url {
        /// The address.
        url: String,
        /// What is wrong with it, and what was expected.
        reason: &'static str,
    },
    /// The server cannot be reached.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Host and port.
        address: String,
        /// What the system said.
        source: Arc<std::io::Error>,
    },
    /// The connection ended before the answer came. Whether the request was done is not known.
    #[error("the connection ended: {0}")]
    Closed(String),
    /// No answer in time. Whether the request was done is not known.
    #[error("{request} was not answered within {after:?}")]
    Timeout {
        /// What was asked.
        request: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// The server refused.
    #[error("{request} was refused: {error}: {message}")]
    Server {
        /// What was asked.
        request: &'static str,
        /// Its code.
        error: ServerError,
        /// Its reason.
        message: String,
    },
    /// The server answered something that does not answer the request.
    #[error("{request} was answered by {answer}")]
    Answer {
        /// What was asked.
        request: &'static str,
        /// The answer's name.
        answer: &'static str,
    },
    /// What the server sent is not the protocol.
    #[error("the server does not keep to the protocol: {0}")]
    Protocol(#[from] DecodeError),
    /// An entry that was received cannot be read. It is not acknowledged.
    #[error("entry {ledger}:{entry} of {topic} cannot be read: {source}")]
    Entry {
        /// Its topic.
        topic: Arc<str>,
        /// Its ledger.
        ledger: u64,
        /// Its number in there.
        entry: u64,
        /// Why.
        source: Arc<EntryError>,
    },
    /// A message cannot be packed.
    #[error("the message cannot be packed: {0}")]
    Pack(String),
    /// The message is larger than the server takes.
    #[error("the message has {size} bytes with its metadata; the server takes {limit}")]
    TooLarge {
        /// Its size, packed, with its metadata.
        size: usize,
        /// The server's limit.
        limit: usize,
    },
    /// The producer or consumer was closed.
    #[error("the {0} is closed")]
    Ended(&'static str),
    /// Lookups go from server to server, without end.
    #[error("the lookup of {topic} was redirected {redirects} times")]
    Redirects {
        /// The topic.
        topic: String,
        /// How often.
        redirects: u32,
    },
}

impl Error {
    /// Whether another try can go no better: what was asked for is refused, not the moment.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Server { error, .. } => matches!(
                error,
                ServerError::AuthenticationError
                    | ServerError::AuthorizationError
                    | ServerError::TopicNotFound
                    | ServerError::SubscriptionNotFound
                    | ServerError::InvalidTopicName
                    | ServerError::IncompatibleSchema
                    | ServerError::NotAllowedError
                    | ServerError::TopicTerminatedError
                    | ServerError::ProducerFenced
                    | ServerError::UnsupportedVersionError
            ),
            Self::Url { .. }
            | Self::TooLarge { .. }
            | Self::Pack(_)
            | Self::Entry { .. }
            | Self::Ended(_)
            | Self::Redirects { .. } => true,
            Self::Connect { .. }
            | Self::Closed(_)
            | Self::Timeout { .. }
            | Self::Answer { .. }
            | Self::Protocol(_) => false,
        }
    }
}
