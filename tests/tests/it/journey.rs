//! The main journey, on real input: flights published by the stock client, decided by an extension that is
//! dropped in, replaced while they flow, and still there after a `kill -9`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weir_tests::artifacts::{self, Form};
use weir_tests::flights::{self, Flight};
use weir_tests::python::{self, Script};
use weir_tests::wait;
use weir_tests::weir::{Home, Weir};

const TOPIC: &str = "persistent://public/default/flights";
const SHORT: &str = "public/default/flights";
/// Rows of the data set that are published: the first fortnight of January.
const ROWS: usize = 12_000;
const LATE: &str = "demo.LateFlights";
const SWAP: &str = "demo.Swap";

fn subscribe(weir: &Weir, subscription: &str, more: &[&str]) -> Option<Script> {
    let url = weir.service_url();
    let mut arguments = vec![url.as_str(), TOPIC, subscription];
    arguments.extend_from_slice(more);
    let script = python::start("consume.py", &arguments)?;
    assert_eq!(script.json(), json!({ "subscribed": true }));
    Some(script)
}

fn publish(weir: &Weir, more: &[&str]) -> Option<Script> {
    let (url, rows) = (weir.service_url(), ROWS.to_string());
    let mut arguments = vec!["publish", url.as_str(), TOPIC, "--count", &rows];
    arguments.extend_from_slice(more);
    python::start("flights.py", &arguments)
}

/// The row that a message carries.
fn row(message: &Value) -> u64 {
    message["properties"]["n"].as_str().and_then(|n| n.parse().ok()).expect("each flight is numbered")
}

/// Rows that are later than that, computed plainly.
fn later_than(minutes: i64, flights: &[Flight]) -> Vec<u64> {
    let late = flights.iter().filter(|flight| flight.delay.is_some_and(|delay| delay > minutes));
    late.map(|flight| flight.row).collect()
}

/// Drops an artifact into the folder, and waits until it is in force.
fn install(weir: &Weir, class: &str, name: &str, form: Form) -> Option<()> {
    let artifact = artifacts::read(name, form)?;
    weir.home().drop_file(&format!("{name}.{}", form.ending()), &artifact);
    weir.wait_in_force(class, &artifact);
    Some(())
}

/// Exactly the late flights, once, in order; also when weir is killed half way through.
fn exactly_the_late_ones(form: Form) -> Option<()> {
    let flights = flights::read(ROWS)?;
    let late = later_than(60, &flights);
    assert!(late.len() > 200, "the data set has late flights: {}", late.len());
    let weir = Home::new().set("plugins.poll=100ms").start();
    install(&weir, LATE, "late-flights", form)?;
    weir.bind(TOPIC, "late", LATE, &json!({ "minutes": 60 }), "withhold");
    for subscription in ["late", "all"] {
        assert_eq!(subscribe(&weir, subscription, &["--count", "0"])?.rest(), Vec::<Value>::new());
    }
    let published = publish(&weir, &["--compression", "lz4"])?.rest();
    assert_eq!(published.len(), ROWS);

    // Half of them, then kill -9, then the rest.
    let half = late.len() / 2;
    // By index: else the client acknowledges a batch only with its last message.
    let first = subscribe(&weir, "late", &["--count", &half.to_string(), "--batch-index-ack"])?.rest();
    assert_eq!(first.iter().map(row).collect::<Vec<_>>(), late[..half]);
    let left = settled_backlog(&weir, "late");
    let weir = weir.kill().start();
    let backlog = weir.backlog(SHORT, "late");
    assert!(backlog <= left, "what was acknowledged stays so: {left} were left, {backlog} are");
    let rest = subscribe(&weir, "late", &[])?;
    wait_for_no_backlog(&weir, "late");
    let rest = rest.rest();
    assert_eq!(rest.iter().map(row).collect::<Vec<_>>(), late[half..], "goes on where it was");

    // A subscription without a binding has them all.
    let all = subscribe(&weir, "all", &["--count", &ROWS.to_string()])?.rest();
    assert_eq!(all.iter().map(row).collect::<Vec<_>>(), (0..ROWS as u64).collect::<Vec<_>>());
    Some(())
}

/// The backlog once acknowledgements have arrived: the client sends them without asking for an answer, so all
/// that can be seen is that the backlog is the same at a row of looks.
fn settled_backlog(weir: &Weir, subscription: &str) -> u64 {
    let (mut last, mut same) = (u64::MAX, 0);
    wait::until("the acknowledgements to arrive", || {
        let backlog = weir.backlog(SHORT, subscription);
        same = if backlog == last { same + 1 } else { 0 };
        last = backlog;
        if same >= 10 { Ok(backlog) } else { Err(backlog) }
    })
}

