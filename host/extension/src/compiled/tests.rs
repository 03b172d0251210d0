use std::fs;
use std::path::PathBuf;

use super::*;
use crate::artifact::{Limits, Loaded};
use crate::child::tests::{shell, this_program};
use crate::component::Extension;
use crate::filter::Verdict;
use crate::message::Messages;
use crate::testing::{Bench, filter, guest, judge, sha256, text, until};

const PATIENT: Limits = Limits { deadline: Duration::from_secs(60), memory: 64 << 20 };

#[track_caller]
fn fails(script: &str, because: &str) {
    let ended = run(&shell(script), Task::Winch, b"", Duration::from_millis(200), &Ender::default());
    let error = ended.err().unwrap().to_string();
    assert!(error.contains(because), "{error}");
}

#[test]
fn each_end_of_a_child_has_its_sentence() {
    fails("echo 'bad magic' >&2; exit 3", "not a valid component: bad magic");
    fails("kill -ABRT $$", "more than 1024 MiB of memory");
    fails("exit 7", "ended with exit status: 7");
    fails("exec cat < /dev/zero", "longer than 0 s");
}

/// Tests nothing: it is the child of the next test.
#[test]
fn works_for_ever() {
    if std::env::var_os(child::CHILD).is_some() {
        child::limit_self(&limits(1)).unwrap();
        loop {
            std::hint::spin_loop();
        }
    }
}

#[test]
fn too_much_processor_time_is_told_as_that() {
    let args = ["--exact", "compiled::tests::works_for_ever", "--nocapture"].map(String::from).to_vec();
    let command = ChildCommand { args, ..ChildCommand::default() };
    let error = run(&command, Task::Winch, b"", CHILD_TIMEOUT, &Ender::default()).err().unwrap();
    let because = "too large: compiling it took more than 60 s of processor time";
    assert!(error.to_string().contains(because), "{error}");
}

/// A compiler whose children are this program, and where it keeps what they make.
fn compiler(winch_from: usize) -> (Compiler, Runtime, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(&folder.path().join("compiled")).unwrap();
    (Compiler::new(this_program(), cache, winch_from), Runtime::new(), folder)
}

impl Compiler {
    fn counted(&self) -> [u64; 3] {
        let Counters { compilations, found, damaged, .. } = &self.counters;
        [compilations, found, damaged].map(|counter| counter.load(Ordering::Relaxed))
    }

    fn opened(&self, runtime: &Runtime, bytes: &[u8]) -> (Extension, Tier) {
        let (component, tier) = self.first(runtime, bytes, &sha256(bytes)).unwrap();
        (Extension::open(runtime, &component, tier, PATIENT).unwrap(), tier)
    }
}

