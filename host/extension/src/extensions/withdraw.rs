//! How an extension leaves the table: its file is deleted, or somebody removes it.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use tracing::{error, info, warn};

use super::errors::RemoveError;
use super::key::{ClassName, Key};
use super::table::Registration;
use super::{Books, Door, Extensions};

impl Extensions {
    /// Takes an extension out of the table, with its kept versions and the configuration that REST set.
    /// Calls in flight end on it. Its file, if it has one, stays, is listed in [`refused`](Self::refused)
    /// and brings it back once it is written anew.
    ///
    /// # Errors
    /// When there is none, when it is built in, or when it is in use and `force` is not given.
    pub fn remove(&self, class: &ClassName, force: bool) -> Result<(), RemoveError> {
        if !force && let Some(kind) = self.used_as(class) {
            return Err(RemoveError::InUse { class: class.clone(), kind });
        }
        let mut books = self.books.lock();
        let entry = self.entry(class).ok_or_else(|| RemoveError::Missing { class: class.clone() })?;
        let Some(door) = self.door.as_ref().filter(|_| !entry.is_built_in()) else {
            return Err(RemoveError::BuiltIn { class: class.clone() });
        };
        let key = Key::installed(class.clone());
        forget(door, &mut books, &entry.registration).map_err(RemoveError::Store)?;
        if books.files.values().any(|taken| taken.class == *class) {
            books.removed.insert(class.clone(), SystemTime::now());
        }
        self.swap_and_sweep(door, books, &entry.registration.artifacts(), |table| {
            table.entries.remove(&key);
        });
        info!(%class, "extension removed");
        Ok(())
    }

    /// A file of the drop folder is gone: its digest is forgotten, and what is in force from it withdrawn,
    /// and only that. Gives back the classes that were withdrawn: several, if the file brought another
    /// class after a first one.
    pub fn file_gone(&self, path: &Path) -> Vec<ClassName> {
        let Some(door) = &self.door else { return Vec::new() };
        let mut books = self.books.lock();
        books.refused.remove(path);
        if let Some(taken) = books.files.remove(path) {
            books.removed.remove(&taken.class);
            if let Err(error) = door.store.write_files(&books.files) {
                // After a restart it is gone still, and found to be so again.
                warn!(path = %path.display(), %error, "the removal of this file is not kept");
            }
        }
        let table = self.table.load();
        let from_it = table.entries.values().filter(|entry| entry.origin_file() == Some(path));
        let gone: Vec<_> = from_it.map(|entry| entry.registration.clone()).collect();
        if gone.is_empty() {
            return Vec::new();
        }
        for registration in &gone {
            let class = &registration.key.class;
            if let Err(error) = door.store.remove_registration(&registration.key) {
                warn!(%class, %error, "withdrawn until the next start only");
            }
            info!(%class, path = %path.display(), "extension withdrawn: its file is gone");
        }
        let artifacts: Vec<String> = gone.iter().flat_map(Registration::artifacts).collect();
        self.swap_and_sweep(door, books, &artifacts, |table| {
            for registration in &gone {
                table.entries.remove(&registration.key);
            }
        });
        gone.into_iter().map(|registration| registration.key.class).collect()
    }
}

/// Deletes what is kept of a registration, and the configuration that REST set for its class. Both go, or
/// neither.
fn forget(door: &Door, books: &mut Books, registration: &Registration) -> io::Result<()> {
    let class = &registration.key.class;
    let by_rest = door.options.config_of(class).is_none();
    let removed = door.store.remove_registration(&registration.key).and_then(|()| match by_rest {
        true => door.store.remove_config(class),
        false => Ok(()),
    });
    let Err(refused) = removed else {
        if by_rest {
            books.configs.remove(class);
        }
        return Ok(());
    };
    let put_back =
        door.store.write_registration(registration).and_then(|()| match books.configs.get(class) {
            Some(config) if by_rest => door.store.write_config(class, config),
            _ => Ok(()),
        });
    if let Err(error) = put_back {
        error!(%class, %error, "the extension is in force still; the next start does not find all of it");
    }
    Err(refused)
}
