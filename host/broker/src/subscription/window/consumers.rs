//! Consumers come and go, take what is prepared, and ask for it again.

use std::collections::BTreeSet;

use weir_store::Position;

use super::super::seat::Seat;
use super::super::{Delivery, SubscriptionType};
use super::{Closed, Place, Prepared, Sent, Window};
use crate::budget::{Held, Share};

impl Window {
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
            self.put_down();
        }
    }

    /// Lets go of the bytes that no consumer has taken: they are read again when one can.
    pub(crate) fn put_down(&mut self) {
        for (position, _) in std::mem::take(&mut self.prepared) {
            self.put(position, Place::Ready);
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
            // Not before: what a client says until then is said of what it had.
            open.sent = open.queued.take();
            open.copies += 1;
            self.deliveries += 1;
            open.sent_at = self.deliveries;
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

    pub(super) fn take_back(&mut self, position: Position, asked: bool) {
        let Some(open) = self.open.get_mut(&position) else { return };
        let Place::Out { queued, .. } = open.place else { return };
        if asked && !queued {
            open.redeliveries += 1;
        }
        self.put(position, Place::Ready);
    }

    pub(super) fn someone_can_take(&self) -> bool {
        let shared = self.kind == Some(SubscriptionType::Shared);
        self.seats.values().any(|seat| seat.can_take(shared))
    }

    /// Consumers that can take something, from the one whose turn it is.
    pub(super) fn takers(&self) -> impl Iterator<Item = (u64, &Seat)> {
        let shared = self.kind == Some(SubscriptionType::Shared);
        let after = self.seats.range(self.last_served + 1..);
        let seats = after.chain(self.seats.range(..=self.last_served));
        seats.filter(move |(_, seat)| seat.can_take(shared)).map(|(id, seat)| (*id, seat))
    }

    /// The shares of those that can take something, each once, in their turn.
    pub(crate) fn takers_shares(&self) -> Vec<Share> {
        let mut seen = BTreeSet::new();
        let shares = self.takers().map(|(_, seat)| &seat.share);
        shares.filter(|share| seen.insert(share.id())).cloned().collect()
    }

    /// The next consumer that can take it and has room for it in its share.
    fn taker(&self, held: &mut Held) -> Option<u64> {
        self.takers().find(|(_, seat)| held.move_to(&seat.share)).map(|(id, _)| id)
    }

    pub(super) fn hand_out(&mut self) {
        while let Some((position, mut prepared)) = self.prepared.pop_first() {
            // What was read before goes first: on an exclusive subscription that is the order.
            let after_another = self.ready.first().is_some_and(|ready| *ready < position);
            let taker = if after_another { None } else { self.taker(&mut prepared.held) };
            let Some(id) = taker else {
                self.prepared.insert(position, prepared);
                return;
            };
            let Prepared { parcel, held } = prepared;
            self.last_served = id;
            let (Some(open), Some(seat)) = (self.open.get_mut(&position), self.seats.get_mut(&id)) else {
                continue;
            };
            open.place = Place::Out { seat: id, queued: true };
            open.queued = Some(Sent { shape: parcel.shape, messages: parcel.messages });
            seat.unacked += open.left();
            seat.push(Delivery {
                position,
                redelivery_count: open.redeliveries,
                entry: parcel.bytes,
                messages: parcel.messages,
                held,
            });
        }
    }
}
