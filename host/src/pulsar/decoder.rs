//! What the broker must know of Pulsar's entries: the decoder it is handed, over `weir-wire`.

use bytes::Bytes;
use weir_broker::{DecodeError, EntryDecoder, Messages, OpenedEntry, TopicName};
use weir_extension::Field;
use weir_wire::pulsar::entry::{Entry, EntryError, OpenEntry};

/// Reads Pulsar's entries.
pub(crate) struct PulsarEntries {
    /// The most bytes that an entry is unpacked to.
    limit: usize,
}

/// How much larger than a message may be an entry may become when it is unpacked. Producers bound the
/// size of a batch by what it has after packing.
const MOST_UNPACKED: usize = 8;

impl PulsarEntries {
    /// A decoder of entries of at most `max_message_size` bytes as sent. An entry that unpacks to more
    /// than eight times that is one that cannot be read.
    pub(crate) fn new(max_message_size: usize) -> Self {
        Self { limit: max_message_size.saturating_mul(MOST_UNPACKED) }
    }
}

impl EntryDecoder for PulsarEntries {
    fn open(&self, entry: &Bytes) -> Result<Box<dyn OpenedEntry>, DecodeError> {
        let opened = Entry::parse(entry)
            .and_then(|entry| entry.open(self.limit))
            .map_err(|error| unreadable(&error))?;
        Ok(Box::new(Opened(opened)))
    }

    fn publish_time(&self, entry: &Bytes) -> Result<u64, DecodeError> {
        Entry::parse(entry).map(|entry| entry.metadata().publish_time).map_err(|error| unreadable(&error))
    }
}

fn unreadable(error: &EntryError) -> DecodeError {
    let mut text = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        text = format!("{text}: {cause}");
    }
    DecodeError(text)
}

struct Opened(OpenEntry);

impl OpenedEntry for Opened {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn unpacked_bytes(&self) -> usize {
        self.0.unpacked_bytes()
    }

    fn is_batch(&self) -> bool {
        self.0.is_batch()
    }

    fn view<'a>(&'a self, topic: &'a TopicName, messages: &mut Messages<'a>) {
        // What no filter reads costs nothing to offer, but finding it here may: ask first.
        let wants_payload = messages.fields().contains(&Field::Payload);
        let wants_properties = messages.fields().iter().any(|field| matches!(field, Field::Property(_)));
        let mut properties = Vec::new();
        for message in self.0.messages() {
            let mut row = messages.row();
            if wants_properties {
                properties.clear();
                properties.extend(message.properties());
                row.properties(&properties);
            }
            if let Some(key) = message.key() {
                row.text(&Field::Key, key);
            }
            if let Some(key) = message.ordering_key() {
                row.bytes(&Field::OrderingKey, key);
            }
            row.text(&Field::Topic, topic.as_str());
            row.text(&Field::Producer, message.producer_name());
            row.number(&Field::PublishTime, signed(message.publish_time()));
            if let Some(time) = message.event_time() {
                row.number(&Field::EventTime, signed(time));
            }
            row.number(&Field::SequenceId, signed(message.sequence_id()));
            if wants_payload {
                row.payload(&message.payload());
            }
        }
    }

    fn keep(&self, keep: &[bool]) -> Result<Bytes, DecodeError> {
        self.0.keep(keep).map_err(|error| unreadable(&error))
    }
}

/// Times and sequence ids are far below 2^63; what is not was made up, and becomes the largest.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
