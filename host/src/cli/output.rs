//! What is printed: tables, JSON, errors. Nothing else in weir writes to standard output.

use std::io::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use weir_client::AdminError;

/// Writes to standard output. A reader that has gone (`weir … | head`) ends the process quietly.
pub(crate) fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Writes one line.
pub(super) fn line(text: &str) {
    write(&format!("{text}\n"));
}

/// Writes a value as JSON, readable, with a line end.
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Writes what went wrong, and what to do about it, to standard error.
pub(super) fn error(error: &anyhow::Error) {
    let _nobody_reads = writeln!(std::io::stderr(), "weir: {}", in_words(error));
}

/// Writes what somebody should know although nothing went wrong, to standard error.
pub(super) fn note(text: &str) {
    let _nobody_reads = writeln!(std::io::stderr(), "weir: {text}");
}

fn in_words(error: &anyhow::Error) -> String {
    let mut text = String::new();
    let mut advice = "";
    for cause in error.chain() {
        let said = cause.to_string();
        // Many errors tell their cause themselves.
        if !text.ends_with(&said) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&said);
        }
        // The clients' errors already tell their causes.
        if let Some(error) = cause.downcast_ref::<AdminError>() {
            if matches!(error, AdminError::Transport { .. }) {
                advice = "is weir running there? --url names another address";
            }
            break;
        }
        if let Some(error) = cause.downcast_ref::<weir_client::Error>() {
            if matches!(error, weir_client::Error::Connect { .. }) {
                advice = "is weir running there? --service-url names another address";
            }
            break;
        }
    }
    if advice.is_empty() { text } else { format!("{text}\n{advice}") }
}

/// A moment as people read it; it comes in milliseconds since 1970.
pub(super) fn moment(millis: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(millis)).to_string()
}

/// Rows under headings, in columns as wide as what is in them; numbers stand on the right.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|heading| heading.to_uppercase()).collect()] }
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        // A reason of several lines stays in its row.
        let one_line = |cell: String| cell.split_whitespace().collect::<Vec<_>>().join(" ");
        self.rows.push(cells.map(one_line).into());
    }

    pub(super) fn print(&self) {
        write(&self.render());
    }

    fn render(&self) -> String {
        let columns = self.rows[0].len();
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let is_number = |cell: &str| !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit());
        let numbers: Vec<bool> =
            (0..columns).map(|column| self.rows.iter().skip(1).all(|row| is_number(&row[column]))).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), number) in row.iter().zip(&widths).zip(&numbers) {
                match number {
                    true => line.push_str(&format!("{cell:>width$}  ")),
                    false => line.push_str(&format!("{cell:width$}  ")),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table = Table::new(&["name", "state"]);
        table.row(["grüße".into(), "in-force".into()]);
        table.row(["a".into(), String::new()]);
        assert_eq!(table.render(), "NAME   STATE\ngrüße  in-force\na\n");
        let mut table = Table::new(&["backlog", "paused"]);
        table.row(["7".into(), "because\n  of this".into()]);
        assert_eq!(table.render(), "BACKLOG  PAUSED\n      7  because of this\n");
    }

    #[test]
    fn a_cause_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("x cannot be read: {source}")]
        struct Outer {
            source: std::io::Error,
        }
        let source = std::io::Error::other("it is gone");
        let error = anyhow::Error::from(Outer { source }).context("line 3");
        assert_eq!(in_words(&error), "line 3: x cannot be read: it is gone");
        let plain = anyhow::anyhow!("it is gone").context("x cannot be read");
        assert_eq!(in_words(&plain), "x cannot be read: it is gone");
    }
}
