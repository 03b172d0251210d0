//! The trial of a new version: until it has judged some messages without breaking on too many of them, the
//! last good version stays warm, judges what breaks the new one, and takes over again by itself if need be.
//!
//! Whoever judges counts here, once a batch; what a verdict *is* does not matter, only whether there is one. A
//! message that breaks both versions says nothing about the new one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tracing::{error, info, warn};

use super::info::TrialInfo;
use super::key::{ClassName, Kind};
use super::table::{Entry, Record};
use super::version::{Configured, Counts, Version};
use super::{Extensions, no_config};
use crate::builtin::Builtin;
use crate::filter::Broke;

/// By how much the rate of rejects may differ from that of the last good version without a warning.
const REJECTS_SHIFT: f64 = 0.2;

/// How long to wait until the end of a trial is written down again that could not be.
const BETWEEN_TRIES: Duration = Duration::from_secs(10);

/// When a new version is taken back, and when it has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialRule {
    /// After so many messages it has passed. Zero: there are no trials.
    pub messages: u64,
    /// Before so many messages it is not taken back.
    pub minimum: u64,
    /// It is taken back when it breaks on more than so many of a million messages.
    pub broken_of_million: u32,
}

impl Default for TrialRule {
    /// 1000 messages, at least 100, 1 %.
    fn default() -> Self {
        Self { messages: 1000, minimum: 100, broken_of_million: 10_000 }
    }
}

/// The trial of a version, as whoever calls it sees it.
#[derive(Clone)]
pub struct Trial {
    running: Arc<Running>,
    last_good: Option<Arc<Configured>>,
}

/// A trial under way.
pub(super) struct Running {
    class: ClassName,
    rule: TrialRule,
    last_good: LastGood,
    /// Messages on which it gave a verdict …
    verdicts: AtomicU64,
    /// … and on which it alone broke.
    broke: AtomicU64,
    /// How it broke the last time.
    last: Mutex<Option<Broke>>,
    /// Somebody is about to end it.
    decided: AtomicBool,
    extensions: Weak<Extensions>,
}

/// How a trial ends, as it stood when that was found.
struct End {
    failed: bool,
    judged: u64,
    broke: u64,
}

/// The version that is kept warm.
struct LastGood {
    sha256: String,
    version: Arc<Version>,
}

/// What an entry holds of its version's trial.
#[derive(Clone)]
pub(super) struct OnTrial {
    running: Arc<Running>,
    /// The configuration of the class.
    config: Option<Arc<Value>>,
    /// The last good version with the one before, for as long as it does not take this one.
    had: Option<Arc<Configured>>,
}

impl Trial {
    /// The version that judges what breaks the one on trial; `None` if it does not take the configuration.
    pub fn last_good(&self) -> Option<&Arc<Configured>> {
        self.last_good.as_ref()
    }

    /// Counts a batch: on how many messages the version on trial gave a verdict, and on how many it broke
    /// although the last good one gave a verdict, how the last time. Never waits for the disk.
    pub fn count(&self, verdicts: u64, broke: u64, how: Option<&Broke>) {
        self.running.count(verdicts, broke, how);
    }
}

impl OnTrial {
    /// For a caller with this configuration, or that of the class.
    pub(super) fn of(&self, kind: Kind, config: Option<&Value>) -> Option<Trial> {
        let version = &self.running.last_good.version;
        let last_good = match config {
            _ if !version.is(kind) => None,
            Some(config) => version.configured(config).ok(),
            None => self.default(),
        };
        Some(Trial { running: Arc::clone(&self.running), last_good })
    }

    /// The last good version with the configuration of the class, or with the one before, if it does not take
    /// that. Calls into the extension the first time.
    pub(super) fn default(&self) -> Option<Arc<Configured>> {
        let config = self.config.as_deref();
        let configured = self.running.last_good.version.configured(config.unwrap_or(&no_config()));
        configured.ok().or_else(|| self.had.clone())
    }

    /// Goes on with another configuration of the class; `had` is the [`default`](Self::default) of now.
    pub(super) fn with_config(&self, config: Option<Arc<Value>>, had: Option<Arc<Configured>>) -> Self {
        Self { running: Arc::clone(&self.running), config, had }
    }

    pub(super) fn last_good(&self) -> (&str, &Arc<Version>) {
        (&self.running.last_good.sha256, &self.running.last_good.version)
    }

    pub(super) fn info(&self) -> TrialInfo {
        let Running { rule, last_good, .. } = &*self.running;
        let (judged, broke) = self.running.so_far();
        TrialInfo {
            judged,
            broke,
            messages: rule.messages,
            last_good: last_good.version.description().version.clone(),
            last_good_sha256: last_good.sha256.clone(),
        }
    }
}

