//! Writes a batch as columns: the one argument of a component's `judge`. The layout is described in
//! `wit/weir.wit`.
//!
//! All of it is safe code and one pass: a column is written where the last one ended, into a buffer
//! that is kept, and is written again if its bytes turned out to be more than foreseen.

use std::sync::Arc;

use bytes::Bytes;
use weir_plugin_api::native::{Slot, Value};

use crate::filter::{Broke, BrokeKind};
use crate::message::{CellKind, Field, Mapping, Messages};

#[cfg(test)]
mod tests;

/// A payload up to this size lies in its column; a larger one is asked for by the filters that need it.
pub(super) const INLINE_PAYLOAD: usize = 4 << 10;

/// The most bytes that a batch may have. Offsets have 32 bits, and a guest has to hold it all.
const MAX_BATCH: usize = 64 << 20;

/// Of the layout's version, of its header and of a column's descriptor.
const LAYOUT: u16 = 1;
const HEADER: usize = 16;
const DESCRIPTOR: usize = 16;

/// Flags of a column.
const CONSTANT: u8 = 1;
const ALL_PRESENT: u8 = 2;

/// The columns of one instance's batches, and the buffer they are written to.
pub(super) struct Columns {
    columns: Vec<Column>,
    buffer: Arc<Vec<u8>>,
}

struct Column {
    /// Place in what the filter reads.
    slot: u16,
    kind: CellKind,
    source: Source,
    /// Bytes of a row, as foreseen from the batches before.
    foreseen: usize,
}

/// Where a column's cells come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Cells,
    /// As above, and mostly one and the same text for a whole batch.
    Shared,
    Payloads,
}

/// What a column's descriptor says.
struct Described {
    flags: u8,
    presence: usize,
    offsets: usize,
    data: usize,
    end: usize,
}

/// The room that was left is not enough.
struct Full;

impl Columns {
    pub(super) fn new(fields: &[Field]) -> Self {
        let column = |(slot, field): (usize, &Field)| Column {
            slot: u16::try_from(slot).expect("a filter reads at most MAX_FIELDS fields"),
            kind: field.kind(),
            source: match field {
                Field::Payload => Source::Payloads,
                Field::Topic | Field::Producer => Source::Shared,
                _ => Source::Cells,
            },
            foreseen: 16,
        };
        Self { columns: fields.iter().enumerate().map(column).collect(), buffer: Arc::default() }
    }

    /// Writes `rows` of `messages`. Fields that the batch has no cells for have no column.
    ///
    /// # Errors
    /// [`BrokeKind::Memory`] for a batch of more than [`MAX_BATCH`] bytes.
    pub(super) fn write(
        &mut self,
        messages: &Messages<'_>,
        rows: &[u32],
        mapping: &Mapping,
    ) -> Result<Arc<Vec<u8>>, Broke> {
        if Arc::get_mut(&mut self.buffer).is_none() {
            // A call that broke may have kept the last one.
            self.buffer = Arc::default();
        }
        let buffer = Arc::get_mut(&mut self.buffer).expect("just made");
        let n_columns = mapping.columns().flatten().count();
        let mut at = HEADER + DESCRIPTOR * n_columns;
        let mut descriptor = HEADER;
        for (column, place) in self.columns.iter_mut().zip(mapping.columns()) {
            let Some(place) = place else { continue };
            let mut room = Some(column.room(rows.len())).filter(|room| at + room <= MAX_BATCH);
            let described = loop {
                // What was foreseen was too little, or too much: what it takes, then.
                let room = room.take().unwrap_or_else(|| column.need(messages, rows, place));
                if at + room > MAX_BATCH {
                    return Err(too_large(rows.len()));
                }
                if buffer.len() < at + room {
                    buffer.resize(at + room, 0);
                }
                if let Ok(described) = column.write(buffer, at, messages, rows, place) {
                    break described;
                }
            };
            column.describe(&mut buffer[descriptor..][..DESCRIPTOR], &described);
            descriptor += DESCRIPTOR;
            at = described.end;
        }
        buffer.resize(at, 0);
        buffer[..2].copy_from_slice(&LAYOUT.to_le_bytes());
        buffer[2..4].copy_from_slice(&short(n_columns).to_le_bytes()[..2]);
        buffer[4..8].copy_from_slice(&short(rows.len()).to_le_bytes());
        buffer[8..12].copy_from_slice(&short(at).to_le_bytes());
        buffer[12..16].fill(0);
        Ok(self.buffer.clone())
    }
}

