//! A disk that is full: weir says so, loses nothing that it acknowledged, and goes on when there is room.

use serde_json::{Value, json};
use weir_tests::pulsar::{Connection, Fields, entry, error, frame_with, kind};
use weir_tests::python;
use weir_tests::wait;
use weir_tests::weir::{Home, Weir};

const TOPIC: &str = "persistent://public/default/full";

/// The status and the reason of the readiness address.
fn ready(weir: &Weir) -> (u16, String) {
    let answer = weir.call("GET", "/weir/v1/ready", b"");
    let said = answer.json();
    assert_eq!(said["ready"], json!(answer.status == 200), "{answer}");
    (answer.status, said["reason"].as_str().unwrap_or_default().to_owned())
}

#[track_caller]
fn until_ready(weir: &Weir) {
    wait::until("weir to be ready", || match ready(weir) {
        (200, _) => Ok(()),
        (_, reason) => Err(reason),
    });
}

/// "…paused: <cause>, next try in N s"
#[track_caller]
fn check_paused(text: &str) {
    let rest = text.strip_prefix("storage is paused: File too large (os error 27), next try in ");
    let seconds =
        rest.and_then(|rest| rest.strip_suffix(" s")).and_then(|seconds| seconds.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| (1..=10).contains(&seconds)), "{text}");
}

