//! What the broker must know of Pulsar's entries: the decoder it is handed, over `weir-wire`.

use std::collections::HashSet;

use bytes::Bytes;
use weir_broker::{DecodeError, EntryDecoder, Messages, OpenedEntry, TopicName};
use weir_extension::Field;
use weir_wire::pulsar::entry::{Entry, EntryError, OpenEntry};

/// Reads Pulsar's entries.
pub(crate) struct PulsarEntries {
    /// The most bytes that an entry is unpacked to.
    limit: usize,
}

/// How many messages are looked at together: finding a property costs less then, and what is kept of a large
/// batch meanwhile stays small.
const AT_ONCE: usize = 64;

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
        // Of some messages, one after the other, and where those of each end.
        let (mut properties, mut ends) = (Vec::new(), Vec::new());
        let mut rest = self.0.messages();
        while rest.len() > 0 {
            let first = messages.len();
            properties.clear();
            ends.clear();
            ends.push(0);
            for message in rest.by_ref().take(AT_ONCE) {
                let mut row = messages.row();
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
                if wants_properties {
                    let begin = properties.len();
                    properties.extend(message.properties());
                    keep_last_of_each(&mut properties, begin);
                    ends.push(properties.len());
                }
            }
            if wants_properties {
                messages.fill_properties(first, ends.windows(2).map(|ends| &properties[ends[0]..ends[1]]));
            }
        }
    }

    fn keep(&self, keep: &[bool]) -> Result<Bytes, DecodeError> {
        self.0.keep(keep).map_err(|error| unreadable(&error))
    }
}

/// Drops properties from the `begin`th on whose name comes again: the last one stands, as in Pulsar's
/// clients, whose maps hold no name twice; but anybody may send one.
fn keep_last_of_each(properties: &mut Vec<(&str, &str)>, begin: usize) {
    // Names that differ in their length, first or last bytes mostly set different bits: then all is said.
    let (mut seen, mut again) = (0_u128, false);
    for (name, _) in &properties[begin..] {
        let [first, last] = [name.bytes().next(), name.bytes().next_back()].map(|byte| byte.unwrap_or(0));
        let place = name.len() ^ usize::from(first) << 1 ^ usize::from(last) << 3;
        let bit = 1 << (place % 128);
        again |= seen & bit != 0;
        seen |= bit;
    }
    if again {
        let mut last_first = properties.split_off(begin);
        last_first.reverse();
        let mut names = HashSet::with_capacity(last_first.len());
        last_first.retain(|(name, _)| names.insert(*name));
        properties.extend(last_first.into_iter().rev());
    }
}

/// Times and sequence ids are far below 2^63; what is not was made up, and becomes the largest.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sent: &[(&str, &str)], kept: &[(&str, &str)]) {
        let mut all = vec![("region", "of another message")];
        all.extend(sent);
        keep_last_of_each(&mut all, 1);
        assert_eq!(all[1..], *kept);
        assert_eq!(all[0].1, "of another message");
    }

    #[test]
    fn the_last_property_of_a_name_stands() {
        check(&[], &[]);
        check(&[("", "1"), ("a", "2"), ("", "3")], &[("a", "2"), ("", "3")]);
        check(&[("a", "1"), ("b", "2"), ("a", "3"), ("a", "4")], &[("b", "2"), ("a", "4")]);
    }

    #[test]
    fn names_that_look_alike_are_all_kept() {
        let names: Vec<String> = (0..200).map(|n| format!("p{n:03}x")).collect();
        let sent: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
        check(&sent, &sent);
    }
}
