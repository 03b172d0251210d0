//! Numbers and lengths that a peer chooses: each has a bound, and beyond it an answer that names the bound.
//! The connection goes on, unless the command has no answer that could say no.

use weir_tests::pulsar::{Connection, Fields, Received, entry, entry_of, error, frame_with, kind};
use weir_tests::weir::{Home, Weir};

const TOPIC: &str = "persistent://public/default/bounds";
const LONGEST_NAME: usize = 4096;

fn pairs(mut body: Fields, field: u64, count: usize, value: &str) -> Fields {
    for n in 0..count {
        body = body.bytes(field, Fields::new().bytes(1, format!("key {n}")).bytes(2, value).done());
    }
    body
}

fn producer(id: u64, request: u64) -> Fields {
    Fields::new().bytes(1, TOPIC).int(2, id).int(3, request)
}

fn subscribe(subscription: &str, id: u64, request: u64) -> Fields {
    Fields::new().bytes(1, TOPIC).bytes(2, subscription).int(3, 1).int(4, id).int(5, request)
}

/// It is refused with that code, for that request, in words that hold all of `words`.
#[track_caller]
fn check_refused(answer: &Received, request: u64, code: u64, words: &[&str]) {
    let said = (answer.kind, answer.body.int(1), answer.body.int(2));
    assert_eq!(said, (kind::ERROR, Some(request), Some(code)), "{answer:?}");
    let text = answer.body.text(3);
    assert!(words.iter().all(|word| text.contains(word)), "{text:?} has not {words:?}");
}

#[test]
fn names_and_properties_of_clients_are_bounded() {
    let weir = Home::new().start();
    let mut connection = Connection::open(weir.pulsar);
    let (longest, longer) = ("n".repeat(LONGEST_NAME), "n".repeat(LONGEST_NAME + 1));
    let large = "v".repeat(100);
    let taken = [
        (kind::PRODUCER, producer(1, 1).bytes(4, &longest)),
        (kind::PRODUCER, pairs(producer(2, 2), 6, 1000, "")),
        (kind::SUBSCRIBE, subscribe(&longest, 3, 3).bytes(6, &longest)),
        (kind::SUBSCRIBE, pairs(subscribe("many", 4, 4), 10, 1000, "")),
    ];
    for (command, body) in taken {
        connection.send(command, body);
        let answer = connection.read();
        assert!([kind::PRODUCER_SUCCESS, kind::SUCCESS].contains(&answer.kind), "{answer:?}");
    }
    let name: &[&str] = &["name", "at most 4096 bytes", "4097"];
    let subscription: &[&str] = &["subscription's name", "1 to 4096 bytes"];
    let count: &[&str] = &["1000 properties", "these are 1001"];
    let size: &[&str] = &["65536 bytes", "these are 800 of "];
    let refused = [
        (kind::PRODUCER, producer(5, 5).bytes(4, &longer), name),
        (kind::PRODUCER, pairs(producer(6, 6), 6, 1001, ""), count),
        (kind::PRODUCER, pairs(producer(7, 7), 6, 800, &large), size),
        (kind::PRODUCER, producer(8, 8).bytes(13, &longer), subscription),
        (kind::SUBSCRIBE, subscribe("s", 9, 9).bytes(6, &longer), name),
        (kind::SUBSCRIBE, pairs(subscribe("s", 10, 10), 10, 1001, ""), count),
        (kind::SUBSCRIBE, pairs(subscribe("s", 11, 11), 10, 800, &large), size),
        (kind::SUBSCRIBE, subscribe("", 12, 12), subscription),
        (kind::SUBSCRIBE, subscribe(&longer, 13, 13), subscription),
    ];
    for (n, (command, body, words)) in refused.into_iter().enumerate() {
        connection.send(command, body);
        check_refused(&connection.read(), 5 + n as u64, error::METADATA, words);
    }
}

