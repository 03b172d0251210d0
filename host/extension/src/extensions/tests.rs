//! The door, by its rules: what is taken, what is refused with which sentence, and what stays in force.

use std::sync::{Arc, Barrier};

use serde_json::json;

use super::fixture::{Bench, artifact, class, component, configurable, native, upload, with_crc_of};
use super::{Kind, RegisterError, RemoveError, Source, Unavailable};

mod config;
mod files;
mod guests;
mod restart;
mod rollback;
mod trial;

/// A bench with `demo.F` version 1 in force.
fn with_one() -> Bench {
    let bench = Bench::new();
    assert!(!bench.upload("demo.F", &component("demo.F", "1")).unwrap().replaced);
    bench
}

/// An upload that is refused with this sentence, and leaves what was in force.
#[track_caller]
fn refused(bench: &Bench, bytes: &[u8], because: &str) -> RegisterError {
    let artifacts = bench.artifacts();
    let generation = bench.extensions.generation();
    let error = bench.upload("demo.F", bytes).unwrap_err();
    assert!(error.to_string().contains(because), "{error}");
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    assert_eq!((bench.artifacts(), bench.extensions.generation()), (artifacts, generation));
    let info = bench.extensions.info(&class("demo.F")).unwrap();
    assert_eq!(info.last_error, Some(error.to_string()), "a refusal is listed");
    assert!(info.last_error_at.is_some_and(|at| at >= info.since), "with its time");
    error
}

#[test]
fn a_new_version_replaces_the_old_and_clears_its_last_error() {
    let bench = with_one();
    refused(&bench, b"<html>", "not an extension");
    let registered = bench.upload("demo.F", &component("demo.F", "2")).unwrap();
    assert!(registered.replaced && !registered.unchanged);
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));
    let info = bench.extensions.info(&class("demo.F")).unwrap();
    assert_eq!((info.last_error, info.versions_kept), (None, 1));
    assert_eq!(info.crc32, registered.crc32);
    assert_eq!(info.source, "PUT from a test");
}

#[test]
fn the_same_bytes_do_nothing() {
    let bench = with_one();
    let before = bench.extensions.configured(&class("demo.F"), Kind::Filter, None).unwrap();
    let generation = bench.extensions.generation();
    assert!(bench.upload("demo.F", &component("demo.F", "1")).unwrap().unchanged);
    let after = bench.extensions.configured(&class("demo.F"), Kind::Filter, None).unwrap();
    assert_eq!((before.id(), generation), (after.id(), bench.extensions.generation()));
    assert_eq!(bench.lines.opened.lock().0, 1, "opened once");
}

#[test]
fn what_is_no_artifact_is_refused() {
    let bench = with_one();
    let error = refused(&bench, b"", "its first bytes are []");
    assert!(matches!(error, RegisterError::NotAnArtifact(_)));
    refused(&bench, b"<html>", "its first bytes are [3c, 68, 74, 6d]");
    let whole = component("demo.F", "2");
    refused(&bench, &whole[..whole.len() - 1], "it is cut");
}

#[test]
fn what_cannot_be_opened_is_refused_with_the_loaders_sentence() {
    let reason = "it needs the import wasi:sockets/tcp, which is not offered";
    let bytes = artifact("\0asm", &json!({ "class": "demo.F", "version": "2", "open": reason }));
    let error = refused(&with_one(), &bytes, reason);
    assert!(matches!(error, RegisterError::Refused(_)));
}

#[test]
fn native_code_never_enters_over_a_socket() {
    let bench = with_one();
    let error = refused(&bench, &native("demo.F", "2"), "plug-in folder only");
    assert!(matches!(error, RegisterError::NativeOverSocket));
    assert_eq!(bench.lines.opened.lock().0, 1, "it was not opened");
}

#[test]
fn an_upload_above_the_limit_is_refused_before_it_is_opened() {
    let bench = Bench::with(|options| options.max_artifact_size = 100);
    let error = bench.upload("demo.F", &[0; 101]).unwrap_err();
    assert!(matches!(error, RegisterError::TooLarge { size: 101, limit: 100 }), "{error}");
    let error = bench.drop_in("f.wasm", &[0; 101]).unwrap_err();
    assert!(matches!(error, RegisterError::TooLarge { size: 101, limit: 100 }), "{error}");
    assert_eq!(bench.lines.opened.lock().0, 0);
}

#[test]
fn other_bytes_with_the_same_crc32_are_a_conflict() {
    let bench = with_one();
    let forged = with_crc_of(&component("demo.F", "2"), &component("demo.F", "1"));
    let error = refused(&bench, &forged, "another artifact with the same crc32");
    assert!(matches!(error, RegisterError::ChecksumConflict { .. }));
}

