//! What exists: made, listed, changed, deleted, and there again after a restart.

use std::collections::BTreeMap;

use weir_filter::OnFailure;

use super::rig::*;
use crate::*;

fn name(text: &str) -> TopicName {
    TopicName::new(text).unwrap()
}

fn properties(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn listed(rig: &Rig) -> Vec<String> {
    let mut names: Vec<String> = rig.index.topics().map(|name| name.local().to_owned()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_is_listed_at_once_and_after_a_restart() {
    let rig = Rig::new().await;
    let broker = &rig.broker;
    broker.create_tenant("acme").await.unwrap();
    let namespace = NamespaceName::new("acme/eu").unwrap();
    broker.create_namespace(&namespace).await.unwrap();
    broker.create_topic(&name("plain"), None, properties(&[("a", "1")])).await.unwrap();
    broker.create_topic(&name("acme/eu/parts"), Some(3), BTreeMap::new()).await.unwrap();
    broker.update_properties(&name("plain"), properties(&[("b", "2")])).await.unwrap();
    broker.remove_property(&name("plain"), "a").await.unwrap();
    broker.update_partitions(&name("acme/eu/parts"), 4).await.unwrap();
    assert_eq!(listed(&rig), ["parts", "plain"]);

    let rig = rig.restart().await;
    assert_eq!(listed(&rig), ["parts", "plain"]);
    assert_eq!(rig.broker.tenants(), ["acme", "public"]);
    assert_eq!(rig.broker.info(&name("plain")).unwrap().properties, properties(&[("b", "2")]));
    assert_eq!(rig.broker.partitions(&name("acme/eu/parts"), false).unwrap(), Some(4));
    assert_eq!(rig.broker.partitions(&name("acme/eu/parts-partition-3"), false).unwrap(), None);
    let refused = rig.broker.topic(&name("acme/eu/parts-partition-4"), true).await.err().unwrap();
    assert!(matches!(refused, BrokerError::TopicNotFound(_)));
    let refused = rig.broker.topic(&name("acme/eu/parts"), true).await.err().unwrap();
    assert!(matches!(refused, BrokerError::NotAllowed(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_has_its_own_error() {
    let rig = Rig::new().await;
    let broker = &rig.broker;
    broker.create_topic(&name("t"), None, BTreeMap::new()).await.unwrap();
    let create = async |text: &str, partitions| {
        broker.create_topic(&name(text), partitions, BTreeMap::new()).await.unwrap_err()
    };
    assert!(matches!(create("t", Some(2)).await, BrokerError::AlreadyExists(_)));
    assert!(matches!(create("nobody/here/t", None).await, BrokerError::NamespaceNotFound(_)));
    assert!(matches!(create("p", Some(0)).await, BrokerError::Invalid(_)));
    assert!(matches!(create("p", Some(1_000_000)).await, BrokerError::Invalid(_)));
    assert!(matches!(create("p-partition-0", None).await, BrokerError::NotAllowed(_)));
    assert!(matches!(create("non-persistent://a/b/c", None).await, BrokerError::NotAllowed(_)));
    let missing = broker.topic(&name("missing"), false).await.err().unwrap();
    assert!(matches!(missing, BrokerError::TopicNotFound(_)));
    assert!(matches!(broker.partitions(&name("missing"), false), Err(BrokerError::TopicNotFound(_))));
    assert_eq!(broker.partitions(&name("missing"), true).unwrap(), None);
    assert!(broker.info(&name("missing")).is_none(), "asking does not make it");
    let in_use = broker.delete_namespace(&NamespaceName::new("public/default").unwrap()).await;
    assert!(matches!(in_use, Err(BrokerError::InUse(_))));
    assert!(matches!(broker.delete_tenant("public").await, Err(BrokerError::InUse(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_topic_is_gone_with_entries_and_cursors() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    publish(&topic, [single("old")]).await;
    let producer = topic.add_producer(Some("p".to_owned()), BTreeMap::new()).unwrap();
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 0).await;
    assert!(matches!(rig.broker.delete_topic(&name("t"), false).await, Err(BrokerError::InUse(_))));
    rig.broker.delete_topic(&name("t"), true).await.unwrap();
    producer.closed().await;
    assert!(client.deliveries.next().await.is_none());
    assert!(listed(&rig).is_empty());

    let topic = rig.topic("t").await;
    assert!(topic.subscriptions().is_empty());
    publish(&topic, [single("new")]).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 10).await;
    assert_eq!(client.read(1).await, ["new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_has_its_name_for_itself() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let producer = topic.add_producer(Some("p".to_owned()), BTreeMap::new()).unwrap();
    let busy = topic.add_producer(Some("p".to_owned()), BTreeMap::new());
    assert!(matches!(busy, Err(BrokerError::ProducerBusy { .. })));
    drop(producer);
    let again = topic.add_producer(Some("p".to_owned()), BTreeMap::new()).unwrap();
    let made = topic.add_producer(None, BTreeMap::new()).unwrap();
    assert!(made.name().starts_with("weir-1-"));
    let too_large = again.publish(vec![0; 1024 * 1024 + 1].into(), 1).await;
    assert!(matches!(too_large, Err(BrokerError::TooLarge { max: 1_048_576, .. })));
    assert!(matches!(again.publish(single("a"), 0).await, Err(BrokerError::Invalid(_))));
    let first = again.publish(single("a"), 1).await.unwrap().position;
    assert!(again.publish(single("b"), 1).await.unwrap().position > first);
    let stats = topic.stats().await.unwrap();
    assert_eq!((stats.msg_in_counter, stats.publishers.len()), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsubscribed_cursor_is_gone() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    publish(&topic, [single("a")]).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 10).await;
    client.read(1).await;
    client.consumer.unsubscribe(false).await.unwrap();
    assert!(client.deliveries.next().await.is_none());
    let not_made = ConsumerOptions { create: false, ..options(SubscriptionType::Exclusive) };
    let refused = topic.subscribe(not_made).await.err().unwrap();
    assert!(matches!(refused, BrokerError::SubscriptionNotFound(_)));
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 10).await;
    assert_eq!(client.read(1).await, ["a"], "a new one begins anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn bindings_survive_a_restart() {
    let rig = Rig::new().await;
    rig.bind("t", OnFailure::Discard).await;
    rig.bind("u", OnFailure::Discard).await;
    let u = Target::Topic(name("u"));
    assert!(rig.broker.remove_binding(&u, Some("s")).await.unwrap());
    assert!(!rig.broker.remove_binding(&u, Some("s")).await.unwrap());
    let before = rig.bindings.list();
    let rig = rig.restart().await;
    assert_eq!(rig.bindings.list(), before);
    assert_eq!(before.len(), 1);
}
