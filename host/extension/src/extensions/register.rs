//! The one door: from bytes to the version in force.
//!
//! read whole and bounded → checksums → unchanged? → which form → open → describe → check class, kinds,
//! schema, configurations → keep on disk → swap. Whatever goes wrong before the swap leaves everything
//! as it was.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::MutexGuard;
use serde_json::Value;
use tracing::{debug, info, warn};

use super::config::config_key;
use super::door::read_whole;
use super::durable::Taken;
use super::errors::{ConfigError, RegisterError};
use super::info::{Inspection, RefusedFile, Registered};
use super::key::{Checksums, ClassName, Form, Key};
use super::table::{Entry, Left, Origin, Record, Registration, TakenBack};
use super::version::Version;
use super::{Books, Door, Extensions, Source, no_config};

/// How often a registration is checked again because its class's configuration changed meanwhile.
const MAX_ATTEMPTS: usize = 16;

/// A file that was refused.
pub(super) struct Refused {
    pub file: RefusedFile,
    /// Something else was in its way: it may be taken when that has changed.
    pub depends: bool,
}

/// What is to be registered, read and measured.
struct Arrival<'a> {
    bytes: &'a [u8],
    checksums: Checksums,
    origin: Origin,
    /// The class that the request named.
    declared: Option<ClassName>,
    /// The configuration that came along.
    config: Option<Arc<Value>>,
    /// It is taken although it was taken back before.
    force: bool,
}

/// A refusal, and the class that it concerns as far as that is known.
struct Failure {
    class: Option<ClassName>,
    error: RegisterError,
}

impl Extensions {
    /// The one door. Reads, sniffs, checks and loads an artifact, and swaps it in. Of several at once
    /// for one class, the one that swaps last stays.
    ///
    /// Blocks while a component is compiled; call it off the async threads.
    ///
    /// # Errors
    /// Each leaves the version in force as it was, and is shown in [`list`](Self::list) (a refused file
    /// in [`refused`](Self::refused)).
    pub fn register(&self, source: Source) -> Result<Registered, RegisterError> {
        let Some(door) = &self.door else {
            return Err(RegisterError::Refused("this table holds built-in extensions only".to_owned()));
        };
        match source {
            Source::File(path) => self.register_file(door, &path),
            Source::Upload { class, bytes, crc32, sha256, config, force, from } => {
                let result = door.measure(&bytes, crc32, sha256.as_deref()).and_then(|checksums| {
                    let origin = Origin::Upload(from);
                    let (declared, config) = (Some(class.clone()), config.map(Arc::new));
                    if config.is_some() && self.set_by_file(&class) {
                        return Err(RegisterError::ConfigSetByFile { key: config_key(&class) });
                    }
                    let arrival = Arrival { bytes: &bytes, checksums, origin, declared, config, force };
                    self.admit(door, &arrival).map_err(|failure| failure.error)
                });
                let books = self.books.lock();
                match &result {
                    Ok(registered) => self.forgive(&books, registered),
                    // It was told once, when that happened; clients send again and again.
                    Err(error @ RegisterError::TakenBack { .. }) => {
                        debug!(%class, %error, "upload not taken");
                    }
                    Err(error) => {
                        warn!(%class, %error, "upload refused; what was in force stays");
                        self.note_error(&books, &class, &error.to_string());
                    }
                }
                drop(books);
                result
            }
        }
    }

    /// Opens an artifact and says what it is, without registering it.
    ///
    /// # Errors
    /// As [`register`](Self::register), as far as they concern the artifact alone.
    pub fn inspect(&self, path: &Path) -> Result<Inspection, RegisterError> {
        let Some(door) = &self.door else {
            return Err(RegisterError::Refused("this table holds built-in extensions only".to_owned()));
        };
        let bytes = read_whole(path, door.options.max_artifact_size)?;
        let checksums = Checksums::of(&bytes);
        let origin = Origin::File(path.to_owned());
        let form = door.form(&bytes, &origin)?;
        let version = door.open(&bytes, &checksums, form, &origin, None)?;
        let description = version.description();
        Ok(Inspection {
            class: description.class.clone(),
            kinds: description.kinds.clone(),
            form,
            version: description.version.clone(),
            contract: description.contract.clone(),
            crc32: format!("{:08x}", checksums.crc32),
            sha256: checksums.sha256,
            size: checksums.size,
            schema: description.schema.clone(),
        })
    }

