//! What one peer can make weir hold: a client that gives permits and does not read.

use std::collections::BTreeMap;

use weir_tests::pulsar::{Connection, Fields, entry, kind};
use weir_tests::wait;
use weir_tests::weir::{Home, Weir};

const TOPIC: &str = "persistent://public/default/memory";

/// Subscriptions of the peer that does not read.
const SUBSCRIPTIONS: u64 = 32;
const ENTRIES: u64 = 64;
const ENTRY_BYTES: usize = 256 << 10;
/// `limits.pending-deliveries` of the test.
const BOUND: u64 = 8 << 20;
/// What the two sockets between weir and the peer may hold.
const SOCKETS: u64 = 12 << 20;

/// Bytes of entries that weir has taken from the disk for the peer that does not read, and that are not
/// acknowledged: in its queues, or written to the socket.
fn out(weir: &Weir) -> u64 {
    let stats = weir.stats("public/default/memory");
    let subscriptions = stats["subscriptions"].as_object().unwrap();
    let deaf = subscriptions.iter().filter(|(name, _)| name.starts_with("deaf"));
    deaf.map(|(_, one)| one["unackedMessages"].as_u64().unwrap()).sum::<u64>() * ENTRY_BYTES as u64
}

/// Bytes of entries in memory on their way to consumers.
fn delivering(weir: &Weir) -> u64 {
    weir.metric("weir_delivering_bytes")
}

fn subscribe(connection: &mut Connection, subscription: &str, consumer: u64) {
    assert_eq!(connection.subscribe(TOPIC, subscription, consumer, consumer).kind, kind::SUCCESS);
}

fn flow(connection: &mut Connection, consumer: u64) {
    connection.send(kind::FLOW, Fields::new().int(1, consumer).int(2, 100_000));
}

#[test]
fn a_peer_that_does_not_read_holds_a_bounded_amount() {
    let weir = Home::new()
        .set("limits.max-message-size=1MiB")
        .set(&format!("limits.pending-deliveries={BOUND}"))
        .start();
    let mut writer = Connection::open(weir.pulsar);
    assert_eq!(writer.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
    let payload = vec![7; ENTRY_BYTES];
    for i in 0..ENTRIES {
        assert_eq!(writer.publish(1, i, &entry("p", i, &[], &payload)).kind, kind::SEND_RECEIPT);
    }
    let mut deaf = Connection::open(weir.pulsar);
    for consumer in 1..=SUBSCRIPTIONS {
        subscribe(&mut deaf, &format!("deaf-{consumer}"), consumer);
    }
    (1..=SUBSCRIPTIONS).for_each(|consumer| flow(&mut deaf, consumer));
    wait::until("the connection's room to be taken", || match delivering(&weir) {
        held if held > BOUND - (2 << 20) => Ok(()),
        held => Err(held),
    });

    // Somebody else is served meanwhile, from the first entry to the last, and more than once.
    for round in 0..4 {
        let mut other = Connection::open(weir.pulsar);
        subscribe(&mut other, &format!("other-{round}"), 1);
        flow(&mut other, 1);
        for _ in 0..ENTRIES {
            assert_eq!(other.read_kind(kind::MESSAGE).entry.len(), entry("p", 0, &[], &payload).len());
            assert!(delivering(&weir) <= 2 * BOUND);
        }
    }
    wait::until("the others' bytes to be given back", || match delivering(&weir) {
        held if held <= BOUND => Ok(()),
        held => Err(held),
    });
    let out = out(&weir);
    assert!(out < BOUND + SOCKETS, "a peer that does not read was sent {} MiB", out >> 20);

    // It reads after all: everything comes, to each of its consumers in order.
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for _ in 0..SUBSCRIPTIONS * ENTRIES {
        let message = deaf.read_kind(kind::MESSAGE);
        let (consumer, id) = (message.body.int(1).unwrap(), message.body.message(2).unwrap());
        let expected = next.entry(consumer).or_insert(0);
        assert_eq!(id.int(2), Some(*expected), "for consumer {consumer}");
        *expected += 1;
    }
    assert_eq!(next.len() as u64, SUBSCRIPTIONS);
    wait::until("all bytes to be given back", || match delivering(&weir) {
        0 => Ok(()),
        held => Err(held),
    });
}
