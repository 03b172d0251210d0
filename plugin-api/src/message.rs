//! One message, as a filter sees it: what was declared, and nothing else.

use std::borrow::Cow;
use std::str::FromStr;

use crate::field::{Field, Fields};
use crate::verdict::Error;

#[cfg(target_family = "wasm")]
use crate::component::Row;
#[cfg(not(target_family = "wasm"))]
use crate::native::Row;

/// A message that is judged. It borrows from the broker's own bytes.
///
/// Only fields that the filter has declared can be read; asking for another is a mistake in the filter,
/// not a property of the message, and panics with a sentence that says what to add.
pub struct Message<'a> {
    row: Row<'a>,
    /// What the filter declares in a constant. Apart from `reads`, which holds it too, so that the
    /// compiler finds slots by name: there is one call of `judge`, which it then puts in place.
    declared: &'static Fields,
    /// All that it reads.
    reads: &'a Fields,
}

impl<'a> Message<'a> {
    #[inline(always)]
    pub(crate) fn new(row: Row<'a>, declared: &'static Fields, reads: &'a Fields) -> Self {
        Self { row, declared, reads }
    }

    /// A property that the producer set; `None` if it has not.
    ///
    /// # Panics
    /// When it is not among the fields that the filter [reads](crate::MessageFilter::READS).
    #[inline(always)]
    pub fn property(&self, name: &str) -> Option<&'a str> {
        match self.declared.slot_of_property(name) {
            Some(slot) => self.row.text(slot),
            None => self.row.text(self.added_property(name)),
        }
    }

    /// A property, parsed; `None` if it is missing or is not one.
    ///
    /// # Panics
    /// As [`property`](Self::property).
    #[inline(always)]
    pub fn property_as<T: FromStr>(&self, name: &str) -> Option<T> {
        // Text that does not parse is the producer's doing: no value, rather than an error.
        self.property(name)?.parse().ok()
    }

    /// The partition key; `None` if the message has none.
    ///
    /// # Panics
    /// When [`Field::Key`] is not declared.
    #[inline(always)]
    pub fn key(&self) -> Option<&'a str> {
        self.row.text(self.slot(Field::Key))
    }

    /// The ordering key; `None` if the message has none.
    ///
    /// # Panics
    /// When [`Field::OrderingKey`] is not declared.
    #[inline(always)]
    pub fn ordering_key(&self) -> Option<&'a [u8]> {
        self.row.bytes(self.slot(Field::OrderingKey))
    }

    /// The full name of its topic.
    ///
    /// # Panics
    /// When [`Field::Topic`] is not declared.
    #[inline(always)]
    pub fn topic(&self) -> Option<&'a str> {
        self.row.text(self.slot(Field::Topic))
    }

    /// The name of its producer.
    ///
    /// # Panics
    /// When [`Field::Producer`] is not declared.
    #[inline(always)]
    pub fn producer(&self) -> Option<&'a str> {
        self.row.text(self.slot(Field::Producer))
    }

    /// When it was published, in milliseconds since 1970.
    ///
    /// # Panics
    /// When [`Field::PublishTime`] is not declared.
    #[inline(always)]
    pub fn publish_time(&self) -> Option<i64> {
        self.row.number(self.slot(Field::PublishTime))
    }

    /// The event time that the producer set, in milliseconds since 1970; `None` if it set none.
    ///
    /// # Panics
    /// When [`Field::EventTime`] is not declared.
    #[inline(always)]
    pub fn event_time(&self) -> Option<i64> {
        self.row.number(self.slot(Field::EventTime))
    }

    /// The producer's sequence id.
    ///
    /// # Panics
    /// When [`Field::SequenceId`] is not declared.
    #[inline(always)]
    pub fn sequence_id(&self) -> Option<i64> {
        self.row.number(self.slot(Field::SequenceId))
    }

    /// What the producer sent, decompressed. Free for a native library; a component copies a payload
    /// that is too large to be carried along, so ask for it only where the rest has not decided.
    ///
    /// # Errors
    /// When the host does not give it.
    ///
    /// # Panics
    /// When [`Field::Payload`] is not declared.
    #[inline(always)]
    pub fn payload(&self) -> Result<Cow<'a, [u8]>, Error> {
        match self.row.bytes(self.slot(Field::Payload)) {
            Some(payload) => Ok(Cow::Borrowed(payload)),
            None => self.row.payload(),
        }
    }

    #[inline(always)]
    fn slot(&self, field: Field) -> usize {
        match self.declared.slot_of(field) {
            Some(slot) => slot,
            None => self.added(field),
        }
    }

    // What only the configuration names. Not inlined: these would swell every look-up of a constant.
    #[inline(never)]
    fn added_property(&self, name: &str) -> usize {
        self.reads.slot_of_property(name).unwrap_or_else(|| undeclared(&format!("property({name:?})")))
    }

    #[inline(never)]
    fn added(&self, field: Field) -> usize {
        self.reads.slot_of(field).unwrap_or_else(|| undeclared(&format!("Field::{field:?}")))
    }
}

#[cold]
fn undeclared(field: &str) -> ! {
    panic!("{field} is not among the fields that this filter reads: add it to READS, or to reads()")
}
