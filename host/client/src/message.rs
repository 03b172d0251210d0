//! Messages, as the application sees them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use parking_lot::Mutex;
use weir_wire::pulsar::ack_set;
use weir_wire::pulsar::command::{KeyValue, MessageIdData};
use weir_wire::pulsar::{MessageMetadata, SingleMessageMetadata};

/// A message to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// What is sent.
    pub payload: Bytes,
    /// Properties, by name.
    pub properties: Vec<(String, String)>,
    /// Messages of one key go to one partition.
    pub key: Option<String>,
    /// When it happened, in milliseconds since 1970.
    pub event_time: Option<u64>,
}

impl OutgoingMessage {
    /// A message of that payload alone.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self { payload: payload.into(), ..Self::default() }
    }

    /// The message with one property more.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((name.into(), value.into()));
        self
    }

    /// The message with that key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    pub(crate) fn batched(&self, sequence_id: u64) -> SingleMessageMetadata {
        SingleMessageMetadata {
            properties: self.pairs(),
            partition_key: self.key.clone(),
            event_time: self.event_time,
            sequence_id: Some(sequence_id),
            ..Default::default()
        }
    }

    pub(crate) fn alone(&self, metadata: MessageMetadata) -> MessageMetadata {
        MessageMetadata {
            properties: self.pairs(),
            partition_key: self.key.clone(),
            event_time: self.event_time,
            ..metadata
        }
    }

    fn pairs(&self) -> Vec<KeyValue> {
        self.properties.iter().map(|(name, value)| KeyValue::new(name, value)).collect()
    }
}

/// Where a message lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The ledger.
    pub ledger: u64,
    /// The entry's number in the ledger.
    pub entry: u64,
    /// The partition; −1 without partitions.
    pub partition: i32,
    /// The message's number in its batch; −1 if it is alone.
    pub batch_index: i32,
}

impl std::fmt::Display for MessageId {
    /// As Pulsar writes it: `ledger:entry:partition`, and the batch index if there is one.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.ledger, self.entry, self.partition)?;
        if self.batch_index >= 0 { write!(f, ":{}", self.batch_index) } else { Ok(()) }
    }
}

impl MessageId {
    pub(crate) fn new(id: &MessageIdData, partition: i32, batch_index: i32) -> Self {
        Self { ledger: id.ledger_id, entry: id.entry_id, partition, batch_index }
    }

    pub(crate) fn entry_data(&self) -> MessageIdData {
        MessageIdData {
            ledger_id: self.ledger,
            entry_id: self.entry,
            partition: Some(self.partition).filter(|partition| *partition >= 0),
            ..Default::default()
        }
    }
}

/// A message that was received.
#[derive(Clone, Debug)]
pub struct ReceivedMessage {
    /// The topic, or the partition of it.
    pub topic: Arc<str>,
    /// Where it lies.
    pub id: MessageId,
    /// How often its entry was delivered before.
    pub redelivery_count: u32,
    /// Who published it.
    pub producer_name: String,
    /// Its number among its producer's.
    pub sequence_id: u64,
    /// When it was published, in milliseconds since 1970.
    pub publish_time: u64,
    /// When it happened, in milliseconds since 1970, if its producer said so.
    pub event_time: Option<u64>,
    /// Its key.
    pub key: Option<String>,
    /// Its properties, as its producer wrote them.
    pub properties: Vec<(String, String)>,
    /// What was sent.
    pub payload: Bytes,
    /// Which of the consumer's topics it belongs to.
    pub(crate) source: usize,
    /// What is still to be acknowledged of its batch; `None` if it is alone.
    pub(crate) batch: Option<Arc<BatchAcks>>,
}

impl ReceivedMessage {
    /// The last property of that name.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().rev().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }
}

/// Which messages of a batch are still to be acknowledged: the entry is done when none is.
#[derive(Debug)]
pub(crate) struct BatchAcks {
    len: u32,
    unacked: Mutex<Vec<bool>>,
}

impl BatchAcks {
    /// A batch of `len` messages of which those of `words` are still to be acknowledged; all, without words.
    pub(crate) fn new(len: u32, words: &[i64]) -> Self {
        let unacked = (0..len).map(|index| words.is_empty() || ack_set::is_unacked(words, index)).collect();
        Self { len, unacked: Mutex::new(unacked) }
    }

    pub(crate) fn is_unacked(&self, index: u32) -> bool {
        self.unacked.lock()[index as usize]
    }

    /// Acknowledges one message; gives the id to send.
    pub(crate) fn acknowledge(&self, id: &MessageId) -> MessageIdData {
        let mut unacked = self.unacked.lock();
        unacked[id.batch_index as usize] = false;
        self.data(id, &unacked)
    }

    /// Acknowledges it and those before it; gives the id to send.
    pub(crate) fn acknowledge_up_to(&self, id: &MessageId) -> MessageIdData {
        let mut unacked = self.unacked.lock();
        unacked[..=id.batch_index as usize].fill(false);
        self.data(id, &unacked)
    }

    fn data(&self, id: &MessageId, unacked: &[bool]) -> MessageIdData {
        let words = ack_set::from_unacked((0..self.len).filter(|index| unacked[*index as usize]));
        // No word at all is the whole entry, which is then sent as servers know it best: plainly.
        let batch_size = (!words.is_empty()).then_some(self.len as i32);
        MessageIdData { ack_set: words, batch_size, ..id.entry_data() }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(batch_index: i32) -> MessageId {
        MessageId { ledger: 5, entry: 3, partition: -1, batch_index }
    }

    #[test]
    fn a_batch_is_done_when_all_of_it_is() {
        let acks = BatchAcks::new(3, &[]);
        let first = acks.acknowledge(&id(1));
        assert_eq!((first.ack_set, first.batch_size), (vec![0b101], Some(3)));
        assert_eq!(acks.acknowledge(&id(0)).ack_set, [0b100]);
        let last = acks.acknowledge(&id(2));
        assert_eq!((last.ack_set, last.batch_size), (vec![], None));
    }

    #[test]
    fn cumulative_takes_what_lies_before() {
        let acks = BatchAcks::new(70, &[]);
        let data = acks.acknowledge_up_to(&id(65));
        assert_eq!(ack_set::unacked(&data.ack_set, 70), [66, 67, 68, 69]);
    }

    #[test]
    fn what_was_acknowledged_before_is_known() {
        let acks = BatchAcks::new(2, &[0b10]);
        assert!(!acks.is_unacked(0) && acks.is_unacked(1));
        assert!(acks.acknowledge(&id(1)).ack_set.is_empty());
    }

    #[test]
    fn ids_are_written_as_pulsar_does() {
        assert_eq!(id(-1).to_string(), "5:3:-1");
        assert_eq!(id(2).to_string(), "5:3:-1:2");
    }
}
