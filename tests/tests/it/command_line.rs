//! The command line, as scripts use it: exit codes, JSON, and standard input that takes its time.

use std::process::Output;

use serde_json::{Value, json};
use weir_tests::artifacts::{self, Form};
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
fn usage_names_what_is_needed_and_nothing_else() {
    let weir = Home::new().start();
    // Where weir is, the environment says: a command needs no word about it.
    let output = run(&weir, &["topic", "create"], 2);
    let usage = text(&output.stderr);
    assert!(usage.contains("Usage: weir topic create <TOPIC>"), "{usage}");
}

#[test]
fn a_configuration_file_is_checked_for_all_that_serve_refuses() {
    let home = Home::new().config("[log]\nfilter = 'inof'\n[limits]\nconnections = 0\n");
    let file = home.folder().join("host.toml").display().to_string();
    let refused = home.try_start().err().expect("weir does not start");
    let weir = Home::new().start();
    let output = run(&weir, &["config", "check", &file], 1);
    let said = text(&output.stderr);
    for line in ["limits.connections is 0, expected at least 1", "log.filter is \"inof\", of which"] {
        assert!(said.lines().any(|said| said.contains(line)), "{line} is not in {said}");
        assert!(refused.log.contains(line), "{line} is not in {}", refused.log);
    }
}

#[test]
fn an_extension_and_its_configuration_come_together_or_not_at_all() {
    let Some(late) = artifacts::read("late-flights", Form::Component) else { return };
    let path = artifacts::path("late-flights", Form::Component).display().to_string();
    let weir = Home::new().start();
    let class = "demo.LateFlights";
    let minutes = |weir: &Weir| weir.get(&format!("/weir/v1/extensions/{class}/config"))["minutes"].clone();
    let register = |file: &str, config: &str, code| {
        run(&weir, &["extension", "register", file, "--config", config], code)
    };
    let output = register(&path, r#"{"minutes": "many"}"#, 1);
    assert!(text(&output.stderr).contains("at /minutes: "), "{output:?}");
    assert_eq!(weir.in_force(class), None, "it was looked at before anything was registered");

    register(&path, r#"{"minutes": 30}"#, 0);
    assert_eq!((weir.in_force(class), minutes(&weir)), (Some(artifacts::crc32(&late)), json!(30)));

    // Another artifact of the class: a custom section at its end.
    let other = weir.home().folder().join("other.wasm");
    std::fs::write(&other, [&late[..], &[0, 2, 1, b'x']].concat()).unwrap();
    let other = other.display().to_string();
    let file = weir.home().folder().join("config.json");
    std::fs::write(&file, r#"{"minutes": 40, "hours": 1}"#).unwrap();
    let file = file.display().to_string();
    register(&other, &file, 1);
    assert_eq!((weir.in_force(class), minutes(&weir)), (Some(artifacts::crc32(&late)), json!(30)));
    std::fs::write(&file, r#"{"minutes": 40}"#).unwrap();
    register(&other, &file, 0);
    assert_ne!(weir.in_force(class), Some(artifacts::crc32(&late)));
    assert_eq!(minutes(&weir), json!(40));

    run(&weir, &["extension", "configure", class, r#"{"minutes": 50}"#], 0);
    let refused = run(&weir, &["extension", "configure", class, r#"{"minutes": -1.5}"#], 1);
    assert_eq!(text(&refused.stderr).matches("/minutes").count(), 1, "{refused:?}");
    assert_eq!(minutes(&weir), json!(50));
    let shown = text(&run(&weir, &["extension", "show", class], 0).stdout);
    let refusal = shown.lines().find(|line| line.starts_with("last refusal")).expect("it is shown");
    assert!(refusal.contains("T") && refusal.contains("Z: ") && refusal.contains("at /minutes"), "{refusal}");
}

/// What a user reads says each thing once.
#[test]
fn errors_tell_their_cause_once() {
    let weir = Home::new().start();
    let folder = weir.home().folder();
    let html = folder.join("page.wasm");
    std::fs::write(&html, "<html>").unwrap();
    let html = html.display().to_string();
    for arguments in [
        &["config", "check", "/no/such/file.toml"][..],
        &["extension", "register", "/no/such/file.wasm"],
        &["extension", "inspect", "/no/such/file.wasm"],
        &["extension", "inspect", &html],
        &["extension", "register", &html],
        &["extension", "register", &html, "--class", "demo.Page"],
        &["extension", "configure", "demo.None", "{}"],
        &["extension", "configure", "demo.None", "/no/such/file.json"],
        &["produce", "orders", "--file", "/no/such/file.txt"],
        &["topic", "stats", "nowhere"],
        &["topic", "list", "public/default", "--url", "http://127.0.0.1:1"],
        &["topic", "list", "public/default", "--url", "nonsense"],
        &["consume", "orders", "-s", "s", "--service-url", "pulsar://127.0.0.1:1"],
        &["filter", "bind", "--pattern", "public/default/(", "demo.A"],
    ] {
        let said = text(&run(&weir, arguments, 1).stderr);
        let parts: Vec<&str> =
            said.trim_start_matches("weir: ").lines().flat_map(|l| l.split(": ")).collect();
        for (i, part) in parts.iter().enumerate().filter(|(_, part)| part.len() > 3) {
            assert!(!parts[..i].iter().any(|before| before.contains(part)), "{part:?} is told twice: {said}");
        }
    }
}

#[test]
fn what_was_sent_before_a_bad_line_is_counted() {
    let weir = Home::new().start();
    let mut typing = weir.start_command(&["produce", TOPIC, "--json"]);
    for line in [r#"{"payload": "a"}"#, r#"{"payload": "b"}"#, "nonsense"] {
        typing.type_line(line);
    }
    let output = typing.end();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).starts_with("weir: 2 messages were sent, then: line 3: "), "{output:?}");
    assert_eq!(weir.stats("public/default/lines")["msgInCounter"], 2);
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
