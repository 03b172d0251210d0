//! Messages as large as a stock client takes them, and larger ones in chunks.

use serde_json::{Value, json};
use weir_tests::python;
use weir_tests::weir::Home;

/// The limit that weir tells its clients, by default.
const MAX: i64 = 5 << 20;

#[test]
fn whatever_a_stock_client_lets_through_is_taken() {
    let weir = Home::new().start();
    // The client counts payload and metadata, and neither checksum nor frame: right below its limit an
    // entry is larger than the limit is. A chunk is, always.
    let sizes = [MAX - 100, MAX - 40, MAX - 36, MAX - 33, MAX - 30, MAX - 25, MAX + 1];
    let sizes = sizes.map(|size| size.to_string());
    let mut arguments = vec![weir.service_url(), "persistent://public/default/large".to_owned()];
    arguments.extend(["--chunked".to_owned(), (12 << 20).to_string(), "--sizes".to_owned()]);
    arguments.extend(sizes);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some(script) = python::start("sizes.py", &arguments) else { return };
    let said = script.rest();
    let of = |what: &str| -> Vec<i64> { said.iter().filter_map(|line| line[what].as_i64()).collect() };
    let (sent, received) = (of("sent"), of("received"));
    assert!(sent.len() >= 4 && sent.contains(&(12 << 20)), "{said:?}");
    assert_eq!(sent, received, "{said:?}");
    assert!(said.iter().filter(|line| line["received"].is_i64()).all(|line| line["same"] == json!(true)));
    assert!(of("refused").contains(&(MAX + 1)), "the client knows the limit: {said:?}");
    assert_eq!(said.iter().filter(|line| line["failed"] != Value::Null).count(), 0);
}
