use std::fs;
use std::path::Path;

use abi_stable::library::LibHeader;
use weir_plugin_api::native::v1_1;

use super::library::{Refusal, explain, header};
use super::*;
use crate::child::tests::{shell, this_program};
use crate::testing::{Bench, filter, guest, judge};

/// What a host of the next minor does with a library of that minor.
pub(super) fn open_as_next_minor(header: &'static LibHeader, version: String) -> Result<Library, Refusal> {
    let root: v1_1::RootRef = header.init_root_module().map_err(|error| explain(&error))?;
    let authors = root.authors().ok_or_else(|| "it names no authors".to_owned())?;
    assert!(!authors().is_empty());
    Ok(Library {
        version,
        start: root.start(),
        describe: root.describe(),
        filter: root.filter(),
        lister: root.lister(),
    })
}

#[test]
fn words_are_read() {
    let mut verdicts = Vec::new();
    read(&[0, 1, 2 | 1500 << 32, 3], &mut verdicts).unwrap();
    let later = Verdict::Reschedule(Delay::from_millis(1500));
    assert_eq!(verdicts, [Verdict::Accept, Verdict::Reject, later, Verdict::Broke]);
    assert_eq!(read(&[0, 4], &mut verdicts).unwrap_err().kind, BrokeKind::BadAnswer);
    assert_eq!(verdicts.len(), 4);
}

/// Tells the guest to do each of these, a message each; in one call.
fn told(loaded: &dyn Loaded, what: &[&str]) -> Result<Vec<Verdict>, Broke> {
    let (mut filter, fields) = filter(loaded, "{}").unwrap();
    let mut messages = Messages::new(fields);
    for what in what {
        messages.row().property("do", what);
    }
    judge(&mut *filter, &messages)
}

#[test]
fn panics_are_survived_and_end_the_instance() {
    let bench = Bench::new();
    let loaded = bench.native(&guest("misbehaving.so")).unwrap();
    let (mut filter, fields) = filter(&*loaded, "{}").unwrap();
    let mut messages = Messages::new(fields);
    messages.row().property("do", "panic");
    messages.row().property("do", "accept");
    let mut verdicts = Vec::new();
    let broke = filter.judge(&messages, &[0], &mut verdicts).unwrap_err();
    assert_eq!(broke.kind, BrokeKind::Panic);
    assert!(broke.reason.contains("told to panic"), "{broke}");
    let broke = filter.judge(&messages, &[1], &mut verdicts).unwrap_err();
    assert!(broke.reason.contains("must be thrown away"), "{broke}");
    assert!(verdicts.is_empty());
    assert_eq!(told(&*loaded, &["panic-with-a-value"]).unwrap_err().kind, BrokeKind::Panic);
    // A thread of the library's own ends alone.
    assert_eq!(told(&*loaded, &["panic-elsewhere", "reject"]).unwrap(), [Verdict::Accept, Verdict::Reject]);
    assert_eq!(told(&*loaded, &["error", "accept"]).unwrap(), [Verdict::Broke, Verdict::Accept]);
}

