//! What extensions say: followed over a real socket, bounded, and harmless to whoever reads it.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;

use serde_json::{Value, json};
use weir_tests::artifacts::{self, Form};
use weir_tests::http;
use weir_tests::pulsar::{Connection, Fields, entry, frame_with, kind};
use weir_tests::wait;
use weir_tests::weir::{Home, Weir};

const CLASS: &str = "demo.Misbehaving";
const TOPIC: &str = "persistent://public/default/said";

/// What a terminal would obey, and what would look like a line of weir's own.
const NASTY: &str = "\u{1b}[31mred\u{9b}2J\n2026-11-30T00:00:00Z ERROR forged";
const NASTY_LOGGED: &str = "\\u{1b}[31mred\\u{9b}2J\\n2026-11-30T00:00:00Z ERROR forged";

/// How many followers there may be, as weir has it.
const MAX_FOLLOWERS: usize = 16;

/// The lines of an answer that goes on.
struct Follower(BufReader<TcpStream>);

impl Follower {
    #[track_caller]
    fn new(weir: &Weir, query: &str) -> Self {
        let path = format!("/weir/v1/extensions/{CLASS}/logs?{query}");
        let mut lines = BufReader::new(http::send_head(weir.admin, "GET", &path, &[]).unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        Self(lines)
    }

    /// The next line of JSON, past heads, sizes of chunks and lines of spaces; `None` at the end.
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if line.starts_with('{') {
                return Some(serde_json::from_str(&line).unwrap());
            }
        }
    }
}

fn start(form: Form) -> Option<Weir> {
    let artifact = artifacts::read("misbehaving", form)?;
    let weir = Home::new().set("plugins.poll=100ms").start();
    match form {
        Form::Component => drop(weir.register(CLASS, &artifact).ok()),
        Form::Native => {
            weir.home().drop_file("misbehaving.so", &artifact);
            weir.wait_in_force(CLASS, &artifact);
        }
    }
    weir.bind(TOPIC, "s", CLASS, &json!({}), "deliver");
    Some(weir)
}

struct Publisher {
    connection: Connection,
    sent: u64,
}

impl Publisher {
    fn new(weir: &Weir) -> Self {
        let mut connection = Connection::open(weir.pulsar);
        assert_eq!(connection.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
        assert_eq!(connection.subscribe(TOPIC, "s", 2, 2).kind, kind::SUCCESS);
        connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, 10_000));
        Self { connection, sent: 0 }
    }

    /// Has the filter log `n` lines.
    fn log(&mut self, n: u64, text: &str) {
        for i in self.sent..self.sent + n {
            let sent = entry("p", i, &[("do", "log"), ("text", text)], b"x");
            self.connection.write(&frame_with(kind::SEND, Fields::new().int(1, 1).int(2, i), &sent));
        }
        self.sent += n;
    }
}

/// The number of log lines of the class that had this outcome.
fn lines(weir: &Weir, outcome: &str) -> u64 {
    weir.metric(&format!("weir_extension_log_lines_total{{class=\"{CLASS}\",outcome=\"{outcome}\"}}"))
}

fn check(form: Form) -> Option<()> {
    let weir = start(form)?;
    let mut follower = Follower::new(&weir, "follow=true&lines=0");
    let mut publisher = Publisher::new(&weir);
    publisher.log(1, NASTY);
    let said = follower.next()?;
    assert_eq!(said["text"], NASTY_LOGGED, "{said}");
    assert_eq!((said["class"].as_str(), said["level"].as_str()), (Some(CLASS), Some("info")), "{said}");
    assert_eq!(said["version"], weir.extension(CLASS)?["version"], "{said}");
    let shown = weir.command(&["extension", "logs", CLASS, "-n", "1"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("INFO") && shown.trim_end().ends_with(NASTY_LOGGED), "{shown:?}");
    assert_eq!(shown.chars().filter(|c| c.is_control()).count(), 1, "its line feed: {shown:?}");
    let logged = weir.log();
    let logged = logged.iter().find(|line| line.contains(NASTY_LOGGED)).expect("it is in the log too");
    assert!(logged.contains(CLASS) && logged.contains("version"), "{logged}");

    // More than it may in a second, and then nothing: how many are missing is said all the same.
    publisher.log(3000, "once more");
    let note = loop {
        let said = follower.next().expect("nobody ends it");
        match said["text"].as_str().unwrap() {
            "once more" => {}
            other => break other.to_owned(),
        }
    };
    let missing: u64 = note.split(' ').next()?.parse().expect("it begins with a number");
    assert!(note.contains("were not logged") && missing > 0, "{note}");
    wait::until("all of them to be counted", || {
        let (logged, dropped) = (lines(&weir, "logged"), lines(&weir, "dropped"));
        let notes = logged.saturating_sub(1).saturating_sub(3000 - dropped);
        if logged + dropped > 3001 && notes < 60 { Ok(()) } else { Err(format!("{logged}, {dropped}")) }
    });
    assert!(lines(&weir, "dropped") >= missing);
    Some(())
}

#[test]
fn what_a_component_logs_is_followed_and_limited() {
    let _skipped = check(Form::Component);
}

#[test]
fn what_a_library_logs_is_followed_and_limited() {
    let _skipped = check(Form::Native);
}

#[test]
fn so_many_may_follow_and_a_stop_waits_for_none() {
    let Some(weir) = start(Form::Component) else { return };
    let unknown = weir.call("GET", "/weir/v1/extensions/demo.Unknown/logs", b"");
    assert_eq!(unknown.status, 404, "{unknown}");
    assert!(unknown.reason().contains("demo.Unknown"), "{unknown}");
    let path = format!("/weir/v1/extensions/{CLASS}/logs");
    let wrong = weir.call("GET", &format!("{path}?lines=many"), b"");
    assert_eq!(wrong.status, 400, "{wrong}");

    // None of them reads.
    let mut followers: Vec<Follower> =
        (0..MAX_FOLLOWERS).map(|_| Follower::new(&weir, "follow=true")).collect();
    let one_more = weir.call("GET", &format!("{path}?follow=true"), b"");
    assert_eq!(one_more.status, 503, "{one_more}");
    assert!(one_more.reason().contains("16 others"), "{one_more}");
    assert_eq!(weir.call("GET", &path, b"").status, 200, "the last lines need no place");

    // One goes, and its place is another's: the command line's.
    drop(followers.pop());
    let following = |n: u64| {
        wait::until("so many to follow", || match weir.metric("weir_log_followers") {
            now if now == n => Ok(()),
            now => Err(now),
        });
    };
    following(15);
    let command = weir.start_command(&["extension", "logs", CLASS, "-f", "-n", "0"]);
    following(16);
    // It stays: a message is judged for a consumer that is there.
    let mut publisher = Publisher::new(&weir);
    publisher.log(1, "farewell");
    wait::until("it to be logged", || match weir.log().iter().any(|line| line.contains("farewell")) {
        true => Ok(()),
        false => Err("not yet"),
    });
    let (_home, status) = weir.stop();
    assert!(status.success(), "{status}");
    let output = command.end();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("farewell"), "{output:?}");
    for mut follower in followers {
        assert_eq!(follower.next().map(|said| said["text"].clone()), Some(json!("farewell")));
        assert_eq!(follower.next(), None, "it ends in order");
    }
}
