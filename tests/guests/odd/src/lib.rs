//! `demo.Swap`, the version that accepts odd numbers.

const REMAINDER: i64 = 1;

include!("../../swap.rs");
