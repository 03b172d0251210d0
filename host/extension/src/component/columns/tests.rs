use bytes::Bytes;

use super::*;

fn u32_at(batch: &[u8], at: usize) -> usize {
    u32::from_le_bytes(batch[at..at + 4].try_into().unwrap()) as usize
}

/// A cell as a guest reads it.
#[derive(Debug, PartialEq)]
enum Read {
    Missing,
    Bytes(Vec<u8>),
    Number(i64),
}

/// Reads a batch as `wit/weir.wit` says: for each slot its type and cells. Written from the page, not
/// from the code above.
fn read(batch: &[u8]) -> Vec<(usize, u8, Vec<Read>)> {
    let n = u32_at(batch, 4);
    assert_eq!((batch[0], batch[1], u32_at(batch, 8), u32_at(batch, 12)), (1, 0, batch.len(), 0));
    let columns = usize::from(batch[2]) + 256 * usize::from(batch[3]);
    let column = |at: usize| {
        let (kind, constant, all) = (batch[at + 2], batch[at + 3] & 1 != 0, batch[at + 3] & 2 != 0);
        let [presence, offsets, data] = [4, 8, 12].map(|field| u32_at(batch, at + field));
        assert!([presence, offsets, data].iter().all(|section| section % 8 == 0), "padded");
        assert!(!all || presence == 0);
        let cell = |row: usize| {
            if !all && batch[presence + row / 8] >> (row % 8) & 1 == 0 {
                return Read::Missing;
            }
            let row = if constant { 0 } else { row };
            if kind == 3 {
                return Read::Number(i64::from_le_bytes(batch[data + 8 * row..][..8].try_into().unwrap()));
            }
            let [start, end] = [row, row + 1].map(|place| u32_at(batch, offsets + 4 * place));
            Read::Bytes(batch[data + start..data + end].to_vec())
        };
        (u32_at(batch, at) & 0xffff, kind, (0..n).map(cell).collect())
    };
    (0..columns).map(|place| column(16 + 16 * place)).collect()
}

fn write(columns: &mut Columns, filter: &[Field], messages: &Messages<'_>, rows: &[u32]) -> Vec<u8> {
    let mapping = &mut None;
    let mapping = Mapping::of(mapping, filter, messages.fields());
    columns.write(messages, rows, mapping).unwrap().to_vec()
}

fn property(name: &str) -> Field {
    Field::Property(name.into())
}

fn text(text: &str) -> Read {
    Read::Bytes(text.as_bytes().to_vec())
}

#[test]
fn text_missing_and_empty_are_told_apart() {
    let filter = [property("a"), property("b")];
    let mut messages = Messages::new(filter.to_vec().into());
    for value in [Some(""), None, Some("x"), Some("grüße"), Some("0123456789"), Some("0123456789abcdefXYZ")]
    {
        let mut row = messages.row();
        row.property("b", "1234");
        if let Some(value) = value {
            row.property("a", value);
        }
    }
    let mut columns = Columns::new(&filter);
    let batch = read(&write(&mut columns, &filter, &messages, &[0, 1, 2, 3, 4, 5]));
    let a = vec![
        text(""),
        Read::Missing,
        text("x"),
        text("grüße"),
        text("0123456789"),
        text("0123456789abcdefXYZ"),
    ];
    assert_eq!(batch[0], (0, 2, a));
    assert_eq!(batch[1], (1, 2, (0..6).map(|_| text("1234")).collect()));
    let some = read(&write(&mut columns, &filter, &messages, &[1, 4]));
    assert_eq!(some[0].2, [Read::Missing, text("0123456789")]);
}

#[test]
fn values_of_every_length_arrive_whole() {
    let filter = [property("a")];
    let alphabet: String = ('a'..='z').cycle().take(300).collect();
    let mut messages = Messages::new(filter.to_vec().into());
    for len in 0..300 {
        messages.row().property("a", &alphabet[..len]);
    }
    let rows: Vec<u32> = (0..300).collect();
    let batch = read(&write(&mut Columns::new(&filter), &filter, &messages, &rows));
    assert_eq!(batch[0].2, (0..300).map(|len| text(&alphabet[..len])).collect::<Vec<_>>());
}

#[test]
fn a_buffer_that_was_larger_leaves_nothing_behind() {
    let filter = [property("a"), Field::EventTime];
    let long = "y".repeat(5000);
    let mut columns = Columns::new(&filter);
    for (value, n) in [("x", 70), (&*long, 3), ("zz", 9), ("", 64)] {
        let mut messages = Messages::new(filter.to_vec().into());
        for at in 0..n {
            let mut row = messages.row();
            if at % 3 != 2 {
                row.property("a", value);
                row.number(&Field::EventTime, -at);
            }
        }
        let rows: Vec<u32> = (0..n as u32).collect();
        let batch = read(&write(&mut columns, &filter, &messages, &rows));
        for (at, (a, time)) in batch[0].2.iter().zip(&batch[1].2).enumerate() {
            let expected = if at % 3 == 2 {
                (Read::Missing, Read::Missing)
            } else {
                (text(value), Read::Number(-(at as i64)))
            };
            assert_eq!((a, time), (&expected.0, &expected.1), "{at}");
        }
    }
}

#[test]
fn a_text_that_all_share_is_written_once() {
    let filter = [Field::Topic];
    let topic = String::from("persistent://a/b/c");
    let other = String::from("persistent://a/b/d");
    let mut messages = Messages::new(filter.to_vec().into());
    for _ in 0..100 {
        messages.row().text(&Field::Topic, &topic);
    }
    messages.row().text(&Field::Topic, &other);
    let mut columns = Columns::new(&filter);
    let rows: Vec<u32> = (0..100).collect();
    let shared = write(&mut columns, &filter, &messages, &rows);
    assert!(shared.len() < 100, "{}", shared.len());
    assert_eq!(read(&shared)[0].2, (0..100).map(|_| text(&topic)).collect::<Vec<_>>());
    let mixed = read(&write(&mut columns, &filter, &messages, &[0, 100]));
    assert_eq!(mixed[0].2, [text(&topic), text(&other)]);
}

