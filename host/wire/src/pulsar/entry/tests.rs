use proptest::prelude::*;

use super::*;
use crate::pulsar::codec::MAX_UNCOMPRESSED_SIZE;
use crate::pulsar::command::KeyValue;
use crate::pulsar::fields::{Value, fields, put_bytes_key, put_varint_field};
use crate::pulsar::metadata::{BrokerEntryMetadata, EncryptionKeys, SingleMessageMetadata};

const CODECS: [CompressionType; 5] = [
    CompressionType::None,
    CompressionType::Lz4,
    CompressionType::Zlib,
    CompressionType::Zstd,
    CompressionType::Snappy,
];

/// Computed from the protocol's definition: "hello" of p-1, sequence id 0.
const SINGLE: &[u8] = b"\x0e\x01\xe6\xa7\x1a\xf0\0\0\0\x0e\x0a\x03p-1\x10\0\x18\x80\xd0\x95\xff\xbc\x31hello";

/// Likewise: a batch of "a" (sequence id 0) and "bc" (1).
const BATCH: &[u8] =
    b"\x0e\x01\xbd\xda\x74\x77\0\0\0\x13\x0a\x03p-1\x10\0\x18\x80\xd0\x95\xff\xbc\x31\x58\x02\
    \xc0\x01\x01\0\0\0\x04\x18\x01\x40\x00a\0\0\0\x04\x18\x02\x40\x01bc";

fn metadata() -> MessageMetadata {
    MessageMetadata {
        producer_name: "p-1".into(),
        sequence_id: 0,
        publish_time: 1_700_000_000_000,
        ..Default::default()
    }
}

fn message(id: u64, properties: &[(&str, &str)]) -> SingleMessageMetadata {
    SingleMessageMetadata {
        properties: properties.iter().map(|(name, value)| KeyValue::new(*name, *value)).collect(),
        sequence_id: Some(id),
        ..Default::default()
    }
}

fn open(stored: &Bytes) -> OpenEntry {
    Entry::parse(stored).unwrap().open(MAX_UNCOMPRESSED_SIZE).unwrap()
}

#[track_caller]
fn refused(stored: impl Into<Bytes>) -> String {
    let error = Entry::parse(&stored.into()).and_then(|entry| entry.open(MAX_UNCOMPRESSED_SIZE)).unwrap_err();
    error.to_string()
}

/// A batch of ten, `m0` to `m9`, of which every third has the property `keep`.
fn ten(compression: CompressionType) -> Bytes {
    let mut batch = BatchBuilder::new();
    for id in 0..10 {
        let mut single = message(100 + id, &[("n", &id.to_string())]);
        if id % 3 == 0 {
            single.properties.push(KeyValue::new("keep", "yes"));
        }
        batch.push(single, format!("m{id}").as_bytes());
    }
    batch.finish(metadata(), compression).unwrap()
}

fn payloads(entry: &OpenEntry) -> Vec<String> {
    entry.messages().map(|message| String::from_utf8(message.payload().to_vec()).unwrap()).collect()
}

#[test]
fn a_single_message() {
    let stored = Bytes::from_static(SINGLE);
    assert_eq!(verify_checksum(&stored).unwrap(), Some(0xe6a7_1af0));
    let entry = open(&stored);
    assert!(!entry.is_batch());
    assert_eq!(payloads(&entry), ["hello"]);
    let message = entry.message(0).unwrap();
    assert_eq!(message.producer_name(), "p-1");
    assert_eq!(message.publish_time(), 1_700_000_000_000);
    assert_eq!(message.event_time(), None);
    assert_eq!(write(entry.entry().metadata(), b"hello"), SINGLE);
}

#[test]
fn a_batch() {
    let stored = Bytes::from_static(BATCH);
    assert!(verify_checksum(&stored).unwrap().is_some());
    let entry = open(&stored);
    assert!(entry.is_batch());
    assert_eq!(entry.entry().messages(), 2);
    assert_eq!(payloads(&entry), ["a", "bc"]);
    assert_eq!(entry.messages().map(|message| message.sequence_id()).collect::<Vec<_>>(), [0, 1]);

    let mut batch = BatchBuilder::new();
    batch.push(message(0, &[]), b"a");
    batch.push(message(1, &[]), b"bc");
    assert_eq!(batch.finish(metadata(), CompressionType::None).unwrap(), BATCH);
}