/// A length or an offset: all of them are at most [`MAX_BATCH`].
#[inline(always)]
fn short(length: usize) -> u32 {
    length as u32
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(8)
}

fn too_large(n: usize) -> Broke {
    Broke {
        kind: BrokeKind::Memory,
        reason: format!("the fields that it reads of {n} messages have more than {MAX_BATCH} bytes"),
    }
}

impl Column {
    /// What a column of `n` cells is foreseen to take.
    fn room(&self, n: usize) -> usize {
        room(n, n.saturating_mul(self.foreseen.max(8)))
    }

    /// What it takes.
    fn need(&self, messages: &Messages<'_>, rows: &[u32], place: usize) -> usize {
        let len = |row: &u32| match self.source {
            Source::Payloads => messages.payload(*row).map_or(0, Bytes::len).min(INLINE_PAYLOAD),
            Source::Cells | Source::Shared => bytes(&messages.cells(*row)[place]).map_or(0, <[u8]>::len),
        };
        room(rows.len(), rows.iter().map(len).sum::<usize>().max(8 * rows.len()))
    }

    fn write(
        &mut self,
        buffer: &mut [u8],
        at: usize,
        messages: &Messages<'_>,
        rows: &[u32],
        place: usize,
    ) -> Result<Described, Full> {
        let width = messages.fields().len();
        let all = messages.all_cells();
        let described = match (self.kind, self.source) {
            (_, Source::Payloads) => {
                let payload = |row: &u32| {
                    messages.payload(*row).map(|payload| &payload[..]).filter(|p| p.len() <= INLINE_PAYLOAD)
                };
                write_bytes(buffer, at, rows.len(), rows.iter().map(payload))?
            }
            // Rows ascend, so as many as there are means all of them.
            _ if rows.len() == messages.len() => {
                let cells = all.chunks_exact(width).map(|row| &row[place]);
                self.write_cells(buffer, at, rows.len(), cells)?
            }
            _ => {
                let cell = |row: &u32| &all[*row as usize * width + place];
                self.write_cells(buffer, at, rows.len(), rows.iter().map(cell))?
            }
        };
        // The largest of late, which a large one leaves behind step by step; a batch that has more is written
        // twice.
        let per_row = (described.end - at) / rows.len();
        self.foreseen = per_row.min(INLINE_PAYLOAD).max(self.foreseen - self.foreseen / 8);
        Ok(described)
    }

    #[inline(always)]
    fn write_cells<'c>(
        &self,
        buffer: &mut [u8],
        at: usize,
        n: usize,
        cells: impl Iterator<Item = &'c Slot<'c>> + Clone,
    ) -> Result<Described, Full> {
        if self.kind == CellKind::Number {
            return Ok(write_numbers(buffer, at, n, cells.map(number)));
        }
        if self.source == Source::Shared
            && let Some(shared) = shared(cells.clone().map(bytes))
        {
            return write_constant(buffer, at, shared);
        }
        write_bytes(buffer, at, n, cells.map(bytes))
    }

    fn describe(&self, descriptor: &mut [u8], described: &Described) {
        let kind = match self.kind {
            CellKind::Bytes => 1,
            CellKind::Text => 2,
            CellKind::Number => 3,
        };
        descriptor[..2].copy_from_slice(&self.slot.to_le_bytes());
        descriptor[2] = kind;
        descriptor[3] = described.flags;
        for (place, offset) in [described.presence, described.offsets, described.data].into_iter().enumerate()
        {
            descriptor[4 + 4 * place..][..4].copy_from_slice(&short(offset).to_le_bytes());
        }
    }
}

/// What a column of `n` cells takes that have so many bytes.
fn room(n: usize, bytes: usize) -> usize {
    presence_len(n) + offsets_len(n) + padded(bytes) + 64
}

fn presence_len(n: usize) -> usize {
    padded(n.div_ceil(8))
}

fn offsets_len(n: usize) -> usize {
    padded(4 * (n + 1))
}

#[inline(always)]
fn bytes<'c>(cell: &'c Slot<'c>) -> Option<&'c [u8]> {
    match cell.value() {
        Value::Text(text) => Some(text.as_bytes()),
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

#[inline(always)]
fn number(cell: &Slot<'_>) -> Option<i64> {
    match cell.value() {
        Value::Number(number) => Some(number),
        _ => None,
    }
}

/// The value that all cells share, if they borrow the very same bytes.
fn shared<'c>(mut cells: impl Iterator<Item = Option<&'c [u8]>>) -> Option<&'c [u8]> {
    let first = cells.next()??;
    cells.all(|cell| cell.is_some_and(|cell| std::ptr::eq(cell, first))).then_some(first)
}

