//! Which messages a subscription gets: bindings, chains, failure policy.
//!
//! A binding says which filters stand between a topic and its subscriptions. A chain is what a binding
//! comes to: its filters in order, ready to be called by a worker. Nothing here knows a socket, a frame
//! or the disk: bindings are handed in by whoever keeps them.

pub mod binding;
pub mod chain;
pub mod workers;

pub use binding::{Binding, BindingError, Bindings, FilterRef, OnFailure, Origin, Target};
pub use chain::{Chain, Judgement, Outcome, Paused};
pub use weir_extension::{
    Broke, BrokeKind, ClassName, Domain, Extensions, Field, Messages, NameError, NamespaceName, Row,
    TopicName,
};
pub use workers::{Worker, Workers};
