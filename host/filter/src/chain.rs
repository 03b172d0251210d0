//! A chain: the filters of a binding, in order, and what they make of a batch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use weir_extension::{Broke, ClassName, Configured, Extensions, Field, Kind, TopicName, Trial, Unavailable};

use crate::binding::{Binding, OnFailure};
use crate::breaker::Breaker;

/// After how long a subscription looks again for an extension that cannot be called.
pub const UNAVAILABLE_PAUSE: Duration = Duration::from_secs(1);

/// The filters of one binding between one topic and one subscription.
///
/// It finds its extensions again when the table of extensions changes, and remembers which of them have
/// been breaking on everything.
pub struct Chain {
    binding: Arc<Binding>,
    extensions: Arc<Extensions>,
    /// Set where two patterns match the topic: there are no filters to call then.
    ambiguous: Option<PauseReason>,
    resolved: ArcSwapOption<Resolved>,
    /// One a filter. Locked for a moment, never across a call.
    breakers: Vec<Mutex<Breaker>>,
}

/// The filters that were in force at one moment.
struct Resolved {
    generation: u64,
    filters: Vec<Result<Called, Unavailable>>,
    reads: Arc<[Field]>,
    /// When to look again although the table has not changed: a filter broke when it was configured.
    expires: Option<Instant>,
}

/// A filter that can be called.
pub(crate) struct Called {
    pub(crate) filter: Arc<Configured>,
    /// While its version is on trial.
    pub(crate) trial: Option<Trial>,
}

/// A chain with the versions that judge one batch: those whose fields the view of the messages is built
/// for. A version replaced meanwhile ends with the batch.
pub struct Pinned {
    chain: Arc<Chain>,
    resolved: Arc<Resolved>,
    paused: Option<Paused>,
}

/// What a chain says of one message, policy applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every filter accepted it.
    Accept,
    /// A filter said no: it is acknowledged for this subscription.
    Reject,
    /// A filter wants to be asked again after this delay.
    Reschedule(Duration),
    /// A filter failed on it and the policy is to deliver; the others accepted it.
    Deliver(Arc<Failure>),
    /// A filter broke on it, judged alone, and the policy is to try again later; or is to discard, and it
    /// may be the filter that is broken; or it was not reached.
    Withhold(Arc<Failure>),
    /// A filter broke on it, judged alone, and the policy is to acknowledge it.
    Discard(Arc<Failure>),
}

/// Why a message has no verdict of a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The filter broke on it, judged alone.
    #[error("{class} broke ({broke})")]
    Broke {
        /// The filter.
        class: ClassName,
        /// How it broke.
        broke: Broke,
    },
    /// The filter broke on a batch, and took too long to judge its messages one by one: this one is to be
    /// judged another time.
    #[error("{class} broke on a batch and is too slow to judge it one by one; this message was not reached")]
    NotReached {
        /// The filter.
        class: ClassName,
    },
    /// The filter cannot be called at all. With the policy to deliver only.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The filter broke on everything lately and is not called for a while. With the policy to deliver
    /// only.
    #[error(
        "{class} has been breaking on every message and is not called for a while; the last time: {broke}"
    )]
    Resting {
        /// The filter.
        class: ClassName,
        /// How it broke the last time.
        broke: Broke,
    },
}

/// What a chain says of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// One outcome a message, in order.
    Judged(Vec<Outcome>),
    /// Nothing was judged and nothing may be delivered: the subscription waits at its cursor.
    Paused(Paused),
}

/// A subscription waits: nothing is delivered, acknowledged or counted as an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    /// Why.
    pub reason: PauseReason,
    /// When to pin the chain again.
    pub retry_after: Duration,
}

/// Why a subscription waits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PauseReason {
    /// A filter cannot be called.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Two patterns match the topic, for the same subscriptions.
    #[error(
        "patterns {first:?} and {second:?} both match {topic}; bind the topic by its name, or change one"
    )]
    Ambiguous {
        /// The topic.
        topic: TopicName,
        /// One pattern.
        first: String,
        /// Another one.
        second: String,
    },
    /// A filter broke on every message of several batches.
    #[error("{class} breaks on every message; the last time: {broke}")]
    BreaksOnEverything {
        /// The filter.
        class: ClassName,
        /// How it broke the last time.
        broke: Broke,
    },
}

impl Chain {
    pub(crate) fn new(binding: Arc<Binding>, extensions: Arc<Extensions>) -> Self {
        let breakers = binding.filters.iter().map(|_| Mutex::default()).collect();
        Self { binding, extensions, ambiguous: None, resolved: ArcSwapOption::empty(), breakers }
    }

    /// One that is paused for good: the next change of the table brings another chain.
    pub(crate) fn ambiguous(binding: Arc<Binding>, extensions: Arc<Extensions>, reason: PauseReason) -> Self {
        Self { ambiguous: Some(reason), ..Self::new(binding, extensions) }
    }

