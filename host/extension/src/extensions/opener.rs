//! What the door asks of whoever opens artifacts.

use std::path::Path;
use std::sync::Arc;

use super::key::Form;
use crate::artifact::{Limits, Loaded, Loader, LoaderFigures, OpenError};

/// Opens artifacts: [`Loader`], behind a trait so that the rules of the door are tested without a
/// compiler.
pub(crate) trait Opener: Send + Sync {
    /// Which form the bytes have, or what else they are.
    fn sniff(&self, bytes: &[u8]) -> Result<Form, OpenError>;

    /// Opens a component.
    fn component(&self, bytes: &[u8], sha256: &str, limits: Limits) -> Result<Arc<dyn Loaded>, OpenError>;

    /// Opens a native library.
    fn native(
        &self,
        bytes: &[u8],
        sha256: &str,
        from: &Path,
        limits: Limits,
    ) -> Result<Arc<dyn Loaded>, OpenError>;

    /// What that has cost.
    fn figures(&self) -> LoaderFigures {
        LoaderFigures::default()
    }
}

impl Opener for Loader {
    fn sniff(&self, bytes: &[u8]) -> Result<Form, OpenError> {
        Self::sniff(bytes)
    }

    fn component(&self, bytes: &[u8], sha256: &str, limits: Limits) -> Result<Arc<dyn Loaded>, OpenError> {
        self.component(bytes, sha256, limits)
    }

    fn native(
        &self,
        bytes: &[u8],
        sha256: &str,
        from: &Path,
        limits: Limits,
    ) -> Result<Arc<dyn Loaded>, OpenError> {
        self.native(bytes, sha256, from, limits)
    }

    fn figures(&self) -> LoaderFigures {
        self.figures()
    }
}
