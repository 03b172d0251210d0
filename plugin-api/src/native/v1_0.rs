//! The native contract, minor 1.0. From the first release on it is frozen: a type in this file never changes
//! again then, since `abi_stable` refuses a library whose layout differs from what the host expects.
//!
//! Everything that crosses the boundary is here. What an author sees lies elsewhere, and may grow.

#![expect(unused_qualifications, clippy::mem_forget, reason = "what abi_stable's macros generate")]

use std::marker::PhantomData;
use std::ptr;

use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::sabi_types::{RRef, VersionStrings};
use abi_stable::std_types::{RBox, ROption, RResult, RSlice, RSliceMut, RStr, RString, RVec};

use crate::verdict::Error;

/// What a library gives the host when it is opened.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = RootRef)))]
#[sabi(missing_field(panic))]
pub struct Root {
    /// Hands the library its host. Called once, before everything else.
    pub start: extern "C" fn(host: Host),
    /// What the extension says of itself: the JSON object of `meta.describe` in `wit/weir.wit`.
    pub describe: extern "C" fn() -> RString,
    /// A filter with this configuration (JSON).
    pub filter: extern "C" fn(config: RStr<'_>) -> RResult<FilterBox, Failure>,
    /// A lister with this configuration (JSON).
    #[sabi(last_prefix_field)]
    pub lister: extern "C" fn(config: RStr<'_>) -> RResult<ListerBox, Failure>,
}

impl RootModule for RootRef {
    abi_stable::declare_root_module_statics! {RootRef}
    const BASE_NAME: &'static str = "weir";
    const NAME: &'static str = "weir";
    const VERSION_STRINGS: VersionStrings = VersionStrings::new("1.0.0");
}

/// What a library may call at any time, from any thread.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Host {
    /// The host's own mark for this library; handed back with every call.
    pub context: u64,
    /// Writes a line to the host's log. Levels: 0 trace, 1 debug, 2 info, 3 warn, 4 error.
    pub log: extern "C" fn(context: u64, level: u8, text: RStr<'_>),
}

/// Why a call gave nothing.
#[repr(u8)]
#[derive(StableAbi, Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The extension returned an error; the instance may go on.
    Error(RString),
    /// It panicked, with this text and place; the instance must be thrown away.
    Panic(RString),
}

/// A filter, as the host holds it.
pub type FilterBox = Filter_TO<'static, RBox<()>>;

/// A filter: one instance, for one worker.
#[abi_stable::sabi_trait]
pub trait Filter: Send {
    /// The fields that it reads with its configuration: the JSON list of `meta.configure`.
    fn reads(&self) -> RString;

