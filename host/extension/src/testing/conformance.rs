//! One source, two forms, one answer: the same messages get the same verdicts from a library, from a
//! component, and from the plain function that both were made of.

use std::sync::Arc;

use bytes::Bytes;

use super::{Bench, filter, guest, judge};
use crate::artifact::Limits;
use crate::filter::{Delay, Verdict};
use crate::message::{Field, Messages};

/// What one message holds; odd values among them.
#[derive(Clone)]
struct Sample {
    a: Option<String>,
    b: Option<String>,
    also: Option<String>,
    key: Option<String>,
    ordering_key: Option<Vec<u8>>,
    producer: Option<String>,
    publish_time: Option<i64>,
    event_time: Option<i64>,
    sequence_id: Option<i64>,
    payload: Option<Bytes>,
}

const TOPIC: &str = "persistent://public/default/grüße";

/// Xorshift: the same messages in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn text(&mut self) -> Option<String> {
        Some(match self.below(8) {
            0 => return None,
            1 => String::new(),
            2 => "ünïcödé \u{1f980}\0\n".into(),
            3 => "x".repeat(self.below(5000) as usize),
            _ => "0123456789abcdefghijklmnop"[..self.below(27) as usize].into(),
        })
    }

    fn number(&mut self) -> Option<i64> {
        match self.below(4) {
            0 => None,
            1 => Some([i64::MIN, i64::MAX, 0, -1][self.below(4) as usize]),
            _ => Some(self.below(1 << 50) as i64),
        }
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        match self.below(5) {
            0 => None,
            1 => Some(Vec::new()),
            2 => Some(vec![0xff; 4096 + self.below(3) as usize - 1]),
            3 => Some(vec![0xfe; 100_000]),
            _ => Some(vec![self.below(256) as u8; self.below(50) as usize]),
        }
    }

    fn sample(&mut self) -> Sample {
        Sample {
            a: self.text(),
            b: self.text(),
            also: self.text(),
            key: self.text(),
            ordering_key: self.bytes(),
            producer: self.text(),
            publish_time: self.number(),
            event_time: self.number(),
            sequence_id: self.number(),
            payload: self.bytes().map(Bytes::from),
        }
    }
}

fn samples(n: usize) -> Vec<Sample> {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    (0..n).map(|_| dice.sample()).collect()
}

fn view<'a>(fields: &Arc<[Field]>, samples: &'a [Sample]) -> Messages<'a> {
    let mut messages = Messages::new(fields.clone());
    for sample in samples {
        let mut row = messages.row();
        row.property("unread", "x");
        for (name, value) in [("b", &sample.b), ("a", &sample.a), ("also", &sample.also)] {
            if let Some(value) = value {
                row.property(name, value);
            }
        }
        for (field, value) in [(Field::Key, &sample.key), (Field::Producer, &sample.producer)] {
            if let Some(value) = value {
                row.text(&field, value);
            }
        }
        if let Some(value) = &sample.ordering_key {
            row.bytes(&Field::OrderingKey, value);
        }
        let numbers = [
            (Field::PublishTime, sample.publish_time),
            (Field::EventTime, sample.event_time),
            (Field::SequenceId, sample.sequence_id),
        ];
        for (field, value) in numbers {
            if let Some(value) = value {
                row.number(&field, value);
            }
        }
        if let Some(payload) = &sample.payload {
            row.payload(payload);
        }
    }
    messages.fill_text(&Field::Topic, 0, TOPIC);
    messages
}

/// The guest `fingerprint`, as a function: `also` if it is configured and in the batch.
fn plain(sample: &Sample, also: bool) -> Verdict {
    let Some(payload) = &sample.payload else { return Verdict::Broke };
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut byte = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let mut value = |value: Option<&[u8]>| {
        byte(u8::from(value.is_some()));
        let value = value.unwrap_or_default();
        (value.len() as u64).to_le_bytes().iter().chain(value).for_each(|b| byte(*b));
    };
    let also = also.then_some(sample.also.as_ref()).flatten();
    value(sample.a.as_ref().map(String::as_bytes));
    value(sample.b.as_ref().map(String::as_bytes));
    value(also.map(String::as_bytes));
    value(sample.key.as_ref().map(String::as_bytes));
    value(sample.ordering_key.as_deref());
    value(Some(TOPIC.as_bytes()));
    value(sample.producer.as_ref().map(String::as_bytes));
    for number in [sample.publish_time, sample.event_time, sample.sequence_id] {
        value(number.map(i64::to_le_bytes).as_ref().map(<[u8; 8]>::as_slice));
    }
    value(Some(payload));
    match hash % 4 {
        0 => Verdict::Accept,
        1 => Verdict::Reject,
        2 => Verdict::Reschedule(Delay::from_millis((hash >> 40) as u32)),
        _ => Verdict::Broke,
    }
}

