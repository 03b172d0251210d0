use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use proptest::prelude::*;
use weir_extension::{Builtin, ClassName, Delay, Extensions, Field, TopicName, TrialRule};

use super::*;
use crate::binding::{Binding, FilterRef, Origin, Target};
use crate::bindings::Bindings;
use crate::chain::{Chain, PauseReason};

/// What a filter does with a message.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Accept,
    Reject,
    Later,
    /// Returns an error for the message.
    Err,
    /// Breaks the whole call.
    Trap,
    /// Panics.
    Panic,
    /// Gives no verdict.
    Forget,
}
use Act::{Accept, Err as Error, Forget, Later, Panic, Reject, Trap};

/// What every filter of a test does with each message of the batch at hand, and what was seen of it.
#[derive(Default)]
struct Script {
    /// By filter, then row.
    acts: Mutex<Vec<Vec<Act>>>,
    /// Filter and rows of each call.
    calls: Mutex<Vec<(usize, Vec<u32>)>>,
    instances: AtomicUsize,
}

struct Scripted {
    script: Arc<Script>,
    filter: usize,
    /// How many messages an instance can take before it breaks.
    stamina: usize,
}

impl MessageFilter for Scripted {
    fn judge(&mut self, _: &Messages<'_>, rows: &[u32], verdicts: &mut Vec<Verdict>) -> Result<(), Broke> {
        self.script.calls.lock().push((self.filter, rows.to_vec()));
        for row in rows {
            let Some(left) = self.stamina.checked_sub(1) else { return Err(broke(BrokeKind::Memory)) };
            self.stamina = left;
            let act = self.script.acts.lock()[self.filter][*row as usize];
            verdicts.push(match act {
                Accept => Verdict::Accept,
                Reject => Verdict::Reject,
                Later => Verdict::Reschedule(Delay::from_millis(7)),
                Error => Verdict::Broke,
                Trap => return Err(broke(BrokeKind::Trap)),
                Panic => panic!("boom"),
                Forget => continue,
            });
        }
        Ok(())
    }
}

fn broke(kind: BrokeKind) -> Broke {
    Broke { kind, reason: "as the script says".to_owned() }
}

struct Setting {
    script: Arc<Script>,
    extensions: Arc<Extensions>,
    chain: Arc<Chain>,
    worker: Worker,
}

fn class(filter: usize) -> ClassName {
    ClassName::new(&format!("test.F{filter}")).unwrap()
}

fn builtin(script: &Arc<Script>, filter: usize, stamina: usize) -> Builtin {
    let script = Arc::clone(script);
    let fields = vec![Field::Key, Field::Property(format!("p{filter}").into())];
    Builtin::filter(class(filter), fields, move |_| {
        script.instances.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Scripted { script: Arc::clone(&script), filter, stamina }))
    })
}

/// A chain of some filters, all registered.
fn setting(policy: OnFailure, filters: usize, stamina: usize) -> Setting {
    let script = Arc::new(Script::default());
    let extensions = Extensions::with_builtins((0..filters).map(|f| builtin(&script, f, stamina)).collect());
    let bindings = Bindings::new(Arc::clone(&extensions));
    let topic = TopicName::new("t").unwrap();
    let filters = (0..filters).map(|f| FilterRef { class: class(f), config: None }).collect();
    let binding = Binding {
        target: Target::Topic(topic.clone()),
        subscription: None,
        filters,
        on_failure: policy,
        origin: Origin::Rest,
    };
    bindings.put(binding, []).unwrap();
    let chain = bindings.chain(&topic, "s").unwrap();
    Setting { script, extensions, chain, worker: Worker::default() }
}

impl Setting {
    /// Judges one batch; `acts` by filter, then message.
    fn judge(&mut self, acts: &[&[Act]]) -> Judgement {
        self.judge_at(acts, Instant::now())
    }

