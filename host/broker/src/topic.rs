//! A topic: its producers, its entries, its subscriptions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_filter::{Bindings, TopicName, Workers};
use weir_store::{CursorState, EntryLog, Position, Records, Series, StoreError, TopicId};

use crate::broker::BrokerOptions;
use crate::budget::Budget;
use crate::catalogue::check_properties_of;
use crate::decoder::EntryDecoder;
use crate::error::BrokerError;
use crate::figures::Figures;
use crate::producer::{Badge, Producer, average};
use crate::stats::TopicStats;
use crate::subscription::{
    Consumer, ConsumerOptions, Deliveries, Ends, MAX_CLIENT_NAME_BYTES, MAX_SUBSCRIPTION_NAME_BYTES, SeekTo,
    Start, Subscription, before,
};

/// The most producers of one topic; each costs some hundred bytes.
const MAX_PRODUCERS: usize = 100_000;

/// The most subscriptions of one topic; each costs a cursor on disk and two tasks.
const MAX_SUBSCRIPTIONS: usize = 10_000;

/// What all topics share.
pub(crate) struct Engine {
    pub(crate) log: Arc<dyn EntryLog>,
    pub(crate) records: Records,
    pub(crate) bindings: Arc<Bindings>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) decoder: Arc<dyn EntryDecoder>,
    pub(crate) options: BrokerOptions,
    /// What may be in memory on its way to consumers.
    pub(crate) budget: Arc<Budget>,
    /// The tasks of all subscriptions.
    pub(crate) tasks: TaskTracker,
    /// Appends that are not durable yet.
    pub(crate) appends: TaskTracker,
    /// Ends all subscriptions.
    pub(crate) stop: CancellationToken,
    /// Dropped and not drained: nothing more is written, as after the end of the process.
    pub(crate) abandoned: AtomicBool,
    /// How often this store has been opened: part of generated names.
    pub(crate) opened: u64,
    pub(crate) next_producer: AtomicU64,
}

/// The part of a topic that its subscriptions need.
pub(crate) struct Core {
    pub(crate) name: TopicName,
    pub(crate) id: TopicId,
    pub(crate) engine: Arc<Engine>,
    /// The last durable entry.
    pub(crate) last: watch::Sender<Option<Position>>,
    messages_in: AtomicU64,
    bytes_in: AtomicU64,
}

/// One topic, or one partition of a partitioned one, that can be written to and read from.
///
/// At a hundred times the subscriptions, each append wakes a hundred times as many tasks.
pub struct Topic {
    core: Arc<Core>,
    /// Lock order: `changing`, `state`, a subscription's window.
    ///
    /// Held on blocking threads, across the disk: one makes or deletes a subscription at a time, so that
    /// no cursor is written over or deleted that another has just made.
    changing: Mutex<()>,
    /// Held for moments.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Set when the topic is being deleted, or the broker drains: nobody comes in.
    closed: bool,
    producers: BTreeMap<String, Arc<Badge>>,
    subscriptions: BTreeMap<String, Arc<Subscription>>,
}

/// A subscription that has just been made. One that lives as long as its consumers ends with this if none
/// came: whoever asked for it may have gone while it was made.
struct Made {
    topic: Arc<Topic>,
    subscription: Arc<Subscription>,
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.subscription.durable {
            self.topic.forget_if_unused(&self.subscription);
        }
    }
}

impl Core {
    /// Queues an entry; what is received is where it went, once it is durable.
    pub(crate) fn append(
        self: &Arc<Self>,
        series: &Series,
        entry: Bytes,
        messages: u32,
    ) -> oneshot::Receiver<Result<Position, StoreError>> {
        let (tell, told) = oneshot::channel();
        let core = Arc::clone(self);
        let size = entry.len() as u64;
        let under_way = self.engine.appends.token();
        let done = Box::new(move |result: Result<Position, StoreError>| {
            if let Ok(position) = result {
                core.messages_in.fetch_add(u64::from(messages), Ordering::Relaxed);
                core.bytes_in.fetch_add(size, Ordering::Relaxed);
                core.last.send_replace(Some(position));
            }
            // The producer may have gone: then nobody wants to know.
            drop(tell.send(result));
            drop(under_way);
        });
        self.engine.log.append_in(series, self.id, entry, messages, done);
        told
    }

