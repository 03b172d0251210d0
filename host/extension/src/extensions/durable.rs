//! What of the table is on disk, and how it gets there.
//!
//! ```text
//! artifacts/<sha256>             the bytes, as they came
//! registrations/<name>.json      one for each key: the version in force and those kept before it; between two
//!                                writes also the configuration that came with it
//! configs/<name>.json            one for each class whose configuration was set by REST
//! files.json                     the drop folder: path to the digest last taken from it
//! ```
//!
//! Each file is written anew beside its place, synced, renamed over it, and its folder synced: after a
//! crash there is the old one or the new one. A change writes one registration, however many there are;
//! `files.json` grows with the drop folder, which people fill by hand.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;
use tracing::{error, warn};

use super::key::{ClassName, Key, hex};
use super::table::Registration;

/// The version of this layout. A folder with a later one was written by a newer weir.
const FORMAT: u32 = 1;

/// The folder, open.
pub(super) struct Store {
    artifacts: PathBuf,
    registrations: PathBuf,
    configs: PathBuf,
    folder: PathBuf,
}

/// Everything that was on disk at the start.
pub(super) struct Found {
    pub registrations: Vec<Registration>,
    pub configs: Vec<(ClassName, Value)>,
    pub files: Files,
}

/// The drop folder: what was last taken from each path.
pub(super) type Files = BTreeMap<PathBuf, Taken>;

/// The version last taken from a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Taken {
    pub sha256: String,
    pub class: ClassName,
}

#[derive(Serialize, Deserialize)]
struct Formatted<T> {
    format: u32,
    #[serde(flatten)]
    value: T,
}

/// A registration, and the configuration that came with it as long as that is not in its own file: a crash
/// between the two writes is made good at the next start.
#[derive(Serialize, Deserialize)]
struct StoredRegistration {
    #[serde(flatten)]
    registration: Registration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    config: Option<Value>,
}

#[derive(Serialize, Deserialize)]
struct StoredConfig {
    class: ClassName,
    config: Value,
}

#[derive(Serialize, Deserialize, Default)]
struct StoredFiles {
    files: Files,
}

/// An artifact that is on disk and has no name yet. Dropped, it is gone.
pub(super) struct Staged {
    file: NamedTempFile,
    place: PathBuf,
}

impl Store {
    /// Opens the folder, makes what is missing, and reads what is there. What a crash left half-written
    /// is deleted, and so are artifacts that no registration names.
    ///
    /// # Errors
    /// When the folder cannot be read or written, or holds something that weir did not write: that is
    /// for a person to decide, since a registration would be lost.
    pub(super) fn open(folder: &Path) -> io::Result<(Self, Found)> {
        let store = Self {
            artifacts: folder.join("artifacts"),
            registrations: folder.join("registrations"),
            configs: folder.join("configs"),
            folder: folder.to_owned(),
        };
        for folder in [&store.artifacts, &store.registrations, &store.configs] {
            fs::create_dir_all(folder)?;
        }
        let registrations: Vec<StoredRegistration> = read_all(&store.registrations)?;
        let registrations: Vec<Registration> =
            registrations.into_iter().map(|stored| store.made_good(stored)).collect::<io::Result<_>>()?;
        let configs: Vec<StoredConfig> = read_all(&store.configs)?;
        let files = match read::<StoredFiles>(&store.files_path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Files::new(),
            other => other?.files,
        };
        let named: HashSet<&str> = registrations
            .iter()
            .flat_map(|r| std::iter::once(&r.in_force).chain(&r.kept))
            .map(|record| record.checksums.sha256.as_str())
            .collect();
        for entry in fs::read_dir(&store.artifacts)? {
            let entry = entry?;
            if !entry.file_name().to_str().is_some_and(|name| named.contains(name)) {
                fs::remove_file(entry.path())?;
            }
        }
        let configs = configs.into_iter().map(|stored| (stored.class, stored.config)).collect();
        Ok((store, Found { registrations, configs, files }))
    }

    /// Writes an artifact, not yet under its name: the long part, done before the writer's lock is taken.
    pub(super) fn stage(&self, sha256: &str, bytes: &[u8]) -> io::Result<Staged> {
        let mut file = NamedTempFile::new_in(&self.artifacts)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        Ok(Staged { file, place: self.artifacts.join(sha256) })
    }

    /// Gives a staged artifact its name. An equal one may be there: it is replaced by the same bytes.
    pub(super) fn keep(&self, staged: Staged) -> io::Result<()> {
        staged.file.persist(&staged.place).map_err(|error| error.error)?;
        sync_folder(&self.artifacts)
    }

