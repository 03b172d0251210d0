//! The drop folder as people and volumes change it. Each test waits for a change of the table, or asks
//! the watcher to look now.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{WatchOptions, Watcher};
use crate::extensions::fixture::{Bench, Changes, class, component, in_force, native};

/// Both ways of finding out: by the system's events (polling would be too late), and without any.
fn both(test: impl Fn(WatchOptions)) {
    let quiet = Duration::from_millis(20);
    test(WatchOptions { quiet, poll: Duration::from_secs(3600), events: true });
    test(WatchOptions { quiet, poll: Duration::from_millis(10), events: false });
}

struct Watched {
    bench: Bench,
    changes: Changes,
    watcher: Watcher,
}

impl Watched {
    fn new(options: WatchOptions) -> Self {
        Self::over(Bench::new(), options)
    }

    fn over(bench: Bench, options: WatchOptions) -> Self {
        let changes = Changes::of(&bench.extensions);
        let watcher = Watcher::start(Arc::clone(&bench.extensions), bench.plugins(), options).unwrap();
        Self { bench, changes, watcher }
    }

    /// Waits until this version of `demo.F` is in force.
    #[track_caller]
    fn until(&self, version: Option<&str>) {
        let extensions = &self.bench.extensions;
        self.changes
            .until(&format!("version {version:?}"), || in_force(extensions, "demo.F").as_deref() == version);
    }

    fn opened(&self) -> usize {
        self.bench.lines.opened.lock().0
    }
}

fn rename_over(folder: &Path, name: &str, bytes: &[u8]) {
    let temporary = folder.join(format!("{name}.tmp"));
    fs::write(&temporary, bytes).unwrap();
    fs::rename(temporary, folder.join(name)).unwrap();
}

#[test]
fn what_is_there_at_the_start_is_in_force_when_it_returns() {
    both(|options| {
        let bench = Bench::new();
        bench.write("f.wasm", &component("demo.F", "1"));
        bench.write("bad.wasm", b"<html>");
        let watched = Watched::over(bench, options);
        assert_eq!(watched.bench.in_force("demo.F").as_deref(), Some("1"));
        assert_eq!(watched.bench.extensions.refused().len(), 1);
    });
}

#[test]
fn each_way_to_replace_a_file_is_one_reload() {
    both(|options| {
        let watched = Watched::new(options);
        let folder = watched.bench.plugins();
        rename_over(&folder, "f.wasm", &component("demo.F", "1"));
        watched.until(Some("1"));
        rename_over(&folder, "f.wasm", &component("demo.F", "2"));
        watched.until(Some("2"));
        watched.bench.write("f.wasm", &component("demo.F", "3"));
        watched.until(Some("3"));
        fs::remove_file(folder.join("f.wasm")).unwrap();
        watched.until(None);
        watched.bench.write("f.wasm", &component("demo.F", "3"));
        watched.until(Some("3"));
        watched.watcher.rescan();
        assert_eq!((watched.opened(), watched.bench.extensions.generation()), (4, 5));
    });
}

/// Who copies a file in again wants it in force; who removed its class and starts weir again does not.
#[test]
fn a_removed_class_comes_back_when_its_file_is_written_anew() {
    both(|options| {
        let mut watched = Watched::new(options);
        let bytes = component("demo.F", "1");
        watched.bench.write("f.wasm", &bytes);
        watched.until(Some("1"));
        for rename in [true, false] {
            watched.bench.extensions.remove(&class("demo.F"), false).unwrap();
            watched.watcher.rescan();
            assert_eq!(watched.bench.in_force("demo.F"), None);
            let refused = watched.bench.extensions.refused();
            assert!(refused[0].reason.contains("copy it in again, or touch it"), "{refused:?}");

            let Watched { mut bench, watcher, .. } = watched;
            watcher.stop();
            bench.restart();
            watched = Watched::over(bench, options);
            watched.watcher.rescan();
            assert_eq!(watched.bench.in_force("demo.F"), None, "a restart does not undo a removal");
            assert_eq!(watched.bench.extensions.refused().len(), 1);

            if rename {
                rename_over(&watched.bench.plugins(), "f.wasm", &bytes);
            } else {
                watched.bench.write("f.wasm", &bytes);
            }
            watched.until(Some("1"));
            assert!(watched.bench.extensions.refused().is_empty());
        }
    });
}

/// What the clock and the size say is not what tells two files apart.
#[test]
fn other_bytes_of_the_same_size_and_time_are_news() {
    both(|options| {
        let watched = Watched::new(options);
        let path = watched.bench.write("f.so", &native("demo.F", "1"));
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        watched.until(Some("1"));
        for (version, rename) in [("2", true), ("3", false), ("1", true), ("2", false)] {
            let bytes = native("demo.F", version);
            let aside = watched.bench.write("f.so.new", &bytes);
            let target = if rename { &aside } else { &path };
            fs::write(target, &bytes).unwrap();
            fs::File::options().write(true).open(target).unwrap().set_modified(modified).unwrap();
            if rename {
                fs::rename(&aside, &path).unwrap();
            }
            watched.until(Some(version));
            assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), modified);
        }
    });
}

#[test]
fn leftovers_and_temporary_names_are_never_loaded() {
    let watched = Watched::new(WatchOptions::default());
    let bytes = component("demo.F", "1");
    for name in ["f.wasm~", ".f.wasm.swp", "f.wasm.tmp", ".f.wasm", "f.swp", "f", "4913"] {
        watched.bench.write(name, &bytes);
    }
    fs::create_dir(watched.bench.plugins().join("folder.wasm")).unwrap();
    watched.watcher.rescan();
    assert_eq!((watched.opened(), watched.bench.extensions.refused().len()), (0, 0));
}

