//! `demo.Swap`, the version that accepts even numbers.

const REMAINDER: i64 = 0;

include!("../../swap.rs");
