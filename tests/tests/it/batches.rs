//! Filtering inside a producer's batch: no match is ever lost, nothing else is delivered, and the backlog
//! reaches 0, however the batch is compressed and the client acknowledges.

use serde_json::{Value, json};
use weir_tests::artifacts::{self, Form};
use weir_tests::python::{self, Script};
use weir_tests::wait;
use weir_tests::weir::{Home, Weir};

const CLASS: &str = "demo.LateFlights";
const COMPRESSIONS: [&str; 5] = ["none", "lz4", "zlib", "zstd", "snappy"];

fn start() -> Option<Weir> {
    let filter = artifacts::read("late-flights", Form::Component)?;
    python::interpreter()?;
    let weir = Home::new().start();
    let _ = weir.register(CLASS, &filter).ok();
    Some(weir)
}

/// Delays of a batch: three match, none matches, all match; a batch of one.
const BATCHES: [&[i64]; 4] =
    [&[5, 61, 0, 90, -3, 60, 7, 8, 1000, 10], &[1, 2, 3, 60, -5], &[61, 62, 63, 64], &[100]];

fn publish(weir: &Weir, topic: &str, compression: &str, batched: bool) -> Vec<String> {
    let mut matching = Vec::new();
    for (b, batch) in BATCHES.iter().enumerate() {
        let size = if batched { batch.len().max(2).to_string() } else { "1".to_owned() };
        let arguments = [&weir.service_url(), topic, "--compression", compression, "--batch", &size];
        let mut script = python::start("produce.py", &arguments).expect("was asked for before");
        for (i, delay) in batch.iter().enumerate() {
            let payload = format!("{b}:{i}:{}", "long enough to be worth compressing ".repeat(3));
            if *delay > 60 {
                matching.push(payload.clone());
            }
            let line = json!({ "payload": payload, "properties": { "delay": delay.to_string() } });
            script.send(&line.to_string());
        }
        let said = script.rest();
        assert_eq!(said.len(), batch.len(), "{said:?}");
        let entries: std::collections::BTreeSet<String> =
            said.iter().map(|line| format!("{}:{}", line["id"][0], line["id"][1])).collect();
        assert_eq!(
            entries.len(),
            if batched { 1 } else { batch.len() },
            "batched as the test says: {said:?}"
        );
    }
    matching
}

fn payloads(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| message["payload"].as_str().expect("a payload").to_owned()).collect()
}

fn consume(weir: &Weir, topic: &str, subscription: &str, more: &[&str]) -> Script {
    let url = weir.service_url();
    let mut arguments = vec![url.as_str(), topic, subscription];
    arguments.extend_from_slice(more);
    let script = python::start("consume.py", &arguments).expect("was asked for before");
    assert_eq!(script.json(), json!({ "subscribed": true }));
    script
}

#[track_caller]
fn check(weir: &Weir, topic: &str, compression: &str, batched: bool) {
    let name = format!("persistent://public/default/{topic}");
    let subscriptions =
        [("default", &[][..]), ("index", &["--batch-index-ack"][..]), ("shared", &["--shared"][..])];
    for (subscription, more) in subscriptions {
        weir.bind(&name, subscription, CLASS, &json!({ "minutes": 60 }), "withhold");
        let mut only_subscribe = more.to_vec();
        only_subscribe.extend_from_slice(&["--count", "0"]);
        assert_eq!(consume(weir, &name, subscription, &only_subscribe).rest(), Vec::<Value>::new());
    }
    let matching = publish(weir, &name, compression, batched);
    let count = matching.len().to_string();
    for (subscription, more) in subscriptions {
        let mut all = more.to_vec();
        all.extend_from_slice(&["--count", &count]);
        let mut again = all.clone();
        again.push("--no-ack");
        let unacknowledged = payloads(&consume(weir, &name, subscription, &again).rest());
        assert_eq!(unacknowledged, matching, "{topic}, {subscription}, not acknowledged");
        let received = payloads(&consume(weir, &name, subscription, &all).rest());
        assert_eq!(received, matching, "{topic}, {subscription}, delivered again");
        wait::until("the backlog to reach 0", || {
            match weir.backlog(&format!("public/default/{topic}"), subscription) {
                0 => Ok(()),
                backlog => Err(backlog),
            }
        });
        let nothing = consume(weir, &name, subscription, more).rest();
        assert_eq!(nothing, Vec::<Value>::new(), "{topic}, {subscription}, all was acknowledged");
    }
}

#[test]
fn only_matches_of_a_batch_are_delivered_however_it_is_compressed() {
    let Some(weir) = start() else { return };
    for compression in COMPRESSIONS {
        check(&weir, &format!("batched-{compression}"), compression, true);
    }
}

#[test]
fn unbatched_messages_are_filtered_alike() {
    let Some(weir) = start() else { return };
    check(&weir, "unbatched-none", "none", false);
    check(&weir, "unbatched-lz4", "lz4", false);
}