#[test]
fn everything_a_message_says() {
    let single = MessageMetadata {
        properties: vec![KeyValue::new("k", "old"), KeyValue::new("k", "new"), KeyValue::new("ü", "")],
        partition_key: Some("key".into()),
        partition_key_b64_encoded: Some(true),
        ordering_key: Some(Bytes::from_static(b"\xff\0")),
        event_time: Some(42),
        null_value: Some(true),
        sequence_id: 7,
        ..metadata()
    };
    let batched = SingleMessageMetadata {
        properties: single.properties.clone(),
        partition_key: single.partition_key.clone(),
        partition_key_b64_encoded: Some(true),
        ordering_key: single.ordering_key.clone(),
        event_time: Some(42),
        null_value: Some(true),
        sequence_id: Some(7),
        ..Default::default()
    };
    let mut batch = BatchBuilder::new();
    batch.push(batched, b"");
    for stored in [
        super::single(single, &Bytes::new(), CompressionType::Lz4).unwrap(),
        batch.finish(metadata(), CompressionType::Lz4).unwrap(),
    ] {
        let entry = open(&stored);
        let message = entry.message(0).unwrap();
        let properties: Vec<_> = message.properties().collect();
        assert_eq!(properties, [("k", "old"), ("k", "new"), ("ü", "")]);
        assert_eq!(message.property("k"), Some("new"));
        assert_eq!(message.property("none"), None);
        assert_eq!((message.key(), message.key_is_base64()), (Some("key"), true));
        assert_eq!(message.ordering_key(), Some(&b"\xff\0"[..]));
        assert_eq!(message.event_time(), Some(42));
        assert_eq!(message.sequence_id(), 7);
        assert!(message.is_null());
        assert!(!message.is_compacted_out());
        assert_eq!(message.payload(), "");
    }
}

#[test]
fn a_part_of_a_batch_is_kept() {
    for compression in CODECS {
        let entry = open(&ten(compression));
        let keep: Vec<_> = entry.messages().map(|message| message.property("keep").is_some()).collect();
        let part = entry.keep(&keep).unwrap();
        assert!(verify_checksum(&part).unwrap().is_some());
        let part = open(&part);
        assert_eq!(payloads(&part), ["m0", "m3", "m6", "m9"], "{compression:?}");
        assert_eq!(part.messages().map(|message| message.property("n").unwrap()).collect::<String>(), "0369");
        let (before, after) = (entry.entry().metadata(), part.entry().metadata());
        assert_eq!(after.num_messages_in_batch, Some(4));
        assert_eq!(after.compression, before.compression);
        assert_eq!((after.sequence_id, after.highest_sequence_id), (100, Some(109)));
        assert_eq!((&after.producer_name, after.publish_time), (&before.producer_name, before.publish_time));
    }
}

#[test]
fn sequence_ids_are_those_of_what_is_kept() {
    let entry = open(&ten(CompressionType::None));
    let keep: Vec<_> = (0..10).map(|index| (4..=6).contains(&index)).collect();
    let part = open(&entry.keep(&keep).unwrap());
    assert_eq!(
        (part.entry().metadata().sequence_id, part.entry().metadata().highest_sequence_id()),
        (104, 106)
    );
}

#[test]
fn a_batch_of_one_stays_a_batch() {
    let entry = open(&ten(CompressionType::Zstd));
    let keep: Vec<_> = (0..10).map(|index| index == 9).collect();
    let part = open(&entry.keep(&keep).unwrap());
    assert!(part.is_batch());
    assert_eq!(payloads(&part), ["m9"]);
}

