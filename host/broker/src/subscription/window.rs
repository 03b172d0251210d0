//! What a subscription knows of the entries between its mark-delete position and the last one it read,
//! and of the consumers that share them. No I/O, no tasks, no clock: the time is passed in.
//!
//! An entry that was read and is not done is *open*, and in one place at a time: ready to be read once
//! more, busy (being read and judged), prepared (its bytes are here, no consumer can take it), out at a
//! consumer, or waiting (a filter rescheduled it or broke on it). Entries that are done are forgotten:
//! each open one remembers which entry lay before it, and that is all the cursor needs.
//!
//! The rule for a batch of which a part waits: what is accepted is delivered now, the rest is judged again
//! when its time has come *and* that first part is acknowledged. So at most one delivery of an entry is
//! out, what a client says of it has one meaning, nothing is lost and nothing delivered twice.
//!
//! Growth: some 200 bytes for each open entry, at most [`MAX_OPEN_ENTRIES`]; nothing for a done one, so
//! any number of rejected entries may lie behind one that is not acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::time::Instant;
use weir_store::{CursorState, Position, StoredEntry};

use super::cursor::{Snapshot, next};
use super::seat::Seat;
use super::{Ack, AckKind, Delivery, SubscriptionType};
use crate::stats::{FilterStats, PausedStats};

/// With so many entries open, nothing new is read until one is done. Pulsar:
/// `maxUnackedMessagesPerSubscription`, 200,000.
pub(crate) const MAX_OPEN_ENTRIES: usize = 100_000;

/// With so many messages waiting to be judged again, nothing new is read.
pub(crate) const MAX_RESCHEDULED: usize = 100_000;

/// Acknowledgements of entries that were not read yet (a client kept them over a restart of ours) are
/// remembered up to this number; what is beyond is delivered again.
pub(crate) const MAX_EARLY_ACKS: usize = 10_000;

/// The longest time that a filter may put a message off.
pub(crate) const MAX_RESCHEDULE: Duration = Duration::from_secs(24 * 60 * 60);

/// Which messages of an entry, by their index in what is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Indexes {
    /// All of them.
    All,
    /// These, ascending.
    These(Arc<[u32]>),
}

impl Indexes {
    fn count(&self, all: u32) -> u32 {
        match self {
            Self::All => all,
            Self::These(these) => u32::try_from(these.len()).unwrap_or(u32::MAX),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::These(these) if these.is_empty())
    }

    fn contains(&self, index: u32) -> bool {
        match self {
            Self::All => true,
            Self::These(these) => these.binary_search(&index).is_ok(),
        }
    }

    /// The index in what is stored of the `nth` message of an entry cut to these.
    pub(crate) fn original(&self, nth: u32) -> Option<u32> {
        match self {
            Self::All => Some(nth),
            Self::These(these) => these.get(nth as usize).copied(),
        }
    }
}

/// An entry that was read, and what is to be made of it.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub entry: StoredEntry,
    /// The entry before it, done or not.
    pub previous: Option<Position>,
    pub want: Want,
}

/// What is to be made of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// These messages are to be judged.
    Judge(Indexes),
    /// These have been, and are to be delivered.
    Deliver(Indexes),
}

/// What has become of a [`Task`].
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub position: Position,
    pub previous: Option<Position>,
    /// How many messages are stored.
    pub messages: u32,
    pub want: Want,
    /// What may be delivered.
    pub parcel: Option<Parcel>,
    /// What is to be judged again, ascending.
    pub waits: Vec<(u32, Wait)>,
}

/// Bytes for a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub bytes: Bytes,
    /// How many messages are in `bytes`.
    pub messages: u32,
    /// Which ones are in `bytes`.
    pub shape: Indexes,
    /// Which ones of those are accepted. The same, unless the entry could not be cut.
    pub accepted: Indexes,
}

/// Why, and for how long, a message waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A filter said when to ask again.
    Reschedule(Duration),
    /// A filter broke: ever longer pauses.
    Withhold,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Read entries that were read before.
    Replay { from: Position, max_entries: usize },
    /// Read new ones.
    Read { from: Position },
    /// Nothing, until something happens or the time comes.
    Idle { until: Option<Instant> },
    /// Nothing, until a consumer can take something.
    NoTaker,
}

