//! Any interleaving of publishing, reading, acknowledging, asking again and restarts: an accepted message
//! that is not acknowledged is never lost, one that is acknowledged or rejected is never delivered, and
//! none is delivered twice without a reason: it was asked for again, or its client acknowledged an earlier
//! copy of its entry, and it is not certain which one was meant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use weir_filter::OnFailure;

use super::rig::*;
use crate::*;

#[derive(Clone, Debug)]
enum Step {
    /// One entry; each message is named after what the filter makes of it.
    Publish { batched: bool, messages: Vec<&'static str> },
    /// Whatever comes at once, at most so many entries.
    Read(usize),
    /// One of the entries read; of a batch the messages at which the bits are set stay unacknowledged.
    Acknowledge { which: usize, unacked: u8 },
    /// One of the copies that were read before everything was asked for again, or the client went.
    AcknowledgeLate { which: usize },
    /// Everything again.
    Redeliver,
    /// The client goes and comes again.
    Reconnect,
    /// The process is killed and started again.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let message = prop_oneof![3 => Just("yes"), 2 => Just("no"), 1 => Just("later"), 1 => Just("sick")];
    let publish = (any::<bool>(), prop::collection::vec(message, 1..6))
        .prop_map(|(batched, messages)| Step::Publish { batched, messages });
    let acknowledge = (any::<usize>(), prop_oneof![Just(0), any::<u8>()])
        .prop_map(|(which, unacked)| Step::Acknowledge { which, unacked });
    let step = prop_oneof![
        5 => publish,
        4 => (1_usize..5).prop_map(Step::Read),
        6 => acknowledge,
        2 => any::<usize>().prop_map(|which| Step::AcknowledgeLate { which }),
        1 => Just(Step::Redeliver),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..40)
}

struct World {
    rig: Rig,
    topic: Arc<Topic>,
    client: Client,
    kind: SubscriptionType,
    named: usize,
    /// Published, not rejected by the filter, not acknowledged.
    owed: BTreeSet<String>,
    /// Read and not wholly acknowledged.
    out: BTreeMap<Position, Vec<String>>,
    /// The same, before it was asked for again.
    earlier: Vec<(Position, Vec<String>)>,
    /// Entries that were asked for again: an acknowledgement of them may be taken for that of a copy.
    again: BTreeSet<Position>,
    /// Of each message that was delivered, how many more times it may be.
    more: BTreeMap<String, usize>,
}

impl World {
    async fn new(kind: SubscriptionType, filtered: bool) -> Self {
        let rig = Rig::new().await;
        if filtered {
            rig.bind("t", OnFailure::Withhold).await;
        }
        let topic = rig.topic("t").await;
        let client = Client::new(&topic, kind, 1_000_000).await;
        Self {
            rig,
            topic,
            client,
            kind,
            named: 0,
            owed: BTreeSet::new(),
            out: BTreeMap::new(),
            earlier: Vec::new(),
            again: BTreeSet::new(),
            more: BTreeMap::new(),
        }
    }

    /// What was read is asked for again; its client still has it.
    fn come_again(&mut self) {
        let out = std::mem::take(&mut self.out);
        for (position, texts) in &out {
            // Of one that was asked for again before, what was acknowledged may have been taken for another copy's.
            let doubtful = !self.again.insert(*position);
            for text in texts.iter().filter(|text| doubtful || self.owed.contains(*text)) {
                *self.more.entry(text.clone()).or_default() += 1;
            }
        }
        self.earlier.extend(out);
    }

    async fn publish(&mut self, batched: bool, messages: &[&str], filtered: bool) {
        let mut names = Vec::new();
        for message in messages {
            self.named += 1;
            names.push(format!("{message}{}", self.named));
        }
        self.owed.extend(names.iter().filter(|name| !filtered || !name.starts_with("no")).cloned());
        let entries = if batched {
            vec![encode(b'B', 0, &names)]
        } else {
            names.iter().map(|name| single(name)).collect()
        };
        publish(&self.topic, entries).await;
    }

    fn received(&mut self, delivery: &Delivery) {
        let texts = texts(&delivery.entry);
        for text in &texts {
            match self.more.get_mut(text) {
                Some(0) => panic!("{text} was delivered once more without a reason"),
                Some(more) => *more -= 1,
                None => {
                    assert!(self.owed.contains(text), "{text} was delivered, and is rejected");
                    self.more.insert(text.clone(), 0);
                }
            }
        }
        self.out.insert(delivery.position, texts);
    }

    /// An acknowledgement of an entry that was asked for again may be taken for that of a copy: then what is out,
    /// or was until now, comes once more.
    fn may_be_doubted(&mut self, position: Position, acknowledged: &[String]) {
        if self.again.contains(&position) {
            let out = self.out.get(&position).into_iter().flatten();
            let texts: BTreeSet<String> = out.chain(acknowledged).cloned().collect();
            for text in texts {
                if let Some(more) = self.more.get_mut(&text) {
                    *more += 1;
                }
            }
        }
    }