#[test]
fn all_kept_is_the_stored_entry() {
    let stored = ten(CompressionType::Snappy);
    assert_eq!(open(&stored).keep(&[true; 10]).unwrap(), stored);
}

#[test]
fn what_cannot_be_kept() {
    let batch = open(&ten(CompressionType::None));
    assert!(matches!(batch.keep(&[false; 10]), Err(EntryError::NotDivisible(_))));
    assert!(matches!(batch.keep(&[true; 9]), Err(EntryError::NotDivisible(_))));
    let single = open(&Bytes::from_static(SINGLE));
    assert!(matches!(single.keep(&[true]), Err(EntryError::NotDivisible(_))));
}

#[test]
fn unknown_fields_survive() {
    // Field 77 and 78 of the metadata, and 79 of the second message, are not known to anybody yet.
    let mut metadata_bytes = metadata().encode_to_vec();
    put_varint_field(77, 1 << 40, &mut metadata_bytes);
    put_varint_field(11, 2, &mut metadata_bytes);
    put_bytes_key(78, 3, &mut metadata_bytes);
    metadata_bytes.extend(b"new");
    let mut second = message(1, &[]);
    second.payload_size = 1;
    let mut second = second.encode_to_vec();
    put_varint_field(79, 5, &mut second);
    let first = SingleMessageMetadata { payload_size: 1, ..message(0, &[]) }.encode_to_vec();
    let record = |metadata: &[u8], payload: &[u8]| {
        [&(metadata.len() as u32).to_be_bytes(), metadata, payload].concat()
    };
    let body = [record(&first, b"a"), record(&second, b"b")].concat();
    let entry = open(&build::frame(&metadata_bytes, &body));

    let part = Entry::parse(&entry.keep(&[false, true]).unwrap()).unwrap();
    assert_eq!(part.payload(), &record(&second, b"b"));
    let tags = |bytes: &[u8]| fields(bytes).map(|field| field.unwrap().tag).collect::<Vec<_>>();
    assert_eq!(tags(&part.metadata_bytes), tags(&metadata_bytes));
    let unknown: Vec<_> = fields(&part.metadata_bytes).flatten().filter(|field| field.tag > 70).collect();
    assert_eq!(unknown[0].value, Value::Varint(1 << 40));
    assert!(matches!(unknown[1].value, Value::Bytes(b"new", _)));
}

#[test]
fn a_brokers_metadata_are_skipped() {
    let broker = BrokerEntryMetadata { broker_timestamp: Some(1), index: Some(42) }.encode_to_vec();
    let mut stored = vec![0x0e, 0x02];
    stored.extend((broker.len() as u32).to_be_bytes());
    stored.extend(broker);
    stored.extend(BATCH);
    let stored = Bytes::from(stored);
    assert!(verify_checksum(&stored).unwrap().is_some());
    assert_eq!(payloads(&open(&stored)), ["a", "bc"]);
    assert_eq!(deliverable(&stored).unwrap(), BATCH);
}

#[test]
fn an_entry_without_checksum_gets_one_for_delivery() {
    let stored = Bytes::from_static(&SINGLE[6..]);
    assert_eq!(verify_checksum(&stored).unwrap(), None);
    assert_eq!(payloads(&open(&stored)), ["hello"]);
    assert_eq!(deliverable(&stored).unwrap(), SINGLE);
    let whole = Bytes::from_static(SINGLE);
    assert_eq!(deliverable(&whole).unwrap().as_ptr(), whole.as_ptr(), "what is right is not copied");
}

#[test]
fn a_wrong_checksum_is_told() {
    let mut stored = SINGLE.to_vec();
    *stored.last_mut().unwrap() ^= 1;
    let error = verify_checksum(&stored).unwrap_err();
    assert!(matches!(error, EntryError::Checksum { announced: 0xe6a7_1af0, .. }), "{error}");
}

#[test]
fn an_encrypted_entry_is_not_opened() {
    let key = EncryptionKeys { key: "k".into(), value: Bytes::new(), metadata: vec![] };
    let stored = write(&MessageMetadata { encryption_keys: vec![key], ..metadata() }, b"secret");
    assert!(Entry::parse(&stored).unwrap().is_encrypted());
    assert_eq!(refused(stored), "the entry is encrypted");
}

