//! Judging a batch: the chain, the poison in it, the policy.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_extension::{
    Broke, BrokeKind, Configured, MessageFilter, Messages, Tally, Trial, Unavailable, Verdict, last_words,
};

use crate::binding::OnFailure;
use crate::chain::{Called, Failure, Judgement, Outcome, Paused, Pinned};
use crate::workers::{Worker, panic_text};

/// How long the messages of a batch that broke are judged one by one, before those that are left are put
/// off: a filter may take its deadline for each, and that long again to be made anew, while other
/// subscriptions wait for the thread.
pub(crate) const ONE_BY_ONE: Duration = Duration::from_secs(2);

/// What one filter makes of one message.
enum Answer {
    Accept,
    Reject,
    Reschedule(Duration),
    Broke(Broke),
    /// Others of its batch took all the time that there is to judge them one by one.
    NotReached,
}

/// The messages of a batch on their way through a chain.
struct Batch {
    /// The binding's.
    policy: OnFailure,
    outcomes: Vec<Outcome>,
    /// What is still to be judged: those that every filter so far has let through.
    rows: Vec<u32>,
}

impl Worker {
    /// Judges a batch: each filter gets what the ones before it accepted. When a call breaks, its
    /// messages are judged one by one on a fresh instance of the same version; only what breaks alone
    /// bears the policy, and what the filter returned an error for.
    ///
    /// `messages` must hold the fields of [`Pinned::reads`]. What has not been judged one by one within
    /// two seconds is withheld, whatever the policy; and a filter that breaks on everything is left alone
    /// for a while after three such batches. Until a filter has given a verdict, and again after a few
    /// messages in a row that it broke on, what would be discarded is withheld: it may be the filter that
    /// is broken, and then nothing is acknowledged.
    pub fn judge(&mut self, chain: &Pinned, messages: &Messages<'_>) -> Judgement {
        self.judge_at(chain, messages, Instant::now())
    }

    pub(crate) fn judge_at(&mut self, chain: &Pinned, messages: &Messages<'_>, began: Instant) -> Judgement {
        if let Some(paused) = chain.paused() {
            return Judgement::Paused(paused.clone());
        }
        let clock = Instant::now();
        let mut batch = Batch::new(messages.len(), chain.on_failure());
        for (filter, breaker) in chain.filters() {
            if batch.rows.is_empty() {
                break;
            }
            let Called { filter, trial } = match filter {
                Ok(called) => called,
                Err(unavailable) => {
                    if let Some(paused) = batch.pass_over(unavailable.clone()) {
                        return Judgement::Paused(paused);
                    }
                    continue;
                }
            };
            let (id, class) = (filter.id(), filter.class());
            if let Some((left, broke)) = breaker.lock().resting(id, began) {
                if batch.policy != OnFailure::Deliver {
                    return Judgement::Paused(Paused::breaks_on_everything(class, broke, left));
                }
                batch.deliver_all(Failure::Resting { class: class.clone(), broke });
                continue;
            }
            let answers = match self.ask_on_trial(filter, trial.as_ref(), messages, &batch.rows) {
                Ok(answers) => answers,
                Err(unavailable) => {
                    if let Some(paused) = batch.pass_over(unavailable) {
                        return Judgement::Paused(paused);
                    }
                    continue;
                }
            };
            let mut policy = batch.policy;
            match every_one_broke(&answers) {
                None => breaker.lock().worked(id),
                Some(broke) => {
                    let (rest, doubts) = {
                        let mut breaker = breaker.lock();
                        let rest = breaker.broke(id, answers.len(), broke, began + clock.elapsed());
                        (rest, breaker.doubts())
                    };
                    if doubts && policy == OnFailure::Discard {
                        policy = OnFailure::Withhold;
                    }
                    if let Some(rest) = rest {
                        tracing::warn!(%class, %broke, ?rest, "filter breaks on every message; leaving it alone");
                        if batch.policy != OnFailure::Deliver {
                            return Judgement::Paused(Paused::breaks_on_everything(
                                class,
                                broke.clone(),
                                rest,
                            ));
                        }
                    }
                }
            }
            batch.apply(filter, policy, answers);
        }
        Judgement::Judged(batch.outcomes)
    }

