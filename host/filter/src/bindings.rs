//! The table of bindings.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use weir_extension::{ClassName, Extensions, Kind, TopicName, Unavailable};

use crate::binding::{
    Binding, BindingError, MAX_BINDINGS, MAX_FILTERS, MAX_SUBSCRIPTION_BYTES, Origin, Target,
};
use crate::chain::{Chain, PauseReason};
use crate::pattern::TopicPattern;

/// The table of bindings. Readers take it with one atomic load and never wait.
///
/// A change copies the table (references, not bindings): that is for tables of thousands, changed by
/// people. Finding a topic's chain is a look-up and, if no binding names the topic, one match a pattern;
/// the chain is kept by its subscription, so that this is not on the path of a message.
pub struct Bindings {
    extensions: Arc<Extensions>,
    table: ArcSwap<Table>,
    /// Held by whoever changes the table. Never across a call into an extension.
    changing: Mutex<()>,
}

#[derive(Clone, Default)]
struct Table {
    generation: u64,
    all: BTreeMap<(Target, Option<String>), Arc<Entry>>,
    /// The bindings of each topic that is bound by its name.
    topics: HashMap<TopicName, Vec<Arc<Entry>>>,
    /// The bindings by pattern.
    patterns: Vec<Arc<Entry>>,
}

struct Entry {
    binding: Arc<Binding>,
    /// Of a target that is one.
    pattern: Option<TopicPattern>,
}

impl Bindings {
    /// An empty table; `extensions` is where chains find their filters.
    pub fn new(extensions: Arc<Extensions>) -> Self {
        Self { extensions, table: ArcSwap::default(), changing: Mutex::default() }
    }

    /// Sets the binding of this target and subscription, replacing the one there was.
    ///
    /// Filters that are registered are configured, which may take a while: not for async threads. One
    /// that is not registered yet is no error; delivery pauses until it is. `known_topics` are looked
    /// through for one that this pattern and another both match.
    ///
    /// # Errors
    /// See [`BindingError`]; the table is as it was then.
    pub fn put(
        &self,
        binding: Binding,
        known_topics: impl IntoIterator<Item = TopicName>,
    ) -> Result<(), BindingError> {
        let entry = Entry::new(binding)?;
        for filter in &entry.binding.filters {
            match self.extensions.configured(&filter.class, Kind::Filter, filter.config.as_ref()) {
                Ok(_) | Err(Unavailable::Missing { .. }) => {}
                Err(other) => return Err(other.into()),
            }
        }
        let _changing = self.changing.lock();
        let table = self.table.load();
        table.check_conflicts(&entry, known_topics)?;
        self.set(&table, entry)
    }

    /// Takes up a binding that was taken before, at the start of the process.
    ///
    /// Its shape is checked and nothing else: a filter that refuses its configuration by now, or a topic
    /// that another pattern matches too, pauses delivery, where a binding left out would let every
    /// message through.
    ///
    /// # Errors
    /// When its shape is wrong, or the configuration file has this binding: then the file's stands.
    pub fn restore(&self, binding: Binding) -> Result<(), BindingError> {
        let entry = Entry::new(binding)?;
        let _changing = self.changing.lock();
        self.set(&self.table.load(), entry)
    }

    /// Takes a binding away; gives back whether there was one.
    ///
    /// # Errors
    /// When the configuration file wrote it.
    pub fn remove(&self, target: &Target, subscription: Option<&str>) -> Result<bool, BindingError> {
        let _changing = self.changing.lock();
        let table = self.table.load();
        let key = (target.clone(), subscription.map(str::to_owned));
        match table.all.get(&key) {
            None => Ok(false),
            Some(entry) if entry.binding.origin == Origin::File => {
                Err(BindingError::FixedByFile { target: target.clone() })
            }
            Some(_) => {
                let mut all = table.all.clone();
                all.remove(&key);
                self.table.store(Arc::new(Table::of(all, table.generation + 1)));
                Ok(true)
            }
        }
    }

    /// All bindings, in order of target and subscription.
    pub fn list(&self) -> Vec<Binding> {
        self.table.load().all.values().map(|entry| Binding::clone(&entry.binding)).collect()
    }

    /// A number that grows whenever any binding changes: chains found under an older one are found anew.
    pub fn generation(&self) -> u64 {
        self.table.load().generation
    }