/// What the options say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub withhold_first_pause: Duration,
    pub withhold_longest_pause: Duration,
    pub max_withheld: usize,
    pub max_read_entries: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Ready,
    Busy,
    Prepared,
    /// At a consumer: still in its queue, or sent.
    Out {
        seat: u64,
        queued: bool,
    },
    Waiting(Instant),
}

#[derive(Debug)]
struct Open {
    previous: Option<Position>,
    messages: u32,
    redeliveries: u32,
    place: Place,
    /// Accepted and not acknowledged.
    left: Indexes,
    waiting: Vec<Waiting>,
    /// The shape in which it was last delivered.
    sent: Option<Sent>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    index: u32,
    until: Instant,
    /// How often a filter broke on it; 0 for a rescheduled one.
    broke: u32,
}

#[derive(Clone, Debug)]
struct Sent {
    shape: Indexes,
    messages: u32,
}

impl Open {
    fn left(&self) -> u64 {
        u64::from(self.left.count(self.messages))
    }
}

/// See the file's head.
pub(crate) struct Window {
    pub(super) kind: Option<SubscriptionType>,
    limits: Limits,
    /// The last entry that was read.
    frontier: Option<Position>,
    open: BTreeMap<Position, Open>,
    ready: BTreeSet<Position>,
    prepared: BTreeMap<Position, Parcel>,
    timers: BTreeSet<(Instant, Position)>,
    early: BTreeSet<Position>,
    early_up_to: Option<Position>,
    /// What the cursor knew beyond the frontier when it was loaded.
    resumed: Snapshot,
    pub(super) seats: BTreeMap<u64, Seat>,
    next_seat: u64,
    last_served: u64,
    /// Grows with each seek: what was read before one is dropped.
    epoch: u64,
    /// Grows with each change of what the cursor has to remember.
    version: u64,
    withheld: usize,
    rescheduled: usize,
    paused: Option<(PausedStats, Instant)>,
    filter: FilterStats,
    pub(super) sent_messages: u64,
    pub(super) sent_bytes: u64,
    pub(super) redelivered: u64,
}

/// What a window adds to a subscription's statistics.
#[derive(Clone, Debug, Default)]
pub(crate) struct WindowStats {
    pub open_entries: u64,
    pub open_messages: u64,
    pub unacked_messages: u64,
    pub ready: u64,
    pub frontier: Option<Position>,
    pub mark_delete: Option<Position>,
    pub runs: u64,
    /// Done runs beyond the frontier.
    pub resumed: Vec<(Position, Position)>,
    pub filter: FilterStats,
    pub paused: Option<PausedStats>,
}

impl Window {
    /// As a cursor left it.
    pub(crate) fn resume(cursor: CursorState, limits: Limits) -> Self {
        Self {
            kind: None,
            limits,
            frontier: cursor.mark_delete,
            open: BTreeMap::new(),
            ready: BTreeSet::new(),
            prepared: BTreeMap::new(),
            timers: BTreeSet::new(),
            early: BTreeSet::new(),
            early_up_to: None,
            resumed: Snapshot::of(cursor),
            seats: BTreeMap::new(),
            next_seat: 1,
            last_served: 0,
            epoch: 0,
            version: 0,
            withheld: 0,
            rescheduled: 0,
            paused: None,
            filter: FilterStats::default(),
            sent_messages: 0,
            sent_bytes: 0,
            redelivered: 0,
        }
    }

    /// The number of the cursor's state: grows with each change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Everything up to here is done.
    pub(crate) fn mark_delete(&self) -> Option<Position> {
        self.open.first_key_value().map_or(self.frontier, |(_, open)| open.previous)
    }

    /// What the cursor has to remember. Looks at every open entry.
    pub(crate) fn cursor(&self) -> CursorState {
        let mut cursor = CursorState { mark_delete: self.mark_delete(), ..CursorState::default() };
        let mut entries = self.open.iter().peekable();
        while let Some((&position, open)) = entries.next() {
            let run_end = entries.peek().map_or(self.frontier, |(_, after)| after.previous);
            if let Some(end) = run_end.filter(|end| *end > position) {
                cursor.done.push((position, end));
            }
            let mut rest: Vec<u32> = match &open.left {
                Indexes::All => continue,
                Indexes::These(these) => these.to_vec(),
            };
            rest.extend(open.waiting.iter().map(|waiting| waiting.index));
            rest.sort_unstable();
            if rest.len() < open.messages as usize {
                cursor.partly.push((position, rest));
            }
        }
        self.resumed.append_to(&mut cursor, self.frontier);
        cursor
    }

