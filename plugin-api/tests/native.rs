//! The library's side of the native contract, called as the host calls it.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which panic as tests do")]
#![cfg(not(target_family = "wasm"))]

use std::cell::RefCell;
use std::time::Duration;

use weir_plugin_api::native::{self, Batch, Failure, Payloads, Slot, TopicSets, v1_0};
use weir_plugin_api::private::abi_stable::sabi_trait::TD_Opaque;
use weir_plugin_api::private::abi_stable::sabi_types::RRef;
use weir_plugin_api::private::abi_stable::std_types::{RResult, RSlice, RSliceMut, RStr, RString, RVec};
use weir_plugin_api::{
    Config, Error, Field, Fields, Message, MessageFilter, Request, Set, TopicLister, Topics, Verdict,
};

/// Does what the property `do` says.
#[derive(Config)]
struct Told {
    #[config(default)]
    property: String,
    #[config(default)]
    panic_in_drop: bool,
}

impl MessageFilter for Told {
    type Config = Self;
    const CLASS: &'static str = "test.Told";
    const READS: Fields = Fields::property("do").and(Field::EventTime).and(Field::Payload);

    fn new(config: Self) -> Result<Self, Error> {
        match config.property.as_str() {
            "error" => Err(Error::new("refused")),
            "panic" => panic!("in new"),
            _ => Ok(config),
        }
    }

    fn reads(&self) -> Fields {
        if self.property.is_empty() {
            Self::READS
        } else {
            Self::READS.and_configured(self.property.as_str())
        }
    }

    fn judge(&mut self, message: &Message<'_>) -> Result<Verdict, Error> {
        match message.property("do") {
            None => Ok(Verdict::Accept),
            Some("late") => Ok(Verdict::accept_if(message.event_time().is_some_and(|time| time > 5))),
            Some("payload") => Ok(Verdict::accept_if(&*message.payload()? == b"yes")),
            Some("configured") => Ok(Verdict::accept_if(message.property(&self.property) == Some("x"))),
            Some("undeclared") => Ok(Verdict::accept_if(message.key().is_some())),
            Some("later") => Ok(Verdict::Reschedule(Duration::from_millis(1500))),
            Some("never") => Ok(Verdict::Reschedule(Duration::MAX)),
            Some("panic") => panic!("in judge"),
            Some(_) => Err(Error::new("what?")),
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        assert!(!self.panic_in_drop, "in drop");
    }
}

/// Every payload is `yes`, but for row 1, which has none to give.
struct Held;

impl Payloads for Held {
    fn payload(&self, row: u32) -> RResult<RSlice<'_, u8>, RString> {
        if row == 1 { RResult::RErr("it is gone".into()) } else { RResult::ROk(RSlice::from_slice(b"yes")) }
    }
}

fn made(config: &str) -> Result<native::FilterBox, Failure> {
    native::constructed();
    native::filter::<Told>(config.into()).into_result()
}

/// Judges one row of two columns that are not the filter's: its `do` stands second.
#[track_caller]
fn check(told: &str, event_time: Option<i64>, expected: u64) {
    let slots = [
        [Slot::text("of another filter"), Slot::text("reject"), Slot::MISSING, Slot::MISSING],
        [
            Slot::text("of another filter"),
            Slot::text(told),
            event_time.map_or(Slot::MISSING, Slot::number),
            Slot::MISSING,
        ],
        [
            Slot::MISSING,
            Slot::text(told),
            event_time.map_or(Slot::MISSING, Slot::number),
            Slot::bytes(b"yes"),
        ],
    ];
    let mut verdicts = [u64::MAX; 1];
    let batch = Batch::new(slots.as_flattened(), 4, &[1, 2, 3], &[2], &Held);
    let panicked = made("{}").unwrap().judge(batch, RSliceMut::from_mut_slice(&mut verdicts));
    assert_eq!(panicked.into_option(), None);
    assert_eq!(verdicts, [expected]);
}

#[test]
fn a_verdict_is_a_word() {
    check("late", Some(6), 0);
    check("late", Some(5), 1);
    check("late", None, 1);
    check("later", None, 2 | 1500 << 32);
    check("never", None, 2 | u64::from(u32::MAX) << 32);
    check("?", None, 3);
    check("payload", None, 0);
}

#[test]
fn only_the_rows_asked_for_are_judged_in_their_order() {
    let slots = [[Slot::text("later")], [Slot::MISSING], [Slot::text("?")]];
    let mut verdicts = [9; 2];
    let batch = Batch::new(slots.as_flattened(), 1, &[0, 0, 0], &[1, 2], &Held);
    assert!(made("{}").unwrap().judge(batch, RSliceMut::from_mut_slice(&mut verdicts)).is_none());
    assert_eq!(verdicts, [0, 3]);
}

#[test]
fn a_payload_that_is_not_in_the_view_is_asked_for() {
    let slots = [Slot::text("payload"), Slot::MISSING].repeat(3);
    let mut verdicts = [9; 2];
    let batch = Batch::new(&slots, 2, &[0, 1, 1], &[1, 2], &Held);
    assert!(made("{}").unwrap().judge(batch, RSliceMut::from_mut_slice(&mut verdicts)).is_none());
    assert_eq!(verdicts, [3, 0], "row 1 has no payload to give");
}

