//! The table: for each key what is registered, and what of it can be called.
//!
//! A table never changes. A change makes a new one that shares all entries but one: at ten thousand
//! entries that copies ten thousand pointers, some 100 µs, once a registration; readers pay nothing.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::errors::Unavailable;
use super::info::{ExtensionInfo, KeptVersion, TakenBackVersion};
use super::key::{Checksums, Form, Key, Kind};
use super::schema::Refusal;
use super::trial::{OnTrial, Trial};
use super::version::{Configured, Counts, Version};

/// This weir, as what was taken back remembers it.
pub(super) const HOST: &str = env!("CARGO_PKG_VERSION");

/// Where a version came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Origin {
    /// This file of the drop folder.
    File(PathBuf),
    /// This file of the drop folder, once: it was put back into force since, and whatever becomes of the file
    /// does not matter to it.
    Kept(PathBuf),
    /// A request: what it is, and from where.
    Upload(String),
    /// Weir itself.
    BuiltIn,
}

/// What is kept of a version: enough to open it again, and to list it if that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub checksums: Checksums,
    pub form: Form,
    pub origin: Origin,
    #[serde(with = "millis")]
    pub since: SystemTime,
    /// As the artifact declared them.
    pub version: String,
    pub kinds: Vec<Kind>,
    pub contract: String,
    /// Of a version that is kept: how it left force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
}

/// How a version left force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Left {
    #[serde(with = "millis")]
    pub at: SystemTime,
    pub reason: String,
    /// The configuration of the class until then, if there was one.
    #[serde(default)]
    pub config: Option<Value>,
}

/// A version that was taken back: its bytes are not taken again, unless they are forced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TakenBack {
    #[serde(flatten)]
    pub checksums: Checksums,
    /// As the artifact declared it.
    pub version: String,
    /// The configuration of its class at that time: with another one it may be taken.
    #[serde(default)]
    pub config: Option<Value>,
    /// The version of weir: another one may run it better.
    pub host: String,
    pub reason: String,
    #[serde(with = "millis")]
    pub at: SystemTime,
}

/// What is registered under a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registration {
    pub key: Key,
    pub in_force: Record,
    /// Versions before it, the newest first.
    pub kept: Vec<Record>,
    /// Versions that were taken back, the last one first.
    #[serde(default)]
    pub taken_back: Vec<TakenBack>,
    /// While the one in force is on trial: the digest of the kept one that is the last good one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good: Option<String>,
}

/// One entry: a registration, and its version opened.
#[derive(Clone)]
pub(crate) struct Entry {
    pub registration: Registration,
    /// Or why it could not be opened again after a start.
    pub opened: Result<Arc<Version>, String>,
    /// Its version with the configuration of its class, ready; or why that is not taken.
    pub default: Result<Arc<Configured>, Refusal>,
    /// The configuration of its class, if it has one.
    pub config: Option<Arc<Value>>,
    pub last_error: Option<LastError>,
    /// While it is on trial.
    pub trial: Option<OnTrial>,
}

/// The last refusal of an artifact or configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastError {
    pub reason: String,
    pub at: SystemTime,
}

