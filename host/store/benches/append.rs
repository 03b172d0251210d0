//! Appends through the store beside a bare file with the same fsyncs, in one run: what the engine costs.
//!
//! Each row writes the same entries in the same groups both ways: `group` entries are under way, and all
//! of them are durable before the next group starts. Ratios are what counts; the figures depend on the
//! disk. Run by `make bench`.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_channel::unbounded;
use weir_store::{Options, Position, Store, TopicId};

/// Entry sizes in bytes: a small message, a usual one, a producer's batch.
const SIZES: [usize; 3] = [100, 1024, 64 * 1024];
const GROUPS: [usize; 4] = [1, 16, 256, 4096];
/// The most bytes of a group: the store refuses appends when twice that is under way.
const LARGEST: usize = 64 << 20;
/// Each row runs for about so long, each way.
const ROW: Duration = Duration::from_millis(700);

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut out = io::stdout();
    writeln!(out, "{:>8} {:>6} {:>14} {:>14} {:>7}", "bytes", "group", "store/s", "bare file/s", "ratio")?;
    for size in SIZES {
        for group in GROUPS.into_iter().filter(|group| size * group <= LARGEST) {
            let folder = tempfile::tempdir()?;
            let payload = Bytes::from(pattern(size));
            let bare = bare_file(folder.path(), &payload, group)?;
            let store = store(folder.path(), &payload, group)?;
            writeln!(out, "{size:>8} {group:>6} {store:>14.0} {bare:>14.0} {:>7.2}", bare / store)?;
        }
    }
    let folder = tempfile::tempdir()?;
    let (entries, per_second) = scan(folder.path())?;
    writeln!(out, "scan of {entries} entries of 1024 bytes: {per_second:.0} a second")?;
    Ok(())
}

/// Bytes that do not compress to nothing.
fn pattern(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(size).collect()
}

fn bare_file(folder: &Path, payload: &[u8], group: usize) -> Result<f64, Failure> {
    let mut file = File::create(folder.join("bare"))?;
    let (mut written, begin) = (0, Instant::now());
    let mut buffer = Vec::with_capacity(payload.len() * group);
    while begin.elapsed() < ROW {
        buffer.clear();
        for _ in 0..group {
            buffer.extend_from_slice(payload);
        }
        file.write_all(&buffer)?;
        file.sync_data()?;
        written += group;
    }
    Ok(written as f64 / begin.elapsed().as_secs_f64())
}

fn store(folder: &Path, payload: &Bytes, group: usize) -> Result<f64, Failure> {
    let (store, _) = Store::open(&folder.join("store"), Options::default())?;
    let (mut written, begin) = (0, Instant::now());
    while begin.elapsed() < ROW {
        append(&store, payload, group)?;
        written += group;
    }
    Ok(written as f64 / begin.elapsed().as_secs_f64())
}

fn append(store: &Store, payload: &Bytes, count: usize) -> Result<(), Failure> {
    let log = store.entries();
    let (sender, answers) = unbounded();
    for _ in 0..count {
        let sender = sender.clone();
        // The receiver is there until all are answered.
        let done = Box::new(move |answer| drop(sender.send(answer)));
        log.append(TopicId(1), payload.clone(), 1, done);
    }
    for _ in 0..count {
        answers.recv()??;
    }
    Ok(())
}

fn scan(folder: &Path) -> Result<(usize, f64), Failure> {
    let (store, _) = Store::open(folder, Options::default())?;
    let payload = Bytes::from(pattern(1024));
    for _ in 0..50 {
        append(&store, &payload, 4_000)?;
    }
    let log = store.entries();
    let (mut from, mut read, begin) = (Position { ledger: 0, entry: 0 }, 0, Instant::now());
    loop {
        let entries = log.read(TopicId(1), from, 1_000, usize::MAX)?;
        let Some(last) = entries.last() else { break };
        read += entries.len();
        from = Position { entry: last.position.entry + 1, ..last.position };
    }
    Ok((read, read as f64 / begin.elapsed().as_secs_f64()))
}
