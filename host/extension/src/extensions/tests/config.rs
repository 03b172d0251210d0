//! Configuration by class name, and by binding.

use serde_json::{Value, json};

use super::super::fixture::{Bench, artifact, class, component, configurable};
use super::super::{ClassOptions, ConfigError, Kind, MAX_CONFIG_BYTES, RegisterError};

fn minutes(n: i64) -> Value {
    json!({ "minutes": n })
}

/// A bench with `demo.F` version 1, which needs minutes, and has 5 of them.
fn configured() -> Bench {
    let bench = Bench::new();
    bench.upload("demo.F", &configurable("demo.F", "1")).unwrap();
    bench.extensions.set_config(&class("demo.F"), minutes(5)).unwrap();
    bench
}

/// A bench whose configuration file configures `demo.F`.
fn by_file(config: Value) -> Bench {
    Bench::with(|options| {
        let listed = ClassOptions { limits: options.limits, config: Some(config) };
        options.classes.insert(class("demo.F"), listed);
    })
}

#[track_caller]
fn refused(bench: &Bench, config: Value, at: &str, because: &str) {
    let id = || bench.extensions.configured(&class("demo.F"), Kind::Filter, None).unwrap().id();
    let before = id();
    match bench.extensions.set_config(&class("demo.F"), config).unwrap_err() {
        ConfigError::Refused { path, reason, .. } => {
            assert_eq!(path, at);
            assert!(reason.contains(because), "{reason}");
        }
        other => panic!("{other}"),
    }
    assert_eq!(before, id(), "the old one stays");
    assert_eq!(bench.extensions.config(&class("demo.F")).unwrap().config, minutes(5));
}

#[test]
fn a_configuration_is_refused_with_path_and_reason() {
    let bench = configured();
    refused(&bench, minutes(-1), "/minutes", "-1 is less than the minimum of 0");
    refused(&bench, json!({ "minutes": "x" }), "/minutes", "\"x\" is not of type \"integer\"");
    refused(&bench, json!({}), "", "\"minutes\" is a required property");
    refused(&bench, json!({ "minutes": 1, "hours": 2 }), "", "hours");
    refused(&bench, json!({ "minutes": "x".repeat(MAX_CONFIG_BYTES) }), "", "at most 262144 are taken");
}

#[test]
fn a_changed_configuration_is_a_swap() {
    let bench = configured();
    let generation = bench.extensions.generation();
    let before = bench.extensions.configured(&class("demo.F"), Kind::Filter, None).unwrap();
    bench.extensions.set_config(&class("demo.F"), minutes(6)).unwrap();
    let after = bench.extensions.configured(&class("demo.F"), Kind::Filter, None).unwrap();
    assert_ne!(before.id(), after.id());
    assert!(bench.extensions.generation() > generation);
}

#[test]
fn without_a_configuration_that_it_needs_a_class_is_in_force_for_those_that_bring_one() {
    let bench = Bench::new();
    bench.upload("demo.F", &configurable("demo.F", "1")).unwrap();
    let state = bench.extensions.info(&class("demo.F")).unwrap().state;
    assert_eq!(state, "waits for a configuration: \"minutes\" is a required property");
    let look_up =
        |config: Option<&Value>| bench.extensions.configured(&class("demo.F"), Kind::Filter, config);
    assert_eq!(look_up(None).err().unwrap().to_string(), format!("demo.F cannot be used: it {state}"));
    let one = look_up(Some(&minutes(1))).unwrap();
    assert_eq!(one.id(), look_up(Some(&minutes(1))).unwrap().id(), "one instance a configuration");
    assert_ne!(one.id(), look_up(Some(&minutes(2))).unwrap().id());
    let error = look_up(Some(&minutes(-1))).err().unwrap();
    assert!(error.to_string().contains("at /minutes: -1 is less"), "{error}");
}

#[test]
fn what_nobody_uses_any_more_is_forgotten() {
    let bench = configured();
    let look_up = |n| bench.extensions.configured(&class("demo.F"), Kind::Filter, Some(&minutes(n))).unwrap();
    let held = look_up(1);
    let dropped = look_up(2).id();
    for n in 100..1000 {
        look_up(n);
    }
    assert_eq!(look_up(1).id(), held.id());
    assert_ne!(look_up(2).id(), dropped);
}

#[test]
fn a_new_version_that_refuses_a_configuration_does_not_replace_the_old() {
    let bench = configured();
    let picky = artifact("\0asm", &json!({ "class": "demo.F", "version": "2", "configure": "error" }));
    let error = bench.upload("demo.F", &picky).unwrap_err();
    assert_eq!(error.to_string(), "demo.F does not take its configuration: minutes are not for me");
    assert!(matches!(error, RegisterError::ConfigRefused { .. }));
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
}

