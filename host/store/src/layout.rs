//! The bytes of keys and values: data format 1.
//!
//! Numbers in keys are big-endian, so that their order is the order of the bytes. A change of anything
//! here is a new [`FORMAT`](crate::store::FORMAT).

use bytes::Bytes;

use crate::entries::{Counts, Position, StoredEntry, TopicId};
use crate::records::CursorState;
use crate::store::StoreError;

/// Topic, ledger, entry: eight bytes each.
pub(crate) const ENTRY_KEY_BYTES: usize = 24;

/// What stands before a producer's bytes: a byte for the layout, the entry's messages, then the number
/// of entries, messages and bytes that the topic took before it.
pub(crate) const HEADER_BYTES: usize = 1 + 4 + 3 * 8;

/// The longest key of a record or cursor, in bytes: clients choose names, the engine takes 65,535.
pub(crate) const MAX_KEY_BYTES: usize = 32 * 1024;

/// How many runs, and how many partly acknowledged entries, of a cursor are kept.
const MAX_CURSOR_PARTS: usize = 100_000;

/// From this size on an entry that was read shares the engine's buffer; smaller ones are copied, so that
/// a message of 100 bytes does not keep a block of some KiB alive.
const SHARE_FROM_BYTES: usize = 4 * 1024;

const ENTRY_LAYOUT: u8 = 0;
const CURSOR_LAYOUT: u8 = 0;

pub(crate) fn topic_key(topic: TopicId) -> [u8; 8] {
    topic.0.to_be_bytes()
}

pub(crate) fn entry_key(topic: TopicId, position: Position) -> [u8; ENTRY_KEY_BYTES] {
    let mut key = [0; ENTRY_KEY_BYTES];
    key[..8].copy_from_slice(&topic.0.to_be_bytes());
    key[8..16].copy_from_slice(&position.ledger.to_be_bytes());
    key[16..].copy_from_slice(&position.entry.to_be_bytes());
    key
}

pub(crate) fn decode_entry_key(key: &[u8]) -> Result<Position, StoreError> {
    let mut input = Input(key);
    let _topic = input.u64_be()?;
    Ok(Position { ledger: input.u64_be()?, entry: input.u64_be()? })
}

pub(crate) fn encode_entry(messages: u32, before: Counts, bytes: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(HEADER_BYTES + bytes.len());
    value.push(ENTRY_LAYOUT);
    value.extend_from_slice(&messages.to_le_bytes());
    value.extend_from_slice(&before.entries.to_le_bytes());
    value.extend_from_slice(&before.messages.to_le_bytes());
    value.extend_from_slice(&before.bytes.to_le_bytes());
    value.extend_from_slice(bytes);
    value
}

/// An entry's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) messages: u32,
    /// What the topic took before this entry since it was made, whatever has been deleted since.
    pub(crate) before: Counts,
    /// Length of the producer's bytes.
    pub(crate) bytes: u64,
}

impl Header {
    pub(crate) fn decode(value: &[u8]) -> Result<Self, StoreError> {
        let mut input = Input(value);
        match input.u8()? {
            ENTRY_LAYOUT => {}
            _ => return Err(StoreError::damaged("an entry begins with an unknown layout")),
        }
        let messages = u32::from_le_bytes(input.take()?);
        let before = Counts {
            entries: u64::from_le_bytes(input.take()?),
            messages: u64::from_le_bytes(input.take()?),
            bytes: u64::from_le_bytes(input.take()?),
        };
        Ok(Self { messages, before, bytes: input.0.len() as u64 })
    }

    /// What the topic has taken up to and with this entry.
    pub(crate) fn through(&self) -> Counts {
        Counts {
            entries: self.before.entries + 1,
            messages: self.before.messages + u64::from(self.messages),
            bytes: self.before.bytes + self.bytes,
        }
    }
}

pub(crate) fn decode_entry(key: &[u8], value: fjall::UserValue) -> Result<StoredEntry, StoreError> {
    let position = decode_entry_key(key)?;
    let header = Header::decode(&value)?;
    let bytes = if value.len() < SHARE_FROM_BYTES {
        Bytes::copy_from_slice(&value[HEADER_BYTES..])
    } else {
        Bytes::from_owner(value).slice(HEADER_BYTES..)
    };
    Ok(StoredEntry { position, messages: header.messages, bytes })
}

/// The key of a record: the table's length and name, then the key, so that no table begins another.
pub(crate) fn record_key(table: &str, key: &str) -> Result<Vec<u8>, StoreError> {
    let bytes = 2 + table.len() + key.len();
    let table_length = u16::try_from(table.len()).ok().filter(|_| bytes <= MAX_KEY_BYTES);
    let Some(table_length) = table_length else {
        return Err(StoreError::KeyTooLong { bytes, limit: MAX_KEY_BYTES });
    };
    let mut encoded = Vec::with_capacity(bytes);
    encoded.extend_from_slice(&table_length.to_be_bytes());
    encoded.extend_from_slice(table.as_bytes());
    encoded.extend_from_slice(key.as_bytes());
    Ok(encoded)
}

pub(crate) fn cursor_key(topic: TopicId, subscription: &str) -> Result<Vec<u8>, StoreError> {
    let bytes = 8 + subscription.len();
    if bytes > MAX_KEY_BYTES {
        return Err(StoreError::KeyTooLong { bytes, limit: MAX_KEY_BYTES });
    }
    let mut encoded = Vec::with_capacity(bytes);
    encoded.extend_from_slice(&topic_key(topic));
    encoded.extend_from_slice(subscription.as_bytes());
    Ok(encoded)
}

