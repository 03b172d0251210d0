use proptest::prelude::*;

use super::*;
use crate::pulsar::NO_REQUEST;
use crate::pulsar::command::*;
use crate::pulsar::fields::put_bytes_key;

/// Bytes of a frame, written in hex with spaces where they help.
fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn decode(bytes: &[u8]) -> Result<Option<Frame>, DecodeError> {
    Decoder::default().decode(&mut BytesMut::from(bytes))
}

/// Decodes to `frame`, byte by byte as well as at once, and encodes to the same bytes.
#[track_caller]
fn check(bytes: &str, frame: Frame) {
    let bytes = hex(bytes);
    assert_eq!(decode(&bytes).unwrap().unwrap(), frame);

    let mut slowly = BytesMut::new();
    for (at, byte) in bytes.iter().enumerate() {
        assert_eq!(Decoder::default().decode(&mut slowly), Ok(None), "complete after {at} bytes");
        slowly.put_u8(*byte);
    }
    assert_eq!(Decoder::default().decode(&mut slowly), Ok(Some(frame.clone())));
    assert!(slowly.is_empty());

    let mut written = BytesMut::new();
    match frame {
        Frame::Simple(command) => encode(&command, &mut written),
        Frame::Payload(command, entry) => encode_with_payload(&command, &entry, &mut written),
        Frame::Unknown(_) => return,
    }
    assert_eq!(written, bytes, "written: {written:02x?}");
}

fn simple(command: impl Into<Command>) -> Frame {
    Frame::Simple(command.into())
}

fn payload(command: impl Into<Command>, entry: &str) -> Frame {
    Frame::Payload(command.into(), hex(entry).into())
}

/// The refusal of these bytes, as people read it.
#[track_caller]
fn refused(bytes: &[u8]) -> DecodeError {
    decode(bytes).expect_err("must be refused")
}

// Frames computed from the protocol's definition and decoded with protoc's code.

#[test]
fn ping_and_pong() {
    check("00000009 00000005 0812 920100", simple(CommandPing {}));
    check("00000009 00000005 0813 9a0100", simple(CommandPong {}));
}

#[test]
fn connect() {
    check(
        "0000001d 00000019 0802 1215 0a03742d31 2015 2a046e6f6e65 5206 0801 1001 1801",
        simple(CommandConnect {
            client_version: "t-1".into(),
            protocol_version: Some(21),
            auth_method_name: Some("none".into()),
            feature_flags: Some(FeatureFlags {
                supports_auth_refresh: Some(true),
                supports_broker_entry_metadata: Some(true),
                supports_partial_producer: Some(true),
                ..Default::default()
            }),
            ..Default::default()
        }),
    );
}

#[test]
fn connected() {
    check(
        "00000026 00000022 0803 1a1e 0a0d50756c73617220536572766572 1015 1880 80c002 2206 2001 2801 3801",
        simple(CommandConnected {
            server_version: "Pulsar Server".into(),
            protocol_version: Some(21),
            max_message_size: Some(5_242_880),
            feature_flags: Some(FeatureFlags {
                supports_topic_watchers: Some(true),
                supports_get_partitioned_metadata_without_auto_creation: Some(true),
                supports_topic_watcher_reconcile: Some(true),
                ..Default::default()
            }),
        }),
    );
}

#[test]
fn get_topics_of_namespace() {
    check(
        "0000005d000000590820 8202540807120e7075626c69632f64656661756c741800221e70657273697374656e743a2f2f7075\
         626c69632f64656661756c742f2e2a320b0a03656e76120470726f6432110a06726567696f6e120775732d77657374",
        simple(CommandGetTopicsOfNamespace {
            request_id: 7,
            namespace: "public/default".into(),
            mode: Some(TopicsMode::Persistent.into()),
            topics_pattern: Some("persistent://public/default/.*".into()),
            topics_hash: None,
            properties: vec![KeyValue::new("env", "prod"), KeyValue::new("region", "us-west")],
        }),
    );
}

#[test]
fn topics_of_namespace() {
    check(
        "0000003d000000390821 8a02340807122270657273697374656e743a2f2f7075626c69632f64656661756c742f6f726465\
         7273180122083362363136613636 2801",
        simple(CommandGetTopicsOfNamespaceResponse {
            request_id: 7,
            topics: vec!["persistent://public/default/orders".into()],
            filtered: Some(true),
            topics_hash: Some("3b616a66".into()),
            changed: Some(true),
        }),
    );
    check(
        "0000001900000015 0821 8a0210 0808 1801 22083362363136613636 2800",
        simple(CommandGetTopicsOfNamespaceResponse {
            request_id: 8,
            topics: vec![],
            filtered: Some(true),
            topics_hash: Some("3b616a66".into()),
            changed: Some(false),
        }),
    );
}

