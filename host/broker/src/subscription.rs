//! A subscription: its cursor, its consumers, and how entries get from one to the others.

mod cursor;
mod dispatch;
mod judging;
mod naming;
mod seat;
mod window;

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use weir_store::{CursorState, Position};

use self::cursor::Written;
pub(crate) use self::cursor::{before, next};
pub(crate) use self::dispatch::{MAX_READ_BYTES, MAX_READ_ENTRIES};
use self::seat::Seat;
pub(crate) use self::seat::seconds;
use self::window::{Limits, Window};
use crate::budget::{Held, Share};
use crate::error::BrokerError;
use crate::figures::SubscriptionFigures;
use crate::stats::SubscriptionStats;
use crate::topic::{Core, Topic};

/// How consumers share a subscription. (Failover and key-shared ones are not served yet.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionType {
    /// One consumer; others are refused.
    Exclusive,
    /// Entries go to the consumers in turn.
    Shared,
}

/// Where a new subscription begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With what is published from now on.
    Latest,
    /// With the first entry there is.
    Earliest,
    /// With this entry, or the next one there is. One beyond the last entry is as [`Latest`](Self::Latest).
    At(Position),
    /// With what follows this entry. One beyond the last entry is as [`Latest`](Self::Latest).
    After(Position),
    /// With the first entry published at or after this time; see [`SeekTo::PublishTime`].
    Since(u64),
}

/// Where a subscription is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// Behind the last entry.
    Latest,
    /// To the first entry.
    Earliest,
    /// To this entry: it is the next to be delivered. One beyond the last entry is as
    /// [`Latest`](Self::Latest).
    Position(Position),
    /// To the first entry published at or after this time, in milliseconds since 1970. Found by halving, as
    /// Pulsar does: exact as long as the times do not go back from one entry to the next.
    PublishTime(u64),
}

/// How a consumer subscribes.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// The subscription's name: not empty, at most [`MAX_SUBSCRIPTION_NAME_BYTES`].
    pub subscription: String,
    /// How it is shared.
    pub kind: SubscriptionType,
    /// Where it begins if it is new.
    pub start: Start,
    /// Whether the subscription outlives its consumers, and the process.
    pub durable: bool,
    /// Whether the subscription may be made if it is not there.
    pub create: bool,
    /// The consumer's name, for statistics: at most [`MAX_CLIENT_NAME_BYTES`].
    pub consumer_name: String,
    /// What the client says of itself: as much as a topic may have of properties.
    pub metadata: BTreeMap<String, String>,
    /// The share of its connection ([`Broker::share`](crate::Broker::share)).
    pub share: Share,
}

/// The first and the last entry of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Where the first one lies.
    pub first: Position,
    /// Where the last one lies.
    pub last: Position,
    /// The bytes of the last one.
    pub last_entry: Bytes,
}

/// An entry on its way to a consumer.
#[derive(Debug)]
pub struct Delivery {
    /// Where it lies; what the client acknowledges.
    pub position: Position,
    /// How often its consumer asked for it to be delivered again.
    pub redelivery_count: u32,
    /// The producer's bytes; or, if part of its batch is rejected, waiting or acknowledged, the batch
    /// rewritten to the other messages. Nothing has to be hidden from the client beside this (no `ack_set`).
    pub entry: Bytes,
    /// How many messages are in `entry`: what it costs in permits.
    pub messages: u32,
    /// What it takes of its connection's share: to be dropped when the bytes are written.
    pub held: Held,
}

/// Which acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// These positions.
    Individual,
    /// Everything that was delivered up to the position. On a shared subscription it does nothing, as
    /// Pulsar's.
    Cumulative,
}

/// One acknowledged position, as the client sees the entry (indexes count in what it was delivered).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Which entry.
    pub position: Position,
    /// The batch indexes that are still to be acknowledged; `None`: the whole entry is.
    pub unacked: Option<Vec<u32>>,
    /// How many messages the client says the batch has, if it says so: an acknowledgement of indexes
    /// that belongs to an earlier delivery of another shape is left aside then.
    pub batch_size: Option<u32>,
}

/// The longest name of a subscription.
pub const MAX_SUBSCRIPTION_NAME_BYTES: usize = 4096;

