//! `/metrics`: read by Prometheus' own parser, named by its conventions, and true.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weir_tests::artifacts::{self, Form};
use weir_tests::pulsar::{Connection, Fields, entry, frame_with, kind};
use weir_tests::python;
use weir_tests::wait;
use weir_tests::weir::{Home, Weir};

const CLASS: &str = "demo.Swap";
const TOPIC: &str = "persistent://public/default/figures";

/// What a scrape says, line by line; `None` without an interpreter.
fn scrape(weir: &Weir) -> Option<Vec<Value>> {
    Some(python::start("metrics.py", &[&format!("http://{}/metrics", weir.admin)])?.rest())
}

/// The sum of the samples of a name that have these labels.
#[track_caller]
fn value(scraped: &[Value], name: &str, labels: &[(&str, &str)]) -> f64 {
    let has = |sample: &&Value| {
        sample["sample"] == name && labels.iter().all(|(label, value)| sample["labels"][label] == *value)
    };
    let found: Vec<f64> = scraped.iter().filter(has).filter_map(|sample| sample["value"].as_f64()).collect();
    assert!(!found.is_empty(), "there is no {name} with {labels:?} in {scraped:#?}");
    found.iter().sum()
}

/// Source: <https://prometheus.io/docs/practices/naming/>.
fn check_conventions(scraped: &[Value]) {
    const LABELS: [&str; 5] = ["class", "version", "form", "outcome", "le"];
    let mut names = BTreeSet::new();
    for family in scraped.iter().filter(|line| line["name"].is_string()) {
        let (name, unit) = (family["name"].as_str().unwrap(), family["unit"].as_str().unwrap_or_default());
        assert!(name.starts_with("weir_"), "{family}");
        assert!(names.insert(name.to_owned()), "told twice: {family}");
        assert!(!family["help"].as_str().unwrap().is_empty(), "{family}");
        assert_ne!(family["type"], "unknown", "{family}");
        for wrong in ["microseconds", "milliseconds", "_ms", "kib", "_total"] {
            assert!(!name.contains(wrong), "{family} is not in a base unit, or says what its samples add");
        }
        assert!(unit.is_empty() || name.ends_with(&format!("_{unit}")), "{family}");
    }
    assert!(names.len() > 25, "{names:?}");
    for sample in scraped.iter().filter(|line| line["sample"].is_string()) {
        for label in sample["labels"].as_object().unwrap().keys() {
            assert!(LABELS.contains(&label.as_str()), "a label without bounds: {sample}");
        }
    }
}

#[test]
fn metrics_are_read_by_prometheus_and_are_true() {
    let (Some(odd), Some(native)) =
        (artifacts::read("odd", Form::Component), artifacts::read("urgent-west", Form::Native))
    else {
        return;
    };
    let weir = Home::new().set("plugins.poll=100ms").start();
    let Some(scraped) = scrape(&weir) else { return };
    check_conventions(&scraped);
    assert_eq!(value(&scraped, "weir_topics", &[]), 0.0);
    assert_eq!(value(&scraped, "weir_extension_native_libraries", &[]), 0.0);
    assert_eq!(value(&scraped, "weir_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);

    let _ = weir.register(CLASS, &odd).ok();
    weir.home().drop_file("urgent-west.so", &native);
    wait::until("the library to be in force", || match weir.get("/weir/v1/extensions") {
        Value::Array(all) if all.iter().any(|one| one["form"] == "native") => Ok(()),
        other => Err(other),
    });
    let _ = weir.put("/admin/v2/persistent/public/default/parts/partitions", &json!(3)).ok();
    weir.bind(TOPIC, "s", CLASS, &Value::Null, "withhold");
    let mut connection = Connection::open(weir.pulsar);
    assert_eq!(connection.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
    assert_eq!(connection.subscribe(TOPIC, "s", 2, 2).kind, kind::SUCCESS);
    connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, 1000));
    // Three odd numbers, two even ones, and one that is none.
    for (i, n) in (0..).zip(["1", "2", "3", "4", "5", "six"]) {
        let sent = entry("p", i, &[("n", n)], n.as_bytes());
        connection.write(&frame_with(kind::SEND, Fields::new().int(1, 1).int(2, i), &sent));
    }
    for _ in 0..3 {
        let _ = connection.read_kind(kind::MESSAGE);
    }

    let scraped = wait::until("the last message to be withheld", || {
        let scraped = scrape(&weir).expect("it was there before");
        match value(&scraped, "weir_withheld_messages", &[]) {
            1.0 => Ok(scraped),
            other => Err(other),
        }
    });
    check_conventions(&scraped);
    for (name, expected) in [
        ("weir_topics", 2.0),
        ("weir_topic_partitions", 4.0),
        ("weir_subscriptions", 1.0),
        ("weir_subscriptions_paused", 0.0),
        ("weir_producers", 1.0),
        ("weir_consumers", 1.0),
        ("weir_unacked_messages", 3.0),
        ("weir_published_messages_total", 6.0),
        ("weir_delivered_messages_total", 3.0),
        ("weir_pulsar_connections", 1.0),
        ("weir_extension_native_libraries", 1.0),
        ("weir_judging_threads_held", 0.0),
        ("weir_store_failing", 0.0),
    ] {
        assert_eq!(value(&scraped, name, &[]), expected, "{name}");
    }
    // By Winch, and by Cranelift behind it: whether that is done by now, nobody has said.
    let compilations = value(&scraped, "weir_extension_compilations_total", &[]);
    assert!((1.0..=2.0).contains(&compilations), "{compilations}");
    let of =
        |outcome| value(&scraped, "weir_extension_messages_total", &[("class", CLASS), ("outcome", outcome)]);
    assert_eq!((of("accepted"), of("rejected"), of("rescheduled")), (3.0, 2.0, 0.0));
    assert!(of("broke") >= 1.0, "said no and broke are told apart");
    assert!(value(&scraped, "weir_extension_call_seconds_sum", &[("class", CLASS)]) > 0.0);
    let timed = value(&scraped, "weir_extension_call_seconds_count", &[("class", CLASS)]);
    assert!((1.0..=7.0).contains(&timed), "a batch each at most, and the one that is judged again: {timed}");
    let longest = value(&scraped, "weir_extension_call_seconds_bucket", &[("class", CLASS), ("le", "+Inf")]);
    assert_eq!(longest, timed, "buckets are added up");
    assert!(value(&scraped, "weir_extension_instances", &[("class", CLASS)]) >= 1.0);
    assert!(value(&scraped, "weir_extension_compile_seconds_total", &[]) > 0.0);
    let version = weir.extension(CLASS).unwrap()["version"].as_str().unwrap().to_owned();
    let counts = weir.extension(CLASS).unwrap()["counts"].clone();
    let (p50, p99) = (counts["p50-micros"].as_u64().unwrap(), counts["p99-micros"].as_u64().unwrap());
    assert!(0 < p50 && p50 <= p99, "{counts}");
    let shown = weir.command(&["extension", "show", CLASS]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("counts p99 micros") && shown.contains("counts instances"), "{shown}");
    let in_force = [("class", CLASS), ("version", &version), ("form", "component")];
    assert_eq!(value(&scraped, "weir_extension_in_force", &in_force), 1.0);
}
