//! What a filter can say of a message.

use std::fmt;
use std::time::Duration;

/// What a filter says of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be delivered.
    Accept,
    /// It is acknowledged for this subscription, for good.
    Reject,
    /// It is to be judged again after this delay: in milliseconds, at most 49 days.
    Reschedule(Duration),
}

impl Verdict {
    /// Accept if so, else reject.
    #[inline(always)]
    pub const fn accept_if(so: bool) -> Self {
        if so { Self::Accept } else { Self::Reject }
    }
}

/// Why an extension could not do what it was asked: one sentence for a person.
///
/// An error is neither a reject nor an empty listing: what happens then is the binding's policy. `?`
/// makes one of any [`std::error::Error`].
pub struct Error(String);

impl Error {
    /// An error with this sentence.
    pub fn new(sentence: impl fmt::Display) -> Self {
        Self(sentence.to_string())
    }

    /// The sentence.
    pub fn sentence(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_sentence(self) -> String {
        self.0
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A verdict as both forms pass it on: the byte of the contract, and a delay in milliseconds.
#[inline(always)]
pub(crate) fn encode(verdict: Result<Verdict, Error>) -> (u8, u32) {
    match verdict {
        Ok(Verdict::Accept) => (0, 0),
        Ok(Verdict::Reject) => (1, 0),
        // A delay beyond 49 days is cut to that; it is nothing that a broker keeps.
        Ok(Verdict::Reschedule(delay)) => (2, u32::try_from(delay.as_millis()).unwrap_or(u32::MAX)),
        Err(error) => {
            crate::log::warn(error.sentence());
            (3, 0)
        }
    }
}
