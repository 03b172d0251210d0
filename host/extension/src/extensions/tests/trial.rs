//! The trial of a new version: passed, or back to the last good one by itself.

use std::sync::Arc;

use serde_json::json;

use super::super::fixture::{Bench, Changes, class, component, configurable, upload};
use super::super::trial::shift_of_rejects;
use super::super::{Counts, ExtensionInfo, Kind, RegisterError, Source, Trial};
use crate::filter::{Broke, BrokeKind};

/// A bench with version 1 in force and version 2 on trial.
fn with_two() -> Bench {
    let bench = Bench::new();
    bench.upload("demo.F", &component("demo.F", "1")).unwrap();
    assert!(trial(&bench).is_none(), "a first version has nothing to go back to");
    bench.upload("demo.F", &component("demo.F", "2")).unwrap();
    bench
}

fn trial(bench: &Bench) -> Option<Trial> {
    bench.extensions.on_trial(&class("demo.F"), Kind::Filter, None).unwrap().1
}

fn info(bench: &Bench) -> ExtensionInfo {
    bench.extensions.info(&class("demo.F")).unwrap()
}

fn trap() -> Broke {
    Broke { kind: BrokeKind::Trap, reason: "unreachable".to_owned() }
}

/// Counts, and waits until the version is in force that is then to be, without a trial.
#[track_caller]
fn ends_with(bench: &Bench, verdicts: u64, broke: u64, version: &str) {
    let changes = Changes::of(&bench.extensions);
    trial(bench).unwrap().count(verdicts, broke, Some(&trap()));
    changes.until("the end of the trial", || info(bench).trial.is_none());
    assert_eq!(bench.in_force("demo.F").as_deref(), Some(version));
}

#[test]
fn what_breaks_too_often_is_taken_back_for_good() {
    let mut bench = with_two();
    ends_with(&bench, 98, 2, "1");
    assert_eq!(bench.extensions.taken_back(), 1);
    for _ in 0..2 {
        let taken_back = &info(&bench).taken_back;
        assert_eq!((taken_back.len(), taken_back[0].version.as_str()), (1, "2"));
        assert_eq!(
            taken_back[0].reason,
            "it broke on 2 of its first 100 messages, on which version 1 did not; the last time: trap: unreachable"
        );
        let error = bench.upload("demo.F", &component("demo.F", "2")).unwrap_err();
        assert!(matches!(error, RegisterError::TakenBack { .. }), "{error}");
        assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
        bench.restart();
    }
}

#[test]
fn what_breaks_seldom_passes() {
    let mut bench = with_two();
    let on_trial = info(&bench).trial.unwrap();
    assert_eq!((on_trial.last_good.as_str(), on_trial.messages), ("1", 1000));
    assert_eq!(on_trial.last_good_sha256, info(&bench).kept[0].sha256);
    trial(&bench).unwrap().count(980, 0, None);
    ends_with(&bench, 10, 10, "2");
    assert_eq!((bench.extensions.taken_back(), info(&bench).versions_kept), (0, 1));
    bench.restart();
    assert!(info(&bench).trial.is_none(), "it has passed");
}

#[test]
fn a_few_messages_say_nothing() {
    let bench = with_two();
    let on_trial = trial(&bench).unwrap();
    on_trial.count(0, 99, Some(&trap()));
    assert_eq!(info(&bench).trial.map(|trial| (trial.judged, trial.broke)), Some((99, 99)));
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));
    ends_with(&bench, 1, 0, "1");
}

#[test]
fn a_restart_begins_the_trial_anew() {
    let mut bench = with_two();
    trial(&bench).unwrap().count(0, 99, Some(&trap()));
    bench.restart();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));
    assert!(trial(&bench).unwrap().last_good().is_some(), "it is kept warm again");
    assert_eq!(info(&bench).trial.unwrap().judged, 0);
    ends_with(&bench, 0, 100, "1");
}

#[test]
fn the_last_good_one_is_the_last_that_passed() {
    let bench = Bench::with(|options| options.keep_versions = 1);
    for version in ["1", "2", "3"] {
        bench.upload("demo.F", &component("demo.F", version)).unwrap();
    }
    let kept: Vec<String> = info(&bench).kept.into_iter().map(|kept| kept.version).collect();
    assert_eq!(kept, ["1"], "before the newest, whatever the number that is kept");
    ends_with(&bench, 0, 100, "1");
    // Sent again while another is on trial, it needs none.
    bench.upload("demo.F", &component("demo.F", "4")).unwrap();
    bench.upload("demo.F", &component("demo.F", "1")).unwrap();
    assert!(trial(&bench).is_none());
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
}

#[test]
fn a_swap_ends_the_trial_before_it() {
    let bench = with_two();
    let before = trial(&bench).unwrap();
    bench.upload("demo.F", &component("demo.F", "3")).unwrap();
    before.count(0, 1000, Some(&trap()));
    ends_with(&bench, 1000, 0, "3");
    assert_eq!(bench.extensions.taken_back(), 0);
}

#[test]
fn what_is_forced_is_not_tried() {
    let bench = with_two();
    ends_with(&bench, 0, 100, "1");
    let mut source = upload("demo.F", &component("demo.F", "2"));
    if let Source::Upload { force, .. } = &mut source {
        *force = true;
    }
    bench.extensions.register(source).unwrap();
    assert!(trial(&bench).is_none());
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));
}

#[test]
fn without_messages_or_versions_there_are_no_trials() {
    for (messages, keep_versions) in [(0, 2), (1000, 0)] {
        let bench = Bench::with(|options| {
            options.trial.messages = messages;
            options.keep_versions = keep_versions;
        });
        bench.upload("demo.F", &component("demo.F", "1")).unwrap();
        bench.upload("demo.F", &component("demo.F", "2")).unwrap();
        assert!(trial(&bench).is_none());
    }
}

#[test]
fn the_last_good_one_follows_the_configuration() {
    let bench = Bench::new();
    bench.upload_with("demo.F", &configurable("demo.F", "1"), json!({ "minutes": 1 })).unwrap();
    bench.upload_with("demo.F", &component("demo.F", "2"), json!({ "minutes": 2 })).unwrap();
    let before = Arc::clone(trial(&bench).unwrap().last_good().unwrap());
    bench.extensions.set_config(&class("demo.F"), json!({ "minutes": 3 })).unwrap();
    let after = Arc::clone(trial(&bench).unwrap().last_good().unwrap());
    assert_ne!(before.id(), after.id());
    // What it does not take it does not get.
    bench.extensions.set_config(&class("demo.F"), json!({ "hours": 1 })).unwrap();
    assert_eq!(trial(&bench).unwrap().last_good().unwrap().id(), after.id());
    ends_with(&bench, 0, 100, "1");
}

#[test]
fn another_rate_of_rejects_is_worth_a_warning_and_no_more() {
    let counts = |messages, rejected| Counts { messages, rejected, ..Counts::default() };
    assert_eq!(shift_of_rejects(&counts(1000, 500), &counts(100, 100), 100), Some([0.5, 1.0]));
    assert_eq!(shift_of_rejects(&counts(1000, 500), &counts(100, 0), 100), Some([0.5, 0.0]));
    assert_eq!(shift_of_rejects(&counts(1000, 500), &counts(100, 60), 100), None, "about as before");
    assert_eq!(shift_of_rejects(&counts(1000, 500), &counts(99, 99), 100), None, "too few to tell");
    assert_eq!(shift_of_rejects(&counts(0, 0), &counts(100, 100), 1), None, "nothing to compare with");
}
