//! Components that take what they should not have: each is cut, says why, and does no harm to the next
//! batch, whichever compiler its code is of.

use std::time::{Duration, Instant};

use super::{Bench, filter, guest, judge, text};
use crate::artifact::{Limits, Loaded};
use crate::filter::{BrokeKind, Verdict};
use crate::message::Messages;

const LIMITS: Limits = Limits { deadline: Duration::from_millis(50), memory: 64 << 20 };

/// For what is to be cut by another limit than its deadline, however busy the machine is.
const PATIENT: Limits = Limits { deadline: Duration::from_secs(60), ..LIMITS };

/// The smallest filter, which does this when it is asked about one message alone.
fn judging(fields: &str, body: &str) -> Vec<u8> {
    let wat = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/wat/accepts-everything.wat");
    let wat = std::fs::read_to_string(wat).unwrap();
    let judge = "(func (export \"judge\") (param $batch i32) (param $len i32) (result i32)";
    let alone = format!(
        "{judge} (if (i32.eq (i32.load (i32.add (local.get $batch) (i32.const 4))) (i32.const 1)) (then {body}))"
    );
    let with = wat.replace(judge, &alone).replace("(core module $m", &format!("(core module $m {fields}"));
    wat::parse_str(with).unwrap()
}

/// An answer of these bytes, for `judge` to return.
fn answer(code: u32, at: u32, len: u32) -> String {
    format!(
        "(drop (memory.grow (i32.const 640))) (i32.store (i32.const 48) (i32.const {code}))
         (i32.store (i32.const 52) (i32.const {at})) (i32.store (i32.const 56) (i32.const {len}))
         (return (i32.const 48))"
    )
}

/// Judges `n` messages on an instance of its own.
fn judged(loaded: &dyn Loaded, n: usize) -> Result<Vec<Verdict>, crate::Broke> {
    let (mut filter, fields) = filter(loaded, "{}").unwrap();
    let mut messages = Messages::new(fields);
    for _ in 0..n {
        messages.row();
    }
    judge(&mut *filter, &messages)
}

/// In what way a judgement of this component breaks, by either compiler; the next batch is judged.
#[track_caller]
fn cut(what: &str, component: &[u8], limits: Limits, kind: BrokeKind, because: &str) {
    for winch_from in [0, usize::MAX] {
        let bench = Bench::with(|options| options.winch_from = winch_from);
        let loaded = bench.component(component, limits).unwrap();
        let begun = Instant::now();
        let broke = judged(&*loaded, 1).unwrap_err();
        // 50 ms for one message; the rest is for a machine that is busy.
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: {:?}", begun.elapsed());
        assert_eq!(broke.kind, kind, "{what}: {broke}");
        assert!(broke.reason.contains(because), "{what}: {broke}");
        assert!(broke.reason.len() < 5000 && !broke.reason.contains('\n'), "{what}: {broke}");
        assert_eq!(judged(&*loaded, 3).unwrap(), [Verdict::Accept; 3], "{what}: a fresh instance");
    }
}

#[test]
fn loops_and_recursion_are_cut() {
    let recursion = "(func $deep (param i32) (result i32)
        (i32.add (i32.const 1) (call $deep (i32.add (local.get 0) (i32.const 1)))))";
    cut(
        "loops",
        &judging("", "(loop $again (br $again))"),
        LIMITS,
        BrokeKind::Deadline,
        "longer than its deadline",
    );
    cut(
        "recurses",
        &judging(recursion, "(return (call $deep (i32.const 0)))"),
        PATIENT,
        BrokeKind::Trap,
        "stack",
    );
}

#[test]
fn growth_is_cut() {
    let memory =
        "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable";
    cut("grows", &judging("", memory), PATIENT, BrokeKind::Memory, "67108864 bytes of memory");
    let table = "(loop $again
        (br_if $again (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1)))) unreachable";
    cut(
        "grows a table",
        &judging("(table $t 1 funcref)", table),
        PATIENT,
        BrokeKind::Memory,
        "memory that it may have",
    );
}

#[test]
fn answers_have_a_size() {
    let of = |code, len| judging("", &answer(code, 65536, len));
    cut("answers a gigabyte it has not", &of(0, 1 << 30), PATIENT, BrokeKind::Trap, "out of bounds");
    cut("answers 40 MiB", &of(0, 40 << 20), PATIENT, BrokeKind::Memory, "fuel allocated for hostcalls");
    cut("answers 10 MiB", &of(0, 10 << 20), PATIENT, BrokeKind::BadAnswer, "bytes of delays");
    cut("answers nothing", &of(0, 0), PATIENT, BrokeKind::BadAnswer, "0 verdicts for 1 messages");
    // Its own sentence is kept, and cut.
    cut("fails at length", &of(1, 10 << 20), PATIENT, BrokeKind::Error, "\\u{0}");
    cut("answers neither", &of(7, 0), PATIENT, BrokeKind::Trap, "discriminant");
}

#[test]
fn handles_have_a_number() {
    let wat = text("takes-handles-without-end");
    cut("takes handles", &wat, PATIENT, BrokeKind::Memory, "handle limit");
}

#[test]
fn what_it_prints_without_end_is_cut_and_not_all_logged() {
    for winch_from in [0, usize::MAX] {
        let bench = Bench::with(|options| options.winch_from = winch_from);
        let loaded = bench.component(&guest("misbehaving.wasm"), LIMITS).unwrap();
        let told = |what: &str| {
            let (mut filter, fields) = filter(&*loaded, "{}").unwrap();
            let mut messages = Messages::new(fields);
            messages.row().property("do", what);
            judge(&mut *filter, &messages)
        };
        assert_eq!(told("print-for-ever").unwrap_err().kind, BrokeKind::Deadline);
        let broke = told("sleep").unwrap_err();
        assert_eq!((broke.kind, broke.reason.contains("wasi:")), (BrokeKind::Trap, true), "{broke}");
        assert_eq!(told("panic-elsewhere").unwrap(), [Verdict::Broke], "it has no thread");
        assert_eq!(told("accept").unwrap(), [Verdict::Accept]);
    }
}

/// What it takes before it is asked anything.
#[test]
fn what_takes_too_much_from_the_start_is_refused() {
    let bench = Bench::new();
    let refused = |what: &str, component: &[u8], because: &str| {
        let error = bench.component(component, LIMITS).err().expect(what).to_string();
        assert!(error.contains(because), "{what}: {error}");
    };
    let fields = |fields: &str| judging(fields, "");
    refused("a large memory", &fields("(memory 65536)"), "it starts with a memory of 4294967296 bytes");
    refused("many tables", &fields(&"(table 1 funcref) ".repeat(65)), "65 tables, at most 64 are allowed");
    refused("many memories", &fields(&"(memory 1) ".repeat(17)), "memories, at most 16 are allowed");
    // Each is small enough.
    refused(
        "large memories together",
        &fields(&"(memory 400) ".repeat(3)),
        "no instance of it could be made (memory)",
    );
    refused("a large table", &fields("(table 200000 funcref)"), "no instance of it could be made (memory)");
    refused(
        "a start that loops",
        &fields("(func $start (loop $again (br $again))) (start $start)"),
        "no instance of it could be made (deadline)",
    );
}