    fn register_file(&self, door: &Door, path: &Path) -> Result<Registered, RegisterError> {
        let result = self.take_file(door, path);
        let mut books = self.books.lock();
        match result {
            Ok(registered) => {
                books.refused.remove(path);
                self.forgive(&books, &registered);
                Ok(registered)
            }
            Err(Failure { class, error }) => {
                let reason = error.to_string();
                let told = matches!(error, RegisterError::TakenBack { .. });
                if told {
                    debug!(path = %path.display(), %reason, "file not taken");
                } else {
                    warn!(path = %path.display(), %reason, "file refused; what was in force stays");
                }
                // What a file brought before is what its next version is expected to be.
                let class = class.or_else(|| books.files.get(path).map(|taken| taken.class.clone()));
                if let Some(class) = class.as_ref().filter(|_| !told) {
                    self.note_error(&books, class, &format!("{}: {reason}", path.display()));
                }
                let file = RefusedFile { path: path.to_owned(), class, reason, since: SystemTime::now() };
                books.refused.insert(path.to_owned(), Refused { file, depends: depends(&error) });
                Err(error)
            }
        }
    }

    fn take_file(&self, door: &Door, path: &Path) -> Result<Registered, Failure> {
        let unnamed = |error| Failure { class: None, error };
        if path.to_str().is_none() {
            return Err(unnamed(RegisterError::Refused("its path is not UTF-8".to_owned())));
        }
        let bytes = read_whole(path, door.options.max_artifact_size).map_err(unnamed)?;
        let checksums = Checksums::of(&bytes);
        if let Some(taken) = self.books.lock().files.get(path)
            && taken.sha256 == checksums.sha256
            && !self.waits_for(&taken.class, &checksums)
        {
            if self.entry(&taken.class).is_none() {
                info!(path = %path.display(), class = %taken.class, "file not taken: its class was removed");
            }
            return Ok(checksums.registered(taken.class.clone(), true, false));
        }
        let origin = Origin::File(path.to_owned());
        let (declared, config) = (None, None);
        self.admit(door, &Arrival { bytes: &bytes, checksums, origin, declared, config, force: false })
    }

    /// From measured bytes to the swap.
    fn admit(&self, door: &Door, arrival: &Arrival<'_>) -> Result<Registered, Failure> {
        let Arrival { bytes, checksums, origin, declared, config, .. } = arrival;
        let expected = declared.clone().or_else(|| self.expected_of(origin));
        let failed = |error| Failure { class: expected.clone(), error };
        let form = door.form(bytes, origin).map_err(failed)?;
        if let Some(class) = declared
            && let Some(registered) = self.unchanged(class, checksums).map_err(failed)?
        {
            return self.configure_unchanged(registered, config.as_ref()).map_err(failed);
        }
        if let Some(class) = &expected {
            // Nothing is compiled in vain, each time that it is sent.
            let set = config.clone().or_else(|| self.books.lock().configs.get(class).cloned());
            self.check_taken_back(class, arrival, set.as_deref()).map_err(failed)?;
        }
        let permit = door.loads.take();
        // An equal artifact may have come into force while we waited for our turn.
        if let Some(class) = declared
            && let Some(registered) = self.unchanged(class, checksums).map_err(failed)?
        {
            return self.configure_unchanged(registered, config.as_ref()).map_err(failed);
        }
        let version = door.open(bytes, checksums, form, origin, expected.as_ref()).map_err(failed)?;
        drop(permit);
        let class = version.description().class.clone();
        if let Some(declared) = declared
            && *declared != class
        {
            let (declared, found) = (declared.clone(), class);
            return Err(failed(RegisterError::OtherClass { declared, found }));
        }
        self.commit(door, arrival, form, &Arc::new(version))
            .map_err(|error| Failure { class: Some(class), error })
    }

