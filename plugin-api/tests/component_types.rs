//! The component types that `export!` puts into a component are those of `wit/weir.wit`.
//!
//! They are files, since an author's build must need no tool but cargo. `WEIR_BLESS=1` writes them anew.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which panic as tests do")]

use std::path::Path;

use wit_component::{StringEncoding, metadata};
use wit_parser::Resolve;

const WIT: &str = include_str!("../../wit/weir.wit");

/// The minor that only tests know: one function more, on an interface that guests import.
fn next_minor() -> String {
    let wit = WIT.replace("@1.0.0", "@1.1.0");
    let host = "interface host {\n";
    assert!(
        wit.contains(host) && wit.contains("package weir:extension@1.1.0"),
        "weir.wit has changed its shape"
    );
    wit.replace(
        host,
        &format!("{host}  /// How many batches this instance was handed.\n  batches: func() -> u64;\n"),
    )
}

#[track_caller]
fn check(wit: &str, world: &str, file: &str) {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("weir.wit", wit).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    let encoded = metadata::encode(&resolve, world, StringEncoding::UTF8, None).unwrap();

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/component").join(file);
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &encoded).unwrap();
    }
    let held = std::fs::read(&path).unwrap();
    assert!(held == encoded, "{file} is not what wit/ says: run the test with WEIR_BLESS=1");
}

#[test]
fn of_a_filter() {
    check(WIT, "filter-guest", "filter-guest.bin");
}

#[test]
fn of_a_lister() {
    check(WIT, "lister-guest", "lister-guest.bin");
}

#[test]
fn of_a_filter_of_the_next_minor() {
    check(&next_minor(), "filter-guest", "next-filter-guest.bin");
}
