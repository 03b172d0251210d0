//! The embedded broker: tenants, namespaces, topics, subscriptions, dispatch.
//!
//! Knows no socket, frame, protobuf or JSON over HTTP: a protocol's listener hands it names and bytes,
//! gives it one [`EntryDecoder`], and takes [`Delivery`]s from a [`Deliveries`].
//!
//! A message's way: [`Producer::publish`] → the store → the subscription's dispatch task reads a batch →
//! one hop to a judging thread, if a binding covers the subscription → a consumer with permits →
//! [`Consumer::acknowledge`] → the cursor, written.

pub mod broker;
mod budget;
mod catalogue;
pub mod decoder;
pub mod error;
mod figures;
pub mod producer;
mod removal;
pub mod stats;
pub mod subscription;
pub mod topic;

pub use broker::{Broker, BrokerOptions};
pub use budget::{Held, Share};
pub use catalogue::TopicInfo;
pub use decoder::{DecodeError, EntryDecoder, OpenedEntry};
pub use error::BrokerError;
pub use figures::Figures;
pub use producer::{Producer, Published};
pub use stats::{ConsumerStats, FilterStats, PausedStats, PublisherStats, SubscriptionStats, TopicStats};
pub use subscription::{
    Ack, AckKind, Consumer, ConsumerOptions, Deliveries, Delivery, Ends, SeekTo, Start, SubscriptionType,
};
pub use topic::Topic;
pub use weir_filter::{
    Binding, BindingError, Bindings, Domain, Messages, NameError, NamespaceName, Row, Target, TopicName,
    Workers,
};
pub use weir_listing::{Index, Listing};
pub use weir_store::{Paused, Position, Store, StoreError, StoredEntry};

#[cfg(test)]
mod tests;
