//! Which messages a subscription gets: bindings, chains, failure policy.
//!
//! A binding says which filters stand between a topic and its subscriptions. A chain is what a binding
//! comes to: its filters in order, ready to be called by a worker. Nothing here knows a socket, a frame
//! or the disk: bindings are handed in by whoever keeps them.
//!
//! A batch goes: [`Bindings::chain`] (kept as long as the table does not change) → [`Chain::pin`] (which
//! versions, which fields) → [`Workers::run`] → [`Worker::judge`] → one [`Outcome`] a message, or
//! [`Paused`].

pub mod binding;
mod bindings;
mod breaker;
pub mod chain;
mod judge;
mod pattern;
pub mod workers;

pub use binding::{Binding, BindingError, FilterRef, OnFailure, Origin, Target};
pub use bindings::Bindings;
pub use chain::{Chain, Failure, Judgement, Outcome, PauseReason, Paused, Pinned};
pub use weir_extension::{
    Broke, BrokeKind, ClassName, Domain, Extensions, Field, Messages, NameError, NamespaceName, Row,
    TopicName, Unavailable,
};
pub use workers::{Panicked, Worker, Workers};
