//! When weir is ready, and what is in use as what from the start on.

use std::fs;

use serde_json::json;
use weir_tests::artifacts::{self, Form};
use weir_tests::wait;
use weir_tests::weir::{Home, Weir};

const LISTER: &str = "demo.AnyLister";

fn unready(weir: &Weir) -> Option<String> {
    let answer = weir.call("GET", "/weir/v1/ready", b"");
    match answer.status {
        200 => None,
        503 => Some(answer.reason()),
        _ => panic!("{answer}"),
    }
}

#[test]
fn weir_is_not_ready_while_its_lister_is_not_in_force() {
    let Some(lister) = artifacts::read("any-lister", Form::Component) else { return };
    let home = Home::new().set(&format!("listing.class={LISTER}"));
    home.drop_file("lister.wasm", &lister);
    let weir = home.start();
    fs::remove_file(weir.home().plugins().join("lister.wasm")).unwrap();
    let reason = wait::until("weir to miss its lister", || unready(&weir).ok_or("it is ready"));
    assert_eq!(reason, format!("no topic can be listed (listing.class): {LISTER} is not registered"));
    weir.home().drop_file("lister.wasm", &lister);
    wait::until("weir to have its lister again", || unready(&weir).map_or(Ok(()), Err));
}

#[test]
fn what_a_class_is_used_as_is_known_before_the_folder_is_looked_at() {
    let Some(filter) = artifacts::read("odd", Form::Component) else { return };
    let home = Home::new().set("listing.class=demo.Swap");
    home.drop_file("swap.wasm", &filter);
    let refused = home.try_start().err().expect("it has no lister");
    let sentence = "demo.Swap is in use as a lister, the artifact is a filter";
    assert!(refused.log.contains(sentence), "{}", refused.log);
    // Nothing of it was taken.
    assert!(!refused.log.contains("extension in force"), "{}", refused.log);
    let weir = refused.home.without_settings().start();
    weir.wait_in_force("demo.Swap", &filter);
    assert_eq!(weir.get("/weir/v1/refused"), json!([]));
}
