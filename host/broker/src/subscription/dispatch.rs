//! The task that moves a subscription's entries: read a batch, judge it, hand it out.
//!
//! One task for each loaded subscription. While it has nothing to do it waits and costs its memory only,
//! some hundred bytes. While it works it holds at most two batches of entries beside what is queued for
//! consumers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use weir_filter::{Chain, Paused, Pinned};
use weir_store::{Position, StoredEntry};

use super::judging::Batch;
use super::window::{Judged, Work};
use super::{Subscription, judging};
use crate::budget::{Held, Turns, cost};
use crate::error::BrokerError;
use crate::stats::FilterStats;

/// Entries that one read takes.
pub(crate) const MAX_READ_ENTRIES: usize = 256;

/// Bytes that one read takes, after the first entry.
pub(crate) const MAX_READ_BYTES: usize = 1024 * 1024;

/// Messages that one read takes, after the first entry: what is noted of each outweighs a small one.
const MAX_READ_MESSAGES: u64 = 64 * 1024;

/// While delivery is paused, bindings are looked at so often: a changed one is in force at once.
const PAUSE_POLL: Duration = Duration::from_millis(250);

/// After the store failed to read, or a judging thread panicked.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// Runs until the subscription stops.
pub(crate) async fn dispatch(subscription: Arc<Subscription>) {
    let mut last = subscription.topic.last.subscribe();
    let mut binding = Covering { generation: None, chain: None };
    let mut turns = Turns::default();
    while !subscription.stop.is_cancelled() {
        let newest = *last.borrow_and_update();
        let bindings_changed = binding.is_stale(&subscription);
        let (work, epoch, paused, shares) = {
            let mut window = subscription.window.lock();
            if bindings_changed {
                window.unpause();
            }
            let work = window.next_work(Instant::now(), newest);
            let shares = match work {
                Work::Read { .. } | Work::Replay { .. } => window.takers_shares(),
                Work::Idle { .. } | Work::NoTaker => Vec::new(),
            };
            (work, window.epoch(), window.is_paused(), shares)
        };
        match work {
            Work::NoTaker => {
                turns.leave();
                wait(&subscription, None, None).await;
            }
            Work::Idle { until } => {
                turns.leave();
                let poll = paused.then(|| Instant::now() + PAUSE_POLL);
                let until = until.into_iter().chain(poll).min();
                wait(&subscription, Some(&mut last), until).await;
            }
            Work::Read { .. } | Work::Replay { .. } => {
                let Some(held) = turns.read(&shares, &subscription.wake) else {
                    // Who stands in line holds nothing that others wait for.
                    subscription.window.lock().put_down();
                    wait(&subscription, None, None).await;
                    continue;
                };
                let chain = binding.chain(&subscription);
                if let Err(error) = round(&subscription, work, epoch, chain, held).await {
                    tracing::warn!(
                        topic = %subscription.topic.name, subscription = subscription.name, %error,
                        "dispatch failed; trying again"
                    );
                    let until = Instant::now() + FAILURE_PAUSE;
                    subscription.window.lock().pause(error.to_string(), until);
                }
            }
        }
    }
}

async fn wait(
    subscription: &Subscription,
    last: Option<&mut watch::Receiver<Option<Position>>>,
    until: Option<Instant>,
) {
    let appended = async {
        match last {
            // The sender lives as long as the topic, and so as the subscription.
            Some(last) => last.changed().await.unwrap_or(()),
            None => std::future::pending().await,
        }
    };
    let due = async {
        match until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = subscription.wake.notified() => {}
        () = appended => {}
        () = due => {}
        () = subscription.stop.cancelled() => {}
    }
}

/// The chain between topic and subscription, kept as long as no binding changes.
struct Covering {
    generation: Option<u64>,
    chain: Option<Arc<Chain>>,
}

impl Covering {
    fn is_stale(&self, subscription: &Subscription) -> bool {
        self.generation != Some(subscription.topic.engine.bindings.generation())
    }

    fn chain(&mut self, subscription: &Subscription) -> Option<Arc<Chain>> {
        let topic = &subscription.topic;
        let generation = topic.engine.bindings.generation();
        if self.generation != Some(generation) {
            self.generation = Some(generation);
            self.chain = topic.engine.bindings.chain(&topic.name, &subscription.name);
        }
        self.chain.clone()
    }
}

/// What the reading hop came to.
enum Read {
    Entries(Vec<StoredEntry>, Option<Pinned>),
    Paused(Paused),
}

