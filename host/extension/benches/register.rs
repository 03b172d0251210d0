//! How long it takes from bytes that arrive to the first verdict: compiled anew, and found compiled.
//!
//! A component of about 100 KiB and one of about 1.4 MB, which common crates make (regex, serde_json, toml). Anew
//! is what somebody waits for who has just built it: reading is done, everything else is in it, the writing
//! to disk too. Also shown is when Cranelift's code was in force, for which nobody waits.
//!
//! Run by `make bench`; exits with 1 when a bar is not held.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_extension::{CHILD, ClassName, Extensions, Kind, Limits, Messages, Options, Source, child_main};

/// Component, class, and the bars in milliseconds: anew and found compiled.
const COMPONENTS: [(&str, &str, f64, f64); 2] =
    [("urgent-west", "demo.UrgentWest", 120.0, 5.0), ("bulky", "demo.Bulky", 500.0, 15.0)];

const TURNS: usize = 9;

/// Registers, configures, makes an instance and has a message judged.
fn to_first_verdict(extensions: &Extensions, class: &ClassName, bytes: &[u8]) -> Duration {
    let source = Source::Upload {
        class: class.clone(),
        bytes: bytes.to_vec().into(),
        crc32: None,
        sha256: None,
        config: None,
        force: false,
        from: "a benchmark".into(),
    };
    let payload = bytes::Bytes::from_static(br#"{"who":"somebody@example.com"}"#);
    let begun = Instant::now();
    extensions.register(source).expect("the component is taken");
    let configured = extensions.configured(class, Kind::Filter, None).expect("it is in force");
    let mut filter = configured.filter().expect("an instance is made");
    let mut messages = Messages::new(Arc::clone(configured.reads()));
    messages.row().payload(&payload);
    let mut verdicts = Vec::new();
    filter.judge(&messages, &[0], &mut verdicts).expect("a message is judged");
    begun.elapsed()
}

/// Waits for Cranelift's code; how long that took.
fn to_cranelift(extensions: &Extensions, class: &ClassName) -> Duration {
    let begun = Instant::now();
    while extensions.info(class).expect("it is registered").code != "cranelift" {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    begun.elapsed()
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

#[expect(clippy::print_stdout, reason = "a benchmark's table is what it is run for")]
fn main() -> ExitCode {
    if std::env::var_os(CHILD).is_some() {
        return child_main();
    }
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../target").into());
    println!("from bytes to the first verdict, ms (median of {TURNS}); Cranelift's code in force after\n");
    println!(
        "{:<14}{:>9}{:>8}  {:<16}{:>10}  {:<16}{:>10}",
        "", "KiB", "anew", "bar", "compiled", "bar", "cranelift"
    );
    let mut held = true;
    let mut bar = |found: f64, bar: f64| {
        held &= found <= bar;
        format!("{bar} {}", if found <= bar { "held" } else { "NOT HELD" })
    };
    for (name, class, anew_bar, found_bar) in COMPONENTS {
        let path = Path::new(&target).join("guests").join(format!("{name}.wasm"));
        let bytes = std::fs::read(&path)
            .unwrap_or_else(|error| panic!("{}: {error}: run `make bench-guests`", path.display()));
        let class = ClassName::new(class).expect("a class name");
        let (mut anew, mut found, mut cranelift) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let limits = Limits { deadline: Duration::from_secs(10), ..Limits::default() };
            let extensions = Extensions::open(Options::new(folder.path().to_owned(), limits), Vec::new())
                .expect("a table of extensions");
            anew.push(to_first_verdict(&extensions, &class, &bytes));
            cranelift.push(to_cranelift(&extensions, &class));
            extensions.remove(&class, true).expect("it is registered");
            found.push(to_first_verdict(&extensions, &class, &bytes));
        }
        let (anew, found) = (median(&mut anew), median(&mut found));
        println!(
            "{name:<14}{:>9}{anew:>8.1}  {:<16}{found:>10.1}  {:<16}{:>10.1}",
            bytes.len() >> 10,
            bar(anew, anew_bar),
            bar(found, found_bar),
            anew + median(&mut cranelift)
        );
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
