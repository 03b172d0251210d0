//! Whose code runs: Winch's at once, Cranelift's behind it, and no message the worse for the change.

use serde_json::json;
use weir_tests::artifacts::{self, Form};
use weir_tests::pulsar::{Connection, Fields, entry, frame_with, kind};
use weir_tests::wait;
use weir_tests::weir::Home;

const CLASS: &str = "demo.Misbehaving";
const TOPIC: &str = "persistent://public/default/code";

#[test]
fn better_code_comes_in_under_traffic_and_is_found_after_a_restart() {
    let Some(filter) = artifacts::read("misbehaving", Form::Component) else { return };
    let weir = Home::new().start();
    let _ = weir.register(CLASS, &filter).ok();
    let code = |weir: &weir_tests::weir::Weir| weir.extension(CLASS).unwrap()["code"].clone();
    weir.bind(TOPIC, "s", CLASS, &json!({}), "withhold");
    let mut connection = Connection::open(weir.pulsar);
    assert_eq!(connection.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
    assert_eq!(connection.subscribe(TOPIC, "s", 2, 2).kind, kind::SUCCESS);
    connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, 1_000_000));

    // Every other one passes. One at a time, so that batches are judged all along; some after the change.
    let mut seen = vec![code(&weir)];
    let (mut sent, mut after) = (0_u64, 0);
    let mut send = |connection: &mut Connection| {
        for what in ["reject", "accept"] {
            let body = entry("p", sent, &[("do", what)], format!("#{sent}").as_bytes());
            connection.write(&frame_with(kind::SEND, Fields::new().int(1, 1).int(2, sent), &body));
            sent += 1;
        }
        let message = connection.read_kind(kind::MESSAGE);
        let text = String::from_utf8_lossy(&message.entry).into_owned();
        assert_eq!(text.rsplit('#').next().unwrap(), (sent - 1).to_string(), "none lost, none twice");
    };
    wait::until("Cranelift's code", || {
        send(&mut connection);
        let now = code(&weir);
        if seen.last() != Some(&now) {
            seen.push(now.clone());
        }
        after += u32::from(now == "cranelift");
        if after > 20 { Ok(()) } else { Err(now) }
    });
    assert_eq!(seen, ["winch", "cranelift"]);
    let broken = &weir.extension(CLASS).unwrap()["counts"]["broken-calls"];
    assert_eq!(broken, &json!({}), "no batch was broken");

    let (home, _) = weir.stop();
    let weir = home.start();
    assert_eq!(code(&weir), "cranelift");
    let metrics = String::from_utf8(weir.call("GET", "/metrics", b"").ok().body).unwrap();
    let line = |line: &str| metrics.lines().any(|found| found == line);
    assert!(line("weir_extension_compilations_total 0"), "{metrics}");
    assert!(line("weir_extension_found_compiled_total 1"), "{metrics}");
    assert!(line("weir_extension_native_libraries 0"), "{metrics}");
}
