//! Readers and seeking, with the stock client: wherever it is set, it goes on right there, each time.

use serde_json::{Value, json};
use weir_tests::pulsar::{Connection, Fields, Message, entry, kind};
use weir_tests::python::{self, Script};
use weir_tests::weir::{Home, Weir};

const TOPIC: &str = "persistent://public/default/read";

/// A script that reads on, and where what it had published lies.
struct Reading {
    script: Script,
    ids: Vec<Value>,
}

impl Reading {
    /// Publishes `m0` to `m19`, in batches of that size.
    fn new(weir: &Weir, batch: usize) -> Option<Self> {
        let script = python::start("read.py", &[&weir.service_url(), TOPIC])?;
        let mut reading = Self { script, ids: Vec::new() };
        let texts: Vec<String> = (0..20).map(|n| format!("m{n}")).collect();
        let said = reading.tell(&json!({ "publish": texts, "batch": batch }));
        reading.ids = said["published"].as_array().expect("what was published").clone();
        Some(reading)
    }

    #[track_caller]
    fn tell(&mut self, order: &Value) -> Value {
        self.script.send(&order.to_string());
        let said = self.script.json();
        assert_eq!(said["error"], Value::Null, "{order}");
        said
    }

    #[track_caller]
    fn refused(&mut self, order: &Value) -> String {
        self.script.send(&order.to_string());
        let said = self.script.json();
        said["error"].as_str().unwrap_or_else(|| panic!("{order} was not refused: {said}")).to_owned()
    }

    #[track_caller]
    fn read(&mut self, n: usize) -> Vec<String> {
        let said = self.tell(&json!({ "next": n }));
        serde_json::from_value(said["read"].clone()).expect("texts")
    }

    #[track_caller]
    fn available(&mut self) -> bool {
        self.tell(&json!({ "available": null }))["available"] == true
    }

    /// When the messages were published, in milliseconds since 1970; as many as there are batches differ.
    #[track_caller]
    fn times(&mut self) -> Vec<u64> {
        let _ = self.tell(&json!({ "open": "earliest" }));
        let said = self.tell(&json!({ "next": self.ids.len() }));
        let _ = self.tell(&json!({ "close": null }));
        serde_json::from_value(said["times"].clone()).expect("times")
    }
}

/// The `n` messages from that one on, as published.
fn from(first: usize, n: usize) -> Vec<String> {
    (first..first + n).map(|n| format!("m{n}")).collect()
}

/// Who seeks.
#[derive(Clone, Copy)]
struct Seeks {
    /// Only a reader can be asked whether there is more.
    reader: bool,
    inclusive: bool,
    /// Messages of a batch.
    batch: usize,
    /// Whether others publish meanwhile.
    traffic: bool,
}

/// Fifty seeks of five kinds, each of which has to come out right.
#[track_caller]
fn check_fifty_seeks(reading: &mut Reading, times: &[u64], seeks: Seeks) {
    let Seeks { reader, inclusive, batch, traffic } = seeks;
    for round in 0..10 {
        let at = 3 + round;
        let after = if inclusive { at } else { at + 1 };
        // A batch has one time.
        let begun = at / batch * batch;
        for (to, first) in [
            (reading.ids[at].clone(), after),
            (json!({ "time": times[at] }), begun),
            (json!("earliest"), 0),
            (json!({ "time": 0 }), 0),
        ] {
            let _ = reading.tell(&json!({ "seek": to }));
            assert!(!reader || reading.available(), "round {round}: after a seek to {to}");
            assert_eq!(reading.read(3), from(first, 3), "round {round}: after a seek to {to}");
        }
        let _ = reading.tell(&json!({ "seek": "latest" }));
        if traffic {
            let read: Vec<u64> = reading.read(3).iter().map(|text| text.parse().expect("traffic")).collect();
            assert_eq!(read, [read[0], read[0] + 1, read[0] + 2], "round {round}: after a seek to the end");
        } else if !inclusive {
            // An inclusive reader's client sets it back to the last message when it is asked.
            assert!(!reading.available(), "round {round}: after a seek to the end");
        }
    }
}

#[track_caller]
fn check_reader(batch: usize, inclusive: bool) {
    let weir = Home::new().start();
    let Some(mut reading) = Reading::new(&weir, batch) else { return };
    let times = reading.times();
    for traffic in [false, true] {
        if traffic {
            let _ = reading.tell(&json!({ "traffic": true }));
        }
        let _ = reading.tell(&json!({ "open": "earliest", "inclusive": inclusive }));
        check_fifty_seeks(&mut reading, &times, Seeks { reader: true, inclusive, batch, traffic });
        let _ = reading.tell(&json!({ "close": null }));
    }
    let _ = reading.tell(&json!({ "traffic": false }));
    // What was kept over the seeks is gone with the readers.
    assert_eq!(weir.stats("public/default/read")["subscriptions"], json!({}));
}

#[test]
fn a_reader_goes_on_where_it_was_set_fifty_times_of_fifty() {
    check_reader(1, false);
}

#[test]
fn an_inclusive_reader_of_batches_goes_on_where_it_was_set() {
    check_reader(5, true);
}