#[test]
fn panics_in_construction_and_drop_are_survived() {
    let bench = Bench::new();
    let loaded = bench.native(&guest("misbehaving.so")).unwrap();
    assert_eq!(loaded.configure(r#"{"new":"panic"}"#).unwrap_err().kind, BrokeKind::Panic);
    assert_eq!(loaded.configure(r#"{"new":"error"}"#).unwrap_err().kind, BrokeKind::Error);
    loaded.configure(r#"{"panic_in_drop":true}"#).unwrap();
}

/// dlopen gives back the library that it first opened by a path: version after version of one file
/// would be the first one.
#[test]
fn versions_of_one_file_are_libraries_of_their_own() {
    let bench = Bench::new();
    let verdict = |file: &str| {
        let loaded = bench.native(&guest(file)).unwrap();
        assert_eq!(loaded.description().class.as_str(), "demo.Swap");
        let (mut filter, fields) = filter(&*loaded, "{}").unwrap();
        let mut messages = Messages::new(fields);
        messages.row().property("n", "2");
        judge(&mut *filter, &messages).unwrap()[0]
    };
    assert_eq!(
        ["even.so", "odd.so", "even.so"].map(verdict),
        [Verdict::Accept, Verdict::Reject, Verdict::Accept]
    );
    assert_eq!(bench.loader.figures().libraries, 2, "what is open is used again");
    let left = fs::read_dir(bench.folder.path().join("extensions/native")).unwrap().count();
    assert_eq!(left, 0, "copies are not left behind");
}

/// The header of a library that is opened past the child.
fn opened(folder: &Path, file: &str) -> &'static LibHeader {
    let path = folder.join(file);
    fs::write(&path, guest(file)).unwrap();
    header(&path).unwrap()
}

#[test]
fn libraries_of_both_minors_are_taken_by_hosts_of_both() {
    let bench = Bench::new();
    let next = opened(bench.folder.path(), "next-minor.so");
    let first = opened(bench.folder.path(), "even.so");
    assert_eq!(next.version_strings().version.as_str(), "1.1.0");
    let an_older_host_takes_a_newer = Library::of_first_minor(next, "1.1.0".into()).unwrap();
    let a_host_takes_its_own = open_as_next_minor(next, "1.1.0".into()).unwrap();
    for library in [an_older_host_takes_a_newer, a_host_takes_its_own] {
        let loaded = Extension::open(library).unwrap();
        assert_eq!(loaded.description().contract, "1.1");
        assert_eq!(told(&loaded, &["accept", "reject"]).unwrap(), [Verdict::Accept, Verdict::Reject]);
    }
    // A newer host opens an older library as what it is: as its own minor it would be refused.
    assert!(open_as_next_minor(first, "1.0.0".into()).is_err());
    let a_newer_host_takes_an_older = Library::of(first, "1.0.0".into()).unwrap();
    let loaded = Extension::open(a_newer_host_takes_an_older).unwrap();
    assert_eq!(loaded.description().contract, "1.0");
    let (mut filter, fields) = filter(&loaded, "{}").unwrap();
    let mut messages = Messages::new(fields);
    messages.row().property("n", "2");
    assert_eq!(judge(&mut *filter, &messages).unwrap(), [Verdict::Accept]);
}

#[test]
fn a_library_of_others_is_refused_with_a_sentence() {
    let bench = Bench::new();
    // A shared library that this program has open anyway.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let path =
        maps.lines().filter_map(|line| line.split_whitespace().last()).find(|path| path.contains("libgcc_s"));
    let bytes = fs::read(path.expect("programs in Rust use libgcc_s to unwind")).unwrap();
    let error = bench.native(&bytes).err().unwrap().to_string();
    assert!(error.contains("without weir's root module"), "{error}");
    let error = bench.native(&guest("even.wasm")).err().unwrap().to_string();
    assert!(error.contains("component, not a native library"), "{error}");
    assert_eq!(bench.loader.figures().libraries, 0);
}

/// A contract that has the name and version of ours, and other types.
mod impostor {
    #![expect(dead_code, reason = "it is never opened, so nobody calls what it would have")]

    use abi_stable::StableAbi;
    use abi_stable::library::RootModule;
    use abi_stable::sabi_types::VersionStrings;

    #[repr(C)]
    #[derive(StableAbi)]
    #[sabi(kind(Prefix(prefix_ref = RootRef)))]
    #[sabi(missing_field(panic))]
    pub(super) struct Root {
        pub(super) start: extern "C" fn(host: u64),
        pub(super) describe: extern "C" fn() -> u64,
        pub(super) filter: extern "C" fn(config: u64) -> u64,
        #[sabi(last_prefix_field)]
        pub(super) lister: extern "C" fn(config: u64) -> u64,
    }

    impl RootModule for RootRef {
        abi_stable::declare_root_module_statics! {RootRef}
        const BASE_NAME: &'static str = "weir";
        const NAME: &'static str = "weir";
        const VERSION_STRINGS: VersionStrings = VersionStrings::new("1.0.0");
    }
}

/// abi_stable's own report is a dump of types, tens of kilobytes long.
#[test]
fn types_that_differ_are_told_in_a_sentence() {
    let bench = Bench::new();
    let error = opened(bench.folder.path(), "even.so").init_root_module::<impostor::RootRef>().err().unwrap();
    assert!(error.to_string().lines().count() > 10, "what would be shown otherwise: {error}");
    let Refusal { sentence, report } = explain(&error);
    assert!(report.is_some(), "it is kept for the log");
    assert!(
        sentence.contains("its types differ from those of the contract version that it names"),
        "{sentence}"
    );
    assert!(sentence.len() < 300 && !sentence.contains('\n'), "{sentence}");
}

/// A library whose constructor does this, written in C.
fn with_constructor(folder: &Path, name: &str, does: &str) -> Vec<u8> {
    let source = folder.join(format!("{name}.c"));
    let library = folder.join(format!("{name}.so"));
    let text = format!(
        "#include <stdlib.h>\n#include <stdio.h>\n#include <unistd.h>\n\
         __attribute__((constructor)) static void constructor(void) {{ {does} }}\n"
    );
    fs::write(&source, text).unwrap();
    // The compiler that Rust links with.
    let mut cc = std::process::Command::new("cc");
    let built = cc.args(["-shared", "-fPIC", "-o"]).args([&library, &source]).output();
    let built = built.expect("Rust links with cc");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    fs::read(library).unwrap()
}

#[test]
fn what_happens_as_a_library_is_opened_happens_to_a_child() {
    let bench = Bench::new();
    let folder = bench.folder.path().join("native");
    let mut libraries = Libraries::open(&folder, this_program(), 10).unwrap();
    let cases = [
        ("crashes", "*(volatile int *)0 = 1;", "crashed as it was opened, with signal 11 (SIGSEGV)"),
        (
            "aborts",
            "fputs(\"no\\nhope\", stderr); abort();",
            "with signal 6 (SIGABRT); that was a child of weir; it said: no hope",
        ),
        ("exits", "exit(0);", "ended the process as it was opened, with exit code 0"),
        ("exits-with-3", "_exit(3);", "ended the process as it was opened, with exit code 3"),
        ("hangs", "for (;;) pause();", "did not end within 300ms: an initialiser of it waits or loops"),
        ("loops", "for (volatile int n = 0;; n++) {}", "did not end within 300ms"),
        // It has what weir reads open.
        ("forks", "if (fork() == 0) for (;;) pause();", "without weir's root module"),
        ("prints", "puts(\"weir-frame1\"); fflush(stdout); sleep(0);", "without weir's root module"),
    ];
    for (name, does, because) in cases {
        let patient = if because.contains("300ms") { 300 } else { 60_000 };
        libraries.patience = std::time::Duration::from_millis(patient);
        let bytes = with_constructor(bench.folder.path(), name, does);
        let error = libraries.extension(&bytes, name, name.as_ref()).err().unwrap().to_string();
        assert!(error.contains(because), "{name}: {error}");
        assert!(error.len() < 600 && !error.contains('\n'), "{name}: {error}");
    }
    assert_eq!(libraries.count(), 0, "weir itself has opened none of them");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "copies are not left behind");
    // The next good one is taken as if nothing had been.
    let even = libraries.extension(&guest("even.so"), "even", "even.so".as_ref()).unwrap();
    assert_eq!(even.description().class.as_str(), "demo.Swap");
}

#[test]
fn only_so_many_libraries_are_held_open() {
    let bench = Bench::new();
    let libraries = Libraries::open(&bench.folder.path().join("native"), this_program(), 2).unwrap();
    let open = |file: &str| libraries.extension(&guest(file), file, file.as_ref()).map(|_| ());
    open("even.so").unwrap();
    open("odd.so").unwrap();
    let error = open("misbehaving.so").unwrap_err().to_string();
    assert!(
        error.contains("2 native libraries are open") && error.contains("plugins.max-native-libraries"),
        "{error}"
    );
    // What is open may be used again.
    open("even.so").unwrap();
    assert_eq!((libraries.count(), libraries.most()), (2, 2));
}

#[test]
fn a_library_that_two_threads_bring_at_once_is_opened_once() {
    let bench = Bench::new();
    let libraries = Libraries::open(&bench.folder.path().join("native"), this_program(), 1).unwrap();
    let both = std::sync::Barrier::new(2);
    let open = || {
        both.wait();
        libraries.extension(&guest("even.so"), "even", "even.so".as_ref()).unwrap()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(open);
        assert!(Arc::ptr_eq(&open(), &other.join().unwrap()));
    });
    assert_eq!(libraries.count(), 1);
}

/// Here the child says yes to everything.
#[test]
fn what_was_not_mapped_takes_no_place() {
    let bench = Bench::new();
    let yes = bench.folder.path().join("yes");
    fs::write(&yes, crate::frame::header("library", b"")).unwrap();
    let child = shell(&format!("cat {}", yes.display()));
    let libraries = Libraries::open(&bench.folder.path().join("native"), child, 1).unwrap();
    let foreign = with_constructor(bench.folder.path(), "foreign", "");
    for (bytes, because) in
        [(&b"no library"[..], "the system cannot load it"), (&foreign, "without weir's root module")]
    {
        let error = libraries.extension(bytes, "foreign", "foreign.so".as_ref()).err().unwrap().to_string();
        assert!(error.contains(because), "{error}");
        assert_eq!(libraries.count(), 0);
    }
    libraries.extension(&guest("even.so"), "even", "even.so".as_ref()).unwrap();
    assert_eq!(libraries.count(), 1);
}