/// Presence, offsets, data; presence is written only if a cell is missing.
#[inline(always)]
fn write_bytes<'c>(
    buffer: &mut [u8],
    at: usize,
    n: usize,
    cells: impl Iterator<Item = Option<&'c [u8]>> + Clone,
) -> Result<Described, Full> {
    let (presence, rest) = buffer[at..].split_at_mut(presence_len(n));
    let (offsets, data) = rest.split_at_mut(offsets_len(n));
    let (offsets, _) = offsets.as_chunks_mut::<4>();
    let Some((first, offsets)) = offsets.split_first_mut() else { return Err(Full) };
    *first = [0; 4];
    let room = data.len();
    let mut rest = data;
    let mut missing = false;
    for (offset, cell) in offsets.iter_mut().zip(cells.clone()) {
        match cell {
            Some(cell) => {
                let Some((to, after)) = rest.split_at_mut_checked(cell.len()) else { return Err(Full) };
                copy(to, cell);
                rest = after;
            }
            None => missing = true,
        }
        *offset = short(room - rest.len()).to_le_bytes();
    }
    let end = room - rest.len();
    if missing {
        write_presence(presence, cells.map(|cell| cell.is_some()));
    }
    let offsets = at + presence_len(n);
    let data = offsets + offsets_len(n);
    let (flags, presence) = if missing { (0, at) } else { (ALL_PRESENT, 0) };
    Ok(Described { flags, presence, offsets, data, end: padded(data + end) }).and_then(|d| within(buffer, d))
}

fn write_constant(buffer: &mut [u8], at: usize, value: &[u8]) -> Result<Described, Full> {
    let (offsets, data) = (at, at + 8);
    let end = padded(data + value.len());
    let Some(section) = buffer.get_mut(at..end) else { return Err(Full) };
    section[..4].fill(0);
    section[4..8].copy_from_slice(&short(value.len()).to_le_bytes());
    section[8..][..value.len()].copy_from_slice(value);
    Ok(Described { flags: CONSTANT | ALL_PRESENT, presence: 0, offsets, data, end })
}

#[inline(always)]
fn write_numbers(
    buffer: &mut [u8],
    at: usize,
    n: usize,
    cells: impl Iterator<Item = Option<i64>> + Clone,
) -> Described {
    let (presence, data) = buffer[at..].split_at_mut(presence_len(n));
    let (places, _) = data.as_chunks_mut::<8>();
    let mut missing = false;
    for (place, cell) in places.iter_mut().zip(cells.clone()) {
        missing |= cell.is_none();
        *place = cell.unwrap_or(0).to_le_bytes();
    }
    if missing {
        write_presence(presence, cells.map(|cell| cell.is_some()));
    }
    let data = at + presence_len(n);
    let (flags, presence) = if missing { (0, at) } else { (ALL_PRESENT, 0) };
    Described { flags, presence, offsets: 0, data, end: data + 8 * n }
}

#[cold]
fn write_presence(presence: &mut [u8], present: impl Iterator<Item = bool>) {
    presence.fill(0);
    for (at, present) in present.enumerate() {
        presence[at / 8] |= u8::from(present) << (at % 8);
    }
}

/// Checks that a column's padding has room too.
fn within(buffer: &[u8], described: Described) -> Result<Described, Full> {
    if described.end <= buffer.len() { Ok(described) } else { Err(Full) }
}

/// Copies a value of few bytes without a call, which would cost more than the copying.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        8..=16 => copy_ends::<8>(to, from),
        4..=7 => copy_ends::<4>(to, from),
        2..=3 => copy_ends::<2>(to, from),
        // Written out: a loop would become the call again.
        1 => {
            if let ([to], [from]) = (to, from) {
                *to = *from;
            }
        }
        _ => to.copy_from_slice(from),
    }
}

/// Copies N to 2 N bytes as the first and the last N of them.
#[inline(always)]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(head), Some(tail)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
        if let Some(to) = to.first_chunk_mut::<N>() {
            *to = *head;
        }
        if let Some(to) = to.last_chunk_mut::<N>() {
            *to = *tail;
        }
    }
}
