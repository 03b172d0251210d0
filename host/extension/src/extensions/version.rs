//! A version: an opened artifact with what it declared and what it has done; and what instances are
//! made from, a version with one configuration.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::{ClassName, Kind};
use super::schema::{MAX_CONFIG_BYTES, Refusal, Schema};
use super::times::{Histogram, Times};
use crate::artifact::{CompiledBy, Loaded};
use crate::filter::Verdict;
use crate::filter::{Broke, BrokeKind, MessageFilter};
use crate::lister::{ListRequest, TopicLister, TopicSet, Topics};
use crate::message::{Field, Messages};

/// How many configurations of one version are remembered although nobody uses them.
///
/// Those in use are always remembered: their number is that of the bindings that write a configuration
/// of their own.
const SPARE_CONFIGURATIONS: usize = 64;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// An opened artifact, checked. Shared by every configuration of it.
pub(crate) struct Version {
    loaded: Arc<dyn Loaded>,
    schema: Schema,
    counters: Arc<Counters>,
    /// By configuration. Never locked across a call into the extension.
    configured: Mutex<HashMap<Value, Result<Arc<Configured>, Refusal>>>,
}

/// One version with one configuration, in force: what instances are made from.
pub struct Configured {
    id: u64,
    class: ClassName,
    config: String,
    fields: Arc<[Field]>,
    loaded: Arc<dyn Loaded>,
    counters: Arc<Counters>,
}

/// What a caller adds to the counters of a version, once a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls made, those that judge a broken batch again included.
    pub calls: u64,
    /// Messages that it accepted.
    pub accepted: u64,
    /// Messages that it rejected.
    pub rejected: u64,
    /// Messages that it wants to be asked about again.
    pub rescheduled: u64,
    /// Messages that it broke on when judged alone, or returned an error for.
    pub broke: u64,
    /// Batches that broke although each of their messages passed alone.
    pub passed_alone: u64,
    /// Listings that it answered.
    pub answered: u64,
    /// Calls that broke as a whole, by [`BrokeKind::ALL`].
    pub broken_calls: [u64; BrokeKind::ALL.len()],
    /// Time spent in calls.
    pub elapsed: Duration,
}

impl BrokeKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Error, Self::Trap, Self::Panic, Self::Deadline, Self::Memory, Self::BadAnswer];
}

impl Tally {
    /// Counts a call that broke as a whole.
    pub fn broken_call(&mut self, kind: BrokeKind) {
        self.broken_calls[kind as usize] += 1;
    }
}

/// What one version has done since it came into force. *Said no* and *broke* are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counts {
    /// Calls.
    pub calls: u64,
    /// Messages judged: the sum of the four below.
    pub messages: u64,
    /// Messages accepted.
    pub accepted: u64,
    /// Messages rejected.
    pub rejected: u64,
    /// Messages rescheduled.
    pub rescheduled: u64,
    /// Messages that it broke on.
    pub broke: u64,
    /// Batches that broke although each of their messages passed alone.
    pub passed_alone: u64,
    /// Listings answered.
    pub answered: u64,
    /// Calls that broke as a whole, by kind; kinds that never happened are left out.
    pub broken_calls: BTreeMap<String, u64>,
    /// Time spent in calls, in microseconds.
    pub micros: u64,
    /// An estimate of the time that half of the batches and listings did not exceed, in microseconds.
    pub p50_micros: u64,
    /// The same of 99 in a hundred.
    pub p99_micros: u64,
    /// Instances that are alive at this moment, of all its configurations.
    pub instances: u64,
    /// The times of batches and listings that both are estimated from.
    #[serde(skip)]
    pub times: Times,
}

/// Relaxed atomics, added to once a batch: no reader needs them to agree with each other.
#[derive(Default)]
struct Counters {
    calls: AtomicU64,
    accepted: AtomicU64,
    rejected: AtomicU64,
    rescheduled: AtomicU64,
    broke: AtomicU64,
    passed_alone: AtomicU64,
    answered: AtomicU64,
    broken_calls: [AtomicU64; BrokeKind::ALL.len()],
    nanos: AtomicU64,
    times: Histogram,
    instances: AtomicU64,
}

/// An instance that is counted for as long as it lives.
struct Counted<T: ?Sized> {
    counters: Arc<Counters>,
    instance: Box<T>,
}

impl<T: ?Sized> Counted<T> {
    fn new(counters: &Arc<Counters>, instance: Box<T>) -> Box<Self> {
        counters.instances.fetch_add(1, Ordering::Relaxed);
        Box::new(Self { counters: Arc::clone(counters), instance })
    }
}

impl<T: ?Sized> Drop for Counted<T> {
    fn drop(&mut self) {
        self.counters.instances.fetch_sub(1, Ordering::Relaxed);
    }
}

impl MessageFilter for Counted<dyn MessageFilter> {
    fn judge(
        &mut self,
        messages: &Messages<'_>,
        rows: &[u32],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), Broke> {
        self.instance.judge(messages, rows, verdicts)
    }
}

impl TopicLister for Counted<dyn TopicLister> {
    fn answer(&mut self, request: &ListRequest, topics: &Arc<dyn Topics>) -> Result<TopicSet, Broke> {
        self.instance.answer(request, topics)
    }
}

impl Version {
    /// Checks what an opened artifact declares.
    ///
    /// # Errors
    /// When it declares no kind, or a schema that is none.
    pub(super) fn new(loaded: Arc<dyn Loaded>) -> Result<Self, String> {
        if loaded.description().kinds.is_empty() {
            return Err("it declares no kind; expected filter, lister or both".to_owned());
        }
        let schema = Schema::compile(&loaded.description().schema)?;
        Ok(Self { loaded, schema, counters: Arc::default(), configured: Mutex::default() })
    }

