//! What arrives on the Pulsar port and is not what a good client sends. Each bad connection bears it alone:
//! beside it a good one goes on.

use std::time::{Duration, Instant};

use weir_tests::pulsar::{Connection, Fields, connect, entry, error, frame, kind};
use weir_tests::weir::{Home, Weir};

const TOPIC: &str = "persistent://public/default/beside";

/// A good connection that publishes and receives beside what a test does.
struct Beside {
    connection: Connection,
    sent: u64,
}

impl Beside {
    fn new(weir: &Weir) -> Self {
        let mut connection = Connection::open(weir.pulsar);
        assert_eq!(connection.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
        assert_eq!(connection.subscribe(TOPIC, "beside", 2, 2).kind, kind::SUCCESS);
        connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, 1000));
        Self { connection, sent: 0 }
    }

    /// One message there and back.
    #[track_caller]
    fn check(&mut self) {
        let sent = entry("beside", self.sent, &[], format!("message {}", self.sent).as_bytes());
        let body = Fields::new().int(1, 1).int(2, self.sent);
        self.connection.write(&weir_tests::pulsar::frame_with(kind::SEND, body, &sent));
        self.sent += 1;
        // The receipt and the delivery come in either order.
        let mut kinds = Vec::new();
        while kinds.len() < 2 {
            let received = self.connection.read();
            if received.kind == kind::MESSAGE {
                assert_eq!(received.entry, sent, "delivered as it was sent, byte for byte");
            }
            kinds.push(received.kind);
        }
        kinds.sort_unstable();
        assert_eq!(kinds, [kind::SEND_RECEIPT, kind::MESSAGE]);
    }
}

/// Sends bytes on connections of their own; each has to be closed, and the good one notices nothing.
#[track_caller]
fn check_closed(weir: &Weir, beside: &mut Beside, greeted: bool, bytes: &[u8]) {
    let mut bad = if greeted { Connection::open(weir.pulsar) } else { Connection::raw(weir.pulsar) };
    bad.write(bytes);
    for received in bad.until_closed() {
        assert_eq!(received.kind, kind::ERROR, "{bytes:02x?} was answered with {received:?}");
    }
    beside.check();
}

#[test]
fn frames_that_are_none_close_only_their_connection() {
    let weir = Home::new().start();
    let mut beside = Beside::new(&weir);
    let random: Vec<u8> = (0..64_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let mut right_length = vec![0, 0, 0, 64];
    right_length.extend_from_slice(&random);
    let cases: [&[u8]; 9] = [
        &[0, 0, 0, 0],
        &[0, 0, 0, 3, 1, 2, 3],
        &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 4],
        &[0xff, 0xff, 0xff, 0xff, 0xff],
        &[0, 0, 0, 8, 0, 0, 0, 9, 8, 18, 0x92, 1],
        &[0, 0, 0, 8, 0xff, 0xff, 0xff, 0xff, 8, 18, 0x92, 1],
        &right_length,
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0x55, 0x55, 0x55, 0x55, 0x55],
    ];
    for bytes in cases {
        check_closed(&weir, &mut beside, false, bytes);
        check_closed(&weir, &mut beside, true, bytes);
    }
}

#[test]
fn announced_lengths_cost_no_memory() {
    let weir = Home::new().start();
    let mut beside = Beside::new(&weir);
    let before = resident(&weir);
    let mut open = Vec::new();
    for _ in 0..200 {
        let mut connection = Connection::open(weir.pulsar);
        // As much as a frame may have, and then nothing more: 200 of them announce 1 GB.
        connection.write(&[0, 0x50, 0, 0, 0, 0, 0, 10]);
        open.push(connection);
    }
    beside.check();
    let grown = resident(&weir).saturating_sub(before);
    assert!(grown < 100 << 20, "200 announcements of 5 MiB took {} MiB", grown >> 20);
    drop(open);
    beside.check();
}

/// Bytes of memory that weir holds.
fn resident(weir: &Weir) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", weir.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn who_never_says_hello_is_sent_away() {
    let weir = Home::new().set("limits.handshake-timeout=1s").start();
    let mut beside = Beside::new(&weir);
    let started = Instant::now();
    let mut silent = Connection::raw(weir.pulsar);
    let mut slow = Connection::raw(weir.pulsar);
    slow.write(&connect()[..5]);
    assert_eq!(silent.until_closed(), []);
    assert_eq!(slow.until_closed(), []);
    assert!(started.elapsed() < Duration::from_secs(20), "closed after {:?}", started.elapsed());
    beside.check();
}

#[test]
fn a_connection_beyond_the_limit_is_told_so() {
    let weir = Home::new().set("limits.connections=2").start();
    let (_one, _two) = (Connection::open(weir.pulsar), Connection::open(weir.pulsar));
    let mut three = Connection::raw(weir.pulsar);
    three.write(&connect());
    let said = three.until_closed();
    assert!(said.iter().all(|received| received.kind == kind::ERROR), "{said:?}");
}

#[test]
fn a_command_before_the_handshake_closes_the_connection() {
    let weir = Home::new().start();
    let mut beside = Beside::new(&weir);
    let lookup = frame(kind::LOOKUP, Fields::new().bytes(1, TOPIC).int(2, 1));
    check_closed(&weir, &mut beside, false, &lookup);
    check_closed(&weir, &mut beside, true, &connect());
}

