//! What an extension says for the log: one line of its own, whatever it holds.

use tracing::{debug, error, info, trace, warn};

/// The longest text that is logged, in bytes; what goes beyond is cut off.
pub(crate) const MAX_LINE: usize = 4 << 10;

/// Logs a text of an extension. Levels as in `wit/weir.wit`; from 4 on it is an error.
///
/// Control characters are written escaped: a line feed would let an extension write log lines that look
/// like weir's own.
pub(crate) fn log(class: &str, level: u8, text: &str) {
    let text = one_line(text);
    match level {
        0 => trace!(class, "{text}"),
        1 => debug!(class, "{text}"),
        2 => info!(class, "{text}"),
        3 => warn!(class, "{text}"),
        _ => error!(class, "{text}"),
    }
}

/// The text, cut to [`MAX_LINE`] bytes, without control characters.
pub(crate) fn one_line(text: &str) -> String {
    let text = text[..text.floor_char_boundary(MAX_LINE)].trim_end();
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() && c != '\t' {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, logged: &str) {
        assert_eq!(one_line(text), logged);
    }

    #[test]
    fn a_text_is_one_line_whatever_it_holds() {
        check("plain, with ünïcode and\ttabs", "plain, with ünïcode and\ttabs");
        check("ends with a line feed\n", "ends with a line feed");
        check("one\n2026-11-30T00:00:00Z ERROR forged", "one\\n2026-11-30T00:00:00Z ERROR forged");
        check("\u{1b}[31mred\r\0", "\\u{1b}[31mred\\r\\u{0}");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let logged = one_line(&"ü".repeat(MAX_LINE));
        assert_eq!(logged.len(), MAX_LINE);
    }
}