/// Reads, judges and takes up one batch.
async fn round(
    subscription: &Arc<Subscription>,
    work: Work,
    epoch: u64,
    chain: Option<Arc<Chain>>,
    mut held: Held,
) -> Result<(), BrokerError> {
    let (from, max_entries, replay) = match work {
        Work::Replay { from, max_entries } => (from, max_entries, true),
        Work::Read { from } => (from, MAX_READ_ENTRIES, false),
        Work::Idle { .. } | Work::NoTaker => return Ok(()),
    };
    let unfiltered = chain.is_none();
    let (entries, chain) = match read(subscription, from, max_entries, chain).await? {
        Read::Entries(entries, chain) => (entries, chain),
        Read::Paused(paused) => {
            pause(subscription, &paused);
            return Ok(());
        }
    };
    held.fit(entries.iter().map(|entry| cost(entry.bytes.len())).sum());
    let read_to = entries.last().map(|entry| entry.position).filter(|_| !replay);
    let tasks = {
        let mut window = subscription.window.lock();
        if window.epoch() != epoch {
            return Ok(());
        }
        if replay {
            window.plan_replay(entries, from, Instant::now())
        } else {
            window.plan_new(entries, unfiltered)
        }
    };
    let positions: Vec<Position> = tasks.iter().map(|task| task.entry.position).collect();

    let nothing_to_open = chain.is_none() && tasks.iter().all(judging::is_whole);
    let batch = if tasks.is_empty() || nothing_to_open {
        Batch { judged: judging::pass(tasks), tally: FilterStats::default(), paused: None }
    } else {
        let decoder = Arc::clone(&subscription.topic.engine.decoder);
        let topic = Arc::clone(&subscription.topic);
        let work = move |worker: &mut weir_filter::Worker| {
            judging::judge(worker, chain.as_ref(), &*decoder, &topic.name, tasks)
        };
        match subscription.topic.engine.workers.run(work).await {
            Ok(batch) => batch,
            Err(panicked) => {
                subscription.window.lock().give_back(positions);
                return Err(BrokerError::Closing(panicked.to_string()));
            }
        }
    };
    take_up(subscription, epoch, batch, &positions, read_to, &mut held);
    Ok(())
}

fn take_up(
    subscription: &Subscription,
    epoch: u64,
    batch: Batch,
    positions: &[Position],
    read_to: Option<Position>,
    held: &mut Held,
) {
    let Batch { mut judged, tally, paused } = batch;
    let read_to = read_to.filter(|_| paused.is_none());
    judged.sort_unstable_by_key(Judged::position);
    let mut window = subscription.window.lock();
    // Of new entries, what lies behind one that was not judged is read again: the frontier has no holes.
    if judged.len() < positions.len() {
        let known: Vec<Position> = judged.iter().map(Judged::position).collect();
        let missing = positions.iter().find(|position| known.binary_search(position).is_err());
        if let Some(missing) = missing
            && read_to.is_none()
        {
            let missing = *missing;
            judged.retain(|judged| judged.position() < missing || window.is_open(judged.position()));
        }
    }
    let version = window.version();
    window.apply(epoch, judged, read_to, &tally, held, Instant::now());
    window.give_back(positions.iter().copied());
    if paused.is_none() {
        window.unpause();
    }
    if window.version() != version {
        subscription.dirty.notify_one();
    }
    drop(window);
    if let Some(paused) = paused {
        pause(subscription, &paused);
    }
}

fn pause(subscription: &Subscription, paused: &Paused) {
    let until = Instant::now() + paused.retry_after;
    let reason = paused.reason.to_string();
    tracing::debug!(topic = %subscription.topic.name, subscription = subscription.name, reason, "delivery paused");
    subscription.window.lock().pause(reason, until);
}

async fn read(
    subscription: &Arc<Subscription>,
    from: Position,
    max_entries: usize,
    chain: Option<Arc<Chain>>,
) -> Result<Read, BrokerError> {
    let topic = Arc::clone(&subscription.topic);
    let read = move || {
        let chain = chain.as_ref().map(Chain::pin);
        if let Some(paused) = chain.as_ref().and_then(Pinned::paused) {
            return Ok(Read::Paused(paused.clone()));
        }
        let mut entries = topic.engine.log.read(topic.id, from, max_entries, MAX_READ_BYTES)?;
        let mut messages = 0;
        let fit = entries.iter().take_while(|entry| {
            messages += u64::from(entry.messages);
            messages <= MAX_READ_MESSAGES
        });
        let fit = fit.count().max(1);
        entries.truncate(fit);
        Ok(Read::Entries(entries, chain))
    };
    tokio::task::spawn_blocking(read).await.map_err(|_panicked| BrokerError::lost("reading"))?
}
