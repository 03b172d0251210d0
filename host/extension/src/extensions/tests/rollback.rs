//! Back to the version before: durably, and what was gone back from stays out until it is forced.

use std::fs;

use serde_json::{Value, json};

use super::super::fixture::{Bench, artifact, class, component, configurable, native, upload};
use super::super::{ClassOptions, RegisterError, Registered, RollbackError, RolledBack, Source};
use crate::builtin::Builtin;

/// A bench with these versions of `demo.F` registered one after the other.
fn with(versions: &[&str]) -> Bench {
    let bench = Bench::new();
    for version in versions {
        bench.upload("demo.F", &component("demo.F", version)).unwrap();
    }
    bench
}

fn roll_back(bench: &Bench) -> Result<RolledBack, RollbackError> {
    bench.extensions.rollback(&class("demo.F"), "a test")
}

fn forced(bench: &Bench, bytes: &[u8]) -> Result<Registered, RegisterError> {
    let mut source = upload("demo.F", bytes);
    if let Source::Upload { force, .. } = &mut source {
        *force = true;
    }
    bench.extensions.register(source)
}

/// The bytes are refused, quietly.
#[track_caller]
fn not_taken(bench: &Bench, bytes: &[u8], version: &str) {
    let before = (bench.extensions.generation(), bench.lines.opened.lock().0);
    let error = bench.upload("demo.F", bytes).unwrap_err();
    assert!(matches!(error, RegisterError::TakenBack { .. }), "{error}");
    let says = error.to_string();
    assert!(says.contains(&format!("demo.F: version {version} was taken back")), "{says}");
    assert!(says.contains("unless it is forced (weir extension register FILE --force"), "{says}");
    assert!(says.contains("by hand (a test)"), "{says}");
    assert_eq!((bench.extensions.generation(), bench.lines.opened.lock().0), before, "nothing was opened");
    let info = bench.extensions.info(&class("demo.F")).unwrap();
    assert_eq!(info.last_error, None, "who sends it again and again is no news");
}

#[test]
fn the_version_before_is_in_force_again_also_after_a_restart() {
    let mut bench = with(&["1", "2", "3"]);
    let info = bench.extensions.info(&class("demo.F")).unwrap();
    let kept: Vec<&str> = info.kept.iter().map(|kept| kept.version.as_str()).collect();
    assert_eq!((kept, bench.artifacts().len()), (vec!["2", "1"], 3));
    assert_eq!(info.kept[0].reason, "version 3 replaced it, from PUT from a test");
    assert!(info.kept[0].until >= Some(info.kept[0].since));

    let rolled_back = roll_back(&bench).unwrap();
    assert_eq!((rolled_back.version.as_str(), rolled_back.from_version.as_str()), ("2", "3"));
    assert!(!rolled_back.configuration_too);
    for _ in 0..2 {
        assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));
        let info = bench.extensions.info(&class("demo.F")).unwrap();
        assert_eq!((info.sha256.clone(), info.versions_kept), (rolled_back.sha256.clone(), 1));
        assert_eq!(info.taken_back[0].sha256, rolled_back.from_sha256);
        assert_eq!(info.taken_back[0].reason, "rolled back to version 2 by hand (a test)");
        assert_eq!(bench.artifacts().len(), 2, "what was gone back from is deleted");
        not_taken(&bench, &component("demo.F", "3"), "3");
        bench.restart();
    }
}

#[test]
fn each_rollback_goes_one_further_until_there_is_none() {
    let bench = with(&["1", "2", "3"]);
    roll_back(&bench).unwrap();
    roll_back(&bench).unwrap();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    let error = roll_back(&bench).unwrap_err();
    assert!(matches!(error, RollbackError::NoneBefore { .. }));
    assert!(
        error.to_string().contains("no version before 1 to go back to (plugins.keep-versions"),
        "{error}"
    );
    not_taken(&bench, &component("demo.F", "2"), "2");
    not_taken(&bench, &component("demo.F", "3"), "3");
    bench.upload("demo.F", &component("demo.F", "4")).unwrap();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("4"), "other bytes are taken");
    not_taken(&bench, &component("demo.F", "3"), "3");
}

#[test]
fn what_is_not_registered_or_built_in_does_not_go_back() {
    let bench = with(&[]);
    assert!(matches!(roll_back(&bench).unwrap_err(), RollbackError::Missing { .. }));
    bench.extensions.put_builtin(Builtin::filter(class("demo.F"), Vec::new(), |_| unreachable!()));
    assert!(matches!(roll_back(&bench).unwrap_err(), RollbackError::BuiltIn { .. }));
}

#[test]
fn what_was_taken_back_comes_by_force() {
    let bench = with(&["1", "2"]);
    roll_back(&bench).unwrap();
    not_taken(&bench, &component("demo.F", "2"), "2");
    assert!(forced(&bench, &component("demo.F", "2")).unwrap().replaced);
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));
    let info = bench.extensions.info(&class("demo.F")).unwrap();
    assert_eq!((info.taken_back, info.versions_kept), (Vec::new(), 1));
}

#[test]
fn another_configuration_or_another_weir_may_take_it() {
    let mut bench = with(&["1", "2"]);
    roll_back(&bench).unwrap();
    let with_config = bench.upload_with("demo.F", &component("demo.F", "2"), json!({ "limit": 1 }));
    assert!(with_config.unwrap().replaced);
    roll_back(&bench).unwrap();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    not_taken(&bench, &component("demo.F", "2"), "2");

    let folder = bench.options.folder.join("registrations");
    let path = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let mut stored: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    stored["taken_back"][0]["host"] = json!("0.0.0");
    fs::write(&path, stored.to_string()).unwrap();
    bench.restart();
    assert!(bench.upload("demo.F", &component("demo.F", "2")).unwrap().replaced);
}

