//! The store as its callers see it: positions, order, ledgers, reading, reopening, deleting, failing.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::*;
use crate::disk::Point;
use crate::entries::{Counts, Position, Series, StoredEntry, TopicId};
use crate::records::CursorState;
use crate::writer::{MAX_HELD_BYTES, MAX_HELD_ENTRIES};

const TIMEOUT: Duration = Duration::from_secs(30);
const A: TopicId = TopicId(1);
const B: TopicId = TopicId(2);
const START: Position = Position { ledger: 0, entry: 0 };

fn open(folder: &TempDir) -> Store {
    open_rolling(folder, 50_000)
}

fn open_rolling(folder: &TempDir, max_entries_per_ledger: u64) -> Store {
    let (store, recovered) = Store::open(folder.path(), Options { max_entries_per_ledger }).unwrap();
    assert_eq!(recovered.repaired, Vec::<String>::new());
    store
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

type Answer = Result<Position, StoreError>;

fn send(log: &dyn EntryLog, topic: TopicId, bytes: &[u8], messages: u32, answers: &Sender<Answer>) {
    let answers = answers.clone();
    let done = Box::new(move |answer| answers.send(answer).unwrap());
    log.append(topic, Bytes::copy_from_slice(bytes), messages, done);
}

fn wait(answers: &Receiver<Answer>) -> Answer {
    answers.recv_timeout(TIMEOUT).expect("every append is answered")
}

fn append(store: &Store, topic: TopicId, bytes: &[u8], messages: u32) -> Answer {
    let (sender, answers) = unbounded();
    send(&*store.entries(), topic, bytes, messages, &sender);
    wait(&answers)
}

fn everything(store: &Store, topic: TopicId) -> Vec<StoredEntry> {
    store.entries().read(topic, START, usize::MAX, usize::MAX).unwrap()
}

fn payloads(store: &Store, topic: TopicId) -> Vec<String> {
    everything(store, topic).iter().map(|entry| String::from_utf8(entry.bytes.to_vec()).unwrap()).collect()
}

/// Forgets a topic and removes what it had.
fn delete(store: &Store, topic: TopicId) {
    store.entries().forget(topic).unwrap();
    assert!(store.entries().remove(topic, &|| true).unwrap());
}

#[test]
fn what_is_appended_is_read_byte_for_byte() {
    let folder = folder();
    let store = open(&folder);
    let large: Vec<u8> = (0..3_000_000_u32).map(|i| i.to_le_bytes()[0] ^ i.to_le_bytes()[2]).collect();
    for (bytes, messages) in [(&b""[..], 1), (b"\0\xff", 7), (&large, 1000)] {
        append(&store, A, bytes, messages).unwrap();
    }
    let read = everything(&store, A);
    assert_eq!(read.iter().map(|entry| entry.messages).collect::<Vec<_>>(), [1, 7, 1000]);
    assert_eq!(read[0].bytes, Bytes::new());
    assert_eq!(read[1].bytes, Bytes::from_static(b"\0\xff"));
    assert!(read[2].bytes == large);
}

#[test]
fn done_is_called_in_the_order_of_the_appends() {
    let folder = folder();
    let store = open_rolling(&folder, 300);
    let log = store.entries();
    let (sender, answers) = unbounded();
    for i in 0..5_000_u32 {
        send(&*log, if i % 3 == 0 { B } else { A }, &i.to_le_bytes(), 1, &sender);
    }
    let answered: Vec<Position> = (0..5_000).map(|_| wait(&answers).unwrap()).collect();
    let of = |wanted: TopicId| -> Vec<Position> {
        let topic = |i: usize| if i.is_multiple_of(3) { B } else { A };
        (0..5_000).filter(|&i| topic(i) == wanted).map(|i| answered[i]).collect()
    };
    for topic in [A, B] {
        let stored: Vec<Position> = everything(&store, topic).iter().map(|entry| entry.position).collect();
        assert_eq!(of(topic), stored, "positions of {topic:?} as answered and as stored");
        assert!(stored.is_sorted());
    }
    let values: Vec<u32> = everything(&store, B)
        .iter()
        .map(|entry| u32::from_le_bytes(entry.bytes[..].try_into().unwrap()))
        .collect();
    assert_eq!(values, (0..5_000).step_by(3).collect::<Vec<_>>());
}

#[test]
fn a_ledger_rolls_and_its_entries_count_from_zero() {
    let folder = folder();
    let store = open_rolling(&folder, 3);
    let positions: Vec<(u64, u64)> = (0..8)
        .map(|_| append(&store, A, b"x", 1).unwrap())
        .map(|position| (position.ledger, position.entry))
        .collect();
    let first = positions[0].0;
    let expected: Vec<(u64, u64)> = (0..8).map(|i| (first + i / 3, i % 3)).collect();
    assert_eq!(positions, expected);
}

#[test]
fn ledgers_are_never_reused_and_a_start_begins_new_ones() {
    let folder = folder();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let store = open(&folder);
        for topic in [A, B] {
            seen.push(append(&store, topic, b"x", 1).unwrap().ledger);
        }
        delete(&store, B);
    }
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
}