    /// What it says of itself.
    pub(super) fn description(&self) -> &crate::artifact::Description {
        self.loaded.description()
    }

    /// Who compiled what runs of it.
    pub(super) fn compiled_by(&self) -> Option<CompiledBy> {
        self.loaded.compiled_by()
    }

    /// Whether it does this.
    pub(super) fn is(&self, kind: Kind) -> bool {
        self.description().kinds.contains(&kind)
    }

    /// This version with that configuration; the same `Arc` as long as anybody uses it.
    ///
    /// Calls into the extension the first time, and again after it broke; a no is remembered.
    pub(super) fn configured(&self, config: &Value) -> Result<Arc<Configured>, Refusal> {
        if let Some(known) = self.configured.lock().get(config) {
            return known.clone();
        }
        let fresh = self.configure(config);
        if matches!(&fresh, Err(refusal) if refusal.broke) {
            return fresh;
        }
        let mut configured = self.configured.lock();
        if configured.len() >= SPARE_CONFIGURATIONS {
            configured.retain(|_, known| matches!(known, Ok(known) if Arc::strong_count(known) > 1));
        }
        // Two may have asked at once: the first one stands, so that its id does.
        configured.entry(config.clone()).or_insert(fresh).clone()
    }

    /// The configurations that somebody uses at this moment.
    pub(super) fn configurations_in_use(&self) -> Vec<Value> {
        let configured = self.configured.lock();
        let used =
            configured.iter().filter(|(_, known)| matches!(known, Ok(known) if Arc::strong_count(known) > 1));
        used.map(|(config, _)| config.clone()).collect()
    }

    /// What it has done.
    pub(super) fn counts(&self) -> Counts {
        self.counters.read()
    }

    fn configure(&self, config: &Value) -> Result<Arc<Configured>, Refusal> {
        let text = config.to_string();
        if text.len() > MAX_CONFIG_BYTES {
            let reason = format!("it has {} bytes, at most {MAX_CONFIG_BYTES} are taken", text.len());
            return Err(Refusal::whole(reason));
        }
        self.schema.check(config)?;
        let fields = self.loaded.configure(&text).map_err(|broke| match broke.kind {
            BrokeKind::Error => Refusal::whole(broke.reason),
            BrokeKind::Trap
            | BrokeKind::Panic
            | BrokeKind::Deadline
            | BrokeKind::Memory
            | BrokeKind::BadAnswer => {
                let reason = format!("it broke when it was given its configuration: {broke}");
                Refusal { broke: true, ..Refusal::whole(reason) }
            }
        })?;
        Ok(Arc::new(Configured {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            class: self.description().class.clone(),
            config: text,
            fields: fields.into(),
            loaded: Arc::clone(&self.loaded),
            counters: Arc::clone(&self.counters),
        }))
    }
}

impl Configured {
    /// A number that no other version or configuration has: the key of a worker's instances.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The class that it is a version of.
    pub fn class(&self) -> &ClassName {
        &self.class
    }

    /// The fields that it reads.
    pub fn reads(&self) -> &Arc<[Field]> {
        &self.fields
    }

    /// A fresh instance for the calling worker.
    ///
    /// # Errors
    /// When it cannot be made, with the reason.
    pub fn filter(self: &Arc<Self>) -> Result<Box<dyn MessageFilter>, Broke> {
        let instance = self.loaded.filter(&self.config, &self.fields)?;
        Ok(Counted::new(&self.counters, instance))
    }

    /// A fresh lister for the calling worker.
    ///
    /// # Errors
    /// When it cannot be made, with the reason.
    pub fn lister(self: &Arc<Self>) -> Result<Box<dyn TopicLister>, Broke> {
        let instance = self.loaded.lister(&self.config)?;
        Ok(Counted::new(&self.counters, instance))
    }

    /// Adds to the counters of this version. Once a batch: each number is an atomic addition.
    pub fn count(&self, tally: &Tally) {
        self.counters.add(tally);
    }
}

impl Counters {
    fn add(&self, tally: &Tally) {
        if tally.calls > 0 {
            self.times.add(tally.elapsed);
        }
        let pairs = [
            (&self.calls, tally.calls),
            (&self.accepted, tally.accepted),
            (&self.rejected, tally.rejected),
            (&self.rescheduled, tally.rescheduled),
            (&self.broke, tally.broke),
            (&self.passed_alone, tally.passed_alone),
            (&self.answered, tally.answered),
            (&self.nanos, u64::try_from(tally.elapsed.as_nanos()).unwrap_or(u64::MAX)),
        ];
        for (counter, n) in pairs.into_iter().chain(self.broken_calls.iter().zip(tally.broken_calls)) {
            if n > 0 {
                counter.fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let broken = BrokeKind::ALL.iter().zip(&self.broken_calls);
        let (accepted, rejected) = (read(&self.accepted), read(&self.rejected));
        let (rescheduled, broke) = (read(&self.rescheduled), read(&self.broke));
        let times = self.times.read();
        Counts {
            calls: read(&self.calls),
            messages: accepted + rejected + rescheduled + broke,
            accepted,
            rejected,
            rescheduled,
            broke,
            passed_alone: read(&self.passed_alone),
            answered: read(&self.answered),
            broken_calls: broken
                .map(|(kind, counter)| (kind.as_str().to_owned(), read(counter)))
                .filter(|(_, n)| *n > 0)
                .collect(),
            micros: read(&self.nanos) / 1000,
            p50_micros: times.percentile(50),
            p99_micros: times.percentile(99),
            instances: read(&self.instances),
            times,
        }
    }
}
