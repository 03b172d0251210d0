//! From Java's dialect of regular expressions to that of Rust's `regex`.
//!
//! What both write alike and mean alike is copied, what they write differently is rewritten (`\Q…\E`,
//! `\d`, `\w`, `\s` and `\b`, which are ASCII in Java), everything else is inexact. In doubt, inexact.

use std::iter::Peekable;
use std::str::Chars;

use super::PatternError;

/// RE2/J takes no larger repetition; the JDK does, and reads other things differently.
const MAX_REPETITION: u32 = 1000;

/// Deeper groups are left to the client; `regex` has a limit of its own behind this one.
const MAX_DEPTH: u32 = 100;

/// Gives back what means the same in Rust's dialect.
pub(super) fn translate(java: &str) -> Result<String, PatternError> {
    let mut translator =
        Translator { rest: java.chars().peekable(), out: String::with_capacity(java.len() + 16), depth: 0 };
    translator.run()?;
    Ok(translator.out)
}

struct Translator<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
    depth: u32,
}

/// What was read last.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Other,
    Repetition,
    LazyRepetition,
}

fn inexact<T>(what: &str) -> Result<T, PatternError> {
    Err(PatternError::Inexact(what.to_owned()))
}

fn invalid<T>(what: &str) -> Result<T, PatternError> {
    Err(PatternError::Invalid(what.to_owned()))
}

