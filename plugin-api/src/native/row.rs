//! A message of a native batch: its slots, still in the host's memory.

use std::borrow::Cow;

use super::v1_0::{Slot, Value};
use crate::verdict::Error;

/// Where a row finds a payload that it does not hold.
pub(super) trait Ask {
    fn payload(&self, row: u32) -> Result<&[u8], Error>;
}

/// A row of a batch. A slot is the place of a field in what the filter reads.
pub(crate) struct Row<'a> {
    slots: &'a [Slot<'a>],
    columns: &'a [u16],
    index: u32,
    batch: &'a dyn Ask,
}

impl<'a> Row<'a> {
    /// A row whose fields lie at `columns` of `slots`.
    ///
    /// # Safety
    /// Every column is less than the number of slots.
    #[inline(always)]
    pub(super) unsafe fn new(
        slots: &'a [Slot<'a>],
        columns: &'a [u16],
        index: u32,
        batch: &'a dyn Ask,
    ) -> Self {
        Self { slots, columns, index, batch }
    }

    #[inline(always)]
    fn value(&self, slot: usize) -> Value<'a> {
        let column = usize::from(self.columns[slot]);
        // SAFETY: whoever made the row has checked its columns.
        unsafe { self.slots.get_unchecked(column) }.value()
    }

    #[inline(always)]
    pub(crate) fn text(&self, slot: usize) -> Option<&'a str> {
        if let Value::Text(text) = self.value(slot) { Some(text) } else { None }
    }

    #[inline(always)]
    pub(crate) fn bytes(&self, slot: usize) -> Option<&'a [u8]> {
        match self.value(slot) {
            Value::Bytes(bytes) => Some(bytes),
            Value::Text(text) => Some(text.as_bytes()),
            Value::Missing | Value::Number(_) | Value::Flag(_) => None,
        }
    }

    #[inline(always)]
    pub(crate) fn number(&self, slot: usize) -> Option<i64> {
        if let Value::Number(number) = self.value(slot) { Some(number) } else { None }
    }

    /// The payload, asked for.
    pub(crate) fn payload(&self) -> Result<Cow<'a, [u8]>, Error> {
        self.batch.payload(self.index).map(Cow::Borrowed)
    }
}
