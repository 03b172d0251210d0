//! A batch as the host wrote it: columns in one block of bytes (`filter.judge` in `wit/weir.wit`).
//!
//! The host guarantees that offsets are in range and text is UTF-8, and a component can hurt nobody but
//! itself: so nothing is checked here that the host has checked.

use std::ptr;

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
    kind: u8,
    flags: u8,
    presence: *const u8,
    offsets: *const u8,
    data: *const u8,
}

const ABSENT: Column =
    Column { kind: NONE, flags: 0, presence: ptr::null(), offsets: ptr::null(), data: ptr::null() };

/// A batch that is being judged.
pub(crate) struct Batch {
    len: u32,
    /// By slot; kept from batch to batch.
    columns: Vec<Column>,
}

impl Batch {
    /// An empty batch for a filter that reads so many fields.
    pub(crate) fn new(fields: usize) -> Self {
        Self { len: 0, columns: vec![ABSENT; fields] }
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
            self.columns.fill(ABSENT);
            for column in 0..columns {
                let at = bytes.add(HEADER + DESCRIPTOR * column);
                // A slot that was not asked for is one that a later minor added.
                if let Some(place) = self.columns.get_mut(usize::from(read_u16(at))) {
                    *place = Column {
                        kind: *at.add(2),
                        flags: *at.add(3),
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

    /// A message of the batch that was read last.
    #[inline(always)]
    pub(crate) fn row(&self, index: u32) -> Row<'_> {
        Row { batch: self, index }
    }
}

/// A row of a batch. A slot is the place of a field in what the filter reads.
pub(crate) struct Row<'a> {
    batch: &'a Batch,
    index: u32,
}

impl<'a> Row<'a> {
    /// The slot's column and the place of this row's cell, if it has one.
    #[inline(always)]
    fn cell(&self, slot: usize) -> Option<(&'a Column, usize)> {
        let column = &self.batch.columns[slot];
        let row = self.index as usize;
        if column.flags & CONSTANT != 0 {
            return Some((column, 0));
        }
        if column.flags & ALL_PRESENT == 0 {
            if column.kind == NONE {
                return None;
            }
            // SAFETY: without the flag there is a presence bit for each row.
            let bits = unsafe { *column.presence.add(row >> 3) };
            if bits >> (row & 7) & 1 == 0 {
                return None;
            }
        }
        Some((column, row))
    }

    #[inline(always)]
    pub(crate) fn bytes(&self, slot: usize) -> Option<&'a [u8]> {
        let (column, cell) = self.cell(slot)?;
        if column.kind != BYTES && column.kind != UTF8 {
            return None;
        }
        // SAFETY: a present cell of these types has two offsets, in range.
        unsafe {
            let start = read_u32(column.offsets.add(4 * cell)) as usize;
            let end = read_u32(column.offsets.add(4 * cell + 4)) as usize;
            Some(std::slice::from_raw_parts(column.data.add(start), end - start))
        }
    }

    #[inline(always)]
    pub(crate) fn text(&self, slot: usize) -> Option<&'a str> {
        if self.batch.columns[slot].kind != UTF8 {
            return None;
        }
        // SAFETY: cells of this type are valid UTF-8.
        self.bytes(slot).map(|bytes| unsafe { std::str::from_utf8_unchecked(bytes) })
    }

    #[inline(always)]
    pub(crate) fn number(&self, slot: usize) -> Option<i64> {
        let (column, cell) = self.cell(slot)?;
        if column.kind != I64 {
            return None;
        }
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
