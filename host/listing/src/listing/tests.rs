use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender};
use serde_json::json;
use weir_extension::{
    BrokeKind, Builtin, Mode, NamespaceName, TopicLister, TopicName, TopicSet, Topics, Unavailable,
};

use super::*;
use crate::hash::topic_list_hash;
use crate::property_equality;

type Answering = dyn Fn(&ListRequest, &Arc<dyn Topics>) -> Result<TopicSet, Broke> + Send + Sync;

/// A lister that does what a test says.
struct Scripted(Arc<Answering>);

impl TopicLister for Scripted {
    fn answer(&mut self, request: &ListRequest, topics: &Arc<dyn Topics>) -> Result<TopicSet, Broke> {
        (self.0)(request, topics)
    }
}

fn scripted_class() -> ClassName {
    ClassName::new("test.Scripted").unwrap()
}

fn scripted(
    answer: impl Fn(&ListRequest, &Arc<dyn Topics>) -> Result<TopicSet, Broke> + Send + Sync + 'static,
) -> Builtin {
    let answer: Arc<Answering> = Arc::new(answer);
    Builtin::lister(scripted_class(), move |_| Ok(Box::new(Scripted(Arc::clone(&answer)))))
}

fn put(index: &Index, name: &str, partitions: Option<u32>, pairs: &[(&str, &str)]) {
    index.put(&TopicName::new(name).unwrap(), partitions, properties(pairs));
}

