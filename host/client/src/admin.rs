//! Admin calls over REST: Pulsar's (`/admin/v2`) and weir's own (`/weir/v1`).
//!
//! What is exchanged is in [`model`]; the calls are in `admin/pulsar.rs` and `admin/weir.rs`; answers that go
//! on line by line are [`Lines`].

mod lines;
pub mod model;
mod pulsar;
mod weir;

pub use lines::Lines;

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long the registration of an extension may take: it is sent, and compiled.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(300);

/// The most that is read of an answer. A namespace of a million topics has some 60 MB.
const MAX_ANSWER: usize = 256 * 1024 * 1024;

/// Why an admin call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The admin address cannot be used.
    #[error("admin address {url:?}: {reason}; expected http://host:port")]
    Url {
        /// The address.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The server cannot be reached, or the exchange broke off.
    #[error("{method} {path}: {reason}")]
    Transport {
        /// What was asked.
        method: Method,
        /// Of what.
        path: String,
        /// The innermost cause, which says most.
        reason: String,
        /// All of it.
        #[source]
        source: Box<reqwest::Error>,
    },
    /// The server refused.
    #[error("{reason} ({method} {path}: {})", status.as_u16())]
    Refused {
        /// What was asked.
        method: Method,
        /// Of what.
        path: String,
        /// How it was refused.
        status: StatusCode,
        /// The server's reason, or the status in words.
        reason: String,
    },
    /// The server answered something else than this call answers.
    #[error("{method} {path}: the answer is not what was expected: {reason}")]
    Answer {
        /// What was asked.
        method: Method,
        /// Of what.
        path: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// A topic or namespace has not the form that its call needs.
    #[error("{name:?} is not a {expected}")]
    Name {
        /// What was given.
        name: String,
        /// The form that it should have.
        expected: &'static str,
    },
}

impl AdminError {
    fn transport(method: &Method, path: &str, error: reqwest::Error) -> Self {
        let (method, path, reason) = (method.clone(), path.to_owned(), innermost(&error));
        Self::Transport { method, path, reason, source: Box::new(error) }
    }

    /// The status with which the server refused; `None` if it did not come to that.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Url { .. } | Self::Transport { .. } | Self::Answer { .. } | Self::Name { .. } => None,
        }
    }
}

/// A client of the admin address. Clones share its connections.
#[derive(Clone)]
pub struct Admin {
    base: Url,
    token: Option<String>,
    http: reqwest::Client,
}

impl std::fmt::Debug for Admin {
    /// Without the token: what is printed may be kept.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

/// A call that is being put together.
struct Call {
    method: Method,
    url: Url,
    timeout: Duration,
    headers: Vec<(&'static str, String)>,
    body: Option<Bytes>,
}

impl Admin {
    /// A client of an admin address, `http://host:port`. Nothing is sent yet.
    ///
    /// # Errors
    /// When the address is none.
    pub fn new(url: &str, token: Option<String>) -> Result<Self, AdminError> {
        let refuse = |reason: String| AdminError::Url { url: url.to_owned(), reason };
        let base = Url::parse(url).map_err(|error| refuse(error.to_string()))?;
        if base.scheme() != "http" || base.cannot_be_a_base() {
            return Err(refuse("only plain HTTP is spoken".to_owned()));
        }
        // Redirects are followed with method and body, as Pulsar's 307 asks.
        // A proxy that was set up for the web has no business with the operator's own server, or its token.
        let http = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build();
        let http = http.map_err(|error| refuse(error.to_string()))?;
        Ok(Self { base, token, http })
    }

    /// Any GET, for what has no method of its own: `path` is what follows the address.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Value, AdminError> {
        self.answer(self.call(Method::GET, path, query)).await
    }

    fn call(&self, method: Method, path: &[&str], query: &[(&str, &str)]) -> Call {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .expect("an http address has a path: checked when the client was made")
            .pop_if_empty()
            .extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Call { method, url, timeout: TIMEOUT, headers: Vec::new(), body: None }
    }

    /// Sends a call; gives what it answers, decoded.
    async fn answer<T: DeserializeOwned>(&self, call: Call) -> Result<T, AdminError> {
        let (method, path) = (call.method.clone(), call.url.path().to_owned());
        let body = self.send(call).await?.1;
        // No body at all stands for nothing.
        let json = if body.is_empty() { &b"null"[..] } else { &body };
        serde_json::from_slice(json).map_err(|error| AdminError::Answer {
            method,
            path,
            reason: error.to_string(),
        })
    }

    /// Sends a call whose answer, if it is not refused, says nothing.
    async fn done(&self, call: Call) -> Result<(), AdminError> {
        self.send(call).await.map(|_| ())
    }

    async fn send(&self, call: Call) -> Result<(StatusCode, Vec<u8>), AdminError> {
        let (method, path) = (call.method.clone(), call.url.path().to_owned());
        let response = self.begin(call).await?;
        let status = response.status();
        let body = read(response).await.map_err(|error| AdminError::transport(&method, &path, error))?;
        let Some(body) = body else {
            let reason = format!("it has more than {MAX_ANSWER} bytes");
            return Err(AdminError::Answer { method, path, reason });
        };
        if status.is_success() {
            return Ok((status, body));
        }
        Err(AdminError::Refused { reason: reason(status, &body), method, path, status })
    }

    /// Sends a call; gives the answer, whatever it is, unread.
    async fn begin(&self, call: Call) -> Result<Response, AdminError> {
        let Call { method, url, timeout, headers, body } = call;
        let path = url.path().to_owned();
        let mut request = self.http.request(method.clone(), url).timeout(timeout);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        request.send().await.map_err(|error| AdminError::transport(&method, &path, error))
    }
}

impl Call {
    fn json(mut self, body: &impl Serialize) -> Self {
        let json = serde_json::to_vec(body).expect("what is sent are maps with text keys, lists and texts");
        self.headers.push(("Content-Type", "application/json".to_owned()));
        self.body = Some(json.into());
        self
    }
}

/// The body of an answer; `None` if it is too large.
async fn read(mut response: Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// The `reason` of a refusal, or as much as there is of one.
fn reason(status: StatusCode, body: &[u8]) -> String {
    /// A stack trace or a page of HTML says no more in a megabyte.
    const MOST: usize = 1000;
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let text = match json.as_ref().and_then(|json| json.get("reason")).and_then(Value::as_str) {
        Some(reason) => reason.to_owned(),
        None => String::from_utf8_lossy(body).trim().to_owned(),
    };
    match text.char_indices().nth(MOST) {
        _ if text.is_empty() => status.canonical_reason().unwrap_or("refused").to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests;
