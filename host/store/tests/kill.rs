//! `kill -9` while appends are under way: what was acknowledged is there, in order, once.
//!
//! Run as a child of itself: the parent reads what the child says is acknowledged, kills it somewhere in
//! the middle, opens the folder and compares; five times on one folder.

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use crossbeam_channel::bounded;
use weir_store::{CursorState, Options, Position, Store, StoredEntry, TopicId};

const TOPICS: u64 = 3;
const OPTIONS: Options = Options { max_entries_per_ledger: 100 };
/// How many appends of the child are under way at once.
const WINDOW: usize = 64;
/// The acknowledgements after which the child is killed, one for each round.
const ROUNDS: [usize; 5] = [1, 700, 40, 2_000, 3];

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("append-until-killed") => append_until_killed(Path::new(&arguments[2])),
        // Test runners ask for a list.
        Some("--list") => Ok(()),
        _ => acknowledged_appends_survive_a_kill(),
    }
}

/// The child. A line a fact: `sent is acknowledged at ledger:entry`, as numbers.
fn append_until_killed(folder: &Path) -> Result<(), Failure> {
    let (store, _) = Store::open(folder, OPTIONS)?;
    let (log, records) = (store.entries(), store.records());
    let mut next = HashMap::new();
    for topic in 0..TOPICS {
        next.insert(topic, read(&store, topic)?.len() as u64);
    }
    let (permit, permits) = bounded(WINDOW);
    let stop = Arc::new(AtomicBool::new(false));
    for turn in 0_u64.. {
        permit.send(())?;
        if stop.load(Ordering::SeqCst) {
            return Ok(());
        }
        let topic = turn % TOPICS;
        let number = next.get_mut(&topic).ok_or("an unknown topic")?;
        let (sent, permits, stop) = (*number, permits.clone(), stop.clone());
        *number += 1;
        let payload = sent.to_le_bytes().repeat(1 + usize::try_from(turn % 200)?);
        let done = Box::new(move |answer: Result<Position, _>| {
            let told = match answer {
                Ok(at) => writeln!(io::stdout(), "a {topic} {sent} {} {}", at.ledger, at.entry),
                Err(_) => Err(io::ErrorKind::Other.into()),
            };
            // The parent is gone, or an append failed: the test says so, there is nothing more to do.
            if told.is_err() {
                stop.store(true, Ordering::SeqCst);
            }
            let _ = permits.recv();
        });
        log.append(TopicId(topic), Bytes::from(payload), 1, done);
        if turn % 50 == 0 {
            let mark_delete = Some(Position { ledger: sent, entry: turn });
            records.put_cursor(
                TopicId(topic),
                "sub",
                &CursorState { mark_delete, ..CursorState::default() },
            )?;
            writeln!(io::stdout(), "c {topic} {sent} {turn} 0")?;
        }
    }
    Ok(())
}

fn acknowledged_appends_survive_a_kill() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let mut acknowledged: HashMap<(u64, u64), Position> = HashMap::new();
    for (round, enough) in ROUNDS.into_iter().enumerate() {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("append-until-killed")
            .arg(folder.path())
            .stdout(Stdio::piped())
            .spawn()?;
        let cursors = watch(&mut child, enough, &mut acknowledged)?;
        let (store, recovered) = Store::open(folder.path(), OPTIONS)?;
        for topic in 0..TOPICS {
            let entries = read(&store, topic)?;
            let numbers: Vec<u64> = entries.iter().map(number).collect();
            assert_eq!(
                numbers,
                (0..entries.len() as u64).collect::<Vec<_>>(),
                "in order, once, without gaps"
            );
            assert!(entries.is_sorted_by(|a, b| a.position < b.position));
            let at: HashMap<u64, Position> =
                entries.iter().map(|entry| (number(entry), entry.position)).collect();
            for ((_, sent), position) in acknowledged.iter().filter(|((of, _), _)| *of == topic) {
                assert_eq!(at.get(sent), Some(position), "entry {sent} of topic {topic} was acknowledged");
            }
            if let Some(told) = cursors.get(&topic) {
                let kept = store.records().cursors(TopicId(topic))?;
                let mark_delete = kept[0].1.mark_delete.ok_or("a cursor lost its position")?;
                assert!(mark_delete.entry >= *told, "cursor of topic {topic} went back");
            }
        }
        writeln!(
            io::stdout(),
            "round {round}: killed, {} appends acknowledged so far, all there; repaired: {:?}",
            acknowledged.len(),
            recovered.repaired
        )?;
    }
    assert!(acknowledged.len() >= ROUNDS.iter().sum());
    Ok(())
}

/// Notes what the child says, kills it after `enough` acknowledgements, and notes what it had said until
/// then. Returns the last turn of each topic's cursor.
fn watch(
    child: &mut Child,
    enough: usize,
    acknowledged: &mut HashMap<(u64, u64), Position>,
) -> Result<HashMap<u64, u64>, Failure> {
    let before = acknowledged.len();
    let mut cursors = HashMap::new();
    let mut killed = false;
    let mut said = BufReader::new(child.stdout.take().ok_or("no pipe")?);
    let mut line = String::new();
    while said.read_line(&mut line)? > 0 {
        // The kill may cut the last line.
        let Some(whole) = line.strip_suffix('\n') else { break };
        let (kind, numbers) = whole.split_once(' ').ok_or("not a line of ours")?;
        let numbers: Vec<u64> = numbers.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let &[topic, sent, a, b] = &numbers[..] else { return Err("not four numbers".into()) };
        match kind {
            "a" => {
                acknowledged.insert((topic, sent), Position { ledger: a, entry: b });
            }
            _ => {
                cursors.insert(topic, a);
            }
        }
        if !killed && acknowledged.len() - before >= enough {
            killed = true;
            child.kill()?;
        }
        line.clear();
    }
    let status = child.wait()?;
    assert!(killed, "the child ended by itself: {status}");
    Ok(cursors)
}

fn read(store: &Store, topic: u64) -> Result<Vec<StoredEntry>, Failure> {
    let from = Position { ledger: 0, entry: 0 };
    Ok(store.entries().read(TopicId(topic), from, usize::MAX, usize::MAX)?)
}

fn number(entry: &StoredEntry) -> u64 {
    entry.bytes.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
}
