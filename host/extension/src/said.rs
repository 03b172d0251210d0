//! What an extension says for the log: one line of its own, whatever it holds.
//!
//! How many lines a class may write and which ones are kept is in `said/book.rs`.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use tracing::{debug, error, info, trace, warn};

mod book;

use book::BOOK;
pub use book::{Level, LogFigures, LogLine, Overtaken, last_lines, lines_after, log_figures};

/// The longest text that is logged, in bytes; what goes beyond is cut off.
pub(crate) const MAX_LINE: usize = 4 << 10;

/// The longest text that [`last_words`] gives, in bytes.
const MAX_WORDS: usize = 512;

thread_local! {
    static LAST_WORDS: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Who says it: a class, and the version that it has declared.
#[derive(Clone, Debug)]
pub(crate) struct Speaker {
    pub(crate) class: Arc<str>,
    version: Arc<str>,
}

impl Speaker {
    /// A version's text is the extension's own: control characters in it are escaped, as in a line.
    pub(crate) fn new(class: &str, version: &str) -> Self {
        Self { class: class.into(), version: one_line(version).into() }
    }

    /// One that has not said yet who it is.
    pub(crate) fn unknown() -> Self {
        Self::new("?", "?")
    }
}

/// What an extension said last on this thread at level "warn" or above, if it did since this was asked the
/// last time: the contract has no room for a text beside a verdict, so that is where an SDK says why it
/// returns an error for a message. One line of at most 512 bytes.
pub fn last_words() -> Option<String> {
    LAST_WORDS.take()
}

/// Keeps a text for [`last_words`], whether it is logged or not.
fn keep(level: u8, text: &str) {
    if level >= 3 {
        LAST_WORDS.set(Some(one_line(&text[..text.floor_char_boundary(MAX_WORDS)])));
    }
}

/// Logs a text of an extension, and keeps it. Levels as in `wit/weir.wit`; from 4 on it is an error. What a
/// class says beyond [`book::LINES_A_SECOND`] is counted and not logged.
///
/// Control characters are written escaped: a line feed would let an extension write log lines that look
/// like weir's own.
pub(crate) fn log(speaker: &Speaker, level: u8, text: &str) {
    keep(level, text);
    let Some(line) = BOOK.take(speaker, level, text, Instant::now()) else { return };
    let (class, version, text) = (&*line.class, &*line.version, &line.text);
    match level {
        0 => trace!(class, version, "{text}"),
        1 => debug!(class, version, "{text}"),
        2 => info!(class, version, "{text}"),
        3 => warn!(class, version, "{text}"),
        _ => error!(class, version, "{text}"),
    }
}

/// Says of every class whose time is over how many of its lines were not logged. To be called every second
/// or so: who has said too much may say nothing more.
pub(crate) fn settle() {
    BOOK.settle(Instant::now());
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
        check("\u{9b}31mred", "\\u{9b}31mred");
    }

    #[test]
    fn the_last_words_are_a_warning_and_are_told_once() {
        let speaker = Speaker::new("test.LastWords", "1");
        log(&speaker, 3, "why");
        log(&speaker, 2, "by the way");
        assert_eq!(last_words().as_deref(), Some("why"));
        assert_eq!(last_words(), None);
        keep(4, &"ü".repeat(MAX_LINE));
        assert_eq!(last_words().map(|words| words.len()), Some(MAX_WORDS));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let logged = one_line(&"ü".repeat(MAX_LINE));
        assert_eq!(logged.len(), MAX_LINE);
    }
}
