//! One message of an entry, read in place.
//!
//! The metadata of a message are walked once, when its entry is opened, and what a filter may ask for is
//! noted as places in the bytes: a batch of a thousand messages costs two allocations, not thousands.

use std::ops::Range;

use bytes::Bytes;

use super::OpenEntry;
use crate::pulsar::fields::{Value, fields};

/// The most properties of all messages of an entry together. A property of six bytes costs sixteen here and
/// as many again where it is read; a hundred thousand messages may have ten each.
const MAX_PROPERTIES: usize = 1 << 20;

/// A place in the bytes of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// `range` lies in an unpacked payload or in metadata, both of which are far below 4 GiB.
    fn new(range: &Range<usize>) -> Self {
        Self { start: range.start as u32, end: range.end as u32 }
    }

    fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start as usize..self.end as usize]
    }
}

/// The numbers of the fields that are noted; an entry's metadata and a batched message's have the same
/// fields under different numbers.
pub(super) struct Tags {
    properties: u32,
    key: u32,
    key_is_base64: u32,
    ordering_key: u32,
    event_time: u32,
    sequence_id: u32,
    null_value: u32,
    payload_size: u32,
    compacted_out: u32,
}

/// Of `MessageMetadata`. 0 stands for what it does not have.
pub(super) const OUTER: Tags = Tags {
    properties: 4,
    key: 6,
    key_is_base64: 17,
    ordering_key: 18,
    event_time: 12,
    sequence_id: 2,
    null_value: 25,
    payload_size: 0,
    compacted_out: 0,
};

/// Of `SingleMessageMetadata`.
pub(super) const BATCHED: Tags = Tags {
    properties: 1,
    key: 2,
    key_is_base64: 6,
    ordering_key: 7,
    event_time: 5,
    sequence_id: 8,
    null_value: 9,
    payload_size: 3,
    compacted_out: 4,
};

/// What was noted of a message.
#[derive(Clone, Debug, Default)]
pub(super) struct Parsed {
    /// Which of the entry's properties are its.
    properties: Range<usize>,
    key: Option<Span>,
    key_is_base64: bool,
    ordering_key: Option<Span>,
    event_time: u64,
    pub(super) sequence_id: Option<u64>,
    null_value: bool,
    compacted_out: bool,
    pub(super) payload_size: Option<i32>,
    /// Where its payload lies in the entry's unpacked payload.
    pub(super) payload: Range<usize>,
    /// Where all of it lies there, its length and metadata included.
    pub(super) record: Range<usize>,
}

/// Reads the metadata that lie at `range` of `text`; appends the properties.
///
/// # Errors
/// With a sentence, when they are not metadata of a message.
pub(super) fn parse(
    text: &[u8],
    range: Range<usize>,
    tags: &Tags,
    properties: &mut Vec<(Span, Span)>,
) -> Result<Parsed, String> {
    let base = range.start;
    let at = |range: &Range<usize>| Span::new(&(base + range.start..base + range.end));
    let first = properties.len();
    let mut parsed = Parsed::default();
    for field in fields(&text[range]) {
        let field = field.map_err(|error| error.to_string())?;
        match (field.tag, field.value) {
            (tag, Value::Bytes(bytes, range)) if tag == tags.properties => {
                if properties.len() == MAX_PROPERTIES {
                    return Err(format!("with it the entry has more than {MAX_PROPERTIES} properties"));
                }
                properties.push(property(bytes, base + range.start)?);
            }
            (tag, Value::Bytes(bytes, range)) if tag == tags.key => {
                check_text("key", bytes)?;
                parsed.key = Some(at(&range));
            }
            (tag, Value::Bytes(_, range)) if tag == tags.ordering_key => {
                parsed.ordering_key = Some(at(&range));
            }
            (tag, Value::Varint(value)) if tag == tags.event_time => parsed.event_time = value,
            (tag, Value::Varint(value)) if tag == tags.sequence_id => parsed.sequence_id = Some(value),
            (tag, Value::Varint(value)) if tag == tags.key_is_base64 => parsed.key_is_base64 = value != 0,
            (tag, Value::Varint(value)) if tag == tags.null_value => parsed.null_value = value != 0,
            (tag, Value::Varint(value)) if tag == tags.compacted_out => parsed.compacted_out = value != 0,
            (tag, Value::Varint(value)) if tag == tags.payload_size => {
                parsed.payload_size = Some(value as i32);
            }
            _ => {}
        }
    }
    parsed.properties = first..properties.len();
    Ok(parsed)
}