    /// Asks one filter about some rows. While its version is on trial, what breaks it, or what it is too slow
    /// for, is judged by the last good one.
    fn ask_on_trial(
        &mut self,
        filter: &Arc<Configured>,
        trial: Option<&Trial>,
        messages: &Messages<'_>,
        rows: &[u32],
    ) -> Result<Vec<Answer>, Unavailable> {
        let asked = self.ask(filter, messages, rows);
        let Some(trial) = trial else { return asked };
        let Some(last_good) = trial.last_good() else {
            if let Ok(answers) = &asked {
                let how = answers.iter().rev().find_map(Answer::broke);
                let broke = answers.iter().filter_map(Answer::broke).count();
                trial.count(verdicts(answers), broke as u64, how);
            }
            return asked;
        };
        // That no instance can be made counts as breaking on each of them.
        let (mut answers, unmade) = match asked {
            Ok(answers) => (answers, None),
            Err(unavailable) => {
                let broke = Broke { kind: BrokeKind::Error, reason: unavailable.to_string() };
                (rows.iter().map(|_| Answer::Broke(broke.clone())).collect(), Some(unavailable))
            }
        };
        let verdicts = verdicts(&answers);
        let open = |(_, answer): &(_, &Answer)| !answer.is_verdict();
        let (places, left): (Vec<usize>, Vec<u32>) =
            answers.iter().enumerate().filter(open).map(|(place, _)| (place, rows[place])).unzip();
        let second = if left.is_empty() { Ok(Vec::new()) } else { self.ask(last_good, messages, &left) };
        let second = match (second, unmade) {
            (Ok(second), _) => second,
            // Neither can be called.
            (Err(_), Some(unmade)) => return Err(unmade),
            (Err(_), None) => Vec::new(),
        };
        let (mut broke, mut how) = (0, None);
        for (place, answer) in places.into_iter().zip(second) {
            if answer.is_verdict()
                && let Answer::Broke(before) = std::mem::replace(&mut answers[place], answer)
            {
                broke += 1;
                how = Some(before);
            }
        }
        trial.count(verdicts, broke, how.as_ref());
        Ok(answers)
    }

    /// Asks one filter about some rows, and counts what it answers.
    fn ask(
        &mut self,
        filter: &Arc<Configured>,
        messages: &Messages<'_>,
        rows: &[u32],
    ) -> Result<Vec<Answer>, Unavailable> {
        self.beat();
        let mut tally = Tally::default();
        let began = Instant::now();
        let answers = self.ask_all(filter, messages, rows, &mut tally);
        tally.elapsed = began.elapsed();
        for answer in answers.iter().flatten() {
            match answer {
                Answer::Accept => tally.accepted += 1,
                Answer::Reject => tally.rejected += 1,
                Answer::Reschedule(_) => tally.rescheduled += 1,
                Answer::Broke(_) => tally.broke += 1,
                Answer::NotReached => {}
            }
        }
        filter.count(&tally);
        answers
    }

    fn ask_all(
        &mut self,
        filter: &Arc<Configured>,
        messages: &Messages<'_>,
        rows: &[u32],
        tally: &mut Tally,
    ) -> Result<Vec<Answer>, Unavailable> {
        let mut verdicts = Vec::with_capacity(rows.len());
        let warm = self.take(filter.id());
        let fresh = warm.is_none();
        let mut instance = match warm {
            Some(instance) => instance,
            None => make(filter)?,
        };
        match call(&mut *instance, messages, rows, &mut verdicts, tally) {
            Ok(()) => {
                self.keep(filter, instance);
                Ok(answers(&verdicts))
            }
            // Alone it was, and on a fresh instance.
            Err(broke) if fresh && rows.len() == 1 => Ok(vec![Answer::Broke(broke)]),
            Err(broke) => {
                drop(instance);
                tracing::debug!(class = %filter.class(), %broke, rows = rows.len(), "call broke; judging one by one");
                let answers = self.ask_one_by_one(filter, messages, rows, tally)?;
                if answers.iter().all(Answer::is_verdict) {
                    tally.passed_alone += 1;
                }
                Ok(answers)
            }
        }
    }

