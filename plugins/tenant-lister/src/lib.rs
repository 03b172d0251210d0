//! Shows a client the topics of its tenant: a topic is seen if, for every rule, it has the property that
//! the client names.
//!
//! With the rule `{ property = "team" }`, a client that connects with `team=red` sees the topics that have
//! the property `team=red`. One that says nothing of its team sees nothing, if the rule is `required`, and
//! is not narrowed by the rule otherwise.

use weir_plugin_api::{Config, Error, Request, Set, TopicLister, Topics, export};

/// What a client must be, to see a topic.
#[derive(Config)]
struct TenantLister {
    /// Every one of them must hold.
    #[config(default)]
    rules: Vec<Rule>,
}

/// A property in which client and topic must agree.
#[derive(Config)]
struct Rule {
    /// The property of the client.
    property: String,
    /// The property of the topic, if it has another name.
    topic_property: Option<String>,
    /// Whether a client without it sees nothing.
    #[config(default = true)]
    required: bool,
}

impl TopicLister for TenantLister {
    type Config = Self;
    const CLASS: &'static str = "demo.TenantLister";

    fn new(config: Self) -> Result<Self, Error> {
        Ok(config)
    }

    fn answer<'t>(&mut self, request: &Request, topics: &Topics<'t>) -> Result<Set<'t>, Error> {
        let mut seen = topics.all();
        for rule in &self.rules {
            let of_topic = rule.topic_property.as_ref().unwrap_or(&rule.property);
            match request.properties.get(&rule.property) {
                Some(value) => seen = seen.intersect(&topics.with_property(of_topic, value))?,
                None if rule.required => return topics.named::<&str>(&[]),
                None => {}
            }
        }
        Ok(seen)
    }
}

export!(lister TenantLister);
