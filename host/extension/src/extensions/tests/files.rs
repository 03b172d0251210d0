//! Files as a source: what is news, who brings a class, what goes with a file.

use super::super::fixture::{Bench, class, component, native, with_crc_of};
use super::super::{Form, RegisterError, Source};

/// A bench with `demo.F` version 1 from `f.wasm`.
fn with_file() -> Bench {
    let bench = Bench::new();
    bench.drop_in("f.wasm", &component("demo.F", "1")).unwrap();
    bench
}

#[test]
fn each_content_comes_into_force_also_an_earlier_one() {
    let bench = Bench::new();
    for version in ["1", "2", "3", "1"] {
        let registered = bench.drop_in("f.so", &native("demo.F", version)).unwrap();
        assert!(!registered.unchanged);
        assert_eq!(bench.in_force("demo.F").as_deref(), Some(version));
        assert_eq!(bench.extensions.info(&class("demo.F")).unwrap().sha256, registered.sha256);
    }
    assert_eq!(bench.extensions.info(&class("demo.F")).unwrap().form, Form::Native);
}

#[test]
fn a_file_taken_already_is_no_news() {
    let bench = with_file();
    bench.upload("demo.F", &component("demo.F", "2")).unwrap();
    assert!(bench.drop_in("f.wasm", &component("demo.F", "1")).unwrap().unchanged);
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));
    bench.drop_in("f.wasm", &component("demo.F", "3")).unwrap();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("3"));
}

#[test]
fn a_file_whose_class_was_removed_is_listed_with_what_to_do() {
    let mut bench = with_file();
    let path = bench.plugins().join("f.wasm");
    assert!(bench.extensions.refused().is_empty());
    bench.extensions.remove(&class("demo.F"), false).unwrap();
    let listed = |bench: &Bench| {
        let refused = bench.extensions.refused();
        assert_eq!((refused.len(), &refused[0].path, &refused[0].class), (1, &path, &Some(class("demo.F"))));
        assert!(refused[0].reason.contains("demo.F was removed; write the file anew"), "{refused:?}");
    };
    listed(&bench);
    bench.restart();
    assert!(bench.extensions.register(Source::File(path.clone())).unwrap().unchanged);
    listed(&bench);
    // The same bytes, written by somebody while we watch.
    bench.extensions.file_rewritten(&path);
    assert!(!bench.extensions.register(Source::File(path.clone())).unwrap().unchanged);
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    assert!(bench.extensions.refused().is_empty());
}

#[test]
fn a_file_written_anew_does_not_undo_an_upload() {
    let bench = with_file();
    bench.upload("demo.F", &component("demo.F", "2")).unwrap();
    let path = bench.plugins().join("f.wasm");
    bench.extensions.file_rewritten(&path);
    assert!(bench.extensions.register(Source::File(path)).unwrap().unchanged);
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));
    let refused = bench.extensions.refused();
    assert!(refused[0].reason.contains("replaced by an upload (PUT from a test)"), "{refused:?}");
    bench.upload("demo.F", &component("demo.F", "1")).unwrap();
    assert!(bench.extensions.refused().is_empty(), "its bytes are in force");
}

#[test]
fn a_file_that_is_gone_takes_its_version_along_and_no_other() {
    let bench = with_file();
    let path = bench.plugins().join("f.wasm");
    bench.upload("demo.F", &component("demo.F", "2")).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(bench.extensions.file_gone(&path), []);
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("2"));

    bench.drop_in("f.wasm", &component("demo.F", "3")).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(bench.extensions.file_gone(&path), [class("demo.F")]);
    assert_eq!(bench.in_force("demo.F"), None);
    assert!(bench.artifacts().is_empty());
    assert_eq!(bench.extensions.file_gone(&path), []);
}

#[test]
fn a_file_that_brought_two_classes_takes_both_along() {
    let mut bench = with_file();
    bench.drop_in("f.wasm", &component("demo.G", "2")).unwrap();
    // Overwritten by mistake, say: what was in force stays.
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    let path = bench.plugins().join("f.wasm");
    std::fs::remove_file(&path).unwrap();
    let mut gone = bench.extensions.file_gone(&path);
    gone.sort();
    assert_eq!(gone, [class("demo.F"), class("demo.G")]);
    assert!(bench.artifacts().is_empty());
    bench.restart();
    assert!(bench.extensions.list().is_empty());
}

#[test]
fn a_file_whose_digest_was_not_kept_is_missed_all_the_same() {
    let mut bench = with_file();
    std::fs::remove_file(bench.options.folder.join("files.json")).unwrap();
    bench.restart();
    let path = bench.plugins().join("f.wasm");
    assert!(bench.extensions.known_files().contains(&path));
    assert_eq!(bench.extensions.file_gone(&path), [class("demo.F")]);
}