impl Running {
    fn count(self: &Arc<Self>, verdicts: u64, broke: u64, how: Option<&Broke>) {
        if let Some(how) = how {
            *self.last.lock() = Some(how.clone());
        }
        self.broke.fetch_add(broke, Ordering::Relaxed);
        self.verdicts.fetch_add(verdicts, Ordering::Relaxed);
        let (judged, broke) = self.so_far();
        let failed = self.failed(judged, broke);
        if !(failed || judged >= self.rule.messages) || self.decided.swap(true, Ordering::Relaxed) {
            return;
        }
        let (this, end) = (Arc::clone(self), End { failed, judged, broke });
        // Ending it writes to the disk, which whoever judges does not wait for.
        let ender = std::thread::Builder::new().name("weir-trial".to_owned());
        if let Err(error) = ender.spawn(move || this.end(&end)) {
            warn!(class = %self.class, %error, "no thread to end a trial; with the next batch again");
            self.decided.store(false, Ordering::Relaxed);
        }
    }

    /// Ends it, as soon as that can be written down.
    fn end(self: &Arc<Self>, end: &End) {
        while let Some(extensions) = self.extensions.upgrade() {
            match extensions.end_trial(self, end) {
                Ok(()) => return,
                Err(reason) => {
                    error!(class = %self.class, reason, "a trial cannot be ended; the last good version helps out");
                }
            }
            drop(extensions);
            std::thread::park_timeout(BETWEEN_TRIES);
        }
    }

    /// How many messages it was judged by so far, and on how many of them it broke.
    fn so_far(&self) -> (u64, u64) {
        let broke = self.broke.load(Ordering::Relaxed);
        (self.verdicts.load(Ordering::Relaxed) + broke, broke)
    }

    fn failed(&self, judged: u64, broke: u64) -> bool {
        let (part, whole) = (u128::from(broke) * 1_000_000, u128::from(judged));
        judged >= self.rule.minimum && part > whole * u128::from(self.rule.broken_of_million)
    }

    fn how_it_broke(&self) -> String {
        self.last.lock().as_ref().map_or_else(|| "it broke".to_owned(), ToString::to_string)
    }
}

impl Extensions {
    /// The trial of a version that replaces the one of `before`, if there is to be one, and the digest of its
    /// last good version.
    pub(super) fn trial_after(
        &self,
        before: &Entry,
        version: &Version,
        sha256: &str,
        config: Option<Arc<Value>>,
    ) -> Option<(OnTrial, String)> {
        let in_force = &before.registration.in_force.checksums.sha256;
        // A version that has not passed is not the last good one: that is still the one before it.
        let (last_good, known) = match &before.trial {
            Some(trial) => trial.last_good(),
            None => (in_force.as_str(), before.opened.as_ref().ok()?),
        };
        if last_good == sha256 || !version.is(Kind::Filter) || !known.is(Kind::Filter) {
            return None;
        }
        let last_good = LastGood { sha256: last_good.to_owned(), version: Arc::clone(known) };
        let had = match &before.trial {
            Some(trial) => trial.had.clone(),
            None => before.default.clone().ok(),
        };
        let rule = self.trial_rule()?;
        let trial = self.trial(&before.registration.key.class, rule, last_good, config, had);
        let last_good = trial.last_good().0.to_owned();
        Some((trial, last_good))
    }

    /// A trial that was under way when weir stopped begins anew.
    pub(super) fn trial_again(
        &self,
        class: &ClassName,
        kept: &[Record],
        sha256: &str,
        config: Option<Arc<Value>>,
    ) -> Option<OnTrial> {
        let record = kept.iter().find(|record| record.checksums.sha256 == sha256)?;
        let opened = self.reopen(class, record);
        let version = opened.inspect_err(|reason| {
            warn!(%class, version = record.version, reason, "the last good version cannot be kept warm");
        });
        let last_good = LastGood { sha256: sha256.to_owned(), version: version.ok()? };
        Some(self.trial(class, self.trial_rule()?, last_good, config, None))
    }

    /// The rule, unless there are no trials.
    fn trial_rule(&self) -> Option<TrialRule> {
        let options = &self.door.as_ref()?.options;
        (options.trial.messages > 0 && options.keep_versions > 0).then_some(options.trial)
    }

    fn trial(
        &self,
        class: &ClassName,
        rule: TrialRule,
        last_good: LastGood,
        config: Option<Arc<Value>>,
        had: Option<Arc<Configured>>,
    ) -> OnTrial {
        let running = Running {
            class: class.clone(),
            rule,
            last_good,
            verdicts: AtomicU64::new(0),
            broke: AtomicU64::new(0),
            last: Mutex::new(None),
            decided: AtomicBool::new(false),
            extensions: self.this.clone(),
        };
        OnTrial { running: Arc::new(running), config, had }
    }