/// Publishes a batch that claims to have so many messages; the answer.
fn publish_batch(connection: &mut Connection, sequence: u64, claimed: i64) -> Received {
    let metadata = Fields::new().bytes(1, "p").int(2, sequence).int(3, 1).int(11, claimed.cast_unsigned());
    let single = Fields::new().int(3, 1).done();
    let mut payload = Vec::new();
    payload.extend_from_slice(&u32::try_from(single.len()).unwrap().to_be_bytes());
    payload.extend_from_slice(&single);
    payload.push(b'x');
    connection.publish(1, sequence, &entry_of(metadata, &payload))
}

#[test]
fn a_batch_has_one_to_a_hundred_thousand_messages() {
    let weir = Home::new().start();
    let mut connection = Connection::open(weir.pulsar);
    assert_eq!(connection.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
    for (n, claimed) in [0, -1, i64::from(i32::MIN), 100_001, i64::from(i32::MAX)].into_iter().enumerate() {
        let answer = publish_batch(&mut connection, n as u64, claimed);
        let said = (answer.kind, answer.body.int(2), answer.body.int(3));
        assert_eq!(said, (kind::SEND_ERROR, Some(n as u64), Some(error::NOT_ALLOWED)), "{answer:?}");
        let text = answer.body.text(4);
        assert_eq!(text, format!("a batch says that it has {claimed} messages; it may have 1 to 100000"));
    }
    for (n, claimed) in [(10, 1), (11, 100_000)] {
        assert_eq!(publish_batch(&mut connection, n, claimed).kind, kind::SEND_RECEIPT);
    }
}

fn published(weir: &Weir, count: u64) -> Connection {
    let mut connection = Connection::open(weir.pulsar);
    assert_eq!(connection.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
    for n in 0..count {
        let sent = entry("p", n, &[], n.to_string().as_bytes());
        assert_eq!(connection.publish(1, n, &sent).kind, kind::SEND_RECEIPT);
    }
    connection
}

#[test]
fn any_number_of_permits_is_taken_but_none() {
    let weir = Home::new().start();
    let mut connection = published(&weir, 3);
    assert_eq!(connection.subscribe(TOPIC, "s", 2, 2).kind, kind::SUCCESS);
    for _ in 0..3 {
        connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, u64::from(u32::MAX)));
    }
    for n in 0..3 {
        let message = connection.read_kind(kind::MESSAGE);
        assert!(message.entry.ends_with(n.to_string().as_bytes()), "{message:?}");
    }
    // It has no answer that could say no, and a client that sends it is broken: as Pulsar's.
    connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, 0));
    assert_eq!(connection.until_closed(), []);
}

#[test]
fn request_ids_come_back_as_they_were() {
    let weir = Home::new().start();
    let mut connection = Connection::open(weir.pulsar);
    // −1 and its like are ten bytes on the wire.
    for (n, request) in [0, u64::MAX, i64::MAX as u64, 1 << 63].into_iter().enumerate() {
        let answer = connection.producer(TOPIC, n as u64, request);
        assert_eq!((answer.kind, answer.body.int(1)), (kind::PRODUCER_SUCCESS, Some(request)));
        connection.send(kind::LOOKUP, Fields::new().bytes(1, TOPIC).int(2, request));
        let answer = connection.read();
        assert_eq!((answer.kind, answer.body.int(4)), (kind::LOOKUP_RESPONSE, Some(request)));
        connection.send(kind::SUBSCRIBE, subscribe("", 9, request));
        let answer = connection.read();
        assert_eq!((answer.kind, answer.body.int(1)), (kind::ERROR, Some(request)));
    }
}

#[test]
fn handles_that_are_not_there_are_answered() {
    let weir = Home::new().start();
    let mut connection = Connection::open(weir.pulsar);
    let id = u64::MAX;
    for (command, code) in [(kind::SEEK, error::METADATA), (kind::GET_LAST_MESSAGE_ID, error::METADATA)] {
        connection.send(command, Fields::new().int(1, id).int(2, 7));
        check_refused(&connection.read(), 7, code, &["Consumer not found"]);
    }
    for command in [kind::CLOSE_PRODUCER, kind::CLOSE_CONSUMER] {
        connection.send(command, Fields::new().int(1, id).int(2, 8));
        let answer = connection.read();
        assert_eq!((answer.kind, answer.body.int(1)), (kind::SUCCESS, Some(8)));
    }
    // These have no answer, and the handle may just have been closed.
    connection.send(kind::FLOW, Fields::new().int(1, id).int(2, 1));
    connection.send(kind::ACK, Fields::new().int(1, id).int(2, 0));
    connection.send(kind::PING, Fields::new());
    assert_eq!(connection.read().kind, kind::PONG);
    let sent = entry("p", 0, &[], b"x");
    connection.write(&frame_with(kind::SEND, Fields::new().int(1, id).int(2, 0), &sent));
    assert_eq!(connection.until_closed(), [], "nobody would hear that it was not stored");
}

