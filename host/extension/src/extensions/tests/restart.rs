//! What a restart keeps, and what it says when it cannot.

use std::fs;
use std::sync::atomic::Ordering;

use super::super::fixture::{Bench, Lines, class, component, configurable, native};
use super::super::{Checksums, Extensions, Kind, RemoveError, Source, Unavailable};

#[test]
fn registrations_survive() {
    let mut bench = Bench::new();
    bench.upload("demo.F", &component("demo.F", "1")).unwrap();
    bench.upload("demo.F", &component("demo.F", "2")).unwrap();
    bench.drop_in("g.so", &native("demo.G", "3")).unwrap();
    let before = bench.extensions.info(&class("demo.F")).unwrap();
    bench.restart();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));
    assert_eq!(bench.in_force("demo.G").as_deref(), Some("3"));
    let after = bench.extensions.info(&class("demo.F")).unwrap();
    assert_eq!((after.sha256, after.versions_kept, after.source), (before.sha256, 1, before.source));
}

#[test]
fn a_restart_does_not_undo_an_upload_or_a_removal() {
    let mut bench = Bench::new();
    let f = bench.write("f.wasm", &component("demo.F", "1"));
    let g = bench.write("g.wasm", &component("demo.G", "1"));
    let scan = |bench: &Bench| {
        for path in [&f, &g] {
            bench.extensions.register(Source::File(path.clone())).unwrap();
        }
    };
    scan(&bench);
    bench.upload("demo.F", &component("demo.F", "2")).unwrap();
    bench.extensions.remove(&class("demo.G"), false).unwrap();
    bench.restart();
    scan(&bench);
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));
    assert_eq!(bench.in_force("demo.G"), None);
    fs::write(&g, component("demo.G", "2")).unwrap();
    scan(&bench);
    assert_eq!(bench.in_force("demo.G").as_deref(), Some("2"));
}

/// Its configuration cannot be deleted: a folder has its name.
#[test]
fn a_removal_that_fails_removes_nothing() {
    let mut bench = Bench::new();
    bench.upload_with("demo.F", &configurable("demo.F", "1"), serde_json::json!({ "minutes": 5 })).unwrap();
    let configs = bench.options.folder.join("configs");
    let [file] = &*fs::read_dir(configs).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    else {
        panic!("one configuration is set")
    };
    let kept = fs::read(file).unwrap();
    fs::remove_file(file).unwrap();
    fs::create_dir(file).unwrap();
    let error = bench.extensions.remove(&class("demo.F"), false).unwrap_err();
    assert!(matches!(error, RemoveError::Store(_)), "{error}");
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    fs::remove_dir(file).unwrap();
    fs::write(file, kept).unwrap();
    bench.restart();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    bench.extensions.remove(&class("demo.F"), false).unwrap();
    bench.restart();
    assert_eq!((bench.in_force("demo.F"), bench.extensions.config(&class("demo.F"))), (None, None));
}

#[test]
fn a_withdrawn_file_stays_withdrawn() {
    let mut bench = Bench::new();
    bench.drop_in("f.wasm", &component("demo.F", "1")).unwrap();
    let path = bench.plugins().join("f.wasm");
    fs::remove_file(&path).unwrap();
    bench.extensions.file_gone(&path);
    bench.restart();
    assert_eq!(bench.in_force("demo.F"), None);
    assert!(bench.extensions.known_files().is_empty());
}

