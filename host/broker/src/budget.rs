//! How much of what is stored may be in memory on its way to clients: one bound for each connection,
//! shared by all its consumers, and one for all connections together.
//!
//! Who wants to read entries takes first what a read may cost, at the connection of the consumer that they
//! are for, and gives back at once what the read did not need. The rest goes with each entry, through judging
//! and the queues, and comes back when its bytes are written to the socket or dropped: a [`Held`] is given
//! back by whoever lets go of it last.
//!
//! Who finds no room stands in line. Lines are served in order within a connection; between connections the
//! one that holds least goes first, and the last quarter of the whole is kept for those that hold nothing:
//! some peers that do not read slow the others down, and do not stop them.
//!
//! Nobody stands in line who holds entries that no consumer can take (they are put down, and read again in
//! their turn), so those in line wait only for judging threads and for sockets.
//!
//! At a hundred times the connections, a hundred times some 100 bytes; each step costs a logarithm of that.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// What an entry costs beside its bytes: its place in the tables, its frame's head.
const ENTRY_OVERHEAD: usize = 256;

/// What holding an entry of `bytes` bytes counts for.
pub(crate) fn cost(bytes: usize) -> usize {
    bytes.saturating_add(ENTRY_OVERHEAD)
}

/// The bound of all connections together.
pub(crate) struct Budget {
    /// All connections together, in bytes.
    total: usize,
    /// One connection.
    each: usize,
    /// What a read may cost.
    read: usize,
    /// Held for moments, and taken last: it is taken under a subscription's window.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: usize,
    shares: HashMap<u64, ShareState>,
    next_share: u64,
    next_turn: u64,
    /// Shares whose first in line waits for the whole, by what they hold.
    hungry: BTreeSet<(usize, u64)>,
}

#[derive(Default)]
struct ShareState {
    held: usize,
    /// By number, so in order.
    line: BTreeMap<u64, Waiting>,
    hungry: bool,
}

struct Waiting {
    granted: Arc<AtomicBool>,
    wake: Arc<Notify>,
}

/// One connection's part: what its consumers may have in memory together. Cheap to clone.
#[derive(Clone)]
pub struct Share(Arc<ShareInner>);

struct ShareInner {
    budget: Arc<Budget>,
    id: u64,
}

/// Bytes of a [`Share`] that are taken; dropping it gives them back.
pub struct Held {
    share: Share,
    bytes: usize,
}

/// A place in a share's line; dropping it leaves the line, or gives back what was granted.
pub(crate) struct Turn {
    share: Share,
    number: u64,
    granted: Arc<AtomicBool>,
}

impl Budget {
    /// `total` bytes for all, `each` for one connection; a read may cost `read`. One read is always
    /// allowed to who holds nothing, so bounds below that count as that.
    pub(crate) fn new(total: usize, each: usize, read: usize) -> Arc<Self> {
        Arc::new(Self { total, each, read, state: Mutex::default() })
    }

    /// A new connection's share.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        let mut state = self.state.lock();
        let id = state.next_share;
        state.next_share += 1;
        state.shares.insert(id, ShareState::default());
        Share(Arc::new(ShareInner { budget: Arc::clone(self), id }))
    }

    /// Bytes taken by all.
    pub(crate) fn held(&self) -> usize {
        self.state.lock().held
    }

    /// Whether a share may take so many bytes more.
    fn fits(&self, state: &State, share: &ShareState, bytes: usize) -> Result<(), Lacks> {
        if share.held > 0 && share.held.saturating_add(bytes) > self.each {
            return Err(Lacks::Share);
        }
        let most = if share.held == 0 { self.total } else { self.total / 4 * 3 };
        if state.held > 0 && state.held.saturating_add(bytes) > most {
            return Err(Lacks::Whole);
        }
        Ok(())
    }

    /// Grants the first in line what a read may cost, and the next, as long as there is room.
    fn serve(&self, state: &mut State, id: u64) {
        loop {
            let Some(share) = state.shares.get(&id) else { return };
            let fits = self.fits(state, share, self.read);
            let waits = !share.line.is_empty();
            state.set_hungry(id, waits && matches!(fits, Err(Lacks::Whole)));
            if !waits || fits.is_err() {
                return;
            }
            state.add(id, self.read);
            let Some(share) = state.shares.get_mut(&id) else { return };
            if let Some((_, first)) = share.line.pop_first() {
                first.granted.store(true, Ordering::Release);
                first.wake.notify_one();
            }
        }
    }

    fn give_back(&self, state: &mut State, id: u64, bytes: usize) {
        state.remove(id, bytes);
        self.serve(state, id);
        // Who holds least goes first; if it finds no room, nobody does.
        while let Some(&(_, first)) = state.hungry.first() {
            let held = state.held;
            self.serve(state, first);
            if state.held == held && state.hungry.first().is_some_and(|(_, id)| *id == first) {
                return;
            }
        }
    }
}

/// What stands in the way.
enum Lacks {
    /// The share holds too much.
    Share,
    /// All together do.
    Whole,
}

impl State {
    fn add(&mut self, id: u64, bytes: usize) {
        self.change(id, |held| held.saturating_add(bytes));
        self.held += bytes;
    }

    fn remove(&mut self, id: u64, bytes: usize) {
        self.change(id, |held| held.saturating_sub(bytes));
        self.held = self.held.saturating_sub(bytes);
    }

    fn change(&mut self, id: u64, change: impl FnOnce(usize) -> usize) {
        let Some(share) = self.shares.get_mut(&id) else { return };
        let before = share.held;
        share.held = change(before);
        if share.hungry {
            let after = share.held;
            self.hungry.remove(&(before, id));
            self.hungry.insert((after, id));
        }
    }