fn wait_for_no_backlog(weir: &Weir, subscription: &str) {
    wait::until("the backlog to reach 0", || match weir.backlog(SHORT, subscription) {
        0 => Ok(()),
        backlog => Err(backlog),
    });
}

/// Which version judged each row can be read off what was delivered: `odd` lets odd numbers through, `even`
/// even ones. A row that was lost, or judged twice, shows as a change of version that nobody made.
fn each_row_by_exactly_one_version(form: Form) -> Option<()> {
    const STEP: usize = 1_000;
    let swaps = [("even", false), ("odd", true), ("even", true), ("odd", false), ("even", false)];
    let weir = Home::new().set("plugins.poll=100ms").start();
    install(&weir, SWAP, "odd", form)?;
    weir.bind(TOPIC, "swap", SWAP, &Value::Null, "withhold");
    let consumer = subscribe(&weir, "swap", &[])?;
    let mut producer = publish(&weir, &["--step", &STEP.to_string()])?;
    let file = format!("odd.{}", form.ending());
    // A step is published at once; one more follows each line that is sent.
    let mut published = 0;
    let mut wait_until_judged = |producer: &Script, rows: usize| {
        while published < rows {
            assert!(producer.json()["acknowledged"].is_u64());
            published += 1;
        }
        wait_for_no_backlog(&weir, "swap");
    };
    wait_until_judged(&producer, STEP);
    for (i, (name, by_put)) in swaps.into_iter().enumerate() {
        // Rows flow while the version changes, and after it has.
        producer.send("go on");
        let artifact = artifacts::read(name, form)?;
        if by_put && form == Form::Component {
            let _ = weir.register(SWAP, &artifact).ok();
        } else {
            weir.home().drop_file(&file, &artifact);
        }
        weir.wait_in_force(SWAP, &artifact);
        producer.send("go on");
        wait_until_judged(&producer, STEP * (2 * i + 3));
    }
    producer.send("go on");
    wait_until_judged(&producer, ROWS);
    // The last line is asked for once all is published.
    producer.send("go on");
    assert_eq!(producer.rest(), Vec::<Value>::new());
    let delivered: Vec<u64> = consumer.rest().iter().map(row).collect();
    let once: BTreeSet<u64> = delivered.iter().copied().collect();
    assert_eq!(once.len(), delivered.len(), "none is delivered twice");
    let version = |row: u64| if once.contains(&row) { row % 2 } else { 1 - row % 2 };
    let versions: Vec<u64> = (0..ROWS as u64).map(version).collect();
    let changes = versions.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!(versions[0], 1, "the first version let odd numbers through");
    assert_eq!(changes, swaps.len(), "the version changed as often as it was replaced");
    Some(())
}

#[test]
fn a_component_delivers_exactly_the_late_flights() {
    let _skipped = exactly_the_late_ones(Form::Component);
}

#[test]
fn a_library_delivers_exactly_the_late_flights() {
    let _skipped = exactly_the_late_ones(Form::Native);
}

#[test]
fn a_component_replaced_under_traffic_judges_each_row_once() {
    let _skipped = each_row_by_exactly_one_version(Form::Component);
}

#[test]
fn a_library_replaced_under_traffic_judges_each_row_once() {
    let _skipped = each_row_by_exactly_one_version(Form::Native);
}

#[test]
fn a_pattern_consumer_finds_new_topics() {
    // The stock Python client looks for new topics once a minute, whatever it is told.
    let Some(_) = python::interpreter() else { return };
    let weir = Home::new().start();
    let publish = |topic: &str, payload: &str| {
        let url = weir.service_url();
        let name = format!("persistent://public/default/{topic}");
        let mut script = python::start("produce.py", &[&url, &name, "--batch", "1"]).unwrap();
        script.send(&json!({ "payload": payload }).to_string());
        assert_eq!(script.rest().len(), 1);
    };
    publish("found-a", "a");
    publish("other", "never seen");
    let url = weir.service_url();
    let arguments =
        [url.as_str(), "persistent://public/default/found-.*", "pattern", "--pattern", "--count", "2"];
    let consumer = python::start("consume.py", &arguments).unwrap();
    assert_eq!(consumer.json(), json!({ "subscribed": true }));
    assert_eq!(consumer.json()["payload"], "a");
    publish("found-b", "b");
    assert_eq!(consumer.json()["payload"], "b");
    assert_eq!(consumer.rest(), Vec::<Value>::new());
}