    /// Judges every row of a batch: a word for each into `verdicts`, which has the length of
    /// `batch.rows`. The low byte is 0 accept, 1 reject, 2 reschedule, 3 error (its text is logged);
    /// the high 32 bits are the delay in milliseconds of a 2.
    ///
    /// The text of a panic, if there was one: nothing in `verdicts` counts then, and the instance must
    /// be thrown away.
    #[sabi(last_prefix_field)]
    fn judge(&mut self, batch: Batch<'_>, verdicts: RSliceMut<'_, u64>) -> ROption<RString>;
}

/// A lister, as the host holds it.
pub type ListerBox = Lister_TO<'static, RBox<()>>;

/// A lister: one instance, for one worker.
#[abi_stable::sabi_trait]
pub trait Lister: Send {
    /// Answers a request (the JSON object of `lister.answer`) with the handle of a set.
    #[sabi(last_prefix_field)]
    fn answer(&mut self, request: RStr<'_>, topics: TopicSetsRef<'_>) -> RResult<u32, Failure>;
}

/// The topics of a request, borrowed for one answer.
pub type TopicSetsRef<'a> = TopicSets_TO<'a, RRef<'a, ()>>;

/// The topics that a lister is asked for, as sets: the host's side of an answer. A handle is the
/// number of a set; a wrong one is the host's to find.
#[abi_stable::sabi_trait]
pub trait TopicSets {
    /// All topics of the namespace and mode that are asked for.
    fn all(&self) -> u32;
    /// Those that have this property with this value.
    fn with_property(&self, key: RStr<'_>, value: RStr<'_>) -> u32;
    /// Those whose whole name, without its domain, matches a regular expression.
    fn matching(&self, pattern: RStr<'_>) -> RResult<u32, RString>;
    /// A set of names of the lister's own, separated by line feeds.
    fn named(&self, names: RStr<'_>) -> RResult<u32, RString>;
    /// At most `limit` names of a set from the `start`th on, separated by line feeds.
    fn names(&self, of: u32, start: u32, limit: u32) -> RVec<u8>;
    /// Topics in both sets.
    fn intersect(&self, one: u32, other: u32) -> RResult<u32, RString>;
    /// Topics in either set.
    fn unite(&self, one: u32, other: u32) -> RResult<u32, RString>;
    /// Topics in one set and not in the other.
    fn without(&self, one: u32, other: u32) -> RResult<u32, RString>;
    /// Forgets a set.
    #[sabi(last_prefix_field)]
    fn forget(&self, set: u32);
}

/// Payloads that a batch does not carry, borrowed for one call.
pub type PayloadsRef<'a> = Payloads_TO<'a, RRef<'a, ()>>;

/// Where a filter finds payloads that the view does not hold.
#[abi_stable::sabi_trait]
pub trait Payloads {
    /// The payload of a row, by its number in the view.
    #[sabi(last_prefix_field)]
    fn payload(&self, row: u32) -> RResult<RSlice<'_, u8>, RString>;
}

/// Messages to judge: a view that is built once and shared by every filter of a chain.
///
/// `slots` holds a row of `stride` slots for each message; `columns[i]` is the place in a row of this
/// filter's `i`th field; `rows` says which messages are asked for.
#[repr(C)]
#[derive(StableAbi)]
pub struct Batch<'a> {
    slots: RSlice<'a, Slot<'a>>,
    columns: RSlice<'a, u16>,
    rows: RSlice<'a, u32>,
    stride: u32,
    payloads: PayloadsRef<'a>,
}

impl super::row::Ask for Batch<'_> {
    fn payload(&self, row: u32) -> Result<&[u8], Error> {
        match self.payloads.payload(row) {
            RResult::ROk(bytes) => Ok(bytes.as_slice()),
            RResult::RErr(sentence) => Err(Error::new(sentence)),
        }
    }
}

impl<'a> Batch<'a> {
    /// A view over `slots`.
    ///
    /// # Panics
    /// When a column lies outside a row, or a row outside `slots`: the library does not check again.
    pub fn new<P: Payloads>(
        slots: &'a [Slot<'a>],
        stride: usize,
        columns: &'a [u16],
        rows: &'a [u32],
        payloads: &'a P,
    ) -> Self {
        assert!(columns.iter().all(|c| usize::from(*c) < stride), "a column lies outside a row");
        let held =
            slots.len().checked_div(stride).map_or(u32::MAX, |held| held.min(u32::MAX as usize) as u32);
        // As a fold over all rows, and not up to the first bad one, this becomes a few vector instructions.
        let outside = rows.iter().fold(false, |outside, row| outside | (*row >= held));
        assert!(!outside, "a row is not among the {held} of the batch");
        Self {
            slots: slots.into(),
            columns: columns.into(),
            rows: rows.into(),
            stride: u32::try_from(stride).expect("a row has at most 65536 columns"),
            payloads: Payloads_TO::from_ptr(RRef::new(payloads), abi_stable::sabi_trait::TD_Opaque),
        }
    }

    /// How many messages are asked for.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no message is asked for.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The messages that are asked for, in order.
    #[inline(always)]
    pub(crate) fn messages(&self) -> impl Iterator<Item = super::Row<'_>> {
        let (slots, stride) = (self.slots.as_slice(), self.stride as usize);
        let columns = self.columns.as_slice();
        self.rows.as_slice().iter().map(move |row| {
            let start = *row as usize * stride;
            // SAFETY: `new` has checked that every row that is asked for lies in the slots.
            let slots = unsafe { slots.get_unchecked(start..start + stride) };
            // SAFETY: it has also checked that every column lies in a row.
            unsafe { super::Row::new(slots, columns, *row, self) }
        })
    }
}

