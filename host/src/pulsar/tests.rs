//! The listener, spoken to in bytes: a real broker on a real store, on port 0.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use weir_broker::{Bindings, Broker, BrokerOptions, Index, Listing, Store, Workers};
use weir_extension::Extensions;
use weir_wire::pulsar::command::{
    AckType, Command, CommandAck, CommandCloseProducer, CommandConnect, CommandFlow,
    CommandGetTopicsOfNamespace, CommandLookupTopic, CommandPartitionedTopicMetadata, CommandPing,
    CommandProducer, CommandSend, CommandSubscribe, MessageIdData, SubType,
};
use weir_wire::pulsar::metadata::MessageMetadata;
use weir_wire::pulsar::{Decoder, Frame, Limits as FrameLimits, ServerError, entry, frame};

use super::{Advertised, PulsarEntries, Service, serve};
use crate::config::{ByteSize, Limits};
use crate::metrics::Metrics;

/// How long anything that must happen may take.
const PATIENCE: Duration = Duration::from_secs(20);

struct Host {
    address: SocketAddr,
    stop: CancellationToken,
    _folder: TempDir,
}

impl Host {
    async fn start(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = Store::open(&folder.path().join("store"), weir_store::Options::default()).unwrap();
        let extensions = Extensions::with_builtins(vec![weir_listing::property_equality()]);
        let bindings = Arc::new(Bindings::new(Arc::clone(&extensions)));
        let index = Arc::new(Index::default());
        let listing = Arc::new(Listing::new(extensions, Arc::clone(&index), weir_listing::Config::default()));
        let size = limits.max_message_size.bytes();
        let options = BrokerOptions { max_message_size: size, ..BrokerOptions::default() };
        let workers = Arc::new(Workers::new(1));
        let decoder = Arc::new(PulsarEntries::new(size));
        let broker = Broker::open(&store, index, bindings, workers, decoder, options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let advertised = Advertised::new("", address.port());
        let service = Service { broker, listing, limits, advertised, metrics: Metrics::default() };
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, Arc::new(service), stop.clone()));
        Self { address, stop, _folder: folder }
    }

    async fn connect(&self) -> Peer {
        let socket = TcpStream::connect(self.address).await.unwrap();
        Peer { socket, buffer: BytesMut::new(), decoder: Decoder::new(FrameLimits::client(5 << 20)) }
    }

    async fn greeted(&self) -> Peer {
        let mut peer = self.connect().await;
        peer.send(connect()).await;
        assert!(matches!(peer.command().await, Command::Connected(_)));
        peer
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct Peer {
    socket: TcpStream,
    buffer: BytesMut,
    decoder: Decoder,
}

impl Peer {
    async fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.unwrap();
    }

    async fn send(&mut self, command: impl Into<Command>) {
        self.write(&frame_of(command)).await;
    }

    async fn publish(&mut self, producer_id: u64, sequence_id: u64, entry: &[u8]) {
        let send = CommandSend { producer_id, sequence_id, ..CommandSend::default() };
        let mut out = BytesMut::new();
        frame::encode_with_payload(&send.into(), entry, &mut out);
        self.write(&out).await;
    }

    /// The next frame; `None` when the connection is closed.
    async fn frame(&mut self) -> Option<Frame> {
        let next = async {
            loop {
                if let Some(frame) = self.decoder.decode(&mut self.buffer).unwrap() {
                    return Some(frame);
                }
                match self.socket.read_buf(&mut self.buffer).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => {}
                }
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("neither a frame nor the end came")
    }

    async fn command(&mut self) -> Command {
        match self.frame().await {
            Some(Frame::Simple(command)) => command,
            other => panic!("expected a command, got {other:?}"),
        }
    }

    async fn closed(&mut self) {
        let frame = self.frame().await;
        assert!(frame.is_none(), "expected the end, got {frame:?}");
    }

    async fn works(&mut self) {
        self.send(CommandPing {}).await;
        assert!(matches!(self.command().await, Command::Pong(_)));
    }

    async fn producer(&mut self, topic: &str, producer_id: u64) {
        self.send(CommandProducer {
            topic: topic.into(),
            producer_id,
            request_id: 900,
            ..CommandProducer::default()
        })
        .await;
        let answer = self.command().await;
        assert!(matches!(answer, Command::ProducerSuccess(_)), "{answer:?}");
    }
}

fn frame_of(command: impl Into<Command>) -> Bytes {
    let mut out = BytesMut::new();
    frame::encode(&command.into(), &mut out);
    out.freeze()
}

fn connect() -> CommandConnect {
    CommandConnect { client_version: "test".into(), protocol_version: Some(21), ..CommandConnect::default() }
}

fn message(payload: &[u8]) -> Bytes {
    let metadata = MessageMetadata {
        producer_name: "p".into(),
        sequence_id: 0,
        publish_time: 1_700_000_000_000,
        ..MessageMetadata::default()
    };
    entry::write(&metadata, payload)
}

fn lookup(topic: &str, request_id: u64) -> CommandLookupTopic {
    CommandLookupTopic { topic: topic.into(), request_id, ..CommandLookupTopic::default() }
}

fn subscribe(topic: &str, consumer_id: u64, request_id: u64) -> CommandSubscribe {
    CommandSubscribe {
        topic: topic.into(),
        subscription: "s".into(),
        sub_type: SubType::Exclusive as i32,
        consumer_id,
        request_id,
        initial_position: Some(1),
        ..CommandSubscribe::default()
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let host = Host::start(Limits::default()).await;
    let mut peer = host.connect().await;
    let mut together = frame_of(connect()).to_vec();
    together.extend(frame_of(CommandGetTopicsOfNamespace {
        request_id: 1,
        namespace: "public/default".into(),
        ..CommandGetTopicsOfNamespace::default()
    }));
    together.extend(frame_of(lookup("a", 2)));
    together.extend(frame_of(CommandPartitionedTopicMetadata {
        topic: "a".into(),
        request_id: 3,
        ..CommandPartitionedTopicMetadata::default()
    }));
    together.extend(frame_of(CommandPing {}));
    peer.write(&together).await;

    // A PONG may overtake answers to requests, and never the greeting.
    let Command::Connected(connected) = peer.command().await else { panic!("not greeted") };
    assert_eq!(connected.protocol_version, Some(21));
    assert_eq!(connected.max_message_size, Some(5 << 20));
    let flags = connected.feature_flags.unwrap();
    assert_eq!((flags.supports_topic_watchers, flags.supports_topic_watcher_reconcile), (None, None));
    let mut answers = Vec::new();
    while answers.len() < 3 {
        match peer.command().await {
            Command::Pong(_) => {}
            answer => answers.push(answer),
        }
    }
    let mut answers = answers.into_iter();
    let mut next = || answers.next().expect("three were collected");
    let Command::GetTopicsOfNamespaceResponse(list) = next() else { panic!("no list") };
    assert_eq!((list.request_id, list.topics_hash.as_deref()), (1, Some("00000000")));
    let Command::LookupTopicResponse(found) = next() else { panic!("no lookup") };
    assert_eq!((found.request_id, found.response), (2, Some(1)));
    assert_eq!(found.broker_service_url, Some(format!("pulsar://{}", host.address)));
    let Command::PartitionedTopicMetadataResponse(partitions) = next() else { panic!("no partitions") };
    assert_eq!((partitions.request_id, partitions.response, partitions.partitions), (3, Some(0), Some(0)));
}

#[tokio::test]
async fn what_does_not_keep_to_the_protocol_is_closed_and_nobody_else() {
    let host = Host::start(Limits::default()).await;
    let mut normal = host.greeted().await;
    let mut send_to_nobody = BytesMut::new();
    let send = CommandSend { producer_id: 7, ..CommandSend::default() };
    frame::encode_with_payload(&send.into(), &message(b"x"), &mut send_to_nobody);
    let bad: [(&str, bool, &[u8]); 13] = [
        ("a command before CONNECT", false, &frame_of(lookup("a", 1))),
        ("a second CONNECT", true, &frame_of(connect())),
        ("a number that no command has", true, b"\x00\x00\x00\x06\x00\x00\x00\x02\x08\x63"),
        ("a command of a server", true, &frame_of(weir_wire::pulsar::command::CommandSuccess::default())),
        ("LOOKUP without its topic", true, b"\x00\x00\x00\x0b\x00\x00\x00\x07\x08\x17\xba\x01\x02\x10\x01"),
        ("SEND to a producer that is not there", true, &send_to_nobody),
        ("no permits", true, &frame_of(CommandFlow { consumer_id: 1, message_permits: 0 })),
        ("a frame that is too large", true, b"\x7f\xff\xff\xff\x00\x00\x00\x05"),
        ("a negative length", true, b"\xff\xff\xff\xff\x00\x00\x00\x05"),
        ("a command larger than its frame", true, b"\x00\x00\x00\x08\x00\x00\x00\x99\x08\x12\x92\x01"),
        ("a length of zero", true, b"\x00\x00\x00\x00"),
        ("random bytes", true, b"\x00\x00\x00\x09\x00\x00\x00\x05\x9c\x11\xfe\xc0\x7b"),
        ("an HTTP request", false, b"GET / HTTP/1.1\r\nHost: weir\r\n\r\n"),
    ];
    for (what, after_greeting, bytes) in bad {
        let mut peer = if after_greeting { host.greeted().await } else { host.connect().await };
        peer.write(bytes).await;
        let frame = peer.frame().await;
        assert!(frame.is_none(), "{what}: expected the end, got {frame:?}");
        normal.works().await;
    }
}

#[tokio::test]
async fn a_bad_name_is_an_error_of_its_request_only() {
    let host = Host::start(Limits::default()).await;
    let mut peer = host.greeted().await;
    peer.producer("good", 1).await;
    let invalid = ServerError::InvalidTopicName as i32;

    peer.send(lookup("x://a/b/c", 10)).await;
    let Command::LookupTopicResponse(answer) = peer.command().await else { panic!("no lookup") };
    assert_eq!((answer.request_id, answer.response, answer.error), (10, Some(2), Some(invalid)));

    let metadata =
        CommandPartitionedTopicMetadata { topic: "a/b".into(), request_id: 11, ..Default::default() };
    peer.send(metadata).await;
    let Command::PartitionedTopicMetadataResponse(answer) = peer.command().await else { panic!("no answer") };
    assert_eq!((answer.request_id, answer.response, answer.error), (11, Some(1), Some(invalid)));

    let requests: [Command; 3] = [
        subscribe("persistent://a b/c/d", 5, 12).into(),
        CommandProducer { topic: String::new(), producer_id: 6, request_id: 12, ..Default::default() }.into(),
        CommandGetTopicsOfNamespace { namespace: "no-slash".into(), request_id: 12, ..Default::default() }
            .into(),
    ];
    for request in requests {
        peer.send(request.clone()).await;
        let Command::Error(error) = peer.command().await else { panic!("{request:?} was not refused") };
        assert_eq!((error.request_id, error.error), (12, invalid), "{request:?}");
    }
    peer.publish(1, 0, &message(b"still here")).await;
    assert!(matches!(peer.command().await, Command::SendReceipt(_)));
}

#[tokio::test]
async fn what_was_sent_is_delivered_byte_for_byte() {
    let host = Host::start(Limits::default()).await;
    let mut peer = host.greeted().await;
    peer.producer("t", 1).await;
    let entries = [message(b"one"), message(b"two"), message(&[0xff; 100_000])];
    for (sequence_id, entry) in entries.iter().enumerate() {
        peer.publish(1, sequence_id as u64, entry).await;
    }
    for sequence_id in 0..entries.len() as u64 {
        let Command::SendReceipt(receipt) = peer.command().await else { panic!("no receipt") };
        assert_eq!((receipt.producer_id, receipt.sequence_id), (1, sequence_id));
    }
    peer.send(subscribe("t", 3, 20)).await;
    assert!(matches!(peer.command().await, Command::Success(_)));
    peer.send(CommandFlow { consumer_id: 3, message_permits: 10 }).await;
    let mut ids = Vec::new();
    for entry in &entries {
        let Some(Frame::Payload(Command::Message(delivery), payload)) = peer.frame().await else {
            panic!("no message")
        };
        assert_eq!((delivery.consumer_id, delivery.message_id.partition), (3, Some(-1)));
        assert_eq!(&payload, entry);
        ids.push(delivery.message_id);
    }
    for (request_id, id) in (30..).zip(ids) {
        let ack = CommandAck {
            consumer_id: 3,
            ack_type: AckType::Individual as i32,
            message_id: vec![id],
            request_id: Some(request_id),
            ..CommandAck::default()
        };
        peer.send(ack).await;
        let Command::AckResponse(response) = peer.command().await else { panic!("no answer to an ACK") };
        assert_eq!((response.request_id, response.error), (Some(request_id), None));
    }
}

#[tokio::test]
async fn a_wrong_checksum_is_refused_and_the_next_message_taken() {
    let host = Host::start(Limits::default()).await;
    let mut peer = host.greeted().await;
    peer.producer("t", 1).await;
    let mut broken = message(b"hello").to_vec();
    *broken.last_mut().unwrap() ^= 1;
    peer.publish(1, 4, &broken).await;
    let Command::SendError(error) = peer.command().await else { panic!("no error") };
    assert_eq!((error.sequence_id, error.error), (4, ServerError::ChecksumError as i32));
    peer.publish(1, 5, &message(b"hello")).await;
    assert!(matches!(peer.command().await, Command::SendReceipt(_)));
}

#[tokio::test]
async fn sends_to_a_producer_just_closed_are_ignored() {
    let host = Host::start(Limits::default()).await;
    let mut peer = host.greeted().await;
    peer.producer("t", 1).await;
    peer.publish(1, 0, &message(b"before")).await;
    peer.send(CommandCloseProducer { producer_id: 1, request_id: 40, ..CommandCloseProducer::default() })
        .await;
    peer.publish(1, 1, &message(b"after")).await;
    // The receipt first, then the answer to the close: what was sent before it is durable by then.
    assert!(matches!(peer.command().await, Command::SendReceipt(_)));
    assert!(matches!(peer.command().await, Command::Success(_)));
    peer.works().await;
    // Its name is free at once.
    peer.producer("t", 1).await;
}

#[tokio::test]
async fn producers_that_wish_for_one_subscription_together_all_get_it() {
    let host = Host::start(Limits::default()).await;
    let mut peers = Vec::new();
    for _ in 0..8 {
        peers.push(host.greeted().await);
    }
    for i in 0..20 {
        let producer = CommandProducer {
            topic: format!("t{i}"),
            producer_id: i,
            request_id: 7,
            initial_subscription_name: Some("s".into()),
            ..CommandProducer::default()
        };
        for peer in &mut peers {
            peer.send(producer.clone()).await;
        }
        for peer in &mut peers {
            let answer = peer.command().await;
            assert!(matches!(answer, Command::ProducerSuccess(_)), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn two_hundred_bad_connections_do_no_harm() {
    let limits = Limits { handshake_timeout: Duration::from_millis(300), ..Limits::default() };
    let host = Host::start(limits).await;
    let mut normal = host.greeted().await;
    let mut bad = Vec::new();
    for i in 0..200_u32 {
        let mut peer = host.connect().await;
        // A frame is announced, and hardly begun.
        peer.write(&[0x00, 0x00, 0x40, 0x00][..1 + i as usize % 4]).await;
        bad.push(peer);
    }
    normal.works().await;
    host.greeted().await.works().await;
    for mut peer in bad {
        peer.closed().await;
    }
    normal.works().await;
}

#[tokio::test]
async fn a_silent_peer_is_asked_and_then_closed() {
    let limits = Limits {
        handshake_timeout: Duration::from_millis(50),
        keep_alive: Duration::from_millis(100),
        ..Limits::default()
    };
    let host = Host::start(limits).await;
    let mut peer = host.greeted().await;
    assert!(matches!(peer.command().await, Command::Ping(_)));
    while let Some(frame) = peer.frame().await {
        assert!(matches!(frame, Frame::Simple(Command::Ping(_))), "{frame:?}");
    }
}

#[tokio::test]
async fn a_peer_that_only_talks_is_closed() {
    let host = Host::start(Limits { keep_alive: Duration::from_millis(500), ..Limits::default() }).await;
    let mut peer = host.greeted().await;
    peer.producer("t", 1).await;
    let large = message(&vec![7; 4 << 20]);
    for sequence_id in 0..10 {
        peer.publish(1, sequence_id, &large).await;
        while !matches!(peer.command().await, Command::SendReceipt(_)) {}
    }
    peer.send(subscribe("t", 2, 3)).await;
    let flow = frame_of(CommandFlow { consumer_id: 2, message_permits: 100 });
    let talking = async { while peer.socket.write_all(&flow).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, talking).await.expect("it is closed, whatever it says");
}

#[tokio::test]
async fn a_connection_too_many_is_told_so() {
    let host = Host::start(Limits { connections: 1, ..Limits::default() }).await;
    let mut first = host.greeted().await;
    let mut second = host.connect().await;
    let Command::Error(error) = second.command().await else { panic!("not told") };
    assert_eq!((error.request_id, error.error), (u64::MAX, ServerError::NotAllowedError as i32));
    second.closed().await;
    first.works().await;
}

#[tokio::test]
async fn an_entry_that_is_too_large_is_refused() {
    let limits = Limits { max_message_size: ByteSize(2000), ..Limits::default() };
    let host = Host::start(limits).await;
    let mut peer = host.greeted().await;
    peer.producer("t", 1).await;
    peer.publish(1, 0, &message(&[0; 3000])).await;
    let Command::SendError(error) = peer.command().await else { panic!("no error") };
    assert_eq!(error.error, ServerError::NotAllowedError as i32);
    peer.works().await;
}

#[tokio::test]
async fn more_listings_than_may_wait_are_all_answered() {
    let host = Host::start(Limits::default()).await;
    let mut peer = host.greeted().await;
    let list = |request_id| CommandGetTopicsOfNamespace {
        request_id,
        namespace: "public/default".into(),
        ..CommandGetTopicsOfNamespace::default()
    };
    let together: Vec<u8> = (0..100).flat_map(|request_id| frame_of(list(request_id))).collect();
    peer.write(&together).await;
    for request_id in 0..100 {
        let Command::GetTopicsOfNamespaceResponse(answer) = peer.command().await else { panic!("no answer") };
        assert_eq!(answer.request_id, request_id);
    }
}

#[tokio::test]
async fn a_batch_that_claims_to_be_endless_is_refused() {
    let host = Host::start(Limits::default()).await;
    let mut peer = host.greeted().await;
    peer.producer("t", 1).await;
    let metadata = MessageMetadata {
        producer_name: "p".into(),
        publish_time: 1_700_000_000_000,
        num_messages_in_batch: Some(i32::MAX),
        ..MessageMetadata::default()
    };
    peer.publish(1, 0, &entry::write(&metadata, b"none of them")).await;
    let Command::SendError(error) = peer.command().await else { panic!("no error") };
    assert_eq!(error.error, ServerError::NotAllowedError as i32);
    assert!(error.message.contains("2147483647 messages"), "{}", error.message);
    peer.works().await;
}

#[tokio::test]
async fn a_consumer_that_is_closed_leaves_what_it_had() {
    let host = Host::start(Limits::default()).await;
    let mut peer = host.greeted().await;
    peer.producer("t", 1).await;
    peer.publish(1, 0, &message(b"x")).await;
    assert!(matches!(peer.command().await, Command::SendReceipt(_)));
    let mut seen = Vec::<MessageIdData>::new();
    for consumer_id in [1, 2] {
        peer.send(subscribe("t", consumer_id, 50)).await;
        assert!(matches!(peer.command().await, Command::Success(_)));
        peer.send(CommandFlow { consumer_id, message_permits: 1 }).await;
        let Some(Frame::Payload(Command::Message(delivery), _)) = peer.frame().await else {
            panic!("no message")
        };
        seen.push(delivery.message_id);
        let close = weir_wire::pulsar::command::CommandCloseConsumer {
            consumer_id,
            request_id: 51,
            ..Default::default()
        };
        peer.send(close).await;
        assert!(matches!(peer.command().await, Command::Success(_)));
    }
    assert_eq!(seen[0], seen[1]);
}

#[track_caller]
fn check_advertised(configured: &str, address: &str) {
    let local = "10.0.0.7:40000".parse().unwrap();
    assert_eq!(Advertised::new(configured, 6650).address(local), address);
}

#[test]
fn clients_are_told_an_address_that_reaches_us() {
    check_advertised("", "10.0.0.7:6650");
    check_advertised("weir.example", "weir.example:6650");
    check_advertised("weir.example:7000", "weir.example:7000");
    check_advertised("::1", "[::1]:6650");
    check_advertised("[::1]", "[::1]:6650");
    check_advertised("[::1]:7000", "[::1]:7000");
}