/// Whether an entry can be called.
#[derive(Debug)]
pub(crate) enum State<'a> {
    InForce,
    /// It needs a configuration, and none is set: who calls it brings one, or waits.
    Unconfigured(&'a Refusal),
    /// It does not take the configuration that is set.
    Misconfigured(&'a Refusal),
    /// It could not be opened again after a start.
    NotLoaded(&'a str),
}

/// The entries by key.
#[derive(Clone, Default)]
pub(crate) struct Table {
    pub entries: HashMap<Key, Arc<Entry>>,
}

impl Table {
    pub(super) fn put(&mut self, entry: Entry) {
        self.entries.insert(entry.registration.key.clone(), Arc::new(entry));
    }

    /// Whether any registration names this artifact. Looks at all of them: a few 100 µs for ten thousand.
    pub(super) fn names(&self, sha256: &str) -> bool {
        self.entries.values().any(|entry| entry.registration.records().any(|r| r.checksums.sha256 == sha256))
    }
}

impl Registration {
    /// One without a version before it.
    pub(super) fn first(key: Key, in_force: Record) -> Self {
        Self { key, in_force, kept: Vec::new(), taken_back: Vec::new(), last_good: None }
    }

    /// The one in force, then those kept.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        std::iter::once(&self.in_force).chain(&self.kept)
    }

    /// The digests of all its artifacts.
    pub(super) fn artifacts(&self) -> Vec<String> {
        self.records().map(|record| record.checksums.sha256.clone()).collect()
    }

    /// Whether these bytes were taken back with this configuration, by this weir.
    pub(super) fn was_taken_back(&self, sha256: &str, config: Option<&Value>) -> Option<&TakenBack> {
        self.taken_back.iter().find(|version| {
            version.checksums.sha256 == sha256 && version.config.as_ref() == config && version.host == HOST
        })
    }

    /// What is kept when another artifact comes into force: the newest `n`, each once, the last good one among
    /// them. `left` says how the one in force leaves it.
    pub(super) fn followed_by(
        &self,
        sha256: &str,
        n: usize,
        left: Left,
        last_good: Option<&str>,
    ) -> Vec<Record> {
        let mut seen = HashSet::from([sha256]);
        let leaving = Record { left: Some(left), ..self.in_force.clone() };
        let all = std::iter::once(&leaving).chain(&self.kept);
        let older = all.filter(|record| seen.insert(&record.checksums.sha256));
        let mut kept: Vec<Record> = older.cloned().collect();
        let beyond = kept.split_off(n.min(kept.len()));
        let is_last_good = |record: &Record| Some(record.checksums.sha256.as_str()) == last_good;
        if let (Some(good), Some(oldest)) = (beyond.into_iter().find(is_last_good), kept.last_mut()) {
            *oldest = good;
        }
        kept
    }
}

impl Entry {
    /// What instances are made from; see [`Extensions::configured`](super::Extensions::configured).
    pub(super) fn configured(
        &self,
        kind: Kind,
        config: Option<&Value>,
    ) -> Result<Arc<Configured>, Unavailable> {
        let class = &self.registration.key.class;
        let refused = |reason: String| Unavailable::Refused { class: class.clone(), reason };
        let version = self.opened.as_ref().map_err(|reason| refused(reason.clone()))?;
        if !version.is(kind) {
            return Err(Unavailable::WrongKind { class: class.clone(), wanted: kind });
        }
        let configured = match config {
            Some(config) => version.configured(config),
            None if matches!(self.state(), State::Unconfigured(_)) => {
                return Err(refused(format!("it {}", self.state())));
            }
            // That it broke may have had to do with that moment; a no stays a no.
            None if matches!(&self.default, Err(refusal) if refusal.broke) => {
                version.configured(self.config.as_deref().unwrap_or(&super::no_config()))
            }
            None => self.default.clone(),
        };
        configured.map_err(|refusal| refused(format!("it does not take its configuration: {refusal}")))
    }

    /// The trial that a caller with this configuration takes part in.
    pub(super) fn trial(&self, kind: Kind, config: Option<&Value>) -> Option<Trial> {
        self.trial.as_ref()?.of(kind, config)
    }

    /// Whether it takes the configuration of its class, or has none to take.
    pub(super) fn is_configured(&self) -> bool {
        self.default.is_ok() || self.config.is_none()
    }

    /// Whether both have the same version with the same configuration.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let same_version = match (&self.opened, &other.opened) {
            (Ok(one), Ok(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_err() == other.is_err(),
        };
        same_version && self.registration == other.registration && self.config == other.config
    }

    /// The file that the version in force came from.
    pub(super) fn origin_file(&self) -> Option<&Path> {
        match &self.registration.in_force.origin {
            Origin::File(path) => Some(path),
            Origin::Kept(_) | Origin::Upload(_) | Origin::BuiltIn => None,
        }
    }

    pub(super) fn is_built_in(&self) -> bool {
        self.registration.in_force.form == Form::BuiltIn
    }

    /// Whether it can be called, and if not, why.
    pub(super) fn state(&self) -> State<'_> {
        match (&self.opened, &self.default) {
            (Err(reason), _) => State::NotLoaded(reason),
            (Ok(_), Ok(_)) => State::InForce,
            // That it broke may have had to do with that moment; it is asked again.
            (Ok(_), Err(refusal)) if self.config.is_none() && !refusal.broke => State::Unconfigured(refusal),
            (Ok(_), Err(refusal)) => State::Misconfigured(refusal),
        }
    }

    pub(super) fn info(&self) -> ExtensionInfo {
        let Registration { key, in_force, kept, taken_back, .. } = &self.registration;
        let counts =
            self.opened.as_ref().map_or_else(|_no_version| Counts::default(), |version| version.counts());
        let built_in = self.is_built_in();
        let compiled = self.opened.as_ref().ok().and_then(|version| version.compiled_by());
        let code = match (&compiled, in_force.form) {
            (Some(compiled), _) => compiled.by,
            (None, Form::BuiltIn) => "built-in",
            (None, Form::Native) if self.opened.is_ok() => "native",
            (None, _) => "",
        };
        ExtensionInfo {
            code: code.to_owned(),
            code_note: compiled.and_then(|compiled| compiled.note),
            class: key.class.clone(),
            kinds: in_force.kinds.clone(),
            form: in_force.form,
            crc32: if built_in { String::new() } else { format!("{:08x}", in_force.checksums.crc32) },
            sha256: in_force.checksums.sha256.clone(),
            size: in_force.checksums.size,
            version: in_force.version.clone(),
            contract: in_force.contract.clone(),
            source: in_force.origin.to_string(),
            state: self.state().to_string(),
            since: in_force.since,
            last_error: self.last_error.as_ref().map(|last| last.reason.clone()),
            last_error_at: self.last_error.as_ref().map(|last| last.at),
            versions_kept: kept.len(),
            kept: kept.iter().map(Record::info).collect(),
            trial: self.trial.as_ref().map(OnTrial::info),
            taken_back: taken_back.iter().map(TakenBack::info).collect(),
            counts,
        }
    }
}

