//! A batch as the host wrote it: columns in one block of bytes (`filter.judge` in `wit/weir.wit`).
//!
//! The host guarantees that offsets are in range and text is UTF-8, and a component can hurt nobody but
//! itself: so nothing is checked here that the host has checked.

use std::ptr;

use crate::field::Fields;
use crate::verdict::Error;

/// The layout that this crate reads.
const LAYOUT: u16 = 1;
const HEADER: usize = 16;
const DESCRIPTOR: usize = 16;

/// Types of columns. A bool is never asked for by the fields of this minor.
const BYTES: u8 = 1;
const UTF8: u8 = 2;
const I64: u8 = 3;
/// There is no such column: every message lacks the field.
const NONE: u8 = 255;

const CONSTANT: u8 = 1;
const ALL_PRESENT: u8 = 2;

#[derive(Clone, Copy)]
struct Column {
    /// Its type, and its flags in the high byte: one comparison finds the common case.
    kind: u16,
    presence: *const u8,
    offsets: *const u8,
    data: *const u8,
}

const ABSENT: Column =
    Column { kind: NONE as u16, presence: ptr::null(), offsets: ptr::null(), data: ptr::null() };

/// A batch that is being judged.
pub(crate) struct Batch {
    len: u32,
    /// By slot, as far as fields can be declared in a constant: the place of such a column is known when
    /// the filter is compiled.
    declared: [Column; Fields::MAX],
    /// Those of further slots.
    configured: Vec<Column>,
}

impl Batch {
    /// An empty batch for a filter that reads so many fields.
    pub(crate) fn new(fields: usize) -> Self {
        let configured = vec![ABSENT; fields.saturating_sub(Fields::MAX)];
        Self { len: 0, declared: [ABSENT; Fields::MAX], configured }
    }

    /// Reads the header and the columns' places.
    ///
    /// # Errors
    /// When the layout is not ours: the host is of another major.
    ///
    /// # Safety
    /// `bytes` and `len` must be a batch as the contract has it, and stay so while rows are read.
    #[inline]
    pub(crate) unsafe fn read(&mut self, bytes: *const u8, len: usize) -> Result<(), Error> {
        // SAFETY: a batch has a header, and as many descriptors as it says; their offsets are in range.
        unsafe {
            if len < HEADER || read_u16(bytes) != LAYOUT {
                return Err(Error::new("the batch has a layout that this extension does not know"));
            }
            let columns = usize::from(read_u16(bytes.add(2)));
            self.len = read_u32(bytes.add(4));
            if read_u32(bytes.add(8)) as usize != len {
                return Err(Error::new("the batch has another length than its header says"));
            }
            self.declared = [ABSENT; Fields::MAX];
            self.configured.fill(ABSENT);
            for column in 0..columns {
                let at = bytes.add(HEADER + DESCRIPTOR * column);
                let slot = usize::from(read_u16(at));
                let place = match self.declared.get_mut(slot) {
                    Some(place) => Some(place),
                    // A slot that was not asked for is one that a later minor added.
                    None => self.configured.get_mut(slot - Fields::MAX),
                };
                if let Some(place) = place {
                    *place = Column {
                        kind: read_u16(at.add(2)),
                        presence: bytes.add(read_u32(at.add(4)) as usize),
                        offsets: bytes.add(read_u32(at.add(8)) as usize),
                        data: bytes.add(read_u32(at.add(12)) as usize),
                    };
                }
            }
        }
        Ok(())
    }

    /// The number of messages.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The messages of the batch that was read last, in order.
    #[inline(always)]
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.len).map(|index| Row { batch: self, index })
    }
}

/// A row of a batch. A slot is the place of a field in what the filter reads.
pub(crate) struct Row<'a> {
    batch: &'a Batch,
    index: u32,
}

impl<'a> Row<'a> {
    #[inline(always)]
    fn column(&self, slot: usize) -> &'a Column {
        if slot < Fields::MAX {
            &self.batch.declared[slot]
        } else {
            &self.batch.configured[slot - Fields::MAX]
        }
    }

    /// The place of this row's cell in a column of that type, if it has one there.
    #[inline(always)]
    fn cell(&self, column: &Column, kind: u8) -> Option<usize> {
        let row = self.index as usize;
        if column.kind == u16::from(kind) | u16::from(ALL_PRESENT) << 8 {
            return Some(row);
        }
        if column.kind & 0xff != u16::from(kind) {
            return None;
        }
        if column.kind & u16::from(CONSTANT) << 8 != 0 {
            return Some(0);
        }
        // SAFETY: without the two flags there is a presence bit for each row.
        let bits = unsafe { *column.presence.add(row >> 3) };
        (bits >> (row & 7) & 1 != 0).then_some(row)
    }

    /// The bytes of a cell of a column that has offsets.
    ///
    /// # Safety
    /// The column is of text or bytes, and `cell` is present in it.
    #[inline(always)]
    unsafe fn slice(column: &Column, cell: usize) -> &'a [u8] {
        // SAFETY: a present cell of these types has two offsets, in range.
        unsafe {
            let start = read_u32(column.offsets.add(4 * cell)) as usize;
            let end = read_u32(column.offsets.add(4 * cell + 4)) as usize;
            std::slice::from_raw_parts(column.data.add(start), end - start)
        }
    }

    #[inline(always)]
    pub(crate) fn bytes(&self, slot: usize) -> Option<&'a [u8]> {
        let column = self.column(slot);
        let cell = self.cell(column, BYTES).or_else(|| self.cell(column, UTF8))?;
        // SAFETY: the cell was just found in a column of one of these types.
        Some(unsafe { Self::slice(column, cell) })
    }

    #[inline(always)]
    pub(crate) fn text(&self, slot: usize) -> Option<&'a str> {
        let column = self.column(slot);
        let cell = self.cell(column, UTF8)?;
        // SAFETY: the cell was just found in a column of text, and cells of text are valid UTF-8.
        Some(unsafe { std::str::from_utf8_unchecked(Self::slice(column, cell)) })
    }

    #[inline(always)]
    pub(crate) fn number(&self, slot: usize) -> Option<i64> {
        let column = self.column(slot);
        let cell = self.cell(column, I64)?;
        // SAFETY: a column of this type has eight bytes for each row; they may be unaligned.
        Some(i64::from_le(unsafe { ptr::read_unaligned(column.data.add(8 * cell).cast()) }))
    }

    /// The payload, asked for.
    #[cfg(target_family = "wasm")]
    pub(crate) fn payload(&self) -> Result<std::borrow::Cow<'a, [u8]>, Error> {
        super::imports::payload(self.index).map(std::borrow::Cow::Owned)
    }
}

#[inline(always)]
unsafe fn read_u16(at: *const u8) -> u16 {
    // SAFETY: the caller's promise; the read is unaligned.
    u16::from_le(unsafe { ptr::read_unaligned(at.cast()) })
}

#[inline(always)]
unsafe fn read_u32(at: *const u8) -> u32 {
    // SAFETY: the caller's promise; the read is unaligned.
    u32::from_le(unsafe { ptr::read_unaligned(at.cast()) })
}

#[cfg(test)]
mod tests;