#[test]
fn reading_goes_across_ledgers_and_stops_at_its_limits() {
    let folder = folder();
    let store = open_rolling(&folder, 2);
    let positions: Vec<Position> =
        (0..7).map(|i| append(&store, A, format!("{i:04}").as_bytes(), 1).unwrap()).collect();
    let log = store.entries();
    let read = |from, entries, bytes| -> Vec<Position> {
        log.read(A, from, entries, bytes).unwrap().iter().map(|entry| entry.position).collect()
    };
    assert_eq!(read(positions[1], 4, usize::MAX), positions[1..5]);
    assert_eq!(read(positions[3], usize::MAX, usize::MAX), positions[3..]);
    assert_eq!(read(positions[0], 100, 11), positions[..2], "two entries of 4 bytes fit into 11");
    assert_eq!(read(positions[0], 100, 0), positions[..1], "the first one is given whatever its size");
    assert_eq!(read(positions[0], 0, 100), []);
    let beyond = Position { entry: positions[6].entry + 1, ..positions[6] };
    assert_eq!(read(beyond, 100, 100), []);
    let between = Position { entry: 99, ..positions[1] };
    assert_eq!(read(between, 1, 100), positions[2..3], "a position that is not there means the next");
}

#[test]
fn a_topic_does_not_see_its_neighbours() {
    let folder = folder();
    let store = open(&folder);
    append(&store, B, b"b", 1).unwrap();
    append(&store, TopicId(u64::MAX), b"m", 1).unwrap();
    assert_eq!(everything(&store, A), []);
    assert_eq!(store.entries().bounds(A).unwrap(), None);
    assert_eq!(store.entries().count_after(A, None).unwrap(), Counts::default());
    assert_eq!(payloads(&store, TopicId(u64::MAX)), ["m"]);
}

#[test]
fn bounds_and_counts_follow_the_entries() {
    let folder = folder();
    let store = open_rolling(&folder, 2);
    let positions: Vec<Position> = (1..=5).map(|i| append(&store, A, &[0; 10], i).unwrap()).collect();
    let log = store.entries();
    assert_eq!(log.bounds(A).unwrap(), Some((positions[0], positions[4])));
    assert_eq!(log.count_after(A, None).unwrap(), Counts { entries: 5, messages: 15, bytes: 50 });
    for (i, position) in positions.iter().enumerate() {
        let counts = log.count_after(A, Some(*position)).unwrap();
        let rest = &[1, 2, 3, 4, 5][i + 1..];
        assert_eq!(counts.entries, rest.len() as u64);
        assert_eq!(counts.messages, rest.iter().sum::<u64>());
        assert_eq!(counts.bytes, 10 * rest.len() as u64);
    }
}

