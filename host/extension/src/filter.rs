//! The trait of everything that judges messages, and what a judgement can be.

use std::time::Duration;

use crate::message::Messages;

/// What a filter says of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be delivered.
    Accept,
    /// It is acknowledged for this subscription, for good.
    Reject,
    /// It is to be judged again after this delay.
    Reschedule(Delay),
    /// The filter returned an error for this message: it *broke*, it did not say no.
    Broke,
}

/// A delay in whole milliseconds, as the contract has it: at most 49 days. A verdict with it has eight
/// bytes where a `Duration` would make it sixteen, and there is one for every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay(u32);

impl Delay {
    /// So many milliseconds.
    pub const fn from_millis(millis: u32) -> Self {
        Self(millis)
    }
}

impl From<Delay> for Duration {
    fn from(delay: Delay) -> Self {
        Self::from_millis(delay.0.into())
    }
}

/// Judges batches of messages. An instance belongs to one worker; it is never called by two at once.
///
/// Implemented by native libraries, components and built-in filters alike.
pub trait MessageFilter: Send {
    /// Judges the messages `rows` (indices into `messages`, ascending) and appends one verdict for each
    /// to `verdicts`, in that order.
    ///
    /// # Errors
    /// When the call broke as a whole: nothing is known of any message then, `verdicts` is as it was,
    /// and the instance must be thrown away.
    fn judge(
        &mut self,
        messages: &Messages<'_>,
        rows: &[u32],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), Broke>;
}

/// An extension did not answer. Never to be read as a reject or as an empty listing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {reason}")]
pub struct Broke {
    /// In which way.
    pub kind: BrokeKind,
    /// One sentence for a person.
    pub reason: String,
}

/// The ways in which an extension breaks; each is counted by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BrokeKind {
    /// It returned an error.
    Error,
    /// A component trapped: a panic, `unreachable`, an import that it may not call.
    Trap,
    /// A native library panicked.
    Panic,
    /// It took longer than its deadline.
    Deadline,
    /// It wanted more memory, tables or handles than it may have.
    Memory,
    /// Its answer was malformed, or larger than allowed.
    BadAnswer,
}

impl BrokeKind {
    /// The word that stands in metrics and statistics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Trap => "trap",
            Self::Panic => "panic",
            Self::Deadline => "deadline",
            Self::Memory => "memory",
            Self::BadAnswer => "bad-answer",
        }
    }
}

impl std::fmt::Display for BrokeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
