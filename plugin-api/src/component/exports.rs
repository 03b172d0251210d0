//! What the host calls of a component.
//!
//! Answers lie in statics until the next call, so that no `post-return` is needed: the host copies them
//! out at once.

use std::panic::set_hook;

use super::Global;
use super::arena;
use super::batch::Batch;
use super::imports::{self, Imports};
use super::topics::Sets;
use crate::config::Config;
use crate::filter::{MessageFilter, Ready};
use crate::lister::{Request, TopicLister, Topics};
use crate::message::Message;
use crate::verdict::{Error, encode};

/// What an export points the host to: a discriminant (where there is one), an address, a length.
static RESULT: Global<[u32; 3]> = Global::new([0; 3]);
/// The bytes that it points to.
static ANSWER: Global<Vec<u8>> = Global::new(Vec::new());

const OK: u32 = 0;
const ERR: u32 = 1;

/// A filter component's state.
pub struct Filter<F>(Global<Option<(Ready<F>, Batch)>>);

/// A lister component's state.
pub struct Lister<L>(Global<Option<L>>);

/// `meta.describe` of a filter.
pub fn describe_filter<F: MessageFilter>(version: &str, contract: &str) -> *const u32 {
    string(crate::json::describe(F::CLASS, "filter", version, contract, F::Config::SCHEMA))
}

/// `meta.describe` of a lister.
pub fn describe_lister<L: TopicLister>(version: &str, contract: &str) -> *const u32 {
    string(crate::json::describe(L::CLASS, "lister", version, contract, L::Config::SCHEMA))
}

impl<F: MessageFilter> Filter<F> {
    /// Not configured yet.
    #[expect(clippy::new_without_default, reason = "it must be const")]
    pub const fn new() -> Self {
        Self(Global::new(None))
    }

    /// `meta.configure`.
    ///
    /// # Safety
    /// Called by the host only: `config` and `len` are a string.
    pub unsafe fn configure(&self, imports: Imports, config: *const u8, len: usize) -> *const u32 {
        begin(imports);
        // SAFETY: the host's string lies in the arena until this export returns.
        let ready = Ready::<F>::new(unsafe { text(config, len) });
        // SAFETY: what the author keeps of it was copied.
        unsafe { arena::reset() };
        match ready {
            Ok(ready) => {
                let fields = ready.reads.to_json();
                let batch = Batch::new(ready.reads.len());
                // SAFETY: exports do not nest.
                unsafe { *self.0.get() = Some((ready, batch)) };
                result(OK, fields.into_bytes())
            }
            Err(error) => result(ERR, error.into_sentence().into_bytes()),
        }
    }

    /// `filter.judge`.
    ///
    /// # Safety
    /// Called by the host only: `bytes` and `len` are a batch.
    #[inline(always)]
    pub unsafe fn judge(&self, bytes: *const u8, len: usize) -> *const u32 {
        // SAFETY: exports do not nest.
        let Some((Ready { filter, reads }, batch)) = (unsafe { self.0.get() }) else {
            return result(ERR, b"judge was called before configure".to_vec());
        };
        // SAFETY: the batch lies in the arena until this export returns.
        if let Err(error) = unsafe { batch.read(bytes, len) } {
            return result(ERR, error.into_sentence().into_bytes());
        }
        // SAFETY: nothing else uses the answer during this call.
        let answer = unsafe { ANSWER.get() };
        answer.clear();
        answer.resize(batch.len() as usize, 0);
        for (row, byte) in batch.rows().zip(answer.iter_mut()) {
            let message = Message::new(row, Ready::<F>::READS, reads);
            let (code, delay) = encode(filter.judge(&message));
            *byte = code;
            if code == 2 {
                later::push(delay);
            }
        }
        later::append_to(answer);
        // SAFETY: messages were borrowed for one judgement each.
        unsafe { arena::reset() };
        point_to(OK, answer)
    }
}

/// Delays of a batch. Rare, so they are kept apart until the bytes are complete.
mod later {
    use super::super::Global;

    static DELAYS: Global<Vec<u8>> = Global::new(Vec::new());