#[test]
fn chunks_and_markers_are_single_and_left_packed() {
    let chunk = MessageMetadata {
        num_chunks_from_msg: Some(3),
        chunk_id: Some(1),
        compression: Some(CompressionType::Lz4.into()),
        uncompressed_size: Some(9000),
        ..metadata()
    };
    let marker = MessageMetadata { marker_type: Some(20), ..metadata() };
    for metadata in [chunk, marker] {
        let entry = open(&write(&metadata, b"\x01\x02"));
        assert!(!entry.is_batch());
        assert_eq!(entry.message(0).unwrap().payload(), &b"\x01\x02"[..]);
    }
}

#[test]
fn a_compacted_batch_holds_fewer_messages() {
    let mut batch = BatchBuilder::new();
    batch.push(message(2, &[]), b"c");
    batch.push(message(5, &[]), b"f");
    let stored = batch.finish(metadata(), CompressionType::None).unwrap();
    let mut entry = Entry::parse(&stored).unwrap();
    let metadata = MessageMetadata {
        num_messages_in_batch: Some(10),
        compacted_batch_indexes: vec![2, 5],
        ..entry.metadata.clone()
    };
    entry = Entry::parse(&write(&metadata, entry.payload())).unwrap();
    let open = entry.open(1000).unwrap();
    assert_eq!(payloads(&open), ["c", "f"]);
    assert!(matches!(open.keep(&[true, false]), Err(EntryError::NotDivisible(_))));
}

#[test]
fn faults_have_their_own_sentence() {
    assert_eq!(refused(&b""[..]), "the entry ends within its metadata length");
    assert_eq!(refused(&b"\x0e\x01\0"[..]), "the entry ends within its checksum");
    assert_eq!(refused(&b"\x0e\x02\0"[..]), "the entry ends within its broker metadata");
    assert_eq!(refused(&b"\0\0\0\x09abc"[..]), "the entry ends within its metadata");
    assert_eq!(refused(&b"\xff\xff\xff\xffabc"[..]), "the entry ends within its metadata");
    assert_eq!(refused(write(&MessageMetadata { compression: Some(7), ..metadata() }, b"")), {
        "the entry has the unknown compression 7"
    });
    let batch_of = |number, body: &[u8]| {
        refused(write(&MessageMetadata { num_messages_in_batch: Some(number), ..metadata() }, body))
    };
    let body = &BATCH[BATCH.len() - 19..];
    assert_eq!(batch_of(3, body), "message 2 of the batch: the payload ends within its length");
    assert_eq!(batch_of(1, body), "10 bytes follow the last message of the batch");
    assert_eq!(batch_of(0, body), "a batch of 0 messages cannot lie in 19 bytes");
    assert_eq!(batch_of(-1, body), "a batch of -1 messages cannot lie in 19 bytes");
    assert_eq!(batch_of(i32::MAX, body), "a batch of 2147483647 messages cannot lie in 19 bytes");
    assert_eq!(
        batch_of(1, b"\0\0\0\x04\x18\x05\x40\x00ab"),
        "message 0 of the batch: the payload ends within its payload"
    );
    assert_eq!(
        batch_of(1, b"\0\0\0\x02\x40\x00"),
        "message 0 of the batch: its metadata lack the size of its payload"
    );
    assert_eq!(
        batch_of(1, b"\0\0\0\x09\x40\x00"),
        "message 0 of the batch: the payload ends within its metadata"
    );
    let property = b"\0\0\0\x0a\x0a\x06\x0a\x01k\x12\x01\xff\x18\0";
    let reason = batch_of(1, property);
    assert!(reason.starts_with("message 0 of the batch: the value of a property is not UTF-8"), "{reason}");
}

