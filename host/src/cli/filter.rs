//! `weir filter`.

use clap::{Args, Subcommand, ValueEnum};
use weir_client::admin::model::{Binding, Filter as FilterOf};
use weir_extension::TopicName;

use super::extension::done;
use super::output::{self, Table};
use super::{Format, Global};

#[derive(Debug, Subcommand)]
pub(super) enum Filter {
    /// Put filters between topics and a subscription, in place of those there are.
    #[command(
        after_help = "Example:\n  weir filter bind --topic flights --subscription late demo.LateFlights --on-failure withhold"
    )]
    Bind(Bind),
    /// List all bindings.
    #[command(after_help = "Example:\n  weir filter list")]
    List,
    /// Take a binding away: everything is delivered then.
    #[command(after_help = "Example:\n  weir filter unbind --topic flights --subscription late")]
    Unbind(Which),
}

#[derive(Debug, Args)]
pub(super) struct Which {
    /// The topic: all of its partitions.
    #[arg(long, required_unless_present = "pattern", conflicts_with = "pattern")]
    topic: Option<String>,
    /// All topics whose whole name matches this regular expression: tenant/namespace/topic.
    #[arg(long)]
    pattern: Option<String>,
    /// The subscription; all of the topic's without it.
    #[arg(long, short = 's')]
    subscription: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Bind {
    #[command(flatten)]
    which: Which,
    /// The filters, by class name, in the order in which they are asked.
    #[arg(required = true, value_name = "CLASS")]
    filters: Vec<String>,
    /// What becomes of a message that a filter breaks on.
    #[arg(long, value_enum, default_value_t = Policy::Withhold)]
    on_failure: Policy,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Policy {
    /// It is delivered as if accepted.
    Deliver,
    /// It is judged again later, with growing pauses.
    Withhold,
    /// It is acknowledged for good.
    Discard,
}

impl Policy {
    fn as_str(self) -> &'static str {
        match self {
            Self::Deliver => "deliver",
            Self::Withhold => "withhold",
            Self::Discard => "discard",
        }
    }
}

impl Which {
    /// As it is sent; a topic by its full name.
    fn binding(&self) -> anyhow::Result<Binding> {
        let topic = self.topic.as_deref().map(TopicName::new).transpose()?;
        Ok(Binding {
            topic: topic.map(|topic| topic.to_string()),
            pattern: self.pattern.clone(),
            subscription: self.subscription.clone(),
            ..Binding::default()
        })
    }
}

impl Filter {
    pub(super) async fn run(self, global: &Global) -> anyhow::Result<()> {
        let admin = global.admin()?;
        match self {
            Self::List => print(&admin.bindings().await?, global.output),
            Self::Bind(Bind { which, filters, on_failure }) => {
                let binding = Binding {
                    filters: filters.iter().cloned().map(FilterOf::Class).collect(),
                    on_failure: Some(on_failure.as_str().to_owned()),
                    ..which.binding()?
                };
                admin.put_binding(&binding).await?;
                let known = admin.extensions().await?;
                for filter in filters.iter().filter(|filter| known.iter().all(|e| e.class != **filter)) {
                    output::note(&format!(
                        "{filter} is not registered: unless the policy is to deliver, {} waits until it is",
                        in_words(&binding)
                    ));
                }
                let text = format!("{} now passes {}", in_words(&binding), filters.join(", then "));
                done(global.output, &text)
            }
            Self::Unbind(which) => {
                let binding = which.binding()?;
                admin.remove_binding(&binding).await?;
                done(global.output, &format!("{} has no filter any more", in_words(&binding)))
            }
        }
    }
}

/// Which topics and subscriptions a binding covers.
fn in_words(binding: &Binding) -> String {
    let target = target(binding);
    match &binding.subscription {
        Some(subscription) => format!("subscription {subscription} of {target}"),
        None => format!("every subscription of {target}"),
    }
}

fn target(binding: &Binding) -> String {
    match (&binding.topic, &binding.pattern) {
        (Some(topic), _) => topic.clone(),
        (None, pattern) => format!("pattern {}", pattern.as_deref().unwrap_or_default()),
    }
}

fn print(bindings: &[Binding], format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        return output::json(&bindings);
    }
    let mut table = Table::new(&["topic or pattern", "subscription", "filters", "on failure", "set by"]);
    for binding in bindings {
        let filters: Vec<&str> = binding.filters.iter().map(FilterOf::class).collect();
        table.row([
            target(binding),
            binding.subscription.clone().unwrap_or_else(|| "(all)".into()),
            filters.join(", "),
            binding.on_failure.clone().unwrap_or_default(),
            binding.origin.clone().unwrap_or_default(),
        ]);
    }
    table.print();
    Ok(())
}
