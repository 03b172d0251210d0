//! The cursor's lasting part: what it knew when it was loaded, and writing it down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_store::{CursorState, Position};

use super::Subscription;
use crate::error::BrokerError;

/// Between two writes of a cursor: acknowledgements that come meanwhile share one. An acknowledgement
/// after a quiet time is written at once.
const WRITE_PAUSE: Duration = Duration::from_millis(10);

/// After a write that failed.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// Where reading goes on behind an entry. The store gives the next one that there is.
pub(crate) fn next(position: Position) -> Position {
    match position.entry.checked_add(1) {
        Some(entry) => Position { entry, ..position },
        None => Position { ledger: position.ledger.saturating_add(1), entry: 0 },
    }
}

/// The position that a cursor stands at when `position` is the next to be read; `None`: at the beginning.
pub(crate) fn before(position: Position) -> Option<Position> {
    match position.entry.checked_sub(1) {
        Some(entry) => Some(Position { entry, ..position }),
        None => Some(Position { ledger: position.ledger.checked_sub(1)?, entry: u64::MAX }),
    }
}

/// What a loaded cursor says of entries that have not been read since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    done: Vec<(Position, Position)>,
    partly: BTreeMap<Position, Arc<[u32]>>,
}

impl Snapshot {
    pub(crate) fn of(cursor: CursorState) -> Self {
        let partly = cursor.partly.into_iter().map(|(position, rest)| (position, rest.into()));
        Self { done: cursor.done, partly: partly.collect() }
    }

    pub(crate) fn is_done(&self, position: Position) -> bool {
        let runs = self.done.partition_point(|(_, up_to)| *up_to < position);
        self.done.get(runs).is_some_and(|(after, _)| *after < position)
    }

    /// The messages of a batch that are still to be acknowledged, if some are.
    pub(crate) fn rest(&self, position: Position) -> Option<Arc<[u32]>> {
        self.partly.get(&position).cloned()
    }

    pub(crate) fn done(&self) -> &[(Position, Position)] {
        &self.done
    }

    /// The batches of which a part is done, with how many messages are left of each.
    pub(crate) fn partly(&self) -> impl Iterator<Item = (Position, u64)> {
        self.partly.iter().map(|(position, rest)| (*position, rest.len() as u64))
    }

    /// What was read is known better elsewhere.
    pub(crate) fn forget_up_to(&mut self, frontier: Position) {
        let runs = self.done.partition_point(|(_, up_to)| *up_to <= frontier);
        self.done.drain(..runs);
        if self.partly.first_key_value().is_some_and(|(first, _)| *first <= frontier) {
            self.partly = self.partly.split_off(&next(frontier));
        }
    }

    /// Adds what lies behind the frontier.
    pub(crate) fn append_to(&self, cursor: &mut CursorState, frontier: Option<Position>) {
        for (after, up_to) in &self.done {
            if Some(*up_to) > frontier {
                cursor.done.push((frontier.map_or(*after, |frontier| frontier.max(*after)), *up_to));
            }
        }
        let partly = self.partly.iter().filter(|(position, _)| Some(**position) > frontier);
        cursor.partly.extend(partly.map(|(position, rest)| (*position, rest.to_vec())));
    }
}

/// How far the cursor has been written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    version: u64,
    failed: Option<(u64, BrokerError)>,
    ended: bool,
}