    // ---- consumers

    /// Adds a consumer; gives back its number.
    pub(crate) fn sit(&mut self, seat: Seat) -> u64 {
        let id = self.next_seat;
        self.next_seat += 1;
        self.seats.insert(id, seat);
        id
    }

    /// Takes a consumer away. What it had goes to the next.
    pub(crate) fn stand_up(&mut self, id: u64) {
        let Some(seat) = self.seats.get_mut(&id) else { return };
        let out = std::mem::take(&mut seat.out);
        seat.queue.clear();
        for position in out {
            self.take_back(position, false);
        }
        if let Some(seat) = self.seats.remove(&id) {
            seat.wake.notify_one();
        }
        if self.seats.is_empty() {
            // Nobody may come for a long time: only the verdicts are kept, not the bytes.
            for (position, _) in std::mem::take(&mut self.prepared) {
                self.put(position, Place::Ready);
            }
        }
    }

    /// Closes all consumers.
    pub(crate) fn clear_seats(&mut self) {
        for id in self.seats.keys().copied().collect::<Vec<_>>() {
            self.stand_up(id);
        }
    }

    pub(crate) fn flow(&mut self, seat: u64, permits: u32) {
        if let Some(seat) = self.seats.get_mut(&seat) {
            seat.permits = seat.permits.saturating_add(i64::from(permits));
        }
    }

    /// The next delivery of a consumer, if there is one.
    pub(crate) fn take(&mut self, id: u64) -> Result<Option<Delivery>, Closed> {
        let seat = self.seats.get_mut(&id).ok_or(Closed)?;
        let Some(delivery) = seat.pop() else { return Ok(None) };
        self.sent_messages += u64::from(delivery.messages);
        self.sent_bytes += delivery.entry.len() as u64;
        self.redelivered += u64::from(delivery.redelivery_count > 0);
        if let Some(open) = self.open.get_mut(&delivery.position) {
            open.place = Place::Out { seat: id, queued: false };
        }
        Ok(Some(delivery))
    }

    /// Takes back what is out at a consumer; on an exclusive subscription always everything.
    pub(crate) fn redeliver(&mut self, seat: u64, positions: Option<&[Position]>) {
        let exclusive = self.kind == Some(SubscriptionType::Exclusive);
        let positions: Vec<Position> = match (positions, self.seats.get(&seat)) {
            (_, None) => return,
            (Some(these), Some(seat)) if !exclusive => {
                these.iter().filter(|position| seat.out.contains(position)).copied().collect()
            }
            (_, Some(seat)) => seat.out.iter().copied().collect(),
        };
        for position in positions {
            self.take_back(position, true);
        }
    }

    fn take_back(&mut self, position: Position, asked: bool) {
        let Some(open) = self.open.get_mut(&position) else { return };
        let Place::Out { queued, .. } = open.place else { return };
        if asked && !queued {
            open.redeliveries += 1;
        }
        self.put(position, Place::Ready);
    }

    // ---- acknowledging

    /// Acknowledges. `unfiltered` is true if no binding covers the subscription.
    pub(crate) fn acknowledge(&mut self, kind: AckKind, acks: &[Ack], unfiltered: bool) {
        match kind {
            AckKind::Individual => acks.iter().for_each(|ack| self.acknowledge_one(ack, unfiltered)),
            AckKind::Cumulative if self.kind == Some(SubscriptionType::Shared) => {}
            AckKind::Cumulative => {
                for ack in acks {
                    let before: Vec<Position> =
                        self.open.range(..ack.position).map(|(position, _)| *position).collect();
                    for position in before {
                        self.acknowledge_delivered(position, unfiltered);
                    }
                    self.acknowledge_one(ack, unfiltered);
                    if Some(ack.position) > self.frontier {
                        self.early_up_to = self.early_up_to.max(Some(before_of(ack)));
                    }
                }
            }
        }
    }

