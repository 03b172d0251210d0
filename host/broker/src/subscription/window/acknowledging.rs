//! What clients acknowledge: of what they were delivered, and in the shape in which they were.

use std::sync::Arc;

use weir_store::Position;

use super::super::cursor::before;
use super::super::{Ack, AckKind, SubscriptionType};
use super::{Closed, Indexes, Place, Window};

/// Acknowledgements of entries that were not read yet (a client kept them over a restart of ours) are
/// remembered up to this number; what is beyond is delivered again.
const MAX_EARLY_ACKS: usize = 10_000;

impl Window {
    /// Acknowledges for a consumer. One that has been closed says nothing any more: what it had is at others,
    /// or the cursor was moved under it. `unfiltered` says whether no binding covers the subscription; it is asked for entries
    /// only that this process has not delivered, so hardly ever.
    pub(crate) fn acknowledge(
        &mut self,
        seat: u64,
        kind: AckKind,
        acks: &[Ack],
        unfiltered: &dyn Fn() -> bool,
    ) -> Result<(), Closed> {
        if !self.seats.contains_key(&seat) {
            return Err(Closed);
        }
        match kind {
            AckKind::Individual => acks.iter().for_each(|ack| self.acknowledge_one(ack, unfiltered)),
            AckKind::Cumulative if self.kind == Some(SubscriptionType::Shared) => {}
            AckKind::Cumulative => {
                for ack in acks {
                    let before: Vec<Position> =
                        self.open.range(..ack.position).map(|(position, _)| *position).collect();
                    let sent_at = self.open.get(&ack.position).map_or(0, |open| open.sent_at);
                    for position in before {
                        self.acknowledge_delivered(position, sent_at, unfiltered);
                    }
                    self.acknowledge_one(ack, unfiltered);
                    if Some(ack.position) > self.frontier {
                        self.early_up_to = self.early_up_to.max(Some(before_of(ack)));
                    }
                }
            }
        }
        Ok(())
    }

    /// An entry that a cumulative acknowledgement covers: what was delivered of it is done. What the
    /// client never saw (a filter rescheduled it or broke on it) is not, nor is a later part that was sent
    /// after the entry that it names.
    fn acknowledge_delivered(&mut self, position: Position, sent_at: u64, unfiltered: &dyn Fn() -> bool) {
        let Some(open) = self.open.get(&position) else { return };
        match &open.sent {
            Some(_) if open.is_later_part && open.sent_at > sent_at => {}
            Some(sent) => {
                let left = without(&open.left, open.messages, &sent.shape);
                self.leave_only(position, left);
            }
            None if unfiltered() => self.finish(position),
            None => {}
        }
    }

    fn acknowledge_one(&mut self, ack: &Ack, unfiltered: &dyn Fn() -> bool) {
        let unacked = ack.unacked.as_deref().unwrap_or_default();
        if self.is_in_doubt(ack) {
            // Only a whole one can be the last word on a copy.
            if unacked.is_empty() {
                self.doubt(ack.position);
            }
            return;
        }
        let Some(open) = self.open.get(&ack.position) else {
            let unread = Some(ack.position) > self.frontier;
            if unread && unacked.is_empty() && self.early.len() < MAX_EARLY_ACKS {
                self.early.insert(ack.position);
            }
            return;
        };
        let Some(sent) = &open.sent else {
            // Delivered by the process before us: with one message in it there is no doubt which.
            if unacked.is_empty() && (open.messages == 1 || unfiltered()) {
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

    /// Whether it may be about a copy of an earlier part.
    fn is_in_doubt(&self, ack: &Ack) -> bool {
        self.open.get(&ack.position).is_some_and(|open| open.in_doubt > 0)
    }

    /// Counts one acknowledgement as that of a copy of an earlier part; what is out is sent once more, as it
    /// may be that which was meant.
    fn doubt(&mut self, position: Position) {
        if let Some(open) = self.open.get_mut(&position) {
            open.in_doubt -= 1;
            if matches!(open.place, Place::Out { queued: false, .. }) {
                self.take_back(position, true);
            }
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
                Place::Out { seat, queued } => {
                    if let Some(seat) = self.seats.get_mut(&seat) {
                        seat.unacked = seat.unacked.saturating_sub(gone);
                    }
                    if queued {
                        // An earlier copy is acknowledged in part: what stands in the queue holds too much now.
                        self.put(position, Place::Ready);
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
                    // One of the copies is the one that was acknowledged.
                    open.in_doubt += open.copies.saturating_sub(1);
                    open.copies = 0;
                    open.is_later_part = true;
                }
            }
        }
    }

    /// The entry is done.
    pub(super) fn finish(&mut self, position: Position) {
        self.leave_place(position);
        if let Some(open) = self.open.remove(&position) {
            self.count_waiting(&open.waiting, false);
            self.open_messages -= u64::from(open.messages);
            self.version += 1;
        }
    }
}

/// The position up to which a cumulative acknowledgement is whole.
fn before_of(ack: &Ack) -> Position {
    let part = ack.unacked.as_ref().is_some_and(|unacked| !unacked.is_empty());
    if part { before(ack.position).unwrap_or(ack.position) } else { ack.position }
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