#[test]
fn places_out_of_any_range_are_the_nearest_there_is() {
    let weir = Home::new().start();
    let mut publisher = published(&weir, 2);
    let mut connection = Connection::open(weir.pulsar);
    let place = |ledger, entry| Fields::new().int(1, ledger).int(2, entry).done();
    for (n, (body, first)) in [
        (Fields::new().int(16, u64::MAX), b'0'),
        (Fields::new().bytes(9, place(0, u64::MAX)), b'0'),
        (Fields::new().bytes(9, place(u64::MAX, 0)), b'0'),
        (Fields::new().bytes(9, place(0, 1 << 40)), b'2'),
        (Fields::new().bytes(9, place(1 << 62, 1)), b'2'),
        (Fields::new().bytes(9, place(i64::MAX as u64, 0)), b'2'),
    ]
    .into_iter()
    .enumerate()
    {
        let consumer = 10 + n as u64;
        let reader = subscribe(&format!("reader {n}"), consumer, 2).int(8, 0);
        connection.send(kind::SUBSCRIBE, reader.and(body));
        assert_eq!(connection.read().kind, kind::SUCCESS);
        connection.send(kind::FLOW, Fields::new().int(1, consumer).int(2, 1));
        if first == b'2' {
            let sequence = 2 + n as u64;
            let sent = entry("p", sequence, &[], b"2");
            assert_eq!(publisher.publish(1, sequence, &sent).kind, kind::SEND_RECEIPT);
        }
        let message = connection.read_kind(kind::MESSAGE);
        assert_eq!(message.entry.last(), Some(&first), "case {n}: {message:?}");
    }
}

#[test]
fn a_pattern_or_properties_that_are_too_much_are_left_to_the_client_or_refused() {
    let weir = Home::new().start();
    let mut connection = published(&weir, 0);
    let list = |request| Fields::new().int(1, request).bytes(2, "public/default");
    // What is too long to be evaluated is not: the client does it.
    connection.send(kind::GET_TOPICS_OF_NAMESPACE, list(1).bytes(4, "x".repeat(1 << 20)));
    let answer = connection.read();
    assert_eq!(answer.kind, kind::GET_TOPICS_OF_NAMESPACE_RESPONSE, "{answer:?}");
    assert_eq!((answer.body.texts(2), answer.body.int(3)), (vec![TOPIC.to_owned()], Some(0)));
    for (request, body, words) in [
        (2, pairs(list(2), 6, 65, "v"), ["65", "64"]),
        (3, pairs(list(3), 6, 1, &"v".repeat(5000)), ["5000", "4096"]),
    ] {
        connection.send(kind::GET_TOPICS_OF_NAMESPACE, body);
        check_refused(&connection.read(), request, error::METADATA, &words);
    }
}

#[test]
fn limits_of_the_configuration_have_bounds_of_their_own() {
    let mut home = Home::new();
    for setting in [
        "limits.max-message-size=1",
        "limits.max-message-size=2GiB",
        "limits.connections=0",
        "limits.handles-per-connection=0",
        "limits.pending-requests=0",
        "limits.handshake-timeout=0s",
        "limits.keep-alive=0s",
        "storage.max-entries-per-ledger=0",
        "broker.max-partitions=0",
    ] {
        let refused = home.set(setting).try_start().err().unwrap_or_else(|| panic!("{setting} was taken"));
        let key = setting.split('=').next().unwrap_or_default();
        assert!(refused.log.contains(key) && refused.log.contains("expected"), "{setting}: {}", refused.log);
        home = refused.home.without_settings();
    }
}