    /// An entry that a cumulative acknowledgement covers: what was delivered of it is done. What the
    /// client never saw (a filter rescheduled it or broke on it) is not.
    fn acknowledge_delivered(&mut self, position: Position, unfiltered: bool) {
        let Some(open) = self.open.get(&position) else { return };
        match &open.sent {
            Some(sent) => {
                let left = without(&open.left, open.messages, &sent.shape);
                self.leave_only(position, left);
            }
            None if unfiltered => self.finish(position),
            None => {}
        }
    }

    fn acknowledge_one(&mut self, ack: &Ack, unfiltered: bool) {
        let unacked = ack.unacked.as_deref().unwrap_or_default();
        let Some(open) = self.open.get(&ack.position) else {
            let unread = Some(ack.position) > self.frontier;
            if unread && unacked.is_empty() && self.early.len() < MAX_EARLY_ACKS {
                self.early.insert(ack.position);
            }
            return;
        };
        let Some(sent) = &open.sent else {
            // Delivered by the process before us: with one message in it there is no doubt which.
            if unacked.is_empty() && (unfiltered || open.messages == 1) {
                self.finish(ack.position);
            }
            return;
        };
        if unacked.is_empty() {
            let left = without(&open.left, open.messages, &sent.shape);
            self.leave_only(ack.position, left);
        } else if ack.batch_size.is_none_or(|size| size == sent.messages) {
            let mut left: Vec<u32> = unacked.iter().filter_map(|nth| sent.shape.original(*nth)).collect();
            left.retain(|index| *index < open.messages && open.left.contains(*index));
            left.sort_unstable();
            left.dedup();
            self.leave_only(ack.position, Indexes::These(left.into()));
        }
    }

    /// Only these messages of what is out are still to be acknowledged.
    fn leave_only(&mut self, position: Position, left: Indexes) {
        let Some(open) = self.open.get_mut(&position) else { return };
        if open.left == left || open.left.is_empty() {
            return;
        }
        self.version += 1;
        let gone = open.left() - u64::from(left.count(open.messages));
        if !left.is_empty() {
            open.left = left;
            match open.place {
                Place::Out { seat, .. } => {
                    if let Some(seat) = self.seats.get_mut(&seat) {
                        seat.unacked = seat.unacked.saturating_sub(gone);
                    }
                }
                // Its bytes hold too much now.
                Place::Prepared => self.put(position, Place::Ready),
                Place::Ready | Place::Busy | Place::Waiting(_) => {}
            }
            return;
        }
        match open.waiting.iter().map(|waiting| waiting.until).min() {
            None => self.finish(position),
            Some(until) => {
                self.put(position, Place::Waiting(until));
                if let Some(open) = self.open.get_mut(&position) {
                    open.left = left;
                }
            }
        }
    }

    /// The entry is done.
    fn finish(&mut self, position: Position) {
        self.leave_place(position);
        if let Some(open) = self.open.remove(&position) {
            self.count_waiting(&open.waiting, false);
            self.version += 1;
        }
    }

    // ---- reading and judging

    /// What to do next. Hands out what is prepared first.
    pub(crate) fn next_work(&mut self, now: Instant, last: Option<Position>) -> Work {
        while let Some(&(until, position)) = self.timers.first()
            && until <= now
        {
            self.put(position, Place::Ready);
        }
        self.hand_out();
        if !self.someone_can_take() {
            return Work::NoTaker;
        }
        if let Some((_, until)) = self.paused
            && until > now
        {
            return Work::Idle { until: Some(until) };
        }
        if let Some((from, max_entries)) = self.replay_run() {
            return Work::Replay { from, max_entries };
        }
        let full = self.open.len() >= MAX_OPEN_ENTRIES
            || self.withheld >= self.limits.max_withheld
            || self.rescheduled >= MAX_RESCHEDULED;
        if last > self.frontier && !full {
            let from = self.frontier.map_or(Position { ledger: 0, entry: 0 }, next);
            return Work::Read { from };
        }
        Work::Idle { until: self.timers.first().map(|(until, _)| *until) }
    }