#[test]
fn all_is_there_after_reopening() {
    let folder = folder();
    let cursor = CursorState {
        mark_delete: Some(Position { ledger: 0, entry: 3 }),
        done: vec![(Position { ledger: 0, entry: 7 }, Position { ledger: 4, entry: 8 })],
        partly: vec![(Position { ledger: 0, entry: 5 }, vec![1, 4])],
    };
    let before = {
        let store = open(&folder);
        for i in 0..10 {
            append(&store, A, format!("{i}").as_bytes(), 2).unwrap();
        }
        store.records().put("topics", "a", &"A".to_owned()).unwrap();
        store.records().put_cursor(A, "sub", &cursor).unwrap();
        everything(&store, A)
    };
    let (store, recovered) = Store::open(folder.path(), Options::default()).unwrap();
    assert_eq!(recovered, Recovered { topics: 1, repaired: Vec::new() });
    assert_eq!(everything(&store, A), before);
    assert_eq!(store.records().get("topics", "a").unwrap(), Some("A".to_owned()));
    assert_eq!(store.records().cursors(A).unwrap(), [("sub".to_owned(), cursor)]);
    append(&store, A, b"10", 2).unwrap();
    assert_eq!(store.entries().count_after(A, None).unwrap().messages, 22, "counts go on where they were");
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Tenant {
    name: String,
    clusters: Vec<String>,
}

#[test]
fn records_are_kept_by_table_and_key() {
    let folder = folder();
    let records = open(&folder).records();
    let tenant = |name: &str| Tenant { name: name.to_owned(), clusters: vec!["one".to_owned()] };
    for key in ["b/1", "a/2", "a/1", "a/ü", "aa"] {
        records.put("tenants", key, &tenant(key)).unwrap();
    }
    records.put("tenant", "sa/1", &tenant("of another table")).unwrap();
    let keys = |prefix| -> Vec<String> {
        records.scan::<Tenant>("tenants", prefix).unwrap().into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(keys("a/"), ["a/1", "a/2", "a/ü"]);
    assert_eq!(keys(""), ["a/1", "a/2", "a/ü", "aa", "b/1"]);
    records.put("tenants", "a/1", &tenant("changed")).unwrap();
    assert_eq!(records.get("tenants", "a/1").unwrap(), Some(tenant("changed")));
    records.delete("tenants", "a/1").unwrap();
    records.delete("tenants", "never there").unwrap();
    assert_eq!(records.get::<Tenant>("tenants", "a/1").unwrap(), None);
    let error = records.get::<u32>("tenants", "aa").unwrap_err();
    assert_eq!(error.to_string(), "record \"aa\" of table tenants cannot be read or written");
}

#[test]
fn cursors_are_kept_by_topic_and_subscription() {
    let folder = folder();
    let store = open(&folder);
    let records = store.records();
    let at =
        |entry| CursorState { mark_delete: Some(Position { ledger: 1, entry }), ..CursorState::default() };
    records.put_cursor(A, "late", &at(1)).unwrap();
    records.put_cursor(A, "late", &at(2)).unwrap();
    records.put_cursor(A, "all", &CursorState::default()).unwrap();
    records.put_cursor(B, "late", &at(9)).unwrap();
    let of_a = [("all".to_owned(), CursorState::default()), ("late".to_owned(), at(2))];
    assert_eq!(records.cursors(A).unwrap(), of_a);
    records.delete_cursor(A, "all").unwrap();
    assert_eq!(records.cursors(A).unwrap(), of_a[1..]);
    let long = "s".repeat(40_000);
    assert!(matches!(records.put_cursor(A, &long, &at(1)), Err(StoreError::KeyTooLong { .. })));
}

#[test]
fn topic_ids_are_given_once() {
    let folder = folder();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let records = open(&folder).records();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let records = records.clone();
                std::thread::spawn(move || {
                    (0..5).map(|_| records.new_topic_id().unwrap()).collect::<Vec<_>>()
                })
            })
            .collect();
        ids.extend(threads.into_iter().flat_map(|thread| thread.join().unwrap()));
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 40);
}

#[test]
fn a_deleted_topic_is_gone_for_good() {
    let folder = folder();
    {
        let store = open_rolling(&folder, 700);
        let (sender, answers) = unbounded();
        for _ in 0..2_500 {
            send(&*store.entries(), A, b"a", 1, &sender);
        }
        for _ in 0..2_500 {
            wait(&answers).unwrap();
        }
        append(&store, B, b"b", 1).unwrap();
        store.records().put_cursor(A, "sub", &CursorState::default()).unwrap();
        delete(&store, A);
        assert_eq!(everything(&store, A), []);
        let error = append(&store, A, b"late", 1).unwrap_err();
        assert_eq!(error.to_string(), "topic 1 is deleted");
    }
    let (store, recovered) = Store::open(folder.path(), Options::default()).unwrap();
    assert_eq!(recovered.topics, 1);
    assert_eq!(everything(&store, A), []);
    assert_eq!(store.entries().bounds(A).unwrap(), None);
    assert_eq!(store.records().cursors(A).unwrap(), []);
    assert_eq!(payloads(&store, B), ["b"]);
}