    /// The bytes of a kept artifact.
    pub(super) fn artifact(&self, sha256: &str) -> io::Result<Vec<u8>> {
        fs::read(self.artifacts.join(sha256))
    }

    /// Deletes a kept artifact. If that fails it is deleted at the next start.
    pub(super) fn drop_artifact(&self, sha256: &str) {
        if let Err(error) = fs::remove_file(self.artifacts.join(sha256)) {
            warn!(sha256, %error, "artifact not deleted");
        }
    }

    pub(super) fn write_registration(&self, registration: &Registration) -> io::Result<()> {
        self.write(&self.registration_path(&registration.key), registration)
    }

    /// Writes a registration and the configuration that came with it. Both are kept, or neither.
    pub(super) fn write_configured(
        &self,
        before: Option<&Registration>,
        config_before: Option<&Value>,
        registration: &Registration,
        config: &Value,
    ) -> io::Result<()> {
        let (registration, config) = (registration.clone(), Some(config.clone()));
        let (key, class) = (registration.key.clone(), registration.key.class.clone());
        let stored = StoredRegistration { registration, config };
        let written = self.write(&self.registration_path(&key), &stored);
        let Err(error) = written.and_then(|()| self.made_good(stored)) else { return Ok(()) };
        let put_back = match before {
            Some(before) => self.write_registration(before),
            None => self.remove_registration(&key),
        };
        let put_back = put_back.and_then(|()| match config_before {
            Some(config) => self.write_config(&class, config),
            None => self.remove_config(&class),
        });
        if let Err(error) = put_back {
            error!(%class, %error, "what was registered is in force; the next start finds what was refused");
        }
        Err(error)
    }

    /// Gives the configuration that came with a registration its own file.
    fn made_good(
        &self,
        StoredRegistration { registration, config }: StoredRegistration,
    ) -> io::Result<Registration> {
        if let Some(config) = config {
            self.write_config(&registration.key.class, &config)?;
            self.write_registration(&registration)?;
        }
        Ok(registration)
    }

    pub(super) fn remove_registration(&self, key: &Key) -> io::Result<()> {
        remove(&self.registrations, &self.registration_path(key))
    }

    pub(super) fn write_config(&self, class: &ClassName, config: &Value) -> io::Result<()> {
        let stored = StoredConfig { class: class.clone(), config: config.clone() };
        self.write(&self.config_path(class), &stored)
    }

    pub(super) fn remove_config(&self, class: &ClassName) -> io::Result<()> {
        remove(&self.configs, &self.config_path(class))
    }

    pub(super) fn write_files(&self, files: &Files) -> io::Result<()> {
        self.write(&self.files_path(), &StoredFiles { files: files.clone() })
    }

    fn write<T: Serialize>(&self, path: &Path, value: &T) -> io::Result<()> {
        let folder = path.parent().unwrap_or(&self.folder);
        let mut file = NamedTempFile::with_suffix_in(".tmp", folder)?;
        serde_json::to_writer_pretty(&mut file, &Formatted { format: FORMAT, value })?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        sync_folder(folder)
    }

    fn files_path(&self) -> PathBuf {
        self.folder.join("files.json")
    }

    fn registration_path(&self, key: &Key) -> PathBuf {
        self.registrations.join(file_name(&key.class, &format!("{:?}", key.scope)))
    }

    fn config_path(&self, class: &ClassName) -> PathBuf {
        self.configs.join(file_name(class, ""))
    }
}

/// A name that a person can read and that no other class gets, on file systems that ignore case as well.
fn file_name(class: &ClassName, scope: &str) -> String {
    const READABLE: usize = 80;
    let digest = Sha256::digest(format!("{scope}\n{class}"));
    let readable = class.as_str().get(..READABLE).unwrap_or(class.as_str()).trim_start_matches('.');
    format!("{readable}-{}.json", hex(&digest[..8]))
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let unreadable =
        |reason: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {reason}", path.display()));
    let bytes = fs::read(path)?;
    let Formatted { format, value } =
        serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
    if format != FORMAT {
        return Err(unreadable(format!("its format is {format}, this weir reads {FORMAT}")));
    }
    Ok(value)
}

/// Everything in a folder, in order of file names; temporary files that a crash left are deleted.
fn read_all<T: DeserializeOwned>(folder: &Path) -> io::Result<Vec<T>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => paths.push(path),
            Some("tmp") => fs::remove_file(path)?,
            _ => warn!(path = %path.display(), "not a file of weir's; left alone"),
        }
    }
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn remove(folder: &Path, path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.and_then(|()| sync_folder(folder)),
    }
}

/// Makes a rename or removal in this folder last.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
