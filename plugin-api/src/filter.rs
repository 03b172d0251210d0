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
    /// all. Asked for once.
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
    /// What its configuration has added to `READS`; `None` in the usual case that it has not, for which
    /// the compiler then finds every slot.
    pub(crate) reads: Option<Fields>,
}

impl<F: MessageFilter> Ready<F> {
    /// As a reference to a constant, or the compiler would make a copy for each message.
    pub(crate) const READS: &'static Fields = &F::READS;

    pub(crate) fn new(config: &str) -> Result<Self, Error> {
        let filter = F::new(F::Config::parse(config)?)?;
        let reads = filter.reads();
        Ok(Self { filter, reads: Some(reads).filter(|r| r != Self::READS) })
    }

    pub(crate) fn reads(&self) -> &Fields {
        self.reads.as_ref().unwrap_or(Self::READS)
    }
}