#[test]
fn declared_checksums_are_compared() {
    let bench = with_one();
    let bytes = component("demo.F", "2");
    let register = |declared_crc, declared_sha: Option<&str>| {
        let Source::Upload { class, bytes, from, config, force, .. } = upload("demo.F", &bytes) else {
            unreachable!()
        };
        let sha256 = declared_sha.map(str::to_owned);
        bench.extensions.register(Source::Upload {
            class,
            bytes,
            crc32: declared_crc,
            sha256,
            config,
            force,
            from,
        })
    };
    for (crc32, sha256, which) in [(Some(1), None, "crc32"), (None, Some("00"), "sha256")] {
        let error = register(crc32, sha256).unwrap_err();
        assert!(
            matches!(error, RegisterError::ChecksumMismatch { which: found, .. } if found == which),
            "{error}"
        );
    }
    let sums = super::Checksums::of(&bytes);
    let upper = sums.sha256.to_uppercase();
    assert!(register(Some(sums.crc32), Some(&upper)).unwrap().replaced);
}

#[test]
fn an_artifact_of_another_class_is_refused() {
    let error = refused(
        &with_one(),
        &component("demo.G", "2"),
        "the request names class demo.F, the artifact declares demo.G",
    );
    assert!(matches!(error, RegisterError::OtherClass { .. }));
}

#[test]
fn an_artifact_of_the_wrong_kind_is_refused_where_the_class_is_in_use() {
    let bench = with_one();
    let lister = artifact("\0asm", &json!({ "class": "demo.F", "version": "2", "kinds": ["lister"] }));
    bench.extensions.set_usage(|used| (used.as_str() == "demo.F").then_some(Kind::Filter));
    let error = refused(&bench, &lister, "in use as a filter, the artifact is a lister");
    assert!(matches!(error, RegisterError::WrongKind { .. }));
}

#[test]
fn a_look_up_tells_missing_from_wrong_kind() {
    let bench = with_one();
    let look_up = |name, kind| bench.extensions.configured(&class(name), kind, None).err().unwrap();
    assert_eq!(look_up("demo.X", Kind::Filter), Unavailable::Missing { class: class("demo.X") });
    let wanted = Kind::Lister;
    assert_eq!(look_up("demo.F", wanted), Unavailable::WrongKind { class: class("demo.F"), wanted });
}

#[test]
fn a_schema_that_is_none_is_refused() {
    let with_schema =
        |schema| artifact("\0asm", &json!({ "class": "demo.F", "version": "2", "schema": schema }));
    let bench = with_one();
    refused(&bench, &with_schema(json!({ "type": "no-such-type" })), "not a valid JSON Schema");
    // Nothing is fetched for it, from nowhere.
    refused(&bench, &with_schema(json!({ "$ref": "http://127.0.0.1:1/schema" })), "not a valid JSON Schema");
    refused(&bench, &with_schema(json!({ "$ref": "file:///etc/passwd" })), "not a valid JSON Schema");
    let large = "x".repeat(super::MAX_SCHEMA_BYTES);
    refused(&bench, &with_schema(json!({ "title": large })), "at most 262144 are taken");
    let no_kind = artifact("\0asm", &json!({ "class": "demo.F", "version": "2", "kinds": [] }));
    refused(&bench, &no_kind, "declares no kind");
}

#[test]
fn an_artifact_that_breaks_when_it_is_configured_is_refused() {
    let trap = artifact("\0asm", &json!({ "class": "demo.F", "version": "2", "configure": "trap" }));
    refused(&with_one(), &trap, "it broke when it was given its configuration: trap: unreachable");
}

#[test]
fn a_swap_leaves_the_batch_in_flight_on_its_version() {
    let bench = with_one();
    let old = bench.extensions.configured(&class("demo.F"), Kind::Filter, None).unwrap();
    let mut instance = old.filter().unwrap();
    bench.upload("demo.F", &component("demo.F", "2")).unwrap();
    let mut verdicts = Vec::new();
    let messages = crate::Messages::new(Arc::clone(old.reads()));
    instance.judge(&messages, &[0, 1, 2], &mut verdicts).unwrap();
    assert_eq!(verdicts.iter().filter(|v| **v == crate::Verdict::Reject).count(), 1);
    let new = bench.extensions.configured(&class("demo.F"), Kind::Filter, None).unwrap();
    assert!(new.id() > old.id());
}