    /// Runs something that blocks on the disk.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        what: &'static str,
        work: impl FnOnce(&Arc<Self>) -> Result<T, BrokerError> + Send + 'static,
    ) -> Result<T, BrokerError> {
        let core = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&core)).await;
        done.map_err(|_panicked| BrokerError::lost(what))?
    }

    pub(crate) async fn ends(self: &Arc<Self>) -> Result<Option<Ends>, BrokerError> {
        self.blocking("reading", |core| {
            let Some((first, last)) = core.engine.log.bounds(core.id)? else { return Ok(None) };
            let entry = core.engine.log.read(core.id, last, 1, 0)?.into_iter().next();
            Ok(entry.map(|entry| Ends { first, last: entry.position, last_entry: entry.bytes }))
        })
        .await
    }

    /// The mark-delete position that makes `to` the next thing read.
    pub(crate) async fn find(self: &Arc<Self>, to: SeekTo) -> Result<Option<Position>, BrokerError> {
        match to {
            SeekTo::Earliest => Ok(None),
            SeekTo::Latest => Ok(*self.last.borrow()),
            SeekTo::Position(position) => Ok(self.up_to_last(before(position))),
            SeekTo::PublishTime(time) => self.blocking("seeking", move |core| core.before_time(time)).await,
        }
    }

    /// The position before the first entry published at or after `time`. Blocks on the disk, for some sixty
    /// reads of one entry, however many there are.
    fn before_time(&self, time: u64) -> Result<Option<Position>, BrokerError> {
        let Some((first, last)) = self.engine.log.bounds(self.id)? else { return Ok(None) };
        let number = |at: Position| u128::from(at.ledger) << 64 | u128::from(at.entry);
        let half = |half: u128| u64::try_from(half).expect("half of 128 bits has 64");
        let position = |number: u128| Position {
            ledger: half(number >> 64),
            entry: half(number & u128::from(u64::MAX)),
        };
        // All before `low` were published earlier; none at or behind `high` was.
        let (mut low, mut high) = (first, crate::subscription::next(last));
        while low < high {
            let middle = position(number(low) + (number(high) - number(low)) / 2);
            let entry = self.engine.log.read(self.id, middle, 1, 0)?.into_iter().next();
            // One whose time cannot be read belongs to those before it.
            let earlier = entry.filter(|entry| {
                self.engine.decoder.publish_time(&entry.bytes).map_or(true, |published| published < time)
            });
            match earlier {
                Some(entry) => low = crate::subscription::next(entry.position),
                None => high = middle,
            }
        }
        Ok((low > first).then(|| before(low)).flatten())
    }

    /// Blocks on the disk for [`Start::Since`].
    fn start_at(&self, start: Start) -> Result<CursorState, BrokerError> {
        let mark_delete = match start {
            Start::Earliest => None,
            Start::Latest => *self.last.borrow(),
            Start::At(position) => self.up_to_last(before(position)),
            Start::After(position) => self.up_to_last(Some(position)),
            Start::Since(time) => self.before_time(time)?,
        };
        Ok(CursorState { mark_delete, ..CursorState::default() })
    }

    /// Beyond the last entry (ids of a topic that was deleted since) a cursor would miss what comes next.
    fn up_to_last(&self, mark_delete: Option<Position>) -> Option<Position> {
        mark_delete.min(*self.last.borrow())
    }
}

