//! The integration tests: a real `weir`, the stock Python client, real data, bytes on a socket.
//!
//! One binary, a module for each thing that must be true of the whole.

#![expect(clippy::unwrap_used, reason = "tests, and what they share, say what they expect by panicking")]

mod batches;
mod bounds;
mod clients;
mod code;
mod command_line;
mod doors;
mod failing;
mod files;
mod forms;
mod house;
mod journey;
mod last_good;
mod listing;
mod logs;
mod memory;
mod metrics;
mod network;
mod protocol;
mod races;
mod readers;
mod readme;
mod ready;
mod refusals;
mod restart;
mod sizes;
mod storage;