#[test]
fn zeros_that_clients_look_for_are_written() {
    check(
        "0000000f0000000b 0816 b20106 0800 1001 1800",
        simple(CommandPartitionedTopicMetadataResponse {
            partitions: Some(0),
            request_id: 1,
            response: Some(MetadataLookupType::Success.into()),
            ..Default::default()
        }),
    );
}

#[test]
fn lookup_response() {
    check(
        "0000002800000024 0818 c2011f 0a1770756c7361723a2f2f6c6f63616c686f73743a36363530 1801 2002 2801",
        simple(CommandLookupTopicResponse {
            broker_service_url: Some("pulsar://localhost:6650".into()),
            response: Some(LookupType::Connect.into()),
            request_id: 2,
            authoritative: Some(true),
            ..Default::default()
        }),
    );
}

#[test]
fn send() {
    check(
        "00000029 00000008 0806 3204 0800 1000
         0e01 e6a71af0 0000000e 0a03702d31 1000 1880d095ffbc31 68656c6c6f",
        payload(
            CommandSend { producer_id: 0, sequence_id: 0, ..Default::default() },
            "0e01 e6a71af0 0000000e 0a03702d31 1000 1880d095ffbc31 68656c6c6f",
        ),
    );
}

#[test]
fn send_batch() {
    let entry = "0e01 bdda7477 00000013 0a03702d31 1000 1880d095ffbc31 5802 c00101
                 00000004 1801 4000 61 00000004 1802 4001 6263";
    check(
        &format!("00000040 0000000c 0806 3208 0800 1000 1802 3001 {entry}"),
        payload(
            CommandSend {
                producer_id: 0,
                sequence_id: 0,
                num_messages: Some(2),
                highest_sequence_id: Some(1),
                ..Default::default()
            },
            entry,
        ),
    );
}

#[test]
fn send_receipt() {
    check(
        "00000012 0000000e 0807 3a0a 0800 1000 1a04 0805 1003",
        simple(CommandSendReceipt {
            producer_id: 0,
            sequence_id: 0,
            message_id: Some(MessageIdData { ledger_id: 5, entry_id: 3, ..Default::default() }),
            highest_sequence_id: None,
        }),
    );
}

#[test]
fn message_with_broker_metadata() {
    let entry = "0e02 00000009 0881d095ffbc31 102a
                 0e01 e6a71af0 0000000e 0a03702d31 1000 1880d095ffbc31 68656c6c6f";
    check(
        &format!("00000047 00000017 0809 4a13 0800 120f 0805 1003 18ffffffffffffffffff01 {entry}"),
        payload(
            CommandMessage {
                consumer_id: 0,
                message_id: MessageIdData {
                    ledger_id: 5,
                    entry_id: 3,
                    partition: Some(-1),
                    ..Default::default()
                },
                ..Default::default()
            },
            entry,
        ),
    );
}

#[test]
fn minus_one_is_ten_bytes() {
    check(
        "00000019 00000015 080e 7211 08ffffffffffffffffff01 1003 1a026e6f",
        simple(CommandError {
            request_id: NO_REQUEST,
            error: ServerError::AuthenticationError.into(),
            message: "no".into(),
        }),
    );
}

#[test]
fn every_command_comes_back() {
    for command in one_of_each() {
        let mut bytes = BytesMut::new();
        encode(&command, &mut bytes);
        assert_eq!(bytes.len(), 8 + command.encoded_len(), "{}", command.name());
        let frame = Decoder::default().decode(&mut bytes).unwrap().unwrap();
        let decoded = match frame {
            Frame::Simple(decoded) | Frame::Payload(decoded, _) => decoded,
            Frame::Unknown(number) => panic!("{} came back as unknown command {number}", command.name()),
        };
        assert_eq!(decoded, command);
    }
}

#[test]
fn absent_fields_have_their_defaults() {
    let subscribe = CommandSubscribe::default();
    assert!(subscribe.durable() && subscribe.force_topic_creation());
    let id = MessageIdData::default();
    assert_eq!((id.partition(), id.batch_index()), (-1, -1));
    assert!(CommandGetTopicsOfNamespaceResponse::default().changed());
    assert_eq!(CommandProducerSuccess::default().last_sequence_id(), -1);
    assert!(CommandProducerSuccess::default().producer_ready());
    assert_eq!(CommandSend::default().num_messages(), 1);
    assert!(CommandPartitionedTopicMetadata::default().metadata_auto_creation_enabled());
    assert!(CommandProducer::default().user_provided_producer_name());
}

