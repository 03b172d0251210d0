//! `weir consume`.

use anyhow::bail;
use clap::Args;
use serde_json::json;
use weir_client::{ConsumerOptions, InitialPosition, ReceivedMessage, SubType};

use super::{Format, Global, output, pairs, topic};

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  weir consume flights -s late -n 10\n  weir consume --pattern 'public/default/orders.*' -s audit -p env=prod"
)]
pub(super) struct Consume {
    /// The topic: name, or persistent://tenant/namespace/name.
    #[arg(required_unless_present = "pattern", conflicts_with = "pattern")]
    topic: Option<String>,
    /// All topics there are whose whole name matches: tenant/namespace/REGEX.
    #[arg(long)]
    pattern: Option<String>,
    /// The subscription: it remembers what was acknowledged.
    #[arg(short = 's', long)]
    subscription: String,
    /// Stop after so many messages; without this, go on until interrupted.
    #[arg(short = 'n', long = "number", value_name = "N")]
    number: Option<u64>,
    /// What this client says of itself; with --pattern, given to the lister in force.
    #[arg(short = 'p', long = "property", value_name = "KEY=VALUE", value_parser = pairs::pair)]
    properties: Vec<(String, String)>,
    /// Begin a new subscription with the first message there is, not with the next.
    #[arg(long)]
    from_start: bool,
    /// Share the subscription with other consumers.
    #[arg(long)]
    shared: bool,
}

impl Consume {
    pub(super) async fn run(self, global: &Global) -> anyhow::Result<()> {
        let client = global.client().await?;
        let (topics, create_topic) = match (&self.topic, &self.pattern) {
            (None, Some(pattern)) => {
                (topic::matching(&client, &namespace(pattern)?, pattern, &self.properties).await?, false)
            }
            (topic, _) => (topic.iter().cloned().collect(), true),
        };
        if topics.is_empty() {
            bail!("no topic matches the pattern, or none may be seen with these properties");
        }
        let options = ConsumerOptions {
            sub_type: if self.shared { SubType::Shared } else { SubType::Exclusive },
            initial_position: if self.from_start {
                InitialPosition::Earliest
            } else {
                InitialPosition::Latest
            },
            properties: self.properties.clone(),
            create_topic,
            ..ConsumerOptions::default()
        };
        let mut consumer = client.subscribe(&topics, &self.subscription, options).await?;
        let mut left = self.number.unwrap_or(u64::MAX);
        while left > 0 {
            let message = tokio::select! {
                message = consumer.receive() => message?,
                interrupted = tokio::signal::ctrl_c() => {
                    interrupted?;
                    break;
                }
            };
            print(&message, global.output);
            consumer.acknowledge(&message).await?;
            left -= 1;
        }
        Ok(consumer.close().await?)
    }
}

/// The namespace that a pattern lies in: its first two parts, which are taken as they stand.
fn namespace(pattern: &str) -> anyhow::Result<String> {
    let rest = pattern.split_once("://").map_or(pattern, |(_, rest)| rest);
    let mut parts = rest.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(tenant), Some(namespace), Some(_)) => Ok(format!("{tenant}/{namespace}")),
        _ => bail!("the pattern is {pattern:?}, expected tenant/namespace/REGEX"),
    }
}

/// One line a message: its payload, or all of it as JSON.
fn print(message: &ReceivedMessage, format: Format) {
    let payload = String::from_utf8_lossy(&message.payload);
    match format {
        Format::Table => output::line(&payload),
        Format::Json => output::line(
            &json!({
                "topic": *message.topic,
                "id": message.id.to_string(),
                "payload": payload,
                "properties": pairs::map(&message.properties),
                "key": message.key,
                "redelivery-count": message.redelivery_count,
            })
            .to_string(),
        ),
    }
}
