//! The door with real artifacts, as `make guests` builds them: compiled, opened, called, replaced, and
//! opened again after a restart.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;

use super::super::fixture::{class, upload};
use super::super::{Extensions, Kind, Options, RegisterError, Source};
use crate::artifact::Limits;
use crate::child::tests::this_program;
use crate::testing::{guest, judge};
use crate::{Messages, Verdict, WatchOptions, Watcher};

struct Door {
    folder: TempDir,
    extensions: Arc<Extensions>,
}

impl Door {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join("plugins")).unwrap();
        let extensions = Self::open(&folder);
        Self { folder, extensions }
    }

    fn open(folder: &TempDir) -> Arc<Extensions> {
        let mut options = Options::new(folder.path().join("data"), Limits::default());
        options.child = this_program();
        Extensions::open(options, Vec::new()).unwrap()
    }

    fn plugins(&self) -> PathBuf {
        self.folder.path().join("plugins")
    }

    /// By how many minutes flights must be late to be delivered, as `demo.LateFlights` judges them now.
    fn late_after(&self, config: Option<&serde_json::Value>) -> usize {
        let configured =
            self.extensions.configured(&class("demo.LateFlights"), Kind::Filter, config).unwrap();
        let delays: Vec<String> = (0..200).map(|delay| delay.to_string()).collect();
        let mut messages = Messages::new(Arc::clone(configured.reads()));
        for delay in &delays {
            messages.row().property("delay", delay);
        }
        let verdicts = judge(&mut *configured.filter().unwrap(), &messages).unwrap();
        verdicts.iter().position(|verdict| *verdict == Verdict::Accept).unwrap() - 1
    }
}

#[test]
fn both_forms_come_in_are_configured_and_survive_a_restart() {
    for name in ["late-flights.so", "late-flights.wasm"] {
        let mut door = Door::new();
        std::fs::write(door.plugins().join(name), guest(name)).unwrap();
        let watch = |door: &Door| {
            Watcher::start(Arc::clone(&door.extensions), door.plugins(), WatchOptions::default()).unwrap()
        };
        let watcher = watch(&door);
        let info = door.extensions.info(&class("demo.LateFlights")).unwrap();
        assert!(info.state.starts_with("in-force"), "{name}: {}", info.state);
        assert_eq!(door.late_after(Some(&json!({ "minutes": 15 }))), 15, "{name}");
        let refused = door.extensions.set_config(&class("demo.LateFlights"), json!({ "minutes": "soon" }));
        let sentence = refused.unwrap_err().to_string();
        assert!(sentence.contains("at /minutes: \"soon\" is not of type"), "{name}: {sentence}");
        door.extensions.set_config(&class("demo.LateFlights"), json!({ "minutes": 60 })).unwrap();
        assert_eq!(door.late_after(None), 60, "{name}");

        watcher.stop();
        door.extensions = Door::open(&door.folder);
        assert_eq!(door.late_after(None), 60, "{name}, after a restart");
        let _watcher = watch(&door);
        let after = door.extensions.info(&class("demo.LateFlights")).unwrap();
        assert_eq!((after.sha256, after.state), (info.sha256, "in-force".to_owned()), "{name}");
    }
}

/// Two libraries of one class at one path, back and forth: what is listed is what runs.
#[test]
fn libraries_that_take_turns_at_one_path_are_told_apart() {
    let door = Door::new();
    let path = door.plugins().join("swap.so");
    let mut judged = Vec::new();
    for name in ["even.so", "odd.so", "even.so"] {
        std::fs::write(&path, guest(name)).unwrap();
        let registered = door.extensions.register(Source::File(path.clone())).unwrap();
        let info = door.extensions.info(&class("demo.Swap")).unwrap();
        assert_eq!(info.sha256, registered.sha256);
        let configured = door.extensions.configured(&class("demo.Swap"), Kind::Filter, None).unwrap();
        let numbers: Vec<String> = (0..8).map(|n| n.to_string()).collect();
        let mut messages = Messages::new(Arc::clone(configured.reads()));
        for n in &numbers {
            let mut row = messages.row();
            for field in &**configured.reads() {
                if let crate::Field::Property(name) = field {
                    row.property(name, n);
                }
            }
        }
        judged.push(judge(&mut *configured.filter().unwrap(), &messages).unwrap());
    }
    assert_eq!(judged[0], judged[2]);
    assert_ne!(judged[0], judged[1]);
}

#[test]
fn uploads_of_bad_artifacts_leave_the_good_one() {
    let door = Door::new();
    let late = "demo.LateFlights";
    door.extensions.register(upload(late, &guest("late-flights.wasm"))).unwrap();
    let whole = guest("late-flights.wasm");
    type Right = fn(&RegisterError) -> bool;
    let cases: [(&[u8], Right); 5] = [
        (b"", |e| matches!(e, RegisterError::NotAnArtifact(_))),
        (b"<!doctype html><html>", |e| matches!(e, RegisterError::NotAnArtifact(_))),
        (&whole[..whole.len() / 2], |e| matches!(e, RegisterError::NotAnArtifact(_))),
        (&guest("late-flights.so"), |e| matches!(e, RegisterError::NativeOverSocket)),
        (&guest("even.wasm"), |e| matches!(e, RegisterError::OtherClass { .. })),
    ];
    for (n, (bytes, right)) in cases.iter().enumerate() {
        let error = door.extensions.register(upload(late, bytes)).unwrap_err();
        assert!(right(&error), "case {n}: {error}");
        assert_eq!(door.late_after(Some(&json!({ "minutes": 7 }))), 7, "case {n}");
    }
}

/// A hundred classes: one text, with another name in each.
#[test]
fn a_restart_compiles_nothing_again() {
    let mut door = Door::new();
    let wat = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/wat/accepts-everything.wat");
    let wat = std::fs::read_to_string(wat).unwrap();
    let names: Vec<String> = (0..100).map(|n| format!("demo.Accepts{n:010}")).collect();
    for name in &names {
        let bytes = wat::parse_str(wat.replace("demo.AcceptsEverything", name)).unwrap();
        door.extensions.register(upload(name, &bytes)).unwrap();
    }
    assert_eq!(door.extensions.figures().compilations, 100);

    drop(std::mem::replace(&mut door.extensions, Extensions::with_builtins(Vec::new())));
    door.extensions = Door::open(&door.folder);
    let figures = door.extensions.figures();
    assert_eq!((figures.compilations, figures.found_compiled, figures.damaged), (0, 100, 0));
    for name in &names {
        let configured = door.extensions.configured(&class(name), Kind::Filter, None).unwrap();
        let mut messages = Messages::new(Arc::clone(configured.reads()));
        messages.row();
        assert_eq!(judge(&mut *configured.filter().unwrap(), &messages).unwrap(), [Verdict::Accept]);
        assert_eq!(door.extensions.info(&class(name)).unwrap().code, "cranelift");
    }
}