fn properties(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A listing by the built-in lister.
fn listing(config: Config) -> Listing {
    Listing::new(Extensions::with_builtins(vec![property_equality()]), Arc::default(), config)
}

/// A listing by a lister of the test's.
fn listing_by(
    answer: impl Fn(&ListRequest, &Arc<dyn Topics>) -> Result<TopicSet, Broke> + Send + Sync + 'static,
) -> Listing {
    listing_with(Config::default(), answer)
}

fn listing_with(
    config: Config,
    answer: impl Fn(&ListRequest, &Arc<dyn Topics>) -> Result<TopicSet, Broke> + Send + Sync + 'static,
) -> Listing {
    let config = Config { class: scripted_class(), ..config };
    Listing::new(Extensions::with_builtins(vec![scripted(answer)]), Arc::default(), config)
}

fn query(mode: Mode, pairs: &[(&str, &str)]) -> Query {
    let namespace = NamespaceName::new("public/default").unwrap();
    Query {
        request: ListRequest { namespace, mode, properties: properties(pairs) },
        pattern: None,
        hash: None,
    }
}

fn with_pattern(pattern: &str) -> Query {
    Query { pattern: Some(pattern.to_owned()), ..query(Mode::Persistent, &[]) }
}

/// Lists, and gives back the local names.
async fn local(listing: &Listing, query: Query) -> Vec<String> {
    let answer = listing.list(query).await.unwrap();
    assert_eq!(answer.hash, topic_list_hash(&answer.topics));
    answer.topics.iter().map(|name| TopicName::new(name).unwrap().local().to_owned()).collect()
}

#[tokio::test]
async fn all_properties_must_be_equal() {
    // B01
    let listing = listing(Config::default());
    let index = listing.index();
    put(index, "A", None, &[("env", "prod"), ("region", "west")]);
    put(index, "B", None, &[("env", "prod"), ("region", "east")]);
    put(index, "C", None, &[("env", "test")]);
    put(index, "D", None, &[("odd", "a=b,c")]);
    put(index, "P", Some(3), &[("env", "prod"), ("region", "west")]);
    let partitions = ["P-partition-0", "P-partition-1", "P-partition-2"];
    let west = local(&listing, query(Mode::Persistent, &[("env", "prod"), ("region", "west")])).await;
    assert_eq!(west, [&["A"], &partitions[..]].concat());
    let all = local(&listing, query(Mode::Persistent, &[])).await;
    assert_eq!(all, [&["A", "B", "C", "D"], &partitions[..]].concat());
    assert_eq!(local(&listing, query(Mode::Persistent, &[("odd", "a=b,c")])).await, ["D"]);
    assert!(local(&listing, query(Mode::Persistent, &[("odd", "a=b")])).await.is_empty());
    assert!(local(&listing, query(Mode::NonPersistent, &[])).await.is_empty());
}

#[tokio::test]
async fn pulsar_s_end_to_end_test_has_seven_names() {
    let listing = listing(Config::default());
    let prod = [("env", "prod"), ("region", "us-west")];
    put(listing.index(), "test-topic", Some(3), &prod);
    put(listing.index(), "test-topic2", Some(3), &prod);
    put(listing.index(), "test-topic3-non-partitioned", None, &prod);
    put(listing.index(), "test-topic4", Some(3), &[("env", "test")]);
    let answer = listing.list(query(Mode::Persistent, &prod)).await.unwrap();
    assert_eq!((answer.topics.len(), answer.filtered, answer.changed), (7, false, true));
    let pattern = Some("persistent://public/default/.*".to_owned());
    let filtered = listing.list(Query { pattern, ..query(Mode::Persistent, &prod) }).await.unwrap();
    assert_eq!(filtered, Answer { filtered: true, ..answer });
}

#[tokio::test]
async fn flags_and_hashes_follow_the_table() {
    let listing = listing(Config::default());
    for name in ["orders", "orders-eu", "orders-us", "x"] {
        put(listing.index(), name, None, &[]);
    }
    let orders = listing.list(with_pattern("persistent://public/default/orders.*")).await.unwrap();
    assert_eq!((orders.topics.len(), orders.filtered, orders.changed), (3, true, true));
    assert_eq!(orders.hash, "5958c183");

    let known = Query { hash: Some("5958c183".to_owned()), ..with_pattern("public/default/orders.*") };
    let unchanged = listing.list(known).await.unwrap();
    let expected = Answer { topics: vec![], filtered: true, hash: "5958c183".to_owned(), changed: false };
    assert_eq!(unchanged, expected);

    let stale = Query { hash: Some("00000000".to_owned()), ..with_pattern("public/default/orders.*") };
    assert_eq!(listing.list(stale).await.unwrap(), orders);

    let none = listing.list(with_pattern("public/default/none")).await.unwrap();
    let expected = Answer { topics: vec![], filtered: true, hash: "00000000".to_owned(), changed: true };
    assert_eq!(none, expected);

    // Exactly 50 UTF-16 units are applied, one more is not, and what has no exact meaning here is not.
    let all = listing.list(query(Mode::Persistent, &[])).await.unwrap();
    assert_eq!((all.topics.len(), all.filtered, all.changed), (4, false, true));
    let fits = format!("public/default/orders{}𐀀?", ".?".repeat(13));
    assert_eq!((fits.encode_utf16().count(), fits.chars().count()), (50, 49));
    assert!(listing.list(with_pattern(&fits)).await.unwrap().filtered);
    let too_long = format!("{fits}$");
    for pattern in [too_long.as_str(), "public/default/(?!orders).*", "public/default/o++"] {
        assert_eq!(listing.list(with_pattern(pattern)).await.unwrap(), all, "{pattern}");
    }
    let off = self::listing(Config { evaluate_patterns: false, ..Config::default() });
    put(off.index(), "orders", None, &[]);
    assert!(!off.list(with_pattern("nothing")).await.unwrap().filtered);
}

#[tokio::test]
async fn partitions_match_by_their_base() {
    let listing = listing(Config::default());
    put(listing.index(), "tp", Some(2), &[]);
    put(listing.index(), "tp2", None, &[]);
    let found = local(&listing, with_pattern(r"^\Qpersistent://public/default/tp\E$")).await;
    assert_eq!(found, ["tp-partition-0", "tp-partition-1"]);
}

#[tokio::test]
async fn a_bad_pattern_is_an_error_and_the_next_request_works() {
    let listing = listing(Config::default());
    put(listing.index(), "x", None, &[]);
    let error = listing.list(with_pattern("public/default/(x")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "pattern \"public/default/(x\" is not a valid regular expression: unclosed group"
    );
    assert_eq!(local(&listing, query(Mode::Persistent, &[])).await, ["x"]);
}

#[tokio::test]
async fn nested_repetitions_are_quick() {
    // B06 (e); that it ends at all is the test: a backtracking matcher would not.
    let listing = listing(Config::default());
    for i in 0..1000 {
        put(listing.index(), &format!("{}{i}", "a".repeat(500)), None, &[]);
    }
    let answer = listing.list(with_pattern("public/default/(a+)+!")).await.unwrap();
    assert_eq!((answer.topics.len(), answer.filtered), (0, true));
}

#[tokio::test]
async fn what_does_not_belong_is_dropped() {
    // B02
    let listing = listing_by(|_, topics| {
        let own = topics.named(&[
            "persistent://public/default/good",
            "persistent://public/default/own",
            "persistent://public/default/own-partition-1",
            "persistent://public/default/P",
            "persistent://public/default/P-partition-0",
            "persistent://other/namespace/foreign",
            "non-persistent://public/default/volatile",
            "persistent://public/default/__change_events",
            "short",
            "http://public/default/x",
            "",
        ]);
        Ok(topics.all().unite(&own.unwrap()))
    });
    put(listing.index(), "good", None, &[]);
    put(listing.index(), "P", Some(2), &[]);
    put(listing.index(), "x-sub__transaction_pending_ack", None, &[]);
    put(listing.index(), "non-persistent://public/default/n", None, &[]);
    let found = local(&listing, query(Mode::Persistent, &[])).await;
    assert_eq!(found, ["P-partition-0", "P-partition-1", "good", "own", "own-partition-1"]);
}

#[tokio::test]
async fn ranks_of_another_mode_are_dropped() {
    let listing = listing_by(|_, _| Ok(TopicSet::of_ranks((0..1000).collect())));
    put(listing.index(), "p", None, &[]);
    put(listing.index(), "non-persistent://public/default/n", None, &[]);
    assert_eq!(local(&listing, query(Mode::Persistent, &[])).await, ["p"]);
    assert_eq!(local(&listing, query(Mode::NonPersistent, &[])).await, ["n"]);
    assert_eq!(local(&listing, query(Mode::All, &[])).await, ["n", "p"]);
}

#[tokio::test]
async fn a_lister_that_breaks_gives_an_error_and_never_a_list() {
    let calls = Arc::new(AtomicUsize::new(0));
    let listing = listing_by(move |_, topics| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => Err(Broke { kind: BrokeKind::Error, reason: "no database".to_owned() }),
        1 => panic!("boom"),
        2 => Ok(TopicSet {
            names: Arc::new((0..=crate::MAX_OWN_NAMES).map(|i| i.to_string()).collect::<BTreeSet<_>>()),
            ..TopicSet::default()
        }),
        3 => Ok(TopicSet::default()),
        _ => Ok(topics.all()),
    });
    put(listing.index(), "x", None, &[]);
    let mut kinds = Vec::new();
    for _ in 0..3 {
        match listing.list(query(Mode::Persistent, &[])).await {
            Err(ListError::Broke { class, broke }) if class == scripted_class() => kinds.push(broke.kind),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(kinds, [BrokeKind::Error, BrokeKind::Panic, BrokeKind::BadAnswer]);
    // An empty answer is an answer.
    assert!(local(&listing, query(Mode::Persistent, &[])).await.is_empty());
    assert_eq!(local(&listing, query(Mode::Persistent, &[])).await, ["x"]);
}

#[tokio::test]
async fn a_missing_lister_is_an_error_until_it_is_there() {
    let extensions = Extensions::with_builtins(vec![]);
    let config = Config { class: scripted_class(), ..Config::default() };
    let listing = Listing::new(Arc::clone(&extensions), Arc::default(), config);
    put(listing.index(), "x", None, &[]);
    let missing = Unavailable::Missing { class: scripted_class() };
    assert_eq!(listing.check(), Err(missing.clone()));
    let error = listing.list(query(Mode::Persistent, &[])).await.unwrap_err();
    assert_eq!(error, ListError::Unavailable(missing));
    extensions.put_builtin(scripted(|_, topics| Ok(topics.all())));
    assert_eq!(listing.check(), Ok(()));
    assert_eq!(local(&listing, query(Mode::Persistent, &[])).await, ["x"]);
    extensions.put_builtin(scripted(|_, _| Ok(TopicSet::default())));
    assert!(local(&listing, query(Mode::Persistent, &[])).await.is_empty());
}

#[tokio::test]
async fn properties_are_bounded() {
    let listing = listing(Config { max_properties: 2, max_property_length: 4, ..Config::default() });
    let pairs = [("a", "1"), ("b", "2"), ("c", "3")];
    let error = listing.list(query(Mode::Persistent, &pairs)).await.unwrap_err();
    assert_eq!(error, ListError::TooManyProperties { count: 3, limit: 2 });
    assert!(error.to_string().contains("listing.max-properties"));
    for pair in [("abcde", "1"), ("a", "12345")] {
        let error = listing.list(query(Mode::Persistent, &[pair])).await.unwrap_err();
        assert!(error.to_string().contains("has 5 bytes"), "{error}");
        assert!(error.to_string().contains("listing.max-property-length"), "{error}");
    }
    listing.list(query(Mode::Persistent, &pairs[..2])).await.unwrap();
}

#[tokio::test]
async fn answers_are_bounded() {
    let listing = listing(Config { max_topics: 10, ..Config::default() });
    put(listing.index(), "P", Some(10), &[]);
    listing.list(query(Mode::Persistent, &[])).await.unwrap();
    put(listing.index(), "Q", Some(u32::MAX), &[]);
    let error = listing.list(query(Mode::Persistent, &[])).await.unwrap_err();
    assert_eq!(error, ListError::TooManyTopics { count: 10 + u32::MAX as usize, limit: 10 });
}

#[tokio::test]
async fn long_answers_are_made_off_the_caller_s_thread() {
    let listing = listing(Config::default());
    put(listing.index(), "P", Some(2 * u32::try_from(MAX_INLINE_NAMES).unwrap()), &[]);
    assert_eq!(local(&listing, with_pattern("public/default/P")).await.len(), 2 * MAX_INLINE_NAMES);
}

/// A lister that tells when it was called and answers when it is let go.
fn blocking() -> (Listing, Receiver<ListRequest>, Sender<()>) {
    blocking_with(Config::default())
}

fn blocking_with(config: Config) -> (Listing, Receiver<ListRequest>, Sender<()>) {
    let (tell, told) = crossbeam_channel::unbounded();
    let (go, wait) = crossbeam_channel::unbounded::<()>();
    let listing = listing_with(config, move |request, topics| {
        tell.send(request.clone()).unwrap();
        assert!(wait.recv().is_err(), "the test lets go by dropping its end");
        Ok(topics.all())
    });
    put(listing.index(), "x", None, &[]);
    (listing, told, go)
}

/// Polls a listing once: it has asked, or joined who has.
async fn begin<'a>(
    listing: &'a Listing,
    query: Query,
) -> std::pin::Pin<Box<dyn Future<Output = Result<Answer, ListError>> + Send + 'a>> {
    let mut future: std::pin::Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(listing.list(query));
    std::future::poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    future
}