    /// The first entries to read once more, as one run that a single read covers.
    fn replay_run(&self) -> Option<(Position, usize)> {
        /// Reading so many entries in vain costs less than another read.
        const MAX_GAP: u64 = 16;
        let mut ready = self.ready.iter();
        let first = *ready.next()?;
        let most = self.limits.max_read_entries as u64;
        let mut end = first;
        for position in ready {
            let near = position.ledger == first.ledger && position.entry - end.entry <= MAX_GAP;
            if !near || position.entry - first.entry >= most {
                break;
            }
            end = *position;
        }
        Some((first, usize::try_from(end.entry - first.entry + 1).unwrap_or(1)))
    }

    /// What is to be made of new entries, and how far the cursor's knowledge reaches with them.
    pub(crate) fn plan_new(&mut self, entries: Vec<StoredEntry>, unfiltered: bool) -> Vec<Task> {
        let mut tasks = Vec::with_capacity(entries.len());
        let mut previous = self.frontier;
        for entry in entries {
            let position = entry.position;
            if Some(position) <= self.frontier {
                continue;
            }
            let known = unfiltered || entry.messages == 1;
            let early = (known && self.early.contains(&position))
                || (unfiltered && Some(position) <= self.early_up_to);
            if !early && !self.resumed.is_done(position) {
                let rest = self.resumed.rest(position);
                let want = Want::Judge(rest.map_or(Indexes::All, Indexes::These));
                tasks.push(Task { entry, previous, want });
            }
            previous = Some(position);
        }
        tasks
    }

    /// What is to be made of entries read once more. `wanted` is how far the read was to reach.
    pub(crate) fn plan_replay(
        &mut self,
        entries: Vec<StoredEntry>,
        from: Position,
        now: Instant,
    ) -> Vec<Task> {
        if entries.first().is_none_or(|first| first.position != from) && self.ready.contains(&from) {
            tracing::warn!(?from, "an entry that was not acknowledged is gone from the store");
            self.finish(from);
        }
        let mut tasks = Vec::with_capacity(entries.len());
        for entry in entries {
            let position = entry.position;
            if !self.ready.contains(&position) {
                continue;
            }
            let Some(open) = self.open.get(&position) else { continue };
            let previous = open.previous;
            let want = if open.left.is_empty() {
                let due = open.waiting.iter().filter(|waiting| waiting.until <= now);
                let mut due: Vec<u32> = due.map(|waiting| waiting.index).collect();
                due.sort_unstable();
                Want::Judge(Indexes::These(due.into()))
            } else {
                Want::Deliver(open.left.clone())
            };
            self.put(position, Place::Busy);
            tasks.push(Task { entry, previous, want });
        }
        tasks
    }

    /// Takes up what has become of entries. `read_to` is the last one that was read, if all were judged.
    pub(crate) fn apply(
        &mut self,
        epoch: u64,
        judged: Vec<Judged>,
        read_to: Option<Position>,
        tally: &FilterStats,
        now: Instant,
    ) {
        add(&mut self.filter, tally);
        if epoch != self.epoch {
            return;
        }
        for judged in judged {
            self.apply_one(judged, now);
        }
        if read_to > self.frontier {
            self.frontier = read_to;
            self.version += 1;
        }
        self.forget_behind();
    }