/// Whoever wins, the table, what runs, the disk and the next start agree.
#[test]
fn of_64_registrations_at_once_one_stays_whole() {
    let mut bench = Bench::with(|options| options.concurrent_loads = 4);
    let start = Barrier::new(64);
    std::thread::scope(|scope| {
        for n in 1..=64 {
            let (bench, start) = (&bench, &start);
            scope.spawn(move || {
                let bytes = component("demo.F", &n.to_string());
                start.wait();
                bench.upload("demo.F", &bytes).unwrap();
            });
        }
    });
    let winner = bench.in_force("demo.F").unwrap();
    let info = bench.extensions.info(&class("demo.F")).unwrap();
    assert_eq!(info.sha256, super::Checksums::of(&component("demo.F", &winner)).sha256);
    assert_eq!(info.versions_kept, 2);
    let (all, _, most) = *bench.lines.opened.lock();
    assert!(all == 64 && most <= 4, "{all} opened, {most} at once");
    assert_eq!(bench.artifacts().len(), 3, "one in force, two kept, no other file");
    bench.restart();
    assert_eq!(bench.in_force("demo.F"), Some(winner));
}

#[test]
fn of_64_equal_registrations_at_once_one_swaps() {
    let bench = Bench::new();
    let start = Barrier::new(64);
    let swapped: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..64)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    usize::from(!bench.upload("demo.F", &component("demo.F", "1")).unwrap().unchanged)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((swapped, bench.extensions.generation()), (1, 1));
}

#[test]
fn removal_is_refused_while_in_use() {
    let bench = with_one();
    bench.extensions.set_usage(|_| Some(Kind::Filter));
    let error = bench.extensions.remove(&class("demo.F"), false).unwrap_err();
    assert!(matches!(error, RemoveError::InUse { kind: Kind::Filter, .. }), "{error}");
    bench.extensions.remove(&class("demo.F"), true).unwrap();
    assert_eq!(bench.in_force("demo.F"), None);
    assert!(bench.artifacts().is_empty());
    let error = bench.extensions.remove(&class("demo.F"), true).unwrap_err();
    assert!(matches!(error, RemoveError::Missing { .. }), "{error}");
}

#[test]
fn built_ins_are_neither_replaced_nor_removed() {
    let bench = Bench::new();
    bench.extensions.put_builtin(crate::Builtin::filter(class("weir.All"), Vec::new(), |_| unreachable!()));
    for result in [
        bench.upload("weir.All", &component("weir.All", "2")),
        bench.drop_in("all.wasm", &component("weir.All", "2")),
    ] {
        assert!(matches!(result, Err(RegisterError::BuiltIn { .. })));
    }
    let error = bench.extensions.remove(&class("weir.All"), true).unwrap_err();
    assert!(matches!(error, RemoveError::BuiltIn { .. }), "{error}");
    assert!(bench.extensions.remove_builtin(&class("weir.All")));
}

#[test]
fn counters_belong_to_a_version_and_tell_no_from_broke() {
    let bench = with_one();
    let one = bench.extensions.configured(&class("demo.F"), Kind::Filter, None).unwrap();
    let mut tally = crate::Tally { calls: 2, accepted: 5, rejected: 3, broke: 1, ..Default::default() };
    tally.broken_call(crate::BrokeKind::Deadline);
    one.count(&tally);
    one.count(&tally);
    let counts = bench.extensions.info(&class("demo.F")).unwrap().counts;
    assert_eq!((counts.calls, counts.messages, counts.accepted, counts.rejected), (4, 18, 10, 6));
    assert_eq!((counts.broke, counts.broken_calls["deadline"], counts.broken_calls.len()), (2, 2, 1));
    bench.upload("demo.F", &component("demo.F", "2")).unwrap();
    assert_eq!(bench.extensions.info(&class("demo.F")).unwrap().counts, crate::Counts::default());
}

#[test]
fn an_artifact_is_inspected_without_being_registered() {
    let bench = Bench::new();
    let path = bench.write("f.wasm", &configurable("demo.F", "7"));
    let found = bench.extensions.inspect(&path).unwrap();
    assert_eq!((found.class, found.version.as_str()), (class("demo.F"), "7"));
    assert_eq!(found.schema["required"], json!(["minutes"]));
    assert_eq!(bench.in_force("demo.F"), None);
    assert!(bench.artifacts().is_empty());
}

#[test]
fn a_table_of_built_ins_has_no_door() {
    let extensions = crate::Extensions::with_builtins(Vec::new());
    let error = extensions.register(upload("demo.F", &component("demo.F", "1"))).unwrap_err();
    assert_eq!(error.to_string(), "this table holds built-in extensions only");
}
