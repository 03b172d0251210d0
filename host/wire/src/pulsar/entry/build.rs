//! Making entries: what a producer sends.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;

use super::{CHECKSUM_LEN, CHECKSUM_MAGIC};
use crate::pulsar::codec::{CodecError, compress};
use crate::pulsar::command::CompressionType;
use crate::pulsar::metadata::{MessageMetadata, SingleMessageMetadata};

/// An entry of these metadata and this payload, as it is, with its checksum.
pub fn write(metadata: &MessageMetadata, payload: &[u8]) -> Bytes {
    frame(&metadata.encode_to_vec(), payload)
}

/// An entry of one message. Sets the compression and the size in `metadata`.
///
/// # Errors
/// When the codec fails.
pub fn single(
    mut metadata: MessageMetadata,
    payload: &Bytes,
    compression: CompressionType,
) -> Result<Bytes, CodecError> {
    pack(&mut metadata, payload, compression).map(|packed| write(&metadata, &packed))
}

/// Collects the messages of a batch. Grows by what it is given: its owner says when it is full.
#[derive(Clone, Debug, Default)]
pub struct BatchBuilder {
    body: BytesMut,
    len: i32,
    /// Lowest and highest, of the messages that have one.
    sequence_ids: Option<(u64, u64)>,
}

impl BatchBuilder {
    /// A batch without messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a message. Sets the size of its payload in `metadata`.
    pub fn push(&mut self, mut metadata: SingleMessageMetadata, payload: &[u8]) {
        metadata.payload_size = payload.len() as i32;
        let metadata_len = metadata.encoded_len();
        self.body.reserve(4 + metadata_len + payload.len());
        self.body.put_u32(metadata_len as u32);
        metadata.encode_raw(&mut self.body);
        self.body.put_slice(payload);
        self.len += 1;
        if let Some(id) = metadata.sequence_id {
            let (lowest, highest) = self.sequence_ids.unwrap_or((id, id));
            self.sequence_ids = Some((lowest.min(id), highest.max(id)));
        }
    }

    /// How many messages it has.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it has no message.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes its messages take, before they are packed.
    pub fn size(&self) -> usize {
        self.body.len()
    }

    /// The entry. Sets in `metadata` what the messages say: their number, size, compression and, if they
    /// have any, sequence ids.
    ///
    /// # Errors
    /// When the codec fails.
    pub fn finish(
        self,
        mut metadata: MessageMetadata,
        compression: CompressionType,
    ) -> Result<Bytes, CodecError> {
        metadata.num_messages_in_batch = Some(self.len);
        if let Some((lowest, highest)) = self.sequence_ids {
            metadata.sequence_id = lowest;
            metadata.highest_sequence_id = Some(highest);
        }
        let packed = pack(&mut metadata, &self.body.freeze(), compression)?;
        Ok(write(&metadata, &packed))
    }
}

fn pack(
    metadata: &mut MessageMetadata,
    payload: &Bytes,
    compression: CompressionType,
) -> Result<Bytes, CodecError> {
    if compression != CompressionType::None {
        metadata.compression = Some(compression.into());
        metadata.uncompressed_size = Some(payload.len() as u32);
    }
    compress(compression, payload)
}

/// Puts the parts of an entry together, with their checksum.
pub(super) fn frame(metadata: &[u8], payload: &[u8]) -> Bytes {
    let mut entry = BytesMut::with_capacity(CHECKSUM_LEN + 4 + metadata.len() + payload.len());
    entry.put_u16(CHECKSUM_MAGIC);
    entry.put_u32(0);
    entry.put_u32(metadata.len() as u32);
    entry.put_slice(metadata);
    entry.put_slice(payload);
    let checksum = crc32c::crc32c(&entry[CHECKSUM_LEN..]);
    entry[2..CHECKSUM_LEN].copy_from_slice(&checksum.to_be_bytes());
    entry.freeze()
}
