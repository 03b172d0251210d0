//! When weir is ready.

use std::fs;

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
