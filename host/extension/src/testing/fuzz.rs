//! Bytes of others, changed at random for as long as there is time: the sniffer, what artifacts say of
//! themselves, the batch that a guest reads and the answer that the host reads.
//!
//! All of it is safe code on stable Rust (the batch is read inside the sandbox), so what can be found is a
//! panic or a wrong answer, and changing good inputs finds those. cargo-fuzz would steer by coverage, and
//! needs a nightly compiler that nothing else here needs.
//!
//! `make fuzz` gives each target a minute; `make test` a fraction of a second.

use std::time::{Duration, Instant};

use super::{Bench, filter, guest, judge, text};
use crate::artifact::{Description, Limits, fields_of, sniff};
use crate::component::fuzzing;
use crate::extensions::Form;
use crate::filter::{Delay, Verdict};
use crate::message::Messages;

/// Xorshift. Its seed is said, so that what was found is found again (`WEIR_FUZZ_SEED`).
pub(crate) struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// Good bytes, changed in one to four ways.
    fn changed(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(7) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[at] = self.next() as u8,
                2 => bytes.truncate(at),
                3 => bytes.insert(at, self.next() as u8),
                4 => {
                    // A number that lengths and offsets are wrong with.
                    const ODD: [u32; 8] = [0, 1, 0x7f, 0x80, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
                    let odd = ODD[self.below(8)].to_le_bytes();
                    let len = [1, 2, 4][self.below(3)];
                    bytes.iter_mut().skip(at).zip(&odd[..len]).for_each(|(to, from)| *to = *from);
                }
                5 => {
                    let other = &seeds[self.below(seeds.len())];
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[self.below(other.len())..]);
                }
                _ => {
                    let until = at + self.below(bytes.len() - at);
                    let again = bytes[at..until].to_vec();
                    bytes.splice(at..at, again.into_iter().take(1000));
                }
            }
        }
        bytes
    }
}

/// Calls `target` with changed seeds until the time is up.
pub(crate) fn fuzz(seeds: &[Vec<u8>], mut target: impl FnMut(&[u8], &mut Dice)) {
    let told = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let time = told("WEIR_FUZZ_SECONDS").map_or(Duration::from_millis(200), Duration::from_secs);
    let seed = told("WEIR_FUZZ_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_nanos() as u64 | 1
    });
    let mut dice = Dice(seed);
    let mut input = Vec::new();
    let mut runs = 0_u64;
    let begun = Instant::now();
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for seed in seeds {
            input.clone_from(seed);
            target(&input, &mut dice);
        }
        while begun.elapsed() < time {
            input = dice.changed(seeds);
            target(&input, &mut dice);
            runs += 1;
        }
    }));
    assert!(found.is_ok(), "seed {seed}, run {runs}: {:02x?}", &input[..input.len().min(4096)]);
}

/// The head of a file: what the sniffer looks at.
fn head(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(16 << 10);
    bytes
}

#[test]
fn the_sniffer_knows_what_it_takes() {
    let page = b"<!DOCTYPE html><html></html>".to_vec();
    let whole = text("accepts-everything");
    let seeds = [whole, text("core-module"), head(guest("even.wasm")), head(guest("even.so")), page];
    fuzz(&seeds, |bytes, _| match sniff(bytes) {
        Ok(Form::Component) => assert!(bytes.starts_with(b"\0asm\x0d\0\x01\0")),
        Ok(Form::Native) => assert!(bytes.starts_with(b"\x7fELF") && bytes.len() >= 64),
        Ok(Form::BuiltIn) => panic!("nothing is built in that arrives"),
        Err(error) => {
            let sentence = error.to_string();
            assert!(sentence.len() < 300 && !sentence.contains('\n'), "{sentence}");
        }
    });
}

#[test]
fn descriptions_and_fields_are_read_with_suspicion() {
    let seeds = [
        br#"{"class":"demo.A","kinds":["filter"],"version":"1","contract":"1.0","schema":{"type":"object"}}"#
            .to_vec(),
        br#"[{"property":"a"},{"field":"payload"},{"field":"publish-time"}]"#.to_vec(),
    ];
    fuzz(&seeds, |bytes, _| {
        let text = String::from_utf8_lossy(bytes);
        match Description::parse(&text) {
            Ok(description) => {
                assert!(description.contract.starts_with('1') && !description.kinds.is_empty());
            }
            Err(error) => assert!(error.to_string().len() < 2000, "{error}"),
        }
        if let Err(broke) = fields_of(&text) {
            assert!(broke.reason.len() < 2000, "{broke}");
        }
    });
}

/// As the contract has it, read slowly.
fn plainly(answer: &[u8], n: usize) -> Option<Vec<Verdict>> {
    let codes = answer.get(..n)?;
    let mut delays = answer[n..].chunks(4);
    let mut verdicts = Vec::new();
    for code in codes {
        verdicts.push(match code {
            0 => Verdict::Accept,
            1 => Verdict::Reject,
            2 => {
                let millis = u32::from_le_bytes(delays.next()?.try_into().ok()?);
                Verdict::Reschedule(Delay::from_millis(millis))
            }
            3 => Verdict::Broke,
            _ => return None,
        });
    }
    delays.next().is_none().then_some(verdicts)
}

#[test]
fn answers_are_read_as_the_contract_has_them() {
    let mut seeds = vec![Vec::new(), vec![0; 256], vec![1; 7], vec![2, 0, 1, 0, 0, 0]];
    seeds.push([&[0, 1, 2, 3, 2][..], &[7; 8]].concat());
    fuzz(&seeds, |answer, dice| {
        for n in [answer.len(), 5, dice.below(answer.len() + 2)] {
            let mut verdicts = vec![Verdict::Broke];
            match (fuzzing::verdicts(answer, n, &mut verdicts), plainly(answer, n)) {
                (Ok(()), Some(expected)) => assert_eq!(verdicts[1..], expected),
                (Err(broke), None) => {
                    assert_eq!(verdicts, [Verdict::Broke], "as it was");
                    assert!(broke.reason.len() < 300, "{broke}");
                }
                (read, expected) => panic!("{read:?}, expected {expected:?}"),
            }
        }
    });
}

/// The guest's reader trusts the host. Fed with anything else it may trap, or misread; it does no harm
/// beyond its sandbox, and the next instance is as good as ever.
#[test]
fn a_guest_that_is_given_anything_harms_itself_only() {
    let bench = Bench::new();
    let patient = Limits { deadline: Duration::from_secs(60), ..Limits::default() };
    let loaded = bench.component(&guest("fingerprint.wasm"), patient).unwrap();
    let fields = loaded.configure("{}").unwrap();
    let mut messages = Messages::new(fields.clone().into());
    for value in ["", "a", "some value"] {
        let mut row = messages.row();
        row.property("a", value);
        row.property("b", "b");
    }
    let seeds = [fuzzing::batch(&fields, &messages)];
    let mut raw = fuzzing::Raw::new(&guest("fingerprint.wasm"));
    assert!(raw.judge(&seeds[0]), "as the host writes it");
    fuzz(&seeds, |batch, _| {
        raw.judge(batch);
    });
    let (mut filter, fields) = filter(&*loaded, "{}").unwrap();
    let mut messages = Messages::new(fields);
    messages.row();
    assert_eq!(judge(&mut *filter, &messages).unwrap().len(), 1);
}
