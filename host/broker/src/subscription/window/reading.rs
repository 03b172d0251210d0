//! What to read next, and what has become of it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use weir_store::{Position, StoredEntry};

use super::super::cursor::{Snapshot, next};
use super::{Indexes, Judged, Limits, Open, Place, Prepared, Task, Wait, Waiting, Want, Window, Work};
use crate::budget::{Held, cost};
use crate::stats::{FilterStats, PausedStats};

/// With so many entries open, nothing new is read until one is done. Pulsar:
/// `maxUnackedMessagesPerSubscription`, 200,000.
const MAX_OPEN_ENTRIES: usize = 100_000;

/// With so many messages in the open entries, nothing new is read: an acknowledgement of indexes makes us
/// keep the index of each message of the entry that it leaves.
const MAX_OPEN_MESSAGES: u64 = 4_000_000;

/// With so many messages waiting to be judged again, nothing new is read.
const MAX_RESCHEDULED: usize = 100_000;

/// The longest time that a filter may put a message off.
const MAX_RESCHEDULE: Duration = Duration::from_secs(24 * 60 * 60);

impl Window {
    /// What to do next. Hands out what is prepared first.
    pub(crate) fn next_work(&mut self, now: Instant, last: Option<Position>) -> Work {
        while let Some(&(until, position)) = self.timers.first()
            && until <= now
        {
            self.put(position, Place::Ready);
        }
        self.hand_out();
        let prepared = self.prepared.first_key_value();
        if !self.someone_can_take() {
            // Kept for whoever can, unless somebody else needs the room.
            if prepared.is_some_and(|(_, prepared)| prepared.held.share().is_crowded()) {
                self.put_down();
            }
            return Work::NoTaker;
        }
        if let Some((position, _)) = prepared
            && self.ready.first().is_none_or(|ready| ready > position)
        {
            // Those that can take it are of other connections, which have no room now.
            self.put_down();
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
            || self.open_messages >= MAX_OPEN_MESSAGES
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
        let most = self.most_replayed();
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

    /// How many entries a read may cover: where room is scarce no more than can be taken, as the others would be
    /// put down again.
    fn most_replayed(&self) -> u64 {
        let most = self.limits.max_read_entries as u64;
        let (mut of_all, mut of_others, mut scarce) = (0_u64, 0_u64, false);
        for (_, seat) in self.takers() {
            of_all = of_all.saturating_add(seat.entries_wanted());
            if seat.share.is_crowded() {
                scarce = true;
            } else {
                of_others = of_others.saturating_add(seat.entries_wanted());
            }
        }
        match (scarce, of_others) {
            (false, _) => most,
            (true, 0) => most.min(of_all).max(1),
            (true, others) => most.min(others),
        }
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

    /// Takes up what has become of entries; those that may be delivered get their part of `held`. `read_to` is the last one that was read, if all were judged.
    pub(crate) fn apply(
        &mut self,
        epoch: u64,
        judged: Vec<Judged>,
        read_to: Option<Position>,
        tally: &FilterStats,
        held: &mut Held,
        now: Instant,
    ) {
        add(&mut self.filter, tally);
        if epoch != self.epoch {
            return;
        }
        for judged in judged {
            self.apply_one(judged, held, now);
        }
        if read_to > self.frontier {
            self.frontier = read_to;
            self.version += 1;
        }
        self.forget_behind();
    }

    fn apply_one(&mut self, judged: Judged, held: &mut Held, now: Instant) {
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
                queued: None,
                sent_at: 0,
                is_later_part: false,
                copies: 0,
                in_doubt: 0,
            };
            self.open.insert(position, open);
            self.open_messages += u64::from(judged.messages);
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
                    let known = before.iter().find(|waiting| waiting.index == *index);
                    let mut waiting =
                        self.limits.wait(*index, *wait, known.map_or(0, |known| known.broke), now);
                    let withheld_before = known.is_some_and(|known| known.was_withheld);
                    self.filter.broke_withheld += u64::from(waiting.was_withheld && !withheld_before);
                    waiting.was_withheld |= withheld_before;
                    after.push(waiting);
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
                let held = held.split(cost(parcel.bytes.len()));
                self.prepared.insert(position, Prepared { parcel, held });
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

    /// What is written may be another cursor: this one is to be written once more.
    pub(crate) fn rewrite(&mut self) {
        self.version += 1;
    }

    /// Moves the cursor and forgets everything else; consumers are closed.
    pub(crate) fn seek(&mut self, mark_delete: Option<Position>) {
        self.clear_seats();
        self.epoch += 1;
        self.version += 1;
        self.frontier = mark_delete;
        self.open.clear();
        self.open_messages = 0;
        self.ready.clear();
        self.prepared.clear();
        self.timers.clear();
        self.early.clear();
        self.early_up_to = None;
        self.resumed = Snapshot::default();
        (self.withheld, self.rescheduled) = (0, 0);
    }
}

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
        Waiting { index, until: now + pause, broke, was_withheld: broke > 0 }
    }
}

fn add(to: &mut FilterStats, more: &FilterStats) {
    to.processed += more.processed;
    to.accepted += more.accepted;
    to.rejected += more.rejected;
    to.rescheduled += more.rescheduled;
    to.broke_delivered += more.broke_delivered;
    to.withheld_attempts += more.withheld_attempts;
    to.broke_discarded += more.broke_discarded;
    if more.last_failure.is_some() {
        to.last_failure.clone_from(&more.last_failure);
    }
}