impl Topic {
    /// Loads a topic with its subscriptions. Blocks on the disk; needs a tokio runtime around it.
    pub(crate) fn load(
        engine: &Arc<Engine>,
        name: &TopicName,
        id: TopicId,
    ) -> Result<Arc<Self>, BrokerError> {
        let last = engine.log.bounds(id)?.map(|(_, last)| last);
        let core = Arc::new(Core {
            name: name.clone(),
            id,
            engine: Arc::clone(engine),
            last: watch::Sender::new(last),
            messages_in: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
        });
        let mut state = State::default();
        for (name, cursor) in engine.records.cursors(id)? {
            let subscription = Subscription::start(&core, &name, true, cursor);
            state.subscriptions.insert(name, subscription);
        }
        Ok(Arc::new(Self { core, changing: Mutex::default(), state: Mutex::new(state) }))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Its full name, partition and all.
    pub fn name(&self) -> &TopicName {
        &self.core.name
    }

    /// Adds a producer. Without a name it gets one that no producer of this store ever had.
    ///
    /// # Errors
    /// [`BrokerError::ProducerBusy`] when one of that name is connected; [`BrokerError::Invalid`] when its
    /// name is longer than [`MAX_CLIENT_NAME_BYTES`] or its metadata too much; when there are too many; when
    /// the topic is being deleted.
    pub fn add_producer(
        self: &Arc<Self>,
        name: Option<String>,
        metadata: BTreeMap<String, String>,
    ) -> Result<Producer, BrokerError> {
        check_client("producer", name.as_deref().unwrap_or_default(), &metadata)?;
        let engine = &self.core.engine;
        let id = engine.next_producer.fetch_add(1, Ordering::Relaxed);
        let name = name.unwrap_or_else(|| format!("{}-{}-{id}", engine.options.cluster, engine.opened));
        let badge = Arc::new(Badge::new(id, name.clone(), metadata));
        let mut state = self.state.lock();
        state.check_open(self.name())?;
        if state.producers.contains_key(&name) {
            return Err(BrokerError::ProducerBusy { producer: name, topic: self.name().to_string() });
        }
        if state.producers.len() >= MAX_PRODUCERS {
            let reason = format!("topic {} has {MAX_PRODUCERS} producers already", self.name());
            return Err(BrokerError::TooMany(reason));
        }
        state.producers.insert(name, Arc::clone(&badge));
        drop(state);
        Ok(Producer::new(Arc::clone(self), badge))
    }

    pub(crate) fn remove_producer(&self, badge: &Badge) {
        let mut state = self.state.lock();
        // Its name may be another's by now.
        if state.producers.get(&badge.name).is_some_and(|known| known.id == badge.id) {
            state.producers.remove(&badge.name);
        }
    }

    /// Adds a consumer to a subscription, making the subscription if it is not there. The cursor of a new
    /// one is durable when this returns. Nothing is delivered before [`Consumer::flow`].
    ///
    /// # Errors
    /// [`BrokerError::ConsumerBusy`] when it is taken or of another type;
    /// [`BrokerError::SubscriptionNotFound`] when it is not there and `create` is false.
    pub async fn subscribe(
        self: &Arc<Self>,
        options: ConsumerOptions,
    ) -> Result<(Consumer, Deliveries), BrokerError> {
        check_subscription_name(&options.subscription)?;
        check_client("consumer", &options.consumer_name, &options.metadata)?;
        let known = self.state.lock().subscriptions.contains_key(&options.subscription);
        // Let go of at the end, below the topic's lock.
        let _made = match known {
            true => None,
            false if !options.create => {
                return Err(BrokerError::SubscriptionNotFound(options.subscription));
            }
            false => {
                let made = self.make_subscription(&options.subscription, options.durable, options.start);
                match made.await {
                    Ok(made) => Some(made),
                    // Somebody else was quicker: theirs will do.
                    Err(BrokerError::AlreadyExists(_)) => None,
                    Err(other) => return Err(other),
                }
            }
        };
        // Under the topic's lock, so that it cannot be dropped as unused in between.
        let state = self.state.lock();
        state.check_open(self.name())?;
        let Some(subscription) = state.subscriptions.get(&options.subscription) else {
            return Err(BrokerError::SubscriptionNotFound(options.subscription));
        };
        subscription.add_consumer(self, options)
    }

    /// Makes a durable subscription without a consumer.
    ///
    /// # Errors
    /// When it exists.
    pub async fn create_subscription(self: &Arc<Self>, name: &str, start: Start) -> Result<(), BrokerError> {
        check_subscription_name(name)?;
        self.make_subscription(name, true, start).await.map(drop)
    }

    async fn make_subscription(
        self: &Arc<Self>,
        name: &str,
        durable: bool,
        start: Start,
    ) -> Result<Made, BrokerError> {
        let topic = Arc::clone(self);
        let name = name.to_owned();
        let make = move |core: &Arc<Core>| {
            let _one_at_a_time = topic.changing.lock();
            let cursor = core.start_at(start)?;
            topic.state.lock().check_new(&name, topic.name())?;
            if durable {
                core.engine.records.put_cursor(core.id, &name, &cursor)?;
            }
            let mut state = topic.state.lock();
            state.check_new(&name, topic.name())?;
            let subscription = Subscription::start(core, &name, durable, cursor);
            state.subscriptions.insert(name, Arc::clone(&subscription));
            drop(state);
            Ok(Made { topic: Arc::clone(&topic), subscription })
        };
        self.core.blocking("making a subscription", make).await
    }

    /// Deletes a subscription and its cursor. With `force`, its consumers are closed first.
    ///
    /// # Errors
    /// When there is none, or it has consumers.
    pub async fn delete_subscription(self: &Arc<Self>, name: &str, force: bool) -> Result<(), BrokerError> {
        self.drop_subscription(name, None, force).await
    }

    /// As [`delete_subscription`](Self::delete_subscription); `asking` may be connected in any case.
    pub(crate) async fn drop_subscription(
        self: &Arc<Self>,
        name: &str,
        asking: Option<u64>,
        force: bool,
    ) -> Result<(), BrokerError> {
        let topic = Arc::clone(self);
        let name = name.to_owned();
        let delete = move |_: &Arc<Core>| {
            let _one_at_a_time = topic.changing.lock();
            let subscription = {
                let mut state = topic.state.lock();
                let Some(subscription) = state.subscriptions.get(&name) else {
                    return Err(BrokerError::SubscriptionNotFound(name));
                };
                let others = subscription.consumers_beside(asking);
                if others > 0 && !force {
                    let reason = format!("subscription {name} has {others} other connected consumers");
                    return Err(BrokerError::InUse(reason));
                }
                state.subscriptions.remove(&name).expect("it was just found")
            };
            subscription.stop();
            subscription.delete_cursor()
        };
        self.core.blocking("deleting a subscription", delete).await
    }

    /// A subscription that lives as long as its [`Consumer`]s ends with the last one.
    pub(crate) fn forget_if_unused(&self, subscription: &Arc<Subscription>) {
        let mut state = self.state.lock();
        let known = state.subscriptions.get(&subscription.name);
        let same = known.is_some_and(|known| Arc::ptr_eq(known, subscription));
        if same && !subscription.has_handles() {
            state.subscriptions.remove(&subscription.name);
            drop(state);
            subscription.stop();
        }
    }

    /// Names of its subscriptions, sorted.
    pub fn subscriptions(&self) -> Vec<String> {
        self.state.lock().subscriptions.keys().cloned().collect()
    }

    /// Connected producers and consumers.
    pub(crate) fn users(&self) -> (usize, usize) {
        let state = self.state.lock();
        let consumers = state.subscriptions.values().map(|one| one.consumers_beside(None)).sum();
        (state.producers.len(), consumers)
    }

    /// Adds what it has at this moment.
    pub(crate) fn add_to(&self, figures: &mut Figures) {
        let state = self.state.lock();
        figures.producers += state.producers.len() as u64;
        for subscription in state.subscriptions.values() {
            figures.add(&subscription.figures());
        }
    }

    /// Lets nobody in, and closes whoever is in.
    pub(crate) fn close(&self) -> Vec<Arc<Subscription>> {
        let (producers, subscriptions) = {
            let mut state = self.state.lock();
            state.closed = true;
            (std::mem::take(&mut state.producers), std::mem::take(&mut state.subscriptions))
        };
        for producer in producers.into_values() {
            producer.closed.cancel();
        }
        let subscriptions: Vec<_> = subscriptions.into_values().collect();
        for subscription in &subscriptions {
            subscription.stop();
        }
        subscriptions
    }

    /// What it tells of itself. Counts the backlog in the store: a few reads a subscription.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn stats(&self) -> Result<TopicStats, BrokerError> {
        let (publishers, subscriptions) = {
            let state = self.state.lock();
            let publishers: Vec<_> = state.producers.values().map(|badge| badge.stats()).collect();
            (publishers, state.subscriptions.clone())
        };
        let count = move |core: &Arc<Core>| {
            let storage = core.engine.log.count_after(core.id, None)?;
            let (messages, bytes) =
                (core.messages_in.load(Ordering::Relaxed), core.bytes_in.load(Ordering::Relaxed));
            let mut stats = TopicStats {
                msg_in_counter: messages,
                bytes_in_counter: bytes,
                average_msg_size: average(bytes, messages),
                storage_size: storage.bytes,
                publishers,
                ..TopicStats::default()
            };
            for (name, subscription) in subscriptions {
                let one = subscription.stats()?;
                stats.msg_out_counter += one.msg_out_counter;
                stats.bytes_out_counter += one.bytes_out_counter;
                stats.backlog_size = stats.backlog_size.max(one.backlog_size);
                stats.subscriptions.insert(name, one);
            }
            Ok(stats)
        };
        self.core.blocking("counting", count).await
    }
}

