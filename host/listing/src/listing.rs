//! One listing, from the request to the hash.

use std::sync::Arc;

use serde_json::Value;
use weir_extension::{Broke, ClassName, Extensions, ListRequest, Unavailable};

use crate::index::Index;

/// What a client asks.
#[derive(Clone, Debug)]
pub struct Query {
    /// What the lister is asked; equal ones in flight are asked once.
    pub request: ListRequest,
    /// A regular expression that the names must match.
    pub pattern: Option<String>,
    /// The hash of the list that the client already has.
    pub hash: Option<String>,
}

/// What a client is told. Field for field `CommandGetTopicsOfNamespaceResponse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Full names, partitions one by one, sorted. Empty when not `changed`.
    pub topics: Vec<String>,
    /// The pattern has been applied, exactly.
    pub filtered: bool,
    /// The hash of the list.
    pub hash: String,
    /// The client's hash is not this one.
    pub changed: bool,
}

/// Why there is no answer. There is never a partial one: clients unsubscribe what vanishes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The lister broke.
    #[error("lister {class} {broke}")]
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
}

/// Answers listings with the lister that the configuration names.
pub struct Listing {}

impl Listing {
    /// `class` answers, with `config` or the configuration registered for the class.
    pub fn new(
        extensions: Arc<Extensions>,
        index: Arc<Index>,
        class: ClassName,
        config: Option<Value>,
    ) -> Self {
        let _ = (extensions, index, class, config);
        todo!()
    }

    /// The topics there are.
    pub fn index(&self) -> &Arc<Index> {
        todo!()
    }

    /// Answers one request. The asking of the lister is a task of its own, so that a caller that goes
    /// away strands nobody who joined it.
    ///
    /// # Errors
    /// See [`ListError`].
    pub async fn list(&self, query: Query) -> Result<Answer, ListError> {
        let _ = query;
        todo!()
    }
}
