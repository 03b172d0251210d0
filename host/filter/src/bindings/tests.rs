use serde_json::json;
use weir_extension::{Broke, Builtin, MessageFilter, Messages, Verdict};

use super::*;
use crate::binding::{FilterRef, MAX_PATTERN_BYTES, OnFailure};

struct AcceptAll;

impl MessageFilter for AcceptAll {
    fn judge(&mut self, _: &Messages<'_>, rows: &[u32], verdicts: &mut Vec<Verdict>) -> Result<(), Broke> {
        verdicts.extend(rows.iter().map(|_| Verdict::Accept));
        Ok(())
    }
}

fn class(name: &str) -> ClassName {
    ClassName::new(name).unwrap()
}

fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

fn table() -> Bindings {
    let builtin = Builtin::filter(class("test.A"), vec![], |_| Ok(Box::new(AcceptAll))).with_schema(json!({
        "type": "object", "properties": { "minutes": { "type": "integer" } }, "additionalProperties": false
    }));
    Bindings::new(Extensions::with_builtins(vec![builtin]))
}

/// A binding of one filter, `name`d so that it can be told from others.
fn binding(target: Target, subscription: Option<&str>, name: &str) -> Binding {
    Binding {
        target,
        subscription: subscription.map(str::to_owned),
        filters: vec![FilterRef { class: class(name), config: None }],
        on_failure: OnFailure::Withhold,
        origin: Origin::Rest,
    }
}

fn exact(name: &str) -> Target {
    Target::Topic(topic(name))
}

fn pattern(text: &str) -> Target {
    Target::Pattern(text.to_owned())
}

#[track_caller]
fn check(table: &Bindings, name: &str, subscription: &str, expected: Option<&str>) {
    let chain = table.chain(&topic(name), subscription);
    let found = chain.as_ref().map(|chain| chain.binding().filters[0].class.as_str());
    assert_eq!(found, expected, "{name} {subscription}");
}

#[test]
fn the_nearest_binding_wins() {
    let table = table();
    for (target, subscription, name) in [
        (exact("a/b/orders"), Some("late"), "exact-late"),
        (exact("a/b/orders"), None, "exact-all"),
        (pattern("a/b/.*"), Some("late"), "pattern-late"),
        (pattern("a/b/.*"), None, "pattern-all"),
    ] {
        table.put(binding(target, subscription, name), []).unwrap();
    }
    check(&table, "a/b/orders", "late", Some("exact-late"));
    check(&table, "a/b/orders", "x", Some("exact-all"));
    check(&table, "a/b/other", "late", Some("pattern-late"));
    check(&table, "a/b/other", "x", Some("pattern-all"));
    check(&table, "a/c/other", "x", None);
    assert!(table.remove(&exact("a/b/orders"), Some("late")).unwrap());
    check(&table, "a/b/orders", "late", Some("exact-all"));
    assert!(table.remove(&exact("a/b/orders"), None).unwrap());
    check(&table, "a/b/orders", "late", Some("pattern-late"));
}

#[test]
fn partitions_are_covered_by_their_base() {
    let table = table();
    table.put(binding(exact("p"), None, "exact"), []).unwrap();
    table.put(binding(pattern("public/default/q"), None, "pattern"), []).unwrap();
    check(&table, "p-partition-3", "s", Some("exact"));
    check(&table, "q-partition-3", "s", Some("pattern"));
    check(&table, "pp", "s", None);
    check(&table, "non-persistent://public/default/p", "s", None);
    let error = table.put(binding(exact("p-partition-3"), None, "x"), []).unwrap_err();
    assert!(matches!(error, BindingError::OnePartition { .. }), "{error}");
}

#[test]
fn a_pattern_matches_the_whole_name_and_may_keep_to_a_domain() {
    let table = table();
    table.put(binding(pattern("a/b/x|a/b/y"), None, "both"), []).unwrap();
    table.put(binding(pattern("^non-persistent://c/d/.*$"), None, "volatile"), []).unwrap();
    check(&table, "a/b/x", "s", Some("both"));
    check(&table, "non-persistent://a/b/y", "s", Some("both"));
    check(&table, "a/b/xy", "s", None);
    check(&table, "c/d/x", "s", None);
    check(&table, "non-persistent://c/d/x", "s", Some("volatile"));
}

#[test]
fn two_patterns_over_one_known_topic_are_refused() {
    let table = table();
    table.put(binding(pattern("a/b/x.*"), None, "one"), []).unwrap();
    let known = || ["a/b/other", "a/b/xy-partition-0"].map(topic);
    let error = table.put(binding(pattern("a/b/.*y"), None, "two"), known()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "patterns \"a/b/.*y\" and \"a/b/x.*\" both match persistent://a/b/xy; bind that topic by its name, \
         or change one"
    );
    assert_eq!(table.list().len(), 1);
    // For one subscription it is a nearer binding, not a second one; and it may be replaced.
    table.put(binding(pattern("a/b/.*y"), Some("late"), "two"), known()).unwrap();
    table.put(binding(pattern("a/b/x.*"), None, "one-again"), known()).unwrap();
    check(&table, "a/b/xy", "late", Some("two"));
    check(&table, "a/b/xy", "s", Some("one-again"));
}

#[test]
fn the_same_expression_is_refused_without_any_topic() {
    let table = table();
    table.put(binding(pattern("a/b/.*"), None, "one"), []).unwrap();
    let error = table.put(binding(pattern("persistent://a/b/.*"), None, "two"), []).unwrap_err();
    assert!(matches!(error, BindingError::Conflict { .. }), "{error}");
    let table = self::table();
    table.put(binding(pattern("persistent://a/b/.*"), None, "one"), []).unwrap();
    table.put(binding(pattern("non-persistent://a/b/.*"), None, "two"), []).unwrap();
}

