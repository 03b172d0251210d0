//! An extension that breaks: the policy decides about the message that breaks it, and about no other; one
//! that is missing pauses its subscription and loses nothing.

use serde_json::{Value, json};
use weir_tests::artifacts::{self, Form};
use weir_tests::pulsar::{Connection, Fields, entry, frame_with, kind, sealed_entry};
use weir_tests::wait;
use weir_tests::weir::{Home, Weir};

const CLASS: &str = "demo.Misbehaving";
const TOPIC: &str = "persistent://public/default/failing";
const SHORT: &str = "public/default/failing";
const MESSAGES: usize = 24;

/// What the messages tell the filter to do, by their number; all others are accepted.
const OFFENDERS: [(usize, &str); 7] = [
    (3, "error"),
    (6, "sleep"),
    (9, "panic"),
    (12, "grow"),
    (14, "loop"),
    (17, "recurse"),
    (20, "print-for-ever"),
];

struct Client {
    connection: Connection,
    sent: u64,
}

impl Client {
    fn new(weir: &Weir) -> Self {
        let mut connection = Connection::open(weir.pulsar);
        assert_eq!(connection.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
        assert_eq!(connection.subscribe(TOPIC, "s", 2, 2).kind, kind::SUCCESS);
        connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, 1000));
        Self { connection, sent: 0 }
    }

    fn publish(&mut self, what: &str) {
        let sent = entry("p", self.sent, &[("do", what)], format!("#{}", self.sent).as_bytes());
        self.connection.write(&frame_with(kind::SEND, Fields::new().int(1, 1).int(2, self.sent), &sent));
        self.sent += 1;
    }

    /// The numbers of the next messages, each acknowledged.
    fn receive(&mut self, count: usize) -> Vec<usize> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            let message = self.connection.read_kind(kind::MESSAGE);
            let text = String::from_utf8_lossy(&message.entry).into_owned();
            numbers.push(text.rsplit('#').next().and_then(|number| number.parse().ok()).unwrap());
            let id = message.body.message(2).expect("a message has a position");
            let id = Fields::new().int(1, id.int(1).unwrap()).int(2, id.int(2).unwrap()).done();
            self.connection.send(kind::ACK, Fields::new().int(1, 2).int(2, 0).bytes(3, id));
        }
        numbers
    }
}

fn start() -> Option<Weir> {
    let filter = artifacts::read("misbehaving", Form::Component)?;
    let weir = Home::new().start();
    let _ = weir.register(CLASS, &filter).ok();
    Some(weir)
}

/// Publishes with offenders among the messages and checks how many arrive, what is left, and what is said.
fn check_policy(policy: &str, offenders_arrive: bool, left: u64, counter: &str) -> Option<()> {
    let weir = start()?;
    weir.bind(TOPIC, "s", CLASS, &json!({}), policy);
    let mut client = Client::new(&weir);
    for number in 0..MESSAGES {
        let what =
            OFFENDERS.iter().find(|(offender, _)| *offender == number).map_or("accept", |(_, what)| what);
        client.publish(what);
    }
    let is_offender = |number: &usize| OFFENDERS.iter().any(|(offender, _)| offender == number);
    let expected: Vec<usize> =
        (0..MESSAGES).filter(|number| offenders_arrive || !is_offender(number)).collect();
    assert_eq!(client.receive(expected.len()), expected, "{policy}: the others arrive in order");
    wait::until("the backlog to follow", || match weir.backlog(SHORT, "s") {
        backlog if backlog == left => Ok(()),
        backlog => Err(backlog),
    });
    let stats = weir.stats(SHORT);
    let subscription = &stats["subscriptions"]["s"];
    assert_eq!(subscription[counter].as_u64(), Some(OFFENDERS.len() as u64), "{policy}: {subscription}");
    let log = weir.log();
    for (number, _) in OFFENDERS {
        let named = [TOPIC, &format!(" entry={number} index=0 "), policy, CLASS];
        let names = |line: &&String| {
            line.contains("a message broke a filter") && named.iter().all(|part| line.contains(part))
        };
        assert!(log.iter().any(|line| names(&line)), "{number} is not named in {log:#?}");
    }
    // It has done no harm: the next one is judged as before.
    client.publish("accept");
    assert_eq!(client.receive(1), [MESSAGES]);
    Some(())
}