    /// The last part: what depends on what else is registered, again if that changes meanwhile.
    fn commit(
        &self,
        door: &Door,
        arrival: &Arrival<'_>,
        form: Form,
        version: &Arc<Version>,
    ) -> Result<Registered, RegisterError> {
        let Arrival { bytes, checksums, origin, .. } = arrival;
        let description = version.description();
        let class = &description.class;
        let key = Key::installed(class.clone());
        if let Some(wanted) = self.used_as(class)
            && !version.is(wanted)
        {
            let found = description.kinds.clone();
            return Err(RegisterError::WrongKind { class: class.clone(), wanted, found });
        }
        let staged = door.store.stage(&checksums.sha256, bytes).map_err(RegisterError::Store)?;
        for _ in 0..MAX_ATTEMPTS {
            let set = self.books.lock().configs.get(class).cloned();
            let config = arrival.config.clone().or_else(|| set.clone());
            let default = self.check_configurations(class, version, config.as_deref())?;

            let mut books = self.books.lock();
            if books.configs.get(class) != set.as_ref() {
                continue;
            }
            self.check_taken_back(class, arrival, config.as_deref())?;
            self.check_source(&books, class, origin)?;
            let before = self.entry(class);
            let before = before.as_ref();
            if let Some(registered) = self.unchanged(class, checksums)? {
                self.note_taken(door, &mut books, &registered, origin);
                self.note_moved(door, &books, before, origin)?;
                drop(books);
                return self.configure_unchanged(registered, arrival.config.as_ref());
            }
            let trial = before
                .filter(|_| !arrival.force)
                .and_then(|before| self.trial_after(before, version, &checksums.sha256, config.clone()));
            let record = Record {
                checksums: checksums.clone(),
                form,
                origin: origin.clone(),
                since: SystemTime::now(),
                version: description.version.clone(),
                kinds: description.kinds.clone(),
                contract: description.contract.clone(),
                left: None,
            };
            let kept = before.map_or_else(Vec::new, |before| {
                let reason = format!("version {} replaced it, from {origin}", record.version);
                let left = Left { at: record.since, reason, config: before.config.as_deref().cloned() };
                let last_good = trial.as_ref().map(|(_, last_good)| last_good.as_str());
                let n = door.options.keep_versions;
                before.registration.followed_by(&checksums.sha256, n, left, last_good)
            });
            let mut taken_back =
                before.map_or_else(Vec::new, |before| before.registration.taken_back.clone());
            taken_back.retain(|version| version.checksums.sha256 != checksums.sha256);
            let (trial, last_good) = trial.unzip();
            let registration =
                Registration { key: key.clone(), in_force: record, kept, taken_back, last_good };
            door.store.keep(staged).map_err(RegisterError::Store)?;
            if let Some(config) = &arrival.config {
                let before = before.map(|before| &before.registration);
                let kept = door.store.write_configured(before, set.as_deref(), &registration, config);
                kept.map_err(RegisterError::Store)?;
                books.configs.insert(class.clone(), Arc::clone(config));
            } else {
                door.store.write_registration(&registration).map_err(RegisterError::Store)?;
            }
            books.removed.remove(class);
            let configured = arrival.config.is_some();
            let registered =
                Registered { configured, ..checksums.registered(class.clone(), false, before.is_some()) };
            self.note_taken(door, &mut books, &registered, origin);
            let stale = before.map(|before| before.registration.artifacts()).unwrap_or_default();
            let opened = Ok(Arc::clone(version));
            let entry = Entry { registration, opened, default, config, last_error: None, trial };
            self.swap_and_sweep(door, books, &stale, |table| table.put(entry));
            info!(%class, version = description.version, sha256 = checksums.sha256, ?origin, "extension in force");
            return Ok(registered);
        }
        Err(RegisterError::Refused(format!("the configuration of {class} changes faster than it is checked")))
    }

