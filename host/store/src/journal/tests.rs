//! Tails as a crash of the machine leaves them, made by hand behind writes of a real store.

use bytes::Bytes;
use tempfile::TempDir;

use super::*;
use crate::entries::{Position, TopicId};
use crate::store::{ENGINE_FOLDER, Options, Recovered, Store};

const TOPIC: TopicId = TopicId(1);

/// A store with entries `0`, `1` and `2` of 10,000 bytes, each written by itself, and closed.
struct Closed {
    folder: TempDir,
    journal: PathBuf,
    /// Where each whole write ends.
    ends: Vec<u64>,
}

impl Closed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = Store::open(folder.path(), Options::default()).unwrap();
        for digit in [b'0', b'1', b'2'] {
            append(&store, digit);
        }
        drop(store);
        let journal = newest_journal(&folder.path().join(ENGINE_FOLDER)).unwrap().unwrap();
        let ends = ends(&journal);
        assert!(ends.len() >= 3);
        Self { folder, journal, ends }
    }

    /// The bytes of the last whole write.
    fn last_write(&self) -> Vec<u8> {
        let [.., from, to] = self.ends[..] else { unreachable!("three writes were made") };
        fs::read(&self.journal).unwrap()[usize::try_from(from).unwrap()..usize::try_from(to).unwrap()]
            .to_vec()
    }

    /// Puts bytes behind the last whole write, and zeros behind those, as a journal allocated ahead has.
    fn add(&self, tail: &[u8]) {
        let mut bytes = fs::read(&self.journal).unwrap();
        let end = usize::try_from(*self.ends.last().unwrap()).unwrap();
        bytes.truncate(end);
        bytes.extend_from_slice(tail);
        bytes.resize(bytes.len() + 100_000, 0);
        fs::write(&self.journal, bytes).unwrap();
    }

    #[track_caller]
    fn check_cut(&self, bytes: usize) {
        let (store, Recovered { repaired, .. }) =
            Store::open(self.folder.path(), Options::default()).unwrap();
        let end = self.ends.last().unwrap();
        assert_eq!(
            repaired,
            [format!(
                "cut {bytes} bytes of an unfinished write, never acknowledged, from the end of journal 0.jnl at byte {end}"
            )]
        );
        assert_eq!(digits(&store), b"012");
        append(&store, b'3');
        drop(store);
        let (store, Recovered { repaired, .. }) =
            Store::open(self.folder.path(), Options::default()).unwrap();
        assert_eq!(repaired, Vec::<String>::new(), "what was cut is not found again");
        assert_eq!(digits(&store), b"0123");
    }

    /// What the engine says to this tail without us.
    fn engine_alone(&self) -> Result<(), fjall::Error> {
        fjall::Database::builder(self.folder.path().join(ENGINE_FOLDER)).open().map(|_engine| ())
    }
}

fn append(store: &Store, digit: u8) {
    let (sender, answer) = crossbeam_channel::bounded(1);
    let done = Box::new(move |result| sender.send(result).unwrap());
    store.entries().append(TOPIC, Bytes::from(vec![digit; 10_000]), 1, done);
    answer.recv().unwrap().unwrap();
}

fn digits(store: &Store) -> Vec<u8> {
    let from = Position { ledger: 0, entry: 0 };
    let entries = store.entries().read(TOPIC, from, usize::MAX, usize::MAX).unwrap();
    entries.iter().map(|entry| entry.bytes[0]).collect()
}

fn ends(path: &Path) -> Vec<u64> {
    let file = File::open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let mut journal = Journal { input: BufReader::new(file), position: 0, length };
    let mut ends = Vec::new();
    while journal.write().unwrap().is_some() {
        ends.push(journal.position);
    }
    ends
}

#[test]
fn a_clean_stop_leaves_nothing_to_say() {
    let closed = Closed::new();
    let (_store, recovered) = Store::open(closed.folder.path(), Options::default()).unwrap();
    assert_eq!(recovered, Recovered { topics: 1, repaired: Vec::new() });
}

#[test]
fn a_write_that_ends_early_is_cut() {
    let write = Closed::new().last_write();
    for length in [1, START_BYTES as usize, 40, write.len() / 2, write.len() - 1] {
        let closed = Closed::new();
        closed.add(&write[..length]);
        // The end of what is cut is where zeros begin: a write may end in some of its own.
        let zeros = write[..length].iter().rev().take_while(|&&byte| byte == 0).count();
        closed.check_cut(length - zeros);
    }
}

#[test]
fn a_write_with_a_page_that_never_reached_the_disk_is_cut() {
    let closed = Closed::new();
    let mut write = closed.last_write();
    write[4096..8192].fill(0);
    closed.add(&write);
    closed.check_cut(write.len());
}

#[test]
fn the_engine_alone_would_refuse_such_a_write() {
    let closed = Closed::new();
    let mut write = closed.last_write();
    write[4096..8192].fill(0);
    closed.add(&write);
    let error = closed.engine_alone().unwrap_err();
    assert!(matches!(error, fjall::Error::JournalRecovery(_)), "{error:?}: our check is no longer needed");
}

#[test]
fn one_whole_group_behind_a_broken_write_was_not_synced_either() {
    let closed = Closed::new();
    let mut tail = closed.last_write();
    tail[5000] ^= 1;
    tail.extend(closed.last_write());
    closed.add(&tail);
    closed.check_cut(tail.len());
}

#[test]
fn two_whole_groups_behind_a_broken_write_are_damage_and_nothing_is_cut() {
    let closed = Closed::new();
    let mut tail = closed.last_write();
    tail[5000] ^= 1;
    tail.extend(closed.last_write());
    tail.extend(closed.last_write());
    closed.add(&tail);
    let before = fs::read(&closed.journal).unwrap();
    let error = Store::open(closed.folder.path(), Options::default()).err().expect("is refused").to_string();
    assert!(error.starts_with("stored data is damaged: journal "), "{error}");
    assert!(error.ends_with("is whole: this is no torn tail"), "{error}");
    assert!(fs::read(&closed.journal).unwrap() == before, "the journal was changed");
}

#[test]
fn a_length_beyond_the_journal_is_no_reason_to_read_on() {
    let closed = Closed::new();
    let mut write = closed.last_write();
    // The length of the first item's value, as it lies in the journal: 4 GiB.
    let at = START_BYTES as usize + 1 + 1 + 1 + 8 + 2 + 4;
    write[at..at + 4].fill(0xff);
    closed.add(&write);
    closed.check_cut(write.len());
}
