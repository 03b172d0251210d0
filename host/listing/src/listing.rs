//! One listing, from the request to the hash.

mod listed;
mod lister;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use weir_extension::{Broke, ClassName, Configured, Extensions, ListRequest, Unavailable};

use crate::config::Config;
use crate::index::Index;
use crate::pattern::{Pattern, PatternError};
use listed::Listed;
use lister::Lister;

/// Up to this many names a pattern is applied on the caller's thread; more are handed to a blocking one.
const MAX_INLINE_NAMES: usize = 500;

/// What a client asks.
#[derive(Clone, Debug)]
pub struct Query {
    /// What the lister is asked; equal ones in flight are asked once.
    pub request: ListRequest,
    /// A regular expression that the names must match, in Java's dialect, as the client sent it.
    pub pattern: Option<String>,
    /// The hash of the list that the client already has.
    pub hash: Option<String>,
}

/// What a client is told. Field for field `CommandGetTopicsOfNamespaceResponse`.
///
/// | situation | `topics` | `filtered` | `changed` |
/// | --- | --- | --- | --- |
/// | no pattern | all | no | yes |
/// | a pattern that can be applied exactly | matches | yes | yes |
/// | too long a pattern, patterns switched off, or no exact meaning here | all | no | yes |
/// | the client's hash is the computed one | none | as above | no |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Full names, partitions one by one, sorted by UTF-16 units, each once. Empty when not `changed`.
    pub topics: Vec<String>,
    /// The pattern has been applied, exactly.
    pub filtered: bool,
    /// The hash of the list, before `changed` was decided.
    pub hash: String,
    /// The client's hash is not this one.
    pub changed: bool,
}

/// Why there is no answer. There is never a partial one: clients unsubscribe what vanishes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The lister broke.
    #[error("lister {class} broke ({broke})")]
    Broke {
        /// Which lister.
        class: ClassName,
        /// How.
        broke: Broke,
    },
    /// The lister cannot be called.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The pattern is not a regular expression.
    #[error("pattern {pattern:?} is not a valid regular expression: {reason}")]
    BadPattern {
        /// The pattern, cut to 200 characters.
        pattern: String,
        /// Where and why.
        reason: String,
    },
    /// Too many different listings are under way.
    #[error("{limit} listings are under way, no more are taken (listing.max-in-flight)")]
    TooManyListings {
        /// How many may be.
        limit: usize,
    },
    /// The client sent too many properties.
    #[error("{count} properties were sent, at most {limit} are taken (listing.max-properties)")]
    TooManyProperties {
        /// How many came.
        count: usize,
        /// How many may.
        limit: usize,
    },
    /// The client sent a property whose key or value is too long.
    #[error("property {key:?} has {length} bytes, at most {limit} are taken (listing.max-property-length)")]
    PropertyTooLong {
        /// Its key, cut to 200 characters.
        key: String,
        /// The longer of key and value, in bytes.
        length: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The answer would name too many topics.
    #[error("the answer has {count} topics, at most {limit} are given (listing.max-topics)")]
    TooManyTopics {
        /// How many it would be, at least.
        count: usize,
        /// How many it may be.
        limit: usize,
    },
    /// The asking ended without an answer: the process is ending, or a fault of weir's that is in the log.
    #[error("the listing was given up; try again")]
    Stopped,
}

/// Answers listings with the lister that the configuration names. Cheap to clone.
///
/// Memory grows with the listings in flight: each holds its answer until the last one who asked for it
/// has made his own of it. `max-in-flight` times `max-topics` names is the ceiling; a budget in bytes over
/// all listings is what replaces it when that is too coarse.
#[derive(Clone)]
pub struct Listing {
    inner: Arc<Inner>,
}

struct Inner {
    index: Arc<Index>,
    lister: Arc<Lister>,
    config: Config,
    in_flight: Mutex<HashMap<Arc<Flight>, watch::Receiver<Option<Asked>>>>,
}

/// What makes two askings one: nothing that could tell their answers apart differs.
#[derive(PartialEq, Eq, Hash)]
struct Flight {
    request: ListRequest,
    /// The lister's version and configuration.
    lister: u64,
    /// The namespace's: who has just created a topic must not be told of the time before.
    version: u64,
}

type Asked = Result<Arc<Listed>, ListError>;

impl Listing {
    /// `config.class` answers, with `config.config` or the configuration registered for the class.
    pub fn new(extensions: Arc<Extensions>, index: Arc<Index>, config: Config) -> Self {
        let lister = Arc::new(Lister::new(extensions, &config));
        Self { inner: Arc::new(Inner { index, lister, config, in_flight: Mutex::default() }) }
    }

    /// The topics there are.
    pub fn index(&self) -> &Arc<Index> {
        &self.inner.index
    }

