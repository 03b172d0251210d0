//! The fields of a protobuf message, read in place.
//!
//! Used where prost's structs would be too much (a batch of a thousand messages, of which a filter
//! reads one property) or too little (prost takes a missing required field for zero, and forgets fields
//! that it does not know).

use std::ops::Range;

use bytes::BufMut;

/// One field as it lies in its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    /// Its number.
    pub(crate) tag: u32,
    /// What it holds.
    pub(crate) value: Value<'a>,
    /// Where it lies in the message, its key included.
    pub(crate) range: Range<usize>,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A number of variable length.
    Varint(u64),
    /// Four or eight bytes.
    Fixed,
    /// A string, bytes, a message or packed numbers; and where its bytes lie in the message.
    Bytes(&'a [u8], Range<usize>),
}

/// Why bytes are not the fields of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The bytes end within a field.
    #[error("the bytes end within a field, at byte {0}")]
    Cut(usize),
    /// A number is longer than ten bytes, or larger than 64 bits.
    #[error("a number at byte {0} does not fit 64 bits")]
    Varint(usize),
    /// A field's key is not one.
    #[error("the field at byte {0} has no valid number and type")]
    Key(usize),
}

/// Iterates over the fields of `message`; ends after the first error.
pub(crate) fn fields(message: &[u8]) -> Fields<'_> {
    Fields { message, at: 0 }
}

/// See [`fields`].
pub(crate) struct Fields<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<Field<'a>, FieldError> {
        let start = self.at;
        let key = self.varint()?;
        let tag = u32::try_from(key >> 3).ok().filter(|tag| *tag != 0).ok_or(FieldError::Key(start))?;
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_too_large| FieldError::Cut(start))?;
                let range = self.take(len)?;
                Value::Bytes(&self.message[range.clone()], range)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            // 3 and 4 are groups, which no Pulsar message ever had.
            _ => return Err(FieldError::Key(start)),
        };
        Ok(Field { tag, value, range: start..self.at })
    }

    fn take(&mut self, len: usize) -> Result<Range<usize>, FieldError> {
        if len > self.message.len() - self.at {
            return Err(FieldError::Cut(self.at));
        }
        let start = self.at;
        self.at += len;
        Ok(start..self.at)
    }

    fn varint(&mut self) -> Result<u64, FieldError> {
        let start = self.at;
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.message.get(self.at).ok_or(FieldError::Cut(start))?;
            self.at += 1;
            // The tenth byte has room for one bit.
            if shift == 63 && byte > 1 {
                return Err(FieldError::Varint(start));
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(FieldError::Varint(start))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, FieldError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.message.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.at = self.message.len();
        }
        Some(field)
    }
}

/// Writes a field that holds a number.
pub(crate) fn put_varint_field(tag: u32, value: u64, out: &mut impl BufMut) {
    put_varint(u64::from(tag) << 3, out);
    put_varint(value, out);
}

/// Writes the key and length of a field that holds `len` bytes, which are to follow.
pub(crate) fn put_bytes_key(tag: u32, len: usize, out: &mut impl BufMut) {
    put_varint(u64::from(tag) << 3 | 2, out);
    put_varint(len as u64, out);
}

/// How many bytes a number takes.
pub(crate) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

fn put_varint(mut value: u64, out: &mut impl BufMut) {
    while value >= 0x80 {
        out.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(value, &mut out);
        out
    }

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 300, 1 << 32, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint_field(5, value, &mut bytes);
            let field = fields(&bytes).next().unwrap().unwrap();
            assert_eq!((field.tag, field.value), (5, Value::Varint(value)));
            assert_eq!(varint(value).len(), varint_len(value), "{value}");
        }
    }

    #[test]
    fn minus_one_takes_ten_bytes() {
        assert_eq!(varint(u64::MAX).len(), 10);
    }

    #[test]
    fn faults_are_told_apart() {
        let one = |bytes: &[u8]| fields(bytes).next().unwrap().unwrap_err();
        assert_eq!(one(&[0x08]), FieldError::Cut(1));
        assert_eq!(one(&[0x0a, 5, 1, 2]), FieldError::Cut(2));
        assert_eq!(one(&[0x00, 0]), FieldError::Key(0));
        assert_eq!(one(&[0x0b]), FieldError::Key(0));
        assert_eq!(one(&[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2]), FieldError::Varint(1));
        assert_eq!(one(&[0x0a, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]), FieldError::Cut(11));
    }

    #[test]
    fn ends_after_an_error() {
        assert_eq!(fields(&[0x0b, 0x08, 1]).count(), 1);
    }
}