#[test]
fn a_command_without_a_required_field_closes_the_connection() {
    let weir = Home::new().start();
    let mut beside = Beside::new(&weir);
    for (kind, body) in [
        (kind::PRODUCER, Fields::new().int(2, 1).int(3, 1)),
        (kind::SUBSCRIBE, Fields::new().bytes(1, TOPIC).int(4, 1).int(5, 1)),
        (kind::LOOKUP, Fields::new().bytes(1, TOPIC)),
        (kind::GET_TOPICS_OF_NAMESPACE, Fields::new().int(1, 1)),
        (kind::FLOW, Fields::new().int(1, 1)),
    ] {
        check_closed(&weir, &mut beside, true, &frame(kind, body));
    }
}

#[test]
fn an_unknown_command_closes_at_most_its_connection() {
    let weir = Home::new().start();
    let mut beside = Beside::new(&weir);
    for kind in [49, 69, 999] {
        let mut connection = Connection::open(weir.pulsar);
        connection.send(kind, Fields::new().int(1, 1));
        connection.send(kind::PING, Fields::new());
        match connection.receive().unwrap() {
            None => {}
            Some(received) => assert!([kind::PONG, kind::ERROR].contains(&received.kind), "{received:?}"),
        }
        beside.check();
    }
}

#[test]
fn malformed_names_are_refused_by_request_and_the_connection_goes_on() {
    let weir = Home::new().start();
    let mut beside = Beside::new(&weir);
    let long = "x".repeat(100_000);
    let bad =
        ["persistent://", "persistent://a/b", "://public/default/t", "bogus://public/default/t", "", &long];
    let connection = &mut beside.connection;
    for (i, name) in bad.into_iter().enumerate() {
        let request = 100 + i as u64;
        let shown = &name[..name.len().min(40)];
        let answer = connection.producer(name, 50, request);
        assert_eq!(
            (answer.kind, answer.body.int(1), answer.body.int(2)),
            (kind::ERROR, Some(request), Some(error::INVALID_TOPIC_NAME)),
            "producer on {shown:?}: {answer:?}"
        );
        assert!(!answer.body.text(3).is_empty(), "a reason for {shown:?}");
        let answer = connection.subscribe(name, "s", 51, request);
        assert_eq!(
            (answer.kind, answer.body.int(1), answer.body.int(2)),
            (kind::ERROR, Some(request), Some(error::INVALID_TOPIC_NAME)),
            "subscribe to {shown:?}: {answer:?}"
        );
        connection.send(kind::LOOKUP, Fields::new().bytes(1, name).int(2, request));
        let answer = connection.read();
        assert_eq!(
            (answer.kind, answer.body.int(4), answer.body.int(3), answer.body.int(6)),
            (kind::LOOKUP_RESPONSE, Some(request), Some(2), Some(error::INVALID_TOPIC_NAME)),
            "lookup of {shown:?}: {answer:?}"
        );
    }
    for namespace in ["", "public", "a/b/c/d", "public/default/", "pub lic/default\u{0}"] {
        connection.send(kind::GET_TOPICS_OF_NAMESPACE, Fields::new().int(1, 7).bytes(2, namespace));
        let answer = connection.read();
        assert_eq!((answer.kind, answer.body.int(1)), (kind::ERROR, Some(7)), "{namespace:?}: {answer:?}");
    }
    beside.check();
}

#[test]
fn a_damaged_entry_is_refused_and_not_stored() {
    let weir = Home::new().start();
    let mut connection = Connection::open(weir.pulsar);
    assert_eq!(connection.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
    let good = entry("p", 0, &[("k", "v")], b"payload");
    let mut damaged = good.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let answer = connection.publish(1, 0, &damaged);
    assert_eq!((answer.kind, answer.body.int(3)), (kind::SEND_ERROR, Some(error::CHECKSUM)), "{answer:?}");
    assert_eq!(connection.publish(1, 0, &good).kind, kind::SEND_RECEIPT);
    assert_eq!(connection.subscribe(TOPIC, "s", 2, 2).kind, kind::SUCCESS);
    connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, 10));
    assert_eq!(connection.read_kind(kind::MESSAGE).entry, good);
}

#[test]
fn requests_in_one_segment_are_answered_in_order() {
    let weir = Home::new().start();
    let mut segment = connect();
    segment.extend(frame(kind::PARTITIONED_METADATA, Fields::new().bytes(1, TOPIC).int(2, 11)));
    segment.extend(frame(kind::LOOKUP, Fields::new().bytes(1, TOPIC).int(2, 12)));
    segment.extend(frame(kind::PING, Fields::new()));
    let mut connection = Connection::raw(weir.pulsar);
    connection.write(&segment);
    let mut answers: Vec<_> = (0..4).map(|_| connection.read()).collect();
    assert_eq!(answers[0].kind, kind::CONNECTED, "before anything else: {answers:?}");
    // A sign of life waits for nothing, so it may overtake what does.
    answers.retain(|answer| answer.kind != kind::PONG);
    let kinds: Vec<u64> = answers.iter().map(|answer| answer.kind).collect();
    assert_eq!(kinds, [kind::CONNECTED, kind::PARTITIONED_METADATA_RESPONSE, kind::LOOKUP_RESPONSE]);
    assert_eq!(answers[1].body.int(2), Some(11));
    assert_eq!(answers[2].body.int(4), Some(12));
    assert_eq!(answers[2].body.text(1), weir.service_url());
}

#[test]
fn a_byte_at_a_time_is_understood() {
    let weir = Home::new().start();
    let mut connection = Connection::raw(weir.pulsar);
    for byte in connect() {
        connection.write(&[byte]);
    }
    assert_eq!(connection.read().kind, kind::CONNECTED);
}
