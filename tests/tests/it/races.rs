//! Many at once: one key that everybody changes, one artifact that everybody uses.

use std::collections::BTreeSet;
use std::sync::Barrier;

use serde_json::json;
use weir_tests::artifacts::{self, Form};
use weir_tests::pulsar::{Connection, Fields, entry, frame_with, kind};
use weir_tests::weir::{Home, Weir};

const CLASS: &str = "demo.Swap";

/// Publishes the numbers 0 and 1 and gives the one that arrives.
fn which_passes(weir: &Weir, topic: &str) -> String {
    let topic = format!("persistent://public/default/{topic}");
    weir.bind(&topic, "s", CLASS, &json!({}), "withhold");
    let mut connection = Connection::open(weir.pulsar);
    assert_eq!(connection.producer(&topic, 1, 1).kind, kind::PRODUCER_SUCCESS);
    assert_eq!(connection.subscribe(&topic, "s", 2, 2).kind, kind::SUCCESS);
    connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, 10));
    for i in 0..2 {
        let n = i.to_string();
        let sent = entry("p", i, &[("n", &n)], format!("#{n}").as_bytes());
        connection.write(&frame_with(kind::SEND, Fields::new().int(1, 1).int(2, i), &sent));
    }
    let text = String::from_utf8_lossy(&connection.read_kind(kind::MESSAGE).entry).into_owned();
    text.rsplit('#').next().unwrap().to_owned()
}

#[test]
fn sixty_four_connections_that_change_one_key_leave_one_winner() {
    const CONNECTIONS: usize = 64;
    const ROUNDS: usize = 4;
    let (Some(even), Some(odd)) =
        (artifacts::read("even", Form::Component), artifacts::read("odd", Form::Component))
    else {
        return;
    };
    let weir = Home::new().start();
    let path = format!("/weir/v1/extensions/{CLASS}");
    let start = Barrier::new(CONNECTIONS);
    let change = |at: usize| {
        start.wait();
        let mut statuses = BTreeSet::new();
        for round in 0..ROUNDS {
            let (method, path, body) = match (at + round) % 3 {
                0 => ("PUT", path.clone(), &even[..]),
                1 => ("PUT", path.clone(), &odd[..]),
                _ => ("DELETE", format!("{path}?force=true"), &[][..]),
            };
            let answer = weir.call(method, &path, body);
            match (method, answer.status) {
                ("PUT", 200 | 201) | ("DELETE", 204 | 404) => {}
                _ => panic!("{method}: {answer}"),
            }
            statuses.insert((method, answer.status));
        }
        statuses
    };
    let statuses: BTreeSet<(&str, u16)> = std::thread::scope(|scope| {
        let change = &change;
        let connections: Vec<_> = (0..CONNECTIONS).map(|at| scope.spawn(move || change(at))).collect();
        connections.into_iter().flat_map(|connection| connection.join().unwrap()).collect()
    });
    for seen in [("PUT", 200), ("PUT", 201), ("DELETE", 204)] {
        assert!(statuses.contains(&seen), "there was no {seen:?} in {statuses:?}");
    }

    // Whoever was last: there is one, the listing names it, it is what judges, and a restart keeps it.
    let winner = weir.in_force(CLASS);
    let all = weir.get("/weir/v1/extensions");
    let ours = all.as_array().unwrap().iter().filter(|one| one["class"] == CLASS).count();
    assert_eq!(ours, usize::from(winner.is_some()), "{all}");
    let (home, _) = weir.stop();
    let weir = home.start();
    assert_eq!(weir.in_force(CLASS), winner, "as before the restart");
    let winner = winner.unwrap_or_else(|| {
        let _ = weir.register(CLASS, &odd).ok();
        artifacts::crc32(&odd)
    });
    let expected = if winner == artifacts::crc32(&even) { "0" } else { "1" };
    assert_eq!(which_passes(&weir, "race"), expected, "{winner} is listed");

    // And the loser can be had at once.
    let other = if expected == "0" { &odd } else { &even };
    let _ = weir.register(CLASS, other).ok();
    assert_eq!(weir.in_force(CLASS), Some(artifacts::crc32(other)));
    assert_ne!(which_passes(&weir, "after"), expected);
}

#[test]
fn one_artifact_on_a_thousand_topics_is_compiled_once_and_held_once_a_thread() {
    const TOPICS: u64 = 1000;
    const THREADS: u64 = 2;
    let Some(odd) = artifacts::read("odd", Form::Component) else { return };
    let weir = Home::new().set(&format!("limits.judging-threads={THREADS}")).start();
    let registered = weir.register(CLASS, &odd).ok().json();
    // One each, so that receipts and messages do not come between each other.
    let mut producer = Connection::open(weir.pulsar);
    let mut connection = Connection::open(weir.pulsar);
    for id in 0..TOPICS {
        let topic = format!("persistent://public/default/one-of-{id}");
        weir.bind(&topic, "s", CLASS, &json!({}), "withhold");
        assert_eq!(producer.producer(&topic, id, id).kind, kind::PRODUCER_SUCCESS);
        assert_eq!(connection.subscribe(&topic, "s", id, id).kind, kind::SUCCESS);
        connection.send(kind::FLOW, Fields::new().int(1, id).int(2, 10));
        let sent = producer.publish(id, 0, &entry("p", 0, &[("n", "1")], b"x"));
        assert_eq!(sent.kind, kind::SEND_RECEIPT, "{sent:?}");
        let _ = connection.read_kind(kind::MESSAGE);
    }
    let metrics = String::from_utf8(weir.call("GET", "/metrics", b"").ok().body).unwrap();
    let version = weir.extension(CLASS).unwrap()["version"].as_str().unwrap().to_owned();
    let alive = format!("weir_extension_instances{{class=\"{CLASS}\",version=\"{version}\"}}");
    assert!((1..=THREADS).contains(&weir.metric(&alive)), "{metrics}");
    // By Winch, and by Cranelift behind it.
    assert!((1..=2).contains(&weir.metric("weir_extension_compilations_total")), "{metrics}");
    let counts = weir.extension(CLASS).unwrap()["counts"].clone();
    assert_eq!(counts["accepted"], TOPICS, "{counts}");
    assert_eq!(weir.in_force(CLASS).as_deref(), registered["crc32"].as_str());
}