    fn judge_at(&mut self, acts: &[&[Act]], now: Instant) -> Judgement {
        let pinned = self.chain.pin_at(now);
        *self.script.acts.lock() = acts.iter().map(|acts| acts.to_vec()).collect();
        let mut messages = Messages::new(Arc::clone(pinned.reads()));
        for _ in acts[0] {
            messages.row();
        }
        self.worker.judge_at(&pinned, &messages, now)
    }

    fn calls(&self) -> Vec<(usize, Vec<u32>)> {
        std::mem::take(&mut *self.script.calls.lock())
    }
}

fn failure(filter: usize, act: Act) -> Arc<Failure> {
    let broke = match act {
        Error => Broke { kind: BrokeKind::Error, reason: "it returned an error for this message".to_owned() },
        Panic => Broke { kind: BrokeKind::Panic, reason: "boom".to_owned() },
        Forget => {
            Broke { kind: BrokeKind::BadAnswer, reason: "it gave 0 verdicts for 1 messages".to_owned() }
        }
        _ => broke(BrokeKind::Trap),
    };
    Arc::new(Failure::Broke { class: class(filter), broke })
}

/// The rule for one message, without batches: what every judgement must come to.
fn plain(policy: OnFailure, acts: impl IntoIterator<Item = Act>) -> Outcome {
    let mut outcome = Outcome::Accept;
    for (filter, act) in acts.into_iter().enumerate() {
        match (act, policy) {
            (Accept, _) => {}
            (Reject, _) => return Outcome::Reject,
            (Later, _) => return Outcome::Reschedule(Duration::from_millis(7)),
            (_, OnFailure::Withhold) => return Outcome::Withhold(failure(filter, act)),
            (_, OnFailure::Discard) => return Outcome::Discard(failure(filter, act)),
            (_, OnFailure::Deliver) if outcome == Outcome::Accept => {
                outcome = Outcome::Deliver(failure(filter, act));
            }
            (_, OnFailure::Deliver) => {}
        }
    }
    outcome
}

const POLICIES: [OnFailure; 3] = [OnFailure::Deliver, OnFailure::Withhold, OnFailure::Discard];

#[test]
fn only_the_poison_bears_the_policy_wherever_it_lies() {
    let healthy = [Accept, Reject, Later, Accept, Reject];
    for policy in POLICIES {
        for poison in [Trap, Error, Panic, Forget] {
            for place in 0..=healthy.len() {
                let mut acts = healthy.to_vec();
                acts.insert(place, poison);
                let expected = acts.iter().map(|act| plain(policy, [*act])).collect();
                let judgement = setting(policy, 1, usize::MAX).judge(&[&acts]);
                assert_eq!(judgement, Judgement::Judged(expected), "{policy:?} {poison:?} at {place}");
            }
        }
    }
}

#[test]
fn a_filter_sees_what_those_before_it_accepted() {
    let mut setting = setting(OnFailure::Withhold, 3, usize::MAX);
    let judgement = setting.judge(&[
        &[Accept, Reject, Accept, Accept, Error],
        &[Accept, Accept, Later, Accept, Accept],
        &[Accept, Accept, Accept, Reject, Accept],
    ]);
    let withheld = Outcome::Withhold(failure(0, Error));
    let later = Outcome::Reschedule(Duration::from_millis(7));
    let expected = vec![Outcome::Accept, Outcome::Reject, later, Outcome::Reject, withheld];
    assert_eq!(judgement, Judgement::Judged(expected));
    assert_eq!(setting.calls(), [(0, vec![0, 1, 2, 3, 4]), (1, vec![0, 2, 3]), (2, vec![0, 3])]);
}

#[test]
fn delivered_on_failure_means_accepted_by_that_filter_only() {
    let mut setting = setting(OnFailure::Deliver, 2, usize::MAX);
    let judgement = setting.judge(&[&[Trap, Trap, Accept], &[Accept, Reject, Accept]]);
    let delivered = Outcome::Deliver(failure(0, Trap));
    assert_eq!(judgement, Judgement::Judged(vec![delivered, Outcome::Reject, Outcome::Accept]));
}

