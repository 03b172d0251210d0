//! `weir produce`.

use std::collections::{BTreeMap, VecDeque};
use std::io::BufRead;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde_json::Value;
use weir_client::{OutgoingMessage, ProducerOptions, Receipt};

use super::{Global, output, pairs, watched};

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  echo hello | weir produce greetings -p lang=en\n  weir produce flights --json --file flights.jsonl\n\nWith --json each line is an object: {\"payload\": …, \"properties\": {…}, \"key\": \"…\"}; a payload that is not\ntext is sent as JSON. Properties and key of a line win over those given here."
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
        let input: Box<dyn BufRead> = match &self.file {
            None => Box::new(std::io::stdin().lock()),
            Some(file) => {
                let opened = std::fs::File::open(file);
                Box::new(std::io::BufReader::new(
                    opened.with_context(|| format!("{} cannot be read", file.display()))?,
                ))
            }
        };
        let progress = progress();
        // Receipts come in batches: wait for each only when many are out.
        let mut receipts = VecDeque::new();
        let mut sent = 0_u64;
        for (number, line) in (1..).zip(input.lines()) {
            let line = line.with_context(|| format!("line {number} cannot be read"))?;
            let message = self.message(&line).with_context(|| format!("line {number}"))?;
            receipts.push_back((number, producer.enqueue(message).await?));
            if receipts.len() == MOST_UNANSWERED {
                sent += wait(receipts.pop_front()).await?;
                progress.set_position(sent);
            }
        }
        while !receipts.is_empty() {
            sent += wait(receipts.pop_front()).await?;
            progress.set_position(sent);
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

/// Waits for one receipt; gives the number of messages that it stands for.
async fn wait(receipt: Option<(u64, Receipt)>) -> anyhow::Result<u64> {
    let Some((number, receipt)) = receipt else { return Ok(0) };
    receipt.wait().await.with_context(|| format!("line {number} was not taken"))?;
    Ok(1)
}

fn progress() -> ProgressBar {
    if !watched() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {pos} messages sent, {per_sec}");
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}
