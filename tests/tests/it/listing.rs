//! Listing a namespace with client properties, by REST and by the binary command: the same answer.

use serde_json::{Value, json};
use weir_tests::artifacts::{self, Form};
use weir_tests::pulsar::{Connection, Fields, Received, kind};
use weir_tests::weir::{Home, Weir};

/// Topics with their properties, as the tests of the proposal have them.
const TOPICS: [(&str, &str, &str); 4] = [
    ("orders-eu", "prod", "eu"),
    ("orders-us", "prod", "us"),
    ("orders-test", "test", "us"),
    ("payments", "prod", "us"),
];

fn name(topic: &str) -> String {
    format!("persistent://public/default/{topic}")
}

fn create_all(weir: &Weir) {
    for (topic, env, region) in TOPICS {
        let properties = json!({ "env": env, "region": region });
        let path = format!("/admin/v2/persistent/public/default/{topic}");
        let _ = weir.put(&path, &properties).ok();
    }
}

/// GET_TOPICS_OF_NAMESPACE as a client sends it.
fn ask(weir: &Weir, pattern: Option<&str>, hash: Option<&str>, properties: &[(&str, &str)]) -> Received {
    let mut body = Fields::new().int(1, 7).bytes(2, "public/default").int(3, 0);
    if let Some(pattern) = pattern {
        body = body.bytes(4, pattern);
    }
    if let Some(hash) = hash {
        body = body.bytes(5, hash);
    }
    for (key, value) in properties {
        body = body.bytes(6, Fields::new().bytes(1, key).bytes(2, value).done());
    }
    let mut connection = Connection::open(weir.pulsar);
    connection.send(kind::GET_TOPICS_OF_NAMESPACE, body);
    connection.read()
}

#[track_caller]
fn check(weir: &Weir, properties: &[(&str, &str)], expected: &[&str]) {
    let mut expected: Vec<String> = expected.iter().map(|topic| name(topic)).collect();
    expected.sort();
    let answer = ask(weir, None, None, properties);
    assert_eq!(answer.kind, kind::GET_TOPICS_OF_NAMESPACE_RESPONSE, "{answer:?}");
    let mut listed = answer.body.texts(2);
    listed.sort();
    assert_eq!(listed, expected, "by the binary command, {properties:?}");
    let query: Vec<String> = properties.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let path = format!("/admin/v2/persistent/public/default?properties={}", query.join(","));
    let listed = weir.get(&path);
    let mut listed: Vec<String> =
        listed.as_array().unwrap().iter().map(|topic| topic.as_str().unwrap().to_owned()).collect();
    listed.sort();
    assert_eq!(listed, expected, "by REST, {properties:?}");
}

#[test]
fn properties_narrow_what_a_client_sees() {
    let weir = Home::new().start();
    create_all(&weir);
    check(&weir, &[], &["orders-eu", "orders-us", "orders-test", "payments"]);
    check(&weir, &[("env", "prod")], &["orders-eu", "orders-us", "payments"]);
    check(&weir, &[("env", "prod"), ("region", "us")], &["orders-us", "payments"]);
    check(&weir, &[("env", "staging")], &[]);
    check(&weir, &[("nobody-has-this", "x")], &[]);
}

#[test]
fn a_pattern_is_applied_after_the_lister() {
    let weir = Home::new().start();
    create_all(&weir);
    let answer = ask(&weir, Some("persistent://public/default/orders-.*"), None, &[("region", "us")]);
    let mut listed = answer.body.texts(2);
    listed.sort();
    assert_eq!(listed, [name("orders-test"), name("orders-us")]);
    assert_eq!(answer.body.int(3), Some(1), "the answer says that the pattern was applied");
}

#[test]
fn an_unchanged_listing_is_said_by_its_hash() {
    let weir = Home::new().start();
    create_all(&weir);
    let properties = [("env", "prod")];
    let first = ask(&weir, None, None, &properties);
    let hash = first.body.text(4);
    assert_eq!(hash.len(), 8, "{first:?}");
    let again = ask(&weir, None, Some(&hash), &properties);
    assert_eq!((again.body.texts(2), again.body.int(5)), (Vec::new(), Some(0)), "{again:?}");
    let path = "/admin/v2/persistent/public/default/orders-new";
    let _ = weir.put(path, &json!({ "env": "prod" })).ok();
    let changed = ask(&weir, None, Some(&hash), &properties);
    assert!(changed.body.texts(2).contains(&name("orders-new")), "{changed:?}");
    assert_ne!(changed.body.text(4), hash);
}

#[test]
fn properties_that_change_are_seen_by_the_next_listing() {
    let weir = Home::new().start();
    create_all(&weir);
    let path = "/admin/v2/persistent/public/default/payments/properties";
    let _ = weir.put(path, &json!({ "env": "test" })).ok();
    check(&weir, &[("env", "test")], &["orders-test", "payments"]);
    let weir = weir.kill().start();
    check(&weir, &[("env", "test")], &["orders-test", "payments"]);
}

#[test]
fn the_command_line_lists_the_same() {
    let weir = Home::new().start();
    create_all(&weir);
    let output =
        weir.command(&["topic", "list", "public/default", "-p", "env=prod", "-p", "region=eu", "-o", "json"]);
    assert!(output.status.success(), "{output:?}");
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = listed.to_string();
    assert!(text.contains("orders-eu") && !text.contains("orders-us"), "{text}");
}

#[test]
fn a_lister_that_cannot_be_loaded_refuses_the_start_with_its_name() {
    let refused = Home::new().set("listing.class=demo.NoSuchLister").try_start().err().expect("is refused");
    assert!(!refused.status.success());
    assert!(refused.log.contains("demo.NoSuchLister"), "{}", refused.log);
}

/// The same answer by REST and by the binary command, from an extension instead of the built-in lister.
fn check_lister_of_ones_own(form: Form) {
    let Some(lister) = artifacts::read("tenant-lister", form) else { return };
    let home = Home::new().config(
        "[listing]\nclass = \"demo.TenantLister\"\nconfig = { rules = [{ property = \"team\", topic_property = \"region\" }] }\n",
    );
    home.drop_file(&format!("tenant-lister.{}", form.ending()), &lister);
    let weir = home.start();
    create_all(&weir);
    check(&weir, &[("team", "us")], &["orders-us", "orders-test", "payments"]);
    check(&weir, &[("team", "eu")], &["orders-eu"]);
    check(&weir, &[], &[]);
}

#[test]
fn a_component_may_be_the_lister() {
    check_lister_of_ones_own(Form::Component);
}

#[test]
fn a_library_may_be_the_lister() {
    check_lister_of_ones_own(Form::Native);
}
