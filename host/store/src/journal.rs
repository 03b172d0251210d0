//! The tail of the engine's journal, looked at before the engine reads it.
//!
//! After a crash of the machine the end of the journal may be torn: a write that was not synced is there
//! in part, in any order of its pages. The engine cuts a tail that ends early, silently, but refuses to
//! open when the tail's length is right and its bytes are not. So we walk over the whole writes
//! first, cut what follows the last of them, and say so.
//!
//! *Torn* has to be told from *damaged*. The writer syncs each group of entries before it writes the
//! next, so at most one group can be unsynced when the machine ends. A broken write with two or more
//! whole groups behind it was synced once: that is damage, and cutting there would lose what was
//! acknowledged. Then we refuse and name the place.
//!
//! Only the newest journal can be torn: the engine syncs one before it begins the next.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use crate::disk::ENTRIES_ID;
use crate::store::StoreError;

/// What ends each write.
const TRAILER: [u8; 4] = *b"FJL\x03";
/// Begin of a write: tag, number of items, sequence number.
const START_BYTES: u64 = 1 + 4 + 8;
/// End of a write: tag, checksum, trailer.
const END_BYTES: u64 = 1 + 8 + 4;

const TAG_START: u8 = 1;
const TAG_ITEM: u8 = 2;
const TAG_END: u8 = 3;
const TAG_CLEAR: u8 = 4;

/// Cuts what follows the last whole write of the newest journal in `engine`. Returns a sentence if there
/// was something but zeros, which the engine allocates ahead.
pub(crate) fn cut_torn_tail(engine: &Path) -> Result<Option<String>, StoreError> {
    let Some(path) = newest_journal(engine)? else { return Ok(None) };
    let file = File::options().read(true).write(true).open(&path)?;
    let length = file.metadata()?.len();
    let mut journal = Journal { input: BufReader::with_capacity(1 << 20, file), position: 0, length };
    let mut whole = 0;
    while journal.write()?.is_some() {
        whole = journal.position;
    }
    let Some(torn) = journal.bytes_until_zeros(whole)? else { return Ok(None) };
    if journal.groups_after(whole + 1)? > 1 {
        return Err(StoreError::damaged(&format!(
            "journal {} is broken at byte {whole}, and what was written later is whole: this is no torn tail",
            path.display()
        )));
    }
    let file = journal.input.into_inner();
    file.set_len(whole)?;
    file.sync_all()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(Some(format!(
        "cut {torn} bytes of an unfinished write, never acknowledged, from the end of journal {name} at byte {whole}"
    )))
}

fn newest_journal(engine: &Path) -> Result<Option<PathBuf>, StoreError> {
    let mut newest: Option<(u64, PathBuf)> = None;
    for entry in fs::read_dir(engine)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse().ok());
        if let Some(number) = number
            && newest.as_ref().is_none_or(|(newest, _)| *newest < number)
        {
            newest = Some((number, path));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

struct Journal {
    input: BufReader<File>,
    position: u64,
    length: u64,
}

impl Journal {
    /// Reads one write. `None` if none that is whole begins here; then the position means nothing.
    /// Otherwise whether it holds entries.
    fn write(&mut self) -> Result<Option<bool>, StoreError> {
        let Some(head) = self.take::<{ START_BYTES as usize }>()? else { return Ok(None) };
        if head[0] != TAG_START {
            return Ok(None);
        }
        let items = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let mut checksum = Xxh3::new();
        let mut entries = false;
        for _ in 0..items {
            match self.item(&mut checksum)? {
                None => return Ok(None),
                Some(table) => entries |= table == ENTRIES_ID,
            }
        }
        let Some(end) = self.take::<{ END_BYTES as usize }>()? else { return Ok(None) };
        let (&tag, rest) = end.split_first().unwrap_or((&0, &[]));
        let whole = tag == TAG_END && rest[..8] == checksum.finish().to_le_bytes() && rest[8..] == TRAILER;
        Ok(whole.then_some(entries))
    }

    /// Reads one item and adds it to the checksum. Returns its table.
    fn item(&mut self, checksum: &mut Xxh3) -> Result<Option<u64>, StoreError> {
        let Some([tag]) = self.take::<1>()? else { return Ok(None) };
        checksum.update(&[tag]);
        match tag {
            TAG_CLEAR => {
                let Some(table) = self.take::<8>()? else { return Ok(None) };
                checksum.update(&table);
                Ok(Some(u64::from_le_bytes(table)))
            }
            TAG_ITEM => {
                // Kind, compression, table, length of the key, of the value, of the value as it lies here.
                let Some(head) = self.take::<{ 1 + 1 + 8 + 2 + 4 + 4 }>()? else { return Ok(None) };
                checksum.update(&head);
                let [_, _, t0, t1, t2, t3, t4, t5, t6, t7, k0, k1, _, _, _, _, v0, v1, v2, v3] = head;
                let bytes =
                    u64::from(u16::from_le_bytes([k0, k1])) + u64::from(u32::from_le_bytes([v0, v1, v2, v3]));
                let table = u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
                Ok(self.skip_into(bytes, checksum)?.then_some(table))
            }
            _ => Ok(None),
        }
    }

    fn take<const N: usize>(&mut self) -> Result<Option<[u8; N]>, StoreError> {
        let after = self.position + N as u64;
        if after > self.length {
            return Ok(None);
        }
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        self.position = after;
        Ok(Some(bytes))
    }

    fn skip_into(&mut self, mut bytes: u64, checksum: &mut Xxh3) -> Result<bool, StoreError> {
        if bytes > self.length - self.position {
            return Ok(false);
        }
        self.position += bytes;
        let mut buffer = [0; 16 * 1024];
        while bytes > 0 {
            let part = buffer.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
            self.input.read_exact(&mut buffer[..part])?;
            checksum.update(&buffer[..part]);
            bytes -= part as u64;
        }
        Ok(true)
    }

    fn seek(&mut self, position: u64) -> Result<(), StoreError> {
        self.input.seek(SeekFrom::Start(position))?;
        self.position = position;
        Ok(())
    }

    /// The bytes from `position` up to the last one that is not zero; `None` if all are.
    fn bytes_until_zeros(&mut self, position: u64) -> Result<Option<u64>, StoreError> {
        self.seek(position)?;
        let (mut at, mut last) = (position, None);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let part = self.input.read(&mut buffer)?;
            if part == 0 {
                return Ok(last.map(|last: u64| last + 1 - position));
            }
            if let Some(index) = buffer[..part].iter().rposition(|&byte| byte != 0) {
                last = Some(at + index as u64);
            }
            at += part as u64;
        }
    }

    /// Counts whole writes with entries that begin right after a trailer at or behind `position`.
    fn groups_after(&mut self, position: u64) -> Result<usize, StoreError> {
        let mut groups = 0;
        let mut from = position;
        while let Some(start) = self.after_trailer(from)? {
            self.seek(start)?;
            from = start;
            while let Some(entries) = self.write()? {
                groups += usize::from(entries);
                from = self.position;
            }
        }
        Ok(groups)
    }

    /// The place after the next trailer at or behind `position`.
    fn after_trailer(&mut self, position: u64) -> Result<Option<u64>, StoreError> {
        self.seek(position)?;
        let mut window = [0_u8; 4];
        let mut at = position;
        for byte in self.input.by_ref().bytes() {
            window = [window[1], window[2], window[3], byte?];
            at += 1;
            if window == TRAILER {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