    #[cold]
    pub(super) fn push(delay: u32) {
        // SAFETY: used within these two functions only.
        unsafe { DELAYS.get() }.extend_from_slice(&delay.to_le_bytes());
    }

    #[inline(always)]
    pub(super) fn append_to(answer: &mut Vec<u8>) {
        // SAFETY: as above.
        let delays = unsafe { DELAYS.get() };
        if !delays.is_empty() {
            answer.append(delays);
        }
    }
}

impl<L: TopicLister> Lister<L> {
    /// Not configured yet.
    #[expect(clippy::new_without_default, reason = "it must be const")]
    pub const fn new() -> Self {
        Self(Global::new(None))
    }

    /// `meta.configure`.
    ///
    /// # Safety
    /// Called by the host only: `config` and `len` are a string.
    pub unsafe fn configure(&self, imports: Imports, config: *const u8, len: usize) -> *const u32 {
        begin(imports);
        // SAFETY: the host's string lies in the arena until this export returns.
        let lister = L::Config::parse(unsafe { text(config, len) }).and_then(L::new);
        // SAFETY: what the author keeps of it was copied.
        unsafe { arena::reset() };
        match lister {
            Ok(lister) => {
                // SAFETY: exports do not nest.
                unsafe { *self.0.get() = Some(lister) };
                result(OK, b"[]".to_vec())
            }
            Err(error) => result(ERR, error.into_sentence().into_bytes()),
        }
    }

    /// `lister.answer`.
    ///
    /// # Safety
    /// Called by the host only: `request` and `len` are a string.
    pub unsafe fn answer(&self, request: *const u8, len: usize) -> *const u32 {
        // SAFETY: exports do not nest.
        let Some(lister) = (unsafe { self.0.get() }) else {
            return result(ERR, b"answer was called before configure".to_vec());
        };
        // SAFETY: the host's string lies in the arena until this export returns.
        let request = Request::parse(unsafe { text(request, len) });
        // SAFETY: the request was copied.
        unsafe { arena::reset() };
        let answer: Result<u32, Error> =
            request.and_then(|request| Ok(lister.answer(&request, &Topics::new(&Sets))?.into_handle()));
        match answer {
            Ok(handle) => {
                // SAFETY: the host reads it before the next call.
                let words = unsafe { RESULT.get() };
                *words = [OK, handle, 0];
                words.as_ptr()
            }
            Err(error) => result(ERR, error.into_sentence().into_bytes()),
        }
    }
}

/// What comes before an author's first line: the host's functions, and a place for a panic's text, which
/// a trap would lose.
fn begin(imports: Imports) {
    imports::set(imports);
    set_hook(Box::new(|info| imports::log(4, &info.to_string())));
}

/// The host's string.
///
/// # Safety
/// `at` and `len` are a string, and stay so.
unsafe fn text<'a>(at: *const u8, len: usize) -> &'a str {
    // SAFETY: the caller's promise; the canonical ABI lowers only valid UTF-8.
    unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(at, len)) }
}

/// Answers with a string, without a discriminant.
fn string(text: String) -> *const u32 {
    // SAFETY: nothing else uses the answer during this call.
    let answer = unsafe { ANSWER.get() };
    *answer = text.into_bytes();
    // SAFETY: the host reads it before the next call.
    let words = unsafe { RESULT.get() };
    *words = [answer.as_ptr() as u32, answer.len() as u32, 0];
    words.as_ptr()
}

/// Answers with a list or string of a result.
fn result(tag: u32, bytes: Vec<u8>) -> *const u32 {
    // SAFETY: nothing else uses the answer during this call.
    let answer = unsafe { ANSWER.get() };
    *answer = bytes;
    point_to(tag, answer)
}

#[inline(always)]
fn point_to(tag: u32, answer: &[u8]) -> *const u32 {
    // SAFETY: the host reads it before the next call.
    let words = unsafe { RESULT.get() };
    *words = [tag, answer.as_ptr() as u32, answer.len() as u32];
    words.as_ptr()
}