/// Writes the subscription's cursor down whenever it has changed, until the subscription stops; then once
/// more.
pub(crate) async fn keep_written(subscription: Arc<Subscription>) {
    let mut written = 0;
    loop {
        let stopping = tokio::select! {
            () = subscription.dirty.notified() => false,
            () = subscription.stop.cancelled() => true,
        };
        if subscription.topic.engine.abandoned.load(Ordering::Acquire) {
            subscription.written.send_modify(|state| state.ended = true);
            return;
        }
        if subscription.window.lock().version() > written {
            match write(&subscription).await {
                (version, Ok(())) => {
                    written = version;
                    subscription.written.send_modify(|state| state.version = version);
                }
                (version, Err(error)) => {
                    tracing::warn!(
                        topic = %subscription.topic.name, subscription = subscription.name, %error,
                        "cursor not written; trying again"
                    );
                    subscription.written.send_modify(|state| state.failed = Some((version, error)));
                    subscription.dirty.notify_one();
                    pause(&subscription, FAILURE_PAUSE, stopping).await;
                }
            }
        }
        if stopping {
            subscription.written.send_modify(|state| state.ended = true);
            return;
        }
        pause(&subscription, WRITE_PAUSE, stopping).await;
    }
}

async fn pause(subscription: &Subscription, how_long: Duration, stopping: bool) {
    if stopping {
        return;
    }
    tokio::select! {
        () = tokio::time::sleep(how_long) => {}
        () = subscription.stop.cancelled() => {}
    }
}

/// Writes the cursor as it is; gives back its version.
async fn write(subscription: &Arc<Subscription>) -> (u64, Result<(), BrokerError>) {
    let writing = Arc::clone(subscription);
    let write = move || {
        let deleted = writing.deleted.lock();
        // Not before: a seek that is written meanwhile would be written over with what was before it.
        let (version, cursor) = {
            let window = writing.window.lock();
            (window.version(), window.cursor())
        };
        let done = if *deleted { Ok(()) } else { writing.put(&cursor) };
        (version, done)
    };
    let done = tokio::task::spawn_blocking(write).await;
    done.unwrap_or_else(|_panicked| {
        (subscription.window.lock().version(), Err(BrokerError::lost("writing a cursor")))
    })
}

/// Moves the cursor: on disk first, so that a failure leaves it where it was.
///
/// # Errors
/// When it cannot be written, or the subscription has ended.
pub(crate) async fn move_to(
    subscription: Arc<Subscription>,
    mark_delete: Option<Position>,
) -> Result<(), BrokerError> {
    let work = move || {
        let deleted = subscription.deleted.lock();
        if *deleted || subscription.stop.is_cancelled() {
            return Err(subscription.ended());
        }
        let done = subscription.put(&CursorState { mark_delete, ..CursorState::default() });
        {
            let mut window = subscription.window.lock();
            match done {
                Ok(()) => window.seek(mark_delete),
                // A write that failed may be found later all the same.
                Err(_) => window.rewrite(),
            }
        }
        subscription.wake.notify_one();
        subscription.dirty.notify_one();
        done
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_panicked| BrokerError::lost("a seek"))?
}

impl Subscription {
    /// Blocks on the disk; `deleted` is to be held.
    fn put(&self, cursor: &CursorState) -> Result<(), BrokerError> {
        Ok(self.topic.engine.records.put_cursor(self.topic.id, &self.name, cursor)?)
    }

    fn ended(&self) -> BrokerError {
        BrokerError::Closing(format!("subscription {} is closed", self.name))
    }
}

/// Resolves when the task that writes the cursor has come to its end.
pub(crate) async fn ended(subscription: &Subscription) {
    // The sender is the subscription's, so it is there.
    let mut states = subscription.written.subscribe();
    let _never_closed = states.wait_for(|state| state.ended).await;
}

/// Resolves when the cursor has been written at least as of `version`.
pub(crate) async fn written(subscription: Arc<Subscription>, version: u64) -> Result<(), BrokerError> {
    let mut states = subscription.written.subscribe();
    let reached = |state: &Written| {
        state.ended || state.version >= version || state.failed.as_ref().is_some_and(|(at, _)| *at >= version)
    };
    let state = states.wait_for(reached).await;
    let state = state.map_err(|_closed| BrokerError::lost("writing a cursor"))?;
    match &state.failed {
        _ if state.version >= version => Ok(()),
        Some((at, error)) if *at >= version => Err(error.clone()),
        // It ended: deleted, or drained before this acknowledgement came.
        _ => Err(subscription.ended()),
    }
}
