//! The last good version: back to it by hand or by itself, and what was gone back from stays out until it is
//! forced.

use serde_json::{Value, json};
use weir_tests::artifacts::{self, Form};
use weir_tests::python::{self, Script};
use weir_tests::wait;
use weir_tests::weir::{Home, Weir};

const CLASS: &str = "demo.Swap";

/// The two versions of the class that the tests go between.
fn versions() -> Option<(Vec<u8>, Vec<u8>)> {
    Some((artifacts::read("odd", Form::Component)?, artifacts::read("even", Form::Component)?))
}

#[track_caller]
fn command(weir: &Weir, arguments: &[&str], code: i32) -> String {
    let output = weir.command(arguments);
    assert_eq!(output.status.code(), Some(code), "weir {arguments:?}: {output:?}");
    let text = if code == 0 { output.stdout } else { output.stderr };
    String::from_utf8_lossy(&text).into_owned()
}

/// Publishes the numbers from 1 on to a topic and gives back those that a subscription receives.
fn judged(weir: &Weir, topic: &str, numbers: u32) -> Vec<u32> {
    let topic = format!("persistent://public/default/{topic}");
    weir.bind(&topic, "s", CLASS, &Value::Null, "withhold");
    let url = weir.service_url();
    let consumer = python::start("consume.py", &[&url, &topic, "s"]).expect("was asked for before");
    assert_eq!(consumer.json(), json!({ "subscribed": true }));
    publish(weir, &topic, 1..=numbers);
    let received = consumer.rest();
    received.iter().map(|message| message["payload"].as_str().unwrap().parse().unwrap()).collect()
}

fn publish(weir: &Weir, topic: &str, numbers: impl Iterator<Item = u32>) {
    let mut producer = python::start("produce.py", &[&weir.service_url(), topic, "--batch", "1"])
        .expect("was asked for before");
    for n in numbers {
        let line = json!({ "payload": n.to_string(), "properties": { "n": n.to_string() } });
        producer.send(&line.to_string());
    }
    assert!(producer.rest().iter().all(|said| said.get("acknowledged").is_some()));
}

#[test]
fn a_rollback_survives_kill_9_and_its_bytes_come_back_by_force_only() {
    let Some((odd, even)) = versions() else { return };
    if python::interpreter().is_none() {
        return;
    }
    let weir = Home::new().set("plugins.poll=100ms").start();
    let _ = weir.register(CLASS, &odd).ok();
    assert!(command(&weir, &["extension", "rollback", CLASS], 1).contains("no version before"));
    let _ = weir.register(CLASS, &even).ok();
    assert_eq!(judged(&weir, "before", 4), [2, 4]);
    let said = command(&weir, &["extension", "rollback", CLASS], 0);
    assert!(said.contains("demo.Swap is back to version"), "{said}");
    assert_eq!(judged(&weir, "back", 4), [1, 3]);

    let weir = weir.kill().start();
    assert_eq!(weir.in_force(CLASS), Some(artifacts::crc32(&odd)));
    for _ in 0..3 {
        let again = weir.register(CLASS, &even);
        assert_eq!(again.status, 409, "{again}");
        assert!(
            again.reason().contains("was taken back and is not taken again unless it is forced"),
            "{again}"
        );
    }
    weir.home().drop_file("swap.wasm", &even);
    let refused = wait::until("the file to be refused", || {
        let refused = weir.get("/weir/v1/refused");
        match refused.pointer("/0/reason").and_then(Value::as_str) {
            Some(reason) => Ok(reason.to_owned()),
            None => Err(refused),
        }
    });
    assert!(refused.contains("was taken back"), "{refused}");
    let log = weir.log().join("\n");
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "who sends again makes no noise: {log}");
    let shown = command(&weir, &["extension", "show", CLASS], 0);
    assert!(
        shown.contains("taken back 1 reason") && shown.contains("by hand (POST from 127.0.0.1"),
        "{shown}"
    );

    let path = artifacts::path("even", Form::Component);
    let register = ["extension", "register", path.to_str().unwrap(), "--class", CLASS];
    assert!(command(&weir, &register, 1).contains("was taken back"));
    command(&weir, &[&register[..], &["--force"]].concat(), 0);
    let weir = weir.kill().start();
    assert_eq!(weir.in_force(CLASS), Some(artifacts::crc32(&even)));
    assert_eq!(judged(&weir, "forced", 4), [2, 4]);
    let extension = weir.extension(CLASS).unwrap();
    assert_eq!(extension["taken-back"], json!([]));
    assert_eq!(extension["kept"][0]["sha256"].as_str().unwrap().len(), 64, "{extension}");
    assert!(
        extension["kept"][0]["reason"].as_str().unwrap().contains("replaced it, from PUT"),
        "{extension}"
    );
}

/// A producer and a subscription of the stock client, with the filter between them.
struct Traffic {
    producer: Script,
    consumer: Script,
    sent: u32,
}

