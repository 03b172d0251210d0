//! `weir topic`.

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::Value;
use weir_client::{Client, TopicsMode};
use weir_extension::TopicName;

use super::extension::done;
use super::output::{self, Table};
use super::{Format, Global, pairs};

#[derive(Debug, Subcommand)]
pub(super) enum Topic {
    /// List the topics of a namespace that a client with these properties may see.
    #[command(
        after_help = "Example:\n  weir topic list public/default -p env=prod --pattern 'public/default/orders.*'"
    )]
    List {
        /// tenant/namespace
        namespace: String,
        /// What the client says of itself; given to the lister in force.
        #[arg(short = 'p', long = "property", value_name = "KEY=VALUE", value_parser = pairs::pair)]
        properties: Vec<(String, String)>,
        /// Only those whose whole name matches this regular expression: tenant/namespace/topic.
        #[arg(long)]
        pattern: Option<String>,
    },
    /// Create a topic, with properties or partitions.
    #[command(after_help = "Example:\n  weir topic create orders -p env=prod --partitions 3")]
    Create {
        /// The topic: name, or persistent://tenant/namespace/name.
        topic: String,
        /// A property of the topic, for listers.
        #[arg(short = 'p', long = "property", value_name = "KEY=VALUE", value_parser = pairs::pair)]
        properties: Vec<(String, String)>,
        /// How many partitions; without this it is not partitioned.
        #[arg(long)]
        partitions: Option<u32>,
    },
    /// Show a topic's counters and its subscriptions.
    #[command(after_help = "Example:\n  weir topic stats orders")]
    Stats {
        /// The topic.
        topic: String,
    },
    /// Set properties of a topic; others stay.
    #[command(after_help = "Example:\n  weir topic set orders -p region=west")]
    Set {
        /// The topic.
        topic: String,
        /// A property.
        #[arg(short = 'p', long = "property", required = true, value_name = "KEY=VALUE", value_parser = pairs::pair)]
        properties: Vec<(String, String)>,
    },
    /// Delete a topic with its messages and subscriptions.
    #[command(after_help = "Example:\n  weir topic delete orders --force")]
    Delete {
        /// The topic.
        topic: String,
        /// Even if it has producers or consumers.
        #[arg(long)]
        force: bool,
    },
}

impl Topic {
    pub(super) async fn run(self, global: &Global) -> anyhow::Result<()> {
        let admin = global.admin()?;
        match self {
            Self::List { namespace, properties, pattern } => {
                list(global, &namespace, &properties, pattern).await
            }
            Self::Create { topic, properties, partitions } => {
                let topic = full(&topic)?;
                admin.create_topic(&topic, partitions, &pairs::map(&properties)).await?;
                done(global.output, &format!("{topic} is created"))
            }
            Self::Stats { topic } => {
                let stats = admin.stats(&full(&topic)?).await?;
                match global.output {
                    Format::Json => output::json(&stats),
                    Format::Table => {
                        print_stats(&stats);
                        Ok(())
                    }
                }
            }
            Self::Set { topic, properties } => {
                let topic = full(&topic)?;
                admin.update_properties(&topic, &pairs::map(&properties)).await?;
                done(global.output, &format!("{topic} is changed"))
            }
            Self::Delete { topic, force } => {
                let topic = full(&topic)?;
                admin.delete_topic(&topic, force).await?;
                done(global.output, &format!("{topic} is deleted"))
            }
        }
    }
}

async fn list(
    global: &Global,
    namespace: &str,
    properties: &[(String, String)],
    pattern: Option<String>,
) -> anyhow::Result<()> {
    let topics = match pattern {
        None => global.admin()?.topics(namespace, properties).await?,
        // REST has no pattern; the binary protocol has.
        Some(pattern) => matching(&global.client().await?, namespace, &pattern, properties).await?,
    };
    match global.output {
        Format::Json => output::json(&topics),
        Format::Table => {
            topics.iter().for_each(|topic| output::line(topic));
            Ok(())
        }
    }
}

/// The full name of a topic, which may be given short.
fn full(topic: &str) -> anyhow::Result<String> {
    Ok(TopicName::new(topic)?.to_string())
}

/// The topics whose whole name, domain and partition dropped, matches: as the server finds them or, where
/// it leaves patterns to its clients, as found here.
pub(super) async fn matching(
    client: &Client,
    namespace: &str,
    pattern: &str,
    properties: &[(String, String)],
) -> anyhow::Result<Vec<String>> {
    let list =
        client.topics_of_namespace(namespace, TopicsMode::All, Some(pattern), properties, None).await?;
    if list.filtered {
        return Ok(list.topics);
    }
    let without_domain = pattern.split_once("://").map_or(pattern, |(_, rest)| rest);
    let whole = regex::Regex::new(&format!("^(?:{without_domain})$")).with_context(|| {
        format!("the server does not apply the pattern {pattern:?}, nor can it be applied here")
    })?;
    let matches = |topic: &String| {
        TopicName::new(topic).is_ok_and(|topic| whole.is_match(topic.base().without_domain()))
    };
    Ok(list.topics.into_iter().filter(matches).collect())
}

/// A row for each subscription of the topic, or of each of its partitions.
fn print_stats(stats: &Value) {
    let number = |value: &Value, name: &str| value[name].as_u64().unwrap_or(0).to_string();
    let mut totals = Table::new(&["messages in", "bytes in", "messages out", "bytes out", "stored bytes"]);
    totals.row(
        ["msgInCounter", "bytesInCounter", "msgOutCounter", "bytesOutCounter", "storageSize"]
            .map(|name| number(stats, name)),
    );
    totals.print();
    let partitions: Vec<(&str, &Value)> = match stats["partitions"].as_object() {
        Some(partitions) => partitions.iter().map(|(name, stats)| (name.as_str(), stats)).collect(),
        None => vec![("", stats)],
    };
    let mut table = Table::new(&[
        "subscription",
        "type",
        "consumers",
        "backlog",
        "unacked",
        "accepted",
        "rejected",
        "rescheduled",
        "broke",
        "withheld",
        "paused",
    ]);
    let mut rows = 0;
    for (partition, stats) in partitions {
        let index = partition.rsplit_once("-partition-").map_or("", |(_, index)| index);
        for (name, subscription) in stats["subscriptions"].as_object().into_iter().flatten() {
            let name = if index.is_empty() { name.clone() } else { format!("{name} [{index}]") };
            let broke: u64 = ["Delivered", "Withheld", "Discarded"]
                .iter()
                .filter_map(|what| subscription[format!("filterBroke{what}MsgCount")].as_u64())
                .sum();
            table.row([
                name,
                subscription["type"].as_str().unwrap_or_default().to_owned(),
                subscription["consumers"].as_array().map_or(0, Vec::len).to_string(),
                number(subscription, "msgBacklog"),
                number(subscription, "unackedMessages"),
                number(subscription, "filterAcceptedMsgCount"),
                number(subscription, "filterRejectedMsgCount"),
                number(subscription, "filterRescheduledMsgCount"),
                broke.to_string(),
                number(subscription, "withheldMsgNow"),
                subscription["paused"]["reason"].as_str().unwrap_or("-").to_owned(),
            ]);
            rows += 1;
        }
    }
    if rows > 0 {
        output::line("");
        table.print();
    }
}
