use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bytes::Bytes;
use wasmtime::StoreContextMut;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker};

use super::imports::{self, State};
use super::{Code, Exports, Extension, Linked, Runtime, Tier};
use crate::artifact::{Limits, Loaded};
use crate::filter::{BrokeKind, Delay, Verdict};
use crate::message::Messages;
use crate::testing::{Bench, filter, guest, judge};

const LIMITS: Limits = Limits { deadline: Duration::from_millis(50), memory: 32 << 20 };

/// For what is not to end at its deadline, however busy the machine is.
const PATIENT: Limits = Limits { deadline: Duration::from_secs(60), ..LIMITS };

fn misbehaving(bench: &Bench, limits: Limits) -> Arc<dyn Loaded> {
    bench.component(&guest("misbehaving.wasm"), limits).unwrap()
}

/// Tells the guest to do each of these, a message each; in one call.
fn told(loaded: &dyn Loaded, what: &[&str]) -> Result<Vec<Verdict>, crate::Broke> {
    let (mut filter, fields) = filter(loaded, "{}").unwrap();
    let mut messages = Messages::new(fields);
    for what in what {
        messages.row().property("do", what);
    }
    judge(&mut *filter, &messages)
}

#[track_caller]
fn breaks(loaded: &dyn Loaded, what: &str, kind: BrokeKind, because: &str) {
    let broke = told(loaded, &["accept", what]).unwrap_err();
    assert_eq!(broke.kind, kind, "{what}: {broke}");
    assert!(broke.reason.contains(because), "{what}: {broke}");
}

#[test]
fn each_way_to_break_is_told_apart() {
    let bench = Bench::new();
    breaks(&*misbehaving(&bench, LIMITS), "loop", BrokeKind::Deadline, "deadline");
    let loaded = misbehaving(&bench, PATIENT);
    breaks(&*loaded, "panic", BrokeKind::Trap, "told to panic");
    breaks(&*loaded, "undeclared", BrokeKind::Trap, "not among the fields");
    breaks(&*loaded, "recurse", BrokeKind::Trap, "stack");
    breaks(&*loaded, "sleep", BrokeKind::Trap, "wasi:");
}

#[test]
fn a_guest_that_grows_breaks_of_its_memory() {
    let bench = Bench::new();
    breaks(&*misbehaving(&bench, PATIENT), "grow", BrokeKind::Memory, "33554432 bytes");
}

#[test]
fn an_error_breaks_its_message_only() {
    let bench = Bench::new();
    let verdicts =
        told(&*misbehaving(&bench, PATIENT), &["error", "accept", "reject", "reschedule", "nonsense"])
            .unwrap();
    let later = Verdict::Reschedule(Delay::from_millis(1));
    assert_eq!(verdicts, [Verdict::Broke, Verdict::Accept, Verdict::Reject, later, Verdict::Broke]);
}

#[test]
fn output_is_captured_and_harmless() {
    let bench = Bench::new();
    let verdicts = told(&*misbehaving(&bench, PATIENT), &["print", "log"]).unwrap();
    assert_eq!(verdicts, [Verdict::Accept; 2]);
}

#[test]
fn hash_tables_have_their_seed() {
    let bench = Bench::new();
    let loaded = misbehaving(&bench, PATIENT);
    let (mut filter, fields) = filter(&*loaded, "{}").unwrap();
    let mut messages = Messages::new(fields);
    let payload = Bytes::from_static(b"payload");
    let mut row = messages.row();
    row.property("do", "hash");
    row.payload(&payload);
    assert_eq!(judge(&mut *filter, &messages).unwrap(), [Verdict::Accept]);
}

