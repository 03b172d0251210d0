//! The book of lines: how many a class may write in a second, and the last ones of each.
//!
//! Whoever follows a class asks for what came after the last line that it has seen. Nobody is waited for: a
//! follower that is slower than the lines finds that it was overtaken, and is told so.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::{Speaker, one_line};
use crate::extensions::{ClassName, millis};

/// How many lines of one class are logged in a second; the others are counted. It is called thousands of
/// times a second, and may write at each.
pub(super) const LINES_A_SECOND: u32 = 100;

/// See [`LINES_A_SECOND`].
const SECOND: Duration = Duration::from_secs(1);

/// The most lines of a class that are kept: ten seconds of one that says all it may.
const KEPT_LINES: usize = 1000;

/// The most bytes of text that are kept of a class. A line has at most 4 KiB.
const KEPT_BYTES: usize = 128 << 10;

/// The most classes of which lines are kept. One more, and the one that was silent for longest goes.
const MAX_CLASSES: usize = 1024;

pub(super) static BOOK: LazyLock<Book> = LazyLock::new(Book::default);

/// A line that an extension wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LogLine {
    /// Its number among the lines of its class that were logged; the first one is 1.
    pub number: u64,
    /// When, in milliseconds since 1970.
    #[serde(with = "millis")]
    pub at: SystemTime,
    /// The class that it is of.
    pub class: Arc<str>,
    /// The version that wrote it, as that declared it.
    pub version: Arc<str>,
    /// `trace`, `debug`, `info`, `warn` or `error`.
    pub level: Level,
    /// One line without control characters, at most 4 KiB.
    pub text: String,
}

/// How much a line matters, in the extension's own opinion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Level 0 of the contract.
    Trace,
    /// Level 1.
    Debug,
    /// Level 2, and what is written to standard output.
    Info,
    /// Level 3.
    Warn,
    /// Level 4 and above, and what is written to standard error.
    Error,
}

/// Lines came faster than they were asked for: some are gone that were not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{lines} lines are gone that were not taken in time")]
pub struct Overtaken {
    /// How many.
    pub lines: u64,
}

/// How much one class has said since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFigures {
    /// The class.
    pub class: Arc<str>,
    /// Lines that were logged.
    pub logged: u64,
    /// Lines that were not, since there were too many at once.
    pub dropped: u64,
}

/// The last lines of a class, at most `n` and at most a thousand, the oldest first.
pub fn last_lines(class: &ClassName, n: usize) -> Vec<LogLine> {
    BOOK.last(class.as_str(), n)
}

/// The lines of a class that came after the one of that number, the oldest first.
///
/// # Errors
/// When some of them are gone already.
pub fn lines_after(class: &ClassName, number: u64) -> Result<Vec<LogLine>, Overtaken> {
    BOOK.after(class.as_str(), number)
}

/// How much every class has said, in no order.
pub fn log_figures() -> Vec<LogFigures> {
    BOOK.figures()
}

/// The lines of all classes.
#[derive(Default)]
pub(super) struct Book {
    /// Held for a look-up and the copy of a line, never across a call or an await.
    pages: Mutex<HashMap<Arc<str>, Page>>,
}

/// What is known of one class.
struct Page {
    /// Since when lines are counted, how many there were, and how many more that were not logged.
    since: Instant,
    lines: u32,
    dropping: u64,
    /// Since the start.
    dropped: u64,
    /// The number of the last line.
    last: u64,
    kept: VecDeque<LogLine>,
    bytes: usize,
}

impl Book {
    /// Takes a text up as a line, to be logged; `None` if its class has said enough for this second.
    pub(super) fn take(&self, speaker: &Speaker, level: u8, text: &str, now: Instant) -> Option<LogLine> {
        let mut pages = self.pages.lock();
        if !pages.contains_key(&speaker.class) {
            make_room(&mut pages);
            pages.insert(speaker.class.clone(), Page::new(now));
        }
        let page = pages.get_mut(&speaker.class).expect("it is there since the lines above");
        page.settle(&speaker.class, now);
        if page.lines >= LINES_A_SECOND {
            page.dropping += 1;
            page.dropped += 1;
            return None;
        }
        page.lines += 1;
        Some(page.keep(speaker, Level::of(level), one_line(text)).clone())
    }

    /// Says of every class whose second is over how many of its lines were not logged.
    pub(super) fn settle(&self, now: Instant) {
        self.pages.lock().iter_mut().for_each(|(class, page)| page.settle(class, now));
    }

    fn last(&self, class: &str, n: usize) -> Vec<LogLine> {
        let pages = self.pages.lock();
        let Some(page) = pages.get(class) else { return Vec::new() };
        page.kept.iter().skip(page.kept.len().saturating_sub(n)).cloned().collect()
    }

    fn after(&self, class: &str, number: u64) -> Result<Vec<LogLine>, Overtaken> {
        let pages = self.pages.lock();
        let Some(page) = pages.get(class) else { return Ok(Vec::new()) };
        // A page that went and began anew is read from its start.
        let number = if number > page.last { 0 } else { number };
        let first = page.last + 1 - page.kept.len() as u64;
        match first.checked_sub(number + 1) {
            None | Some(0) => {
                Ok(page.kept.iter().skip_while(|line| line.number <= number).cloned().collect())
            }
            Some(lines) => Err(Overtaken { lines }),
        }
    }

    fn figures(&self) -> Vec<LogFigures> {
        let pages = self.pages.lock();
        let of = |(class, page): (&Arc<str>, &Page)| LogFigures {
            class: class.clone(),
            logged: page.last,
            dropped: page.dropped,
        };
        pages.iter().map(of).collect()
    }
}

