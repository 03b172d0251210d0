//! What a judgement costs, against a direct call of the same function.
//!
//! All alternatives run in one process, turn by turn, so that a machine that changes its speed changes
//! it for all of them; the ratio is the median of the ratios within a turn. A message is six borrowed
//! pairs of name and value; building the view of a batch is part of what is measured.
//!
//! Run by `make bench`; exits with 1 when a bar is not held.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use weir_extension::{CHILD, MessageFilter, Messages, Verdict, child_main, opened};

/// The most that a component may cost at a batch of 256, in direct calls.
const COMPONENT_BAR: f64 = 2.8;

/// The most that a native library may cost with its view built, in direct calls.
const NATIVE_BAR: f64 = 1.6;

/// How many turns each alternative has, and how long one is to take.
const TURNS: usize = 31;
const TURN: Duration = Duration::from_millis(5);

/// Messages in rotation: few enough to stay in the cache.
const MESSAGES: usize = 256;

type Message<'a> = Vec<(&'a str, &'a str)>;

/// Logic A: what the guest `urgent-west` does, called directly.
#[inline(never)]
fn direct(message: &[(&str, &str)]) -> bool {
    let get = |wanted: &str| message.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
    get("region") == Some("us-west")
        && get("priority").and_then(|value| value.parse::<i32>().ok()).is_some_and(|priority| priority > 3)
}

/// Values of six properties a message; a quarter of the messages passes.
fn values() -> Vec<[String; 6]> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    (0..MESSAGES)
        .map(|at| {
            let region = if below(1000) < 467 { 0 } else { 1 + below(3) as usize };
            [
                format!("tenant-{:04}", at % 37),
                ["us-west", "us-east", "eu-west", "ap-east"][region].into(),
                format!("order-{:012x}", below(1 << 48)),
                below(10).to_string(),
                "checkout-service".into(),
                format!("{:032x}", u128::from(below(u64::MAX)) * 77777),
            ]
        })
        .collect()
}

const NAMES: [&str; 6] = ["tenant", "region", "order-id", "priority", "source", "trace"];

/// One alternative: judges all messages and gives back how many pass.
struct Alternative<'a> {
    name: String,
    batch: usize,
    bar: Option<f64>,
    run: Box<dyn FnMut() -> usize + 'a>,
}

fn judged<'a>(
    mut filter: Box<dyn MessageFilter>,
    fields: std::sync::Arc<[weir_extension::Field]>,
    messages: &'a [Message<'a>],
    batch: usize,
) -> Box<dyn FnMut() -> usize + 'a> {
    let mut view = Some(Messages::new(fields));
    let mut verdicts = Vec::new();
    let rows: Vec<u32> = (0..batch as u32).collect();
    Box::new(move || {
        let mut passed = 0;
        for some in messages.chunks(batch) {
            let mut filled = view.take().expect("put back below");
            fill(&mut filled, some);
            verdicts.clear();
            filter.judge(&filled, &rows[..some.len()], &mut verdicts).expect("the guest judges all messages");
            passed += verdicts.iter().filter(|verdict| **verdict == Verdict::Accept).count();
            view = Some(filled.recycle());
        }
        passed
    })
}

/// As [`judged`] all at once, with a view that is already there: what a further filter of a chain costs.
fn judged_again<'a>(
    mut filter: Box<dyn MessageFilter>,
    fields: std::sync::Arc<[weir_extension::Field]>,
    messages: &'a [Message<'a>],
) -> Box<dyn FnMut() -> usize + 'a> {
    let mut view = Messages::new(fields);
    fill(&mut view, messages);
    let mut verdicts = Vec::new();
    let rows: Vec<u32> = (0..messages.len() as u32).collect();
    Box::new(move || {
        verdicts.clear();
        filter.judge(&view, &rows, &mut verdicts).expect("the guest judges all messages");
        verdicts.iter().filter(|verdict| **verdict == Verdict::Accept).count()
    })
}

/// The view of some messages.
#[inline(always)]
fn fill<'a>(view: &mut Messages<'a>, messages: &[Message<'a>]) {
    let first = view.append(messages.len());
    view.fill_properties(first, messages.iter().map(Vec::as_slice));
}