/// A cursor as bytes: what [`MAX_CURSOR_PARTS`] allows of it.
pub(crate) fn encode_cursor(cursor: &CursorState) -> Vec<u8> {
    let mut value = vec![CURSOR_LAYOUT];
    match cursor.mark_delete {
        None => value.push(0),
        Some(position) => {
            value.push(1);
            put_position(&mut value, position);
        }
    }
    let done = &cursor.done[..cursor.done.len().min(MAX_CURSOR_PARTS)];
    value.extend_from_slice(&(done.len() as u64).to_le_bytes());
    for (after, up_to) in done {
        put_position(&mut value, *after);
        put_position(&mut value, *up_to);
    }
    let partly = &cursor.partly[..cursor.partly.len().min(MAX_CURSOR_PARTS)];
    value.extend_from_slice(&(partly.len() as u64).to_le_bytes());
    for (position, indexes) in partly {
        put_position(&mut value, *position);
        value.extend_from_slice(&(indexes.len() as u64).to_le_bytes());
        for index in indexes {
            value.extend_from_slice(&index.to_le_bytes());
        }
    }
    value
}

pub(crate) fn decode_cursor(value: &[u8]) -> Result<CursorState, StoreError> {
    let mut input = Input(value);
    match input.u8()? {
        CURSOR_LAYOUT => {}
        _ => return Err(StoreError::damaged("a cursor begins with an unknown layout")),
    }
    let mark_delete = match input.u8()? {
        0 => None,
        _ => Some(input.position()?),
    };
    let mut cursor = CursorState { mark_delete, ..CursorState::default() };
    for _ in 0..u64::from_le_bytes(input.take()?) {
        cursor.done.push((input.position()?, input.position()?));
    }
    for _ in 0..u64::from_le_bytes(input.take()?) {
        let position = input.position()?;
        let mut indexes = Vec::new();
        for _ in 0..u64::from_le_bytes(input.take()?) {
            indexes.push(u32::from_le_bytes(input.take()?));
        }
        cursor.partly.push((position, indexes));
    }
    if input.0.is_empty() { Ok(cursor) } else { Err(StoreError::damaged("a cursor ends too late")) }
}

fn put_position(value: &mut Vec<u8>, position: Position) {
    value.extend_from_slice(&position.ledger.to_le_bytes());
    value.extend_from_slice(&position.entry.to_le_bytes());
}

/// What is left to read of a value that we wrote.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let Some((head, rest)) = self.0.split_first_chunk::<N>() else {
            return Err(StoreError::damaged("a stored value ends too early"));
        };
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, StoreError> {
        let [byte] = self.take()?;
        Ok(byte)
    }

    fn u64_be(&mut self) -> Result<u64, StoreError> {
        Ok(u64::from_be_bytes(self.take()?))
    }

    fn position(&mut self) -> Result<Position, StoreError> {
        Ok(Position { ledger: u64::from_le_bytes(self.take()?), entry: u64::from_le_bytes(self.take()?) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn positions() -> impl Strategy<Value = Position> {
        (0_u64..4, 0_u64..40).prop_map(|(ledger, entry)| Position { ledger, entry })
    }

    proptest! {
        #[test]
        fn cursor_survives_encoding(
            mark_delete in proptest::option::of(positions()),
            done in proptest::collection::vec((positions(), positions()), 0..20),
            partly in proptest::collection::vec((positions(), proptest::collection::vec(any::<u32>(), 0..5)), 0..20),
        ) {
            let cursor = CursorState { mark_delete, done, partly };
            prop_assert_eq!(decode_cursor(&encode_cursor(&cursor)).unwrap(), cursor);
        }

        #[test]
        fn any_bytes_are_a_cursor_or_an_error(bytes in proptest::collection::vec(0_u8..3, 0..80)) {
            if let Ok(cursor) = decode_cursor(&bytes) {
                prop_assert!(encode_cursor(&cursor).len() <= bytes.len());
            }
        }

        #[test]
        fn entry_keys_sort_as_topic_and_position(a in (0_u64..3, positions()), b in (0_u64..3, positions())) {
            let key = |(topic, position)| entry_key(TopicId(topic), position);
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
        }
    }

    #[test]
    fn a_cursor_with_too_many_holes_keeps_its_first() {
        let at = |entry| Position { ledger: 7, entry };
        let runs = |count: u64| (0..count).map(|i| (at(3 * i), at(3 * i + 1))).collect();
        let kept =
            |done| decode_cursor(&encode_cursor(&CursorState { done, ..CursorState::default() })).unwrap();
        assert_eq!(kept(runs(MAX_CURSOR_PARTS as u64 + 5)).done, runs(MAX_CURSOR_PARTS as u64));
    }

    #[test]
    fn a_table_is_not_the_beginning_of_another() {
        assert_ne!(record_key("topic", "s/a").unwrap(), record_key("topics", "/a").unwrap());
    }

    #[test]
    fn a_name_that_the_engine_would_not_take_is_refused() {
        let error = record_key("topics", &"x".repeat(MAX_KEY_BYTES)).unwrap_err();
        assert!(matches!(error, StoreError::KeyTooLong { .. }), "{error}");
    }
}