#[test]
fn an_error_for_a_message_is_not_judged_again() {
    let mut setting = setting(OnFailure::Withhold, 1, usize::MAX);
    setting.judge(&[&[Error, Accept, Error]]);
    assert_eq!(setting.calls(), [(0, vec![0, 1, 2])]);
}

#[test]
fn poison_is_found_with_two_fresh_instances() {
    let mut setting = setting(OnFailure::Withhold, 1, usize::MAX);
    setting.judge(&[&[Accept, Accept]]);
    assert_eq!(setting.script.instances.load(Ordering::Relaxed), 1);
    setting.calls();
    setting.judge(&[&[Trap, Accept, Accept]]);
    assert_eq!(setting.calls(), [(0, vec![0, 1, 2]), (0, vec![0]), (0, vec![1]), (0, vec![2])]);
    assert_eq!(setting.script.instances.load(Ordering::Relaxed), 3);
    // The last one is warm again.
    setting.judge(&[&[Accept]]);
    assert_eq!(setting.script.instances.load(Ordering::Relaxed), 3);
}

#[test]
fn what_others_left_behind_is_not_held_against_a_message() {
    // An instance takes three messages: the call breaks, one by one all pass.
    let mut setting = setting(OnFailure::Discard, 1, 3);
    let judgement = setting.judge(&[&[Accept; 8]]);
    assert_eq!(judgement, Judgement::Judged(vec![Outcome::Accept; 8]));
}

#[test]
fn a_lone_message_that_breaks_a_used_instance_gets_a_fresh_one() {
    let mut setting = setting(OnFailure::Discard, 1, 3);
    setting.judge(&[&[Accept; 3]]);
    assert_eq!(setting.judge(&[&[Accept]]), Judgement::Judged(vec![Outcome::Accept]));
}

#[test]
fn a_missing_filter_pauses_unless_the_policy_is_to_deliver() {
    for policy in POLICIES {
        let mut setting = setting(policy, 2, usize::MAX);
        assert!(setting.extensions.remove_builtin(&class(1)));
        let missing = Unavailable::Missing { class: class(1) };
        let acts: [&[Act]; 2] = [&[Accept, Reject], &[Reject, Reject]];
        match setting.judge(&acts) {
            Judgement::Judged(outcomes) => {
                assert_eq!(policy, OnFailure::Deliver);
                let failure = Arc::new(Failure::Unavailable(missing));
                assert_eq!(outcomes, [Outcome::Deliver(failure), Outcome::Reject]);
            }
            Judgement::Paused(paused) => {
                assert_ne!(policy, OnFailure::Deliver);
                assert_eq!(paused.reason, PauseReason::Unavailable(missing));
                assert_eq!(setting.calls(), []);
            }
        }
        // It comes back by itself once it is registered.
        setting.extensions.put_builtin(builtin(&setting.script, 1, usize::MAX));
        assert_eq!(setting.judge(&acts), Judgement::Judged(vec![Outcome::Reject, Outcome::Reject]));
    }
}

#[test]
fn a_batch_ends_with_the_versions_it_began_with() {
    let mut setting = setting(OnFailure::Withhold, 1, usize::MAX);
    let other = Arc::new(Script::default());
    *other.acts.lock() = vec![vec![Reject]];
    *setting.script.acts.lock() = vec![vec![Accept]];
    let pinned = setting.chain.pin();
    let mut messages = Messages::new(Arc::clone(pinned.reads()));
    messages.row();
    setting.extensions.put_builtin(builtin(&other, 0, usize::MAX));
    assert_eq!(setting.worker.judge(&pinned, &messages), Judgement::Judged(vec![Outcome::Accept]));
    let pinned = setting.chain.pin();
    assert_eq!(setting.worker.judge(&pinned, &messages), Judgement::Judged(vec![Outcome::Reject]));
}

