//! What the stock client does beside publishing and receiving in order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use weir_tests::artifacts::{self, Form};
use weir_tests::python;
use weir_tests::wait;
use weir_tests::weir::{Home, Weir};

const LATE: &str = "demo.LateFlights";

/// Publishes numbers, with a delay that is late for every even one.
fn publish(weir: &Weir, topic: &str, numbers: u64, batch: &str) {
    let mut script = python::start("produce.py", &[&weir.service_url(), topic, "--batch", batch]).unwrap();
    for n in 0..numbers {
        let delay = if n % 2 == 0 { "100" } else { "0" };
        script.send(&json!({ "payload": n.to_string(), "properties": { "delay": delay } }).to_string());
    }
    assert_eq!(script.rest().len() as u64, numbers);
}

fn number(message: &Value) -> u64 {
    message["payload"].as_str().and_then(|text| text.parse().ok()).expect("a number")
}

/// Each message is refused by the application when it comes first, and taken when it comes again.
#[track_caller]
fn check_negative_acknowledgement(batch: &str, filtered: bool) {
    let topic = "persistent://public/default/again";
    let weir = Home::new().start();
    let mut expected: Vec<u64> = (0..10).collect();
    if filtered {
        let Some(component) = artifacts::read("late-flights", Form::Component) else { return };
        let _ = weir.register(LATE, &component).ok();
        weir.bind(topic, "again", LATE, &json!({ "minutes": 60 }), "withhold");
        expected.retain(|n| n % 2 == 0);
    }
    publish(&weir, topic, 10, batch);
    let count = (2 * expected.len()).to_string();
    let arguments = [&weir.service_url(), topic, "again", "--shared", "--nack-first", "--count", &count];
    let consumer = python::start("consume.py", &arguments).unwrap();
    let messages = consumer.rest().split_off(1);
    for redelivered in [0, 1] {
        let mut once: Vec<u64> =
            messages.iter().filter(|message| message["redelivered"] == redelivered).map(number).collect();
        once.sort_unstable();
        assert_eq!(once, expected, "with redelivery count {redelivered}: {messages:?}");
    }
    wait::until("the backlog to reach 0", || match weir.backlog("public/default/again", "again") {
        0 => Ok(()),
        backlog => Err(backlog),
    });
}

#[test]
fn what_is_negatively_acknowledged_comes_again() {
    let Some(_) = python::interpreter() else { return };
    check_negative_acknowledgement("1", false);
}

#[test]
fn a_batch_that_is_negatively_acknowledged_comes_again() {
    let Some(_) = python::interpreter() else { return };
    check_negative_acknowledgement("10", false);
}

#[test]
fn a_filtered_batch_that_is_negatively_acknowledged_comes_again_as_it_was() {
    let Some(_) = python::interpreter() else { return };
    check_negative_acknowledgement("10", true);
}

#[test]
fn a_partitioned_topic_is_published_to_and_consumed_whole() {
    let Some(_) = python::interpreter() else { return };
    let topic = "persistent://public/default/parts";
    let weir = Home::new().start();
    let answer = weir.call("PUT", "/admin/v2/persistent/public/default/parts/partitions", b"3");
    assert_eq!(answer.status, 204, "{answer}");
    let url = weir.service_url();
    let consumer = python::start("consume.py", &[&url, topic, "sub", "--count", "60"]).unwrap();
    assert_eq!(consumer.json(), json!({ "subscribed": true }));
    publish(&weir, topic, 60, "5");
    let messages = consumer.rest();
    let mut by_partition = BTreeMap::<String, Vec<u64>>::new();
    for message in &messages {
        by_partition.entry(message["topic"].as_str().unwrap().to_owned()).or_default().push(number(message));
    }
    let partitions: Vec<String> = (0..3).map(|n| format!("{topic}-partition-{n}")).collect();
    assert_eq!(by_partition.keys().cloned().collect::<Vec<_>>(), partitions);
    for (partition, numbers) in &by_partition {
        assert!(numbers.is_sorted(), "in order within {partition}: {numbers:?}");
    }
    let all: BTreeSet<u64> = by_partition.into_values().flatten().collect();
    assert_eq!((messages.len(), all.len()), (60, 60), "each once");
    for n in 0..3 {
        wait::until("the backlog to reach 0", || {
            match weir.backlog(&format!("public/default/parts-partition-{n}"), "sub") {
                0 => Ok(()),
                backlog => Err(backlog),
            }
        });
    }
}