#[test]
fn properties_of_a_batch_are_bounded() {
    let some = message(0, &vec![("", ""); 1 << 16]);
    let batch = |n: usize| {
        let mut batch = BatchBuilder::new();
        (0..n).for_each(|_| batch.push(some.clone(), b""));
        batch.finish(metadata(), CompressionType::None).unwrap()
    };
    assert_eq!(open(&batch(16)).messages().map(|message| message.properties().len()).sum::<usize>(), 1 << 20);
    assert!(refused(batch(17)).contains("more than 1048576 properties"));
}

#[test]
fn metadata_must_be_complete() {
    let mut without_time = Vec::new();
    put_bytes_key(1, 1, &mut without_time);
    without_time.push(b'p');
    put_varint_field(2, 0, &mut without_time);
    let error = Entry::parse(&build::frame(&without_time, b"")).unwrap_err();
    let EntryError::Metadata(error) = error else { panic!("{error}") };
    assert_eq!(error.to_string(), "MessageMetadata lacks its required field publish_time");
}

fn any_compression() -> impl Strategy<Value = CompressionType> {
    prop::sample::select(&CODECS[..])
}

fn any_message() -> impl Strategy<Value = (SingleMessageMetadata, Vec<u8>)> {
    let properties = prop::collection::vec(("[a-z]{0,8}", ".{0,12}"), 0..4);
    let payload = prop::collection::vec(any::<u8>(), 0..64);
    (properties, prop::option::of("[a-z]{1,6}"), any::<Option<u64>>(), payload).prop_map(
        |(properties, partition_key, sequence_id, payload)| {
            let properties = properties.into_iter().map(|(name, value)| KeyValue::new(name, value)).collect();
            let metadata =
                SingleMessageMetadata { properties, partition_key, sequence_id, ..Default::default() };
            (metadata, payload)
        },
    )
}

proptest! {
    #[test]
    fn batches_come_back_whole_and_in_part(
        messages in prop::collection::vec((any_message(), any::<bool>()), 1..40),
        compression in any_compression(),
    ) {
        let mut batch = BatchBuilder::new();
        for ((metadata, payload), _) in &messages {
            batch.push(metadata.clone(), payload);
        }
        let stored = batch.finish(metadata(), compression).unwrap();
        let entry = open(&stored);
        prop_assert_eq!(entry.len(), messages.len());
        let keep: Vec<_> = messages.iter().map(|(_, keep)| *keep).collect();
        let Ok(part) = entry.keep(&keep) else {
            prop_assert!(!keep.contains(&true));
            return Ok(());
        };
        let part = open(&part);
        let kept: Vec<_> = messages.iter().filter(|(_, keep)| *keep).map(|(message, _)| message).collect();
        prop_assert_eq!(part.len(), kept.len());
        for (message, (metadata, payload)) in part.messages().zip(kept) {
            prop_assert_eq!(&message.payload()[..], &payload[..]);
            prop_assert_eq!(message.key(), metadata.partition_key.as_deref());
            let properties: Vec<_> = message.properties().map(|(n, v)| KeyValue::new(n, v)).collect();
            prop_assert_eq!(&properties, &metadata.properties);
        }
    }

    #[test]
    fn no_bytes_bring_it_down(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = verify_checksum(&noise);
        if let Ok(entry) = Entry::parse(&noise.into()) {
            let _ = entry.open(1 << 16);
        }
    }

    #[test]
    fn no_broken_entry_brings_it_down(at in any::<prop::sample::Index>(), bit in 0_u32..8, cut in any::<prop::sample::Index>(), compression in any_compression()) {
        let mut stored = ten(compression).to_vec();
        let index = at.index(stored.len());
        stored[index] ^= 1 << bit;
        stored.truncate(cut.index(stored.len()) + 1);
        if let Ok(entry) = Entry::parse(&stored.into()).and_then(|entry| entry.open(1 << 16)) {
            let keep: Vec<_> = (0..entry.len()).map(|index| index % 2 == 0).collect();
            let _ = entry.keep(&keep);
            for message in entry.messages() {
                let _ = (message.properties().count(), message.key(), message.payload());
            }
        }
    }
}