#[test]
fn the_drop_folder_does_not_bring_it_back() {
    for (name, artifact) in [("f.wasm", component as fn(&str, &str) -> Vec<u8>), ("f.so", native)] {
        let mut bench = Bench::new();
        let path = bench.write(name, &artifact("demo.F", "1"));
        bench.extensions.register(Source::File(path.clone())).unwrap();
        bench.drop_in(name, &artifact("demo.F", "2")).unwrap();
        roll_back(&bench).unwrap();
        for _ in 0..2 {
            let error = bench.extensions.register(Source::File(path.clone())).unwrap_err();
            assert!(matches!(error, RegisterError::TakenBack { .. }), "{error}");
            let refused = bench.extensions.refused();
            assert_eq!((refused.len(), &refused[0].path), (1, &path));
            assert!(refused[0].reason.contains("version 2 was taken back"), "{refused:?}");
            assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
            bench.restart();
        }
        // Who deletes the bad file does not mean the good version, which it held once.
        fs::remove_file(&path).unwrap();
        assert_eq!(bench.extensions.file_gone(&path), []);
        bench.restart();
        assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
        let error = bench.drop_in(name, &artifact("demo.F", "2")).unwrap_err();
        assert!(matches!(error, RegisterError::TakenBack { .. }), "{error}");
        assert!(!bench.drop_in(name, &artifact("demo.F", "3")).unwrap().unchanged);
        assert_eq!(bench.in_force("demo.F").as_deref(), Some("3"));
    }
}

#[test]
fn a_file_that_holds_the_version_before_is_its_source_again() {
    let bench = Bench::new();
    let path = bench.write("f.wasm", &component("demo.F", "1"));
    bench.extensions.register(Source::File(path.clone())).unwrap();
    bench.upload("demo.F", &component("demo.F", "2")).unwrap();
    roll_back(&bench).unwrap();
    assert_eq!(bench.extensions.info(&class("demo.F")).unwrap().source, path.display().to_string());
    assert!(bench.extensions.refused().is_empty());
    fs::remove_file(&path).unwrap();
    assert_eq!(bench.extensions.file_gone(&path), [class("demo.F")]);
}

#[test]
fn a_waiting_file_is_taken_with_another_configuration() {
    let bench = Bench::new();
    bench.drop_in("f.wasm", &component("demo.F", "1")).unwrap();
    let path = bench.plugins().join("f.wasm");
    bench.drop_in("f.wasm", &component("demo.F", "2")).unwrap();
    roll_back(&bench).unwrap();
    assert_eq!(bench.extensions.waiting_files(), std::slice::from_ref(&path));
    bench.extensions.set_config(&class("demo.F"), json!({ "limit": 1 })).unwrap();
    bench.extensions.register(Source::File(path)).unwrap();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));
    assert!(bench.extensions.refused().is_empty());
}

/// A component that needs `{"hours": <a number>}`.
fn of_hours(version: &str) -> Vec<u8> {
    let schema = json!({
        "type": "object", "required": ["hours"], "additionalProperties": false,
        "properties": { "hours": { "type": "integer" } }
    });
    artifact("\0asm", &json!({ "class": "demo.F", "version": version, "schema": schema }))
}

#[test]
fn a_configuration_comes_back_where_the_later_one_is_not_taken() {
    let mut bench = Bench::new();
    bench.upload_with("demo.F", &configurable("demo.F", "1"), json!({ "minutes": 5 })).unwrap();
    bench.upload_with("demo.F", &configurable("demo.F", "2"), json!({ "minutes": 6 })).unwrap();
    bench.upload_with("demo.F", &of_hours("3"), json!({ "hours": 1 })).unwrap();
    assert!(roll_back(&bench).unwrap().configuration_too);
    for _ in 0..2 {
        assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));
        assert_eq!(bench.extensions.config(&class("demo.F")).unwrap().config, json!({ "minutes": 6 }));
        bench.restart();
    }
    assert!(!roll_back(&bench).unwrap().configuration_too, "the one of now is taken, and stays");
    assert_eq!(bench.extensions.config(&class("demo.F")).unwrap().config, json!({ "minutes": 6 }));
}

#[test]
fn what_cannot_go_back_stays_in_force() {
    let bench = with(&["1", "2"]);
    let first = &bench.extensions.info(&class("demo.F")).unwrap().kept[0].sha256;
    fs::write(bench.options.folder.join("artifacts").join(first), b"rot").unwrap();
    let error = roll_back(&bench).unwrap_err();
    assert!(error.to_string().contains("cannot go back to version 1: its artifact"), "{error}");
    assert!(error.to_string().contains("is damaged"), "{error}");
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));

    let bench = Bench::with(|options| {
        let config = Some(json!({ "hours": 1 }));
        options.classes.insert(class("demo.F"), ClassOptions { limits: options.limits, config });
    });
    bench.upload("demo.F", &component("demo.F", "1")).unwrap();
    bench.upload("demo.F", &of_hours("2")).unwrap();
    roll_back(&bench).unwrap();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
}

#[test]
fn a_configuration_of_the_file_is_not_changed_by_going_back() {
    let mut bench = Bench::new();
    bench.upload_with("demo.F", &configurable("demo.F", "1"), json!({ "minutes": 5 })).unwrap();
    bench.upload_with("demo.F", &of_hours("2"), json!({ "hours": 1 })).unwrap();
    bench.restart_with(|options| {
        let config = Some(json!({ "hours": 2 }));
        options.classes.insert(class("demo.F"), ClassOptions { limits: options.limits, config });
    });
    let error = roll_back(&bench).unwrap_err();
    assert!(error.to_string().contains("cannot go back to version 1: demo.F does not take its"), "{error}");
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));
}
