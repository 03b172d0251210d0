//! Addresses that others can reach: who may register, where clients are sent, and peers that dawdle.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use weir_tests::artifacts::{self, Form};
use weir_tests::http;
use weir_tests::pulsar::{Connection, Fields, entry, frame_with, kind};
use weir_tests::wait::{self, PATIENCE};
use weir_tests::weir::Home;

const CLASS: &str = "demo.Swap";
const TOPIC: &str = "persistent://public/default/network";

#[test]
fn registering_from_elsewhere_needs_the_token() {
    let Some(component) = artifacts::read("odd", Form::Component) else { return };
    let weir = Home::new().set("listen.admin=0.0.0.0:0").start();
    let token = std::fs::read_to_string(weir.home().data().join("token")).unwrap();
    let token = token.trim();
    let class = format!("/weir/v1/extensions/{CLASS}");
    let config = format!("{class}/config");
    let binding = json!({ "topic": TOPIC, "subscription": "s", "filters": [CLASS] }).to_string();
    let unbind = format!("/weir/v1/bindings?topic={TOPIC}&subscription=s");
    let changes: [(&str, &str, &[u8]); 6] = [
        ("PUT", &class, &component),
        ("DELETE", &class, b""),
        ("PUT", &config, b"{}"),
        ("DELETE", &config, b""),
        ("PUT", "/weir/v1/bindings", binding.as_bytes()),
        ("DELETE", &unbind, b""),
    ];
    let wrong = format!("Bearer {}", "0".repeat(token.len()));
    let json_type = ("Content-Type", "application/json");
    for (method, path, body) in changes {
        for headers in [&[json_type][..], &[json_type, ("Authorization", &wrong)]] {
            let answer = weir.try_call(method, path, headers, body).unwrap();
            assert_eq!(answer.status, 401, "{method} {path} with {headers:?}: {answer}");
            assert!(answer.reason().contains("token"), "{answer}");
        }
    }
    assert_eq!(weir.get("/weir/v1/bindings"), json!([]), "reading needs none, and nothing was changed");
    assert_eq!(weir.in_force(CLASS), None);

    let right = format!("Bearer {token}");
    let answer = weir.try_call("PUT", &class, &[("Authorization", &right)], &component).unwrap();
    assert_eq!(answer.status, 201, "{answer}");
    let bind = ["filter", "bind", "--topic", TOPIC, "--subscription", "s", CLASS];
    let refused = weir.command(&bind);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("WEIR_TOKEN"), "{refused:?}");
    let bound = weir.command(&[&bind[..], &["--token", token]].concat());
    assert_eq!(bound.status.code(), Some(0), "{bound:?}");
    assert_eq!(weir.get("/weir/v1/bindings").as_array().map(Vec::len), Some(1));

    // The next start has the same one.
    let weir = weir.kill().start();
    let answer = weir.try_call("PUT", &class, &[("Authorization", &right)], &component).unwrap();
    assert_eq!((answer.status, answer.json()["unchanged"].as_bool()), (200, Some(true)), "{answer}");
}

#[test]
fn lookups_send_clients_to_the_advertised_address() {
    let weir = Home::new().set("listen.advertised=weir.example:7650").start();
    let mut connection = Connection::open(weir.pulsar);
    connection.send(kind::LOOKUP, Fields::new().bytes(1, TOPIC).int(2, 1));
    assert_eq!(connection.read().body.text(1), "pulsar://weir.example:7650");
    let looked_up = weir.get("/lookup/v2/topic/persistent/public/default/network");
    assert_eq!(looked_up["brokerUrl"], "pulsar://weir.example:7650");
}

#[test]
fn admin_peers_that_dawdle_make_room_for_others() {
    let weir = Home::new().set("limits.admin-connections=3").set("limits.admin-idle=1s").start();
    let open = || {
        let stream = TcpStream::connect(weir.admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    // One says nothing, one stops within its head, one within its body: all there may be.
    let (silent, mut head) = (open(), open());
    head.write_all(b"GET /weir/v1/re").unwrap();
    let body = http::send_head(weir.admin, "PUT", "/weir/v1/bindings", &[("Content-Length", "100")]).unwrap();
    let answer = weir.try_call("GET", "/weir/v1/ready", &[], b"").unwrap();
    assert_eq!(answer.status, 200, "{answer}");
    for mut stream in [silent, head, body] {
        let mut said = Vec::new();
        let ended = stream.read_to_end(&mut said);
        assert!(!said.starts_with(b"HTTP/1.1 2"), "{ended:?} {}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn a_consumer_that_does_not_read_holds_up_no_stop() {
    let weir = Home::new().set("limits.drain-timeout=4s").start();
    let mut connection = Connection::open(weir.pulsar);
    assert_eq!(connection.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
    let payload = vec![7; 1 << 20];
    for i in 0..40 {
        assert_eq!(connection.publish(1, i, &entry("p", i, &[], &payload)).kind, kind::SEND_RECEIPT);
    }
    let mut deaf = Connection::open(weir.pulsar);
    assert_eq!(deaf.subscribe(TOPIC, "deaf", 2, 2).kind, kind::SUCCESS);
    deaf.send(kind::FLOW, Fields::new().int(1, 2).int(2, 1000));
    // It acknowledges the first of them, and reads no further.
    let first = deaf.read_kind(kind::MESSAGE);
    let id = first.body.message(2).unwrap();
    let id = Fields::new().int(1, id.int(1).unwrap()).int(2, id.int(2).unwrap()).done();
    deaf.write(&frame_with(kind::ACK, Fields::new().int(1, 2).int(2, 0).bytes(3, id), &[]));
    // An acknowledgement has no answer: a stop that came before it was read would not have to keep it.
    wait::until("the acknowledgement to arrive", || match weir.backlog("public/default/network", "deaf") {
        39 => Ok(()),
        backlog => Err(backlog),
    });
    let log = weir.log_so_far();
    let (home, status) = weir.stop();
    assert!(status.success(), "{status}");
    // Everything else was ended in order: the last word is not that there was no time for it.
    wait::until("the end to be logged", || {
        let log = log.lock();
        if log.iter().any(|line| line.contains("stopped")) { Ok(()) } else { Err(log.join("\n")) }
    });
    let weir = home.start();
    assert_eq!(weir.backlog("public/default/network", "deaf"), 39, "its cursor was written");
}