    /// Of bytes that are in force already: what is left to do is to take the configuration that came along.
    fn configure_unchanged(
        &self,
        registered: Registered,
        config: Option<&Arc<Value>>,
    ) -> Result<Registered, RegisterError> {
        let Some(config) = config else { return Ok(registered) };
        let class = &registered.class;
        self.change_config(class, Some(Arc::clone(config))).map_err(|error| match error {
            ConfigError::Refused { class, path, reason } => {
                RegisterError::ConfigRefused { class, path, reason }
            }
            ConfigError::SetByFile { key } => RegisterError::ConfigSetByFile { key },
            ConfigError::Store(error) => RegisterError::Store(error),
            // Removed by somebody else at this very moment.
            ConfigError::Missing { .. } => RegisterError::Refused(error.to_string()),
        })?;
        Ok(Registered { configured: true, ..registered })
    }

    /// Bytes that were taken back are not taken again, unless they are forced.
    fn check_taken_back(
        &self,
        class: &ClassName,
        arrival: &Arrival<'_>,
        config: Option<&Value>,
    ) -> Result<(), RegisterError> {
        let sha256 = &arrival.checksums.sha256;
        let entry = self.entry(class).filter(|_| !arrival.force);
        let taken_back = entry.as_deref().and_then(|entry| entry.registration.was_taken_back(sha256, config));
        match taken_back {
            Some(TakenBack { version, reason, .. }) => Err(RegisterError::TakenBack {
                class: class.clone(),
                version: version.clone(),
                reason: reason.clone(),
                how: how_to_force(&arrival.origin),
            }),
            None => Ok(()),
        }
    }

    /// The configurations that this version must take: that of its class, and those that callers of the
    /// version in force use now.
    pub(super) fn check_configurations(
        &self,
        class: &ClassName,
        version: &Version,
        config: Option<&Value>,
    ) -> Result<Result<Arc<super::Configured>, super::schema::Refusal>, RegisterError> {
        let refused = |refusal: super::schema::Refusal| RegisterError::ConfigRefused {
            class: class.clone(),
            path: refusal.path,
            reason: refusal.reason,
        };
        let default = version.configured(config.unwrap_or(&no_config()));
        match &default {
            Err(refusal) if refusal.broke => return Err(RegisterError::Refused(refusal.reason.clone())),
            // It has no configuration yet: bindings may bring their own.
            Err(refusal) if config.is_some() => return Err(refused(refusal.clone())),
            _ => {}
        }
        let before = self.entry(class);
        // What callers were given for want of one of their own is replaced together with the version.
        let replaced =
            before.as_ref().map(|entry| entry.config.as_deref().cloned().unwrap_or_else(no_config));
        let in_use = before.as_ref().and_then(|entry| entry.opened.as_ref().ok());
        for used in in_use.into_iter().flat_map(|version| version.configurations_in_use()) {
            if Some(&used) != replaced.as_ref() {
                version.configured(&used).map_err(refused)?;
            }
        }
        Ok(default)
    }

    /// A class in force is brought by one file.
    fn check_source(
        &self,
        books: &MutexGuard<'_, Books>,
        class: &ClassName,
        origin: &Origin,
    ) -> Result<(), RegisterError> {
        match self.entry(class) {
            Some(entry) if entry.is_built_in() => {
                return Err(RegisterError::BuiltIn { class: class.clone() });
            }
            Some(_) => {}
            None => return Ok(()),
        }
        let Origin::File(second) = origin else { return Ok(()) };
        // A file that is gone was moved: its new name takes over without a gap.
        let other =
            |(first, taken): &(&PathBuf, &Taken)| *first != second && taken.class == *class && first.exists();
        match books.files.iter().find(other) {
            Some((first, _)) => {
                Err(RegisterError::SourceConflict { class: class.clone(), first: first.clone() })
            }
            None => Ok(()),
        }
    }

    /// Whether these bytes are in force already; an error if others with their CRC32 are.
    fn unchanged(
        &self,
        class: &ClassName,
        checksums: &Checksums,
    ) -> Result<Option<Registered>, RegisterError> {
        let Some(entry) = self.entry(class) else { return Ok(None) };
        if entry.is_built_in() {
            return Err(RegisterError::BuiltIn { class: class.clone() });
        }
        let registered = &entry.registration.in_force.checksums;
        if registered.sha256 == checksums.sha256 {
            // One that could not be opened or configured is tried again.
            let unchanged = entry.opened.is_ok() && entry.is_configured();
            return Ok(unchanged.then(|| checksums.registered(class.clone(), true, false)));
        }
        if registered.crc32 == checksums.crc32 {
            return Err(RegisterError::ChecksumConflict {
                class: class.clone(),
                crc32: checksums.crc32,
                registered: registered.sha256.clone(),
                found: checksums.sha256.clone(),
            });
        }
        Ok(None)
    }

