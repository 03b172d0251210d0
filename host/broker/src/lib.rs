//! The embedded broker: tenants, namespaces, topics, subscriptions, dispatch.
//!
//! Knows no socket, frame, protobuf or JSON over HTTP: a protocol's listener hands it names and bytes,
//! gives it one [`EntryDecoder`], and takes [`Delivery`]s from a channel.

pub mod broker;
pub mod decoder;
pub mod subscription;
pub mod topic;

pub use broker::{Broker, BrokerError, BrokerOptions, TopicInfo};
pub use decoder::{DecodeError, EntryDecoder, OpenedEntry};
pub use subscription::{Ack, AckKind, Consumer, ConsumerOptions, Delivery, Start, SubscriptionType};
pub use topic::{Published, Topic};
pub use weir_filter::{Bindings, Domain, Messages, NameError, NamespaceName, Row, TopicName, Workers};
pub use weir_listing::{Index, Listing};
pub use weir_store::{Position, Store};
