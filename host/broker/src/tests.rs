//! The broker over the real store, real judging threads and bindings, and filters that are built in. The
//! entries are of a small protocol of their own: see `rig`.

mod catalogue;
mod delivery;
mod filters;
mod model;
mod rig;
mod shares;