impl Translator<'_> {
    fn run(&mut self) -> Result<(), PatternError> {
        let mut last = Last::Other;
        while let Some(c) = self.rest.next() {
            last = match c {
                '*' | '+' | '?' => self.repetition(c, last)?,
                '{' => self.counted(last)?,
                _ => {
                    self.other(c)?;
                    Last::Other
                }
            };
        }
        Ok(())
    }

    fn other(&mut self, c: char) -> Result<(), PatternError> {
        match c {
            '\\' => self.escape(),
            '[' => self.class(),
            '(' => self.group(),
            ')' if self.depth == 0 => invalid("unopened group"),
            ')' => {
                self.depth -= 1;
                self.out.push(c);
                Ok(())
            }
            _ => {
                self.out.push(c);
                Ok(())
            }
        }
    }

    /// `*`, `+` or `?`. Laziness does not matter for a whole match; a possessive repetition does.
    fn repetition(&mut self, c: char, last: Last) -> Result<Last, PatternError> {
        let now = match (last, c) {
            (Last::Other, _) => Last::Repetition,
            (Last::Repetition, '?') => Last::LazyRepetition,
            (Last::Repetition, '+') => return inexact("possessive repetition"),
            (Last::Repetition | Last::LazyRepetition, _) => return inexact("repetition of a repetition"),
        };
        self.out.push(c);
        Ok(now)
    }

    /// `{n}`, `{n,}` or `{n,m}`. Other braces are literals in RE2/J and errors in Rust.
    fn counted(&mut self, last: Last) -> Result<Last, PatternError> {
        if last != Last::Other {
            return inexact("repetition of a repetition");
        }
        let mut inside = String::new();
        loop {
            match self.rest.next() {
                Some('}') => break,
                Some(c) if c.is_ascii_digit() || c == ',' => inside.push(c),
                _ => return inexact("a brace that is no repetition"),
            }
        }
        let (min, max) = inside.split_once(',').unwrap_or((&inside, ""));
        let good = |count: &str| count.parse().is_ok_and(|count: u32| count <= MAX_REPETITION);
        if !good(min) || !(max.is_empty() || good(max)) {
            return inexact("a repetition without a first number, or with one above 1000");
        }
        self.out.push('{');
        self.out.push_str(&inside);
        self.out.push('}');
        Ok(Last::Repetition)
    }

    /// What follows `(`.
    fn group(&mut self) -> Result<(), PatternError> {
        self.out.push('(');
        if self.rest.next_if_eq(&'?').is_some() && self.special_group()? == Flags::OfTheRest {
            return Ok(());
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH { inexact("groups nested too deeply") } else { Ok(()) }
    }

    /// What follows `(?`.
    fn special_group(&mut self) -> Result<Flags, PatternError> {
        self.out.push('?');
        match self.rest.peek() {
            Some('=' | '!') => inexact("look-ahead"),
            Some('>') => inexact("independent group"),
            Some('<' | 'P') => self.group_name(),
            _ => self.flags(),
        }
    }

    /// `<name>` or `P<name>`.
    fn group_name(&mut self) -> Result<Flags, PatternError> {
        if let Some(p) = self.rest.next_if_eq(&'P') {
            self.out.push(p);
        }
        if self.rest.next() != Some('<') {
            return inexact("a group that RE2/J does not know");
        }
        if matches!(self.rest.peek(), Some('=' | '!')) {
            return inexact("look-behind");
        }
        self.out.push('<');
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
            self.out.push(c);
        }
        match self.rest.next() {
            Some('>') => {
                self.out.push('>');
                Ok(Flags::OfTheGroup)
            }
            _ => inexact("a group name with other characters than letters and digits"),
        }
    }

    /// `flags:` or `flags)`; no flags at all before a colon.
    fn flags(&mut self) -> Result<Flags, PatternError> {
        while let Some(c) = self.rest.next_if(|c| matches!(c, 'i' | 'm' | 's' | 'U' | '-')) {
            self.out.push(c);
        }
        match self.rest.next() {
            Some(':') => {
                self.out.push(':');
                Ok(Flags::OfTheGroup)
            }
            Some(')') => {
                self.out.push(')');
                Ok(Flags::OfTheRest)
            }
            Some(_) => inexact("a flag that RE2/J does not know"),
            None => invalid("unclosed group"),
        }
    }

    /// What follows `[`.
    fn class(&mut self) -> Result<(), PatternError> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        if self.rest.next_if_eq(&']').is_some() {
            self.out.push_str(r"\]");
        }
        loop {
            let Some(c) = self.rest.next() else { return invalid("unclosed character class") };
            match c {
                ']' => {
                    self.out.push(c);
                    return Ok(());
                }
                // Literals in RE2/J, sets in the JDK and in Rust.
                '[' => return inexact("a bracket in a character class"),
                '&' | '-' | '~' if self.rest.peek() == Some(&c) => {
                    return inexact("a doubled sign in a character class");
                }
                '\\' => self.escape_in_class()?,
                _ => self.out.push(c),
            }
        }
    }

    /// What follows `\` outside of a class.
    fn escape(&mut self) -> Result<(), PatternError> {
        let Some(c) = self.rest.next() else { return invalid("a backslash at the end") };
        match c {
            'Q' => self.quoted(),
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            'w' => self.out.push_str("[0-9A-Za-z_]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            's' => self.out.push_str(r"[\t\n\f\r ]"),
            'S' => self.out.push_str(r"[^\t\n\f\r ]"),
            'b' => self.out.push_str(r"(?-u:\b)"),
            'A' | 'z' | 't' | 'n' | 'r' | 'f' | 'a' => self.out.extend(['\\', c]),
            _ => return self.escaped_sign(c),
        }
        Ok(())
    }

    fn escape_in_class(&mut self) -> Result<(), PatternError> {
        let Some(c) = self.rest.next() else { return invalid("unclosed character class") };
        match c {
            'd' => self.out.push_str("0-9"),
            'w' => self.out.push_str("0-9A-Za-z_"),
            's' => self.out.push_str(r"\t\n\f\r "),
            't' | 'n' | 'r' | 'f' | 'a' => self.out.extend(['\\', c]),
            _ => return self.escaped_sign(c),
        }
        Ok(())
    }

    fn escaped_sign(&mut self, c: char) -> Result<(), PatternError> {
        match c {
            // Escaped, these are edges of words in Rust.
            '<' | '>' => self.out.push(c),
            _ if c.is_ascii_punctuation() => self.out.extend(['\\', c]),
            _ => return Err(PatternError::Inexact(format!("\\{c}"))),
        }
        Ok(())
    }

    /// What follows `\Q`, to `\E` or the end: itself.
    fn quoted(&mut self) {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            self.out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
        }
    }
}

/// What flags stand for.
#[derive(PartialEq)]
enum Flags {
    /// `(?i:…)`: a group begins.
    OfTheGroup,
    /// `(?i)`: there is no group.
    OfTheRest,
}