#[test]
fn a_deletion_that_is_interrupted_goes_on_after_a_restart() {
    let folder = folder();
    let removed = |store: &Store| store.log.disk.topics().unwrap().deleting.is_empty();
    {
        let store = open(&folder);
        for _ in 0..3 {
            let (sender, answers) = unbounded();
            for _ in 0..1_000 {
                send(&*store.entries(), A, b"a", 1, &sender);
            }
            for _ in 0..1_000 {
                wait(&answers).unwrap();
            }
        }
        store.records().put_cursor(A, "sub", &CursorState::default()).unwrap();
        store.entries().forget(A).unwrap();
        assert_eq!(everything(&store, A), []);
        // One step, and the end of the process.
        let steps = std::cell::Cell::new(0);
        let once = || steps.replace(steps.get() + 1) == 0;
        assert!(!store.entries().remove(A, &once).unwrap());
        assert!(!removed(&store));
    }
    let (store, recovered) = Store::open(folder.path(), Options::default()).unwrap();
    assert_eq!(recovered.topics, 0);
    assert_eq!(store.entries().forgotten().unwrap(), [A]);
    assert_eq!(everything(&store, A), []);
    assert!(append(&store, A, b"late", 1).is_err());
    // The next topic takes entries meanwhile.
    append(&store, B, b"b", 1).unwrap();
    delete(&store, A);
    assert!(removed(&store));
    assert_eq!(store.records().cursors(A).unwrap(), []);
    assert_eq!(payloads(&store, B), ["b"]);
    drop(store);
    // Seen by a process that knows of no deletion: there is nothing left.
    let (store, recovered) = Store::open(folder.path(), Options::default()).unwrap();
    assert_eq!((recovered.topics, everything(&store, A)), (1, vec![]));
}

