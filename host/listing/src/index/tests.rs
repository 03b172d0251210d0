use super::*;

fn namespace() -> NamespaceName {
    NamespaceName::new("public/default").unwrap()
}

fn topic(text: &str) -> TopicName {
    TopicName::new(text).unwrap()
}

fn properties(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn index(topics: &[(&str, &[(&str, &str)])]) -> Index {
    let index = Index::default();
    for (name, pairs) in topics {
        index.put(&topic(name), None, properties(pairs));
    }
    index
}

/// The names of a set, without the domain and namespace that all have.
#[track_caller]
fn check(topics: &Arc<dyn Topics>, set: &weir_extension::TopicSet, names: &[&str]) {
    let found = topics.names(set, 0, usize::MAX);
    let found: Vec<&str> = found.iter().map(|name| name.rsplit('/').next().unwrap()).collect();
    assert_eq!(found, names);
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let index = index(&[("a", &[]), ("b", &[])]);
    let before = index.snapshot(&namespace(), Mode::All);
    assert!(index.remove(&topic("a")));
    assert!(!index.remove(&topic("a")));
    index.put(&topic("c"), None, BTreeMap::new());
    check(&before, &before.all(), &["a", "b"]);
    let after = index.snapshot(&namespace(), Mode::All);
    check(&after, &after.all(), &["b", "c"]);
}

#[test]
fn the_version_grows_with_changes_only() {
    let index = index(&[("a", &[("k", "v")])]);
    let version = index.version(&namespace());
    index.put(&topic("a"), None, properties(&[("k", "v")]));
    index.put(&topic("x/y/z"), None, BTreeMap::new());
    assert!(!index.remove(&topic("b")));
    assert_eq!(index.version(&namespace()), version);
    index.put(&topic("a"), None, properties(&[("k", "w")]));
    assert!(index.version(&namespace()) > version);
}

#[test]
fn modes_are_domains() {
    let index =
        index(&[("a", &[("k", "v")]), ("non-persistent://public/default/n", &[("k", "v")]), ("z", &[])]);
    for (mode, all, with) in [
        (Mode::Persistent, ["a", "z"].as_slice(), ["a"].as_slice()),
        (Mode::NonPersistent, &["n"], &["n"]),
        (Mode::All, &["n", "a", "z"], &["n", "a"]),
    ] {
        let topics = index.snapshot(&namespace(), mode);
        check(&topics, &topics.all(), all);
        check(&topics, &topics.with_property("k", "v"), with);
        check(&topics, &topics.matching("public/default/[an]").unwrap(), with);
    }
}

#[test]
fn namespaces_are_apart() {
    let index = index(&[("a", &[]), ("t/n/b", &[])]);
    let topics = index.snapshot(&NamespaceName::new("t/n").unwrap(), Mode::All);
    check(&topics, &topics.all(), &["b"]);
    let topics = index.snapshot(&NamespaceName::new("t/unknown").unwrap(), Mode::All);
    check(&topics, &topics.all(), &[]);
    let mut all: Vec<String> = index.topics().map(|name| name.without_domain().to_owned()).collect();
    all.sort();
    assert_eq!(all, ["public/default/a", "t/n/b"]);
}

#[test]
fn sets_combine() {
    let index = index(&[
        ("a", &[("env", "prod"), ("region", "west")]),
        ("b", &[("env", "prod"), ("region", "east")]),
        ("c", &[("env", "test")]),
        ("d", &[]),
    ]);
    let topics = index.snapshot(&namespace(), Mode::Persistent);
    let (prod, west) = (topics.with_property("env", "prod"), topics.with_property("region", "west"));
    let own = topics.named(&["persistent://public/default/c", "persistent://public/default/own"]).unwrap();
    check(&topics, &prod.intersect(&west), &["a"]);
    check(&topics, &topics.all().without(&prod), &["c", "d"]);
    check(&topics, &west.unite(&own), &["a", "c", "own"]);
    check(&topics, &own.without(&topics.all()), &["own"]);
    check(&topics, &topics.with_property("env", "none"), &[]);
    check(&topics, &topics.with_property("none", ""), &[]);
}

#[test]
fn names_come_in_pages() {
    let index = index(&[("a", &[]), ("c", &[]), ("e", &[])]);
    let topics = index.snapshot(&namespace(), Mode::Persistent);
    let local = |names: Vec<String>| -> Vec<String> {
        names.iter().map(|name| name.rsplit('/').next().unwrap().to_owned()).collect()
    };
    let all = topics.all();
    assert_eq!(local(topics.names(&all, 1, 1)), ["c"]);
    assert_eq!(local(topics.names(&all, 2, 9)), ["e"]);
    assert!(topics.names(&all, 3, 9).is_empty());
    let mixed = all.unite(&topics.named(&["persistent://public/default/b"]).unwrap());
    assert_eq!(local(topics.names(&mixed, 0, 3)), ["a", "b", "c"]);
    assert_eq!(local(topics.names(&mixed, 1, 2)), ["b", "c"]);
    assert_eq!(local(topics.names(&mixed, 3, 9)), ["e"]);
}

#[test]
fn a_lister_s_own_names_are_bounded() {
    let topics = index(&[]).snapshot(&namespace(), Mode::All);
    let long = "x".repeat(crate::MAX_OWN_NAME_BYTES + 1);
    assert!(topics.named(&[&long]).unwrap_err().contains("4097 bytes"));
    let many = vec!["x"; crate::MAX_OWN_NAMES + 1];
    assert!(topics.named(&many).unwrap_err().contains("at most 100000"));
    assert!(topics.matching("(a").unwrap_err().contains("unclosed group"));
    assert!(topics.matching("a++").unwrap_err().contains("possessive"));
}
