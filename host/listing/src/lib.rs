//! Which topics a client may see: the index of topics, patterns, the built-in lister, the hash.
//!
//! A listing is: coalesce equal requests in flight → the lister in force → drop system topics, foreign
//! and malformed names → per request: pattern → hash → unchanged?

pub mod index;
pub mod listing;

pub use index::Index;
pub use listing::{Answer, ListError, Listing, Query};
pub use weir_extension::{ListRequest, Mode, TopicSet};