fn make_room(pages: &mut HashMap<Arc<str>, Page>) {
    if pages.len() >= MAX_CLASSES {
        let silent = pages.iter().min_by_key(|(_, page)| page.since).map(|(class, _)| class.clone());
        silent.and_then(|class| pages.remove(&class));
    }
}

impl Page {
    fn new(now: Instant) -> Self {
        Self { since: now, lines: 0, dropping: 0, dropped: 0, last: 0, kept: VecDeque::new(), bytes: 0 }
    }

    /// Begins to count anew once the second is over, and says how many lines were not logged in it.
    fn settle(&mut self, class: &Arc<str>, now: Instant) {
        if self.lines == 0 || now.saturating_duration_since(self.since) < SECOND {
            return;
        }
        let dropped = std::mem::take(&mut self.dropping);
        (self.since, self.lines) = (now, 0);
        if dropped > 0 {
            let text = format!(
                "{dropped} lines were not logged: at most {LINES_A_SECOND} of a class are in a second"
            );
            warn!(%class, lines = dropped, "too many lines at once; these were not logged");
            let weir = Speaker { class: class.clone(), version: "-".into() };
            self.keep(&weir, Level::Warn, text);
        }
    }

    fn keep(&mut self, speaker: &Speaker, level: Level, text: String) -> &LogLine {
        self.last += 1;
        self.bytes += text.len();
        self.kept.push_back(LogLine {
            number: self.last,
            at: SystemTime::now(),
            class: speaker.class.clone(),
            version: speaker.version.clone(),
            level,
            text,
        });
        // A line is shorter than what is kept: the one that has just come stays.
        while self.kept.len() > KEPT_LINES || self.bytes > KEPT_BYTES {
            self.bytes -= self.kept.pop_front().map_or(0, |gone| gone.text.len());
        }
        self.kept.back().expect("a line was just put there")
    }
}

impl Level {
    fn of(level: u8) -> Self {
        match level {
            0 => Self::Trace,
            1 => Self::Debug,
            2 => Self::Info,
            3 => Self::Warn,
            _ => Self::Error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::said::MAX_LINE;

    const A: &str = "demo.A";

    fn speaker() -> Speaker {
        Speaker::new(A, "1.2")
    }

    #[test]
    fn a_class_says_so_much_a_second_and_one_line_says_what_is_missing() {
        let (book, now) = (Book::default(), Instant::now());
        let other = Speaker::new("demo.B", "1");
        let taken = (0..250).filter(|n| book.take(&speaker(), 2, &n.to_string(), now).is_some()).count();
        assert_eq!(taken, LINES_A_SECOND as usize);
        assert!(book.take(&other, 2, "another one may", now).is_some());
        book.settle(now + SECOND / 2);
        assert_eq!(book.last(A, 1)[0].text, "99");
        book.settle(now + SECOND);
        book.settle(now + SECOND * 2);
        let said = &book.last(A, 1)[0];
        assert_eq!((said.number, said.level), (101, Level::Warn));
        assert!(said.text.starts_with("150 lines were not logged"), "{said:?}");
        let again = book.take(&speaker(), 4, "again", now + SECOND * 2).unwrap();
        assert_eq!((again.number, again.level, &*again.version), (102, Level::Error, "1.2"));
        let mut figures = book.figures();
        figures.sort_by(|a, b| a.class.cmp(&b.class));
        let figures: Vec<_> = figures.iter().map(|one| (&*one.class, one.logged, one.dropped)).collect();
        assert_eq!(figures, [(A, 102, 150), ("demo.B", 1, 0)]);
    }

    #[test]
    fn whoever_is_too_slow_is_told_what_was_missed() {
        let (book, mut now) = (Book::default(), Instant::now());
        let numbers = |after| book.after(A, after).map(|lines| lines.iter().map(|l| l.number).collect());
        assert_eq!(numbers(0), Ok(vec![]));
        for n in 1..=KEPT_LINES as u64 {
            now += SECOND;
            book.take(&speaker(), 2, "x", now).unwrap();
            if n == 3 {
                assert_eq!(numbers(0), Ok(vec![1, 2, 3]));
                assert_eq!(numbers(2), Ok(vec![3]));
                assert_eq!(numbers(3), Ok(vec![]));
                // Of a page that has gone since.
                assert_eq!(numbers(70), Ok(vec![1, 2, 3]));
            }
        }
        assert_eq!(numbers(0).map(|lines: Vec<u64>| lines.len()), Ok(KEPT_LINES));
        for _ in 0..2 {
            now += SECOND;
            book.take(&speaker(), 2, "x", now).unwrap();
        }
        assert_eq!(numbers(0), Err(Overtaken { lines: 2 }));
        assert_eq!(numbers(2).map(|lines: Vec<u64>| lines.len()), Ok(KEPT_LINES));
    }

    #[test]
    fn what_is_kept_has_an_end() {
        let (book, mut now) = (Book::default(), Instant::now());
        for _ in 0..100 {
            now += SECOND;
            book.take(&speaker(), 2, &"x".repeat(MAX_LINE * 2), now).unwrap();
        }
        assert_eq!(book.last(A, usize::MAX).len(), KEPT_BYTES / MAX_LINE);
        for n in 0..MAX_CLASSES {
            now += SECOND;
            book.take(&Speaker::new(&format!("demo.C{n}"), "1"), 2, "x", now).unwrap();
        }
        assert_eq!(book.figures().len(), MAX_CLASSES);
        assert!(book.last(A, 1).is_empty(), "it was silent for longest");
    }
}