    /// The binding that it comes from.
    pub fn binding(&self) -> &Arc<Binding> {
        &self.binding
    }

    /// What becomes of messages that cannot be judged.
    pub fn on_failure(&self) -> OnFailure {
        self.binding.on_failure
    }

    /// The versions in force, for one batch.
    ///
    /// Costs an atomic load, unless the table of extensions has changed: then they are found again, and
    /// those that are new are configured, which may take a while.
    pub fn pin(self: &Arc<Self>) -> Pinned {
        self.pin_at(Instant::now())
    }

    pub(crate) fn pin_at(self: &Arc<Self>, now: Instant) -> Pinned {
        let resolved = self.resolve(now);
        let paused = self.paused(&resolved, now);
        Pinned { chain: Arc::clone(self), resolved, paused }
    }

    fn resolve(&self, now: Instant) -> Arc<Resolved> {
        // Read first: a change that comes between the two is found at the next batch.
        let generation = self.extensions.generation();
        if let Some(known) = &*self.resolved.load()
            && known.generation == generation
            && known.expires.is_none_or(|expires| now < expires)
        {
            return Arc::clone(known);
        }
        let of = |filter: &crate::FilterRef| {
            let found = self.extensions.on_trial(&filter.class, Kind::Filter, filter.config.as_ref());
            found.map(|(filter, trial)| Called { filter, trial })
        };
        let filters: Vec<_> = match self.ambiguous {
            None => self.binding.filters.iter().map(of).collect(),
            Some(_) => Vec::new(),
        };
        let refused = filters.iter().any(|found| matches!(found, Err(Unavailable::Refused { .. })));
        let resolved = Arc::new(Resolved {
            generation,
            reads: union(filters.iter().flatten().flat_map(Called::reads)),
            filters,
            expires: refused.then(|| now + UNAVAILABLE_PAUSE),
        });
        self.resolved.store(Some(Arc::clone(&resolved)));
        resolved
    }

    fn paused(&self, resolved: &Resolved, now: Instant) -> Option<Paused> {
        if let Some(reason) = &self.ambiguous {
            return Some(Paused { reason: reason.clone(), retry_after: UNAVAILABLE_PAUSE });
        }
        if self.on_failure() == OnFailure::Deliver {
            return None;
        }
        let unavailable = resolved.filters.iter().find_map(|found| found.as_ref().err());
        if let Some(unavailable) = unavailable {
            return Some(Paused::unavailable(unavailable.clone()));
        }
        let filters = resolved.filters.iter().flatten().zip(&self.breakers);
        filters.into_iter().find_map(|(Called { filter, .. }, breaker)| {
            let (retry_after, broke) = breaker.lock().resting(filter.id(), now)?;
            Some(Paused::breaks_on_everything(filter.class(), broke, retry_after))
        })
    }
}

impl Called {
    /// What it reads, then what the last good version reads, which judges the same messages if it must.
    fn reads(&self) -> impl Iterator<Item = &[Field]> {
        let last_good = self.trial.as_ref().and_then(Trial::last_good);
        std::iter::once(&self.filter).chain(last_good).map(|filter| &**filter.reads())
    }
}

impl Pinned {
    /// The fields that its filters read together, in their order: what a view of the messages must hold.
    pub fn reads(&self) -> &Arc<[Field]> {
        &self.resolved.reads
    }

    /// Set if judging would say so anyway: there is no need to read entries then.
    pub fn paused(&self) -> Option<&Paused> {
        self.paused.as_ref()
    }

    /// What becomes of messages that cannot be judged.
    pub fn on_failure(&self) -> OnFailure {
        self.chain.on_failure()
    }

    /// The filters, in order, with what is known of their failures.
    pub(crate) fn filters(&self) -> impl Iterator<Item = (&Result<Called, Unavailable>, &Mutex<Breaker>)> {
        self.resolved.filters.iter().zip(&self.chain.breakers)
    }
}

impl Paused {
    pub(crate) fn unavailable(unavailable: Unavailable) -> Self {
        Self { reason: unavailable.into(), retry_after: UNAVAILABLE_PAUSE }
    }

    pub(crate) fn breaks_on_everything(class: &ClassName, broke: Broke, retry_after: Duration) -> Self {
        Self { reason: PauseReason::BreaksOnEverything { class: class.clone(), broke }, retry_after }
    }
}

impl std::fmt::Display for Paused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; next try in {} ms", self.reason, self.retry_after.as_millis())
    }
}

/// Each field once, where it is first read.
fn union<'a>(filters: impl Iterator<Item = &'a [Field]>) -> Arc<[Field]> {
    let mut fields: Vec<Field> = Vec::new();
    for field in filters.flatten() {
        if !fields.contains(field) {
            fields.push(field.clone());
        }
    }
    fields.into()
}