/// One cell of a view: 16 bytes, borrowed from the entry that it was read from.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Slot<'a> {
    /// Where bytes and text begin; the value of a number or a flag, as an address that is never followed.
    data: *const u8,
    /// What it holds, in the highest byte; below it the length of bytes and text.
    kind_and_len: u64,
    borrowed: PhantomData<&'a u8>,
}

// A number has to fit where an address does.
const _: () = assert!(size_of::<usize>() == 8, "the native form is for hosts of 64 bits");

// SAFETY: a slot is a shared borrow of bytes, or a number: `&[u8]` is both.
unsafe impl Send for Slot<'_> {}
// SAFETY: as above.
unsafe impl Sync for Slot<'_> {}

/// What a [`Slot`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The message has no such field.
    Missing,
    /// Bytes.
    Bytes(&'a [u8]),
    /// Text.
    Text(&'a str),
    /// A whole number; times are milliseconds since 1970.
    Number(i64),
    /// Yes or no.
    Flag(bool),
}

const MISSING: u64 = 0;
const BYTES: u64 = 1;
const TEXT: u64 = 2;
const NUMBER: u64 = 3;
const FLAG: u64 = 4;

/// Bits of a length: no processor of today has addresses for more bytes.
const LEN_BITS: u32 = 56;

impl<'a> Slot<'a> {
    /// The message has no such field; a missing payload is asked for.
    pub const MISSING: Slot<'static> = Slot::of_word(0, MISSING);

    /// Bytes.
    #[inline(always)]
    pub const fn bytes(bytes: &'a [u8]) -> Self {
        Self::of_slice(bytes, BYTES)
    }

    /// Text.
    #[inline(always)]
    pub const fn text(text: &'a str) -> Self {
        Self::of_slice(text.as_bytes(), TEXT)
    }

    /// A whole number.
    #[inline(always)]
    pub const fn number(number: i64) -> Self {
        Self::of_word(number.cast_unsigned(), NUMBER)
    }

    /// Yes or no.
    #[inline(always)]
    pub const fn flag(flag: bool) -> Self {
        Self::of_word(flag as u64, FLAG)
    }

    #[inline(always)]
    const fn of_slice(bytes: &'a [u8], kind: u64) -> Self {
        let kind_and_len = bytes.len() as u64 | kind << LEN_BITS;
        Self { data: bytes.as_ptr(), kind_and_len, borrowed: PhantomData }
    }

    #[inline(always)]
    const fn of_word(word: u64, kind: u64) -> Self {
        let data = ptr::without_provenance(word as usize);
        Self { data, kind_and_len: kind << LEN_BITS, borrowed: PhantomData }
    }

    /// What it holds. A kind that this minor does not know reads as missing.
    #[inline(always)]
    pub fn value(self) -> Value<'a> {
        match self.kind_and_len >> LEN_BITS {
            BYTES => Value::Bytes(self.slice()),
            // SAFETY: only `text` makes this kind, from a `str`.
            TEXT => Value::Text(unsafe { std::str::from_utf8_unchecked(self.slice()) }),
            NUMBER => Value::Number((self.data.addr() as u64).cast_signed()),
            FLAG => Value::Flag(self.data.addr() != 0),
            _ => Value::Missing,
        }
    }

    /// The bytes of a slot made by `bytes` or `text`.
    #[inline(always)]
    const fn slice(self) -> &'a [u8] {
        let len = (self.kind_and_len & ((1 << LEN_BITS) - 1)) as usize;
        // SAFETY: for these two kinds `data` and `len` are a slice's pointer and length, and the slice
        // lives as long as 'a.
        unsafe {
            std::hint::assert_unchecked(!self.data.is_null());
            std::slice::from_raw_parts(self.data, len)
        }
    }
}

impl std::fmt::Debug for Slot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value().fmt(f)
    }
}
