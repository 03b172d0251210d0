//! The command line, as scripts use it: exit codes, JSON, and standard input that takes its time.

use std::process::Output;

use serde_json::{Value, json};
use weir_tests::pulsar::{Connection, Fields, kind};
use weir_tests::weir::{Home, Weir};

const TOPIC: &str = "persistent://public/default/lines";

#[track_caller]
fn run(weir: &Weir, arguments: &[&str], code: i32) -> Output {
    let output = weir.command(arguments);
    assert_eq!(output.status.code(), Some(code), "weir {arguments:?}: {output:?}");
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn exit_codes_tell_refused_from_wrong() {
    let weir = Home::new().start();
    run(&weir, &["topic", "create", "orders"], 0);
    run(&weir, &["topic", "list", "public/default"], 0);

    for refused in [
        &["topic", "create", "orders"][..],
        &["topic", "stats", "nowhere"],
        &["extension", "show", "demo.Nothing"],
        &["extension", "register", "/no/such/file.wasm"],
        &["filter", "unbind", "--topic", "orders", "--subscription", "s"],
        &["consume", "--pattern", "public/default/none.*", "-s", "s", "-n", "1"],
        &["config", "check", "/no/such/file.toml"],
        &["topic", "list", "public/default", "--url", "http://127.0.0.1:1"],
    ] {
        let output = run(&weir, refused, 1);
        assert!(output.stdout.is_empty(), "an error is not printed as a result: {output:?}");
        assert!(text(&output.stderr).starts_with("weir: "), "it says why: {output:?}");
    }

    for wrong in [
        &["nonsense"][..],
        &["topic"],
        &["topic", "create"],
        &["topic", "list", "public/default", "-o", "yaml"],
        &["consume", "orders"],
        &["produce", "orders", "-p", "no-value"],
    ] {
        let output = run(&weir, wrong, 2);
        assert!(!output.stderr.is_empty(), "it says what is wrong: {output:?}");
    }
}

#[test]
fn programs_are_answered_in_json() {
    let weir = Home::new().start();
    run(&weir, &["topic", "create", "orders", "-p", "env=prod"], 0);
    let json_of = |arguments: &[&str]| -> Value {
        let output = run(&weir, &[arguments, &["-o", "json"]].concat(), 0);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    };
    assert_eq!(json_of(&["topic", "list", "public/default"]), json!(["persistent://public/default/orders"]));
    assert!(json_of(&["topic", "stats", "orders"]).is_object());
    assert_eq!(json_of(&["filter", "list"]), json!([]));
    assert!(json_of(&["extension", "list"]).is_array() || json_of(&["extension", "list"]).is_object());
    assert_eq!(json_of(&["config", "print"])["listing"]["class"], "weir.PropertyEquality");
}

#[test]
fn a_line_is_sent_when_it_is_typed() {
    let weir = Home::new().start();
    let mut typing = weir.start_command(&["produce", TOPIC]);
    let mut connection = Connection::open(weir.pulsar);
    assert_eq!(connection.subscribe(TOPIC, "s", 1, 1).kind, kind::SUCCESS);
    connection.send(kind::FLOW, Fields::new().int(1, 1).int(2, 10));
    for line in ["one", "two"] {
        typing.type_line(line);
        // The input is open all the while.
        let message = connection.read_kind(kind::MESSAGE);
        assert!(message.entry.ends_with(line.as_bytes()), "{line}: {:02x?}", message.entry);
    }
    let output = typing.end();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).contains("2 messages sent"), "{output:?}");
}
