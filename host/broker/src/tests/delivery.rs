//! Without a filter: order, permits, acknowledging, coming again.

use super::rig::*;
use crate::*;

fn numbered(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|i| format!("m{i}")).collect()
}

fn singles(texts: &[String]) -> Vec<bytes::Bytes> {
    texts.iter().map(|text| single(text)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_come_in_order_and_byte_for_byte_over_a_restart() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let sent = numbered(0..600);
    publish(&topic, singles(&sent)).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 1000).await;
    let first = client.next().await;
    assert_eq!((first.entry, first.messages, first.redelivery_count), (single("m0"), 1, 0));
    client.ack(first.position, None).await;
    assert_eq!(client.read(299).await, sent[1..300]);
    drop((client, topic));

    let rig = rig.restart().await;
    let topic = rig.topic("t").await;
    publish(&topic, singles(&numbered(600..700))).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 1000).await;
    assert_eq!(client.read(400).await, numbered(300..700));
    until(&topic, |stats| stats.msg_backlog == 0 && stats.unacked_messages == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_entries_beyond_a_hole_stay_acknowledged_over_a_restart() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let positions = publish(&topic, singles(&numbered(0..10))).await;
    let mut client = Client::new(&topic, SubscriptionType::Shared, 1000).await;
    for _ in 0..10 {
        client.next().await;
    }
    for i in [1, 2, 5, 9] {
        client.ack(positions[i], None).await;
    }
    let stats = until(&topic, |stats| stats.msg_backlog == 6).await;
    assert_eq!(stats.non_contiguous_deleted_messages_ranges, 3);
    drop((client, topic));

    let rig = rig.restart().await;
    let topic = rig.topic("t").await;
    until(&topic, |stats| stats.msg_backlog == 6).await;
    let mut client = Client::new(&topic, SubscriptionType::Shared, 1000).await;
    assert_eq!(client.read(6).await, ["m0", "m3", "m4", "m6", "m7", "m8"]);
    until(&topic, |stats| stats.msg_backlog == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_begins_behind_what_is_there() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    publish(&topic, singles(&numbered(0..5))).await;
    let latest = ConsumerOptions { start: Start::Latest, ..options(SubscriptionType::Exclusive) };
    let mut client = Client::with(&topic, latest, 10).await;
    publish(&topic, singles(&numbered(5..7))).await;
    assert_eq!(client.read(2).await, ["m5", "m6"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_begins_where_it_says_and_leaves_no_cursor() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let positions = publish(&topic, singles(&numbered(0..5))).await;
    let reader = ConsumerOptions {
        start: Start::At(positions[3]),
        durable: false,
        ..options(SubscriptionType::Exclusive)
    };
    let mut client = Client::with(&topic, reader, 10).await;
    assert_eq!(client.read(2).await, ["m3", "m4"]);
    drop(client);
    assert!(topic.subscriptions().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_a_seek_has_closed_comes_back_to_where_it_was_set() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let entries = (0..5).map(|i| encode(b'S', 100 + i, &[format!("m{i}")]));
    let positions = publish(&topic, entries).await;
    let reader = |kind| ConsumerOptions { start: Start::Latest, durable: false, ..options(kind) };
    for (to, first) in
        [(SeekTo::Position(positions[2]), "m2"), (SeekTo::PublishTime(103), "m3"), (SeekTo::Earliest, "m0")]
    {
        let mut client = Client::with(&topic, reader(SubscriptionType::Shared), 100).await;
        let other = Client::with(&topic, reader(SubscriptionType::Shared), 100).await;
        client.consumer.seek(to).await.unwrap();
        assert!(client.deliveries.next().await.is_none());
        assert!(client.consumer.is_closed() && other.consumer.is_closed());
        // Another one goes for good; the one that asked comes again, and lets go of the closed one then.
        drop(other);
        let mut again = Client::with(&topic, reader(SubscriptionType::Shared), 100).await;
        drop(client);
        assert_eq!(texts(&again.next().await.entry), [first], "{to:?}");
        // By a durable consumer it would end as soon as the reader is gone.
        let refused = topic.subscribe(options(SubscriptionType::Shared)).await;
        assert!(matches!(refused, Err(BrokerError::ConsumerBusy(_))));
        drop(again);
        assert!(topic.subscriptions().is_empty());
    }
}

#[test]
fn a_reader_that_goes_while_it_subscribes_leaves_nothing() {
    // One after the other on the blocking thread: what was begun there is done before what is begun later.
    let runtime = tokio::runtime::Builder::new_multi_thread().max_blocking_threads(1).enable_time().build();
    runtime.unwrap().block_on(async {
        let rig = Rig::new().await;
        let topic = rig.topic("t").await;
        let reader = ConsumerOptions { durable: false, ..options(SubscriptionType::Exclusive) };
        let mut subscribing = Box::pin(topic.subscribe(reader));
        let began = std::future::poll_fn(|cx| std::task::Poll::Ready(subscribing.as_mut().poll(cx))).await;
        assert!(began.is_pending());
        drop(subscribing);
        topic.create_subscription("after", Start::Earliest).await.unwrap();
        assert_eq!(topic.subscriptions(), ["after"]);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_begins_at_a_time() {
    let numbered =
        |range: std::ops::Range<u64>| range.map(|i| encode(b'S', 100 + 10 * i, &[format!("m{i}")]));
    let rig = Rig::new().await;
    publish(&rig.topic("t").await, numbered(0..5)).await;
    // A start begins a new ledger.
    let rig = rig.restart().await;
    let topic = rig.topic("t").await;
    publish(&topic, numbered(5..12)).await;
    for time in 95..=215_u64 {
        let reader = ConsumerOptions {
            start: Start::Since(time),
            durable: false,
            ..options(SubscriptionType::Exclusive)
        };
        let mut client = Client::with(&topic, reader, 10).await;
        let expected = time.saturating_sub(100).div_ceil(10);
        if expected == 12 {
            publish(&topic, [encode(b'S', 220, &["m12"])]).await;
            assert_eq!(texts(&client.next().await.entry), ["m12"]);
            break;
        }
        assert_eq!(texts(&client.next().await.entry), [format!("m{expected}")], "{time}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_last_entry_is_behind_it() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let last = publish(&topic, singles(&numbered(0..3))).await[2];
    let far = Position { entry: last.entry + 100, ..last };
    let farther = Position { ledger: last.ledger + 100, entry: 0 };
    for (n, beyond) in [far, farther].into_iter().enumerate() {
        let text = format!("next {n}");
        let mut clients = Vec::new();
        for (m, start) in [Start::At(beyond), Start::After(beyond)].into_iter().enumerate() {
            let subscription = format!("{n}-{m}");
            let options = ConsumerOptions { start, subscription, ..options(SubscriptionType::Exclusive) };
            clients.push(Client::with(&topic, options, 10).await);
        }
        let client = Client::new(&topic, SubscriptionType::Exclusive, 10).await;
        client.consumer.seek(SeekTo::Position(beyond)).await.unwrap();
        drop(client);
        clients.push(Client::new(&topic, SubscriptionType::Exclusive, 10).await);
        publish(&topic, [single(&text)]).await;
        for client in &mut clients {
            assert_eq!(texts(&client.next().await.entry), [text.as_str()]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exclusive_subscription_takes_one_consumer_and_one_type() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let client = Client::new(&topic, SubscriptionType::Exclusive, 0).await;
    for kind in [SubscriptionType::Exclusive, SubscriptionType::Shared] {
        let refused = topic.subscribe(options(kind)).await;
        assert!(matches!(refused, Err(BrokerError::ConsumerBusy(_))));
    }
    drop(client);
    let shared = Client::new(&topic, SubscriptionType::Shared, 0).await;
    let _second = Client::new(&topic, SubscriptionType::Shared, 0).await;
    let refused = topic.subscribe(options(SubscriptionType::Exclusive)).await;
    assert!(matches!(refused, Err(BrokerError::ConsumerBusy(_))));
    assert!(matches!(shared.consumer.unsubscribe(false).await, Err(BrokerError::InUse(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_count_messages_and_a_batch_is_not_split() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    publish(&topic, (0..5).map(|_| batch(&["a", "b", "c", "d"]))).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 5).await;
    assert_eq!(client.read(2).await.len(), 8);
    let stats = until(&topic, |stats| stats.msg_backlog == 12).await;
    assert_eq!(stats.consumers[0].available_permits, -3);
    // Brings it to 0 only: the next one comes with the permit after.
    client.consumer.flow(3);
    client.consumer.flow(1);
    assert_eq!(client.read(1).await.len(), 4);
    let stats = until(&topic, |stats| stats.msg_backlog == 8).await;
    assert_eq!((stats.consumers[0].available_permits, stats.msg_out_counter), (-3, 12));
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_consumers_are_served_in_turn() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let mut one = Client::new(&topic, SubscriptionType::Shared, 100).await;
    let mut other = Client::new(&topic, SubscriptionType::Shared, 100).await;
    publish(&topic, singles(&numbered(0..20))).await;
    let mut read = one.read(10).await;
    read.extend(other.read(10).await);
    read.sort_by_key(|text| text[1..].parse::<u32>().unwrap());
    assert_eq!(read, numbered(0..20));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_consumer_leaves_behind_goes_to_the_next() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    publish(&topic, singles(&numbered(0..4))).await;
    let mut one = Client::new(&topic, SubscriptionType::Shared, 4).await;
    let first = one.next().await;
    one.ack(first.position, None).await;
    one.next().await;
    let mut other = Client::new(&topic, SubscriptionType::Shared, 100).await;
    drop(one);
    assert_eq!(other.read(3).await, ["m1", "m2", "m3"]);
    until(&topic, |stats| stats.msg_backlog == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_again_counts_and_keeps_an_exclusive_order() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    publish(&topic, singles(&numbered(0..300))).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 1000).await;
    for _ in 0..100 {
        client.next().await;
    }
    client.consumer.redeliver(None);
    let again = client.next().await;
    assert_eq!((texts(&again.entry), again.redelivery_count), (vec!["m0".to_owned()], 1));
    client.ack(again.position, None).await;
    assert_eq!(client.read(299).await, numbered(1..300));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_consumer_gets_back_what_it_names() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let positions = publish(&topic, singles(&numbered(0..5))).await;
    let mut client = Client::new(&topic, SubscriptionType::Shared, 100).await;
    for _ in 0..5 {
        client.next().await;
    }
    client.consumer.redeliver(Some(&[positions[3], positions[1]]));
    let (one, three) = (client.next().await, client.next().await);
    assert_eq!([one.position, three.position], [positions[1], positions[3]]);
    assert_eq!([one.redelivery_count, three.redelivery_count], [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cumulative_acknowledgement_covers_what_lies_before() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let positions = publish(&topic, singles(&numbered(0..5))).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    for _ in 0..5 {
        client.next().await;
    }
    let ack = [Ack { position: positions[2], unacked: None, batch_size: None }];
    client.consumer.acknowledge(AckKind::Cumulative, &ack).await.unwrap();
    assert_eq!(client.consumer.mark_delete(), Some(positions[2]));
    client.consumer.redeliver(None);
    assert_eq!(client.read(2).await, ["m3", "m4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_acknowledged_in_part_comes_again_without_that_part() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let positions = publish(&topic, [batch(&["a", "b", "c", "d"])]).await;
    let mut client = Client::new(&topic, SubscriptionType::Shared, 100).await;
    client.next().await;
    client.ack(positions[0], Some(vec![1, 3])).await;
    until(&topic, |stats| stats.msg_backlog == 2 && stats.unacked_messages == 2).await;
    client.consumer.redeliver(None);
    let again = client.next().await;
    assert_eq!((texts(&again.entry), again.messages), (vec!["b".to_owned(), "d".to_owned()], 2));
    drop((client, topic));

    // And over a restart.
    let rig = rig.restart().await;
    let topic = rig.topic("t").await;
    let mut client = Client::new(&topic, SubscriptionType::Shared, 100).await;
    let again = client.next().await;
    assert_eq!(texts(&again.entry), ["b", "d"]);
    // Of an earlier shape: which message it means cannot be known.
    let stale = [Ack { position: positions[0], unacked: Some(vec![1]), batch_size: Some(4) }];
    client.consumer.acknowledge(AckKind::Individual, &stale).await.unwrap();
    until(&topic, |stats| stats.msg_backlog == 2).await;
    client.ack(positions[0], Some(vec![1])).await;
    client.consumer.redeliver(None);
    assert_eq!(client.read(1).await, ["d"]);
    until(&topic, |stats| stats.msg_backlog == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_waits_to_be_sent_again_loses_what_is_acknowledged_meanwhile() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let positions = publish(&topic, [batch(&["a", "b"])]).await;
    let mut client = Client::new(&topic, SubscriptionType::Shared, 100).await;
    client.next().await;
    client.consumer.redeliver(None);
    // It stands in the queue of its consumer, which has not taken it.
    until(&topic, |stats| stats.unacked_messages == 2).await;
    client.ack(positions[0], Some(vec![1])).await;
    let again = client.next().await;
    assert_eq!((texts(&again.entry), again.redelivery_count), (vec!["b".to_owned()], 1));
    let stats = until(&topic, |stats| stats.msg_backlog == 1).await;
    assert_eq!((stats.unacked_messages, stats.consumers[0].available_permits), (1, 97));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_kept_over_a_restart_is_taken() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let positions = publish(&topic, singles(&numbered(0..3))).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    for _ in 0..3 {
        client.next().await;
    }
    drop((client, topic));

    let rig = rig.restart().await;
    let topic = rig.topic("t").await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 0).await;
    client.ack(positions[1], None).await;
    client.consumer.flow(100);
    assert_eq!(client.read(2).await, ["m0", "m2"]);
    until(&topic, |stats| stats.msg_backlog == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seeking_closes_consumers_and_moves_the_cursor() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let entries = (0..5).map(|i| encode(b'S', 100 + i, &[format!("m{i}")]));
    let positions = publish(&topic, entries).await;
    for (to, first) in [
        (SeekTo::Position(positions[2]), Some("m2")),
        (SeekTo::PublishTime(103), Some("m3")),
        (SeekTo::Earliest, Some("m0")),
        (SeekTo::Latest, None),
    ] {
        let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
        client.consumer.seek(to).await.unwrap();
        assert!(tokio::time::timeout(PATIENCE, client.deliveries.next()).await.unwrap().is_none());
        drop(client);
        let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
        match first {
            Some(first) => assert_eq!(texts(&client.next().await.entry), [first]),
            None => drop(until(&topic, |stats| stats.msg_backlog == 0).await),
        }
        let ends = client.consumer.ends().await.unwrap().unwrap();
        assert_eq!((ends.first, ends.last), (positions[0], positions[4]));
        assert_eq!(texts(&ends.last_entry), ["m4"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_that_comes_after_a_seek_is_not_taken() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    publish(&topic, [single("a"), single("b")]).await;
    let mut before = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    let (a, b) = (before.next().await.position, before.next().await.position);
    before.consumer.seek(SeekTo::Earliest).await.unwrap();
    // On its way when the cursor moved: what the client asked for by its seek would be lost.
    let ack = |position| [Ack { position, unacked: None, batch_size: None }];
    for (kind, ack) in [(AckKind::Individual, ack(a)), (AckKind::Cumulative, ack(b))] {
        let refused = before.consumer.acknowledge(kind, &ack).await;
        assert!(matches!(refused, Err(BrokerError::Closing(_))), "{refused:?}");
    }
    let mut after = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    assert_eq!(after.read(2).await, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_takes_nothing_more_and_tells_everybody() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    let producer = topic.add_producer(None, Default::default()).unwrap();
    let under_way = producer.publish(single("a"), 1);
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 0).await;
    rig.broker.drain().await;
    under_way.await.unwrap();
    producer.closed().await;
    assert!(matches!(producer.publish(single("b"), 1).await, Err(BrokerError::Closing(_))));
    assert!(client.deliveries.next().await.is_none());
}