#[test]
fn an_endless_loop_ends_at_its_deadline_whatever_the_batch() {
    let bench = Bench::new();
    let loaded = misbehaving(&bench, LIMITS);
    let mut batch = vec!["accept"; 1000];
    batch.push("loop");
    let begun = Instant::now();
    assert_eq!(told(&*loaded, &batch).unwrap_err().kind, BrokeKind::Deadline);
    // 50 ms and 500 ms; the rest is for a machine that is busy.
    assert!(begun.elapsed() > Duration::from_millis(500), "{:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn an_instance_that_broke_refuses_every_later_call() {
    let bench = Bench::new();
    let loaded = misbehaving(&bench, PATIENT);
    let (mut filter, fields) = filter(&*loaded, "{}").unwrap();
    let mut messages = Messages::new(fields);
    messages.row().property("do", "panic");
    messages.row().property("do", "accept");
    let mut verdicts = Vec::new();
    filter.judge(&messages, &[0], &mut verdicts).unwrap_err();
    let broke = filter.judge(&messages, &[1], &mut verdicts).unwrap_err();
    assert_eq!(broke.kind, BrokeKind::Trap);
    assert!(
        broke.reason.contains("must be thrown away") && broke.reason.contains("told to panic"),
        "{broke}"
    );
    assert!(verdicts.is_empty());
}

#[test]
fn a_configuration_may_be_refused_and_may_break() {
    let bench = Bench::new();
    let loaded = misbehaving(&bench, LIMITS);
    let kinds: BTreeMap<&str, BrokeKind> = ["Error", "Panic", "Loop", "Grow"]
        .into_iter()
        .map(|new| {
            (new, loaded.configure(&format!(r#"{{"new":"{}"}}"#, new.to_lowercase())).unwrap_err().kind)
        })
        .collect();
    let expected = [
        ("Error", BrokeKind::Error),
        ("Grow", BrokeKind::Memory),
        ("Loop", BrokeKind::Deadline),
        ("Panic", BrokeKind::Trap),
    ];
    assert_eq!(kinds, expected.into());
}

#[test]
fn large_payloads_are_asked_for() {
    let bench = Bench::new();
    let loaded = misbehaving(&bench, PATIENT);
    let (mut filter, fields) = filter(&*loaded, "{}").unwrap();
    let payloads = [0, 1, 4096, 4097, 1 << 20, (1 << 20) + 1].map(|len| Bytes::from(vec![7; len]));
    let mut messages = Messages::new(fields);
    for payload in &payloads {
        let mut row = messages.row();
        row.property("do", "payload");
        row.payload(payload);
    }
    let verdicts = judge(&mut *filter, &messages).unwrap();
    use Verdict::{Accept, Reject};
    assert_eq!(verdicts, [Accept, Reject, Accept, Reject, Accept, Reject]);
    let mut some = Vec::new();
    filter.judge(&messages, &[3, 4], &mut some).unwrap();
    assert_eq!(some, [Reject, Accept], "rows are numbered from the batch that is asked for");
}

#[test]
fn a_component_that_starts_too_large_is_refused() {
    let bench = Bench::new();
    let limits = Limits { memory: 64 << 10, ..LIMITS };
    let error = bench.component(&guest("misbehaving.wasm"), limits).err().unwrap().to_string();
    assert!(error.contains("too greedy"), "{error}");
}

#[test]
fn compiled_code_is_found_again() {
    let bench = Bench::new();
    let bytes = guest("even.wasm");
    bench.component(&bytes, LIMITS).unwrap();
    let compiled = || std::fs::read_dir(bench.folder.path().join("extensions/compiled")).unwrap();
    let written = compiled().next().unwrap().unwrap().metadata().unwrap().modified().unwrap();
    bench.component(&bytes, LIMITS).unwrap();
    assert_eq!(compiled().count(), 1);
    assert_eq!(compiled().next().unwrap().unwrap().metadata().unwrap().modified().unwrap(), written);
}

/// A host of the next minor: it offers one function more, and looks for exports under its own version.
fn opened_by_the_next_minor(runtime: &Runtime, file: &str) -> Extension {
    let engine = runtime.cranelift();
    let component = Component::new(engine, guest(file)).unwrap();
    let mut linker = Linker::<State>::new(engine);
    for (name, import) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(interface) = &import.ty else { panic!("{name}") };
        imports::define(&mut linker, engine, name, interface).unwrap();
        if name.starts_with("weir:extension/host@") {
            let mut host = linker.instance(name).unwrap();
            host.func_wrap("batches", |_: StoreContextMut<'_, State>, (): ()| Ok((1_u64,))).unwrap();
        }
    }
    linker.define_unknown_imports_as_traps(&component).unwrap();
    let find = |interface: &str, function: &str| {
        let interface =
            component.get_export_index(None, format!("weir:extension/{interface}@1.1.0")).unwrap();
        component.get_export_index(Some(&interface), function).unwrap()
    };
    let exports = Exports {
        describe: find("meta", "describe"),
        configure: find("meta", "configure"),
        judge: Some(find("filter", "judge")),
        answer: None,
    };
    let pre = linker.instantiate_pre(&component).unwrap();
    let superseded = AtomicBool::new(false);
    let (ticker, tier) = (runtime.ticker.clone(), Tier::Cranelift);
    let linked = Linked { pre, ticker, exports, speaker: crate::said::Speaker::unknown(), tier, superseded };
    let description = linked.describe(&PATIENT).unwrap();
    Extension { description, code: Arc::new(Code::new(linked, PATIENT)) }
}

#[test]
fn components_of_both_minors_are_taken_by_a_host_of_the_next() {
    let runtime = Runtime::new();
    let first = opened_by_the_next_minor(&runtime, "misbehaving.wasm");
    assert_eq!(first.description.contract, "1.0");
    // `log` is one of the functions that it was built against as 1.0.
    assert_eq!(told(&first, &["accept", "log", "reject"]).unwrap()[2], Verdict::Reject);
    let next = opened_by_the_next_minor(&runtime, "next-minor.wasm");
    assert_eq!(next.description.contract, "1.1");
    let verdicts = told(&next, &["accept", "reject", "batches"]).unwrap();
    assert_eq!(verdicts, [Verdict::Accept, Verdict::Reject, Verdict::Accept]);
}

#[test]
fn a_deadline_may_be_as_long_as_it_likes() {
    let bench = Bench::new();
    let limits = Limits { deadline: Duration::MAX, ..LIMITS };
    assert_eq!(told(&*misbehaving(&bench, limits), &["accept", "reject"]).unwrap()[1], Verdict::Reject);
}