#[test]
fn deliver_lets_through_what_breaks_the_filter() {
    let _skipped = check_policy("deliver", true, 0, "filterBrokeDeliveredMsgCount");
}

#[test]
fn withhold_keeps_what_breaks_the_filter() {
    let _skipped = check_policy("withhold", false, OFFENDERS.len() as u64, "filterBrokeWithheldMsgCount");
}

#[test]
fn discard_acknowledges_what_breaks_the_filter() {
    let _skipped = check_policy("discard", false, 0, "filterBrokeDiscardedMsgCount");
}

#[test]
fn a_message_that_is_withheld_counts_once_and_says_why() {
    let Some(weir) = start() else { return };
    weir.bind(TOPIC, "s", CLASS, &json!({}), "withhold");
    let mut client = Client::new(&weir);
    client.publish("error");
    client.publish("accept");
    assert_eq!(client.receive(1), [1]);
    let tried_again = wait::until("it to be tried again", || {
        let stats = weir.stats(SHORT)["subscriptions"]["s"].clone();
        if stats["filterWithheldAttemptCount"].as_u64() >= Some(2) { Ok(stats) } else { Err(stats) }
    });
    assert_eq!(tried_again["filterBrokeWithheldMsgCount"], 1, "{tried_again}");
    assert_eq!(tried_again["withheldMsgNow"], 1, "{tried_again}");
    let why = tried_again["filterLastFailure"].as_str().unwrap();
    assert!(why.contains(CLASS) && why.contains("told to"), "in the filter's own words: {why}");
    let table = weir.command(&["topic", "stats", TOPIC]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("WITHHELD"), "{table}");
}

#[test]
fn an_encrypted_backlog_is_not_discarded() {
    let Some(weir) = start() else { return };
    weir.bind(TOPIC, "s", CLASS, &json!({}), "discard");
    let mut client = Client::new(&weir);
    client.publish("accept");
    for number in 1..=3 {
        let sealed = sealed_entry("p", number, format!("#{number}").as_bytes());
        let send = Fields::new().int(1, 1).int(2, number);
        client.connection.write(&frame_with(kind::SEND, send, &sealed));
        client.sent += 1;
    }
    client.publish("accept");
    assert_eq!(client.receive(2), [0, 4], "those that can be read");
    let stats = wait::until("the others to be withheld", || {
        let stats = weir.stats(SHORT)["subscriptions"]["s"].clone();
        if stats["withheldMsgNow"] == 3 { Ok(stats) } else { Err(stats) }
    });
    assert_eq!(stats["filterBrokeDiscardedMsgCount"], 0, "{stats}");
    assert!(stats["filterLastFailure"].as_str().unwrap().contains("encrypted"), "{stats}");
    // A client that has the key gets them, once they are not to be filtered.
    weir.bind(TOPIC, "s", CLASS, &json!({}), "deliver");
    assert_eq!(client.receive(3), [1, 2, 3]);
}

#[test]
fn a_filter_that_is_gone_pauses_its_subscription_and_loses_nothing() {
    let Some(weir) = start() else { return };
    let filter = artifacts::read("misbehaving", Form::Component).unwrap();
    weir.bind(TOPIC, "s", CLASS, &json!({}), "withhold");
    let path = format!("/weir/v1/extensions/{CLASS}");
    assert_eq!(weir.call("DELETE", &path, b"").status, 409, "it is bound");
    let _ = weir.call("DELETE", &format!("{path}?force=true"), b"").ok();
    let mut client = Client::new(&weir);
    for _ in 0..5 {
        client.publish("accept");
    }
    let paused = wait::until("the subscription to pause", || {
        let stats = weir.stats(SHORT);
        match &stats["subscriptions"]["s"]["paused"] {
            Value::Null => Err(stats.to_string()),
            paused => Ok(paused.clone()),
        }
    });
    assert!(paused.to_string().contains(CLASS), "it says which class: {paused}");
    assert_eq!(weir.backlog(SHORT, "s"), 5, "nothing is acknowledged meanwhile");
    let _ = weir.register(CLASS, &filter).ok();
    assert_eq!(client.receive(5), [0, 1, 2, 3, 4]);
}
