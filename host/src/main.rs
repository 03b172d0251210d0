//! The weir daemon and its command line.
//!
//! | where | what |
//! | --- | --- |
//! | [`config`] | every key, where it may be set, what is wrong with it |
//! | [`token`] | the token that registrations must bring |
//! | [`pulsar`] | the listener for Pulsar clients: connections, commands, answers |
//!
//! No rule lives here: which topics a client sees, which messages a subscription gets and what an
//! acknowledgement does is decided in the rooms below.

mod config;
mod pulsar;
mod token;

fn main() {}
