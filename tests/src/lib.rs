//! The harness of the integration tests: a real `weir`, the stock Python client, bytes on a socket.
//!
//! | module | gives |
//! | --- | --- |
//! | [`weir`] | the `weir` binary on folders of its own and free ports: start, kill, stop, start again |
//! | [`http`] | one call to the admin address |
//! | [`pulsar`] | the Pulsar protocol by hand, byte by byte, independent of weir's own encoder |
//! | [`python`] | scripts with the stock client, talked to by lines |
//! | [`wait`] | conditions with a deadline |
//! | [`flights`] | the public data set |
//! | [`artifacts`] | extensions built from `plugins/` and `tests/guests/`, and bad ones |
//!
//! What is needed and missing (the Python client, guests) fails a test, with the command that brings it;
//! only outside CI, when `WEIR_TESTS_SKIP` names it, the test says loudly that it did nothing.

pub mod artifacts;
pub mod flights;
pub mod http;
pub mod pulsar;
pub mod python;
pub mod wait;
pub mod weir;

use std::path::{Path, PathBuf};

/// The folder of everything built: `target`, wherever it is.
///
/// # Panics
/// When the test binary does not lie where Cargo puts it.
#[must_use]
pub fn target() -> PathBuf {
    let test = std::env::current_exe().expect("a test binary has a path");
    // target/debug/deps/it-0123
    test.ancestors().nth(3).expect("Cargo puts test binaries three folders deep").to_owned()
}

/// The workspace's folder.
#[must_use]
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in the workspace")
}

/// Whether `path`, which a test needs, is there. If it is not, the test fails with what to do; outside CI
/// it may instead be left out by `WEIR_TESTS_SKIP=1`, which is said on standard error.
///
/// # Panics
/// When it is missing and may not be left out.
#[must_use]
#[expect(clippy::print_stderr, reason = "a test that did nothing says so where people look")]
pub fn is_there(path: &Path, make: &str) -> bool {
    if path.exists() {
        return true;
    }
    let may_skip = std::env::var_os("CI").is_none() && std::env::var_os("WEIR_TESTS_SKIP").is_some();
    assert!(may_skip, "{} is missing: `make {make}` brings it", path.display());
    eprintln!("SKIPPED, this test checked nothing: {} is missing (`make {make}`)", path.display());
    false
}
