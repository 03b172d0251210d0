//! A chain: the filters of a binding, in order, and what they make of a batch.

use std::sync::Arc;
use std::time::Duration;

use weir_extension::{Broke, ClassName, Field, Unavailable};

/// The filters of one binding, ready to be called. Resolves its extensions anew when the table changes.
pub struct Chain {}

/// What a chain says of one message, policy applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every filter accepted it.
    Accept,
    /// A filter said no: it is acknowledged for this subscription.
    Reject,
    /// A filter wants to be asked again after this delay.
    Reschedule(Duration),
    /// A filter broke on it, judged alone, and the policy is to deliver.
    Deliver(Arc<Broke>),
    /// A filter broke on it, judged alone, and the policy is to try again later.
    Withhold(Arc<Broke>),
    /// A filter broke on it, judged alone, and the policy is to acknowledge it.
    Discard(Arc<Broke>),
}

/// What a chain says of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// One outcome a message, in order.
    Judged(Vec<Outcome>),
    /// Nothing was judged and nothing may be delivered: the subscription waits at its cursor.
    Paused(Paused),
}

/// Why a subscription waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    /// The class that cannot be called.
    pub class: ClassName,
    /// Why not.
    pub reason: Unavailable,
}

impl Chain {
    /// The fields that its filters read together: what a view of the messages must hold.
    pub fn reads(&self) -> Arc<[Field]> {
        todo!()
    }
}