    /// The chain between a topic (or a partition of it) and a subscription: `None` where no binding covers
    /// them. It is the caller's own, with what is known of its filters' failures; it is to be kept until
    /// [`generation`](Self::generation) changes.
    ///
    /// A topic's own binding beats a pattern, then a binding that names the subscription beats one that
    /// does not. Where two patterns are left, the chain is one that is paused.
    pub fn chain(&self, topic: &TopicName, subscription: &str) -> Option<Arc<Chain>> {
        let base = topic.base();
        let table = self.table.load();
        let exact = table.topics.get(&base).map_or(&[][..], Vec::as_slice);
        let by_pattern: Vec<&Arc<Entry>> =
            table.patterns.iter().filter(|entry| entry.covers(&base)).collect();
        let candidates = [
            of_subscription(exact.iter(), Some(subscription)),
            of_subscription(exact.iter(), None),
            of_subscription(by_pattern.iter().copied(), Some(subscription)),
            of_subscription(by_pattern.iter().copied(), None),
        ];
        let found = candidates.into_iter().find(|candidates| !candidates.is_empty())?;
        let chain = match found[..] {
            [] => return None,
            [one] => Chain::new(Arc::clone(&one.binding), Arc::clone(&self.extensions)),
            [first, second, ..] => {
                let reason = PauseReason::Ambiguous {
                    topic: base,
                    first: first.pattern_text().to_owned(),
                    second: second.pattern_text().to_owned(),
                };
                Chain::ambiguous(Arc::clone(&first.binding), Arc::clone(&self.extensions), reason)
            }
        };
        Some(Arc::new(chain))
    }

    /// Whether any binding names this class (removal is refused then).
    pub fn uses(&self, class: &ClassName) -> bool {
        let table = self.table.load();
        table.all.values().any(|entry| entry.binding.filters.iter().any(|filter| filter.class == *class))
    }

    fn set(&self, table: &Table, entry: Entry) -> Result<(), BindingError> {
        let key = (entry.binding.target.clone(), entry.binding.subscription.clone());
        match table.all.get(&key) {
            Some(old) if old.binding.origin == Origin::File && entry.binding.origin == Origin::Rest => {
                return Err(BindingError::FixedByFile { target: key.0 });
            }
            None if table.all.len() >= MAX_BINDINGS => return Err(BindingError::TooManyBindings),
            _ => {}
        }
        let mut all = table.all.clone();
        all.insert(key, Arc::new(entry));
        self.table.store(Arc::new(Table::of(all, table.generation + 1)));
        Ok(())
    }
}

/// Those for exactly this subscription, or for all of them.
fn of_subscription<'a>(
    entries: impl Iterator<Item = &'a Arc<Entry>>,
    subscription: Option<&str>,
) -> Vec<&'a Arc<Entry>> {
    entries.filter(|entry| entry.binding.subscription.as_deref() == subscription).collect()
}

impl Table {
    fn of(all: BTreeMap<(Target, Option<String>), Arc<Entry>>, generation: u64) -> Self {
        let mut table = Self { generation, ..Self::default() };
        for ((target, _), entry) in &all {
            match target {
                Target::Topic(topic) => {
                    table.topics.entry(topic.clone()).or_default().push(Arc::clone(entry));
                }
                Target::Pattern(_) => table.patterns.push(Arc::clone(entry)),
            }
        }
        table.all = all;
        table
    }

    /// Refuses a pattern if another one, for the same subscription, is the same or matches one of the
    /// topics that there are. Whether two expressions could ever meet is not asked: a topic that comes
    /// into being later and is matched by both pauses its subscriptions.
    fn check_conflicts(
        &self,
        entry: &Entry,
        known_topics: impl IntoIterator<Item = TopicName>,
    ) -> Result<(), BindingError> {
        let Some(pattern) = &entry.pattern else { return Ok(()) };
        let others: Vec<&TopicPattern> = self
            .patterns
            .iter()
            .filter(|other| other.binding.subscription == entry.binding.subscription)
            .filter(|other| other.binding.target != entry.binding.target)
            .filter_map(|other| other.pattern.as_ref())
            .collect();
        let conflict = |other: &TopicPattern, topic: &str| BindingError::Conflict {
            pattern: pattern.text().to_owned(),
            other: other.text().to_owned(),
            topic: topic.to_owned(),
        };
        if let Some(other) = others.iter().find(|other| other.is_same(pattern)) {
            return Err(conflict(other, "the same topics"));
        }
        if others.is_empty() {
            return Ok(());
        }
        for topic in known_topics {
            let base = topic.base();
            if pattern.covers(&base)
                && let Some(other) = others.iter().find(|other| other.covers(&base))
            {
                return Err(conflict(other, base.as_str()));
            }
        }
        Ok(())
    }
}

impl Entry {
    /// Checks the shape of a binding.
    fn new(binding: Binding) -> Result<Self, BindingError> {
        match binding.filters.len() {
            0 => return Err(BindingError::NoFilter),
            count if count > MAX_FILTERS => return Err(BindingError::TooManyFilters { count }),
            _ => {}
        }
        if let Some(length) = binding.subscription.as_ref().map(String::len)
            && !(1..=MAX_SUBSCRIPTION_BYTES).contains(&length)
        {
            return Err(BindingError::BadSubscription { length });
        }
        let pattern = match &binding.target {
            Target::Topic(topic) if topic.partition().is_some() => {
                return Err(BindingError::OnePartition { topic: topic.clone() });
            }
            Target::Topic(_) => None,
            Target::Pattern(text) => Some(TopicPattern::new(text)?),
        };
        Ok(Self { binding: Arc::new(binding), pattern })
    }

    fn covers(&self, base: &TopicName) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.covers(base))
    }

    fn pattern_text(&self) -> &str {
        self.pattern.as_ref().map_or("", TopicPattern::text)
    }
}

#[cfg(test)]
mod tests;