#[test]
fn a_topic_that_two_patterns_come_to_match_is_paused() {
    let table = table();
    table.put(binding(pattern("a/b/x.*"), None, "test.A"), []).unwrap();
    table.put(binding(pattern("a/b/.*y"), None, "test.A"), []).unwrap();
    let pinned = table.chain(&topic("a/b/xy"), "s").unwrap().pin();
    let reason = pinned.paused().unwrap().reason.to_string();
    assert!(reason.contains("\"a/b/x.*\"") && reason.contains("\"a/b/.*y\""), "{reason}");
    assert!(table.chain(&topic("a/b/xz"), "s").unwrap().pin().paused().is_none());
    table.put(binding(exact("a/b/xy"), None, "test.A"), []).unwrap();
    assert!(table.chain(&topic("a/b/xy"), "s").unwrap().pin().paused().is_none());
}

#[test]
fn the_file_s_bindings_change_only_there() {
    let table = table();
    let of_file = Binding { origin: Origin::File, ..binding(exact("t"), None, "file") };
    let of_rest = binding(exact("t"), None, "rest");
    table.put(of_rest.clone(), []).unwrap();
    table.put(of_file, []).unwrap();
    let (put, restored) = (table.put(of_rest.clone(), []).unwrap_err(), table.restore(of_rest).unwrap_err());
    assert_eq!(put, restored);
    assert!(put.to_string().contains("under `bindings` in the configuration file"), "{put}");
    assert!(matches!(table.remove(&exact("t"), None), Err(BindingError::FixedByFile { .. })));
    check(&table, "t", "s", Some("file"));
}

#[test]
fn shapes_are_checked() {
    #[track_caller]
    fn refused(binding: Binding, because: &str) {
        let table = table();
        let error = table.put(binding.clone(), []).unwrap_err().to_string();
        assert!(error.contains(because), "{error}");
        assert_eq!(table.restore(binding).unwrap_err().to_string(), error);
        assert_eq!((table.list(), table.generation()), (vec![], 0));
    }
    let good = binding(exact("t"), None, "x");
    let one = &good.filters[0];
    refused(Binding { filters: vec![], ..good.clone() }, "at least one filter");
    refused(Binding { filters: vec![one.clone(); MAX_FILTERS + 1], ..good.clone() }, "names 33");
    refused(binding(exact("t"), Some(""), "x"), "this one has 0");
    refused(binding(pattern(""), None, "x"), "it has 0 bytes");
    refused(binding(pattern(&"x".repeat(MAX_PATTERN_BYTES + 1)), None, "x"), "it has 1025 bytes");
    refused(binding(pattern("a)|(b"), None, "x"), "unopened group");
    refused(binding(pattern("(?=a)"), None, "x"), "look-around");
    refused(binding(pattern("(a{1000}){1000}"), None, "x"), "size limit");
    refused(binding(pattern("http://a/b/c"), None, "x"), "its domain is \"http\"");
}

#[test]
fn a_configuration_is_checked_when_its_filter_is_there() {
    let table = table();
    let with = |name: &str| {
        let mut binding = binding(exact("t"), None, name);
        binding.filters[0].config = Some(json!({ "minutes": "five" }));
        binding
    };
    let error = table.put(with("test.A"), []).unwrap_err();
    assert!(matches!(error, BindingError::Filter(_)) && error.to_string().contains("minutes"), "{error}");
    assert_eq!(table.list(), []);
    // Not registered yet: taken, and paused.
    table.put(with("test.Later"), []).unwrap();
    assert!(table.chain(&topic("t"), "s").unwrap().pin().paused().is_some());
    // Taken before: kept, and paused, where forgetting it would let every message through.
    table.restore(with("test.A")).unwrap();
    let pinned = table.chain(&topic("t"), "s").unwrap().pin();
    assert!(pinned.paused().unwrap().to_string().contains("minutes"));
}

#[test]
fn the_generation_and_the_uses_follow_changes() {
    let table = table();
    assert!(!table.uses(&class("test.A")));
    table.put(binding(exact("t"), None, "test.A"), []).unwrap();
    assert!(table.uses(&class("test.A")) && !table.uses(&class("test.B")));
    assert_eq!(table.generation(), 1);
    assert!(!table.remove(&exact("t"), Some("s")).unwrap());
    assert_eq!(table.generation(), 1);
    assert!(table.remove(&exact("t"), None).unwrap());
    assert_eq!((table.generation(), table.uses(&class("test.A"))), (2, false));
}

#[test]
fn bindings_are_written_as_people_write_them() {
    let text = json!({
        "pattern": "public/default/.*",
        "filters": ["demo.A", { "class": "demo.B", "config": { "minutes": 5 } }],
        "on-failure": "discard",
        "origin": "file",
    });
    let read: Binding = serde_json::from_value(text).unwrap();
    let config = Some(json!({ "minutes": 5 }));
    let filters = vec![
        FilterRef { class: class("demo.A"), config: None },
        FilterRef { class: class("demo.B"), config },
    ];
    let target = pattern("public/default/.*");
    let expected =
        Binding { target, subscription: None, filters, on_failure: OnFailure::Discard, origin: Origin::File };
    assert_eq!(read, expected);
    let written = serde_json::to_value(&read).unwrap();
    assert_eq!(serde_json::from_value::<Binding>(written).unwrap(), expected);
    for bad in [json!({ "class": "a", "clas": 1 }), json!({}), json!(1), json!("a b")] {
        assert!(serde_json::from_value::<FilterRef>(bad.clone()).is_err(), "{bad}");
    }
}
