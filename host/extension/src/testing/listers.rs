//! Listers of both forms over one snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Bench, guest};
use crate::artifact::Limits;
use crate::filter::BrokeKind;
use crate::lister::{ListRequest, Mode, TopicLister, TopicSet, Topics};
use crate::names::NamespaceName;

/// Topics with one property each, `n`: the last letter of the name. A pattern is a plain ending here.
struct Snapshot(Vec<&'static str>);

impl Snapshot {
    fn those(&self, wanted: impl Fn(&str) -> bool) -> TopicSet {
        let ranks = self.0.iter().enumerate().filter(|(_, name)| wanted(name)).map(|(rank, _)| rank as u32);
        TopicSet::of_ranks(ranks.collect())
    }
}

impl Topics for Snapshot {
    fn all(&self) -> TopicSet {
        self.those(|_| true)
    }
    fn with_property(&self, key: &str, value: &str) -> TopicSet {
        self.those(|name| key == "n" && name.ends_with(value))
    }
    fn matching(&self, pattern: &str) -> Result<TopicSet, String> {
        if pattern == "(" {
            Err("unclosed group".into())
        } else {
            Ok(self.those(|name| name.ends_with(pattern)))
        }
    }
    fn named(&self, names: &[&str]) -> Result<TopicSet, String> {
        let mut set = self.those(|name| names.contains(&name));
        let foreign = names.iter().filter(|name| !self.0.contains(name)).map(|name| (*name).to_owned());
        set.names = Arc::new(foreign.collect());
        Ok(set)
    }
    fn names(&self, of: &TopicSet, start: usize, limit: usize) -> Vec<String> {
        of.ranks.iter().skip(start).take(limit).map(|rank| self.0[rank as usize].to_owned()).collect()
    }
}

const NAMES: [&str; 5] = [
    "persistent://a/b/a",
    "persistent://a/b/b",
    "persistent://a/b/c",
    "persistent://a/b/d",
    "persistent://a/b/e",
];

fn ask(lister: &mut dyn TopicLister, properties: &[(&str, &str)]) -> Result<String, crate::Broke> {
    let topics: Arc<dyn Topics> = Arc::new(Snapshot(NAMES.to_vec()));
    let properties: BTreeMap<String, String> =
        properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let namespace = NamespaceName::new("a/b").unwrap();
    let set = lister.answer(&ListRequest { namespace, mode: Mode::All, properties }, &topics)?;
    let letters: String = topics.names(&set, 0, 10).iter().filter_map(|name| name.chars().last()).collect();
    Ok(set.names.iter().fold(letters, |all, name| format!("{all} {name}")))
}

/// Asks both forms; each in order, of one instance.
#[track_caller]
fn check(asked: &[(&[(&str, &str)], &str)]) {
    let bench = Bench::new();
    for (form, loaded) in bench.both("any-lister") {
        assert!(loaded.configure("{}").unwrap().is_empty());
        let mut lister = loaded.lister("{}").unwrap();
        for (properties, expected) in asked {
            assert_eq!(ask(&mut *lister, properties).unwrap(), *expected, "{form}: {properties:?}");
        }
    }
}

#[test]
fn sets_are_made_and_combined() {
    check(&[
        (&[("do", "all")], "abcde"),
        (&[("do", "none")], ""),
        (&[("do", "with-property"), ("key", "n"), ("value", "c")], "c"),
        (&[("do", "matching"), ("pattern", "d")], "d"),
        (&[("do", "not-matching"), ("pattern", "d")], "abce"),
        (&[("do", "named"), ("names", "persistent://a/b/b persistent://x/y/z")], "b persistent://x/y/z"),
        (&[("do", "named-or-matching"), ("names", "persistent://a/b/b"), ("pattern", "e")], "be"),
        (&[("do", "every-other")], "ace"),
    ]);
}

#[test]
fn each_way_to_break_is_told_apart() {
    let bench = Bench::new();
    for (form, loaded) in bench.both("any-lister") {
        let broke = |properties: &[(&str, &str)]| {
            let mut lister = loaded.lister("{}").unwrap();
            let broke = ask(&mut *lister, properties).unwrap_err();
            (broke.kind, broke.reason)
        };
        let (kind, reason) = broke(&[("do", "error")]);
        assert_eq!(
            (kind, reason.contains("told to return an error")),
            (BrokeKind::Error, true),
            "{form}: {reason}"
        );
        let (kind, reason) = broke(&[("do", "matching"), ("pattern", "(")]);
        assert_eq!((kind, reason.contains("unclosed group")), (BrokeKind::Error, true), "{form}: {reason}");
        let (kind, reason) = broke(&[("do", "panic")]);
        let expected = if form == "native" { BrokeKind::Panic } else { BrokeKind::Trap };
        assert_eq!((kind, reason.contains("told to panic")), (expected, true), "{form}: {reason}");
        let (kind, reason) = broke(&[("do", "hoard")]);
        assert!(kind != BrokeKind::Deadline, "{form}: {reason}");
    }
    let patient = Limits { deadline: std::time::Duration::from_secs(60), ..Limits::default() };
    let hoarder = bench.component(&guest("any-lister.wasm"), patient).unwrap();
    let broke = ask(&mut *hoarder.lister("{}").unwrap(), &[("do", "hoard-names")]).unwrap_err();
    assert_eq!(broke.kind, BrokeKind::Memory, "{broke}");
    assert!(broke.reason.contains("topic sets that it holds take more than 67108864 bytes"), "{broke}");
    let impatient = bench.component(&guest("any-lister.wasm"), Limits::default()).unwrap();
    let broke = ask(&mut *impatient.lister("{}").unwrap(), &[("do", "loop")]).unwrap_err();
    assert_eq!(broke.kind, BrokeKind::Deadline);
}
