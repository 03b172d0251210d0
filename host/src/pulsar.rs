//! The listener for Pulsar clients.

mod lane;
mod outbox;