#[test]
fn a_chain_reads_each_field_once_in_order() {
    let setting = setting(OnFailure::Withhold, 2, usize::MAX);
    let property = |name: &str| Field::Property(name.into());
    assert_eq!(setting.chain.pin().reads()[..], [Field::Key, property("p0"), property("p1")]);
}

#[test]
fn a_filter_that_breaks_on_everything_pauses_the_subscription() {
    let mut setting = setting(OnFailure::Discard, 1, usize::MAX);
    let now = Instant::now();
    // Nothing is acknowledged on the account of a filter that may be the one to blame.
    let all_broke = Judgement::Judged(vec![Outcome::Withhold(failure(0, Trap)); 20]);
    assert_eq!(setting.judge_at(&[&[Trap; 20]], now), all_broke);
    assert_eq!(setting.judge_at(&[&[Trap; 20]], now), all_broke);
    let Judgement::Paused(paused) = setting.judge_at(&[&[Trap; 20]], now) else { panic!("it should pause") };
    assert!(paused.to_string().contains("test.F0 breaks on every message"), "{paused}");
    assert!(setting.chain.pin_at(now).paused().is_some());
    setting.calls();
    // Nothing is called while it rests; then one batch is a trial.
    assert!(matches!(setting.judge_at(&[&[Accept]], now), Judgement::Paused(_)));
    assert_eq!(setting.calls(), []);
    let later = now + paused.retry_after + Duration::from_secs(1);
    assert!(matches!(setting.judge_at(&[&[Trap; 2]], later), Judgement::Paused(_)));
    let later = later + 4 * paused.retry_after;
    assert_eq!(setting.judge_at(&[&[Accept]], later), Judgement::Judged(vec![Outcome::Accept]));
    assert_eq!(
        setting.judge_at(&[&[Trap]], later),
        Judgement::Judged(vec![Outcome::Discard(failure(0, Trap))])
    );
}

#[test]
fn a_backlog_is_never_acknowledged_by_a_filter_that_breaks_on_everything() {
    let mut setting = setting(OnFailure::Discard, 1, usize::MAX);
    let mut now = Instant::now();
    let withheld = Judgement::Judged(vec![Outcome::Withhold(failure(0, Trap))]);
    for _ in 0..100 {
        // One by one and slowly, so that it is not seen in a rush.
        now += Duration::from_secs(600);
        assert_eq!(setting.judge_at(&[&[Trap]], now), withheld);
    }
    // It works, and breaks on everything afterwards: a few may have been poison.
    setting.judge_at(&[&[Accept]], now);
    let mut discarded = 0;
    for _ in 0..100 {
        now += Duration::from_secs(600);
        match setting.judge_at(&[&[Trap]], now) {
            Judgement::Judged(outcomes) if outcomes == [Outcome::Discard(failure(0, Trap))] => discarded += 1,
            judgement => assert_eq!(judgement, withheld),
        }
    }
    assert_eq!(discarded, 8);
    // Beside one that gets a verdict it is the message's fault.
    let judgement = setting.judge_at(&[&[Trap, Reject]], now);
    assert_eq!(judgement, Judgement::Judged(vec![Outcome::Discard(failure(0, Trap)), Outcome::Reject]));
}

#[test]
fn what_is_not_reached_in_time_is_withheld_whatever_the_policy() {
    for policy in POLICIES {
        let mut setting = setting(policy, 2, usize::MAX);
        setting.worker = Worker::with_patience(Duration::ZERO);
        let acts: [&[Act]; 2] = [&[Accept, Trap, Accept], &[Accept; 3]];
        let not_reached = Outcome::Withhold(Arc::new(Failure::NotReached { class: class(0) }));
        let expected = vec![Outcome::Accept, not_reached.clone(), not_reached];
        assert_eq!(setting.judge(&acts), Judgement::Judged(expected), "{policy:?}");
        // The call, the first alone; the next filter gets what is left.
        assert_eq!(setting.calls(), [(0, vec![0, 1, 2]), (0, vec![0]), (1, vec![0])]);
        let counts = setting.extensions.info(&class(0)).unwrap().counts;
        assert_eq!((counts.accepted, counts.broke, counts.passed_alone), (1, 0, 0));
    }
}