#[test]
fn a_property_that_the_configuration_names_is_read() {
    let mut filter = made(r#"{"property": "p"}"#).unwrap();
    let reads = r#"[{"property":"do"},{"field":"event-time"},{"field":"payload"},{"property":"p"}]"#;
    assert_eq!(filter.reads(), reads);
    let slots = [Slot::text("configured"), Slot::MISSING, Slot::MISSING, Slot::text("x")];
    let mut verdicts = [9];
    let batch = Batch::new(&slots, 4, &[0, 1, 2, 3], &[0], &Held);
    assert!(filter.judge(batch, RSliceMut::from_mut_slice(&mut verdicts)).is_none());
    assert_eq!(verdicts, [0]);
}

#[test]
fn a_panic_is_caught_with_its_text_and_place() {
    for (told, says) in [("panic", "in judge"), ("undeclared", "Field::Key is not among the fields")] {
        let slots = [Slot::text(told)];
        let batch = Batch::new(&slots, 1, &[0, 0, 0], &[0], &Held);
        let panicked = made("{}").unwrap().judge(batch, RSliceMut::from_mut_slice(&mut [0]));
        let text = panicked.into_option().unwrap();
        assert!(text.contains(says) && text.contains(".rs:"), "{text}");
    }
}

#[test]
fn a_configuration_can_be_refused_and_broken() {
    let error = |config| made(config).map(drop).unwrap_err();
    assert_eq!(error(r#"{"property": "error"}"#), Failure::Error("refused".into()));
    assert!(matches!(error("{"), Failure::Error(text) if text.contains("EOF")));
    assert!(matches!(error(r#"{"property": "panic"}"#), Failure::Panic(text) if text.contains("in new")));
}

#[test]
fn a_panic_in_drop_stays_inside() {
    drop(made(r#"{"panic_in_drop": true}"#).unwrap());
}

#[test]
#[should_panic(expected = "not among the 3 of the batch")]
fn a_row_that_is_not_there_is_the_hosts_fault() {
    Batch::new(&[Slot::MISSING; 6], 2, &[0], &[0, 3], &Held);
}

#[test]
fn a_library_says_what_it_is() {
    let text = native::describe_filter::<Told>("0.3.0", "1.0");
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read["class"], "test.Told");
    assert_eq!(read["kinds"], serde_json::json!(["filter"]));
    assert_eq!((&read["version"], &read["contract"]), (&"0.3.0".into(), &"1.0".into()));
    assert_eq!(read["schema"]["properties"]["property"]["type"], "string");
    assert!(native::no_lister("{}".into()).is_err());
}

/// Sees what has `key=value`, but for the topics of its own.
struct Seen;

impl TopicLister for Seen {
    type Config = ();
    const CLASS: &'static str = "test.Seen";

    fn new((): ()) -> Result<Self, Error> {
        Ok(Self)
    }

    fn answer<'t>(&mut self, request: &Request, topics: &Topics<'t>) -> Result<Set<'t>, Error> {
        let key = request.properties.get("key").ok_or_else(|| Error::new("no key"))?;
        if key == "panic" {
            panic!("in answer");
        }
        let own = topics.named(&["persistent://a/b/x", "persistent://a/b/y"])?;
        assert_eq!(own.names(0, 10), ["persistent://a/b/x", "persistent://a/b/y"]);
        topics.with_property(key, "value").without(&own)
    }
}

/// Hands out handles and notes what was done.
#[derive(Default)]
struct Noted(RefCell<Vec<String>>);

impl Noted {
    fn note(&self, what: String) -> u32 {
        let mut notes = self.0.borrow_mut();
        notes.push(what);
        u32::try_from(notes.len()).unwrap()
    }
}

impl TopicSets for Noted {
    fn all(&self) -> u32 {
        self.note("all".into())
    }
    fn with_property(&self, key: RStr<'_>, value: RStr<'_>) -> u32 {
        self.note(format!("{key}={value}"))
    }
    fn matching(&self, pattern: RStr<'_>) -> RResult<u32, RString> {
        RResult::ROk(self.note(format!("matching {pattern}")))
    }
    fn named(&self, names: RStr<'_>) -> RResult<u32, RString> {
        RResult::ROk(self.note(format!("named {names:?}")))
    }
    fn names(&self, of: u32, _start: u32, _limit: u32) -> RVec<u8> {
        self.note(format!("names of {of}"));
        RVec::from(&b"persistent://a/b/x\npersistent://a/b/y"[..])
    }
    fn intersect(&self, one: u32, other: u32) -> RResult<u32, RString> {
        RResult::ROk(self.note(format!("{one} and {other}")))
    }
    fn unite(&self, one: u32, other: u32) -> RResult<u32, RString> {
        RResult::ROk(self.note(format!("{one} or {other}")))
    }
    fn without(&self, one: u32, other: u32) -> RResult<u32, RString> {
        RResult::ROk(self.note(format!("{one} minus {other}")))
    }
    fn forget(&self, set: u32) {
        self.note(format!("forget {set}"));
    }
}

fn answer(key: &str, noted: &Noted) -> Result<u32, Failure> {
    native::constructed();
    let request = format!(r#"{{"namespace":"a/b","mode":"ALL","properties":{{"key":"{key}"}},"later":1}}"#);
    let topics = v1_0::TopicSets_TO::from_ptr(RRef::new(noted), TD_Opaque);
    let mut lister = native::lister::<Seen>("{}".into()).unwrap();
    lister.answer(request.as_str().into(), topics).into_result()
}

#[test]
fn a_lister_answers_with_a_set_and_lets_go_of_the_others() {
    let noted = Noted::default();
    assert_eq!(answer("team", &noted), Ok(4));
    let expected = [
        r#"named "persistent://a/b/x\npersistent://a/b/y""#,
        "names of 1",
        "team=value",
        "3 minus 1",
        "forget 3",
        "forget 1",
    ];
    assert_eq!(*noted.0.borrow(), expected);
}

#[test]
fn a_lister_that_panics_is_caught() {
    let failure = answer("panic", &Noted::default()).unwrap_err();
    assert!(matches!(failure, Failure::Panic(text) if text.contains("in answer")));
}
