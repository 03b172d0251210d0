//! `weir produce`.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::pin::Pin;

use anyhow::{Context as _, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use weir_client::{OutgoingMessage, Producer, ProducerOptions, Receipt};

use super::{Global, output, pairs, watched};

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  echo hello | weir produce greetings -p lang=en\n  echo '{\"payload\": \"a lamp\", \"properties\": {\"priority\": \"9\"}}' | weir produce orders --json\n  weir produce lines --file README.md\n\nWith --json each line is an object: {\"payload\": …, \"properties\": {…}, \"key\": \"…\"}; a payload that is not\ntext is sent as JSON. Properties and key of a line win over those given here."
)]
pub(super) struct Produce {
    /// The topic: name, or persistent://tenant/namespace/name.
    topic: String,
    /// A property of every message.
    #[arg(short = 'p', long = "property", value_name = "KEY=VALUE", value_parser = pairs::pair)]
    properties: Vec<(String, String)>,
    /// The key of every message.
    #[arg(long)]
    key: Option<String>,
    /// Read from this file instead of standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Each line is a message in JSON, not its payload.
    #[arg(long)]
    json: bool,
}

/// How many messages may be out without a receipt.
const MOST_UNANSWERED: usize = 1000;

/// Lines that are read ahead of what is sent.
const MOST_READ_AHEAD: usize = 100;

/// The answer to a message that is under way.
type Answer = Pin<Box<dyn Future<Output = anyhow::Result<()>>>>;

/// A line with `--json`.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    payload: Value,
    #[serde(default)]
    properties: BTreeMap<String, String>,
    key: Option<String>,
}

impl Produce {
    pub(super) async fn run(self, global: &Global) -> anyhow::Result<()> {
        let client = global.client().await?;
        let producer = client.producer(&self.topic, ProducerOptions::default()).await?;
        let mut lines = self.lines()?;
        let progress = progress();
        let mut answers = VecDeque::<Answer>::new();
        let mut sent = 0;
        let result = self.send(&producer, &mut lines, &mut answers, &mut sent, &progress).await;
        if let Err(error) = result {
            // What is under way may be taken still.
            for answer in answers {
                sent += u64::from(answer.await.is_ok());
            }
            progress.finish_and_clear();
            return Err(error.context(format!("{sent} messages were sent, then")));
        }
        producer.close().await?;
        progress.finish_and_clear();
        match global.output {
            super::Format::Json => output::json(&serde_json::json!({ "sent": sent })),
            super::Format::Table => {
                output::line(&format!("{sent} messages sent to {}", self.topic));
                Ok(())
            }
        }
    }

    /// Sends line by line, and counts those that were taken; `answers` are what is under way when it fails.
    async fn send(
        &self,
        producer: &Producer,
        lines: &mut mpsc::Receiver<(u64, io::Result<String>)>,
        answers: &mut VecDeque<Answer>,
        sent: &mut u64,
        progress: &ProgressBar,
    ) -> anyhow::Result<()> {
        let mut ended = false;
        while !(ended && answers.is_empty()) {
            let full = answers.len() >= MOST_UNANSWERED;
            let oldest = async {
                match answers.front_mut() {
                    Some(answer) => answer.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                answered = oldest => {
                    answers.pop_front();
                    answered?;
                    *sent += 1;
                    progress.set_position(*sent);
                }
                line = lines.recv(), if !ended && !full => match line {
                    None => ended = true,
                    Some((number, line)) => {
                        let line = line.with_context(|| format!("line {number} cannot be read"))?;
                        let message = self.message(&line).with_context(|| format!("line {number}"))?;
                        let receipt = producer.enqueue(message).await?;
                        answers.push_back(Box::pin(answered(number, receipt)));
                    }
                },
            }
        }
        Ok(())
    }

    /// The lines of the input, with their numbers, read by a thread of their own: whoever types them takes
    /// his time, and what he has typed is sent meanwhile.
    fn lines(&self) -> anyhow::Result<mpsc::Receiver<(u64, io::Result<String>)>> {
        let input: Box<dyn BufRead + Send> = match &self.file {
            None => Box::new(BufReader::new(io::stdin())),
            Some(file) => {
                let opened = std::fs::File::open(file);
                Box::new(BufReader::new(
                    opened.with_context(|| format!("{} cannot be read", file.display()))?,
                ))
            }
        };
        let (sender, lines) = mpsc::channel(MOST_READ_AHEAD);
        tokio::task::spawn_blocking(move || {
            for line in (1..).zip(input.lines()) {
                // Nobody wants more lines once one has failed.
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Ok(lines)
    }

    fn message(&self, line: &str) -> anyhow::Result<OutgoingMessage> {
        let mut properties = self.properties.clone();
        let mut key = self.key.clone();
        let payload = if self.json {
            let read: Line = serde_json::from_str(line).context(
                "it is not a message in JSON; expected {\"payload\": …, \"properties\": {…}, \"key\": \"…\"}",
            )?;
            properties.extend(read.properties);
            key = read.key.or(key);
            match read.payload {
                Value::Null if !line.contains("payload") => bail!("it has no payload"),
                Value::String(text) => text.into_bytes(),
                other => other.to_string().into_bytes(),
            }
        } else {
            line.as_bytes().to_vec()
        };
        Ok(OutgoingMessage { payload: payload.into(), properties, key, event_time: None })
    }
}

/// Waits for the receipt of a line.
async fn answered(number: u64, receipt: Receipt) -> anyhow::Result<()> {
    receipt.wait().await.with_context(|| format!("line {number} was not taken"))?;
    Ok(())
}

fn progress() -> ProgressBar {
    if !watched() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {pos} messages sent, {per_sec}");
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}