#[test]
fn a_folder_of_another_format_is_refused_and_left_alone() {
    let folder = folder();
    append(&open(&folder), A, b"a", 1).unwrap();
    let file = folder.path().join("format");
    let refused = |content: Option<&[u8]>| {
        match content {
            Some(content) => fs::write(&file, content).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        let error = Store::open(folder.path(), Options::default()).err().expect("is refused").to_string();
        error.strip_prefix(&folder.path().display().to_string()).expect("names the folder").to_owned()
    };
    let ours = fs::read(&file).unwrap();
    assert_eq!(refused(Some(b"weir store format 2\n")), " holds data of format 2, this weir reads format 1");
    assert_eq!(
        refused(Some(b"\xff\xfe")),
        " holds data of format unknown (its file `format` is not text), this weir reads format 1"
    );
    assert_eq!(
        refused(None),
        " holds data of format unknown (its file `format` is missing), this weir reads format 1"
    );
    fs::write(&file, ours).unwrap();
    assert_eq!(payloads(&open(&folder), A), ["a"]);
}

#[test]
fn a_folder_in_use_is_refused_until_it_is_free() {
    let folder = folder();
    let store = open(&folder);
    let records = store.records();
    drop(store);
    let error = Store::open(folder.path(), Options::default()).err().expect("records still hold it");
    assert_eq!(error.to_string(), format!("{} is in use by another process", folder.path().display()));
    drop(records);
    open(&folder);
}

#[test]
fn a_first_start_that_was_interrupted_leaves_nothing_in_the_way() {
    let folder = folder();
    fs::create_dir_all(folder.path().join("engine.new/keyspaces")).unwrap();
    fs::write(folder.path().join("engine.new/0.jnl"), b"half").unwrap();
    append(&open(&folder), A, b"a", 1).unwrap();
    assert_eq!(payloads(&open(&folder), A), ["a"]);
}

/// A store whose disk fails where `plan` says, by the number of the write (from 0, after the start).
fn open_failing(folder: &TempDir, plan: impl Fn(Point) -> bool + Send + Sync + 'static) -> Store {
    let faults =
        Faults::new(
            move |point| {
                if plan(point) { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
            },
        );
    Store::open_with(folder.path(), &Options::default(), faults).unwrap().0
}

/// Nobody writes meanwhile: the store tries by itself.
fn until_recovered(store: &Store) {
    let deadline = std::time::Instant::now() + TIMEOUT;
    while let Some(paused) = store.entries().paused() {
        assert!(std::time::Instant::now() < deadline, "the store never recovered: {paused}");
        std::thread::yield_now();
    }
}

fn check_failed_write(failing: Point) {
    let folder = folder();
    let broken = Arc::new(AtomicUsize::new(0));
    let plan = {
        let broken = broken.clone();
        move |point| point == failing && broken.load(Ordering::SeqCst) > 0
    };
    let store = open_failing(&folder, plan);
    let acknowledged = append(&store, A, b"before", 1).unwrap();
    broken.store(1, Ordering::SeqCst);
    let error = append(&store, A, b"failed", 1).unwrap_err();
    assert_eq!(error.to_string(), "storage failed: no storage space");
    assert_eq!(everything(&store, A)[0].position, acknowledged, "can still be read");
    broken.store(0, Ordering::SeqCst);
    until_recovered(&store);
    let after = append(&store, A, b"after", 1).unwrap();
    assert!(after.ledger > acknowledged.ledger);
    let check = |store: &Store| {
        let found = payloads(store, A);
        let counts = store.entries().count_after(A, Some(acknowledged)).unwrap();
        assert_eq!(counts.entries, found.len() as u64 - 1);
        let acknowledged = found.into_iter().filter(|payload| payload != "failed");
        assert_eq!(acknowledged.collect::<Vec<_>>(), ["before", "after"]);
    };
    check(&store);
    drop(store);
    check(&open(&folder));
}

#[test]
fn a_write_that_fails_loses_nothing_acknowledged() {
    check_failed_write(Point::Write);
}

#[test]
fn a_sync_that_fails_loses_nothing_acknowledged() {
    check_failed_write(Point::Sync);
}

#[test]
fn appends_fail_while_the_disk_does_and_work_when_it_does() {
    let folder = folder();
    let broken = Arc::new(AtomicUsize::new(0));
    let plan = {
        let broken = broken.clone();
        move |_| broken.load(Ordering::SeqCst) > 0
    };
    let store = open_failing(&folder, plan);
    append(&store, A, b"0", 1).unwrap();
    broken.store(1, Ordering::SeqCst);
    append(&store, A, b"lost", 1).unwrap_err();
    for _ in 0..20 {
        let error = append(&store, A, b"lost", 1).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StoreError::Paused(_)), "{text}");
        assert!(text.starts_with("storage is paused: no storage space, next try in "), "{text}");
    }
    assert!(matches!(store.records().put("t", "k", &1), Err(StoreError::Paused(_))));
    assert_eq!(
        store.entries().paused().map(|paused| paused.cause.to_string()).as_deref(),
        Some("no storage space")
    );
    assert_eq!(payloads(&store, A), ["0"], "what is there can be read");
    broken.store(0, Ordering::SeqCst);
    // The pause before the next try has an end, whether or not somebody writes.
    until_recovered(&store);
    append(&store, A, b"1", 1).unwrap();
    assert_eq!(payloads(&store, A), ["0", "1"]);
    store.records().put("t", "k", &1).unwrap();
}