/// Finds the version of the lister, so that the first poll of a listing gets as far as asking.
fn ready(listing: &Listing) {
    listing.check().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_listings_in_flight_are_asked_once() {
    let (listing, told, go) = blocking();
    ready(&listing);
    let pattern = Some("public/default/y".to_owned());
    let first = begin(&listing, query(Mode::Persistent, &[("a", "b|c=d")])).await;
    told.recv().unwrap();
    // Pattern and hash are each request's own.
    let joined = Query { pattern, ..query(Mode::Persistent, &[("a", "b|c=d")]) };
    let second = begin(&listing, joined).await;
    // What Pulsar's key takes for the same is another question here, and so is another mode.
    let others = [query(Mode::Persistent, &[("a", "b"), ("c", "d")]), query(Mode::All, &[("a", "b|c=d")])];
    let mut asked_by_others = Vec::new();
    for other in others {
        asked_by_others.push(begin(&listing, other).await);
        told.recv().unwrap();
    }
    drop(go);
    assert_eq!(first.await.unwrap().topics, ["persistent://public/default/x"]);
    let second = second.await.unwrap();
    assert_eq!((second.topics.len(), second.filtered), (0, true));
    for other in asked_by_others {
        assert_eq!(other.await.unwrap().topics.len(), 1);
    }
    assert!(told.is_empty(), "nobody else was asked");
    // Nothing is kept: the next one asks anew.
    listing.list(query(Mode::Persistent, &[("a", "b|c=d")])).await.unwrap();
    assert_eq!(told.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_goes_away_strands_nobody() {
    let (listing, told, go) = blocking();
    ready(&listing);
    let leader = begin(&listing, query(Mode::Persistent, &[])).await;
    told.recv().unwrap();
    let joined = begin(&listing, query(Mode::Persistent, &[])).await;
    drop(leader);
    drop(go);
    assert_eq!(joined.await.unwrap().topics.len(), 1);
    assert!(told.is_empty(), "the asking was not begun again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_just_made_a_topic_is_told_of_it() {
    let (listing, told, go) = blocking();
    ready(&listing);
    let before = begin(&listing, query(Mode::Persistent, &[])).await;
    told.recv().unwrap();
    put(listing.index(), "y", None, &[]);
    let after = begin(&listing, query(Mode::Persistent, &[])).await;
    drop(go);
    assert_eq!(before.await.unwrap().topics.len(), 1);
    assert_eq!(after.await.unwrap().topics.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listings_in_flight_are_bounded() {
    let one = std::num::NonZeroUsize::MIN;
    let (listing, told, go) = blocking_with(Config { max_in_flight: one, ..Config::default() });
    ready(&listing);
    let first = begin(&listing, query(Mode::Persistent, &[])).await;
    told.recv().unwrap();
    let error = listing.list(query(Mode::All, &[])).await.unwrap_err();
    assert_eq!(error, ListError::TooManyListings { limit: 1 });
    // Who joins takes no place.
    let joined = begin(&listing, query(Mode::Persistent, &[])).await;
    drop(go);
    first.await.unwrap();
    joined.await.unwrap();
    listing.list(query(Mode::All, &[])).await.unwrap();
}

#[test]
fn the_configuration_reads_as_it_is_written() {
    let read: Config = serde_json::from_value(json!({ "class": "demo.Tenant", "max-topics": 5 })).unwrap();
    let class = ClassName::new("demo.Tenant").unwrap();
    assert_eq!(read, Config { class, max_topics: 5, ..Config::default() });
    assert!(serde_json::from_value::<Config>(json!({ "max-in-flight": 0 })).is_err());
    assert!(serde_json::from_value::<Config>(json!({ "clas": "x" })).is_err());
    assert_eq!(Config::default().class.as_str(), "weir.PropertyEquality");
}
