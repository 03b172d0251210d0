//! The interface `topics`: sets as handles of the host's.

use super::arena;
use super::imports::Returned;
use crate::verdict::Error;

#[link(wasm_import_module = "weir:extension/topics@1.0.0")]
unsafe extern "C" {
    #[link_name = "all"]
    fn import_all() -> u32;
    #[link_name = "with-property"]
    fn import_with_property(key: *const u8, key_len: usize, value: *const u8, value_len: usize) -> u32;
    #[link_name = "matching"]
    fn import_matching(pattern: *const u8, len: usize, result: *mut u32);
    #[link_name = "named"]
    fn import_named(names: *const u8, len: usize, result: *mut u32);
    #[link_name = "names"]
    fn import_names(of: u32, start: u32, limit: u32, result: *mut u32);
    #[link_name = "[method]set.intersect"]
    fn import_intersect(one: u32, other: u32, result: *mut u32);
    #[link_name = "[method]set.unite"]
    fn import_unite(one: u32, other: u32, result: *mut u32);
    #[link_name = "[method]set.without"]
    fn import_without(one: u32, other: u32, result: *mut u32);
    #[link_name = "[resource-drop]set"]
    fn import_drop(set: u32);
}

/// The host's sets.
pub(super) struct Sets;

impl crate::lister::Host for Sets {
    fn all(&self) -> u32 {
        // SAFETY: gives a handle.
        unsafe { import_all() }
    }
    fn with_property(&self, key: &str, value: &str) -> u32 {
        // SAFETY: the host reads both texts during the call.
        unsafe { import_with_property(key.as_ptr(), key.len(), value.as_ptr(), value.len()) }
    }
    fn matching(&self, pattern: &str) -> Result<u32, Error> {
        // SAFETY: the host reads the text during the call, and writes the result.
        set(|result| unsafe { import_matching(pattern.as_ptr(), pattern.len(), result) })
    }
    fn named(&self, names: &str) -> Result<u32, Error> {
        // SAFETY: as `matching`.
        set(|result| unsafe { import_named(names.as_ptr(), names.len(), result) })
    }
    fn names(&self, of: u32, start: u32, limit: u32) -> String {
        let mark = arena::mark();
        let mut words = [0_u32; 2];
        // SAFETY: the handle is ours; the host writes an address and a length.
        unsafe { import_names(of, start, limit, words.as_mut_ptr()) };
        let [address, len] = words;
        // SAFETY: the host has written a list of that length there, through `cabi_realloc`.
        let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, len as usize) }.to_vec();
        // SAFETY: it has been copied.
        unsafe { arena::rewind(&mark) };
        Returned { tag: 0, bytes }.text()
    }
    fn intersect(&self, one: u32, other: u32) -> Result<u32, Error> {
        // SAFETY: both handles are ours; the host writes the result.
        set(|result| unsafe { import_intersect(one, other, result) })
    }
    fn unite(&self, one: u32, other: u32) -> Result<u32, Error> {
        // SAFETY: as `intersect`.
        set(|result| unsafe { import_unite(one, other, result) })
    }
    fn without(&self, one: u32, other: u32) -> Result<u32, Error> {
        // SAFETY: as `intersect`.
        set(|result| unsafe { import_without(one, other, result) })
    }
    fn forget(&self, set: u32) {
        // SAFETY: the handle is ours, and given up.
        unsafe { import_drop(set) };
    }
}

/// Calls an import that returns `result<set, string>`: a discriminant, then a handle or a text.
fn set(import: impl FnOnce(*mut u32)) -> Result<u32, Error> {
    let mark = arena::mark();
    let mut words = [0_u32; 3];
    import(words.as_mut_ptr());
    let [tag, handle_or_address, len] = words;
    if tag & 0xff == 0 {
        return Ok(handle_or_address);
    }
    // SAFETY: the host has written a text of that length there, through `cabi_realloc`.
    let text = unsafe { std::slice::from_raw_parts(handle_or_address as *const u8, len as usize) }.to_vec();
    // SAFETY: it has been copied.
    unsafe { arena::rewind(&mark) };
    Err(Error::new(Returned { tag: 1, bytes: text }.text()))
}