/// Builds views and judges nothing.
fn viewed<'a>(
    fields: std::sync::Arc<[weir_extension::Field]>,
    messages: &'a [Message<'a>],
) -> Box<dyn FnMut() -> usize + 'a> {
    let mut view = Some(Messages::new(fields));
    Box::new(move || {
        for some in messages.chunks(256) {
            let mut filled = view.take().expect("put back below");
            fill(&mut filled, some);
            view = Some(black_box(filled).recycle());
        }
        0
    })
}

/// Nanoseconds a message for each turn of each alternative.
fn measure(alternatives: &mut [Alternative<'_>]) -> Vec<Vec<f64>> {
    let repeats: Vec<u32> = alternatives
        .iter_mut()
        .map(|alternative| {
            let begun = Instant::now();
            let mut runs = 0;
            while begun.elapsed() < TURN {
                black_box((alternative.run)());
                runs += 1;
            }
            runs
        })
        .collect();
    let mut times = vec![Vec::new(); alternatives.len()];
    for _ in 0..TURNS {
        for ((alternative, repeats), times) in alternatives.iter_mut().zip(&repeats).zip(&mut times) {
            let begun = Instant::now();
            for _ in 0..*repeats {
                black_box((alternative.run)());
            }
            times.push(begun.elapsed().as_nanos() as f64 / f64::from(*repeats) / MESSAGES as f64);
        }
    }
    times
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn least_of(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

#[expect(clippy::print_stdout, reason = "a benchmark's table is what it is run for")]
fn main() -> ExitCode {
    if std::env::var_os(CHILD).is_some() {
        return child_main();
    }
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../target").into());
    let guests = std::path::Path::new(&target).join("guests");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = |file: &str| {
        let opened = opened(&guests.join(file), "{}", folder.path());
        opened.unwrap_or_else(|reason| panic!("{file}: {reason} (run `make guests` first)"))
    };
    let values = values();
    let messages: Vec<Message<'_>> = values
        .iter()
        .map(|values| NAMES.into_iter().zip(values.iter().map(String::as_str)).collect())
        .collect();

    let mut alternatives = vec![Alternative {
        name: "direct call".into(),
        batch: 1,
        bar: None,
        run: Box::new(|| messages.iter().filter(|message| direct(message)).count()),
    }];
    for (form, file) in [("native", "urgent-west.so"), ("component", "urgent-west.wasm")] {
        for batch in [1, 16, 256] {
            let (filter, fields) = open(file);
            let bar = (batch == 256).then_some(if form == "native" { NATIVE_BAR } else { COMPONENT_BAR });
            let run = judged(filter, fields, &messages, batch);
            alternatives.push(Alternative { name: form.into(), batch, bar, run });
        }
        let (filter, fields) = open(file);
        let run = judged_again(filter, fields, &messages);
        alternatives.push(Alternative { name: format!("{form}, shared view"), batch: 256, bar: None, run });
    }
    // The view alone: how much of the rest is not the form's.
    let fields: std::sync::Arc<[_]> =
        ["region", "priority"].map(|name| weir_extension::Field::Property(name.into())).into();
    alternatives.push(Alternative {
        name: "building the view alone".into(),
        batch: 256,
        bar: None,
        run: viewed(fields, &messages),
    });
    let expected = messages.iter().filter(|message| direct(message)).count();
    for alternative in &mut alternatives {
        let passed = (alternative.run)();
        assert!(passed == expected || passed == 0, "{}: {passed} of {expected}", alternative.name);
    }

    let times = measure(&mut alternatives);
    println!("{expected} of {MESSAGES} messages pass; ns a message, ratio to the direct call\n");
    println!("{:<26}{:>6}{:>9}{:>9}{:>8}{:>9}  bar", "", "batch", "least", "median", "ratio", "of least");
    let mut held = true;
    for (alternative, own) in alternatives.iter().zip(&times) {
        let ratio = median(own.iter().zip(&times[0]).map(|(own, direct)| own / direct).collect());
        let least = least_of(own);
        let bar = match alternative.bar {
            Some(bar) if ratio <= bar => format!("{bar}x held"),
            Some(bar) => {
                held = false;
                format!("{bar}x NOT HELD")
            }
            None => String::new(),
        };
        println!(
            "{:<26}{:>6}{least:>9.1}{:>9.1}{ratio:>7.2}x{:>8.2}x  {bar}",
            alternative.name,
            alternative.batch,
            median(own.clone()),
            least / least_of(&times[0]),
        );
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