    /// Whether these very bytes are in force and could not be opened when weir started, since what was kept
    /// of them is damaged, say.
    fn waits_for(&self, class: &ClassName, checksums: &Checksums) -> bool {
        self.entry(class).is_some_and(|entry| {
            entry.opened.is_err() && entry.registration.in_force.checksums.sha256 == checksums.sha256
        })
    }

    /// What was wrong with what came after these bytes is over once they are sent again and in force.
    fn forgive(&self, books: &MutexGuard<'_, Books>, registered: &Registered) {
        if let Some(entry) = self.entry(&registered.class)
            && entry.last_error.is_some()
            && entry.registration.in_force.checksums.sha256 == registered.sha256
        {
            let entry = Entry { last_error: None, ..Entry::clone(&entry) };
            self.edit(books, |table| table.put(entry));
        }
    }

    /// Writes down which bytes were last taken from a file.
    fn note_taken(
        &self,
        door: &Door,
        books: &mut MutexGuard<'_, Books>,
        registered: &Registered,
        origin: &Origin,
    ) {
        let Origin::File(path) = origin else { return };
        let taken = Taken { sha256: registered.sha256.clone(), class: registered.class.clone() };
        books.files.insert(path.clone(), taken);
        books.refused.remove(path);
        // A restart would look at the file again, and find its bytes in force.
        if let Err(error) = door.store.write_files(&books.files) {
            warn!(path = %path.display(), %error, "the digest of this file is not kept");
        }
    }

    /// Writes down that the file of the version in force has another name now.
    fn note_moved(
        &self,
        door: &Door,
        books: &MutexGuard<'_, Books>,
        entry: Option<&Arc<Entry>>,
        origin: &Origin,
    ) -> Result<(), RegisterError> {
        let Some(entry) = entry else { return Ok(()) };
        if let (Origin::File(from), Origin::File(to)) = (&entry.registration.in_force.origin, origin)
            && from != to
        {
            let mut entry = Entry::clone(entry);
            entry.registration.in_force.origin = origin.clone();
            door.store.write_registration(&entry.registration).map_err(RegisterError::Store)?;
            self.edit(books, |table| table.put(entry));
        }
        Ok(())
    }

    /// The class that a file brought last.
    fn expected_of(&self, origin: &Origin) -> Option<ClassName> {
        match origin {
            Origin::File(path) => self.books.lock().files.get(path).map(|taken| taken.class.clone()),
            Origin::Kept(_) | Origin::Upload(_) | Origin::BuiltIn => None,
        }
    }
}

/// What somebody does who wants bytes that were taken back.
fn how_to_force(origin: &Origin) -> &'static str {
    match origin {
        Origin::File(path) if path.extension().is_some_and(|extension| extension == "so") => {
            "weir extension remove, then copy the file in again"
        }
        _ => "weir extension register FILE --force, or PUT with ?force=true",
    }
}

/// Whether the same bytes may be taken another time, since something else was in their way.
fn depends(error: &RegisterError) -> bool {
    matches!(
        error,
        RegisterError::SourceConflict { .. }
            | RegisterError::WrongKind { .. }
            | RegisterError::ConfigRefused { .. }
            | RegisterError::TakenBack { .. }
            | RegisterError::ChecksumConflict { .. }
            | RegisterError::Read(_)
            | RegisterError::Store(_)
    )
}

impl Checksums {
    fn registered(&self, class: ClassName, unchanged: bool, replaced: bool) -> Registered {
        Registered {
            class,
            crc32: format!("{:08x}", self.crc32),
            sha256: self.sha256.clone(),
            unchanged,
            replaced,
            configured: false,
        }
    }
}
