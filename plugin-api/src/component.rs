//! The component form: the canonical ABI of `wit/weir.wit`, written by hand.
//!
//! A binding generator's guest costs twice as much a message (it copies, and checks again what the host
//! guarantees). What is generated elsewhere is small here: three exports, two imports, one list of bytes
//! each way.

#![expect(unsafe_code, reason = "the canonical ABI passes addresses")]

mod batch;

#[cfg(target_family = "wasm")]
mod arena;
#[cfg(target_family = "wasm")]
mod exports;
#[cfg(target_family = "wasm")]
mod imports;
#[cfg(target_family = "wasm")]
mod topics;

#[cfg(target_family = "wasm")]
pub(crate) use batch::Row;
#[cfg(target_family = "wasm")]
pub use exports::{Filter, Lister, describe_filter, describe_lister};
#[cfg(target_family = "wasm")]
pub(crate) use imports::log;
#[cfg(all(target_family = "wasm", feature = "next-minor"))]
pub use imports::v1_1;
#[cfg(target_family = "wasm")]
pub use imports::{Imports, v1_0};

/// The type of a filter component, as `wit-component` encodes it: the linker makes a component of it.
#[cfg(any(target_family = "wasm", test))]
pub const FILTER_GUEST: &[u8] = include_bytes!("component/filter-guest.bin");
/// The type of a lister component.
#[cfg(any(target_family = "wasm", test))]
pub const LISTER_GUEST: &[u8] = include_bytes!("component/lister-guest.bin");
/// The type of a filter component of the minor that only tests know.
#[cfg(all(any(target_family = "wasm", test), feature = "next-minor"))]
pub const NEXT_FILTER_GUEST: &[u8] = include_bytes!("component/next-filter-guest.bin");

/// What the host hands a component, and what that answers with: statics, since the canonical ABI has no
/// place for a receiver.
///
/// A component instance runs one call at a time, in one thread.
#[cfg(target_family = "wasm")]
pub struct Global<T>(std::cell::UnsafeCell<T>);

#[cfg(target_family = "wasm")]
#[cfg(not(target_feature = "atomics"))]
// SAFETY: without atomics a module has no threads.
unsafe impl<T> Sync for Global<T> {}

#[cfg(target_family = "wasm")]
impl<T> Global<T> {
    /// Holds `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// The value.
    ///
    /// # Safety
    /// No other reference from here may be in use.
    #[expect(clippy::mut_from_ref, reason = "what a cell is for")]
    pub(crate) unsafe fn get(&self) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.0.get() }
    }
}
