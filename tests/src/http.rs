//! One HTTP/1.1 call over a connection of its own. Enough for the admin address, and free to send what a
//! well-behaved client would not.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::wait::PATIENCE;

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// As in `200`.
    pub status: u16,
    /// What came with it.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON; `null` if there is none.
    ///
    /// # Panics
    /// When it is something else.
    #[track_caller]
    #[must_use]
    pub fn json(&self) -> Value {
        if self.body.is_empty() {
            return Value::Null;
        }
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// The sentence of a refusal: `reason`.
    #[must_use]
    pub fn reason(&self) -> String {
        let reason = serde_json::from_slice::<Value>(&self.body).ok();
        reason.and_then(|body| Some(body.get("reason")?.as_str()?.to_owned())).unwrap_or_default()
    }

    /// The answer, if its status is one of the 200s.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    #[must_use]
    pub fn ok(self) -> Self {
        assert!((200..300).contains(&self.status), "{self}");
        self
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.status, String::from_utf8_lossy(&self.body))
    }
}

/// Calls `method path` with a body and headers of one's own; the length is announced as it is.
///
/// # Errors
/// When the peer cannot be reached, does not answer in time, or does not speak HTTP.
pub fn call(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Answer> {
    let length = body.len().to_string();
    let mut all = vec![("Content-Length", length.as_str())];
    all.extend_from_slice(headers);
    let mut stream = send_head(address, method, path, &all)?;
    // A peer that refuses early may stop reading: its answer is what counts.
    let sent = stream.write_all(body);
    match read_answer(stream) {
        Ok(answer) => Ok(answer),
        Err(error) => Err(sent.err().unwrap_or(error)),
    }
}

/// Sends a request's head and gives the connection, for bodies that do not follow.
///
/// # Errors
/// When the peer cannot be reached.
pub fn send_head(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    Ok(stream)
}

/// Reads an answer up to the end of the connection.
///
/// # Errors
/// When none comes in time, or it is not HTTP.
pub fn read_answer(stream: TcpStream) -> io::Result<Answer> {
    let broken = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut input = BufReader::new(stream);
    let mut line = String::new();
    input.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| broken(&format!("not a status line: {line:?}")))?;
    let (mut chunked, mut length) = (false, None);
    loop {
        line.clear();
        input.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match (name.to_ascii_lowercase().as_str(), value.trim()) {
            ("transfer-encoding", "chunked") => chunked = true,
            ("content-length", value) => length = value.parse().ok(),
            _ => {}
        }
    }
    let mut body = Vec::new();
    match length {
        _ if chunked => loop {
            line.clear();
            input.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).map_err(|_not_hex| broken("not a chunk"))?;
            let mut chunk = vec![0; size + 2];
            input.read_exact(&mut chunk)?;
            if size == 0 {
                break;
            }
            body.extend_from_slice(&chunk[..size]);
        },
        Some(length) => {
            body = vec![0; length];
            input.read_exact(&mut body)?;
        }
        None => {
            input.read_to_end(&mut body)?;
        }
    }
    Ok(Answer { status, body })
}
