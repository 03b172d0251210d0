//! The Rust client: produce, consume, list topics, over the Pulsar binary protocol; and admin calls over
//! REST. It keeps to the protocol, so it serves for weir and for Pulsar alike.
//!
//! | module | does |
//! | --- | --- |
//! | [`client`] | [`Client`]: service address, lookup, partitions, topic listing with properties (PIP-452) |
//! | [`producer`] | [`Producer`]: batches, packs, sends; sends again after a reconnect |
//! | [`consumer`] | [`Consumer`]: subscribes, splits batches, acknowledges |
//! | `connection` | one connection: handshake, requests and their answers, liveness |
//! | [`admin`] | [`Admin`]: REST, Pulsar's and weir's own |
//!
//! Every wait has a timeout, and every error says what was asked and what came of it. TLS is not spoken.

pub mod admin;
pub mod client;
mod connection;
pub mod consumer;
pub mod error;
mod message;
pub mod producer;
#[cfg(test)]
mod testing;

pub use admin::{Admin, AdminError};
pub use client::{Client, ClientOptions, TopicList};
pub use consumer::{Consumer, ConsumerOptions};
pub use error::Error;
pub use message::{MessageId, OutgoingMessage, ReceivedMessage};
pub use producer::{BatchOptions, Producer, ProducerOptions, Receipt};
pub use weir_wire::pulsar::command::{CompressionType, InitialPosition, ServerError, SubType, TopicsMode};