fn files(folder: &tempfile::TempDir) -> Vec<PathBuf> {
    fs::read_dir(folder.path().join("compiled")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// The guest accepts the first message of an instance only.
#[test]
fn an_instance_goes_on_with_better_code_between_two_batches() {
    let (compiler, runtime, folder) = compiler(0);
    let bytes = guest("misbehaving.wasm");
    let (loaded, tier) = compiler.opened(&runtime, &bytes);
    assert_eq!(tier, Tier::Winch);
    let compiled_by = || loaded.compiled_by().unwrap();
    assert_eq!((compiled_by().by, compiled_by().note.as_deref()), ("winch", Some("cranelift is compiling")));
    let (mut warm, fields) = filter(&loaded, "{}").unwrap();
    let mut messages = Messages::new(fields);
    messages.row().property("do", "first");
    messages.row().property("do", "reject");
    let mut judged = || judge(&mut *warm, &messages).unwrap();
    use Verdict::{Accept, Reject};
    assert_eq!(judged(), [Accept, Reject]);
    assert_eq!(judged(), [Reject, Reject]);

    let better = compiler.best(&runtime, &bytes, &sha256(&bytes), &Ender::default()).unwrap();
    loaded.code().replace(&better).unwrap();
    assert_eq!((compiled_by().by, compiled_by().note), ("cranelift", None));
    assert_eq!(judged(), [Accept, Reject], "the instance is a new one");
    assert_eq!(judged(), [Reject, Reject], "and stays");
    assert_eq!(files(&folder).len(), 1, "Winch's code is not kept any longer");
    assert_eq!(compiler.opened(&runtime, &bytes).1, Tier::Cranelift, "it is found compiled");
    assert_eq!(compiler.counted(), [2, 1, 0]);
}

#[test]
fn cranelift_follows_by_itself() {
    let bench = Bench::with(|options| options.winch_from = 0);
    for (name, by) in [("even.wasm", "cranelift"), ("any-lister.wasm", "cranelift")] {
        let loaded = bench.component(&guest(name), PATIENT).unwrap();
        until("Cranelift's code", || loaded.compiled_by().unwrap().by == by);
    }
    let figures = bench.loader.figures();
    assert_eq!((figures.compilations, figures.found_compiled, figures.damaged), (4, 0, 0));
    assert!(figures.compiling > Duration::ZERO);
}

/// Here it never ends.
#[test]
fn a_loader_that_goes_ends_what_is_compiled_behind() {
    let bench = Bench::with(|options| {
        options.winch_from = 0;
        let script = "[ $WEIR_CHILD = behind ] && exec cat < /dev/zero; exec \"$0\" \"$@\"";
        let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        let script = shell(script).args.into_iter().chain([program]);
        let args = script.chain(std::mem::take(&mut options.child.args)).collect();
        options.child = ChildCommand { program: "/bin/sh".into(), args };
    });
    let loaded = bench.component(&guest("even.wasm"), PATIENT).unwrap();
    let begun = Instant::now();
    drop(bench);
    assert!(begun.elapsed() < CHILD_TIMEOUT);
    assert_eq!(loaded.compiled_by().unwrap().by, "winch");
    let (mut filter, fields) = filter(&*loaded, "{}").unwrap();
    let mut messages = Messages::new(fields);
    messages.row().property("n", "2");
    assert_eq!(judge(&mut *filter, &messages).unwrap(), [Verdict::Accept]);
}

/// Winch has no tail calls, and no garbage collection.
#[test]
fn what_winch_cannot_do_is_done_by_cranelift() {
    let (compiler, runtime, _folder) = compiler(0);
    for name in ["has-tail-calls", "has-garbage-collection"] {
        let (loaded, tier) = compiler.opened(&runtime, &text(name));
        assert_eq!(tier, Tier::Cranelift, "{name}");
        let (mut filter, fields) = filter(&loaded, "{}").unwrap();
        let mut messages = Messages::new(fields);
        messages.row();
        assert_eq!(judge(&mut *filter, &messages).unwrap(), [Verdict::Accept], "{name}");
    }
    let error = compiler.first(&runtime, b"\0asm\x0d\0\x01\0\x7f\0", "00").err().unwrap();
    assert!(error.to_string().contains("not a valid component"), "{error}");
}

#[test]
fn small_components_are_compiled_once() {
    let (compiler, runtime, _folder) = compiler(1 << 20);
    assert_eq!(compiler.opened(&runtime, &text("accepts-everything")).1, Tier::Cranelift);
    assert_eq!(compiler.counted(), [1, 0, 0]);
}

#[test]
fn kept_code_that_is_damaged_or_foreign_is_made_again() {
    let (compiler, runtime, folder) = compiler(usize::MAX);
    let (bytes, other) = (text("accepts-everything"), text("grows-in-judge"));
    compiler.opened(&runtime, &bytes);
    let [place] = &files(&folder)[..] else { panic!("one file") };
    let mut damaged = fs::read(place).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(place, damaged).unwrap();
    compiler.opened(&runtime, &bytes);
    assert_eq!(compiler.counted(), [2, 0, 1]);
    compiler.opened(&runtime, &bytes);
    assert_eq!(compiler.counted(), [2, 1, 1], "it is whole again");

    compiler.opened(&runtime, &other);
    let foreign = files(&folder).into_iter().find(|path| path != place).unwrap();
    fs::copy(place, &foreign).unwrap();
    let (loaded, _) = compiler.opened(&runtime, &other);
    assert_eq!(loaded.description().class.as_str(), "demo.GrowsInJudge", "not the other one's code");
    assert_eq!(compiler.counted(), [4, 1, 2]);
}

#[test]
fn code_is_kept_for_an_engine_and_a_processor() {
    let runtime = Runtime::new();
    let keys = [Tier::Winch, Tier::Cranelift].map(|tier| key_of(runtime.engine(tier).unwrap()));
    assert_ne!(keys[0], keys[1]);
    assert_eq!(keys, [Tier::Winch, Tier::Cranelift].map(|tier| key_of(Runtime::new().engine(tier).unwrap())));
    let mut config = wasmtime::Config::new();
    config.concurrency_support(false).epoch_interruption(true).wasm_backtrace_max_frames(None);
    let with_its_features = key_of(&Engine::new(&config).unwrap());
    // A named target is a processor of its family with no more than what all of them have.
    config.target(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH)).unwrap();
    assert_ne!(key_of(&Engine::new(&config).unwrap()), with_its_features);
}
