//! Patterns as clients send them: regular expressions of Java, matched with a topic's whole base name
//! without its domain.
//!
//! Pulsar compiles them with RE2/J and falls back to the JDK. Neither is Rust's `regex`; [`translate`]
//! writes what means the same in both and refuses the rest as *inexact*, because an answer that calls
//! itself filtered is taken at its word. What is inexact here is left to the client, which has the
//! original at hand.

mod translate;

use regex::{Regex, RegexBuilder};

use translate::translate;

/// The most memory that one compiled pattern may take, in bytes. It also bounds the time to compile one,
/// to a few milliseconds.
const MAX_COMPILED_BYTES: usize = 256 << 10;

const SEPARATOR: &str = "://";

/// A pattern that can be applied exactly.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// `.*`
    Everything,
    /// Anything else.
    Matching(Regex),
}

/// Why a pattern is not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    /// It may be a good one, but cannot be applied here with the same meaning.
    #[error("it cannot be applied exactly: {0}")]
    Inexact(String),
    /// It is no regular expression.
    #[error("{0}")]
    Invalid(String),
}

impl Pattern {
    /// Compiles a pattern, its domain dropped.
    pub(crate) fn new(text: &str) -> Result<Self, PatternError> {
        let text = without_domain(text)?;
        if text == ".*" {
            return Ok(Self::Everything);
        }
        let translated = translate(&text)?;
        RegexBuilder::new(&format!(r"\A(?:{translated})\z"))
            .size_limit(MAX_COMPILED_BYTES)
            .dfa_size_limit(MAX_COMPILED_BYTES)
            .build()
            .map(Self::Matching)
            .map_err(|error| match error {
                regex::Error::Syntax(reason) => PatternError::Invalid(last_line(&reason)),
                other => PatternError::Inexact(other.to_string()),
            })
    }

    /// Whether a base name without its domain matches, as a whole.
    pub(crate) fn is_match(&self, name: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Matching(regex) => regex.is_match(name),
        }
    }
}

/// Drops the domain from a pattern as Pulsar does: of the text before `://`, `persistent` or
/// `non-persistent` at its end; what stands before that is kept, what stands after a second `://` is lost.
///
/// Source: Pulsar `TopicList.removeTopicDomainScheme`.
fn without_domain(text: &str) -> Result<String, PatternError> {
    let mut pieces = text.split(SEPARATOR);
    let (Some(before), Some(after)) = (pieces.next(), pieces.next()) else { return Ok(text.to_owned()) };
    let kept = before.strip_suffix("non-persistent").or_else(|| before.strip_suffix("persistent"));
    match kept {
        Some(_) if after.is_empty() => Err(PatternError::Invalid(format!("nothing follows {before}://"))),
        Some(kept) => Ok(format!("{kept}{after}")),
        None => Err(PatternError::Invalid(format!(
            "its domain is {before:?}, expected persistent or non-persistent"
        ))),
    }
}

/// The sentence of regex's drawing of an error.
fn last_line(error: &str) -> String {
    let line = error.lines().last().unwrap_or(error);
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests;
