use proptest::prelude::*;

use super::*;

/// What a read costs.
const READ: usize = 10;

fn wake() -> Arc<Notify> {
    Arc::default()
}

#[track_caller]
fn granted(turn: Turn) -> Held {
    turn.take().unwrap_or_else(|_| panic!("it was not its turn"))
}

#[test]
fn a_share_is_bounded_and_the_next_in_line_gets_what_comes_back() {
    let budget = Budget::new(1000, 25, READ);
    let share = budget.share();
    let (first, second) = (share.try_read().unwrap(), share.try_read().unwrap());
    assert!(share.try_read().is_none());
    let told = wake();
    let (turn, later) = (share.line_up(&told), share.line_up(&wake()));
    let turn = turn.take().unwrap_err();
    drop(first);
    assert!(share.try_read().is_none(), "nobody passes those in line");
    let third = granted(turn);
    let later = later.take().unwrap_err();
    // Somebody else's share is not touched by any of it.
    assert!(budget.share().try_read().is_some());
    drop((second, third));
    drop(granted(later));
    assert_eq!(budget.held(), 0);
}

#[tokio::test]
async fn who_is_granted_something_is_told() {
    let budget = Budget::new(1000, READ, READ);
    let share = budget.share();
    let held = share.try_read().unwrap();
    let told = wake();
    let turn = share.line_up(&told);
    drop(held);
    told.notified().await;
    granted(turn);
}

#[test]
fn a_place_that_is_given_up_is_the_next_ones() {
    let budget = Budget::new(1000, READ, READ);
    let share = budget.share();
    let held = share.try_read().unwrap();
    let (gone, next, last) = (share.line_up(&wake()), share.line_up(&wake()), share.line_up(&wake()));
    drop(gone);
    drop(held);
    // Granted, and not taken.
    drop(next);
    drop(granted(last));
    assert_eq!(budget.held(), 0);
}

#[test]
fn a_read_larger_than_the_bound_goes_alone() {
    let budget = Budget::new(READ / 2, READ / 3, READ);
    let share = budget.share();
    let held = share.try_read().unwrap();
    assert!(share.try_read().is_none());
    assert!(budget.share().try_read().is_none());
    drop(held);
    assert!(budget.share().try_read().is_some());
}

#[test]
fn the_last_quarter_is_for_those_that_hold_nothing() {
    let budget = Budget::new(100, 100, READ);
    let greedy = budget.share();
    let held: Vec<Held> = std::iter::from_fn(|| greedy.try_read()).collect();
    assert_eq!(held.len(), 7);
    let (modest, humble) = (budget.share(), budget.share());
    let one = modest.try_read().unwrap();
    assert!(modest.try_read().is_none());
    let two = humble.try_read().unwrap();
    let (waits, late) = (budget.share(), budget.share());
    let three = waits.try_read().unwrap();
    let (more, turn) = (greedy.line_up(&wake()), late.line_up(&wake()));
    drop(one);
    drop(granted(turn));
    assert!(more.take().is_err(), "who holds much waits for three quarters to be enough");
    drop((two, three, held));
    assert_eq!(budget.held(), 0);
}

#[test]
fn what_a_read_did_not_need_comes_back_and_what_it_needed_more_counts() {
    let budget = Budget::new(1000, 1000, READ);
    let share = budget.share();
    let mut held = share.try_read().unwrap();
    held.fit(4);
    assert_eq!(budget.held(), 4);
    let part = held.split(3);
    assert_eq!(budget.held(), 4);
    let more = held.split(5);
    assert_eq!(budget.held(), 8);
    drop(held);
    assert_eq!(budget.held(), 8);
    drop((part, more));
    assert_eq!(budget.held(), 0);
}

#[test]
fn what_moves_to_another_share_is_counted_there() {
    let budget = Budget::new(1000, READ, READ);
    let (one, other) = (budget.share(), budget.share());
    let (mut held, full) = (one.try_read().unwrap(), other.try_read().unwrap());
    assert!(!held.move_to(&other));
    assert!(held.move_to(&one));
    drop(full);
    assert!(held.move_to(&other));
    assert!(one.try_read().is_some());
    assert!(other.try_read().is_none());
}

#[derive(Clone, Debug)]
enum Step {
    /// A reader of a share wants to read.
    Want(usize),
    /// A reader lets go of what it has, or of its place in line.
    LetGo(usize),
    /// What a reader has turns out smaller.
    Fit(usize, usize),
}

proptest! {
    /// Whatever happens, what is held is what the readers hold, bounds are kept, and in the end everybody
    /// in line gets a turn.
    #[test]
    fn nobody_waits_for_ever(steps in prop::collection::vec(
        prop_oneof![
            4 => (0_usize..12).prop_map(Step::Want),
            3 => (0_usize..12).prop_map(Step::LetGo),
            1 => (0_usize..12, 0_usize..READ).prop_map(|(reader, bytes)| Step::Fit(reader, bytes)),
        ],
        1..200,
    )) {
        let (total, each) = (60, 25);
        let budget = Budget::new(total, each, READ);
        let shares: Vec<Share> = (0..4).map(|_| budget.share()).collect();
        let wake = wake();
        let mut readers: Vec<(Option<Held>, Turns)> = (0..12).map(|_| (None, Turns::default())).collect();
        for step in steps {
            match step {
                Step::Want(i) => {
                    let (held, turns) = &mut readers[i];
                    if held.is_none() {
                        // A reader may read for two connections.
                        let wanted = [shares[i % 4].clone(), shares[(i / 4) % 4].clone()];
                        *held = turns.read(&wanted, &wake);
                    }
                }
                Step::LetGo(i) => {
                    readers[i].0 = None;
                    readers[i].1.leave();
                }
                Step::Fit(i, bytes) => {
                    if let Some(held) = &mut readers[i].0 {
                        held.fit(bytes.min(held.bytes));
                    }
                }
            }
            prop_assert!(budget.held() <= total);
            let state = budget.state.lock();
            let all: usize = state.shares.values().map(|share| share.held).sum();
            prop_assert_eq!(all, state.held);
            for (id, share) in &state.shares {
                prop_assert!(share.held <= each);
                prop_assert_eq!(share.hungry, state.hungry.contains(&(share.held, *id)));
            }
        }
        // All let go, in turn, of what they get: then all who stand in line get something.
        let waiting: Vec<bool> = readers.iter().map(|(_, turns)| !turns.0.is_empty()).collect();
        for (held, _) in &mut readers {
            *held = None;
        }
        let mut served = vec![false; readers.len()];
        for _ in 0..readers.len() {
            for (i, (_, turns)) in readers.iter_mut().enumerate() {
                if !served[i] && waiting[i] {
                    let wanted = [shares[i % 4].clone(), shares[(i / 4) % 4].clone()];
                    served[i] = turns.read(&wanted, &wake).is_some();
                }
            }
        }
        prop_assert_eq!(served, waiting);
    }
}