impl Record {
    fn info(&self) -> KeptVersion {
        KeptVersion {
            sha256: self.checksums.sha256.clone(),
            version: self.version.clone(),
            source: self.origin.to_string(),
            since: self.since,
            until: self.left.as_ref().map(|left| left.at),
            // Written down by a weir that did not say.
            reason: self
                .left
                .as_ref()
                .map_or_else(|| "it was replaced".to_owned(), |left| left.reason.clone()),
        }
    }
}

impl TakenBack {
    fn info(&self) -> TakenBackVersion {
        TakenBackVersion {
            sha256: self.checksums.sha256.clone(),
            version: self.version.clone(),
            reason: self.reason.clone(),
            at: self.at,
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Kept(path) => write!(f, "put back; once {}", path.display()),
            Self::Upload(from) => f.write_str(from),
            Self::BuiltIn => f.write_str("built in"),
        }
    }
}

impl std::fmt::Display for State<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InForce => f.write_str("in-force"),
            Self::Unconfigured(refusal) => write!(f, "waits for a configuration: {refusal}"),
            Self::Misconfigured(refusal) => write!(f, "does not take its configuration: {refusal}"),
            Self::NotLoaded(reason) => write!(f, "not loaded: {reason}"),
        }
    }
}

/// A moment as milliseconds since 1970.
pub(crate) mod millis {
    use std::time::{Duration, SystemTime};

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &SystemTime, s: S) -> Result<S::Ok, S::Error> {
        // A clock before 1970 is a clock that was never set: zero says so.
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        s.serialize_u64(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<SystemTime, D::Error> {
        let millis = u64::deserialize(d)?;
        SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_millis(millis))
            .ok_or_else(|| serde::de::Error::custom("a moment out of range"))
    }

    /// The same of a moment that there may not have been.
    pub(crate) mod option {
        use std::time::SystemTime;

        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        #[derive(Serialize, Deserialize)]
        struct Millis(#[serde(with = "super")] SystemTime);

        pub(crate) fn serialize<S: Serializer>(time: &Option<SystemTime>, s: S) -> Result<S::Ok, S::Error> {
            time.map(Millis).serialize(s)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<SystemTime>, D::Error> {
            Ok(Option::<Millis>::deserialize(d)?.map(|Millis(time)| time))
        }
    }
}
