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
//! But clients name an entry, not a delivery of it. When the first part was sent more than once (asked for
//! again, or a consumer came back), a client may acknowledge each copy, and the last of these may come when
//! the next part is out. So of the next part as many acknowledgements are in doubt as copies are left over:
//! each of these makes us send it once more instead of forgetting it. (Copies that the process before us sent
//! are not known, nor is a client that acknowledges one copy twice.)
//!
//! Three files beside this one hold what is done with it: `acknowledging`, `consumers`, `reading`.
//!
//! Growth: some 200 bytes for each open entry, at most 100,000 (`MAX_OPEN_ENTRIES`), and 4 bytes for each
//! message of those acknowledged in part, at most 4 million (`MAX_OPEN_MESSAGES`); nothing for a done one, so
//! any number of rejected entries may lie behind one that is not acknowledged.

mod acknowledging;
mod consumers;
mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use weir_store::{CursorState, Position, StoredEntry};

use super::SubscriptionType;
use super::cursor::Snapshot;
use super::seat::Seat;
use crate::budget::Held;
use crate::figures::SubscriptionFigures;
use crate::stats::{FilterStats, PausedStats};

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

/// A parcel that no consumer has taken yet, and what it takes of a connection's share.
#[derive(Debug)]
struct Prepared {
    parcel: Parcel,
    held: Held,
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
    /// The shape in which it was last sent.
    sent: Option<Sent>,
    /// The shape in which it stands in a consumer's queue.
    queued: Option<Sent>,
    /// The number of the delivery that was sent last.
    sent_at: u64,
    /// A first part is done.
    is_later_part: bool,
    /// How often what is out, or will be, has been sent.
    copies: u32,
    /// Copies of earlier parts that may still be acknowledged.
    in_doubt: u32,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    index: u32,
    until: Instant,
    /// How often a filter broke on it; 0 for a rescheduled one.
    broke: u32,
    /// Counted as a message that was withheld.
    was_withheld: bool,
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
    prepared: BTreeMap<Position, Prepared>,
    timers: BTreeSet<(Instant, Position)>,
    /// Messages in the open entries.
    open_messages: u64,
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
    /// Deliveries that were sent.
    deliveries: u64,
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
    /// Batches beyond the frontier of which a part is done, with the number of messages that are left.
    pub resumed_partly: Vec<(Position, u64)>,
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
            open_messages: 0,
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
            deliveries: 0,
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

    pub(crate) fn figures(&self) -> SubscriptionFigures {
        SubscriptionFigures {
            paused: self.paused.is_some(),
            consumers: self.seats.len() as u64,
            unacked_messages: self.seats.values().map(|seat| seat.unacked).sum(),
            withheld_messages: self.withheld as u64,
            rescheduled_messages: self.rescheduled as u64,
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
            resumed_partly: self.resumed.partly().collect(),
            filter,
            paused: self.paused.as_ref().map(|(paused, _)| paused.clone()),
        }
    }
}

/// The consumer has been closed.
#[derive(Debug)]
pub(crate) struct Closed;
