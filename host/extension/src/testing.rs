//! What the tests of this crate share: guests as `make guests` builds them, and a loader for them.

mod conformance;
mod listers;
mod refusals;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::artifact::{CompilerCommand, FilterAndFields, Limits, Loaded, Loader, LoaderOptions, OpenError};
use crate::filter::{Broke, MessageFilter, Verdict};
use crate::message::{Field, Messages};

/// A loader whose compiler is this very test program.
pub(crate) struct Bench {
    pub(crate) loader: Loader,
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let args = ["--exact", "compiled::tests::compiler_child", "--nocapture"].map(String::from).to_vec();
        let compiler = CompilerCommand { args, ..CompilerCommand::default() };
        let loader =
            Loader::new(LoaderOptions { folder: folder.path().join("extensions"), compiler }).unwrap();
        Self { loader, folder }
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

fn sha256(bytes: &[u8]) -> String {
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