const CONFIG: &str = r#"{"also":["also"]}"#;

#[test]
fn both_forms_judge_as_the_plain_function_does() {
    let bench = Bench::new();
    for (form, loaded) in bench.both("fingerprint") {
        let (mut filter, fields) = filter(&*loaded, CONFIG).unwrap();
        for n in [1, 16, 256, 3] {
            let samples = samples(n);
            let expected: Vec<Verdict> = samples.iter().map(|sample| plain(sample, true)).collect();
            assert_eq!(judge(&mut *filter, &view(&fields, &samples)).unwrap(), expected, "{form}, {n}");
        }
    }
}

#[test]
fn both_forms_take_some_rows_of_a_wider_view() {
    let bench = Bench::new();
    let samples = samples(100);
    let rows: Vec<u32> = (0..100).filter(|row| row % 3 == 1).collect();
    let expected: Vec<Verdict> = rows.iter().map(|row| plain(&samples[*row as usize], true)).collect();
    for (form, loaded) in bench.both("fingerprint") {
        let (mut filter, fields) = filter(&*loaded, CONFIG).unwrap();
        // What other filters of a chain read lies between, and in another order.
        let mut wider = vec![Field::Property("unread".into())];
        wider.extend(fields.iter().rev().cloned());
        let messages = view(&wider.into(), &samples);
        let mut verdicts = Vec::new();
        filter.judge(&messages, &rows, &mut verdicts).unwrap();
        assert_eq!(verdicts, expected, "{form}");
    }
}

#[test]
fn both_forms_see_a_field_that_the_view_lacks_as_missing() {
    let bench = Bench::new();
    let samples = samples(50);
    let expected: Vec<Verdict> =
        samples.iter().map(|sample| plain(&Sample { also: None, ..sample.clone() }, true)).collect();
    for (form, loaded) in bench.both("fingerprint") {
        let (mut filter, fields) = filter(&*loaded, CONFIG).unwrap();
        let fewer: Vec<Field> =
            fields.iter().filter(|field| **field != Field::Property("also".into())).cloned().collect();
        let messages = view(&fewer.into(), &samples);
        assert_eq!(judge(&mut *filter, &messages).unwrap(), expected, "{form}");
    }
}

#[test]
fn both_forms_say_the_same_of_themselves() {
    let bench = Bench::new();
    for name in ["late-flights", "even", "misbehaving", "any-lister", "tenant-lister"] {
        let [native, component] = bench.both(name).map(|(_, loaded)| format!("{:?}", loaded.description()));
        assert_eq!(native, component);
    }
}

#[test]
fn an_empty_batch_is_no_call() {
    let bench = Bench::new();
    for (_, loaded) in bench.both("even") {
        let (mut filter, fields) = filter(&*loaded, "{}").unwrap();
        assert_eq!(judge(&mut *filter, &Messages::new(fields)).unwrap(), []);
    }
}

#[test]
fn a_component_of_the_next_minor_runs_until_it_asks_for_more() {
    let bench = Bench::new();
    let loaded = bench.component(&guest("next-minor.wasm"), Limits::default()).unwrap();
    assert_eq!(loaded.description().contract, "1.1");
    let (mut filter, fields) = filter(&*loaded, "{}").unwrap();
    let mut messages = Messages::new(fields);
    for what in ["accept", "reject", "batches"] {
        messages.row().property("do", what);
    }
    let mut verdicts = Vec::new();
    filter.judge(&messages, &[0, 1], &mut verdicts).unwrap();
    assert_eq!(verdicts, [Verdict::Accept, Verdict::Reject]);
    let broke = filter.judge(&messages, &[2], &mut verdicts).unwrap_err();
    assert!(broke.reason.contains("batches"), "{broke}");
}