#[test]
fn a_full_disk_is_told_and_left_behind() {
    let weir = Home::new().start();
    let mut before = Connection::open(weir.pulsar);
    assert_eq!(before.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
    let kept = entry("p", 0, &[], b"kept");
    assert_eq!(before.publish(1, 0, &kept).kind, kind::SEND_RECEIPT);

    weir.fill_disk();
    let answer = before.publish(1, 1, &entry("p", 1, &[], b"first"));
    assert_eq!((answer.kind, answer.body.int(3)), (kind::SEND_ERROR, Some(error::PERSISTENCE)), "{answer:?}");
    assert_eq!(answer.body.text(4), "storage failed: File too large (os error 27)");
    for n in 2..5 {
        let answer = before.publish(1, n, &entry("p", n, &[], b"next"));
        assert_eq!(
            (answer.kind, answer.body.int(3)),
            (kind::SEND_ERROR, Some(error::PERSISTENCE)),
            "{answer:?}"
        );
        check_paused(&answer.body.text(4));
    }
    let (status, reason) = ready(&weir);
    assert_eq!(status, 503, "{reason}");
    check_paused(&reason);
    // Known topic or new one: whoever would publish is to come later.
    for (topic, request) in [(TOPIC, 2), ("persistent://public/default/new", 3)] {
        let answer = before.producer(topic, 9, request);
        let said = (answer.kind, answer.body.int(1), answer.body.int(2));
        assert_eq!(said, (kind::ERROR, Some(request), Some(error::SERVICE_NOT_READY)), "{answer:?}");
        check_paused(&answer.body.text(3));
    }
    let answer = weir.call("PUT", "/admin/v2/persistent/public/default/made", b"{}");
    assert_eq!(answer.status, 503, "{answer}");
    check_paused(&answer.reason());
    // What is there is delivered.
    assert_eq!(before.subscribe(TOPIC, "new", 2, 4).kind, kind::ERROR, "its cursor cannot be kept");
    let body = Fields::new().bytes(1, TOPIC).bytes(2, "r").int(3, 0).int(4, 3);
    before.send(kind::SUBSCRIBE, body.int(5, 5).int(8, 0).int(13, 1));
    assert_eq!(before.read().kind, kind::SUCCESS);
    before.send(kind::FLOW, Fields::new().int(1, 3).int(2, 10));
    assert_eq!(before.read_kind(kind::MESSAGE).entry, kept);

    weir.empty_disk();
    // Nobody has to write for it.
    until_ready(&weir);
    // What follows a message that failed is not stored before that one is sent again.
    let answer = before.publish(1, 5, &entry("p", 5, &[], b"too early"));
    assert_eq!((answer.kind, answer.body.int(3)), (kind::SEND_ERROR, Some(error::PERSISTENCE)), "{answer:?}");
    assert!(answer.body.text(4).contains("the producer has to come again"), "{answer:?}");
    assert_eq!(before.producer(TOPIC, 1, 6).kind, kind::PRODUCER_SUCCESS);
    let after = entry("p", 5, &[], b"after");
    before.write(&frame_with(kind::SEND, Fields::new().int(1, 1).int(2, 5), &after));
    // The reader's delivery of it may come first.
    let _ = before.read_kind(kind::SEND_RECEIPT);
    let weir = weir.kill().start();
    let mut reader = Connection::open(weir.pulsar);
    assert_eq!(reader.subscribe(TOPIC, "s", 2, 2).kind, kind::SUCCESS);
    reader.send(kind::FLOW, Fields::new().int(1, 2).int(2, 10));
    assert_eq!(reader.read_kind(kind::MESSAGE).entry, kept);
    loop {
        // What had failed may have been written all the same.
        let found = reader.read_kind(kind::MESSAGE).entry;
        if found == after {
            break;
        }
        assert_eq!(found, entry("p", 1, &[], b"first"));
    }
}

#[test]
fn a_seek_that_cannot_be_written_moves_nothing() {
    let weir = Home::new().start();
    let mut peer = Connection::open(weir.pulsar);
    assert_eq!(peer.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
    let [first, second] = [b"1", b"2"].map(|payload| entry("p", 0, &[], payload));
    assert_eq!(peer.publish(1, 0, &first).kind, kind::SEND_RECEIPT);
    let mut consumer = Connection::open(weir.pulsar);
    assert_eq!(consumer.subscribe(TOPIC, "s", 2, 1).kind, kind::SUCCESS);
    consumer.send(kind::FLOW, Fields::new().int(1, 2).int(2, 10));
    assert_eq!(consumer.read_kind(kind::MESSAGE).entry, first);

    weir.fill_disk();
    // To the latest: what is not acknowledged would not come any more.
    let latest = Fields::new().int(1, i64::MAX as u64).int(2, i64::MAX as u64);
    consumer.send(kind::SEEK, Fields::new().int(1, 2).int(2, 2).bytes(3, latest.done()));
    // No CLOSE_CONSUMER before it.
    let answer = consumer.read();
    assert_eq!((answer.kind, answer.body.int(1)), (kind::ERROR, Some(2)), "{answer:?}");
    weir.empty_disk();
    until_ready(&weir);
    assert_eq!(peer.publish(1, 1, &second).kind, kind::SEND_RECEIPT);
    let received = consumer.read();
    assert_eq!(received.entry, second, "the consumer goes on");
    // What the failed write left on the disk is written over with what is acknowledged now.
    let id = received.body.message(2).expect("a message has a position");
    let id = Fields::new().int(1, id.int(1).unwrap()).int(2, id.int(2).unwrap()).done();
    consumer.send(kind::ACK, Fields::new().int(1, 2).int(2, 0).bytes(3, id).int(8, 3));
    consumer.read_kind(kind::ACK_RESPONSE);
    drop(consumer);

    let weir = weir.kill().start();
    let mut consumer = Connection::open(weir.pulsar);
    assert_eq!(consumer.subscribe(TOPIC, "s", 2, 2).kind, kind::SUCCESS);
    consumer.send(kind::FLOW, Fields::new().int(1, 2).int(2, 10));
    assert_eq!(consumer.read_kind(kind::MESSAGE).entry, first, "the cursor is where it was");
}

#[test]
fn a_stock_client_waits_for_room_and_loses_nothing() {
    let weir = Home::new().start();
    let url = weir.service_url();
    let Some(mut producer) = python::start("produce.py", &[&url, TOPIC, "--batch", "1"]) else { return };
    let consumer = python::start("consume.py", &[&url, TOPIC, "s", "--idle", "5"]).unwrap();
    assert_eq!(consumer.json(), json!({ "subscribed": true }));
    let send = |producer: &mut python::Script, n: u64| {
        producer.send(&json!({ "payload": n.to_string() }).to_string());
    };
    for n in 0..10 {
        send(&mut producer, n);
        assert_eq!(producer.json()["acknowledged"], n);
    }
    weir.fill_disk();
    for n in 10..200 {
        send(&mut producer, n);
    }
    wait::until("weir to say that it waits", || match ready(&weir) {
        (503, reason) => {
            check_paused(&reason);
            Ok(())
        }
        (status, _) => Err(status),
    });
    weir.empty_disk();
    until_ready(&weir);
    let rest: Vec<Value> = producer.rest();
    let acknowledged: Vec<u64> = rest.iter().filter_map(|said| said["acknowledged"].as_u64()).collect();
    assert_eq!(acknowledged, (10..200).collect::<Vec<u64>>(), "{rest:?}");
    let received: Vec<u64> =
        consumer.rest().iter().map(|message| message["payload"].as_str().unwrap().parse().unwrap()).collect();
    // What failed may have been stored, and is sent again: nothing comes before what was sent before it.
    let mut furthest = None;
    for n in &received {
        assert!(
            Some(*n) <= furthest.map_or(Some(0), |n: u64| n.checked_add(1)),
            "{n} came early: {received:?}"
        );
        furthest = furthest.max(Some(*n));
    }
    assert_eq!(furthest, Some(199), "{received:?}");
    let log = weir.log();
    let tries = log.iter().filter(|line| line.contains("the store does not work yet")).count();
    assert!(tries < 30, "{tries} tries in a pause of a few seconds");
}
