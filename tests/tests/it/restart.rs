//! Ends and starts: what was acknowledged is there, what is under way is finished.

use std::collections::BTreeSet;

use serde_json::json;
use weir_tests::pulsar::{Connection, Fields, entry, kind};
use weir_tests::python;
use weir_tests::wait;
use weir_tests::weir::{Home, Weir};

const TOPIC: &str = "persistent://public/default/restart";

#[test]
fn an_acknowledged_send_survives_kill_9() {
    let mut home = Home::new();
    let mut acknowledged = 0;
    for round in 0..3_u64 {
        let weir = home.start();
        let mut connection = Connection::open(weir.pulsar);
        assert_eq!(connection.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
        // Published at once; killed when some are acknowledged.
        for i in 0..500 {
            let number = round * 1000 + i;
            let body = Fields::new().int(1, 1).int(2, number);
            let sent = entry("p", number, &[], format!("#{number}").as_bytes());
            connection.write(&weir_tests::pulsar::frame_with(kind::SEND, body, &sent));
        }
        let mut receipts = BTreeSet::new();
        while receipts.len() < 100 {
            let receipt = connection.read_kind(kind::SEND_RECEIPT);
            receipts.insert(receipt.body.int(2).unwrap());
        }
        let killed = weir.kill();
        // What was on its way to us counts too.
        while let Ok(Some(receipt)) = connection.receive() {
            receipts.insert(receipt.body.int(2).unwrap());
        }
        acknowledged += receipts.len();
        let weir = killed.start();
        let mut connection = Connection::open(weir.pulsar);
        assert_eq!(connection.subscribe(TOPIC, &format!("round-{round}"), 2, 2).kind, kind::SUCCESS);
        connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, 100_000));
        let mut found = Vec::new();
        while !receipts.iter().all(|number| found.contains(number)) {
            let message = connection.read_kind(kind::MESSAGE);
            found.push(payload(&message.entry));
        }
        assert!(found.is_sorted(), "in the order in which they were sent");
        let once: BTreeSet<_> = found.iter().collect();
        assert_eq!(once.len(), found.len(), "each once");
        assert!(found.len() >= acknowledged);
        home = weir.kill();
    }
}

/// The number in an entry's payload, behind a `#`.
fn payload(entry: &[u8]) -> u64 {
    let text: Vec<u8> = entry.iter().rev().take_while(|byte| byte.is_ascii_digit()).copied().collect();
    String::from_utf8(text.into_iter().rev().collect()).unwrap().parse().unwrap()
}

#[test]
fn acknowledgements_survive_kill_9() {
    let weir = Home::new().start();
    let Some(mut producer) = python::start("produce.py", &[&weir.service_url(), TOPIC, "--batch", "10"])
    else {
        return;
    };
    for i in 0..100 {
        producer.send(&json!({ "payload": i.to_string() }).to_string());
    }
    assert_eq!(producer.rest().len(), 100);
    let consume = |weir: &Weir, count: &str| {
        python::start("consume.py", &[&weir.service_url(), TOPIC, "sub", "--count", count]).unwrap().rest()
    };
    assert_eq!(consume(&weir, "40").len(), 41);
    wait::until("the acknowledgements to arrive", || match weir.backlog("public/default/restart", "sub") {
        60 => Ok(()),
        backlog => Err(backlog),
    });
    let weir = weir.kill().start();
    let rest = consume(&weir, "60");
    let payloads: Vec<String> =
        rest[1..].iter().map(|message| message["payload"].as_str().unwrap().to_owned()).collect();
    assert_eq!(payloads, (40..100).map(|i| i.to_string()).collect::<Vec<_>>());
}

#[test]
fn sigterm_drains_and_ends_well() {
    let weir = Home::new().start();
    let mut connection = Connection::open(weir.pulsar);
    assert_eq!(connection.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
    assert_eq!(connection.publish(1, 0, &entry("p", 0, &[], b"#0")).kind, kind::SEND_RECEIPT);
    let (home, status) = weir.stop();
    assert!(status.success(), "{status}");
    let weir = home.start();
    let mut connection = Connection::open(weir.pulsar);
    assert_eq!(connection.subscribe(TOPIC, "s", 2, 2).kind, kind::SUCCESS);
    connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, 10));
    assert_eq!(payload(&connection.read_kind(kind::MESSAGE).entry), 0);
}

/// A consumer with permits that reads nothing: a stop waits for it as long as it may.
fn deaf(weir: &Weir) -> Connection {
    let mut connection = Connection::open(weir.pulsar);
    assert_eq!(connection.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
    let payload = vec![7; 1 << 20];
    for i in 0..40 {
        assert_eq!(connection.publish(1, i, &entry("p", i, &[], &payload)).kind, kind::SEND_RECEIPT);
    }
    assert_eq!(connection.subscribe(TOPIC, "deaf", 2, 2).kind, kind::SUCCESS);
    connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, 1000));
    wait::until("the sockets to be full", || match weir.metric("weir_delivering_bytes") {
        held if held > 8 << 20 => Ok(()),
        held => Err(held),
    });
    connection
}

#[test]
fn two_signals_at_once_are_one() {
    let weir = Home::new().set("limits.drain-timeout=4s").start();
    let _deaf = deaf(&weir);
    let log = weir.log_so_far();
    weir.ask_to_stop();
    let (_home, status) = weir.stop();
    assert!(status.success(), "{status}");
    wait::until("the end to be logged", || {
        let log = log.lock();
        let in_order = log.iter().any(|line| line.contains("INFO stopped"));
        if in_order { Ok(()) } else { Err(log.join("\n")) }
    });
    assert!(!log.lock().iter().any(|line| line.contains("second signal")));
}

#[test]
fn a_later_signal_stops_at_once() {
    let weir = Home::new().set("limits.drain-timeout=10m").start();
    let _deaf = deaf(&weir);
    let log = weir.log_so_far();
    wait::until("a signal to be taken for a second one", || {
        weir.ask_to_stop();
        let log = log.lock();
        if log.iter().any(|line| line.contains("second signal")) { Ok(()) } else { Err(log.join("\n")) }
    });
}

#[test]
fn a_data_folder_in_use_is_refused() {
    let weir = Home::new().start();
    let data = format!("storage.data={}", weir.home().data().display());
    let refused = Home::new().set(&data).try_start().err().expect("is refused");
    assert!(!refused.status.success());
    assert!(refused.log.contains("in use by another process"), "{}", refused.log);
}

#[test]
fn a_data_folder_of_another_format_is_refused() {
    let home = Home::new().start().kill();
    let format = home.data().join("store/format");
    std::fs::write(&format, "weir store format 99\n").unwrap();
    let refused = home.try_start().err().expect("is refused");
    assert!(refused.log.contains("holds data of format 99"), "{}", refused.log);
}
