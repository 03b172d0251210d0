//! What must hold of very many: one poison among a million messages, one artifact on a thousand topics.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_extension::{
    Broke, BrokeKind, Builtin, Cell, ClassName, Delay, Extensions, Field, MessageFilter, Messages, TopicName,
    Verdict,
};

use crate::binding::{Binding, FilterRef, OnFailure, Origin, Target};
use crate::bindings::Bindings;
use crate::chain::{Failure, Judgement, Outcome};
use crate::workers::{Worker, Workers};

const MESSAGES: i64 = 1_000_000;
const BATCH: i64 = 256;

/// Neither the first nor the last of its batch.
const POISON: i64 = 654_321;

/// Judges a message by its number, which it reads from the message; one number is too much for it.
struct Numbers;

/// The rule: a third is accepted, a third rejected, a third put off.
fn rule(number: i64) -> Verdict {
    match number % 3 {
        0 => Verdict::Accept,
        1 => Verdict::Reject,
        _ => Verdict::Reschedule(Delay::from_millis(7)),
    }
}

impl MessageFilter for Numbers {
    fn judge(
        &mut self,
        messages: &Messages<'_>,
        rows: &[u32],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), Broke> {
        for row in rows {
            match messages.cell(*row, 0) {
                Cell::Number(POISON) => return Err(too_much()),
                Cell::Number(number) => verdicts.push(rule(number)),
                other => panic!("{other:?} is no number"),
            }
        }
        Ok(())
    }
}

fn too_much() -> Broke {
    Broke { kind: BrokeKind::Trap, reason: "too much".to_owned() }
}

fn class() -> ClassName {
    ClassName::new("test.Numbers").unwrap()
}

/// The filter, whose instances are counted as they are made.
fn extensions(made: &Arc<AtomicUsize>) -> Arc<Extensions> {
    let made = Arc::clone(made);
    Extensions::with_builtins(vec![Builtin::filter(class(), vec![Field::SequenceId], move |_| {
        made.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Numbers))
    })])
}

fn bind(bindings: &Bindings, topic: &TopicName) {
    let binding = Binding {
        target: Target::Topic(topic.clone()),
        subscription: None,
        filters: vec![FilterRef { class: class(), config: None }],
        on_failure: OnFailure::Withhold,
        origin: Origin::Rest,
    };
    bindings.put(binding, []).unwrap();
}

#[test]
fn one_poison_among_a_million_bears_the_policy_and_nothing_else_does() {
    let made = Arc::new(AtomicUsize::new(0));
    let extensions = extensions(&made);
    let bindings = Bindings::new(Arc::clone(&extensions));
    let topic = TopicName::new("t").unwrap();
    bind(&bindings, &topic);
    let pinned = bindings.chain(&topic, "s").unwrap().pin();
    let mut worker = Worker::default();
    let mut withheld = Vec::new();
    for first in (0..MESSAGES).step_by(BATCH as usize) {
        let numbers = first..(first + BATCH).min(MESSAGES);
        let mut messages = worker.view(&pinned);
        for number in numbers.clone() {
            messages.row().number(&Field::SequenceId, number);
        }
        let Judgement::Judged(outcomes) = worker.judge(&pinned, &messages) else { panic!("it pauses") };
        worker.give_back(messages);
        assert_eq!(outcomes.len() as i64, numbers.end - first);
        for (number, outcome) in numbers.zip(outcomes) {
            let right = match (&outcome, rule(number)) {
                (Outcome::Accept, Verdict::Accept) | (Outcome::Reject, Verdict::Reject) => true,
                (Outcome::Reschedule(delay), Verdict::Reschedule(asked)) => *delay == asked.into(),
                _ => false,
            };
            if !right {
                withheld.push((number, outcome));
            }
        }
    }
    let failure = Failure::Broke { class: class(), broke: too_much() };
    assert_eq!(withheld, [(POISON, Outcome::Withhold(Arc::new(failure)))]);
    let counts = extensions.info(&class()).unwrap().counts;
    let said_no = counts.accepted + counts.rejected + counts.rescheduled;
    assert_eq!((counts.messages, said_no, counts.broke), (1_000_000, 999_999, 1));
    // The batch, the poison with others before it, and the poison alone.
    assert_eq!(counts.broken_calls.get("trap"), Some(&3));
    assert_eq!(counts.times.count(), counts.calls - BATCH as u64 - 1, "a batch is timed once");
    assert_eq!(made.load(Ordering::Relaxed), 4, "three of them were thrown away");
    assert_eq!(counts.instances, 1);
}

#[tokio::test]
async fn a_filter_of_a_thousand_topics_is_held_once_a_worker() {
    const TOPICS: usize = 1000;
    const THREADS: usize = 2;
    let made = Arc::new(AtomicUsize::new(0));
    let extensions = extensions(&made);
    let bindings = Bindings::new(Arc::clone(&extensions));
    let workers = Workers::new(THREADS);
    let mut ids = HashSet::new();
    for topic in 0..TOPICS {
        let topic = TopicName::new(&format!("t{topic}")).unwrap();
        bind(&bindings, &topic);
        let chain = bindings.chain(&topic, "s").unwrap();
        let pinned = chain.pin();
        ids.extend(pinned.filters().map(|(filter, _)| filter.as_ref().unwrap().filter.id()));
        let judgement = workers.run(move |worker| {
            let mut messages = worker.view(&pinned);
            messages.row().number(&Field::SequenceId, 3);
            worker.judge(&pinned, &messages)
        });
        assert_eq!(judgement.await, Ok(Judgement::Judged(vec![Outcome::Accept])));
    }
    assert_eq!(ids.len(), 1, "one version with one configuration");
    assert!((1..=THREADS).contains(&made.load(Ordering::Relaxed)));
    let alive = extensions.info(&class()).unwrap().counts.instances;
    assert_eq!(alive, made.load(Ordering::Relaxed) as u64, "and none is made anew");
    drop(workers);
    assert_eq!(extensions.info(&class()).unwrap().counts.instances, 0, "they go with their workers");
}
