//! The files of the drop folder: which are news, and which are there and not in force.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Extensions;
use super::durable::Taken;
use super::info::RefusedFile;
use super::table::Origin;

impl Extensions {
    /// The files of the drop folder that are not in force, and why: those that were refused, and those whose
    /// class somebody removed or replaced since. Asks the disk for those.
    pub fn refused(&self) -> Vec<RefusedFile> {
        let (mut files, passed) = {
            let books = self.books.lock();
            let refused: Vec<_> = books.refused.values().map(|refused| refused.file.clone()).collect();
            let taken = books.files.iter().filter(|(path, _)| !books.refused.contains_key(*path));
            let passed = taken.filter_map(|(path, taken)| {
                let removed = books.removed.get(&taken.class).copied();
                self.passed_over(path, taken, removed)
            });
            (refused, passed.collect::<Vec<_>>())
        };
        // One that is gone is about to be found so. A disk that does not answer holds up nobody else.
        files.extend(passed.into_iter().filter(|file| file.path.exists()));
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    }

    /// What is to be said of a file whose bytes were taken and are not in force any more.
    fn passed_over(&self, path: &Path, taken: &Taken, removed: Option<SystemTime>) -> Option<RefusedFile> {
        let class = &taken.class;
        let (reason, since) = match self.entry(class) {
            // Its bytes are about to be looked at, see `forget_digest`.
            _ if taken.sha256.is_empty() => return None,
            None => {
                let reason = format!(
                    "{class} was removed; write the file anew (copy it in again, or touch it) to have it back"
                );
                (reason, removed.unwrap_or(self.opened_at))
            }
            Some(entry) => {
                let in_force = &entry.registration.in_force;
                let Origin::Upload(from) = &in_force.origin else { return None };
                if in_force.checksums.sha256 == taken.sha256 {
                    return None;
                }
                let reason = format!(
                    "{class} was replaced by an upload ({from}); delete the file and copy it in again to have it back"
                );
                (reason, in_force.since)
            }
        };
        Some(RefusedFile { path: path.to_owned(), class: Some(class.clone()), reason, since })
    }

    /// Somebody wrote this file while we watched. If its class was removed, whatever it holds is news, the
    /// same bytes too: who copies a file in wants it in force. An upload is not undone by it: a mounted volume
    /// is written anew as a whole when another of its files changes.
    pub(crate) fn file_rewritten(&self, path: &Path) {
        let mut books = self.books.lock();
        if let Some(taken) = books.files.get_mut(path)
            && self.entry(&taken.class).is_none()
        {
            taken.sha256.clear();
        }
    }

    /// Somebody deleted this file, and there may be a new one by now: whatever it holds is news.
    pub(crate) fn forget_digest(&self, path: &Path) {
        let mut books = self.books.lock();
        books.refused.remove(path);
        if let Some(taken) = books.files.get_mut(path) {
            taken.sha256.clear();
        }
    }

    /// The refused files that may be taken once something else has changed.
    pub(crate) fn waiting_files(&self) -> Vec<PathBuf> {
        let books = self.books.lock();
        books.refused.iter().filter(|(_, refused)| refused.depends).map(|(path, _)| path.clone()).collect()
    }

    /// The files that something was taken from or refused, or is in force from.
    pub(crate) fn known_files(&self) -> BTreeSet<PathBuf> {
        let books = self.books.lock();
        let table = self.table.load();
        let origins = table.entries.values().filter_map(|entry| entry.origin_file());
        let noted = books.files.keys().chain(books.refused.keys()).map(PathBuf::as_path);
        noted.chain(origins).map(Path::to_owned).collect()
    }
}