#[track_caller]
fn check_consumer(shared: bool) {
    let weir = Home::new().start();
    let Some(mut reading) = Reading::new(&weir, 1) else { return };
    let times = reading.times();
    // More than the client takes at a time is on its way whenever it seeks.
    let _ = reading.tell(&json!({ "traffic": true }));
    let _ = reading.tell(&json!({ "subscribe": "s", "shared": shared }));
    let seeks = Seeks { reader: false, inclusive: false, batch: 1, traffic: true };
    check_fifty_seeks(&mut reading, &times, seeks);
    let _ = reading.tell(&json!({ "traffic": false }));
}

#[test]
fn a_consumer_goes_on_where_it_was_set_while_messages_are_on_their_way() {
    check_consumer(false);
}

#[test]
fn a_shared_consumer_goes_on_where_it_was_set_while_messages_are_on_their_way() {
    check_consumer(true);
}

#[test]
fn a_reader_begins_at_its_message_or_behind_it() {
    for batch in [1, 5] {
        let weir = Home::new().start();
        let Some(mut reading) = Reading::new(&weir, batch) else { return };
        for at in [0, 4, 5, 7, 19] {
            for inclusive in [true, false] {
                let place = reading.ids[at].clone();
                let _ = reading.tell(&json!({ "open": place, "inclusive": inclusive }));
                let first = if inclusive { at } else { at + 1 };
                assert_eq!(reading.available(), first < 20, "{at}, inclusive: {inclusive}");
                let n = (20 - first).min(6);
                assert_eq!(reading.read(n), from(first, n), "{at}, inclusive: {inclusive}");
                let _ = reading.tell(&json!({ "close": null }));
            }
        }
        let _ = reading.tell(&json!({ "open": "latest" }));
        assert!(!reading.available());
        let _ = reading.tell(&json!({ "publish": ["one more"] }));
        assert_eq!(reading.read(1), ["one more"]);
    }
}

#[test]
fn an_empty_topic_has_no_last_message() {
    let weir = Home::new().start();
    let Some(script) = python::start("read.py", &[&weir.service_url(), TOPIC]) else { return };
    let mut reading = Reading { script, ids: Vec::new() };
    for place in ["earliest", "latest"] {
        let _ = reading.tell(&json!({ "open": place }));
        assert!(!reading.available(), "{place}");
        let _ = reading.tell(&json!({ "close": null }));
    }
    let _ = reading.tell(&json!({ "subscribe": "s" }));
    assert_eq!(reading.tell(&json!({ "last": null }))["last"], json!([-1, -1, -1]));
    let published = reading.tell(&json!({ "publish": ["a", "b"], "batch": 2 }));
    assert_eq!(reading.tell(&json!({ "last": null }))["last"], published["published"][1]);
}

#[test]
fn compacted_reading_is_refused() {
    let weir = Home::new().start();
    let Some(mut reading) = Reading::new(&weir, 1) else { return };
    let error = reading.refused(&json!({ "open": "earliest", "compacted": true }));
    assert!(error.contains("NotAllowed"), "{error}");
}

/// SUBSCRIBE of a reader.
fn reader(consumer: u64, request: u64) -> Fields {
    let body = Fields::new().bytes(1, TOPIC).bytes(2, "reader").int(3, 0).int(4, consumer);
    body.int(5, request).int(8, 0)
}

#[test]
fn the_end_of_the_consumer_is_told_before_the_end_of_the_seek() {
    let weir = Home::new().start();
    let mut connection = Connection::open(weir.pulsar);
    assert_eq!(connection.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
    for n in 0..300 {
        assert_eq!(connection.publish(1, n, &entry("p", n, &[], b"x")).kind, kind::SEND_RECEIPT);
    }
    connection.send(kind::SUBSCRIBE, reader(2, 2));
    assert_eq!(connection.read().kind, kind::SUCCESS);
    for round in 3..103 {
        connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, 1000));
        connection.send(kind::SEEK, Fields::new().int(1, 2).int(2, round).int(4, 0));
        let mut ends = Vec::new();
        while ends.len() < 2 {
            let received = connection.read();
            if received.kind != kind::MESSAGE {
                ends.push(received.kind);
            }
        }
        assert_eq!(ends, [kind::CLOSE_CONSUMER, kind::SUCCESS]);
        // It says "from the latest on", as a stock reader does after a seek to a time.
        connection.send(kind::SUBSCRIBE, reader(2, round));
        assert_eq!(connection.read().kind, kind::SUCCESS);
        connection.send(kind::GET_LAST_MESSAGE_ID, Fields::new().int(1, 2).int(2, round));
        let answer = connection.read();
        let id = |field| answer.body.message(field).map(|id: Message| (id.int(1), id.int(2)));
        let (last, mark_delete) = (id(1).unwrap(), id(3).unwrap());
        assert_eq!(
            (last.1, mark_delete.1),
            (Some(299), Some(u64::MAX)),
            "before the first entry: {answer:?}"
        );
        assert_eq!(last.0, mark_delete.0, "of its ledger");
    }
}
