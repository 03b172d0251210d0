//! The token that registrations over the network must bring.
//!
//! It is needed as soon as the admin address can be reached from elsewhere, or when one was configured.
//! Configured, read from a file, or made at the first start: 32 random bytes, kept in the data folder
//! where only its owner can read it, and shown once.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::config::Listen;

/// The token in force.
#[derive(Clone)]
pub(crate) struct Token {
    secret: String,
    /// The file that it was written to just now; `None` if it was there before.
    pub(crate) made: Option<PathBuf>,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[error("token file {file} cannot be {what}: {source}")]
pub(crate) struct TokenError {
    file: PathBuf,
    what: &'static str,
    source: std::io::Error,
}

const FILE: &str = "token";
const RANDOM_BYTES: usize = 32;

impl Token {
    /// The token that calls must bring, or `None` where none is needed.
    ///
    /// # Errors
    /// When its file cannot be read or made.
    pub(crate) fn obtain(listen: &Listen, data: &Path, loopback: bool) -> Result<Option<Self>, TokenError> {
        if !listen.token.is_empty() {
            return Ok(Some(Self { secret: listen.token.clone(), made: None }));
        }
        let configured = !listen.token_file.as_os_str().is_empty();
        if !configured && loopback {
            return Ok(None);
        }
        let file = if configured { listen.token_file.clone() } else { data.join(FILE) };
        match std::fs::read_to_string(&file) {
            Ok(text) if !text.trim().is_empty() => {
                Ok(Some(Self { secret: text.trim().to_owned(), made: None }))
            }
            Ok(_) => Err(TokenError {
                file,
                what: "used",
                source: std::io::Error::new(std::io::ErrorKind::InvalidData, "it is empty"),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !configured => {
                let secret =
                    random().map_err(|source| TokenError { file: file.clone(), what: "made", source })?;
                write(&file, &secret).map_err(|source| TokenError {
                    file: file.clone(),
                    what: "written",
                    source,
                })?;
                Ok(Some(Self { secret, made: Some(file) }))
            }
            Err(source) => Err(TokenError { file, what: "read", source }),
        }
    }

    /// Whether this is the token. Takes the same time wherever the first difference lies.
    pub(crate) fn matches(&self, offered: &str) -> bool {
        let (ours, theirs) = (self.secret.as_bytes(), offered.as_bytes());
        ours.len() == theirs.len() && ours.iter().zip(theirs).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
    }

    /// The text itself, for the start line.
    pub(crate) fn reveal(&self) -> &str {
        &self.secret
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

fn random() -> std::io::Result<String> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn write(file: &Path, secret: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(file, "{secret}")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn listen(token: &str, file: &Path) -> Listen {
        Listen { token: token.into(), token_file: file.into(), ..Listen::default() }
    }

    #[test]
    fn loopback_needs_none_unless_one_is_set() {
        let data = tempfile::tempdir().unwrap();
        let none = Path::new("");
        assert!(Token::obtain(&listen("", none), data.path(), true).unwrap().is_none());
        let token = Token::obtain(&listen("s", none), data.path(), true).unwrap().unwrap();
        assert!(token.matches("s") && !token.matches("t") && !token.matches("") && !token.matches("ss"));
    }

    #[test]
    fn one_is_made_at_the_first_start_and_kept() {
        let data = tempfile::tempdir().unwrap();
        let first = Token::obtain(&listen("", Path::new("")), data.path(), false).unwrap().unwrap();
        let file = first.made.clone().unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(first.reveal().len(), 2 * RANDOM_BYTES);

        let second = Token::obtain(&listen("", Path::new("")), data.path(), false).unwrap().unwrap();
        assert!(second.made.is_none() && second.matches(first.reveal()));
    }

    #[test]
    fn a_configured_file_must_be_there_and_not_empty() {
        let data = tempfile::tempdir().unwrap();
        let file = data.path().join("mine");
        let error = Token::obtain(&listen("", &file), data.path(), true).unwrap_err().to_string();
        assert!(error.contains("mine") && error.contains("cannot be read"), "{error}");
        std::fs::write(&file, "\n").unwrap();
        let error = Token::obtain(&listen("", &file), data.path(), true).unwrap_err().to_string();
        assert!(error.contains("it is empty"), "{error}");
        std::fs::write(&file, "abc\n").unwrap();
        assert!(Token::obtain(&listen("", &file), data.path(), true).unwrap().unwrap().matches("abc"));
    }
}
