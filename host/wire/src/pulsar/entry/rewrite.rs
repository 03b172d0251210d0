//! A batch rewritten to a part of its messages.

use bytes::{BufMut, Bytes, BytesMut};

use super::{EntryError, OpenEntry, build};
use crate::pulsar::codec::compress;
use crate::pulsar::fields::{Value, fields, put_varint_field};

/// Fields of `MessageMetadata` that say how many and which messages there are.
mod tag {
    pub(super) const SEQUENCE_ID: u32 = 2;
    pub(super) const UNCOMPRESSED_SIZE: u32 = 9;
    pub(super) const NUM_MESSAGES_IN_BATCH: u32 = 11;
    pub(super) const HIGHEST_SEQUENCE_ID: u32 = 24;
}

impl OpenEntry {
    /// The entry with only the messages at which `keep` is true, packed as it was, with a checksum.
    ///
    /// Messages stay as they are, byte for byte. So do the metadata, fields that we do not know included,
    /// but for the number of messages, the size of the payload, and the lowest and highest sequence id
    /// where the messages have their own.
    ///
    /// If all are kept, it is the stored entry itself.
    ///
    /// # Errors
    /// When it is not a batch, `keep` has another length or keeps nothing, a compaction has been here, or
    /// the codec fails.
    pub fn keep(&self, keep: &[bool]) -> Result<Bytes, EntryError> {
        if !self.batch {
            return Err(EntryError::NotDivisible("it is not a batch"));
        }
        if keep.len() != self.len() {
            return Err(EntryError::NotDivisible("there is not one verdict for each of its messages"));
        }
        if !keep.contains(&true) {
            return Err(EntryError::NotDivisible("an entry without messages is none"));
        }
        if !keep.contains(&false) {
            return Ok(self.entry.stored.clone());
        }
        if !self.entry.metadata.compacted_batch_indexes.is_empty() {
            // Its messages are counted by the index that they once had.
            return Err(EntryError::NotDivisible("it was compacted"));
        }
        let body = self.body_of(keep);
        let metadata = self.metadata_of(keep, body.len());
        let payload = compress(self.entry.compression()?, &body)?;
        Ok(build::frame(&metadata, &payload))
    }

    fn body_of(&self, keep: &[bool]) -> Bytes {
        let kept = || self.messages.iter().zip(keep).filter(|(_, keep)| **keep).map(|(parsed, _)| parsed);
        let mut body = BytesMut::with_capacity(kept().map(|parsed| parsed.record.len()).sum());
        for parsed in kept() {
            body.put_slice(&self.body[parsed.record.clone()]);
        }
        body.freeze()
    }

    /// The metadata with what the kept messages change, field by field in the order they had.
    fn metadata_of(&self, keep: &[bool], body: usize) -> BytesMut {
        let number = keep.iter().filter(|keep| **keep).count();
        let ids = || {
            let kept = self.messages.iter().zip(keep).filter(|(_, keep)| **keep);
            kept.filter_map(|(parsed, _)| parsed.sequence_id)
        };
        let original = &self.entry.metadata_bytes;
        let mut metadata = BytesMut::with_capacity(original.len() + 8);
        // The bytes were read before, when the entry was parsed: none of the fields is an error.
        for field in fields(original).flatten() {
            let Value::Varint(value) = field.value else {
                metadata.put_slice(&original[field.range]);
                continue;
            };
            let value = match field.tag {
                tag::NUM_MESSAGES_IN_BATCH => number as u64,
                tag::UNCOMPRESSED_SIZE => body as u64,
                tag::SEQUENCE_ID => ids().min().unwrap_or(value),
                tag::HIGHEST_SEQUENCE_ID => ids().max().unwrap_or(value),
                _ => {
                    metadata.put_slice(&original[field.range]);
                    continue;
                }
            };
            put_varint_field(field.tag, value, &mut metadata);
        }
        metadata
    }
}
