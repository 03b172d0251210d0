//! `#[derive(Config)]`.
