//! Where the host puts what it passes in: a block that is used again for every call.
//!
//! The canonical ABI has the host allocate through `cabi_realloc`. An allocator would cost as much as
//! judging a few messages; here an allocation moves a mark, and the end of a call moves it back.
//!
//! The block grows to the next power of two above the largest call so far, and stays that large: an
//! instance's memory never shrinks anyway. What a call outgrew is given back when it ends.

use std::alloc::{Layout, alloc, dealloc};

use super::Global;

const ALIGN: usize = 16;
const SMALLEST: usize = 16 * 1024;

struct Arena {
    block: *mut u8,
    size: usize,
    used: usize,
    /// Blocks that the running call has filled.
    full: Vec<(*mut u8, usize)>,
}

static ARENA: Global<Arena> =
    Global::new(Arena { block: std::ptr::null_mut(), size: 0, used: 0, full: Vec::new() });

/// A place in the arena, to go back to.
pub(super) struct Mark {
    block: *mut u8,
    used: usize,
}

/// Allocates for the host.
///
/// # Safety
/// Called by the canonical ABI only: `old` is null, or the last that was given.
#[unsafe(no_mangle)]
unsafe extern "C" fn cabi_realloc(old: *mut u8, old_len: usize, align: usize, len: usize) -> *mut u8 {
    if len == 0 {
        return std::ptr::without_provenance_mut(align);
    }
    // SAFETY: no other reference to the arena is held across an import or export.
    let arena = unsafe { ARENA.get() };
    let at = arena.used.next_multiple_of(ALIGN);
    if old_len == 0 && at.checked_add(len).is_some_and(|end| end <= arena.size) {
        arena.used = at + len;
        // SAFETY: within the block, as just compared.
        return unsafe { arena.block.add(at) };
    }
    // SAFETY: `old` holds `old_len` bytes.
    unsafe { arena.grow(old, old_len, len) }
}

impl Arena {
    #[cold]
    #[inline(never)]
    unsafe fn grow(&mut self, old: *const u8, old_len: usize, len: usize) -> *mut u8 {
        let wanted = self.used.saturating_add(len).checked_next_power_of_two().unwrap_or(usize::MAX);
        let Ok(layout) = Layout::from_size_align(wanted.max(SMALLEST), ALIGN) else {
            core::arch::wasm32::unreachable()
        };
        // SAFETY: the size is not zero.
        let block = unsafe { alloc(layout) };
        if block.is_null() {
            // The host counts a trap at its memory limit as that.
            core::arch::wasm32::unreachable()
        }
        // SAFETY: the fresh block is longer than `len`.
        unsafe { std::ptr::copy_nonoverlapping(old, block, old_len.min(len)) };
        if self.size > 0 {
            self.full.push((self.block, self.size));
        }
        (self.block, self.size, self.used) = (block, layout.size(), len);
        block
    }

    fn free_full(&mut self) {
        for (block, size) in self.full.drain(..) {
            // SAFETY: it was allocated with this layout, in `grow`.
            unsafe { dealloc(block, Layout::from_size_align_unchecked(size, ALIGN)) };
        }
    }
}

/// Takes back everything that the host has put in.
///
/// # Safety
/// Nothing of it may be used any more.
#[inline(always)]
pub(super) unsafe fn reset() {
    // SAFETY: as in `cabi_realloc`.
    let arena = unsafe { ARENA.get() };
    arena.used = 0;
    if !arena.full.is_empty() {
        arena.free_full();
    }
}

/// The place that the next allocation gets.
pub(super) fn mark() -> Mark {
    // SAFETY: as in `cabi_realloc`.
    let arena = unsafe { ARENA.get() };
    Mark { block: arena.block, used: arena.used }
}

/// Takes back what the host has put in since the mark.
///
/// # Safety
/// Nothing of it may be used any more.
pub(super) unsafe fn rewind(mark: &Mark) {
    // SAFETY: as in `cabi_realloc`.
    let arena = unsafe { ARENA.get() };
    // A block that is newer than the mark holds nothing older.
    arena.used = if arena.block == mark.block { mark.used } else { 0 };
}