/// A mounted volume: the file is a link, through a link that is swapped.
#[test]
fn a_swapped_volume_is_followed() {
    both(|options| {
        let bench = Bench::new();
        let folder = bench.plugins();
        let fill = |name: &str, version| {
            fs::create_dir(folder.join(name)).unwrap();
            fs::write(folder.join(name).join("f.wasm"), component("demo.F", version)).unwrap();
        };
        fill("..2026_1", "1");
        std::os::unix::fs::symlink("..2026_1", folder.join("..data")).unwrap();
        std::os::unix::fs::symlink("..data/f.wasm", folder.join("f.wasm")).unwrap();
        let watched = Watched::over(bench, options);
        assert_eq!(watched.bench.in_force("demo.F").as_deref(), Some("1"));
        fill("..2026_2", "2");
        std::os::unix::fs::symlink("..2026_2", folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
        fs::remove_dir_all(folder.join("..2026_1")).unwrap();
        watched.until(Some("2"));
        assert_eq!(watched.opened(), 2);
    });
}

/// The old version serves until the new one is whole; half a file is tried once, not again and again.
#[test]
fn half_a_file_never_becomes_active() {
    both(|options| {
        let watched = Watched::new(options);
        watched.bench.write("f.wasm", &component("demo.F", "1"));
        watched.until(Some("1"));
        let whole = component("demo.F", "2");
        watched.bench.write("f.wasm", &whole[..whole.len() - 1]);
        watched.watcher.rescan();
        let refused = watched.bench.extensions.refused();
        assert!(refused[0].reason.contains("it is cut"), "{}", refused[0].reason);
        for _ in 0..10 {
            watched.watcher.rescan();
        }
        assert_eq!(watched.bench.extensions.refused()[0].since, refused[0].since, "not tried again");
        assert_eq!(watched.bench.in_force("demo.F").as_deref(), Some("1"));
        watched.bench.write("f.wasm", &whole);
        watched.until(Some("2"));
        assert!(watched.bench.extensions.refused().is_empty());
    });
}

#[test]
fn a_refused_second_file_takes_over_when_the_first_is_deleted() {
    both(|options| {
        let watched = Watched::new(options);
        let first = watched.bench.write("f.wasm", &component("demo.F", "1"));
        watched.until(Some("1"));
        watched.bench.write("g.wasm", &component("demo.F", "2"));
        watched.watcher.rescan();
        assert_eq!(watched.bench.extensions.refused().len(), 1);
        fs::remove_file(first).unwrap();
        watched.until(Some("2"));
    });
}

#[test]
fn a_renamed_file_keeps_its_version_in_force() {
    both(|options| {
        let watched = Watched::new(options);
        let from = watched.bench.write("f.wasm", &component("demo.F", "1"));
        watched.until(Some("1"));
        let to = watched.bench.plugins().join("g.wasm");
        fs::rename(from, &to).unwrap();
        watched.watcher.rescan();
        assert_eq!(watched.bench.extensions.generation(), 1, "never withdrawn");
        fs::remove_file(to).unwrap();
        watched.until(None);
    });
}

#[test]
fn what_was_deleted_or_changed_while_weir_was_down_is_found_at_the_start() {
    let mut bench = Bench::new();
    bench.drop_in("f.wasm", &component("demo.F", "1")).unwrap();
    bench.drop_in("g.wasm", &component("demo.G", "1")).unwrap();
    bench.upload("demo.G", &component("demo.G", "5")).unwrap();
    fs::remove_file(bench.plugins().join("f.wasm")).unwrap();
    bench.restart();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    let watched = Watched::over(bench, WatchOptions::default());
    assert_eq!(watched.bench.in_force("demo.F"), None);
    assert_eq!(watched.bench.in_force("demo.G").as_deref(), Some("5"), "the upload is not undone");
}

/// A mount that is away is not a folder whose files were deleted.
#[test]
fn a_folder_that_is_away_withdraws_nothing() {
    let watched = Watched::new(WatchOptions::default());
    let folder = watched.bench.plugins();
    watched.bench.write("f.wasm", &component("demo.F", "1"));
    watched.watcher.rescan();
    let away = folder.with_extension("away");
    fs::rename(&folder, &away).unwrap();
    watched.watcher.rescan();
    assert_eq!(watched.bench.in_force("demo.F").as_deref(), Some("1"));
    fs::rename(&away, &folder).unwrap();
    watched.watcher.rescan();
    assert_eq!((watched.opened(), watched.bench.in_force("demo.F").as_deref()), (1, Some("1")));
}

#[test]
fn a_stopped_watcher_looks_no_more() {
    let bench = Bench::new();
    let options = WatchOptions { quiet: Duration::ZERO, ..WatchOptions::default() };
    let Watched { bench, watcher, .. } = Watched::over(bench, options);
    let probe = Arc::downgrade(&bench.extensions);
    watcher.stop();
    assert_eq!(probe.strong_count(), 1, "its thread has ended");
    bench.write("f.wasm", &component("demo.F", "1"));
    assert!(bench.extensions.info(&class("demo.F")).is_none());
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let bench = Bench::new();
    let missing = bench.plugins().join("missing");
    let result = Watcher::start(Arc::clone(&bench.extensions), missing, WatchOptions::default());
    assert_eq!(result.err().unwrap().kind(), std::io::ErrorKind::NotFound);
}