#[test]
fn a_new_version_ends_the_pause() {
    let mut setting = setting(OnFailure::Withhold, 1, usize::MAX);
    for _ in 0..3 {
        setting.judge(&[&[Trap; 20]]);
    }
    assert!(setting.chain.pin().paused().is_some());
    setting.extensions.put_builtin(builtin(&setting.script, 0, usize::MAX));
    assert!(setting.chain.pin().paused().is_none());
    assert_eq!(setting.judge(&[&[Accept]]), Judgement::Judged(vec![Outcome::Accept]));
}

#[test]
fn with_deliver_a_filter_that_breaks_on_everything_is_passed_over() {
    let mut setting = setting(OnFailure::Deliver, 2, usize::MAX);
    for _ in 0..3 {
        let judgement = setting.judge(&[&[Trap; 20], &[Accept; 20]]);
        assert_eq!(judgement, Judgement::Judged(vec![Outcome::Deliver(failure(0, Trap)); 20]));
    }
    setting.calls();
    let resting = Failure::Resting { class: class(0), broke: broke(BrokeKind::Trap) };
    let judgement = setting.judge(&[&[Trap; 2], &[Accept, Reject]]);
    assert_eq!(judgement, Judgement::Judged(vec![Outcome::Deliver(Arc::new(resting)), Outcome::Reject]));
    assert_eq!(setting.calls(), [(1, vec![0, 1])]);
}

proptest! {
    /// However messages are cut into batches and whichever of them are poison: each gets what it would
    /// get alone. (Fewer than what makes a filter rest.)
    #[test]
    fn batches_do_not_matter(
        policy in prop::sample::select(&POLICIES[..]),
        messages in prop::collection::vec(prop::array::uniform2(prop::sample::select(
            &[Accept, Accept, Reject, Later, Error, Trap, Forget][..],
        )), 1..31),
        sizes in prop::collection::vec(1_usize..9, 31),
        stamina in prop::sample::select(&[usize::MAX, 1, 2, 5][..]),
    ) {
        let mut setting = setting(policy, 2, stamina);
        // Both have shown that they work.
        setting.judge(&[&[Accept], &[Accept]]);
        let mut rest = &messages[..];
        let mut outcomes = Vec::new();
        for size in sizes {
            let (batch, others) = rest.split_at(size.min(rest.len()));
            rest = others;
            if batch.is_empty() {
                break;
            }
            let acts = [0, 1].map(|f| batch.iter().map(|acts| acts[f]).collect::<Vec<_>>());
            match setting.judge(&[&acts[0], &acts[1]]) {
                Judgement::Judged(some) => outcomes.extend(some),
                Judgement::Paused(paused) => prop_assert!(false, "{paused}"),
            }
        }
        let expected: Vec<Outcome> = messages.iter().map(|acts| plain(policy, *acts)).collect();
        prop_assert_eq!(outcomes, expected);
    }
}

/// A chain of one filter whose version is on trial: the new one follows the script of filter 0, the last good
/// one that of filter 1.
fn on_trial(policy: OnFailure) -> Setting {
    let setting = setting(policy, 1, 1000);
    let scripted = |filter: usize| {
        let script = Arc::clone(&setting.script);
        let fields = vec![Field::Property(format!("p{filter}").into())];
        Builtin::filter(class(0), fields, move |_| {
            script.instances.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(Scripted { script: Arc::clone(&script), filter, stamina: 1000 }))
        })
    };
    setting.extensions.put_builtin(scripted(1).with_version("good"));
    let rule = TrialRule { messages: 1 << 40, minimum: 1 << 40, broken_of_million: 0 };
    setting.extensions.put_on_trial(scripted(0).with_version("new"), rule);
    setting
}