impl Traffic {
    fn start(weir: &Weir, topic: &str) -> Self {
        let topic = format!("persistent://public/default/{topic}");
        weir.bind(&topic, "s", CLASS, &Value::Null, "withhold");
        let url = weir.service_url();
        let consumer = python::start("consume.py", &[&url, &topic, "s"]).expect("was asked for before");
        assert_eq!(consumer.json(), json!({ "subscribed": true }));
        let producer = python::start("produce.py", &[&url, &topic, "--batch", "1"]);
        Self { producer: producer.expect("was asked for before"), consumer, sent: 0 }
    }

    /// Publishes the next numbers and waits for their acknowledgements.
    fn send(&mut self, count: u32) {
        for n in self.sent + 1..=self.sent + count {
            let line = json!({ "payload": n.to_string(), "properties": { "n": n.to_string() } });
            self.producer.send(&line.to_string());
        }
        for _ in 0..count {
            let said = self.producer.json();
            assert!(said.get("acknowledged").is_some(), "{said}");
        }
        self.sent += count;
    }

    /// All that arrived, up to the end.
    fn arrived(self) -> Vec<u32> {
        assert_eq!(self.producer.rest(), Vec::<Value>::new());
        let received = self.consumer.rest();
        received.iter().map(|message| message["payload"].as_str().unwrap().parse().unwrap()).collect()
    }
}

/// Counts how often messages were withheld or delivered unjudged.
fn unjudged(weir: &Weir, topic: &str) -> u64 {
    let subscription = &weir.stats(&format!("public/default/{topic}"))["subscriptions"]["s"];
    ["filterBrokeWithheldMsgCount", "filterBrokeDeliveredMsgCount", "filterBrokeDiscardedMsgCount"]
        .iter()
        .map(|counter| subscription[counter].as_u64().expect("a count"))
        .sum()
}

#[test]
fn a_bad_version_is_taken_back_by_itself_and_no_message_is_lost() {
    let Some((odd, _)) = versions() else { return };
    if python::interpreter().is_none() {
        return;
    }
    let trapping = artifacts::trapping(CLASS);
    let weir = Home::new().start();
    let _ = weir.register(CLASS, &odd).ok();
    let mut traffic = Traffic::start(&weir, "trial");
    traffic.send(50);
    let _ = weir.register(CLASS, &trapping).ok();
    assert_eq!(weir.in_force(CLASS), Some(artifacts::crc32(&trapping)), "it looks like a good one");
    wait::until("the bad version to be taken back", || {
        traffic.send(10);
        match weir.extension(CLASS).unwrap() {
            extension if extension["crc32"] == json!(artifacts::crc32(&odd)) => Ok(()),
            extension => Err(extension),
        }
    });
    traffic.send(50);
    let sent = traffic.sent;
    assert_eq!(unjudged(&weir, "trial"), 0, "the last good version judged what broke the bad one");
    wait::until("the backlog to reach 0", || match weir.backlog("public/default/trial", "s") {
        0 => Ok(()),
        backlog => Err(backlog),
    });
    assert_eq!(
        traffic.arrived(),
        (1..=sent).filter(|n| n % 2 == 1).collect::<Vec<_>>(),
        "each once, in order"
    );

    let shown = command(&weir, &["extension", "show", CLASS], 0);
    let reason = shown.lines().find(|line| line.contains("taken back 1 reason")).expect("it says why");
    assert!(reason.contains("it broke on ") && reason.contains("the last time: trap"), "{reason}");
    assert!(
        weir.log()
            .iter()
            .any(|line| line.contains("WARN") && line.contains("went back to the version before"))
    );
    let metrics = weir.call("GET", "/metrics", b"").ok().to_string();
    assert!(metrics.contains("weir_extension_versions_taken_back_total 1"), "{metrics}");
    let again = weir.register(CLASS, &trapping);
    assert_eq!(again.status, 409, "{again}");
    let weir = weir.kill().start();
    assert_eq!(weir.in_force(CLASS), Some(artifacts::crc32(&odd)));
}

#[test]
fn a_trial_outlives_kill_9_with_its_last_good_version() {
    let Some((odd, _)) = versions() else { return };
    if python::interpreter().is_none() {
        return;
    }
    let trapping = artifacts::trapping(CLASS);
    let mut weir = Home::new().start();
    let _ = weir.register(CLASS, &odd).ok();
    let _ = weir.register(CLASS, &trapping).ok();
    for topic in ["before", "after"] {
        let mut traffic = Traffic::start(&weir, topic);
        traffic.send(20);
        assert_eq!(traffic.arrived(), (1..=20).filter(|n| n % 2 == 1).collect::<Vec<_>>());
        assert_eq!(unjudged(&weir, topic), 0);
        let extension = weir.extension(CLASS).unwrap();
        assert_eq!((&extension["trial"]["judged"], &extension["trial"]["broke"]), (&json!(20), &json!(20)));
        weir = weir.kill().start();
        assert_eq!(weir.in_force(CLASS), Some(artifacts::crc32(&trapping)));
    }
}
