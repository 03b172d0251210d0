//! The native form: what an extension's `.so` and the host agree on, and the extension's side of it.
//!
//! Each minor of the contract is a frozen module of its own, since `abi_stable` grows one way only: a
//! host whose types gained a field refuses every library built before. The host reads a library's version
//! from its header and opens it as that minor.
//!
//! A panic never crosses the boundary: making, judging, answering and dropping catch it on this side.

#![expect(unsafe_code, reason = "slots are slices without their type, so that they fit a frozen layout")]
#![expect(non_local_definitions, reason = "what abi_stable's macros generate")]

pub mod v1_0;
#[cfg(feature = "next-minor")]
pub mod v1_1;

mod library;
mod row;

pub use v1_0::{
    Batch, Failure, Filter, FilterBox, Host, Lister, ListerBox, Payloads, Slot, TopicSets, TopicSetsRef,
    Value,
};

pub(crate) use library::log;
#[doc(hidden)]
pub use library::{
    constructed, describe_filter, describe_lister, filter, lister, no_filter, no_lister, start,
};
pub(crate) use row::Row;