#[test]
fn small_payloads_lie_in_the_batch_and_large_ones_do_not() {
    let filter = [Field::Payload];
    let mut messages = Messages::new(filter.to_vec().into());
    let payloads = [vec![0xff; INLINE_PAYLOAD], vec![7; INLINE_PAYLOAD + 1], vec![]].map(Bytes::from);
    for payload in &payloads {
        messages.row().payload(payload);
    }
    messages.row();
    let batch = read(&write(&mut Columns::new(&filter), &filter, &messages, &[0, 1, 2, 3]));
    let expected = vec![Read::Bytes(payloads[0].to_vec()), Read::Missing, Read::Bytes(vec![]), Read::Missing];
    assert_eq!(batch[0], (0, 1, expected));
}

#[test]
fn fields_that_the_batch_lacks_have_no_column() {
    let mut messages = Messages::new([property("b"), property("x")].to_vec().into());
    messages.row().property("b", "1");
    let filter = [property("a"), property("b")];
    let batch = read(&write(&mut Columns::new(&filter), &filter, &messages, &[0]));
    assert_eq!(batch, [(1, 2, vec![text("1")])]);
}

#[test]
fn a_batch_that_is_too_large_is_refused() {
    let filter = [property("a")];
    let large = "x".repeat(1 << 20);
    let mut messages = Messages::new(filter.to_vec().into());
    for _ in 0..65 {
        messages.row().property("a", &large);
    }
    let rows: Vec<u32> = (0..65).collect();
    let mut columns = Columns::new(&filter);
    let mapping = &mut None;
    let broke =
        columns.write(&messages, &rows, Mapping::of(mapping, &filter, messages.fields())).unwrap_err();
    assert_eq!(broke.kind, BrokeKind::Memory);
    let alone = read(&write(&mut columns, &filter, &messages, &[3]));
    assert_eq!(alone[0].2, [text(&large)]);
}

#[test]
fn a_large_text_does_not_count_for_later_batches() {
    let filter = [property("a"), property("b")];
    let large = "x".repeat(5 << 20);
    let mut messages = Messages::new(filter.to_vec().into());
    messages.row().property("a", &large);
    for _ in 0..2000 {
        messages.row().property("b", "small");
    }
    let mut columns = Columns::new(&filter);
    let rows: Vec<u32> = (0..2001).collect();
    for rows in [&rows[..1], &rows[1..], &rows[..]] {
        let batch = write(&mut columns, &filter, &messages, rows);
        let texts =
            if rows[0] == 0 { large.len() } else { 0 } + 5 * rows.iter().filter(|row| **row > 0).count();
        assert!(batch.len() <= texts + 2 * (5 * rows.len() + 64), "{} rows: {}", rows.len(), batch.len());
    }
    assert!(columns.columns.iter().all(|column| column.foreseen <= INLINE_PAYLOAD));
}

/// Any messages, and any of their rows, are read as they were written; see `testing/fuzz.rs`.
#[test]
fn fuzz_any_messages_are_read_as_they_were_written() {
    let filter = [property("a"), Field::PublishTime, property("b"), Field::OrderingKey, Field::Topic];
    let mut columns = Columns::new(&filter);
    let seeds = [b"some text of which cells are made".to_vec(), "grüße \u{1f980}".repeat(40).into_bytes()];
    crate::testing::fuzz::fuzz(&seeds, |bytes, dice| {
        let n = 1 + dice.below(40);
        let valid = String::from_utf8_lossy(bytes);
        // Where each cell's text ends; `None` where there is none.
        let mut end = || (dice.below(3) > 0).then(|| valid.floor_char_boundary(dice.below(valid.len() + 1)));
        let cells: Vec<[Option<usize>; 4]> = (0..n).map(|_| [end(), end(), end(), end()]).collect();
        let mut messages = Messages::new(filter.to_vec().into());
        for [a, number, b, key] in &cells {
            let mut row = messages.row();
            if let Some(end) = a {
                row.property("a", &valid[..*end]);
            }
            if let Some(number) = number {
                row.number(&Field::PublishTime, *number as i64 - 20);
            }
            if let Some(end) = b {
                row.property("b", &valid[..*end]);
            }
            if let Some(end) = key {
                row.bytes(&Field::OrderingKey, &valid.as_bytes()[*end..]);
            }
        }
        messages.fill_text(&Field::Topic, 0, "the topic");
        let rows: Vec<u32> = (0..n as u32).filter(|_| dice.below(4) > 0).collect();
        if rows.is_empty() {
            return;
        }
        let found = read(&write(&mut columns, &filter, &messages, &rows));
        assert_eq!(found.iter().map(|(slot, kind, _)| (*slot, *kind)).collect::<Vec<_>>(), {
            [(0, 2), (1, 3), (2, 2), (3, 1), (4, 2)]
        });
        for (at, row) in rows.iter().enumerate() {
            let [a, number, b, key] = cells[*row as usize];
            let until = |end: Option<usize>| end.map_or(Read::Missing, |end| text(&valid[..end]));
            let expected = [
                until(a),
                number.map_or(Read::Missing, |number| Read::Number(number as i64 - 20)),
                until(b),
                key.map_or(Read::Missing, |end| Read::Bytes(valid.as_bytes()[end..].to_vec())),
                text("the topic"),
            ];
            for (column, expected) in found.iter().zip(expected) {
                assert_eq!(column.2[at], expected);
            }
        }
    });
}
