//! The seam between the table and the two forms: what an opened artifact can do, whatever it is.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::extensions::{ClassName, Kind};
use crate::filter::{Broke, MessageFilter};
use crate::lister::TopicLister;
use crate::message::Field;

/// What an artifact says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    /// Its class name.
    pub class: ClassName,
    /// What it can do.
    pub kinds: Vec<Kind>,
    /// Its own version, free text.
    pub version: String,
    /// The contract's version that it was built against: `major.minor`.
    pub contract: String,
    /// The JSON Schema of its configuration.
    pub schema: Value,
}

/// An opened artifact: a native library, a compiled component or a built-in. Instances are made from it.
pub(crate) trait Loaded: Send + Sync {
    /// What it says of itself.
    fn description(&self) -> &Description;

    /// Hands it a configuration (JSON that its schema has accepted) and gives back the fields that it
    /// will read then. Empty for a lister.
    ///
    /// # Errors
    /// When it refuses the configuration (kind `Error`), or breaks.
    fn configure(&self, config: &str) -> Result<Vec<Field>, Broke>;

    /// A fresh filter instance; `fields` are what [`configure`](Self::configure) gave back.
    ///
    /// # Errors
    /// When it cannot be made.
    fn filter(&self, config: &str, fields: &Arc<[Field]>) -> Result<Box<dyn MessageFilter>, Broke>;

    /// A fresh lister instance.
    ///
    /// # Errors
    /// When it cannot be made.
    fn lister(&self, config: &str) -> Result<Box<dyn TopicLister>, Broke>;
}

/// What one extension may use. From `[extensions."…"]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For one message (or one listing); a batch gets more, to at most this and 500 ms.
    pub deadline: std::time::Duration,
    /// All memories of one instance together, in bytes.
    pub memory: usize,
}

/// Opens artifacts. One for each process: it owns the engine, the compiled-code cache and the folder in
/// which native libraries get paths never used before.
pub(crate) struct Loader {}

/// Why bytes could not be opened: one sentence for the person who sent them, with what was found and
/// what was expected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct OpenError(pub String);

impl Loader {
    /// Compiles (in a limited child process, cached by digest) and describes a component.
    ///
    /// # Errors
    /// When it is not one of ours: no component, wrong world, unknown import, wrong contract version,
    /// too greedy, breaks when asked to describe itself.
    pub(crate) fn component(
        &self,
        bytes: &[u8],
        sha256: &str,
        limits: Limits,
    ) -> Result<Arc<dyn Loaded>, OpenError> {
        let _ = (bytes, sha256, limits);
        todo!()
    }

    /// Opens a native library from a private copy of `path`'s bytes under a path never used before.
    ///
    /// # Errors
    /// When it is for another machine, has no root module of ours, another contract, or panics.
    pub(crate) fn native(
        &self,
        bytes: &[u8],
        sha256: &str,
        from: &Path,
        limits: Limits,
    ) -> Result<Arc<dyn Loaded>, OpenError> {
        let _ = (bytes, sha256, from, limits);
        todo!()
    }
}