    fn apply_one(&mut self, judged: Judged, now: Instant) {
        let position = judged.position;
        let new = Some(position) > self.frontier;
        if new {
            self.frontier = Some(position);
            if judged.messages == 1 && self.early.contains(&position) {
                // Acknowledged while it was judged, by a client that had it from the process before us.
                self.version += 1;
                return;
            }
            let open = Open {
                previous: judged.previous,
                messages: judged.messages,
                redeliveries: 0,
                place: Place::Busy,
                left: Indexes::These(Arc::default()),
                waiting: Vec::new(),
                sent: None,
            };
            self.open.insert(position, open);
        }
        // Acknowledged while it was judged.
        let Some(open) = self.open.get_mut(&position).filter(|open| open.place == Place::Busy) else {
            return;
        };
        match &judged.want {
            Want::Deliver(wanted) if *wanted != open.left => return self.put(position, Place::Ready),
            Want::Deliver(_) => {}
            Want::Judge(_) => {
                let before = std::mem::take(&mut open.waiting);
                let asked = |waiting: &Waiting| match &judged.want {
                    Want::Judge(indexes) => indexes.contains(waiting.index),
                    Want::Deliver(_) => false,
                };
                let mut after: Vec<Waiting> =
                    before.iter().filter(|waiting| !asked(waiting)).copied().collect();
                for (index, wait) in &judged.waits {
                    let broke = before.iter().find(|waiting| waiting.index == *index);
                    let broke = broke.map_or(0, |waiting| waiting.broke);
                    after.push(self.limits.wait(*index, *wait, broke, now));
                }
                if let Some(parcel) = &judged.parcel {
                    open.left = parcel.accepted.clone();
                }
                let asked = match &judged.want {
                    Want::Judge(indexes) | Want::Deliver(indexes) => indexes.count(judged.messages),
                };
                let kept = open.left() + judged.waits.len() as u64;
                open.waiting = after.clone();
                self.count_waiting(&before, false);
                self.count_waiting(&after, true);
                if kept < u64::from(asked) {
                    self.version += 1;
                }
            }
        }
        let until = self.open.get(&position).and_then(|open| open.waiting.iter().map(|w| w.until).min());
        match (judged.parcel, until) {
            (Some(parcel), _) => {
                self.put(position, Place::Prepared);
                self.prepared.insert(position, parcel);
            }
            (None, Some(until)) => self.put(position, Place::Waiting(until)),
            (None, None) => self.finish(position),
        }
    }

    /// Entries that were to be judged and were not: they will be read again.
    pub(crate) fn give_back(&mut self, positions: impl IntoIterator<Item = Position>) {
        for position in positions {
            if self.open.get(&position).is_some_and(|open| open.place == Place::Busy) {
                self.put(position, Place::Ready);
            }
        }
    }

    fn forget_behind(&mut self) {
        if let Some(frontier) = self.frontier {
            self.resumed.forget_up_to(frontier);
            self.early = self.early.split_off(&next(frontier));
        }
    }

    /// Delivery waits at the cursor until then.
    pub(crate) fn pause(&mut self, reason: String, until: Instant) {
        let since = match &self.paused {
            Some((paused, _)) if paused.reason == reason => paused.since,
            _ => SystemTime::now(),
        };
        self.paused = Some((PausedStats { reason, since }, until));
    }

    /// Delivery goes on.
    pub(crate) fn unpause(&mut self) {
        self.paused = None;
    }

