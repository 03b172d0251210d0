//! Compiled code by the artifact's digest and the engine, in a folder that only this user may enter.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tracing::{debug, warn};

use super::MAX_COMPILED;
use crate::frame;

/// How many compiled components are kept; the ones written longest ago go first. A host with more
/// extensions than this recompiles some at each start.
const MAX_CACHED: usize = 512;

/// The folder. It has one file for each artifact and engine that code was made for, up to [`MAX_CACHED`].
pub(crate) struct Cache {
    folder: PathBuf,
}

/// What names compiled code: an artifact and an engine, with its version, settings and processor features.
pub(crate) struct Name(String);

impl Name {
    pub(super) fn new(sha256: &str, engine: &str) -> Self {
        Self(format!("{sha256}-{engine}"))
    }
}

/// Compiled code, and the header that it is read with.
pub(super) struct Cached {
    bytes: Vec<u8>,
    name: Name,
}

impl Cached {
    /// The code, if it is whole and that of its name.
    pub(super) fn code(&self) -> Option<&[u8]> {
        frame::content(&self.name.0, &self.bytes)
    }
}

impl Cache {
    /// Opens the folder, making it if need be.
    ///
    /// # Errors
    /// When it cannot be made, or belongs to another user.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        private_folder(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    pub(super) fn path(&self, name: &Name) -> PathBuf {
        self.folder.join(format!("{}.cwasm", name.0))
    }

    /// The file kept under this name; `None` if there is none that weir can have written. Whether it is
    /// whole is for [`Cached::code`] to say.
    pub(super) fn get(&self, name: Name) -> Option<Cached> {
        let path = self.path(&name);
        match read_own(&path) {
            Ok(bytes) => Some(Cached { bytes, name }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                warn!(path = %path.display(), %error, "compiled code cannot be read; compiling again");
                None
            }
        }
    }

    /// Keeps code. A failure costs a compilation later, and no more.
    pub(super) fn put(&self, name: &Name, code: &[u8]) {
        let path = self.path(name);
        let written = tempfile::NamedTempFile::new_in(&self.folder).and_then(|mut file| {
            file.write_all(&frame::header(&name.0, code))?;
            file.write_all(code)?;
            file.persist(&path).map_err(|error| error.error)
        });
        match written {
            Ok(_) => debug!(path = %path.display(), "compiled code kept"),
            Err(error) => warn!(path = %path.display(), %error, "compiled code not kept"),
        }
        if let Err(error) = self.prune(MAX_CACHED) {
            warn!(folder = %self.folder.display(), %error, "old compiled code not removed");
        }
    }

    /// Lets code go that nobody will ask for.
    pub(super) fn remove(&self, name: &Name) {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                debug!(%error, "old compiled code not removed");
            }
            _ => {}
        }
    }

    /// Removes the oldest files above `most`.
    pub(super) fn prune(&self, most: usize) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            // Another thread may have removed it meanwhile.
            if let Ok(modified) = entry.metadata().and_then(|metadata| metadata.modified()) {
                files.push((modified, entry.path()));
            }
        }
        files.sort();
        for (_, path) in files.iter().take(files.len().saturating_sub(most)) {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reads a file that is to be run: a plain file of this user that nobody else may write.
fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).expect("open flags are small");
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let most = MAX_COMPILED + frame::HEADER as u64;
    if !metadata.is_file() || metadata.len() > most {
        return Err(io::Error::other("weir did not write it: it is no file, or too large"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other("weir did not write it: another user owns it or may write it"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes a folder that only this user may enter, or checks that it is one. What lies in it is run.
///
/// # Errors
/// When it cannot be made, is a link, or belongs to another user.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let metadata = fs::symlink_metadata(folder)?;
    let refuse = |why: &str| Err(io::Error::other(format!("{} {why}", folder.display())));
    if !metadata.is_dir() {
        return refuse("is not a folder; code that is run may not lie behind a link");
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return refuse("belongs to another user; code that is run may not lie there");
    }
    if metadata.mode() & 0o077 != 0 {
        File::open(folder)?.set_permissions(fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(folder: &tempfile::TempDir) -> Cache {
        Cache::open(&folder.path().join("a/b")).unwrap()
    }

    fn name(sha256: &str) -> Name {
        Name::new(sha256, "engine")
    }

    fn kept(cache: &Cache, sha256: &str) -> Option<Vec<u8>> {
        cache.get(name(sha256))?.code().map(<[u8]>::to_vec)
    }

    #[test]
    fn whole_files_are_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        assert_eq!(kept(&cache, "00"), None);
        cache.put(&name("00"), b"code");
        assert_eq!(kept(&cache, "00").as_deref(), Some(&b"code"[..]));
        assert!(cache.get(Name::new("00", "other engine")).is_none());
        cache.remove(&name("00"));
        assert_eq!(kept(&cache, "00"), None);
    }

    #[test]
    fn damaged_and_foreign_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        cache.put(&name("00"), b"code");
        let whole = fs::read(cache.path(&name("00"))).unwrap();
        let place = cache.path(&name("01"));
        // Code of another artifact, whole as it is.
        fs::write(&place, &whole).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(kept(&cache, "01"), None);
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x80;
            fs::write(cache.path(&name("00")), damaged).unwrap();
            assert_eq!(kept(&cache, "00"), None, "damaged at {at}");
            fs::write(cache.path(&name("00")), &whole[..at]).unwrap();
            assert_eq!(kept(&cache, "00"), None, "cut at {at}");
        }
        fs::write(cache.path(&name("00")), &whole).unwrap();
        assert!(kept(&cache, "00").is_some());
        // What others may write, others may have written.
        fs::set_permissions(cache.path(&name("00")), fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(kept(&cache, "00"), None);
        fs::remove_file(&place).unwrap();
        std::os::unix::fs::symlink(cache.path(&name("00")), &place).unwrap();
        assert!(cache.get(name("01")).is_none(), "a link may lead anywhere");
    }

    #[test]
    fn a_number_of_files_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        for sha256 in ["00", "01", "02"] {
            cache.put(&name(sha256), b"code");
        }
        cache.prune(1).unwrap();
        assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_others_may_enter_is_closed_and_a_link_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        private_folder(&open).unwrap();
        assert_eq!(fs::metadata(&open).unwrap().mode() & 0o777, 0o700);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&open, &link).unwrap();
        assert!(private_folder(&link).unwrap_err().to_string().contains("link"));
    }
}
