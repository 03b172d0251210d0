//! The trait of everything that judges messages.

use crate::config::Config;
use crate::field::Fields;
use crate::message::Message;
use crate::verdict::{Error, Verdict};

/// Judges messages.
///
/// There is one instance for each artifact, configuration and worker of the host, and it is called by one
/// thread at a time. What it remembers is a cache: it goes when the extension is replaced, panics or takes
/// too long, and other workers do not see it.
pub trait MessageFilter: Sized + Send + 'static {
    /// Its configuration; `()` if it has none.
    type Config: Config;

    /// The name that it is bound by: letters, digits and `._-`, as `com.example.LateFlights`.
    const CLASS: &'static str;

    /// The fields of a message that it reads. Others are not carried to it.
    const READS: Fields;

    /// Makes an instance.
    ///
    /// # Errors
    /// When it cannot work with this configuration: the sentence is shown to whoever set it.
    fn new(config: Self::Config) -> Result<Self, Error>;

    /// The fields that it reads with its configuration, where [`READS`](Self::READS) cannot name them
    /// all: `Self::READS` with [`and`](Fields::and) or [`and_configured`](Fields::and_configured). Asked
    /// for once.
    fn reads(&self) -> Fields {
        Self::READS
    }

    /// Judges one message.
    ///
    /// # Errors
    /// When it cannot be judged. That is no reject: the binding's policy decides.
    fn judge(&mut self, message: &Message<'_>) -> Result<Verdict, Error>;
}

/// A filter that is ready, and what it reads.
pub(crate) struct Ready<F> {
    pub(crate) filter: F,
    /// `READS` and what its configuration has added.
    pub(crate) reads: Fields,
}

impl<F: MessageFilter> Ready<F> {
    /// As a reference to a constant: the compiler then finds the slots of what it names.
    pub(crate) const READS: &'static Fields = &F::READS;

    pub(crate) fn new(config: &str) -> Result<Self, Error> {
        let filter = F::new(F::Config::parse(config)?)?;
        let reads = filter.reads();
        if !reads.begins_with(Self::READS) {
            return Err(Error::new("reads() must begin with Self::READS, and add to it"));
        }
        Ok(Self { filter, reads })
    }
}
