//! What the broker has at this moment, in sums: for metrics, which name no topic.

use crate::broker::Broker;

/// Sums over everything that there is. Those of subscriptions are of loaded topics only: the others have
/// nobody connected and judge nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Topics, a partitioned one counted once.
    pub topics: u64,
    /// Topics that entries lie in: partitions one by one.
    pub partitions: u64,
    /// Those of them that are loaded.
    pub loaded: u64,
    /// Their subscriptions.
    pub subscriptions: u64,
    /// Of these, those that wait at their cursor because of a filter.
    pub paused_subscriptions: u64,
    /// Connected producers.
    pub producers: u64,
    /// Connected consumers.
    pub consumers: u64,
    /// Messages out at consumers.
    pub unacked_messages: u64,
    /// Messages that wait because a filter broke on them.
    pub withheld_messages: u64,
    /// Messages that wait because a filter rescheduled them.
    pub rescheduled_messages: u64,
    /// Judging threads that an extension holds.
    pub held_threads: u64,
    /// Bytes of entries in memory on their way to consumers, overhead included.
    pub delivering_bytes: u64,
    /// Deleted topics whose entries still take room.
    pub topics_to_remove: u64,
    /// The store cannot be written at this moment.
    pub store_failing: bool,
    /// How often writing it has failed since the start.
    pub store_failures: u64,
}

impl Figures {
    /// Adds what a subscription has.
    pub(crate) fn add(&mut self, one: &SubscriptionFigures) {
        self.subscriptions += 1;
        self.paused_subscriptions += u64::from(one.paused);
        self.consumers += one.consumers;
        self.unacked_messages += one.unacked_messages;
        self.withheld_messages += one.withheld_messages;
        self.rescheduled_messages += one.rescheduled_messages;
    }
}

/// What waits at one subscription.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SubscriptionFigures {
    pub paused: bool,
    pub consumers: u64,
    pub unacked_messages: u64,
    pub withheld_messages: u64,
    pub rescheduled_messages: u64,
}

impl Broker {
    /// Sums of this moment. Takes the locks of each loaded topic and its subscriptions in turn, for a moment
    /// each, and reads no disk: some milliseconds for ten thousand topics.
    pub fn figures(&self) -> Figures {
        let (topics, partitions) = self.catalogue().count();
        let engine = self.engine();
        let (store_failing, store_failures) = engine.records.failures();
        let loaded = self.loaded();
        let mut figures = Figures {
            topics,
            partitions,
            loaded: loaded.len() as u64,
            held_threads: engine.workers.held() as u64,
            delivering_bytes: engine.budget.held() as u64,
            topics_to_remove: self.removing() as u64,
            store_failing,
            store_failures,
            ..Figures::default()
        };
        for topic in loaded {
            topic.add_to(&mut figures);
        }
        figures
    }
}
