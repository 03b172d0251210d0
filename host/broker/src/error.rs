//! What can go wrong, with one variant for each answer that differs.

use weir_filter::{BindingError, NameError};
use weir_store::StoreError;

/// Why the broker did not do what it was asked. A protocol or REST handler turns it into a code, in one
/// function for each protocol.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// No such topic, and it may not be made.
    #[error("topic {0} does not exist")]
    TopicNotFound(String),
    /// No such namespace.
    #[error("namespace {0} does not exist")]
    NamespaceNotFound(String),
    /// No such tenant.
    #[error("tenant {0} does not exist")]
    TenantNotFound(String),
    /// No such subscription.
    #[error("subscription {0} does not exist")]
    SubscriptionNotFound(String),
    /// A topic, namespace, tenant or subscription of that name is there already: the text says which.
    #[error("{0} already exists")]
    AlreadyExists(String),
    /// A producer of that name is connected.
    #[error("producer with name '{producer}' is already connected to topic '{topic}'")]
    ProducerBusy {
        /// The producer's name.
        producer: String,
        /// The topic's.
        topic: String,
    },
    /// The subscription is exclusive and taken, or is shared in another way: the text says which.
    #[error("{0}")]
    ConsumerBusy(String),
    /// A topic, namespace, tenant or subscription is still used, and force was not asked for: the text
    /// says by what.
    #[error("{0}")]
    InUse(String),
    /// Asked for something that this broker does not do.
    #[error("{0}")]
    NotAllowed(String),
    /// A value is out of its range: the text says which, and what would be right.
    #[error("{0}")]
    Invalid(String),
    /// A name cannot be one.
    #[error(transparent)]
    InvalidName(#[from] NameError),
    /// An entry is larger than `max_message_size`.
    #[error("an entry of {size} bytes exceeds the maximum message size of {max}")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The largest that is taken.
        max: usize,
    },
    /// There are as many of something as there may be: the text says of what, and how many.
    #[error("{0}")]
    TooMany(String),
    /// The broker is draining, or the topic, producer or consumer has been closed under the caller.
    #[error("{0}")]
    Closing(String),
    /// The store could not read or write.
    #[error(transparent)]
    Storage(#[from] StoreError),
    /// A binding was refused.
    #[error(transparent)]
    Binding(#[from] BindingError),
}

impl BrokerError {
    /// A helper task ended without an answer: only while the runtime shuts down, or after a bug's panic.
    pub(crate) fn lost(what: &str) -> Self {
        Self::Closing(format!("{what} was given up: the broker is stopping"))
    }
}
