//! What the tests of this crate share: guests as `make guests` builds them, and a loader for them.

mod conformance;
pub(crate) mod fuzz;
mod limits;
mod listers;
mod refusals;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::artifact::{FilterAndFields, Limits, Loaded, Loader, LoaderOptions, OpenError};
use crate::child::tests::this_program;
use crate::filter::{Broke, MessageFilter, Verdict};
use crate::message::{Field, Messages};

/// A loader whose children are this very test program.
pub(crate) struct Bench {
    pub(crate) loader: Loader,
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    /// Components are compiled once, by Cranelift.
    pub(crate) fn new() -> Self {
        Self::with(|options| options.winch_from = usize::MAX)
    }

    pub(crate) fn with(change: impl FnOnce(&mut LoaderOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let loader = LoaderOptions::new(folder.path().join("extensions"));
        let mut options = LoaderOptions { child: this_program(), ..loader };
        change(&mut options);
        Self { loader: Loader::new(options).unwrap(), folder }
    }

    pub(crate) fn component(&self, bytes: &[u8], limits: Limits) -> Result<Arc<dyn Loaded>, OpenError> {
        self.loader.component(bytes, &sha256(bytes), limits)
    }

    pub(crate) fn native(&self, bytes: &[u8]) -> Result<Arc<dyn Loaded>, OpenError> {
        self.loader.native(bytes, &sha256(bytes), "test.so".as_ref(), Limits::default())
    }

    /// Both forms of a guest, by name; with a deadline that is not met on a busy machine.
    pub(crate) fn both(&self, name: &str) -> [(&'static str, Arc<dyn Loaded>); 2] {
        let native = self.native(&guest(&format!("{name}.so"))).unwrap();
        let patient = Limits { deadline: Duration::from_secs(60), ..Limits::default() };
        let component = self.component(&guest(&format!("{name}.wasm")), patient).unwrap();
        [("native", native), ("component", component)]
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a guest, as `make guests` left them.
#[track_caller]
pub(crate) fn guest(file: &str) -> Vec<u8> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")), PathBuf::from);
    let path = target.join("guests").join(file);
    match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) => panic!("{} cannot be read ({error}): run `make guests` first", path.display()),
    }
}

/// Looks until this holds; in vain for a minute, it fails.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited for: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A component that was written by hand.
pub(crate) fn text(name: &str) -> Vec<u8> {
    wat::parse_file(format!("{}/../../tests/wat/{name}.wat", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// A filter instance and the fields that it reads.
pub(crate) fn filter(loaded: &dyn Loaded, config: &str) -> Result<FilterAndFields, Broke> {
    let fields: Arc<[Field]> = loaded.configure(config)?.into();
    Ok((loaded.filter(config, &fields)?, fields))
}

/// Judges every message of a batch.
pub(crate) fn judge(filter: &mut dyn MessageFilter, messages: &Messages<'_>) -> Result<Vec<Verdict>, Broke> {
    let mut verdicts = Vec::new();
    let rows: Vec<u32> = (0..).take(messages.len()).collect();
    filter.judge(messages, &rows, &mut verdicts).map(|()| verdicts)
}
