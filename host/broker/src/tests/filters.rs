//! With a filter: what is rejected, put off or breaks it, alone and inside batches.

use weir_extension::ClassName;
use weir_filter::OnFailure;

use super::rig::*;
use crate::*;

async fn filtered(on_failure: OnFailure) -> (Rig, std::sync::Arc<Topic>) {
    let rig = Rig::new().await;
    rig.bind("t", on_failure).await;
    let topic = rig.topic("t").await;
    (rig, topic)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partly_accepted_batch_is_rewritten_and_acknowledged() {
    let (rig, topic) = filtered(OnFailure::Withhold).await;
    let mixed = batch(&["no0", "a", "no1", "no2", "b", "no3", "no4", "no5", "no6", "c"]);
    let all = batch(&["d", "e"]);
    publish(&topic, [mixed, batch(&["no7", "no8"]), all.clone(), single("no9"), single("f")]).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    let first = client.next().await;
    assert_eq!((first.entry, first.messages), (batch(&["a", "b", "c"]), 3));
    client.ack(first.position, None).await;
    let second = client.next().await;
    assert_eq!(second.entry, all, "untouched, byte for byte");
    client.ack(second.position, None).await;
    assert_eq!(client.read(1).await, ["f"]);
    let stats = until(&topic, |stats| stats.msg_backlog == 0).await;
    let FilterStats { processed, accepted, rejected, .. } = stats.filter;
    assert_eq!((processed, accepted, rejected), (16, 6, 10));
    drop((client, topic, rig));
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_indexes_of_a_rewritten_batch_are_mapped_back() {
    let (rig, topic) = filtered(OnFailure::Withhold).await;
    let positions = publish(&topic, [batch(&["no0", "a", "no1", "b", "c"])]).await;
    let mut client = Client::new(&topic, SubscriptionType::Shared, 100).await;
    client.next().await;
    // Of [a, b, c], b is still to come.
    client.ack(positions[0], Some(vec![1])).await;
    client.consumer.redeliver(None);
    assert_eq!(texts(&client.next().await.entry), ["b"]);
    drop((client, topic));

    let rig = rig.restart().await;
    let topic = rig.topic("t").await;
    let stats = until(&topic, |_| true).await;
    assert_eq!((stats.msg_backlog, stats.backlog_entries), (1, 1), "also before it is read again");
    let mut client = Client::new(&topic, SubscriptionType::Shared, 100).await;
    assert_eq!(client.read(1).await, ["b"]);
    assert_eq!(rig.judged.times("a"), 0, "what is done is not judged again");
    until(&topic, |stats| stats.msg_backlog == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_thousand_rejected_messages_hold_nothing_back() {
    let (rig, topic) = filtered(OnFailure::Withhold).await;
    let hole = publish(&topic, [single("hole")]).await[0];
    publish(&topic, (0..50_000).map(|i| single(&format!("no{i}")))).await;
    let last = publish(&topic, [single("yes")]).await[0];
    let mut client = Client::new(&topic, SubscriptionType::Shared, 1).await;
    assert_eq!(client.next().await.position, hole);
    client.consumer.flow(1);
    assert_eq!(client.read(1).await, ["yes"]);
    let stats = until(&topic, |stats| stats.filter.processed == 50_002).await;
    assert_eq!((stats.filter.accepted, stats.filter.rejected), (2, 50_000));
    assert_eq!((stats.msg_backlog, stats.non_contiguous_deleted_messages_ranges), (1, 1));
    client.ack(hole, None).await;
    assert_eq!(client.consumer.mark_delete(), Some(last));
    drop((client, topic));

    let rig = rig.restart().await;
    let topic = rig.topic("t").await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 1).await;
    publish(&topic, [single("new")]).await;
    assert_eq!(client.read(1).await, ["new"]);
    assert_eq!(*rig.judged.0.lock(), ["new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn few_entries_are_open_at_a_time_when_they_unpack_to_much() {
    let (rig, topic) = filtered(OnFailure::Withhold).await;
    publish(&topic, (0..50).map(|_| single("huge"))).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    assert_eq!(client.read(50).await, ["huge"; 50]);
    assert!(rig.open.most() <= 2, "{} entries of 4 MiB were open at once", rig.open.most());
}

#[tokio::test(flavor = "multi_thread")]
async fn deliver_lets_through_what_breaks_the_filter() {
    let (_rig, topic) = filtered(OnFailure::Deliver).await;
    publish(&topic, [batch(&["a", "bad", "no"]), sealed(), single("b")]).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    assert_eq!(client.read(3).await, ["a", "bad", "secret", "b"]);
    let stats = until(&topic, |stats| stats.msg_backlog == 0).await;
    assert_eq!((stats.filter.accepted, stats.filter.rejected, stats.filter.broke_delivered), (2, 1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn discard_acknowledges_what_breaks_the_filter() {
    let (_rig, topic) = filtered(OnFailure::Discard).await;
    publish(&topic, [batch(&["a", "bad", "no"]), single("b")]).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    assert_eq!(client.read(2).await, ["a", "b"]);
    let stats = until(&topic, |stats| stats.msg_backlog == 0).await;
    assert_eq!((stats.filter.rejected, stats.filter.broke_discarded), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_never_acknowledged() {
    for on_failure in [OnFailure::Withhold, OnFailure::Discard] {
        let (rig, topic) = filtered(on_failure).await;
        publish(&topic, [sealed(), single("b"), sealed()]).await;
        let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
        assert_eq!(client.read(1).await, ["b"], "it holds nobody else up");
        let stats = until(&topic, |stats| stats.filter.withheld_attempts >= 4).await;
        assert_eq!((stats.msg_backlog, stats.filter.withheld_now), (2, 2));
        assert_eq!((stats.filter.broke_withheld, stats.filter.broke_discarded), (2, 0));
        assert!(stats.filter.last_failure.unwrap().contains("sealed"));
        // Whoever can read it gets it.
        rig.bind("t", OnFailure::Deliver).await;
        assert_eq!(client.read(2).await, ["secret", "secret"]);
        until(&topic, |stats| stats.msg_backlog == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_acknowledgement_of_a_first_part_is_not_taken_for_one_of_the_next() {
    for kind in [SubscriptionType::Exclusive, SubscriptionType::Shared] {
        let (_rig, topic) = filtered(OnFailure::Withhold).await;
        let position = publish(&topic, [batch(&["a", "later", "b"])]).await[0];
        let mut client = Client::new(&topic, kind, 100).await;
        // The client has the first part twice, and acknowledges one copy.
        client.next().await;
        client.consumer.redeliver(None);
        assert_eq!(client.read(1).await, ["a", "b"]);
        assert_eq!(texts(&client.next().await.entry), ["later"]);
        // Now the other one: the next part is not done.
        client.ack(position, None).await;
        let stats = until(&topic, |stats| stats.msg_backlog == 1).await;
        assert_eq!(stats.backlog_entries, 1);
        // It may have been meant all the same, so it comes once more; and then it counts.
        assert_eq!(client.read(1).await, ["later"]);
        until(&topic, |stats| stats.msg_backlog == 0 && stats.unacked_messages == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_that_comes_before_the_next_part_is_sent_is_not_about_it() {
    let (_rig, topic) = filtered(OnFailure::Withhold).await;
    let position = publish(&topic, [batch(&["a", "later", "b"])]).await[0];
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 2).await;
    assert_eq!(client.read(1).await, ["a", "b"]);
    // The next part is ready, and not taken by the connection yet.
    client.consumer.flow(1);
    until(&topic, |stats| stats.unacked_messages == 1).await;
    client.ack(position, None).await;
    assert_eq!(client.read(1).await, ["later"]);
    until(&topic, |stats| stats.msg_backlog == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cumulative_acknowledgement_spares_a_part_that_was_sent_after_it() {
    let (_rig, topic) = filtered(OnFailure::Withhold).await;
    publish(&topic, [batch(&["a", "later"]), single("b")]).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    let cumulative = async |client: &Client, position| {
        let ack = [Ack { position, unacked: None, batch_size: None }];
        client.consumer.acknowledge(AckKind::Cumulative, &ack).await.unwrap();
    };
    let first = client.next().await;
    let second = client.next().await;
    client.ack(first.position, None).await;
    let part = client.next().await;
    assert_eq!((part.position, texts(&part.entry)), (first.position, vec!["later".to_owned()]));
    // Of what was read before the part came.
    cumulative(&client, second.position).await;
    let stats = until(&topic, |stats| stats.msg_backlog <= 1).await;
    assert_eq!(stats.msg_backlog, 1);
    // What is read after it covers it.
    let third = publish(&topic, [single("c")]).await[0];
    assert_eq!(client.next().await.position, third);
    cumulative(&client, third).await;
    until(&topic, |stats| stats.msg_backlog == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn withhold_tries_again_and_never_acknowledges() {
    let (_rig, topic) = filtered(OnFailure::Withhold).await;
    publish(&topic, [single("a"), single("bad"), batch(&["b", "sick", "c"]), single("d")]).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    // The part of the batch that broke it comes once the first part is acknowledged.
    let mut read = client.read(4).await;
    read.sort();
    assert_eq!(read, ["a", "b", "c", "d", "sick"]);
    let stats = until(&topic, |stats| stats.filter.withheld_attempts >= 4).await;
    assert_eq!((stats.msg_backlog, stats.filter.withheld_now), (1, 1));
    assert_eq!(stats.filter.broke_withheld, 2, "each message once, however often it is tried");
    let FilterStats { processed, accepted, withheld_attempts, .. } = stats.filter;
    assert_eq!(processed, accepted + withheld_attempts);
    assert!(stats.filter.last_failure.unwrap().contains("test.Words"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cumulative_acknowledgement_spares_what_was_never_seen() {
    let (_rig, topic) = filtered(OnFailure::Withhold).await;
    publish(&topic, [single("bad"), single("a")]).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    let delivered = client.next().await;
    let ack = [Ack { position: delivered.position, unacked: None, batch_size: None }];
    client.consumer.acknowledge(AckKind::Cumulative, &ack).await.unwrap();
    let stats = until(&topic, |stats| stats.unacked_messages == 0).await;
    assert_eq!((stats.msg_backlog, stats.filter.withheld_now), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn rescheduled_messages_come_after_their_delay() {
    let (rig, topic) = filtered(OnFailure::Withhold).await;
    publish(&topic, [single("later0"), batch(&["a", "later1", "no", "b"]), single("c")]).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    let mut read = client.read(4).await;
    read.sort();
    assert_eq!(read, ["a", "b", "c", "later0", "later1"]);
    let stats = until(&topic, |stats| stats.msg_backlog == 0).await;
    assert_eq!((stats.filter.rescheduled, stats.filter.rescheduled_now), (2, 0));
    assert_eq!((rig.judged.times("a"), rig.judged.times("later1")), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redelivery_is_not_judged_again() {
    let (rig, topic) = filtered(OnFailure::Withhold).await;
    publish(&topic, [batch(&["a", "no", "b"])]).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    client.next().await;
    client.consumer.redeliver(None);
    assert_eq!(client.read(1).await, ["a", "b"]);
    assert_eq!((rig.judged.times("a"), rig.judged.times("no")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_filter_pauses_at_the_cursor_and_says_why() {
    let rig = Rig::new().await;
    rig.broker.put_binding(binding("t", "test.Missing", OnFailure::Discard)).await.unwrap();
    let topic = rig.topic("t").await;
    publish(&topic, [single("a"), single("no"), single("b")]).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    let stats = until(&topic, |stats| stats.paused.is_some()).await;
    assert!(stats.paused.unwrap().reason.contains("test.Missing"));
    assert_eq!((stats.msg_backlog, stats.filter.processed), (3, 0));
    rig.broker.put_binding(binding("t", "test.Words", OnFailure::Discard)).await.unwrap();
    assert_eq!(client.read(2).await, ["a", "b"]);
    until(&topic, |stats| stats.paused.is_none() && stats.msg_backlog == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_comes_back_ends_the_pause() {
    let (rig, topic) = filtered(OnFailure::Withhold).await;
    assert!(rig.extensions.remove_builtin(&ClassName::new("test.Words").unwrap()));
    publish(&topic, [single("a"), single("no"), single("b")]).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    until(&topic, |stats| stats.paused.is_some()).await;
    rig.extensions.put_builtin(words(&rig.judged));
    assert_eq!(client.read(2).await, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_deliver_a_missing_filter_lets_everything_through() {
    let rig = Rig::new().await;
    rig.broker.put_binding(binding("t", "test.Missing", OnFailure::Deliver)).await.unwrap();
    let topic = rig.topic("t").await;
    publish(&topic, [single("a"), single("no")]).await;
    let mut client = Client::new(&topic, SubscriptionType::Exclusive, 100).await;
    assert_eq!(client.read(2).await, ["a", "no"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_subscriptions_are_not_touched() {
    let (_rig, topic) = filtered(OnFailure::Withhold).await;
    publish(&topic, [single("no"), single("a")]).await;
    let other = ConsumerOptions { subscription: "other".to_owned(), ..options(SubscriptionType::Exclusive) };
    let mut client = Client::with(&topic, other, 100).await;
    assert_eq!(client.read(2).await, ["no", "a"]);
    let stats = topic.stats().await.unwrap();
    assert!(stats.subscriptions["other"].filter.is_empty());
}