/// The configuration of a binding counts as much as that of the class, as long as it is in use.
#[test]
fn nor_one_that_refuses_the_configuration_of_a_binding() {
    let bench = Bench::new();
    bench.upload("demo.F", &component("demo.F", "1")).unwrap();
    let free = json!({ "hours": 1 });
    let used = bench.extensions.configured(&class("demo.F"), Kind::Filter, Some(&free)).unwrap();
    let error = bench.upload("demo.F", &configurable("demo.F", "2")).unwrap_err();
    assert!(matches!(error, RegisterError::ConfigRefused { .. }), "{error}");
    drop(used);
    bench.upload("demo.F", &configurable("demo.F", "2")).unwrap();
}

/// What is in force: the version, and its configuration.
fn both(bench: &Bench) -> (Option<String>, Value) {
    let config = bench.extensions.config(&class("demo.F")).map_or(Value::Null, |set| set.config);
    (bench.in_force("demo.F"), config)
}

fn version_of(n: u32) -> Option<String> {
    Some(n.to_string())
}

#[test]
fn an_artifact_comes_with_its_configuration_or_not_at_all() {
    let mut bench = Bench::new();
    let error = bench.upload_with("demo.F", &configurable("demo.F", "1"), minutes(-1)).unwrap_err();
    assert!(matches!(&error, RegisterError::ConfigRefused { path, .. } if path == "/minutes"), "{error}");
    assert_eq!(both(&bench), (None, Value::Null));

    let registered = bench.upload_with("demo.F", &configurable("demo.F", "1"), minutes(5)).unwrap();
    assert!(registered.configured && !registered.unchanged);
    assert_eq!(both(&bench), (version_of(1), minutes(5)));

    let before = bench.artifacts();
    bench.upload_with("demo.F", &configurable("demo.F", "2"), json!({ "minutes": "x" })).unwrap_err();
    assert_eq!(both(&bench), (version_of(1), minutes(5)), "neither has changed");
    assert_eq!(bench.artifacts(), before);

    bench.upload_with("demo.F", &configurable("demo.F", "2"), minutes(6)).unwrap();
    assert_eq!(both(&bench), (version_of(2), minutes(6)));
    bench.restart();
    assert_eq!(both(&bench), (version_of(2), minutes(6)));

    // Later changes are not undone by what came with the artifact.
    bench.extensions.set_config(&class("demo.F"), minutes(7)).unwrap();
    bench.restart();
    assert_eq!(both(&bench), (version_of(2), minutes(7)));
}

#[test]
fn a_version_may_need_another_configuration_than_the_one_before_it() {
    let bench = configured();
    let schema = json!({ "type": "object", "required": ["hours"], "additionalProperties": false,
        "properties": { "hours": { "type": "integer" } } });
    let other = artifact("\0asm", &json!({ "class": "demo.F", "version": "2", "schema": schema }));
    let held = bench.extensions.configured(&class("demo.F"), Kind::Filter, None).unwrap();
    bench.upload("demo.F", &other).unwrap_err();
    bench.upload_with("demo.F", &other, json!({ "hours": 1 })).unwrap();
    assert_eq!(both(&bench), (version_of(2), json!({ "hours": 1 })));
    drop(held);
}

#[test]
fn bytes_in_force_take_the_configuration_that_comes_with_them() {
    let bench = configured();
    let same = configurable("demo.F", "1");
    let registered = bench.upload_with("demo.F", &same, minutes(6)).unwrap();
    assert!(registered.unchanged && registered.configured);
    assert_eq!(both(&bench), (version_of(1), minutes(6)));
    let error = bench.upload_with("demo.F", &same, minutes(-6)).unwrap_err();
    assert!(matches!(error, RegisterError::ConfigRefused { .. }), "{error}");
    assert_eq!(both(&bench), (version_of(1), minutes(6)));
    assert!(!bench.upload("demo.F", &same).unwrap().configured);
}

#[test]
fn a_crash_between_the_two_writes_is_made_good() {
    let mut bench = configured();
    let folder = bench.options.folder.join("registrations");
    let path = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read_to_string(&path).unwrap();
    // As it was written first: with the configuration, which has no file of its own yet.
    let first = whole.replacen('{', "{ \"config\": { \"minutes\": 9 },", 1);
    std::fs::write(&path, first).unwrap();
    bench.restart();
    assert_eq!(both(&bench), (version_of(1), minutes(9)));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
}