/// The longest name of a producer or consumer.
pub const MAX_CLIENT_NAME_BYTES: usize = 4096;

/// A consumer: what its client asks of the subscription. Dropping it closes the consumer: what it had not
/// acknowledged is delivered to others, or to the next. One that the broker has closed still keeps a
/// subscription that is not durable, so that who was closed by a seek finds it where the seek has put it.
pub struct Consumer {
    topic: Arc<Topic>,
    subscription: Arc<Subscription>,
    id: u64,
    name: String,
}

/// The other half of a [`Consumer`]: the entries for it.
pub struct Deliveries {
    subscription: Arc<Subscription>,
    id: u64,
    wake: Arc<Notify>,
}

impl Deliveries {
    /// The next delivery; `None` once the consumer is closed: dropped, or by the broker (topic or
    /// subscription deleted, seek, drain), when the client has to be told. Cancel-safe.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            let taken = self.subscription.window.lock().take(self.id);
            match taken {
                Err(window::Closed) => return None,
                Ok(Some(delivery)) => {
                    // There is room in the queue again.
                    self.subscription.wake.notify_one();
                    return Some(delivery);
                }
                Ok(None) => self.wake.notified().await,
            }
        }
    }
}

impl Consumer {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The subscription's name.
    pub fn subscription(&self) -> &str {
        &self.subscription.name
    }

    /// Lets the broker send this many more messages.
    pub fn flow(&self, permits: u32) {
        self.subscription.window.lock().flow(self.id, permits);
        self.subscription.wake.notify_one();
    }

    /// Acknowledges; done in memory when this is called, and the future resolves once the cursor would
    /// survive the end of the process. Unknown positions and indexes are ignored.
    ///
    /// # Errors
    /// When the store cannot write, and when the consumer has been closed: nothing is acknowledged then, and
    /// what it had will be delivered again.
    pub fn acknowledge(
        &self,
        kind: AckKind,
        acks: &[Ack],
    ) -> impl Future<Output = Result<(), BrokerError>> + Send + use<> {
        let acknowledged = self.subscription.acknowledge(self.id, kind, acks);
        let subscription = Arc::clone(&self.subscription);
        async move {
            let version = acknowledged?;
            if subscription.durable { cursor::written(subscription, version).await } else { Ok(()) }
        }
    }

    /// Asks for these entries again, or for all that are not acknowledged. On an exclusive subscription
    /// it is always all, so that their order is kept.
    pub fn redeliver(&self, positions: Option<&[Position]>) {
        self.subscription.window.lock().redeliver(self.id, positions);
        self.subscription.wake.notify_one();
    }

    /// Whether the broker has closed it; see [`Deliveries::next`].
    pub fn is_closed(&self) -> bool {
        !self.subscription.window.lock().seats.contains_key(&self.id)
    }

    /// Moves the cursor, durably, and closes all consumers of the subscription: their clients come again.
    ///
    /// # Errors
    /// When the store cannot read or write, or the subscription has ended; nothing has changed then.
    pub async fn seek(&self, to: SeekTo) -> Result<(), BrokerError> {
        let mark_delete = self.topic.core().find(to).await?;
        if self.subscription.durable {
            return cursor::move_to(Arc::clone(&self.subscription), mark_delete).await;
        }
        self.subscription.window.lock().seek(mark_delete);
        self.subscription.wake.notify_one();
        Ok(())
    }

    /// The topic's ends; `None` while it has no entry.
    ///
    /// # Errors
    /// When the store cannot read.
    pub async fn ends(&self) -> Result<Option<Ends>, BrokerError> {
        self.topic.core().ends().await
    }

    /// Everything up to here is acknowledged or rejected; `None` before the first entry.
    pub fn mark_delete(&self) -> Option<Position> {
        self.subscription.window.lock().mark_delete()
    }

    /// Deletes the subscription, and closes this consumer. With `force` the others are closed, too.
    ///
    /// # Errors
    /// When it has other consumers and `force` is false: [`BrokerError::InUse`].
    pub async fn unsubscribe(&self, force: bool) -> Result<(), BrokerError> {
        self.topic.drop_subscription(&self.subscription.name, Some(self.id), force).await
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.subscription.window.lock().stand_up(self.id);
        self.subscription.wake.notify_one();
        let last = self.subscription.handles.fetch_sub(1, Ordering::AcqRel) == 1;
        if last && !self.subscription.durable {
            self.topic.forget_if_unused(&self.subscription);
        }
    }
}