#[test]
fn what_follows_a_failed_append_of_its_series_is_not_stored() {
    let folder = folder();
    let broken = Arc::new(AtomicUsize::new(0));
    // The first write waits, with the others behind it, and fails.
    let (entered, inside) = unbounded::<()>();
    let (go, gate) = unbounded::<()>();
    let plan = {
        let broken = broken.clone();
        move |point| {
            let first = point == Point::Write && broken.swap(0, Ordering::SeqCst) > 0;
            if first {
                entered.send(()).unwrap();
                gate.recv_timeout(TIMEOUT).unwrap();
            }
            first
        }
    };
    let store = open_failing(&folder, plan);
    let log = store.entries();
    let (one, other) = (Series::default(), Series::default());
    let (sender, answers) = unbounded();
    let send = |series: &Series, text: &'static str| {
        let answers = sender.clone();
        let done = Box::new(move |answer: Answer| answers.send((text, answer)).unwrap());
        log.append_in(series, A, Bytes::from_static(text.as_bytes()), 1, done);
    };
    broken.store(1, Ordering::SeqCst);
    send(&one, "m0");
    inside.recv_timeout(TIMEOUT).unwrap();
    send(&one, "m1");
    send(&other, "of another");
    go.send(()).unwrap();
    let answered: BTreeMap<_, _> = (0..3).map(|_| answers.recv_timeout(TIMEOUT).unwrap()).collect();
    assert!(matches!(answered["m0"], Err(StoreError::Engine(_))), "{answered:?}");
    assert!(matches!(answered["m1"], Err(StoreError::AfterFailure)), "{answered:?}");
    assert!(answered["of another"].is_ok(), "{answered:?}");
    assert!(one.has_ended() && !other.has_ended());
    until_recovered(&store);
    send(&one, "m2");
    let (_, refused) = answers.recv_timeout(TIMEOUT).unwrap();
    assert!(matches!(refused, Err(StoreError::AfterFailure)), "{refused:?}");
    // The producer comes again.
    let again = Series::default();
    for text in ["m0", "m1", "m2"] {
        send(&again, text);
    }
    for _ in 0..3 {
        answers.recv_timeout(TIMEOUT).unwrap().1.unwrap();
    }
    assert_eq!(payloads(&store, A), ["of another", "m0", "m1", "m2"]);
}

#[test]
fn what_waits_is_bounded_and_refused_with_a_reason() {
    let folder = folder();
    let store = open(&folder);
    let log = store.entries();
    let (sender, answers) = unbounded();
    // The writer stands still in the first answer until we let it go on.
    let (go, gate) = unbounded::<()>();
    let (entered, inside) = unbounded::<()>();
    log.append(
        A,
        Bytes::from_static(b"first"),
        1,
        Box::new(move |_| {
            entered.send(()).unwrap();
            gate.recv_timeout(TIMEOUT).unwrap();
        }),
    );
    inside.recv_timeout(TIMEOUT).unwrap();
    let shared = Bytes::from(vec![7; 1 << 20]);
    let fits = MAX_HELD_BYTES / shared.len() - 1;
    for _ in 0..fits {
        let answers = sender.clone();
        log.append(A, shared.clone(), 1, Box::new(move |answer| answers.send(answer).unwrap()));
    }
    assert!(answers.is_empty());
    let (refusal, refused) = unbounded();
    log.append(A, shared.clone(), 1, Box::new(move |answer| refusal.send(answer).unwrap()));
    let error = refused.try_recv().expect("answered at once").unwrap_err();
    assert!(matches!(error, StoreError::Busy { entries, .. } if entries == fits + 1), "{error}");
    go.send(()).unwrap();
    for _ in 0..fits {
        wait(&answers).unwrap();
    }
    append(&store, A, b"there is room again", 1).unwrap();
    const { assert!(MAX_HELD_ENTRIES >= 1000) };
}

#[test]
fn a_callback_that_panics_harms_nobody_else() {
    let folder = folder();
    let store = open(&folder);
    store.entries().append(A, Bytes::from_static(b"a"), 1, Box::new(|_| panic!("by intention")));
    append(&store, A, b"b", 1).unwrap();
    assert_eq!(payloads(&store, A), ["a", "b"]);
}

#[test]
fn closing_writes_what_is_queued() {
    let folder = folder();
    let store = open(&folder);
    let answered = Arc::new(Mutex::new(0));
    for i in 0..3_000_u32 {
        let answered = answered.clone();
        let done = Box::new(move |answer: Answer| {
            answer.unwrap();
            *answered.lock() += 1;
        });
        store.entries().append(A, Bytes::copy_from_slice(&i.to_le_bytes()), 1, done);
    }
    drop(store);
    assert_eq!(*answered.lock(), 3_000);
    assert_eq!(everything(&open(&folder), A).len(), 3_000);
}

