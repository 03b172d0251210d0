//! What a component calls of the host.

use super::Global;
use super::arena;
use crate::verdict::Error;

/// The host's functions, of the minor that the extension was built for.
#[derive(Clone, Copy)]
pub struct Imports {
    /// `host.log`.
    pub log: unsafe extern "C" fn(level: u32, text: *const u8, len: usize),
    /// `host.payload`; `result` is three words.
    pub payload: unsafe extern "C" fn(index: u32, result: *mut u32),
}

/// What `export!` has chosen; set before the first call into the author's code.
static IMPORTS: Global<Option<Imports>> = Global::new(None);

macro_rules! host {
    ($module:literal) => {
        #[link(wasm_import_module = $module)]
        unsafe extern "C" {
            fn log(level: u32, text: *const u8, len: usize);
            fn payload(index: u32, result: *mut u32);
        }
        /// The functions of this minor.
        pub const IMPORTS: super::Imports = super::Imports { log, payload };
    };
}

/// The first minor.
pub mod v1_0 {
    host!("weir:extension/host@1.0.0");
}

/// The minor that only tests know: one function more.
#[cfg(feature = "next-minor")]
pub mod v1_1 {
    host!("weir:extension/host@1.1.0");

    #[link(wasm_import_module = "weir:extension/host@1.1.0")]
    unsafe extern "C" {
        #[link_name = "batches"]
        fn import_batches() -> u64;
    }

    /// How many batches this instance has been handed; the one being judged counts.
    pub fn batches() -> u64 {
        // SAFETY: it takes and gives a number.
        unsafe { import_batches() }
    }
}

/// Sets the host's functions.
pub(super) fn set(imports: Imports) {
    // SAFETY: called at the start of an export, when nothing else runs.
    unsafe { *IMPORTS.get() = Some(imports) };
}

fn imports() -> Option<Imports> {
    // SAFETY: copied out at once.
    unsafe { *IMPORTS.get() }
}

/// Writes to the host's log.
pub(crate) fn log(level: u8, text: &str) {
    if let Some(imports) = imports() {
        // SAFETY: the host reads the text during the call.
        unsafe { (imports.log)(level.into(), text.as_ptr(), text.len()) };
    }
}

/// The payload of a message of the running batch.
pub(crate) fn payload(index: u32) -> Result<Vec<u8>, Error> {
    let imports = imports().expect("set before the first batch");
    // SAFETY: `result` is what the function writes: a discriminant, an address, a length.
    let result = returned(|result| unsafe { (imports.payload)(index, result) });
    if result.tag == 0 { Ok(result.bytes) } else { Err(Error::new(result.text())) }
}

/// What an import gave back, copied out of the arena.
pub(super) struct Returned {
    /// 0 for ok.
    pub(super) tag: u32,
    /// The list or string of the result.
    pub(super) bytes: Vec<u8>,
}

impl Returned {
    /// The bytes as text. The host lowers only valid strings.
    pub(super) fn text(self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Calls an import that returns `result<list<u8>, string>`, and gives its memory back at once: a batch
/// may ask for each of its payloads.
pub(super) fn returned(import: impl FnOnce(*mut u32)) -> Returned {
    let mark = arena::mark();
    let mut words = [0_u32; 3];
    import(words.as_mut_ptr());
    let [tag, address, len] = words;
    // SAFETY: the host has written a list of that length there, through `cabi_realloc`.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, len as usize) }.to_vec();
    // SAFETY: it has been copied.
    unsafe { arena::rewind(&mark) };
    // The discriminant is a byte; what lies beside it is not written.
    Returned { tag: tag & 0xff, bytes }
}