    /// Judges rows one at a time. A row that breaks an instance that has judged others is judged again
    /// on a fresh one: what the others left behind may be to blame. (Not after a deadline, which would be
    /// waited for twice.) The first row is always judged.
    fn ask_one_by_one(
        &mut self,
        filter: &Arc<Configured>,
        messages: &Messages<'_>,
        rows: &[u32],
        tally: &mut Tally,
    ) -> Result<Vec<Answer>, Unavailable> {
        let mut answers = Vec::with_capacity(rows.len());
        let mut verdicts = Vec::with_capacity(1);
        let mut used = None;
        let began = Instant::now();
        for row in rows {
            if !answers.is_empty() && began.elapsed() >= self.patience() {
                tracing::warn!(
                    class = %filter.class(),
                    judged = answers.len(),
                    rows = rows.len(),
                    "filter broke, and is too slow to judge one by one; the rest is put off"
                );
                answers.resize_with(rows.len(), || Answer::NotReached);
                break;
            }
            self.beat();
            let answer = loop {
                let fresh = used.is_none();
                let mut instance = match used.take() {
                    Some(instance) => instance,
                    None => make(filter)?,
                };
                match call(&mut *instance, messages, &[*row], &mut verdicts, tally) {
                    Ok(()) => {
                        used = Some(instance);
                        break Answer::of(verdicts[0], last_words);
                    }
                    Err(broke) if fresh || broke.kind == BrokeKind::Deadline => break Answer::Broke(broke),
                    Err(_) => {}
                }
            };
            answers.push(answer);
        }
        if let Some(instance) = used {
            self.keep(filter, instance);
        }
        Ok(answers)
    }
}

/// One call. Afterwards there is one verdict a row, or the instance must go.
fn call(
    instance: &mut dyn MessageFilter,
    messages: &Messages<'_>,
    rows: &[u32],
    verdicts: &mut Vec<Verdict>,
    tally: &mut Tally,
) -> Result<(), Broke> {
    verdicts.clear();
    // What others said on this thread is not about these messages.
    drop(last_words());
    tally.calls += 1;
    // An instance that panicked is thrown away and `verdicts` is cleared: nobody sees what is half done.
    let result = catch_unwind(AssertUnwindSafe(|| instance.judge(messages, rows, verdicts)));
    let result = match result {
        Ok(Ok(())) if verdicts.len() == rows.len() => return Ok(()),
        Ok(Ok(())) => {
            let reason = format!("it gave {} verdicts for {} messages", verdicts.len(), rows.len());
            Broke { kind: BrokeKind::BadAnswer, reason }
        }
        Ok(Err(broke)) => broke,
        Err(panic) => Broke { kind: BrokeKind::Panic, reason: panic_text(&*panic) },
    };
    tally.broken_call(result.kind);
    Err(result)
}

fn make(filter: &Arc<Configured>) -> Result<Box<dyn MessageFilter>, Unavailable> {
    let made = catch_unwind(AssertUnwindSafe(|| filter.filter()));
    let made =
        made.unwrap_or_else(|panic| Err(Broke { kind: BrokeKind::Panic, reason: panic_text(&*panic) }));
    made.map_err(|broke| Unavailable::Refused {
        class: filter.class().clone(),
        reason: format!("no instance of it could be made: {broke}"),
    })
}

/// How the last one broke, if there is none that did not.
fn every_one_broke(answers: &[Answer]) -> Option<&Broke> {
    let mut last = None;
    for answer in answers {
        match answer {
            Answer::Broke(broke) => last = Some(broke),
            Answer::NotReached => {}
            Answer::Accept | Answer::Reject | Answer::Reschedule(_) => return None,
        }
    }
    last
}