#[test]
fn the_last_holder_may_be_a_callback() {
    let folder = folder();
    let store = open(&folder);
    let (sender, done) = unbounded();
    let held = store.entries();
    store.entries().append(
        A,
        Bytes::from_static(b"a"),
        1,
        Box::new(move |answer| {
            drop(held);
            sender.send(answer).unwrap();
        }),
    );
    drop(store);
    done.recv_timeout(TIMEOUT).unwrap().unwrap();
}

#[derive(Clone, Debug)]
enum Step {
    Append { topic: u64, sizes: Vec<u8> },
    Read { topic: u64, from: usize, entries: usize, bytes: usize },
    Reopen,
    Delete { topic: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let topic = 0_u64..3;
    let step = prop_oneof![
        6 => (topic.clone(), proptest::collection::vec(any::<u8>(), 1..20))
            .prop_map(|(topic, sizes)| Step::Append { topic, sizes }),
        4 => (topic.clone(), 0_usize..60, 0_usize..30, 0_usize..2_000)
            .prop_map(|(topic, from, entries, bytes)| Step::Read { topic, from, entries, bytes }),
        1 => Just(Step::Reopen),
        1 => topic.prop_map(|topic| Step::Delete { topic }),
    ];
    proptest::collection::vec(step, 1..25)
}

/// What a list in memory gives for the same read.
fn read_model(model: &[StoredEntry], from: Position, entries: usize, bytes: usize) -> Vec<StoredEntry> {
    let mut taken = 0;
    let mut read = Vec::new();
    for entry in model.iter().filter(|entry| entry.position >= from).take(entries) {
        taken += entry.bytes.len();
        if taken > bytes && !read.is_empty() {
            break;
        }
        read.push(entry.clone());
    }
    read
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn does_what_a_list_in_memory_does(steps in steps()) {
        let folder = folder();
        let mut store = open_rolling(&folder, 7);
        // Names as a broker has them: a deleted one comes back under a new number.
        let mut topics = [TopicId(0), TopicId(1), TopicId(2)];
        let mut model: BTreeMap<TopicId, Vec<StoredEntry>> = BTreeMap::new();
        let mut written = 0_u8;
        for step in steps {
            match step {
                Step::Append { topic, sizes } => {
                    let topic = topics[topic as usize];
                    let (sender, answers) = unbounded();
                    let mut entries = Vec::new();
                    for size in sizes {
                        written = written.wrapping_add(1);
                        let (bytes, messages) = (Bytes::from(vec![written; size.into()]), u32::from(size) + 1);
                        send(&*store.entries(), topic, &bytes, messages, &sender);
                        entries.push((bytes, messages));
                    }
                    for (bytes, messages) in entries {
                        let position = wait(&answers).unwrap();
                        model.entry(topic).or_default().push(StoredEntry { position, messages, bytes });
                    }
                }
                Step::Read { topic, from, entries, bytes } => {
                    let topic = topics[topic as usize];
                    let list = model.entry(topic).or_default();
                    let from = list.get(from).map_or(START, |entry| entry.position);
                    let read = store.entries().read(topic, from, entries, bytes).unwrap();
                    prop_assert_eq!(read, read_model(list, from, entries, bytes));
                    let after = &list[list.partition_point(|entry| entry.position <= from)..];
                    let counts = store.entries().count_after(topic, Some(from)).unwrap();
                    prop_assert_eq!(counts, Counts {
                        entries: after.len() as u64,
                        messages: after.iter().map(|entry| u64::from(entry.messages)).sum(),
                        bytes: after.iter().map(|entry| entry.bytes.len() as u64).sum(),
                    });
                }
                Step::Reopen => {
                    drop(store);
                    store = open_rolling(&folder, 7);
                }
                Step::Delete { topic } => {
                    let slot = &mut topics[topic as usize];
                    delete(&store, *slot);
                    model.remove(slot);
                    *slot = TopicId(slot.0 + 3);
                }
            }
        }
        for topic in (0..100).map(TopicId) {
            let list = model.get(&topic).map_or(&[][..], Vec::as_slice);
            let bounds = list.first().zip(list.last()).map(|(first, last)| (first.position, last.position));
            prop_assert_eq!(store.entries().bounds(topic).unwrap(), bounds);
            prop_assert!(list.windows(2).all(|pair| pair[0].position < pair[1].position));
            prop_assert_eq!(everything(&store, topic), list);
        }
    }
}