    /// Whether the lister can be called now, for the start of the process. Configures it: blocks.
    ///
    /// # Errors
    /// When it cannot, with the reason.
    pub fn check(&self) -> Result<(), Unavailable> {
        self.inner.lister.resolve().map(drop)
    }

    /// Whether the lister can be called now. An atomic load as long as no registration has changed.
    ///
    /// # Errors
    /// When it cannot, with the reason.
    pub async fn ready(&self) -> Result<(), ListError> {
        self.inner.lister.current().await.map(drop)
    }

    /// Answers one request. The asking of the lister is a task of its own, so that a caller that goes
    /// away strands nobody who joined it.
    ///
    /// # Errors
    /// See [`ListError`]. Failures are not kept: the next call asks anew.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn list(&self, query: Query) -> Result<Answer, ListError> {
        self.inner.check(&query.request)?;
        let pattern = self.inner.pattern(query.pattern.as_deref())?;
        let lister = self.inner.lister.current().await?;
        let mut asked = self.inner.join(query.request, lister)?;
        let listed = match asked.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(asked)) => asked.clone()?,
            // The sender was dropped without an answer.
            Ok(None) | Err(_) => return Err(ListError::Stopped),
        };
        if listed.count() <= MAX_INLINE_NAMES {
            return Ok(listed.answer(pattern.as_ref(), query.hash.as_deref()));
        }
        let answer = move || listed.answer(pattern.as_ref(), query.hash.as_deref());
        match self.inner.lister.off_thread(answer).await {
            Some(answer) => Ok(answer),
            None => Err(ListError::Stopped),
        }
    }
}

impl Inner {
    fn check(&self, request: &ListRequest) -> Result<(), ListError> {
        let (count, limit) = (request.properties.len(), self.config.max_properties);
        if count > limit {
            return Err(ListError::TooManyProperties { count, limit });
        }
        let limit = self.config.max_property_length;
        let length = |(key, value): (&String, &String)| key.len().max(value.len());
        match request.properties.iter().find(|pair| length(*pair) > limit) {
            Some((key, value)) => {
                Err(ListError::PropertyTooLong { key: cut(key), length: length((key, value)), limit })
            }
            None => Ok(()),
        }
    }

    /// The pattern to apply; none if the client is to do it.
    fn pattern(&self, text: Option<&str>) -> Result<Option<Pattern>, ListError> {
        let Some(text) = text.filter(|_| self.config.evaluate_patterns) else { return Ok(None) };
        if text.encode_utf16().nth(self.config.pattern_max_length).is_some() {
            return Ok(None);
        }
        match Pattern::new(text) {
            Ok(pattern) => Ok(Some(pattern)),
            Err(PatternError::Inexact(reason)) => {
                tracing::debug!(pattern = text, reason, "pattern left to the client");
                Ok(None)
            }
            Err(PatternError::Invalid(reason)) => Err(ListError::BadPattern { pattern: cut(text), reason }),
        }
    }

    /// Joins the asking that is under way, or begins one.
    fn join(
        self: &Arc<Self>,
        request: ListRequest,
        lister: Arc<Configured>,
    ) -> Result<watch::Receiver<Option<Asked>>, ListError> {
        let version = self.index.version(&request.namespace);
        let flight = Flight { request, lister: lister.id(), version };
        let mut in_flight = self.in_flight.lock();
        if let Some(asked) = in_flight.get(&flight) {
            return Ok(asked.clone());
        }
        let limit = self.config.max_in_flight.get();
        if in_flight.len() >= limit {
            return Err(ListError::TooManyListings { limit });
        }
        let flight = Arc::new(flight);
        let (tell, asked) = watch::channel(None);
        in_flight.insert(Arc::clone(&flight), asked.clone());
        drop(in_flight);
        let landing = Landing { inner: Arc::clone(self), flight: Arc::clone(&flight) };
        tokio::spawn(async move {
            let asked = landing.inner.ask(&flight.request, lister).await;
            // Out of the table first: who comes from now on asks anew.
            drop(landing);
            tell.send_replace(Some(asked));
        });
        Ok(asked)
    }

    async fn ask(self: &Arc<Self>, request: &ListRequest, lister: Arc<Configured>) -> Asked {
        let (inner, request) = (Arc::clone(self), request.clone());
        let asking = move || {
            let view = Arc::new(inner.index.view(&request.namespace, request.mode));
            let set = inner.lister.ask(&lister, &request, &view)?;
            Listed::new(&view, &request, &set, inner.config.max_topics).map(Arc::new)
        };
        self.lister.off_thread(asking).await.unwrap_or(Err(ListError::Stopped))
    }
}

/// Takes an asking out of the table, however it ends.
struct Landing {
    inner: Arc<Inner>,
    flight: Arc<Flight>,
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.inner.in_flight.lock().remove(&self.flight);
    }
}

fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests;
