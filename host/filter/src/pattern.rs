//! Which topics a binding's pattern covers.

use regex::{Regex, RegexBuilder};
use weir_extension::{Domain, TopicName};

use crate::binding::{BindingError, MAX_PATTERN_BYTES};

/// The most memory that one compiled pattern may take, in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// A binding's pattern, compiled once.
#[derive(Debug)]
pub(crate) struct TopicPattern {
    text: String,
    domain: Option<Domain>,
    /// As the pattern writes it, the domain dropped.
    expression: String,
    regex: Regex,
}

impl TopicPattern {
    pub(crate) fn new(text: &str) -> Result<Self, BindingError> {
        let refuse = |reason: String| {
            let pattern = text.chars().take(200).collect();
            BindingError::BadPattern { pattern, reason }
        };
        if text.is_empty() || text.len() > MAX_PATTERN_BYTES {
            let len = text.len();
            return Err(refuse(format!("it has {len} bytes, 1 to {MAX_PATTERN_BYTES} are allowed")));
        }
        let bare = text.strip_prefix('^').unwrap_or(text);
        let (domain, expression) = match bare.split_once("://") {
            Some(("persistent", rest)) => (Some(Domain::Persistent), rest),
            Some(("non-persistent", rest)) => (Some(Domain::NonPersistent), rest),
            Some((other, _)) => {
                let reason = format!("its domain is {other:?}, expected persistent, non-persistent or none");
                return Err(refuse(reason));
            }
            None => (None, text),
        };
        let compile = |expression: &str| {
            let mut builder = RegexBuilder::new(expression);
            builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES).build()
        };
        // By itself first: `a)|(b` would become an expression by what is put around it.
        let compiled = compile(expression).and_then(|_| compile(&format!(r"\A(?:{expression})\z")));
        // The lines above the last show where in the pattern, which is shown as a whole already.
        let in_a_line = |error: regex::Error| {
            let text = error.to_string();
            text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
        };
        let regex = compiled.map_err(|error| refuse(in_a_line(error)))?;
        Ok(Self { text: text.to_owned(), domain, expression: expression.to_owned(), regex })
    }

    /// As it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether a base topic is covered.
    pub(crate) fn covers(&self, base: &TopicName) -> bool {
        self.domain.is_none_or(|domain| domain == base.domain()) && self.regex.is_match(base.without_domain())
    }

    /// Whether this pattern and the other are the same expression over a domain that both cover.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let apart = matches!((self.domain, other.domain), (Some(a), Some(b)) if a != b);
        !apart && self.expression == other.expression
    }
}
