//! Whatever the admin address refuses, it refuses in one form: JSON with a reason.

use weir_tests::weir::Home;

const TOPICS: &str = "/admin/v2/persistent/public/default";

#[test]
fn every_refusal_is_json_with_a_reason() {
    let weir = Home::new().set("limits.admin-body=2KiB").start();
    let long = vec![b' '; 3 << 10];
    let topic = format!("{TOPICS}/t");
    let partitions = format!("{topic}/partitions");
    let properties = format!("{topic}/properties");
    let cases: [(&str, &str, &[u8], u16); 25] = [
        ("GET", "/", b"", 404),
        ("GET", "/weir/v1/nothing", b"", 404),
        ("GET", "/admin/v2/nothing/here/at/all/you/see", b"", 404),
        ("GET", "/weir/v1/extensions/demo.None", b"", 404),
        ("GET", "/weir/v1/extensions/demo%20None", b"", 400),
        ("GET", "/weir/v1/extensions/%ff", b"", 400),
        ("GET", "/admin/v2/tenants/%ff", b"", 400),
        ("GET", "/admin/v2/clusters/%ff", b"", 400),
        ("GET", "/lookup/v2/topic/persistent/public/default/%ff", b"", 400),
        ("PUT", &format!("{topic}/subscription/%ff"), b"", 400),
        ("GET", &format!("{TOPICS}?properties=%ff%ff"), b"", 400),
        ("GET", &format!("{topic}/stats"), b"", 404),
        ("DELETE", &format!("{topic}?force=maybe"), b"", 400),
        ("DELETE", &properties, b"", 400),
        ("POST", "/weir/v1/bindings", b"", 405),
        ("PATCH", "/metrics", b"", 405),
        ("POST", "/admin/v2/tenants", b"", 405),
        ("DELETE", "/weir/v1/extensions", b"", 405),
        ("PUT", "/weir/v1/bindings", b"{", 400),
        ("PUT", "/weir/v1/bindings", &long, 413),
        ("PUT", "/weir/v1/extensions/demo.None/config", &long, 413),
        ("PUT", &topic, &long, 413),
        ("PUT", &partitions, &long, 413),
        ("PUT", &properties, &long, 413),
        ("PUT", "/weir/v1/extensions/demo.None", b"<html>", 415),
    ];
    for (method, path, body, status) in cases {
        let answer = weir.call(method, path, body);
        assert_eq!(answer.status, status, "{method} {path}: {answer}");
        assert!(!answer.reason().is_empty(), "{method} {path} gives no reason: {answer}");
        if status == 413 {
            assert!(answer.reason().contains("2KiB (limits.admin-body)"), "{answer}");
        }
    }
    let headers = [("X-Weir-Config", "{minutes}")];
    let answer = weir.try_call("PUT", "/weir/v1/extensions/demo.None", &headers, b"").unwrap();
    assert_eq!(answer.status, 400, "{answer}");
    assert!(answer.reason().starts_with("the header X-Weir-Config is not"), "{answer}");
}
