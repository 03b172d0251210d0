//! Lines for the host's log, under the extension's class name.
//!
//! Before the host has introduced itself (in a unit test of an extension, say) they go nowhere.

/// Something a developer wants to see.
pub fn debug(text: &str) {
    write(1, text);
}

/// A change of state.
pub fn info(text: &str) {
    write(2, text);
}

/// The extension coped.
pub fn warn(text: &str) {
    write(3, text);
}

/// A person must act.
pub fn error(text: &str) {
    write(4, text);
}

#[cfg(target_family = "wasm")]
use crate::component::log as write;
#[cfg(not(target_family = "wasm"))]
use crate::native::log as write;
