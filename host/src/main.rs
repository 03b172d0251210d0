//! The weir daemon and its command line.
fn main() {}
