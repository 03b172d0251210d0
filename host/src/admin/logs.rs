//! What an extension says, as it says it: lines of JSON, the last ones and those that follow.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;
use weir_extension::{ClassName, LogLine, Overtaken, last_lines, lines_after};

use super::errors::Refusal;
use super::names::{Class, Params};
use super::{Admin, MAX_FOLLOWERS, Shared};

/// How many lines are told if nobody says how many.
const LINES: usize = 100;

/// How often a follower's class is looked at for new lines.
const LOOK: Duration = Duration::from_millis(200);

/// The longest silence. What comes then is a line of spaces: the listener closes what does not move.
const LONGEST_SILENCE: Duration = Duration::from_secs(15);

/// More than the listener wants to see move, `listener::LEAST_BYTES`.
const SPACES: usize = 512;

pub(super) fn routes() -> Router<Arc<Admin>> {
    Router::new().route("/extensions/{class}/logs", get(logs))
}

#[derive(Deserialize)]
struct LogParams {
    /// How many of the last lines are told first.
    #[serde(default = "lines")]
    lines: usize,
    /// Whether to go on with those that come.
    #[serde(default)]
    follow: bool,
}

fn lines() -> usize {
    LINES
}

/// Newline-delimited JSON, a line for each, the oldest first. With `follow=true` it goes on until either side
/// ends it, with a line of spaces now and then; a follower that takes lines more slowly than they come is
/// dropped once lines are gone that it has not seen.
async fn logs(
    State(admin): Shared,
    Class(class): Class,
    Params(params): Params<LogParams>,
) -> Result<Response, Refusal> {
    // Of a class that was removed, or whose file is refused, the lines are there still.
    let mut last = last_lines(&class, params.lines.max(1));
    if last.is_empty() && admin.extensions.info(&class).is_none() {
        return Err(Refusal::not_found(format!("{class} is not registered, and has said nothing")));
    }
    let told = last.last().map_or(0, |line| line.number);
    if params.lines == 0 {
        last.clear();
    }
    let body = if params.follow {
        let place = Arc::clone(&admin.followers).try_acquire_owned().map_err(|_all_taken| {
            let reason = format!("{MAX_FOLLOWERS} others follow log lines, no more may at one time");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, reason)
        })?;
        let silence = LONGEST_SILENCE.min(admin.config.limits.admin_idle / 4);
        Body::from_stream(follow(Follower {
            class,
            last,
            told,
            silence,
            silent_since: Instant::now(),
            stop: admin.stop.clone(),
            _place: place,
        }))
    } else {
        Body::from(text(&last))
    };
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// Somebody who follows a class. Asked by its connection when that has room: nothing is queued for it.
struct Follower {
    class: ClassName,
    /// What is told first.
    last: Vec<LogLine>,
    /// The number of the last line, the ones in `last` included.
    told: u64,
    silence: Duration,
    silent_since: Instant,
    stop: CancellationToken,
    _place: OwnedSemaphorePermit,
}

impl Follower {
    /// The next text for it; `None` at the end.
    async fn next(&mut self) -> Result<Option<String>, Overtaken> {
        loop {
            let stopping = self.stop.is_cancelled();
            let lines = match std::mem::take(&mut self.last) {
                none if none.is_empty() => lines_after(&self.class, self.told)?,
                last => last,
            };
            if let Some(last) = lines.last() {
                (self.told, self.silent_since) = (last.number, Instant::now());
                return Ok(Some(text(&lines)));
            }
            if stopping {
                return Ok(None);
            }
            if self.silent_since.elapsed() >= self.silence {
                self.silent_since = Instant::now();
                return Ok(Some(format!("{}\n", " ".repeat(SPACES))));
            }
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = tokio::time::sleep(LOOK.min(self.silence)) => {}
            }
        }
    }
}

fn follow(follower: Follower) -> impl stream::Stream<Item = Result<String, Overtaken>> {
    stream::unfold(Some(follower), |follower| async move {
        let mut follower: Follower = follower?;
        match follower.next().await {
            Ok(text) => text.map(|text| (Ok(text), Some(follower))),
            Err(overtaken) => {
                info!(class = %follower.class, %overtaken, "a follower of log lines is dropped");
                Some((Err(overtaken), None))
            }
        }
    })
}

fn text(lines: &[LogLine]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&serde_json::to_string(line).expect("a line is texts and numbers"));
        text.push('\n');
    }
    text
}
