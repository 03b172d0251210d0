//! The ways in which an artifact can be bad, by both doors: each gets its own sentence, and the good one
//! that is in force stays.

use std::collections::BTreeMap;

use serde_json::Value;
use weir_tests::artifacts::{self, Form};
use weir_tests::http;
use weir_tests::wait;
use weir_tests::weir::{Home, Weir};

const CLASS: &str = "demo.Swap";

/// The good component and the good library.
fn good() -> Option<(Vec<u8>, Vec<u8>)> {
    Some((artifacts::read("odd", Form::Component)?, artifacts::read("odd", Form::Native)?))
}

fn start(component: &[u8]) -> Weir {
    let weir = Home::new().set("plugins.max-artifact-size=8MiB").set("plugins.poll=100ms").start();
    let _ = weir.register(CLASS, component).ok();
    weir
}

/// Every sentence is there, and is said of one fault only.
#[track_caller]
fn check_sentences(sentences: &BTreeMap<&str, String>) {
    for (fault, sentence) in sentences {
        assert!(sentence.len() > 10, "{fault}: {sentence:?} says nothing");
        assert!(sentence.len() < 1000, "{fault}: {} bytes are no sentence: {sentence}", sentence.len());
        for (other, said) in sentences {
            assert!(fault == other || sentence != said, "{fault} and {other} are both told {sentence:?}");
        }
    }
}

#[test]
fn a_bad_upload_is_refused_with_its_own_sentence() {
    let Some((component, library)) = good() else { return };
    let weir = start(&component);
    let mut sentences = BTreeMap::new();
    for (fault, artifact) in artifacts::bad(CLASS, &component, &library) {
        let answer = weir.register(CLASS, &artifact);
        assert!([415, 422].contains(&answer.status), "{fault}: {answer}");
        // Of a library it is enough to say that it may not come this way.
        if fault != "for another CPU" {
            sentences.insert(fault, answer.reason());
        }
        assert_eq!(weir.in_force(CLASS), Some(artifacts::crc32(&component)), "after one {fault}");
    }
    let answer = weir.register(CLASS, &library);
    assert_eq!(answer.status, 415, "a native library never enters over a socket: {answer}");
    sentences.insert("a native library", answer.reason());
    let answer = weir.register(CLASS, &vec![0; 9 << 20]);
    assert_eq!(answer.status, 413, "{answer}");
    sentences.insert("too large", answer.reason());
    check_sentences(&sentences);
    assert_eq!(weir.in_force(CLASS), Some(artifacts::crc32(&component)));
}

#[test]
fn an_upload_too_large_is_refused_from_its_announced_length() {
    let Some((component, _)) = good() else { return };
    let weir = start(&component);
    let path = format!("/weir/v1/extensions/{CLASS}");
    // The announced gigabytes never come, and are not waited for.
    let stream = http::send_head(weir.admin, "PUT", &path, &[("Content-Length", "9000000000")]).unwrap();
    let answer = http::read_answer(stream).unwrap();
    assert_eq!(answer.status, 413, "{answer}");
}

#[test]
fn a_bad_file_is_refused_with_its_own_sentence() {
    let Some((component, library)) = good() else { return };
    let weir = start(&component);
    let mut faults = artifacts::bad(CLASS, &component, &library);
    faults.push(("too large", vec![0; 9 << 20]));
    for (fault, artifact) in &faults {
        weir.home().drop_file(&file_name(fault), artifact);
    }
    let mut sentences = BTreeMap::new();
    wait::until("all bad files to be refused", || {
        let refused = weir.get("/weir/v1/refused");
        let refused = refused.as_array().cloned().unwrap_or_default();
        for (fault, _) in &faults {
            let of_it =
                |file: &&Value| file["path"].as_str().is_some_and(|path| path.ends_with(&file_name(fault)));
            if let Some(file) = refused.iter().find(of_it) {
                sentences.insert(*fault, file["reason"].as_str().unwrap_or_default().to_owned());
            }
        }
        if sentences.len() == faults.len() { Ok(()) } else { Err(format!("{sentences:?} of {refused:?}")) }
    });
    check_sentences(&sentences);
    assert_eq!(weir.in_force(CLASS), Some(artifacts::crc32(&component)));
}

fn file_name(fault: &str) -> String {
    let ending = if fault == "for another CPU" { "so" } else { "wasm" };
    format!("{}.{ending}", fault.replace(' ', "-"))
}

#[test]
fn a_good_file_under_the_name_of_a_bad_one_is_taken() {
    let Some((component, _)) = good() else { return };
    let weir = Home::new().set("plugins.poll=100ms").start();
    weir.home().drop_file("swap.wasm", &component[..component.len() / 2]);
    wait::until("the half file to be refused", || match weir.get("/weir/v1/refused").as_array() {
        Some(refused) if !refused.is_empty() => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(weir.in_force(CLASS), None);
    weir.home().drop_file("swap.wasm", &component);
    weir.wait_in_force(CLASS, &component);
    assert_eq!(weir.get("/weir/v1/refused"), serde_json::json!([]));
}

#[test]
fn a_checksum_that_does_not_fit_is_refused() {
    let Some((component, _)) = good() else { return };
    let weir = Home::new().start();
    let put = |crc32: &str| {
        let headers = [("X-Weir-Crc32", crc32)];
        weir.try_call("PUT", &format!("/weir/v1/extensions/{CLASS}"), &headers, &component).unwrap()
    };
    let refused = put("00000001");
    assert_eq!(refused.status, 422, "{refused}");
    assert!(refused.reason().contains(&artifacts::crc32(&component)), "{refused}");
    assert_eq!(put(&artifacts::crc32(&component)).status, 201);
    let again = put(&artifacts::crc32(&component));
    assert_eq!((again.status, &again.json()["unchanged"]), (200, &Value::Bool(true)), "{again}");
}

#[test]
fn another_class_than_its_own_is_refused() {
    let Some((component, _)) = good() else { return };
    let weir = Home::new().start();
    let refused = weir.register("demo.Other", &component);
    assert_eq!(refused.status, 409, "{refused}");
    assert!(refused.reason().contains(CLASS), "{refused}");
}
