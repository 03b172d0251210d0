//! Ways in which an artifact can be bad, each with a sentence of its own.

use super::{Bench, guest, text};
use crate::artifact::Limits;

#[track_caller]
fn refused(bench: &Bench, bytes: &[u8], because: &str) {
    let error =
        bench.component(bytes, Limits::default()).err().expect("it should have been refused").to_string();
    assert!(error.contains(because), "{error}");
    assert!(error.len() < 600 && !error.contains('\n'), "no sentence: {error}");
}

#[test]
fn each_bad_component_has_its_own_sentence() {
    let bench = Bench::new();
    let even = guest("even.wasm");
    refused(&bench, b"", "it is empty");
    refused(&bench, &even[..even.len() / 2], "it is cut");
    refused(&bench, b"<!DOCTYPE html><title>404</title>", "HTML page");
    refused(&bench, &text("core-module"), "core WebAssembly module");
    refused(&bench, &text("wrong-world"), "exports acme:calculator/sums@1.0.0; expected weir:extension/meta");
    refused(&bench, &text("contract-2"), "built for contract 2.0.0, this host speaks 1.x");
    refused(&bench, &text("describes-another-contract"), "built for contract 2.0, this host speaks 1.x");
    refused(&bench, &text("describes-no-json"), "description is not what the contract asks for");
    refused(&bench, &text("traps-in-describe"), "describe broke (trap)");
    refused(&bench, &text("loops-in-describe"), "describe did not end within 1 s");
    refused(
        &bench,
        &text("unknown-import"),
        "imports \"acme:secrets/vault@1.0.0\", which weir does not offer",
    );
    refused(&bench, &guest("even.so"), "native library");
    // A section of a kind that there is not.
    refused(&bench, b"\0asm\x0d\0\x01\0\x7f\0", "not a valid component");
}

#[test]
fn bad_answers_break() {
    use crate::filter::BrokeKind;
    use crate::message::Messages;
    let bench = Bench::new();
    for name in ["answers-too-short", "answers-an-unknown-verdict"] {
        let loaded = bench.component(&text(name), Limits::default()).unwrap();
        let (mut filter, fields) = super::filter(&*loaded, "{}").unwrap();
        let mut messages = Messages::new(fields);
        messages.row();
        messages.row();
        assert_eq!(super::judge(&mut *filter, &messages).unwrap_err().kind, BrokeKind::BadAnswer, "{name}");
    }
    for (name, kind) in [("loops-in-configure", BrokeKind::Deadline), ("traps-in-configure", BrokeKind::Trap)]
    {
        let loaded = bench.component(&text(name), Limits::default()).unwrap();
        assert_eq!(loaded.configure("{}").unwrap_err().kind, kind);
    }
}
