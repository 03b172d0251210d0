//! Which topics a client may see: the index of topics, patterns, the built-in lister, the hash.
//!
//! A listing is: coalesce equal requests in flight → the lister in force → drop system topics, foreign
//! and malformed names → per request: pattern → hash → unchanged?
//!
//! Reading order: what there is ([`Index`]), what is asked and answered ([`Listing`]), then the rules
//! that an answer follows, a module each. Nothing here knows a socket, a frame or the disk.

mod config;
mod hash;
mod index;
mod listing;
mod pattern;
mod property_equality;
mod system;
mod topics;

pub use config::{Config, MAX_OWN_NAME_BYTES, MAX_OWN_NAMES, MAX_PAGE};
pub use hash::topic_list_hash;
pub use index::Index;
pub use listing::{Answer, ListError, Listing, Query};
pub use property_equality::property_equality;
pub use weir_extension::{ListRequest, Mode, TopicSet, Topics};