#[test]
fn the_same_file_anew_is_news() {
    let bench = with_file();
    let path = bench.plugins().join("f.wasm");
    std::fs::remove_file(&path).unwrap();
    bench.extensions.file_gone(&path);
    assert!(!bench.drop_in("f.wasm", &component("demo.F", "1")).unwrap().unchanged);
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
}

#[test]
fn a_second_file_for_a_class_in_force_is_refused_naming_both() {
    let bench = with_file();
    let error = bench.drop_in("g.wasm", &component("demo.F", "2")).unwrap_err();
    assert!(matches!(error, RegisterError::SourceConflict { .. }));
    let (first, second) = (bench.plugins().join("f.wasm"), bench.plugins().join("g.wasm"));
    assert!(error.to_string().contains(first.to_str().unwrap()), "{error}");
    let last = bench.extensions.info(&class("demo.F")).unwrap().last_error.unwrap();
    assert_eq!(last, format!("{}: {error}", second.display()), "each file is named once");
    // Also with the same bytes, and also when an upload is in force over the first.
    assert!(bench.drop_in("g.wasm", &component("demo.F", "1")).is_err());
    bench.upload("demo.F", &component("demo.F", "3")).unwrap();
    assert!(bench.drop_in("g.wasm", &component("demo.F", "2")).is_err());
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("3"));

    let refused = bench.extensions.refused();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert_eq!((&refused[0].path, &refused[1].path), (&first, &second));
    assert!(refused[0].reason.contains("was replaced by an upload"), "{}", refused[0].reason);
    assert_eq!(refused[1].class, Some(class("demo.F")));
    assert_eq!(bench.extensions.waiting_files(), [second]);
}

#[test]
fn a_file_that_was_moved_takes_over_without_a_gap() {
    let bench = with_file();
    let generation = bench.extensions.generation();
    let (from, to) = (bench.plugins().join("f.wasm"), bench.plugins().join("g.wasm"));
    std::fs::rename(&from, &to).unwrap();
    assert!(bench.extensions.register(Source::File(to.clone())).unwrap().unchanged);
    assert_eq!(bench.extensions.file_gone(&from), []);
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    assert_eq!(bench.extensions.generation(), generation, "nothing was swapped");
    assert_eq!(bench.extensions.info(&class("demo.F")).unwrap().source, to.to_str().unwrap());
    assert_eq!(bench.extensions.file_gone(&to), [class("demo.F")]);
}

#[test]
fn a_refused_file_is_listed_until_it_is_good_or_gone() {
    let bench = with_file();
    bench.drop_in("x.wasm", b"<html>").unwrap_err();
    bench.drop_in("f.wasm", b"<html>").unwrap_err();
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    let refused = bench.extensions.refused();
    let listed: Vec<_> = refused.iter().map(|r| (r.path.file_name().unwrap(), r.class.clone())).collect();
    assert_eq!(listed, [("f.wasm".as_ref(), Some(class("demo.F"))), ("x.wasm".as_ref(), None)]);
    assert!(refused[1].reason.contains("not an extension"), "{}", refused[1].reason);
    let last_error = bench.extensions.info(&class("demo.F")).unwrap().last_error.unwrap();
    assert!(last_error.contains("f.wasm: not an extension"), "{last_error}");

    bench.drop_in("f.wasm", &component("demo.F", "1")).unwrap();
    bench.extensions.file_gone(&bench.plugins().join("x.wasm"));
    assert!(bench.extensions.refused().is_empty());
    assert_eq!(bench.extensions.info(&class("demo.F")).unwrap().last_error, None, "it is good again");
}

#[test]
fn native_libraries_can_be_limited_to_known_digests() {
    let known = super::super::Checksums::of(&native("demo.F", "1")).sha256;
    let bench = Bench::with(|options| options.native_sha256 = Some([known].into()));
    bench.drop_in("f.so", &native("demo.F", "1")).unwrap();
    let error = bench.drop_in("f.so", &native("demo.F", "2")).unwrap_err();
    assert!(matches!(error, RegisterError::NativeNotAllowed { .. }), "{error}");
    assert_eq!(bench.in_force("demo.F").as_deref(), Some("1"));
    assert_eq!(bench.lines.opened.lock().0, 1, "it was not opened");
    bench.drop_in("g.wasm", &component("demo.G", "1")).unwrap();
}

#[test]
fn a_file_with_the_crc32_of_the_one_in_force_is_a_conflict() {
    let bench = with_file();
    let forged = with_crc_of(&component("demo.F", "2"), &component("demo.F", "1"));
    let error = bench.drop_in("f.wasm", &forged).unwrap_err();
    assert!(matches!(error, RegisterError::ChecksumConflict { .. }), "{error}");
}

#[test]
fn what_is_no_plain_file_is_not_read() {
    let bench = Bench::new();
    let pipe = bench.plugins().join("f.wasm");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let error = bench.extensions.register(Source::File(pipe)).unwrap_err();
    assert!(error.to_string().contains("not a plain file"), "{error}");
}