#[test]
fn what_the_file_sets_is_not_changed_here() {
    let bench = by_file(minutes(7));
    bench.upload("demo.F", &configurable("demo.F", "1")).unwrap();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    for result in [
        bench.extensions.set_config(&class("demo.F"), minutes(8)),
        bench.extensions.clear_config(&class("demo.F")),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, ConfigError::SetByFile { .. }));
        assert!(error.to_string().starts_with("extensions.\"demo.F\".config is set"), "{error}");
    }
    let error = bench.upload_with("demo.F", &configurable("demo.F", "2"), minutes(8)).unwrap_err();
    assert!(matches!(error, RegisterError::ConfigSetByFile { .. }), "{error}");
    assert_eq!(both(&bench), (version_of(1), minutes(7)));
    assert!(bench.extensions.config(&class("demo.F")).unwrap().set_by_file);
}

#[test]
fn a_bad_configuration_of_the_file_refuses_the_registration() {
    let bench = by_file(minutes(-7));
    let error = bench.upload("demo.F", &configurable("demo.F", "1")).unwrap_err();
    assert!(matches!(&error, RegisterError::ConfigRefused { path, .. } if path == "/minutes"), "{error}");
    assert_eq!(bench.in_force("demo.F"), None);
}

#[test]
fn the_file_wins_at_the_next_start_and_a_bad_one_is_told_there() {
    let mut bench = configured();
    let mut restart = |n| {
        bench.restart_with(|options| {
            let listed = ClassOptions { limits: options.limits, config: Some(minutes(n)) };
            options.classes.insert(class("demo.F"), listed);
        });
        let state = bench.extensions.info(&class("demo.F")).unwrap().state;
        (bench.extensions.config(&class("demo.F")).unwrap().config, state)
    };
    assert_eq!(restart(9), (minutes(9), "in-force".to_owned()));
    let (_, state) = restart(-9);
    assert!(state.starts_with("does not take its configuration: at /minutes: -9 is less"), "{state}");
}

#[test]
fn a_class_that_is_not_registered_has_no_configuration() {
    let bench = Bench::new();
    let error = bench.extensions.set_config(&class("demo.F"), minutes(1)).unwrap_err();
    assert!(matches!(error, ConfigError::Missing { .. }), "{error}");
}

/// `n` definitions, each made of the next as `of` says.
fn definitions(n: usize, of: impl Fn(Value) -> Value) -> Value {
    let next = |i: usize| json!({ "$ref": format!("#/$defs/d{i}") });
    let definition = |i| (format!("d{i}"), if i + 1 < n { of(next(i + 1)) } else { json!({}) });
    json!({ "$ref": "#/$defs/d0", "$defs": (0..n).map(definition).collect::<serde_json::Map<_, _>>() })
}

/// A schema from a stranger must neither end the process nor hold a thread for ever.
#[test]
fn a_schema_that_would_never_end_is_refused() {
    let twice = |next: Value| json!({ "allOf": [next, next] });
    let cases = [
        (json!({ "$ref": "#" }), "refers to itself"),
        (json!({ "allOf": [{ "$ref": "#/allOf/0" }] }), "refers to itself"),
        (json!({ "properties": { "x": { "$ref": "#" } } }), "refers to itself"),
        (definitions(24, twice), "larger than 100000 values"),
        (definitions(3000, |next| json!({ "not": next })), "nests deeper than 100"),
        (json!({ "$defs": { "a": { "$dynamicRef": "#/a" } } }), "$dynamicRef is not taken"),
        (json!({ "$defs": { "a": { "$id": "urn:a" } } }), "$id is taken for the whole only"),
        (json!({ "$ref": "#/%24defs/a", "$defs": { "a": {} } }), "is no place in it"),
        (json!({ "$ref": "#anchor", "$anchor": "anchor" }), "is no place in it"),
    ];
    for (schema, because) in cases {
        let bench = Bench::new();
        let bytes = artifact("\0asm", &json!({ "class": "demo.F", "version": "1", "schema": schema }));
        let error = bench.upload("demo.F", &bytes).unwrap_err().to_string();
        assert!(error.contains(because), "{error}");
    }
}

#[test]
fn a_schema_may_refer_to_its_definitions() {
    let bench = Bench::new();
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:whole",
        "type": "object",
        "properties": { "minutes": { "$ref": "#/$defs/minutes" }, "id": { "$ref": "#/$defs/minutes" } },
        "$defs": { "minutes": { "type": "integer" } },
    });
    let bytes = artifact("\0asm", &json!({ "class": "demo.F", "version": "1", "schema": schema }));
    bench.upload("demo.F", &bytes).unwrap();
    bench.extensions.set_config(&class("demo.F"), minutes(5)).unwrap();
    refused(&bench, json!({ "id": "x" }), "/id", "is not of type");
}