    /// Puts a built-in on trial, in place of the one of its class: for tests of those who call extensions. It is
    /// not taken back, since built-ins are not kept.
    ///
    /// # Panics
    /// When there is none of its class, or its schema is no JSON Schema.
    #[doc(hidden)]
    pub fn put_on_trial(&self, builtin: Builtin, rule: TrialRule) {
        let class = crate::artifact::Loaded::description(&builtin).class.clone();
        let before = self.entry(&class).expect("there is a version before it");
        self.put_builtin(builtin);
        let entry = self.entry(&class).expect("it was put there");
        let last_good = match &before.trial {
            Some(trial) => Arc::clone(trial.last_good().1),
            None => Arc::clone(before.opened.as_ref().expect("a built-in is open")),
        };
        let last_good = LastGood { sha256: String::new(), version: last_good };
        let trial = self.trial(&class, rule, last_good, entry.config.clone(), None);
        let entry = Entry { trial: Some(trial), ..Entry::clone(&entry) };
        self.swap(self.books.lock(), |table| table.put(entry));
    }

    fn end_trial(&self, running: &Arc<Running>, end: &End) -> Result<(), String> {
        let mut done = false;
        while !done {
            let entry = self.entry(&running.class);
            let on_trial = |entry: &Arc<Entry>| {
                entry.trial.as_ref().is_some_and(|trial| Arc::ptr_eq(&trial.running, running))
            };
            // Otherwise another version or a rollback has ended it.
            let Some(entry) = entry.filter(on_trial) else { return Ok(()) };
            done = match end.failed {
                true => self.take_back(&entry, running, end)?,
                false => self.pass(&entry, running, end)?,
            };
        }
        Ok(())
    }

    /// `false` if the entry has changed meanwhile.
    fn take_back(&self, entry: &Arc<Entry>, running: &Running, end: &End) -> Result<bool, String> {
        let LastGood { sha256, version } = &running.last_good;
        let record = entry.registration.kept.iter().find(|record| record.checksums.sha256 == *sha256);
        let record = record.ok_or_else(|| format!("the artifact {sha256} is not kept"))?;
        let reason = format!(
            "it broke on {} of its first {} messages, on which version {} did not; the last time: {}",
            end.broke,
            end.judged,
            record.version,
            running.how_it_broke()
        );
        let done = self.go_back(entry, record, version, &reason).map_err(|error| error.to_string())?;
        if done.is_some() {
            self.taken_back.fetch_add(1, Ordering::Relaxed);
        }
        Ok(done.is_some())
    }

    /// `false` if the entry has changed meanwhile.
    fn pass(&self, entry: &Arc<Entry>, running: &Running, end: &End) -> Result<bool, String> {
        let class = &running.class;
        let books = self.books.lock();
        let Some(now) = self.entry(class).filter(|now| now.is_same_as(entry)) else { return Ok(false) };
        let mut passed = Entry { trial: None, ..Entry::clone(&now) };
        passed.registration.last_good = None;
        let door = self.door.as_ref().ok_or("there is no door")?;
        door.store.write_registration(&passed.registration).map_err(|error| error.to_string())?;
        self.swap(books, |table| table.put(passed));
        let (version, End { judged, broke, .. }) = (&entry.registration.in_force.version, end);
        info!(%class, version, judged, broke, "extension has passed its trial");
        if let Ok(version) = &entry.opened {
            warn_of_rejects(running, &version.counts());
        }
        Ok(true)
    }

    /// How many versions were taken back by themselves since the start: they broke too often on trial.
    pub fn taken_back(&self) -> u64 {
        self.taken_back.load(Ordering::Relaxed)
    }
}

/// Verdicts do not break; a version that says no to much more, or much less, is worth a look all the same.
fn warn_of_rejects(running: &Running, new: &Counts) {
    let old = running.last_good.version.counts();
    if let Some([before, now]) = shift_of_rejects(&old, new, running.rule.minimum) {
        let [before, now] = [before, now].map(|rate| format!("{:.0} %", rate * 100.0));
        warn!(class = %running.class, before, now, "the new version rejects another part of the messages");
    }
}

/// The rates of rejects, before and now, if both are known of at least `minimum` messages and they differ much.
pub(super) fn shift_of_rejects(old: &Counts, new: &Counts, minimum: u64) -> Option<[f64; 2]> {
    if old.messages.min(new.messages) < minimum.max(1) {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate is rough")]
    let [before, now] = [old, new].map(|counts| counts.rejected as f64 / counts.messages as f64);
    ((before - now).abs() > REJECTS_SHIFT).then_some([before, now])
}
