//! Bytes to commands and back. Pure: no I/O, no tokio, no opinion on what a topic is.
//!
//! One module a protocol. Nothing here waits, locks or logs; every function can be called from anywhere.

pub mod pulsar;
