//! The Rust client, and admin calls.