/// What a call answered. Its last words are about the last message that it returned an error for.
fn answers(verdicts: &[Verdict]) -> Vec<Answer> {
    let last_error = verdicts.iter().rposition(|verdict| *verdict == Verdict::Broke);
    let words = |at| if Some(at) == last_error { last_words() } else { None };
    verdicts.iter().enumerate().map(|(at, verdict)| Answer::of(*verdict, || words(at))).collect()
}

impl Answer {
    fn of(verdict: Verdict, words: impl FnOnce() -> Option<String>) -> Self {
        match verdict {
            Verdict::Accept => Self::Accept,
            Verdict::Reject => Self::Reject,
            Verdict::Reschedule(delay) => Self::Reschedule(delay.into()),
            Verdict::Broke => Self::Broke(Broke {
                kind: BrokeKind::Error,
                reason: match words() {
                    Some(words) => format!("it returned an error for this message: {words}"),
                    None => "it returned an error for this message".to_owned(),
                },
            }),
        }
    }

    fn broke(&self) -> Option<&Broke> {
        match self {
            Self::Broke(broke) => Some(broke),
            Self::Accept | Self::Reject | Self::Reschedule(_) | Self::NotReached => None,
        }
    }

    fn is_verdict(&self) -> bool {
        matches!(self, Self::Accept | Self::Reject | Self::Reschedule(_))
    }
}

fn verdicts(answers: &[Answer]) -> u64 {
    answers.iter().filter(|answer| answer.is_verdict()).count() as u64
}

impl Batch {
    fn new(messages: usize, policy: OnFailure) -> Self {
        let rows = 0..u32::try_from(messages).expect("a batch counts its messages in 32 bits");
        Self { policy, outcomes: vec![Outcome::Accept; messages], rows: rows.collect() }
    }

    /// Takes up what a filter made of the rows; keeps those that go on to the next one. `policy` is for
    /// those that it broke on.
    fn apply(&mut self, filter: &Configured, policy: OnFailure, answers: Vec<Answer>) {
        let mut answers = answers.into_iter();
        let outcomes = &mut self.outcomes;
        self.rows.retain(|row| {
            let outcome = &mut outcomes[*row as usize];
            let failure = |broke| Arc::new(Failure::Broke { class: filter.class().clone(), broke });
            match (answers.next().expect("there is one answer a row"), policy) {
                (Answer::Accept, _) => return true,
                (Answer::Reject, _) => *outcome = Outcome::Reject,
                (Answer::Reschedule(delay), _) => *outcome = Outcome::Reschedule(delay),
                (Answer::Broke(broke), OnFailure::Deliver) => {
                    deliver(outcome, &failure(broke));
                    return true;
                }
                (Answer::Broke(broke), OnFailure::Withhold) => *outcome = Outcome::Withhold(failure(broke)),
                (Answer::Broke(broke), OnFailure::Discard) => *outcome = Outcome::Discard(failure(broke)),
                (Answer::NotReached, _) => {
                    let class = filter.class().clone();
                    *outcome = Outcome::Withhold(Arc::new(Failure::NotReached { class }));
                }
            }
            false
        });
    }

    /// A filter that cannot be called: pauses, unless the policy is to deliver.
    fn pass_over(&mut self, unavailable: Unavailable) -> Option<Paused> {
        if self.policy != OnFailure::Deliver {
            return Some(Paused::unavailable(unavailable));
        }
        self.deliver_all(unavailable.into());
        None
    }

    /// All that is left counts as accepted by a filter that was not asked.
    fn deliver_all(&mut self, failure: Failure) {
        let failure = Arc::new(failure);
        for row in &self.rows {
            deliver(&mut self.outcomes[*row as usize], &failure);
        }
    }
}

/// The first failure is the one that is told.
fn deliver(outcome: &mut Outcome, failure: &Arc<Failure>) {
    if *outcome == Outcome::Accept {
        *outcome = Outcome::Deliver(Arc::clone(failure));
    }
}

#[cfg(test)]
mod scale;
#[cfg(test)]
mod tests;