/// One subscription of a loaded topic.
pub(crate) struct Subscription {
    pub(crate) topic: Arc<Core>,
    pub(crate) name: String,
    pub(crate) durable: bool,
    /// The [`Consumer`]s that are not dropped, closed ones included. Grows under the topic's lock only.
    handles: AtomicUsize,
    /// Held for moments only. The budget's lock is taken under it, and no other.
    pub(crate) window: Mutex<Window>,
    /// Tells the dispatching task that there may be something to do.
    wake: Arc<Notify>,
    /// Tells the writing task that the cursor has changed.
    dirty: Notify,
    written: watch::Sender<Written>,
    /// Ends both tasks.
    stop: CancellationToken,
    /// Whether the cursor is gone. Held while the cursor is written or deleted, on a blocking thread; the
    /// window's lock is taken under it.
    deleted: Mutex<bool>,
}

impl Subscription {
    /// As its cursor says; starts its tasks.
    pub(crate) fn start(topic: &Arc<Core>, name: &str, durable: bool, cursor: CursorState) -> Arc<Self> {
        let options = &topic.engine.options;
        let limits = Limits {
            withhold_first_pause: options.withhold_first_pause,
            withhold_longest_pause: options.withhold_longest_pause,
            max_withheld: options.max_withheld,
            max_read_entries: MAX_READ_ENTRIES,
        };
        let subscription = Arc::new(Self {
            topic: Arc::clone(topic),
            name: name.to_owned(),
            durable,
            handles: AtomicUsize::new(0),
            window: Mutex::new(Window::resume(cursor, limits)),
            wake: Arc::default(),
            dirty: Notify::new(),
            written: watch::Sender::new(Written::default()),
            stop: topic.engine.stop.child_token(),
            deleted: Mutex::new(false),
        });
        topic.engine.tasks.spawn(dispatch::dispatch(Arc::clone(&subscription)));
        if durable {
            topic.engine.tasks.spawn(cursor::keep_written(Arc::clone(&subscription)));
        }
        subscription
    }

    /// Adds a consumer. To be called under the topic's lock.
    pub(crate) fn add_consumer(
        self: &Arc<Self>,
        topic: &Arc<Topic>,
        options: ConsumerOptions,
    ) -> Result<(Consumer, Deliveries), BrokerError> {
        /// Each costs some hundred bytes and its queue.
        const MAX_CONSUMERS: usize = 10_000;
        let mut window = self.window.lock();
        if self.durable != options.durable && !(self.durable && window.seats.is_empty()) {
            let is = if self.durable { "durable" } else { "not durable" };
            return Err(BrokerError::ConsumerBusy(format!("subscription {} is {is}", self.name)));
        }
        match window.kind.filter(|_| !window.seats.is_empty()) {
            Some(SubscriptionType::Exclusive) => {
                return Err(BrokerError::ConsumerBusy("Exclusive consumer is already connected".to_owned()));
            }
            Some(kind) if kind != options.kind => {
                return Err(BrokerError::ConsumerBusy("Subscription is of different type".to_owned()));
            }
            _ if window.seats.len() >= MAX_CONSUMERS => {
                let reason = format!("subscription {} has {MAX_CONSUMERS} consumers already", self.name);
                return Err(BrokerError::TooMany(reason));
            }
            _ => window.kind = Some(options.kind),
        }
        let wake = Arc::new(Notify::new());
        let name = options.consumer_name;
        let id = window.sit(Seat::new(name.clone(), options.metadata, options.share, Arc::clone(&wake)));
        drop(window);
        self.handles.fetch_add(1, Ordering::AcqRel);
        let consumer = Consumer { topic: Arc::clone(topic), subscription: Arc::clone(self), id, name };
        Ok((consumer, Deliveries { subscription: Arc::clone(self), id, wake }))
    }