/// The class is listed with the reason, and cannot be called: its subscriptions wait.
#[track_caller]
fn not_loaded(bench: &Bench, because: &str) {
    let info = bench.extensions.info(&class("demo.F")).unwrap();
    assert!(info.state.starts_with("not loaded: ") && info.state.contains(because), "{}", info.state);
    match bench.extensions.configured(&class("demo.F"), Kind::Filter, None) {
        Err(Unavailable::Refused { reason, .. }) => assert!(reason.contains(because), "{reason}"),
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn a_damaged_artifact_is_not_run() {
    let mut bench = Bench::new();
    let sha256 = bench.upload("demo.F", &component("demo.F", "1")).unwrap().sha256;
    let kept = bench.options.folder.join("artifacts").join(&sha256);
    fs::write(&kept, component("demo.F", "2")).unwrap();
    bench.restart();
    not_loaded(&bench, "is damaged");
    fs::remove_file(kept).unwrap();
    bench.restart();
    not_loaded(&bench, "cannot be read");
    // The same bytes once more are not "unchanged": they put it right.
    assert!(!bench.upload("demo.F", &component("demo.F", "1")).unwrap().unchanged);
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    bench.restart();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
}

#[test]
fn a_file_puts_right_what_is_damaged_of_it() {
    let mut bench = Bench::new();
    let file = bench.write("f.wasm", &component("demo.F", "1"));
    let sha256 = bench.extensions.register(Source::File(file.clone())).unwrap().sha256;
    fs::write(bench.options.folder.join("artifacts").join(&sha256), b"torn").unwrap();
    bench.restart();
    not_loaded(&bench, "is damaged");
    // The watcher hands over each file once at the start; this one is no news otherwise.
    assert!(!bench.extensions.register(Source::File(file.clone())).unwrap().unchanged);
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    assert!(bench.extensions.register(Source::File(file)).unwrap().unchanged);
    bench.restart();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
}

#[test]
fn what_broke_at_the_start_is_configured_again_when_it_is_called() {
    let mut bench = Bench::new();
    bench.upload("demo.F", &component("demo.F", "1")).unwrap();
    bench.lines.breaks.store(true, Ordering::Relaxed);
    bench.restart();
    let call = || bench.extensions.configured(&class("demo.F"), Kind::Filter, None).map(|found| found.id());
    assert!(matches!(call(), Err(Unavailable::Refused { .. })));
    bench.lines.breaks.store(false, Ordering::Relaxed);
    assert_eq!(call().unwrap(), call().unwrap(), "configured once");
}

#[test]
fn a_native_library_that_is_no_longer_allowed_is_not_run() {
    let mut bench = Bench::new();
    bench.drop_in("f.so", &native("demo.F", "1")).unwrap();
    let opened = bench.lines.opened.lock().0;
    bench.restart_with(|options| options.native_sha256 = Some(["00".to_owned()].into()));
    not_loaded(&bench, "not listed in plugins.native-sha256");
    assert_eq!(bench.lines.opened.lock().0, opened);
    let known = Checksums::of(&native("demo.F", "1")).sha256;
    bench.restart_with(|options| options.native_sha256 = Some([known].into()));
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
}

#[test]
fn what_a_crash_left_is_swept() {
    let mut bench = Bench::new();
    bench.upload("demo.F", &component("demo.F", "1")).unwrap();
    let kept = bench.artifacts();
    fs::write(bench.options.folder.join("artifacts/.tmpA1b2C3"), b"half an").unwrap();
    fs::write(bench.options.folder.join("artifacts").join("0".repeat(64)), b"unnamed").unwrap();
    let half = bench.options.folder.join("registrations/.tmpA1b2C3.tmp");
    fs::write(&half, b"{").unwrap();
    bench.restart();
    assert_eq!((bench.artifacts(), half.exists()), (kept, false));
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
}

#[test]
fn a_folder_that_weir_did_not_write_refuses_the_start_naming_the_file() {
    let bench = Bench::new();
    bench.upload("demo.F", &component("demo.F", "1")).unwrap();
    let folder = bench.options.folder.join("registrations");
    let path = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read_to_string(&path).unwrap();
    for (text, because) in [
        (whole.replace("\"format\": 1", "\"format\": 2"), "its format is 2, this weir reads 1"),
        (whole[..whole.len() / 2].to_owned(), "EOF"),
    ] {
        fs::write(&path, text).unwrap();
        let opener = std::sync::Arc::new(Lines::default());
        let error = Extensions::open_with(bench.options.clone(), Vec::new(), opener).err().unwrap();
        let sentence = error.to_string();
        assert!(sentence.contains(because) && sentence.contains(path.to_str().unwrap()), "{sentence}");
    }
}

#[test]
fn configurations_survive() {
    let mut bench = Bench::new();
    bench.upload("demo.F", &configurable("demo.F", "1")).unwrap();
    bench.extensions.set_config(&class("demo.F"), serde_json::json!({ "minutes": 5 })).unwrap();
    bench.restart();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    let config = bench.extensions.config(&class("demo.F")).unwrap();
    assert_eq!((config.config["minutes"].as_i64(), config.set_by_file), (Some(5), false));
    bench.extensions.clear_config(&class("demo.F")).unwrap();
    bench.restart();
    assert_eq!(bench.extensions.config(&class("demo.F")), None);
}