#[test]
fn packed_numbers_are_taken_too() {
    // MESSAGE, consumer 0, id 1:2, ack_set [5, 6] as one packed field.
    let bytes = hex("00000014 00000010 0809 4a0c 0800 1204 0801 1002 2202 0506");
    let Some(Frame::Payload(Command::Message(message), _)) = decode(&bytes).unwrap() else {
        panic!("not a message")
    };
    assert_eq!(message.ack_set, [5, 6]);
}

#[test]
fn two_frames_in_one_read() {
    let mut both = BytesMut::from(&hex("00000009 00000005 0812 920100 00000009 00000005 0813 9a0100")[..]);
    let decoder = Decoder::default();
    assert_eq!(decoder.decode(&mut both), Ok(Some(simple(CommandPing {}))));
    assert_eq!(decoder.decode(&mut both), Ok(Some(simple(CommandPong {}))));
    assert_eq!(decoder.decode(&mut both), Ok(None));
}

#[test]
fn a_ping_may_leave_out_its_body() {
    assert_eq!(decode(&hex("00000006 00000002 0812")), Ok(Some(simple(CommandPing {}))));
}

#[test]
fn other_commands_may_not() {
    assert_eq!(refused(&hex("00000006 00000002 0804")), DecodeError::NoBody { command: "SUBSCRIBE" });
    // LOOKUP that holds the body of PING.
    assert_eq!(refused(&hex("00000009 00000005 0817 920100")), DecodeError::NoBody { command: "LOOKUP" });
}

#[test]
fn unknown_commands_are_passed_over() {
    // NEW_TXN, and a number that nobody has taken, with a payload behind it.
    assert_eq!(decode(&hex("0000000b 00000007 0832 9203020801")), Ok(Some(Frame::Unknown(50))));
    assert_eq!(decode(&hex("0000000c 00000003 08e707 0102030405")), Ok(Some(Frame::Unknown(999))));
}

#[test]
fn lengths_are_refused_before_the_rest_arrives() {
    let limit = Limits::default().frame;
    assert_eq!(limit, 5_253_120);
    assert_eq!(refused(&[0, 0, 0, 0]), DecodeError::FrameTooSmall { announced: 0 });
    assert_eq!(refused(&[0, 0, 0, 3]), DecodeError::FrameTooSmall { announced: 3 });
    let over = (limit as u32 + 1).to_be_bytes();
    assert_eq!(refused(&over), DecodeError::FrameTooLarge { announced: limit + 1, limit });
    assert_eq!(refused(&[0xff; 4]), DecodeError::FrameTooLarge { announced: u32::MAX as usize, limit });
    assert_eq!(decode(&(limit as u32).to_be_bytes()), Ok(None));
    assert_eq!(
        refused(&hex("00000009 00000006")),
        DecodeError::CommandTooLarge { announced: 6, room: 5 },
        "the command may have what its frame has after the command's length"
    );
    assert_eq!(
        refused(&hex("00000009 ffffffff")),
        DecodeError::CommandTooLarge { announced: u32::MAX as usize, room: 5 }
    );
    assert_eq!(
        refused(&hex("00000009 00000000 0812 920100")),
        DecodeError::MissingField { message: "BaseCommand", field: "type" }
    );
}

#[test]
fn nothing_is_reserved_for_what_is_announced() {
    let mut buffer = BytesMut::from(&hex("00500000 00000010 0806")[..]);
    let before = buffer.capacity();
    assert_eq!(Decoder::default().decode(&mut buffer), Ok(None));
    assert_eq!(buffer.capacity(), before);
}

#[test]
fn other_protocols_are_named() {
    assert_eq!(refused(b"GET /metrics HTTP/1.1\r\n"), DecodeError::NotPulsar("HTTP"));
    assert_eq!(refused(&hex("1603010200010001fc0303")), DecodeError::NotPulsar("TLS"));
}

#[test]
fn bytes_after_a_simple_command_are_refused() {
    assert_eq!(
        refused(&hex("0000000b 00000005 0812 920100 0000")),
        DecodeError::TrailingBytes { command: "PING", bytes: 2 }
    );
}

#[test]
fn every_required_field_is_missed() {
    for command in one_of_each() {
        let number = command.number();
        let mut whole = BytesMut::new();
        command.encode(&mut whole);
        let (_, body) = base_command(&whole.freeze()).unwrap();
        let body = body.unwrap();
        let ranges: Vec<_> = fields(&body).map(|field| field.unwrap().range).collect();
        // Default messages hold nothing but their required fields.
        for range in ranges {
            let without = [&body[..range.start], &body[range.end..]].concat();
            let error = Command::decode(number, without.into(), 1000).expect_err(command.name());
            assert!(matches!(error, DecodeError::MissingField { .. }), "{}: {error}", command.name());
        }
    }
}

