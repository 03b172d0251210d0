//! The contract for authors of weir extensions: one crate, about ten lines, both artifacts.
//!
//! ```
//! use weir_plugin_api::*;
//!
//! #[derive(Config)]
//! struct LateFlights {
//!     minutes: i64,
//! }
//!
//! impl MessageFilter for LateFlights {
//!     type Config = Self;
//!     const CLASS: &'static str = "demo.LateFlights";
//!     const READS: Fields = Fields::property("delay");
//!
//!     fn new(config: Self) -> Result<Self, Error> {
//!         Ok(config)
//!     }
//!
//!     fn judge(&mut self, message: &Message) -> Result<Verdict, Error> {
//!         Ok(Verdict::accept_if(message.property_as::<i64>("delay").is_some_and(|m| m > self.minutes)))
//!     }
//! }
//!
//! export!(LateFlights);
//! # fn main() {}
//! ```
//!
//! With `crate-type = ["cdylib"]`, `cargo build --release` gives a native library (`.so`), and
//! `cargo build --release --target wasm32-wasip2` a component (`.wasm`). Both are the same extension to
//! weir. Panics must unwind (the default): a library that aborts would take the host with it.
//!
//! A lister implements [`TopicLister`] and ends with `export!(lister MyLister)`.

// In reading order.
mod config;
mod field;
mod filter;
mod lister;
pub mod log;
mod message;
mod verdict;

mod export;
mod json;

#[cfg(any(target_family = "wasm", test))]
#[doc(hidden)]
pub mod component;
#[cfg(not(target_family = "wasm"))]
pub mod native;

pub use config::Config;
pub use field::{Field, Fields};
pub use filter::MessageFilter;
pub use lister::{Mode, Request, Set, TopicLister, Topics};
pub use message::Message;
pub use verdict::{Error, Verdict};
pub use weir_plugin_derive::Config;

/// What the macros use: no part of the contract.
#[doc(hidden)]
pub mod private {
    #[cfg(not(target_family = "wasm"))]
    pub use abi_stable;
    pub use serde;
    pub use serde_json;

    pub use crate::config::{Schema, as_text, joined, joined_len, open};
}