#[track_caller]
fn check_trial(setting: &Setting, judged: u64, broke: u64) {
    let info = setting.extensions.info(&class(0)).unwrap();
    assert_eq!(info.version, "new");
    assert_eq!(info.trial.map(|trial| (trial.judged, trial.broke)), Some((judged, broke)));
}

#[test]
fn on_trial_the_last_good_version_judges_what_breaks_the_new_one() {
    for policy in [OnFailure::Withhold, OnFailure::Discard, OnFailure::Deliver] {
        let mut setting = on_trial(policy);
        let reads = Arc::clone(setting.chain.pin().reads());
        assert_eq!(*reads, [Field::Property("p0".into()), Field::Property("p1".into())]);
        let new = [Accept, Trap, Error, Reject, Panic, Forget];
        let good = [Reject, Accept, Reject, Accept, Later, Accept];
        let later = Outcome::Reschedule(Duration::from_millis(7));
        let (accept, reject) = (Outcome::Accept, Outcome::Reject);
        let expected = vec![accept.clone(), accept.clone(), reject.clone(), reject, later, accept];
        assert_eq!(setting.judge(&[&new, &good]), Judgement::Judged(expected));
        let asked = setting.calls().into_iter().filter(|(filter, _)| *filter == 1);
        assert_eq!(
            asked.map(|(_, rows)| rows).collect::<Vec<_>>(),
            [[1, 2, 4, 5]],
            "once, and no more than it must"
        );
        check_trial(&setting, 6, 4);
    }
}

#[test]
fn what_breaks_both_bears_the_policy_and_says_nothing_of_the_new_one() {
    let mut setting = on_trial(OnFailure::Withhold);
    let outcomes = setting.judge(&[&[Accept, Trap, Accept], &[Accept, Panic, Accept]]);
    let expected = vec![Outcome::Accept, Outcome::Withhold(failure(0, Trap)), Outcome::Accept];
    assert_eq!(outcomes, Judgement::Judged(expected), "the failure is told that the new one had");
    check_trial(&setting, 2, 0);
}

#[test]
fn a_version_that_breaks_on_everything_pauses_nothing_while_the_last_good_one_judges() {
    let mut setting = on_trial(OnFailure::Withhold);
    for n in 1..=10 {
        let outcomes = setting.judge(&[&[Trap; 64], &[Accept; 64]]);
        assert_eq!(outcomes, Judgement::Judged(vec![Outcome::Accept; 64]));
        check_trial(&setting, n * 64, n * 64);
    }
}

#[test]
fn what_the_new_one_is_too_slow_for_is_judged_by_the_last_good_one() {
    let mut setting = on_trial(OnFailure::Withhold);
    setting.worker = Worker::with_patience(Duration::ZERO);
    let outcomes = setting.judge(&[&[Trap; 8], &[Accept; 8]]);
    assert_eq!(outcomes, Judgement::Judged(vec![Outcome::Accept; 8]));
    // The first row is always judged; of the others nothing is known.
    check_trial(&setting, 1, 1);
}

#[test]
fn where_no_instance_can_be_made_the_last_good_one_judges() {
    let mut setting = on_trial(OnFailure::Withhold);
    let broken = Builtin::filter(class(0), Vec::new(), |_| Err(broke(BrokeKind::Memory))).with_version("new");
    let rule = TrialRule { messages: 1 << 40, minimum: 1 << 40, broken_of_million: 0 };
    setting.extensions.put_on_trial(broken, rule);
    assert_eq!(
        setting.judge(&[&[Accept; 2], &[Reject, Accept]]),
        Judgement::Judged(vec![Outcome::Reject, Outcome::Accept])
    );
    check_trial(&setting, 2, 2);
}