#[test]
fn a_missing_field_is_named() {
    // SUBSCRIBE with a topic alone.
    let error = refused(&hex("0000000b 00000007 0804 2203 0a0174"));
    assert_eq!(error.to_string(), "CommandSubscribe lacks its required field subscription");
    // GET_TOPICS_OF_NAMESPACE whose property has no value.
    let error = refused(&hex("00000013 0000000f 0820 82020a 0801 120161 3203 0a0161"));
    assert_eq!(error.to_string(), "KeyValue lacks its required field value");
}

#[test]
fn an_unknown_subscription_type_is_not_an_exclusive_one() {
    let mut command = CommandSubscribe { topic: "t".into(), subscription: "s".into(), ..Default::default() };
    for sub_type in [4, -1] {
        command.sub_type = sub_type;
        let mut bytes = BytesMut::new();
        encode(&command.clone().into(), &mut bytes);
        let error = Decoder::default().decode(&mut bytes).unwrap_err();
        let unknown = matches!(error, DecodeError::UnknownValue { field: "subType", .. });
        assert!(unknown, "{error}");
    }
}

#[test]
fn what_decoding_takes_is_bounded() {
    // An id takes six bytes on the wire and a hundred in memory.
    let id = MessageIdData { ledger_id: 1, entry_id: 1, ..Default::default() };
    let command = CommandRedeliverUnacknowledgedMessages {
        consumer_id: 1,
        message_ids: vec![id; Limits::MAX_REQUEST_FIELDS / 3 + 1],
        consumer_epoch: None,
    };
    let mut bytes = BytesMut::new();
    encode(&command.into(), &mut bytes);
    let error = Decoder::default().decode(&mut bytes.clone()).err();
    assert_eq!(error, Some(DecodeError::TooManyFields { message: "CommandRedeliverUnacknowledgedMessages" }));
    assert!(Decoder::new(Limits::client(DEFAULT_MAX_MESSAGE_SIZE)).decode(&mut bytes).is_ok());
}

#[test]
fn messages_within_messages_have_a_floor() {
    let mut id = MessageIdData::default();
    for _ in 0..50 {
        id = MessageIdData { first_chunk_message_id: Some(Box::new(id)), ..Default::default() };
    }
    let command = CommandSeek { message_id: Some(id), ..Default::default() };
    let mut bytes = BytesMut::new();
    encode(&command.into(), &mut bytes);
    assert_eq!(Decoder::default().decode(&mut bytes), Err(DecodeError::TooDeep { message: "MessageIdData" }));
}

#[test]
fn text_must_be_utf_8() {
    // LOOKUP of the topic ff.
    let error = refused(&hex("0000000e 0000000a 0817 ba0105 0a01ff 1001"));
    assert!(matches!(error, DecodeError::Malformed { command: "LOOKUP", .. }), "{error}");
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop::collection::vec(any::<u8>(), 0..200);
    let framed = (0_u8..70, prop::collection::vec(any::<u8>(), 0..60), any::<u8>()).prop_map(
        |(number, body, wrong)| {
            let mut command = vec![8, number];
            put_bytes_key(u32::from(number).max(1), body.len(), &mut command);
            command.extend(body);
            let mut frame = (4 + command.len() as u32).to_be_bytes().to_vec();
            frame.extend((command.len() as u32).to_be_bytes());
            frame.extend(command);
            // Every few frames have one bit wrong.
            if wrong < 80 {
                let at = usize::from(wrong) % frame.len();
                frame[at] ^= 1 << (wrong % 8);
            }
            frame
        },
    );
    prop_oneof![noise, framed]
}

proptest! {
    #[test]
    fn no_bytes_bring_it_down(frames in prop::collection::vec(any_frame(), 1..6), cut in 1_usize..40) {
        let stream = frames.concat();
        let at_once = all_frames([&stream[..]]);
        let in_pieces = all_frames(stream.chunks(cut));
        prop_assert_eq!(at_once, in_pieces, "how a stream is cut must not matter");
    }

    #[test]
    fn entries_pass_through(entry in prop::collection::vec(any::<u8>(), 0..2000), cut in 1_usize..500) {
        let command: Command = CommandSend { producer_id: 3, sequence_id: 9, ..Default::default() }.into();
        let mut stream = BytesMut::new();
        encode_with_payload(&command, &entry, &mut stream);
        let (frames, error) = all_frames(stream.chunks(cut));
        prop_assert_eq!(frames, vec![Frame::Payload(command, entry.into())]);
        prop_assert_eq!(error, None);
    }
}

/// The frames of a stream that arrives in pieces, and what ended it, if anything did.
fn all_frames<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Frame>, Option<DecodeError>) {
    let (decoder, mut buffer, mut frames) = (Decoder::default(), BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.put_slice(piece);
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}
