//! An answer that comes line by line, and may go on for as long as both sides live.

use std::marker::PhantomData;
use std::time::Duration;

use reqwest::{Method, Response};
use serde::de::DeserializeOwned;

use super::{Admin, AdminError, Call, read, reason};

/// How long the server may be silent. It sends a line of spaces every quarter of a minute.
const SILENCE: Duration = Duration::from_secs(60);

/// How long an answer may go on: for ever, as far as anybody will notice.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The longest line that is taken, in bytes.
const MAX_LINE: usize = 1 << 20;

/// Lines of JSON, one value each.
pub struct Lines<T> {
    method: Method,
    path: String,
    response: Response,
    /// Read and not given out.
    rest: Vec<u8>,
    of: PhantomData<fn() -> T>,
}

impl Admin {
    /// Sends a call that is answered in lines.
    pub(super) async fn lines<T: DeserializeOwned>(&self, mut call: Call) -> Result<Lines<T>, AdminError> {
        call.timeout = LONGEST;
        let (method, path) = (call.method.clone(), call.url.path().to_owned());
        let began = tokio::time::timeout(SILENCE, self.begin(call)).await;
        let silent = || silent(&method, &path);
        let response = began.map_err(|_elapsed| silent())??;
        let status = response.status();
        if status.is_success() {
            return Ok(Lines { method, path, response, rest: Vec::new(), of: PhantomData });
        }
        let body = tokio::time::timeout(SILENCE, read(response)).await.map_err(|_elapsed| silent())?;
        let body = body.map_err(|error| AdminError::transport(&method, &path, error))?;
        let reason = reason(status, &body.unwrap_or_default());
        Err(AdminError::Refused { reason, method, path, status })
    }
}

impl<T: DeserializeOwned> Lines<T> {
    /// The next value; `None` when the server has ended the answer. Waits for as long as the server shows that
    /// it lives.
    ///
    /// # Errors
    /// When the exchange breaks off, the server is silent for a minute, or sends something else.
    pub async fn next(&mut self) -> Result<Option<T>, AdminError> {
        loop {
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return serde_json::from_slice(&line)
                    .map(Some)
                    .map_err(|error| self.wrong(error.to_string()));
            }
            if self.rest.len() > MAX_LINE {
                return Err(self.wrong(format!("a line has more than {MAX_LINE} bytes")));
            }
            let chunk = tokio::time::timeout(SILENCE, self.response.chunk()).await;
            let chunk = chunk.map_err(|_elapsed| silent(&self.method, &self.path))?;
            match chunk.map_err(|error| AdminError::transport(&self.method, &self.path, error))? {
                Some(bytes) => self.rest.extend_from_slice(&bytes),
                None if self.rest.iter().all(u8::is_ascii_whitespace) => return Ok(None),
                None => return Err(self.wrong("it ends within a line".to_owned())),
            }
        }
    }

    fn wrong(&self, reason: String) -> AdminError {
        AdminError::Answer { method: self.method.clone(), path: self.path.clone(), reason }
    }
}

fn silent(method: &Method, path: &str) -> AdminError {
    let reason = format!("the server was silent for {} s", SILENCE.as_secs());
    AdminError::Answer { method: method.clone(), path: path.to_owned(), reason }
}
