//! What connections may hold in memory: one that does not read holds its part and stops nobody else.

use std::sync::Arc;

use super::rig::*;
use crate::budget::Budget;
use crate::*;

/// What a read costs at most.
const READ: usize = 1 << 20;

const ENTRY: usize = 100 << 10;

fn large(n: usize) -> Vec<bytes::Bytes> {
    (0..n).map(|i| single(&format!("{}{i}", "0".repeat(ENTRY)))).collect()
}

/// A consumer of a subscription, on a connection.
async fn on(topic: &Arc<Topic>, share: &Share, subscription: &str, kind: SubscriptionType) -> Client {
    let subscription = subscription.to_owned();
    Client::with(topic, ConsumerOptions { subscription, share: share.clone(), ..options(kind) }, 0).await
}

fn number(delivery: &Delivery) -> usize {
    texts(&delivery.entry)[0].parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_takes_nothing_stops_no_other_consumer_of_its_subscription() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    publish(&topic, large(60)).await;
    let budget = Budget::new(usize::MAX, READ, READ);
    let (deaf, other) = (budget.share(), budget.share());
    let stuck = on(&topic, &deaf, "s", SubscriptionType::Shared).await;
    let mut client = on(&topic, &other, "s", SubscriptionType::Shared).await;
    stuck.consumer.flow(1_000);
    let stats = until(&topic, |stats| stats.unacked_messages > 0).await;
    let kept = usize::try_from(stats.unacked_messages).unwrap();
    assert!(kept <= READ / ENTRY, "{kept} entries are in its queue");
    client.consumer.flow(1_000);
    let mut numbers = Vec::new();
    // It is not known what the first one has got by now; at least so many are left.
    while numbers.len() < 60 - READ / ENTRY {
        let delivery = client.next().await;
        numbers.push(number(&delivery));
        assert!(budget.held() <= 2 * READ);
    }
    // What it had comes to the other one.
    drop(stuck);
    while numbers.len() < 60 {
        numbers.push(number(&client.next().await));
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..60).collect::<Vec<_>>(), "each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_of_one_connection_do_not_starve_each_other() {
    let rig = Rig::new().await;
    let topic = rig.topic("t").await;
    publish(&topic, large(30)).await;
    let budget = Budget::new(usize::MAX, 2 * READ, READ);
    let share = budget.share();
    let mut clients = Vec::new();
    for subscription in ["a", "b", "c", "d", "e"] {
        clients.push(on(&topic, &share, subscription, SubscriptionType::Exclusive).await);
    }
    // Each read brings more than one permit lets out: what is left over must not fill the connection's share.
    for round in 0..30 {
        for client in &mut clients {
            client.consumer.flow(1);
            let delivery = client.next().await;
            assert_eq!(number(&delivery), round);
            assert!(budget.held() <= 2 * READ);
        }
    }
    drop(clients);
    // What the dispatching tasks still hold comes back when they have done.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while budget.held() > 0 {
        assert!(tokio::time::Instant::now() < deadline, "{} bytes are held for nobody", budget.held());
        tokio::task::yield_now().await;
    }
}
