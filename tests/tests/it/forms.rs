//! A table of verdicts, whatever its form: messages with random verdicts, cut into random batches, poison among
//! them, get what the plain function gives each of them alone.

use std::collections::BTreeSet;

use serde_json::json;
use weir_tests::artifacts::{self, Form};
use weir_tests::pulsar::{Connection, Fields, Properties, batch_entry, kind};
use weir_tests::weir::{Home, Weir};

const CLASS: &str = "demo.Misbehaving";
const CASES: u64 = 12;

/// Fewer in a case than what makes a filter that breaks rest.
const MESSAGES: usize = 30;

/// Policies, and the counter of what each was applied to.
const POLICIES: [(&str, &str); 3] = [
    ("deliver", "filterBrokeDeliveredMsgCount"),
    ("withhold", "filterBrokeWithheldMsgCount"),
    ("discard", "filterBrokeDiscardedMsgCount"),
];

/// Xorshift: the same cases in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n as u64).unwrap()
    }
}

/// The plain function: what becomes of one message.
fn arrives(what: &str, policy: &str) -> bool {
    match what {
        "accept" => true,
        "reject" => false,
        _ => policy == "deliver",
    }
}

fn is_poison(what: &str) -> bool {
    !matches!(what, "accept" | "reject")
}

/// Reads messages until number `last` arrives; the numbers of all, in order.
fn receive(connection: &mut Connection, last: usize) -> Vec<usize> {
    let mut numbers = Vec::new();
    while !numbers.contains(&last) {
        let message = connection.read_kind(kind::MESSAGE);
        let text = String::from_utf8_lossy(&message.entry).into_owned();
        let found = text.split('#').skip(1).map(|rest| rest.split(';').next().unwrap().parse::<usize>());
        numbers.extend(found.map(Result::unwrap));
    }
    numbers
}

fn check_case(weir: &Weir, case: u64) {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ (case + 1));
    let (policy, counter) = POLICIES[dice.below(POLICIES.len())];
    let topic = format!("persistent://public/default/case-{case}");
    weir.bind(&topic, "s", CLASS, &json!({}), policy);
    // One each, so that receipts and messages do not come between each other.
    let mut producer = Connection::open(weir.pulsar);
    let mut connection = Connection::open(weir.pulsar);
    assert_eq!(producer.producer(&topic, 1, 1).kind, kind::PRODUCER_SUCCESS);
    assert_eq!(connection.subscribe(&topic, "s", 2, 2).kind, kind::SUCCESS);
    connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, 1000));

    // The first shows that the filter works, the last that all before it are judged.
    let mut table = vec!["accept"];
    let poison = ["error", "panic", "panic-with-a-value", "unknown"];
    table.extend((0..MESSAGES).map(|_| match dice.below(10) {
        0..5 => "accept",
        5..8 => "reject",
        _ => poison[dice.below(poison.len())],
    }));
    table.push("accept");
    let payloads: Vec<String> = (0..table.len()).map(|number| format!("#{number};")).collect();
    let properties: Vec<[(&str, &str); 1]> = table.iter().map(|what| [("do", *what)]).collect();
    let (mut from, mut arrived) = (0, Vec::new());
    while from < table.len() {
        let longest = if from == 0 { 1 } else { 9 };
        let to = (from + 1 + dice.below(longest)).min(table.len());
        let batch: Vec<(Properties<'_>, &[u8])> =
            (from..to).map(|at| (&properties[at][..], payloads[at].as_bytes())).collect();
        let sent = producer.publish(1, from as u64, &batch_entry("p", from as u64, &batch));
        assert_eq!(sent.kind, kind::SEND_RECEIPT, "{sent:?}");
        if from == 0 {
            arrived = receive(&mut connection, 0);
        }
        from = to;
    }
    arrived.extend(receive(&mut connection, table.len() - 1));
    let expected: Vec<usize> = (0..table.len()).filter(|number| arrives(table[*number], policy)).collect();
    assert_eq!(arrived, expected, "case {case}, {policy}: {table:?}");
    let broke = table.iter().filter(|what| is_poison(what)).count() as u64;
    let rejected = table.iter().filter(|what| **what == "reject").count() as u64;
    let stats = weir.stats(&format!("public/default/case-{case}"))["subscriptions"]["s"].clone();
    assert_eq!(stats[counter], broke, "case {case}, {policy}: {stats}");
    assert_eq!(stats["filterRejectedMsgCount"], rejected, "case {case}, {policy}: {stats}");
}

fn check(form: Form) -> Option<()> {
    let artifact = artifacts::read("misbehaving", form)?;
    let weir =
        Home::new().set("plugins.poll=100ms").set(&format!("extensions.\"{CLASS}\".deadline=60s")).start();
    match form {
        Form::Component => drop(weir.register(CLASS, &artifact).ok()),
        Form::Native => {
            weir.home().drop_file("misbehaving.so", &artifact);
            weir.wait_in_force(CLASS, &artifact);
        }
    }
    (0..CASES).for_each(|case| check_case(&weir, case));
    let kinds: BTreeSet<String> =
        weir.extension(CLASS)?["counts"]["broken-calls"].as_object()?.keys().cloned().collect();
    let kind = if form == Form::Native { "panic" } else { "trap" };
    assert!(kinds.contains(kind), "batches broke as a whole: {kinds:?}");
    Some(())
}

#[test]
fn a_component_judges_as_the_plain_function_whatever_the_batches() {
    let _skipped = check(Form::Component);
}

#[test]
fn a_library_judges_as_the_plain_function_whatever_the_batches() {
    let _skipped = check(Form::Native);
}