    fn set_hungry(&mut self, id: u64, hungry: bool) {
        let Some(share) = self.shares.get_mut(&id) else { return };
        share.hungry = hungry;
        let key = (share.held, id);
        if hungry {
            self.hungry.insert(key);
        } else {
            self.hungry.remove(&key);
        }
    }
}

impl Share {
    /// Tells shares apart.
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// Takes what a read may cost, if there is room and nobody stands in line.
    pub(crate) fn try_read(&self) -> Option<Held> {
        let budget = &self.0.budget;
        self.try_take(budget.read)
    }

    fn try_take(&self, bytes: usize) -> Option<Held> {
        let budget = &self.0.budget;
        let mut state = budget.state.lock();
        let share = state.shares.get(&self.0.id)?;
        if !share.line.is_empty() || budget.fits(&state, share, bytes).is_err() {
            return None;
        }
        state.add(self.0.id, bytes);
        Some(Held { share: self.clone(), bytes })
    }

    /// Stands in line for what a read may cost; `wake` is told when it is granted.
    pub(crate) fn line_up(&self, wake: &Arc<Notify>) -> Turn {
        let granted = Arc::new(AtomicBool::new(false));
        let waiting = Waiting { granted: Arc::clone(&granted), wake: Arc::clone(wake) };
        let budget = &self.0.budget;
        let mut state = budget.state.lock();
        let number = state.next_turn;
        state.next_turn += 1;
        if let Some(share) = state.shares.get_mut(&self.0.id) {
            share.line.insert(number, waiting);
        }
        // Room may have come since it was looked for.
        budget.serve(&mut state, self.0.id);
        Turn { share: self.clone(), number, granted }
    }

    /// Whether so much is taken that entries which no consumer can take are better put down: those in line
    /// could wait for ever otherwise.
    pub(crate) fn is_crowded(&self) -> bool {
        let budget = &self.0.budget;
        let state = budget.state.lock();
        let held = state.shares.get(&self.0.id).map_or(0, |share| share.held);
        held > budget.each.saturating_sub(budget.read) || state.held > budget.total / 2
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Share({})", self.0.id)
    }
}

impl Drop for ShareInner {
    fn drop(&mut self) {
        // Nothing of it is held and nobody stands in its line: both keep the share.
        self.budget.state.lock().shares.remove(&self.id);
    }
}

impl Held {
    /// Gives back what is beyond `bytes`. What is lacking is taken, room or not: it is in memory already.
    pub(crate) fn fit(&mut self, bytes: usize) {
        let budget = &self.share.0.budget;
        let mut state = budget.state.lock();
        if bytes >= self.bytes {
            state.add(self.share.0.id, bytes - self.bytes);
        } else {
            budget.give_back(&mut state, self.share.0.id, self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// Takes `bytes` out of it, as one of its own.
    pub(crate) fn split(&mut self, bytes: usize) -> Self {
        if bytes > self.bytes {
            self.fit(bytes);
        }
        self.bytes -= bytes;
        Self { share: self.share.clone(), bytes }
    }

    /// Makes it another share's; false if that one has no room.
    pub(crate) fn move_to(&mut self, share: &Share) -> bool {
        if share.id() == self.share.id() {
            return true;
        }
        let Some(held) = share.try_take(self.bytes) else { return false };
        *self = held;
        true
    }

    /// Whose it is.
    pub(crate) fn share(&self) -> &Share {
        &self.share
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {:?}", self.bytes, self.share)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let budget = &self.share.0.budget;
            budget.give_back(&mut budget.state.lock(), self.share.0.id, self.bytes);
        }
    }
}

impl Turn {
    /// What was granted, once it is.
    pub(crate) fn take(self) -> Result<Held, Self> {
        if !self.granted.swap(false, Ordering::AcqRel) {
            return Err(self);
        }
        Ok(Held { share: self.share.clone(), bytes: self.share.0.budget.read })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let budget = &self.share.0.budget;
        let mut state = budget.state.lock();
        if self.granted.swap(false, Ordering::AcqRel) {
            budget.give_back(&mut state, self.share.0.id, budget.read);
            return;
        }
        if let Some(share) = state.shares.get_mut(&self.share.0.id)
            && share.line.remove(&self.number).is_some()
        {
            // The next in line is the first now; and nobody is hungry who is not in line.
            budget.serve(&mut state, self.share.0.id);
        }
    }
}

/// The places that one reader has in the lines of several shares.
#[derive(Default)]
pub(crate) struct Turns(BTreeMap<u64, Turn>);

impl Turns {
    /// Takes what a read may cost from the first of these shares that has it to give. `None`: stands in all
    /// their lines now, and `wake` will be told.
    pub(crate) fn read(&mut self, shares: &[Share], wake: &Arc<Notify>) -> Option<Held> {
        for share in shares {
            let held = match self.0.remove(&share.id()) {
                None => share.try_read(),
                Some(turn) => match turn.take() {
                    Ok(held) => Some(held),
                    Err(turn) => {
                        self.0.insert(share.id(), turn);
                        None
                    }
                },
            };
            if held.is_some() {
                self.0.clear();
                return held;
            }
        }
        let wanted: BTreeSet<u64> = shares.iter().map(Share::id).collect();
        self.0.retain(|id, _| wanted.contains(id));
        for share in shares {
            self.0.entry(share.id()).or_insert_with(|| share.line_up(wake));
        }
        None
    }

    /// Leaves all lines.
    pub(crate) fn leave(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests;