    pub(crate) fn is_open(&self, position: Position) -> bool {
        self.open.contains_key(&position)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Moves the cursor and forgets everything else; consumers are closed.
    pub(crate) fn seek(&mut self, mark_delete: Option<Position>) {
        self.clear_seats();
        self.epoch += 1;
        self.version += 1;
        self.frontier = mark_delete;
        self.open.clear();
        self.ready.clear();
        self.prepared.clear();
        self.timers.clear();
        self.early.clear();
        self.early_up_to = None;
        self.resumed = Snapshot::default();
        (self.withheld, self.rescheduled) = (0, 0);
    }

    // ---- handing out

    fn someone_can_take(&self) -> bool {
        let shared = self.kind == Some(SubscriptionType::Shared);
        self.seats.values().any(|seat| seat.can_take(shared))
    }

    /// The consumer whose turn it is.
    fn whose_turn(&self) -> Option<u64> {
        let shared = self.kind == Some(SubscriptionType::Shared);
        let after = self.seats.range(self.last_served + 1..);
        let mut seats = after.chain(self.seats.range(..=self.last_served));
        seats.find(|(_, seat)| seat.can_take(shared)).map(|(id, _)| *id)
    }

    fn hand_out(&mut self) {
        while let Some((&position, _)) = self.prepared.first_key_value() {
            // What was read before goes first: on an exclusive subscription that is the order.
            if self.ready.first().is_some_and(|ready| *ready < position) {
                return;
            }
            let Some(id) = self.whose_turn() else { return };
            let Some(parcel) = self.prepared.remove(&position) else { return };
            self.last_served = id;
            let (Some(open), Some(seat)) = (self.open.get_mut(&position), self.seats.get_mut(&id)) else {
                continue;
            };
            open.place = Place::Out { seat: id, queued: true };
            open.sent = Some(Sent { shape: parcel.shape, messages: parcel.messages });
            seat.unacked += open.left();
            seat.push(Delivery {
                position,
                redelivery_count: open.redeliveries,
                entry: parcel.bytes,
                messages: parcel.messages,
            });
        }
    }

    // ---- places

    /// Moves an open entry; whatever its old place kept of it is taken out there.
    fn put(&mut self, position: Position, place: Place) {
        self.leave_place(position);
        let Some(open) = self.open.get_mut(&position) else { return };
        open.place = place;
        match place {
            Place::Ready => {
                self.ready.insert(position);
            }
            Place::Waiting(until) => {
                self.timers.insert((until, position));
            }
            Place::Busy | Place::Prepared | Place::Out { .. } => {}
        }
    }

    fn leave_place(&mut self, position: Position) {
        let Some(open) = self.open.get(&position) else { return };
        match open.place {
            Place::Ready => {
                self.ready.remove(&position);
            }
            Place::Busy => {}
            Place::Prepared => {
                self.prepared.remove(&position);
            }
            Place::Out { seat, queued } => {
                if let Some(seat) = self.seats.get_mut(&seat) {
                    seat.release(position, open.left(), queued);
                }
            }
            Place::Waiting(until) => {
                self.timers.remove(&(until, position));
            }
        }
    }

    fn count_waiting(&mut self, waiting: &[Waiting], more: bool) {
        let withheld = waiting.iter().filter(|waiting| waiting.broke > 0).count();
        let rescheduled = waiting.len() - withheld;
        if more {
            self.withheld += withheld;
            self.rescheduled += rescheduled;
        } else {
            self.withheld -= withheld;
            self.rescheduled -= rescheduled;
        }
    }

    pub(crate) fn stats(&self) -> WindowStats {
        let mut filter = self.filter.clone();
        filter.withheld_now = self.withheld as u64;
        filter.rescheduled_now = self.rescheduled as u64;
        WindowStats {
            open_entries: self.open.len() as u64,
            open_messages: self.open.values().map(|open| open.left() + open.waiting.len() as u64).sum(),
            unacked_messages: self.seats.values().map(|seat| seat.unacked).sum(),
            ready: self.ready.len() as u64,
            frontier: self.frontier,
            mark_delete: self.mark_delete(),
            runs: self.cursor().done.len() as u64,
            resumed: self.resumed.done().to_vec(),
            filter,
            paused: self.paused.as_ref().map(|(paused, _)| paused.clone()),
        }
    }
}

/// The consumer has been closed.
#[derive(Debug)]
pub(crate) struct Closed;

impl Limits {
    fn wait(&self, index: u32, wait: Wait, broke_before: u32, now: Instant) -> Waiting {
        let (pause, broke) = match wait {
            Wait::Reschedule(delay) => (delay.min(MAX_RESCHEDULE), 0),
            Wait::Withhold => {
                let doubled = 1_u32.checked_shl(broke_before.min(20)).unwrap_or(u32::MAX);
                let pause = self.withhold_first_pause.saturating_mul(doubled);
                (pause.min(self.withhold_longest_pause), broke_before + 1)
            }
        };
        Waiting { index, until: now + pause, broke }
    }
}

/// The position up to which a cumulative acknowledgement is whole.
fn before_of(ack: &Ack) -> Position {
    let part = ack.unacked.as_ref().is_some_and(|unacked| !unacked.is_empty());
    if part { super::cursor::before(ack.position).unwrap_or(ack.position) } else { ack.position }
}

/// `left` without what is in `gone`.
fn without(left: &Indexes, messages: u32, gone: &Indexes) -> Indexes {
    match gone {
        Indexes::All => Indexes::These(Arc::default()),
        Indexes::These(_) => {
            let all: Vec<u32> = match left {
                Indexes::All => (0..messages).collect(),
                Indexes::These(these) => these.to_vec(),
            };
            Indexes::These(all.into_iter().filter(|index| !gone.contains(*index)).collect())
        }
    }
}

fn add(to: &mut FilterStats, more: &FilterStats) {
    to.processed += more.processed;
    to.accepted += more.accepted;
    to.rejected += more.rejected;
    to.rescheduled += more.rescheduled;
    to.broke_delivered += more.broke_delivered;
    to.broke_withheld += more.broke_withheld;
    to.broke_discarded += more.broke_discarded;
    if more.last_failure.is_some() {
        to.last_failure.clone_from(&more.last_failure);
    }
}