/// Reads a `KeyValue` whose bytes begin at `base`.
fn property(bytes: &[u8], base: usize) -> Result<(Span, Span), String> {
    let (mut name, mut value) = (None, None);
    for field in fields(bytes) {
        let field = field.map_err(|error| error.to_string())?;
        let Value::Bytes(text, range) = field.value else { continue };
        let span = Span::new(&(base + range.start..base + range.end));
        match field.tag {
            1 => {
                check_text("name of a property", text)?;
                name = Some(span);
            }
            2 => {
                check_text("value of a property", text)?;
                value = Some(span);
            }
            _ => {}
        }
    }
    name.zip(value).ok_or_else(|| "a property lacks its name or its value".to_owned())
}

fn check_text(what: &str, bytes: &[u8]) -> Result<(), String> {
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("the {what} is not UTF-8: {error}")),
    }
}

/// A message of an [`OpenEntry`].
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    entry: &'a OpenEntry,
    parsed: &'a Parsed,
}

impl<'a> Message<'a> {
    pub(super) fn new(entry: &'a OpenEntry, parsed: &'a Parsed) -> Self {
        Self { entry, parsed }
    }

    /// Its properties, as the producer wrote them: a name may come twice, and then the last one stands.
    pub fn properties(&self) -> impl ExactSizeIterator<Item = (&'a str, &'a str)> + use<'a> {
        let entry = self.entry;
        entry.properties[self.parsed.properties.clone()]
            .iter()
            .map(move |(name, value)| (text(entry, *name), text(entry, *value)))
    }

    /// The property of that name; `None` if it has none.
    pub fn property(&self, name: &str) -> Option<&'a str> {
        self.properties().filter(|(of, _)| *of == name).last().map(|(_, value)| value)
    }

    /// Its partition key, as the producer wrote it: in base 64 if [`Message::key_is_base64`].
    pub fn key(&self) -> Option<&'a str> {
        self.parsed.key.map(|span| text(self.entry, span))
    }

    /// Whether its partition key is bytes, written in base 64.
    pub fn key_is_base64(&self) -> bool {
        self.parsed.key_is_base64
    }

    /// Its ordering key.
    pub fn ordering_key(&self) -> Option<&'a [u8]> {
        self.parsed.ordering_key.map(|span| span.of(self.entry.text()))
    }

    /// The event time that the producer set, in milliseconds since 1970; `None` if it set none.
    pub fn event_time(&self) -> Option<u64> {
        Some(self.parsed.event_time).filter(|time| *time != 0)
    }

    /// When it was published, in milliseconds since 1970. All messages of a batch have its time.
    pub fn publish_time(&self) -> u64 {
        self.entry.entry.metadata.publish_time
    }

    /// Who published it.
    pub fn producer_name(&self) -> &'a str {
        &self.entry.entry.metadata.producer_name
    }

    /// Its sequence id; that of its batch if it has none of its own, as Pulsar's clients do.
    pub fn sequence_id(&self) -> u64 {
        self.parsed.sequence_id.unwrap_or(self.entry.entry.metadata.sequence_id)
    }

    /// Its payload, unpacked. Shares the entry's memory.
    pub fn payload(&self) -> Bytes {
        self.entry.body.slice(self.parsed.payload.clone())
    }

    /// Whether the producer sent no value, as opposed to an empty one.
    pub fn is_null(&self) -> bool {
        self.parsed.null_value
    }

    /// Whether a compaction has taken it away: clients do not show it.
    pub fn is_compacted_out(&self) -> bool {
        self.parsed.compacted_out
    }
}

fn text(entry: &OpenEntry, span: Span) -> &str {
    std::str::from_utf8(span.of(entry.text())).expect("texts are UTF-8: checked when the entry was opened")
}
