//! The weir daemon and its command line.
//!
//! | where | what |
//! | --- | --- |
//! | [`cli`] | the command line: what a person or a script asks for |
//! | [`config`] | every key, where it may be set, what is wrong with it |
//! | [`serve`] | opens the rooms below, binds the addresses, serves, drains |
//! | [`pulsar`] | the listener for Pulsar clients: connections, commands, answers |
//! | [`admin`] | the admin address: Pulsar's REST, weir's own, metrics |
//! | [`token`] | the token that registrations must bring |
//! | [`metrics`] | what the listeners count |
//!
//! No rule lives here: which topics a client sees, which messages a subscription gets and what an
//! acknowledgement does is decided in the rooms below.

mod admin;
mod cli;
mod config;
mod metrics;
mod pulsar;
mod serve;
mod token;

fn main() -> std::process::ExitCode {
    cli::main()
}