    async fn acknowledge(&mut self, position: Position, bits: u8) {
        let texts = self.out.remove(&position).unwrap();
        self.may_be_doubted(position, &texts);
        let unacked: Vec<u32> =
            (0..u32::try_from(texts.len()).unwrap()).filter(|i| bits >> i & 1 == 1).collect();
        for (i, text) in texts.iter().enumerate() {
            if bits >> i & 1 == 0 {
                self.owed.remove(text);
            }
        }
        if !unacked.is_empty() {
            self.out.insert(position, texts);
        }
        self.client.ack(position, (!unacked.is_empty()).then_some(unacked)).await;
    }

    async fn step(&mut self, step: Step, filtered: bool) {
        match step {
            Step::Publish { batched, messages } => self.publish(batched, &messages, filtered).await,
            Step::Read(n) => {
                for _ in 0..n {
                    let soon = Duration::from_millis(2);
                    // What comes within that time depends on the machine; what is true of it does not.
                    let Ok(next) = tokio::time::timeout(soon, self.client.deliveries.next()).await else {
                        return;
                    };
                    self.received(&next.unwrap());
                }
            }
            Step::Acknowledge { which, unacked } => {
                if !self.out.is_empty() {
                    let position = *self.out.keys().nth(which % self.out.len()).unwrap();
                    // An entry once acknowledged in part keeps its shape here until it comes again.
                    let whole = self.out[&position].iter().any(|text| !self.owed.contains(text));
                    self.acknowledge(position, if whole { 0 } else { unacked }).await;
                }
            }
            Step::AcknowledgeLate { which } => {
                if !self.earlier.is_empty() {
                    let (position, texts) = self.earlier.swap_remove(which % self.earlier.len());
                    self.owed.retain(|text| !texts.contains(text));
                    self.may_be_doubted(position, &[]);
                    self.client.ack(position, None).await;
                }
            }
            Step::Redeliver => {
                self.client.consumer.redeliver(None);
                self.come_again();
            }
            Step::Reconnect => self.reconnect().await,
            Step::Restart => unreachable!("the world ends with it"),
        }
    }

    async fn reconnect(&mut self) {
        // The old one has to be gone first: an exclusive subscription has one place.
        let shared = ConsumerOptions { subscription: "aside".to_owned(), ..options(self.kind) };
        self.client = Client::with(&self.topic, shared, 0).await;
        self.client = Client::new(&self.topic, self.kind, 1_000_000).await;
        self.come_again();
    }

    async fn restart(self) -> Self {
        let Self { rig, topic, client, kind, named, owed, again, out, earlier, mut more, .. } = self;
        drop((client, topic));
        let rig = rig.restart().await;
        let topic = rig.topic("t").await;
        let client = Client::new(&topic, kind, 1_000_000).await;
        // What is not acknowledged comes anew; and what is, where that may have been taken for a copy's.
        more.retain(|text, _| !owed.contains(text));
        let doubtful =
            out.iter().map(|(at, texts)| (*at, texts)).chain(earlier.iter().map(|(at, texts)| (*at, texts)));
        let doubtful = doubtful.filter(|(position, _)| again.contains(position)).flat_map(|(_, texts)| texts);
        for text in doubtful.collect::<BTreeSet<_>>() {
            if let Some(more) = more.get_mut(text) {
                *more += 1;
            }
        }
        let (out, earlier) = (BTreeMap::new(), Vec::new());
        Self { rig, topic, client, kind, named, owed, out, earlier, again, more }
    }

    /// Everything that is owed comes, and then nothing is left.
    async fn finish(mut self) {
        while let Some(position) = self.out.keys().next().copied() {
            self.acknowledge(position, 0).await;
        }
        self.earlier.clear();
        while !self.owed.is_empty() {
            let delivery = self.client.next().await;
            self.received(&delivery);
            self.acknowledge(delivery.position, 0).await;
        }
        // What is in doubt comes once more.
        let client = &mut self.client;
        let again = async {
            while let Some(delivery) = client.deliveries.next().await {
                for text in texts(&delivery.entry) {
                    let more = self.more.get_mut(&text).filter(|more| **more > 0);
                    // Acknowledging it may be doubted, too: that gives back what this takes.
                    assert!(more.is_some(), "{text} came once more without a reason");
                }
                client.ack(delivery.position, None).await;
            }
        };
        tokio::select! {
            () = again => panic!("the consumer was closed"),
            _ = until(&self.topic, |stats| stats.msg_backlog == 0) => {}
        }
        until(&self.topic, |stats| stats.msg_backlog == 0 && stats.unacked_messages == 0).await;
        drop(self.rig);
    }
}

async fn play(kind: SubscriptionType, filtered: bool, steps: Vec<Step>) {
    let mut world = World::new(kind, filtered).await;
    for step in steps {
        world = match step {
            Step::Restart => world.restart().await,
            other => {
                world.step(other, filtered).await;
                world
            }
        };
    }
    world.finish().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_nothing_comes_twice(
        shared in any::<bool>(),
        filtered in prop_oneof![3 => Just(true), 1 => Just(false)],
        steps in steps(),
    ) {
        let kind = if shared { SubscriptionType::Shared } else { SubscriptionType::Exclusive };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
        runtime.block_on(play(kind, filtered, steps));
    }
}
