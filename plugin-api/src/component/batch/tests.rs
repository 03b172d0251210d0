//! What a hand-written encoder puts into a batch comes out of it.

use super::*;

/// A column as the contract draws it.
struct Written {
    slot: u16,
    kind: u8,
    flags: u8,
    presence: Vec<u8>,
    offsets: Vec<u32>,
    data: Vec<u8>,
}

/// Texts (or bytes) with a presence bit each.
fn column(slot: u16, kind: u8, cells: &[Option<&str>]) -> Written {
    let mut presence = vec![0; cells.len().div_ceil(8)];
    let (mut offsets, mut data) = (vec![0], Vec::new());
    for (row, cell) in cells.iter().enumerate() {
        if let Some(cell) = cell {
            presence[row / 8] |= 1 << (row % 8);
            data.extend_from_slice(cell.as_bytes());
        }
        offsets.push(u32::try_from(data.len()).unwrap());
    }
    Written { slot, kind, flags: 0, presence, offsets, data }
}

fn numbers(slot: u16, cells: &[i64]) -> Written {
    let data = cells.iter().flat_map(|n| n.to_le_bytes()).collect();
    Written { slot, kind: I64, flags: ALL_PRESENT, presence: Vec::new(), offsets: Vec::new(), data }
}

/// The block of bytes, with a gap before each section.
fn encode(n: u32, columns: &[Written]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&LAYOUT.to_le_bytes());
    bytes.extend_from_slice(&u16::try_from(columns.len()).unwrap().to_le_bytes());
    bytes.extend_from_slice(&n.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    let sections = bytes.len();
    bytes.resize(sections + DESCRIPTOR * columns.len(), 0);
    let section = |bytes: &mut Vec<u8>, content: &[u8]| -> u32 {
        bytes.resize(bytes.len().next_multiple_of(8) + 8, 0xEE);
        let at = u32::try_from(bytes.len()).unwrap();
        bytes.extend_from_slice(content);
        at
    };
    for (i, column) in columns.iter().enumerate() {
        let presence =
            if column.flags & ALL_PRESENT == 0 { section(&mut bytes, &column.presence) } else { 0 };
        let offsets: Vec<u8> = column.offsets.iter().flat_map(|o| o.to_le_bytes()).collect();
        let offsets = section(&mut bytes, &offsets);
        let data = section(&mut bytes, &column.data);
        let at = sections + DESCRIPTOR * i;
        bytes[at..at + 2].copy_from_slice(&column.slot.to_le_bytes());
        bytes[at + 2..at + 4].copy_from_slice(&[column.kind, column.flags]);
        for (k, word) in [presence, offsets, data].into_iter().enumerate() {
            bytes[at + 4 + 4 * k..at + 8 + 4 * k].copy_from_slice(&word.to_le_bytes());
        }
    }
    let total = u32::try_from(bytes.len()).unwrap();
    bytes[8..12].copy_from_slice(&total.to_le_bytes());
    bytes
}

/// Reads a batch from an address of each parity, as a `list<u8>` may have any.
#[track_caller]
fn check(fields: usize, n: u32, columns: &[Written], rows: impl Fn(&Batch)) {
    let bytes = encode(n, columns);
    for shift in 0..2 {
        let mut shifted = vec![0; shift];
        shifted.extend_from_slice(&bytes);
        let mut batch = Batch::new(fields);
        // SAFETY: `encode` writes a batch, and `shifted` outlives it.
        unsafe { batch.read(shifted.as_ptr().add(shift), bytes.len()) }.unwrap();
        assert_eq!(batch.len(), n);
        rows(&batch);
    }
}

#[test]
fn missing_and_empty_are_told_apart() {
    let cells = [Some("us"), None, Some(""), Some("grüße")];
    check(1, 4, &[column(0, UTF8, &cells)], |batch| {
        let read: Vec<Option<&str>> = batch.rows().map(|row| row.text(0)).collect();
        assert_eq!(read, cells);
    });
}

#[test]
fn presence_goes_on_beyond_a_byte() {
    let texts: Vec<String> = (0..300).map(|row| "x".repeat(row % 7)).collect();
    let cells: Vec<Option<&str>> =
        texts.iter().enumerate().map(|(row, text)| (row % 3 != 1).then_some(text.as_str())).collect();
    check(1, 300, &[column(0, UTF8, &cells)], |batch| {
        let read: Vec<Option<&str>> = batch.rows().map(|row| row.text(0)).collect();
        assert_eq!(read, cells);
    });
}

#[test]
fn numbers_are_read_whole() {
    let cells = [0, -1, i64::MIN, i64::MAX];
    check(2, 4, &[numbers(1, &cells)], |batch| {
        let read: Vec<Option<i64>> = batch.rows().map(|row| row.number(1)).collect();
        assert_eq!(read, cells.map(Some));
    });
}

#[test]
fn a_constant_is_every_rows() {
    let mut topic = column(0, UTF8, &[Some("persistent://a/b/c")]);
    topic.flags = CONSTANT | ALL_PRESENT;
    check(1, 1000, &[topic], |batch| {
        assert_eq!(batch.rows().next().unwrap().text(0), Some("persistent://a/b/c"));
        assert_eq!(batch.rows().nth(999).unwrap().text(0), Some("persistent://a/b/c"));
    });
}

#[test]
fn a_column_that_is_not_there_is_missing() {
    check(3, 1, &[column(1, UTF8, &[Some("x")])], |batch| {
        let row = batch.rows().next().unwrap();
        assert_eq!((row.text(0), row.text(1), row.bytes(2), row.number(2)), (None, Some("x"), None, None));
    });
}

#[test]
fn a_column_of_another_type_is_missing() {
    check(2, 1, &[column(0, BYTES, &[Some("x")]), numbers(1, &[7])], |batch| {
        let row = batch.rows().next().unwrap();
        assert_eq!((row.text(0), row.bytes(0), row.number(0)), (None, Some(&b"x"[..]), None));
        assert_eq!((row.text(1), row.bytes(1), row.number(1)), (None, None, Some(7)));
    });
}

#[test]
fn a_column_of_a_later_minor_is_passed_over() {
    check(1, 1, &[column(9, UTF8, &[Some("later")]), column(0, UTF8, &[Some("x")])], |batch| {
        assert_eq!(batch.rows().next().unwrap().text(0), Some("x"));
    });
}

#[test]
fn nothing_is_left_of_the_batch_before() {
    let first = encode(1, &[column(0, UTF8, &[Some("old")])]);
    let second = encode(1, &[]);
    let mut batch = Batch::new(1);
    // SAFETY: `encode` writes batches, and both outlive it.
    unsafe {
        batch.read(first.as_ptr(), first.len()).unwrap();
        batch.read(second.as_ptr(), second.len()).unwrap();
    }
    assert_eq!(batch.rows().next().unwrap().text(0), None);
}

#[test]
fn a_batch_of_another_major_is_refused() {
    let mut bytes = encode(1, &[]);
    bytes[0] = 2;
    let mut batch = Batch::new(0);
    // SAFETY: only the header is read.
    let error = unsafe { batch.read(bytes.as_ptr(), bytes.len()) }.unwrap_err();
    assert!(error.sentence().contains("layout"), "{error}");
}