impl State {
    fn check_open(&self, topic: &TopicName) -> Result<(), BrokerError> {
        if self.closed {
            return Err(BrokerError::Closing(format!("topic {topic} is being closed")));
        }
        Ok(())
    }

    fn check_new(&self, subscription: &str, topic: &TopicName) -> Result<(), BrokerError> {
        self.check_open(topic)?;
        if self.subscriptions.contains_key(subscription) {
            return Err(BrokerError::AlreadyExists(format!("subscription {subscription}")));
        }
        if self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            let reason = format!("topic {topic} has {MAX_SUBSCRIPTIONS} subscriptions already");
            return Err(BrokerError::TooMany(reason));
        }
        Ok(())
    }
}

fn check_client(whose: &str, name: &str, metadata: &BTreeMap<String, String>) -> Result<(), BrokerError> {
    if name.len() > MAX_CLIENT_NAME_BYTES {
        return Err(BrokerError::Invalid(format!(
            "a {whose}'s name has at most {MAX_CLIENT_NAME_BYTES} bytes, this one has {}",
            name.len()
        )));
    }
    check_properties_of(whose, metadata)
}

fn check_subscription_name(name: &str) -> Result<(), BrokerError> {
    if name.is_empty() || name.len() > MAX_SUBSCRIPTION_NAME_BYTES {
        return Err(BrokerError::Invalid(format!(
            "a subscription's name has 1 to {MAX_SUBSCRIPTION_NAME_BYTES} bytes, this one has {}",
            name.len()
        )));
    }
    Ok(())
}