    /// Acknowledges in memory; gives back the cursor's version that holds it.
    fn acknowledge(&self, seat: u64, kind: AckKind, acks: &[Ack]) -> Result<u64, BrokerError> {
        // Asked for of many entries together, and each answer walks all patterns: once is enough.
        let unfiltered =
            LazyCell::new(|| self.topic.engine.bindings.chain(&self.topic.name, &self.name).is_none());
        let mut window = self.window.lock();
        window.acknowledge(seat, kind, acks, &|| *unfiltered).map_err(|window::Closed| {
            BrokerError::Closing(format!("the consumer of subscription {} is closed", self.name))
        })?;
        let version = window.version();
        drop(window);
        self.dirty.notify_one();
        self.wake.notify_one();
        Ok(version)
    }

    /// Whether any [`Consumer`] of it is left.
    pub(crate) fn has_handles(&self) -> bool {
        self.handles.load(Ordering::Acquire) > 0
    }

    /// Who has it open, beside one.
    pub(crate) fn consumers_beside(&self, one: Option<u64>) -> usize {
        self.window.lock().seats.keys().filter(|id| Some(**id) != one).count()
    }

    /// Closes its consumers and ends its tasks; what the cursor knows is still written, if it is durable.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        self.window.lock().clear_seats();
    }

    /// Deletes its cursor. Blocks on the disk.
    pub(crate) fn delete_cursor(&self) -> Result<(), BrokerError> {
        let mut deleted = self.deleted.lock();
        if self.durable && !*deleted {
            self.topic.engine.records.delete_cursor(self.topic.id, &self.name)?;
        }
        *deleted = true;
        Ok(())
    }

    /// Waits until the cursor of a subscription that was stopped has been written for the last time, or could
    /// not be. To be called on a blocking thread of the runtime.
    pub(crate) fn wait_until_written(&self) {
        if self.durable {
            tokio::runtime::Handle::current().block_on(cursor::ended(self));
        }
    }

    /// No cursor is written any more. Blocks while one is.
    pub(crate) fn forget_cursor(&self) {
        *self.deleted.lock() = true;
    }

    /// What waits here at this moment.
    pub(crate) fn figures(&self) -> SubscriptionFigures {
        self.window.lock().figures()
    }

    /// What it tells of itself. Blocks on the disk.
    pub(crate) fn stats(&self) -> Result<SubscriptionStats, BrokerError> {
        let (window, mut stats) = {
            let window = self.window.lock();
            let stats = SubscriptionStats {
                durable: self.durable,
                kind: match window.kind {
                    Some(SubscriptionType::Exclusive) => "Exclusive",
                    Some(SubscriptionType::Shared) => "Shared",
                    None => "",
                },
                consumers: window.seats.values().map(Seat::stats).collect(),
                msg_out_counter: window.sent_messages,
                bytes_out_counter: window.sent_bytes,
                redelivered_counter: window.redelivered,
                ..SubscriptionStats::default()
            };
            (window.stats(), stats)
        };
        let count = |after| self.topic.engine.log.count_after(self.topic.id, after);
        let mut unread = count(window.frontier)?;
        for (after, up_to) in &window.resumed {
            let (from, to) = (count(Some(*after))?, count(Some(*up_to))?);
            unread.entries = unread.entries.saturating_sub(from.entries.saturating_sub(to.entries));
            unread.messages = unread.messages.saturating_sub(from.messages.saturating_sub(to.messages));
            unread.bytes = unread.bytes.saturating_sub(from.bytes.saturating_sub(to.bytes));
        }
        for (position, left) in window.resumed_partly {
            let (from, to) = (count(before(position))?, count(Some(position))?);
            let done = from.messages.saturating_sub(to.messages).saturating_sub(left);
            unread.messages = unread.messages.saturating_sub(done);
        }
        stats.msg_backlog = unread.messages + window.open_messages;
        stats.backlog_entries = unread.entries + window.open_entries;
        stats.backlog_size = unread.bytes;
        stats.unacked_messages = window.unacked_messages;
        stats.msg_in_replay = window.ready;
        stats.mark_delete_position = spell(window.mark_delete);
        stats.read_position = spell(window.frontier);
        stats.non_contiguous_deleted_messages_ranges = window.runs;
        stats.filter = window.filter;
        stats.paused = window.paused;
        Ok(stats)
    }
}

/// `ledger:entry`, as Pulsar writes positions.
fn spell(position: Option<Position>) -> String {
    position.map_or("-1:-1".to_owned(), |position| format!("{}:{}", position.ledger, position.entry))
}
