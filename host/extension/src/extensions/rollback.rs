//! Back to the version before: by hand here, and by a trial that was not passed.
//!
//! The bytes that were gone back from are remembered, with the configuration and the weir that they were in
//! force with: neither the drop folder nor whoever sends them again brings them back, unless they are forced.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;
use tracing::warn;

use super::errors::{RegisterError, RollbackError};
use super::info::{RefusedFile, RolledBack};
use super::key::ClassName;
use super::register::Refused;
use super::schema::Refusal;
use super::table::{Entry, HOST, Origin, Record, Registration, TakenBack};
use super::version::{Configured, Version};
use super::{Books, Extensions, no_config};

/// How many versions that were taken back are remembered for one class, the last ones.
const MAX_TAKEN_BACK: usize = 64;

/// What a version before is in force with.
struct Takes {
    default: Result<Arc<Configured>, Refusal>,
    config: Option<Arc<Value>>,
    /// Set if that is not the one of now.
    restored: Option<Value>,
}

impl Extensions {
    /// Goes back to the newest version that is kept, durably. The one that was in force is not taken again
    /// unless it is forced. Its class keeps its configuration; only if the version before does not take that,
    /// the one that it had comes back with it.
    ///
    /// Blocks while the version is opened, mostly from code that was kept; call it off the async threads.
    ///
    /// # Errors
    /// Each leaves the version in force as it is.
    pub fn rollback(&self, class: &ClassName, by: &str) -> Result<RolledBack, RollbackError> {
        loop {
            let entry = self.entry(class).ok_or_else(|| RollbackError::Missing { class: class.clone() })?;
            if entry.is_built_in() || self.door.is_none() {
                return Err(RollbackError::BuiltIn { class: class.clone() });
            }
            let Some(record) = entry.registration.kept.first() else {
                let version = entry.registration.in_force.version.clone();
                return Err(RollbackError::NoneBefore { class: class.clone(), version });
            };
            let version = self.reopen(class, record).map_err(|reason| RollbackError::Refused {
                class: class.clone(),
                version: record.version.clone(),
                reason,
            })?;
            let reason = format!("rolled back to version {} by hand ({by})", record.version);
            if let Some(rolled_back) = self.go_back(&entry, record, &version, &reason)? {
                return Ok(rolled_back);
            }
        }
    }

    /// Puts `record` of the kept ones of an entry into force. `None` if the entry has changed meanwhile.
    pub(super) fn go_back(
        &self,
        entry: &Arc<Entry>,
        record: &Record,
        version: &Arc<Version>,
        reason: &str,
    ) -> Result<Option<RolledBack>, RollbackError> {
        let door = self.door.as_ref().expect("versions are kept behind a door");
        let Registration { key, in_force, kept, taken_back, .. } = &entry.registration;
        let class = &key.class;
        let Takes { default, config, restored } = self.takes(entry, record, version)?;

        let mut books = self.books.lock();
        if !self.entry(class).is_some_and(|now| now.is_same_as(entry)) {
            return Ok(None);
        }
        let now = SystemTime::now();
        let mut back = Record { since: now, left: None, ..record.clone() };
        if let Origin::File(path) = &record.origin
            && books.files.get(path).is_none_or(|taken| taken.sha256 != record.checksums.sha256)
        {
            back.origin = Origin::Kept(path.clone());
        }
        let gone = TakenBack {
            checksums: in_force.checksums.clone(),
            version: in_force.version.clone(),
            config: entry.config.as_deref().cloned(),
            host: HOST.to_owned(),
            reason: reason.to_owned(),
            at: now,
        };
        let rolled_back = RolledBack {
            class: class.clone(),
            sha256: back.checksums.sha256.clone(),
            version: back.version.clone(),
            from_sha256: gone.checksums.sha256.clone(),
            from_version: gone.version.clone(),
            configuration_too: restored.is_some(),
        };
        let older = kept.iter().filter(|kept| kept.checksums.sha256 != rolled_back.sha256);
        let others = taken_back.iter().filter(|known| known.checksums.sha256 != rolled_back.from_sha256);
        let registration = Registration {
            key: key.clone(),
            kept: older.cloned().collect(),
            taken_back: std::iter::once(gone).chain(others.cloned()).take(MAX_TAKEN_BACK).collect(),
            in_force: back,
            last_good: None,
        };
        let written = match &restored {
            Some(config) => {
                let set = entry.config.as_deref();
                door.store.write_configured(Some(&entry.registration), set, &registration, config)
            }
            None => door.store.write_registration(&registration),
        };
        written.map_err(RollbackError::Store)?;
        if let Some(config) = &config {
            books.configs.insert(class.clone(), Arc::clone(config));
        }
        // Files that hold what was gone back from are listed as refused, and looked at again when something
        // else changes: the configuration, say.
        let Books { files, refused, .. } = &mut *books;
        for (path, taken) in files {
            if taken.class == *class && taken.sha256 == rolled_back.from_sha256 {
                taken.sha256.clear();
                let reason = format!("version {} was taken back: {reason}", rolled_back.from_version);
                let file = RefusedFile { path: path.clone(), class: Some(class.clone()), reason, since: now };
                refused.insert(path.clone(), Refused { file, depends: true });
            }
        }
        if let Err(error) = door.store.write_files(&books.files) {
            // After a restart it is refused all the same, and not listed until it changes.
            warn!(%class, %error, "that files were refused is not kept");
        }
        warn!(
            %class, version = rolled_back.version, from = rolled_back.from_version, from_sha256 = rolled_back.from_sha256,
            reason, "extension went back to the version before"
        );
        let stale = entry.registration.artifacts();
        let opened = Ok(Arc::clone(version));
        let entry = Entry { registration, opened, default, config, last_error: None, trial: None };
        self.swap_and_sweep(door, books, &stale, |table| table.put(entry));
        Ok(Some(rolled_back))
    }

    /// The configuration that a version before is in force with: that of now, or else the one that it had.
    fn takes(&self, entry: &Entry, record: &Record, version: &Arc<Version>) -> Result<Takes, RollbackError> {
        let class = &entry.registration.key.class;
        let refused = |reason: String| RollbackError::Refused {
            class: class.clone(),
            version: record.version.clone(),
            reason,
        };
        let error = match self.check_configurations(class, version, entry.config.as_deref()) {
            Ok(default) => return Ok(Takes { default, config: entry.config.clone(), restored: None }),
            Err(error) => error,
        };
        let had = record.left.as_ref().map(|left| left.config.clone().unwrap_or_else(no_config));
        let had = had.filter(|had| !self.set_by_file(class) && Some(had) != entry.config.as_deref());
        let Some(had) = had.filter(|_| matches!(error, RegisterError::ConfigRefused { .. })) else {
            return Err(refused(error.to_string()));
        };
        // What is refused of that one is no news: the configuration of now is.
        let default = self
            .check_configurations(class, version, Some(&had))
            .map_err(|_same_kind| refused(error.to_string()))?;
        Ok(Takes { default, config: Some(Arc::new(had.clone())), restored: Some(had) })
    }
}
