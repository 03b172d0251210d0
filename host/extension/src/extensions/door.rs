//! What artifacts are held to before anything is swapped: their size, their checksums, their form, what they
//! declare when they are opened.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

use super::Door;
use super::errors::RegisterError;
use super::key::{Checksums, ClassName, Form};
use super::table::Origin;
use super::version::Version;

impl Door {
    /// Checksums of an upload, against its limits and what it declared.
    pub(super) fn measure(
        &self,
        bytes: &[u8],
        crc32: Option<u32>,
        sha256: Option<&str>,
    ) -> Result<Checksums, RegisterError> {
        let limit = self.options.max_artifact_size;
        if bytes.len() as u64 > limit {
            return Err(RegisterError::TooLarge { size: bytes.len() as u64, limit });
        }
        let checksums = Checksums::of(bytes);
        let differs = |which, declared: String, actual: String| {
            Err(RegisterError::ChecksumMismatch { which, declared, actual })
        };
        if let Some(declared) = crc32
            && declared != checksums.crc32
        {
            return differs("crc32", format!("{declared:08x}"), format!("{:08x}", checksums.crc32));
        }
        match sha256 {
            Some(declared) if !declared.eq_ignore_ascii_case(&checksums.sha256) => {
                differs("sha256", declared.chars().take(64).collect(), checksums.sha256)
            }
            _ => Ok(checksums),
        }
    }

    /// Which form the bytes have, if one that may come from there.
    pub(super) fn form(&self, bytes: &[u8], origin: &Origin) -> Result<Form, RegisterError> {
        const ELF: &[u8] = b"\x7fELF";
        // Whatever is wrong with a library besides: over a socket it is the wrong thing.
        if matches!(origin, Origin::Upload(_)) && bytes.starts_with(ELF) {
            return Err(RegisterError::NativeOverSocket);
        }
        self.opener.sniff(bytes).map_err(|error| RegisterError::NotAnArtifact(error.to_string()))
    }

    /// Opens an artifact with the limits of its class, and checks what it declares.
    pub(super) fn open(
        &self,
        bytes: &[u8],
        checksums: &Checksums,
        form: Form,
        origin: &Origin,
        expected: Option<&ClassName>,
    ) -> Result<Version, RegisterError> {
        let sha256 = &checksums.sha256;
        let refused = |error: crate::artifact::OpenError| RegisterError::Refused(error.to_string());
        let limits = self.options.limits_of(expected);
        let loaded = match form {
            Form::Component => {
                let loaded = self.opener.component(bytes, sha256, limits).map_err(refused)?;
                let own = self.options.limits_of(Some(&loaded.description().class));
                // Only now its class is known; its code has been compiled, so opening it again is cheap.
                if own == limits {
                    loaded
                } else {
                    self.opener.component(bytes, sha256, own).map_err(refused)?
                }
            }
            Form::Native | Form::BuiltIn => {
                if self.options.native_sha256.as_ref().is_some_and(|allowed| !allowed.contains(sha256)) {
                    return Err(RegisterError::NativeNotAllowed { sha256: sha256.clone() });
                }
                let (Origin::File(from) | Origin::Kept(from)) = origin else {
                    return Err(RegisterError::NativeOverSocket);
                };
                self.opener.native(bytes, sha256, from, limits).map_err(refused)?
            }
        };
        Version::new(loaded).map_err(RegisterError::Refused)
    }
}

/// Reads a file whole. Its size is looked at before anything is read, and it must be a plain file (a
/// pipe would be waited for), or a link to one.
pub(super) fn read_whole(path: &Path, limit: u64) -> Result<Vec<u8>, RegisterError> {
    let unreadable = RegisterError::Read;
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).expect("open flags are small");
    let file: File =
        OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file")));
    }
    if metadata.len() > limit {
        return Err(RegisterError::TooLarge { size: metadata.len(), limit });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    // It may grow while we read: not beyond the limit.
    (&file).take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let after = file.metadata().map_err(unreadable)?;
    let times = |metadata: &Metadata| (metadata.ctime(), metadata.ctime_nsec());
    if bytes.len() as u64 != metadata.len() || times(&after) != times(&metadata) {
        return Err(unreadable(io::Error::other("it changed while it was read")));
    }
    Ok(bytes)
}
