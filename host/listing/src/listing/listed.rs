//! What a lister's set comes to: the topics that may be named, and the answer to one client.

use std::collections::BTreeMap;

use weir_extension::{Domain, ListRequest, Mode, TopicName, TopicSet};

use super::{Answer, ListError};
use crate::hash::{hash_of_sorted, utf16_order};
use crate::pattern::Pattern;
use crate::system::is_system;
use crate::topics::View;

/// The topics of one answer, before patterns. Shared by all who asked for the same.
#[derive(Debug)]
pub(super) struct Listed {
    topics: Vec<Topic>,
    /// How many names they come to.
    count: usize,
}

#[derive(Debug)]
struct Topic {
    /// What is named: a base topic, or a name of the lister's own as it is.
    name: TopicName,
    /// What patterns are matched with.
    base: TopicName,
    /// The partitions to name instead of `name`.
    partitions: Option<u32>,
}

impl Listed {
    /// Keeps what belongs into the answer to a request: of the right namespace and mode, well-formed, no
    /// system topic.
    ///
    /// # Errors
    /// When there are more than `limit` names.
    pub(super) fn new(
        view: &View,
        request: &ListRequest,
        set: &TopicSet,
        limit: usize,
    ) -> Result<Self, ListError> {
        // By name: a lister may give a topic as a rank and as a name.
        let mut found = BTreeMap::new();
        for (name, partitions) in set.ranks.iter().filter_map(|rank| view.get(rank)) {
            found.insert(name.clone(), partitions);
        }
        let mut dropped = set.ranks.len() - found.len() as u64;
        for text in &*set.names {
            match own_name(text, request) {
                Some(name) => {
                    let known = view.rank(name.as_str()).and_then(|rank| view.get(rank));
                    found.insert(name, known.and_then(|(_, partitions)| partitions));
                }
                None => dropped += 1,
            }
        }
        if dropped > 0 {
            tracing::debug!(namespace = %request.namespace, dropped, "names that do not belong into the answer");
        }
        let topics =
            found.into_iter().map(|(name, partitions)| Topic { base: name.base(), name, partitions });
        let topics: Vec<Topic> = topics.filter(|topic| !is_system(&topic.base)).collect();
        let count = topics.iter().map(Topic::count).sum();
        if count > limit {
            return Err(ListError::TooManyTopics { count, limit });
        }
        Ok(Self { topics, count })
    }

    /// How many names there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The answer to one client: pattern, hash, unchanged?
    pub(super) fn answer(&self, pattern: Option<&Pattern>, known_hash: Option<&str>) -> Answer {
        let matches = |topic: &&Topic| pattern.is_none_or(|p| p.is_match(topic.base.without_domain()));
        let mut topics: Vec<String> = self.topics.iter().filter(matches).flat_map(Topic::names).collect();
        topics.sort_unstable_by(|a, b| utf16_order(a, b));
        // A partition may have been named beside its base topic.
        topics.dedup();
        let hash = hash_of_sorted(topics.iter().map(String::as_str));
        let changed = known_hash != Some(hash.as_str());
        if !changed {
            topics = Vec::new();
        }
        Answer { topics, filtered: pattern.is_some(), hash, changed }
    }
}

impl Topic {
    fn count(&self) -> usize {
        self.partitions.map_or(1, |n| n as usize)
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let alone = self.partitions.is_none().then(|| self.name.as_str().to_owned());
        let partitions = 0..self.partitions.unwrap_or(0);
        alone.into_iter().chain(partitions.map(|i| self.name.with_partition(i).as_str().to_owned()))
    }
}

/// A name of the lister's own, if it is a full one and belongs to the request.
fn own_name(text: &str, request: &ListRequest) -> Option<TopicName> {
    // A short form would be completed to a name that the lister never wrote.
    let name = TopicName::new(text).ok().filter(|name| name.as_str() == text)?;
    let mode = match request.mode {
        Mode::Persistent => name.domain() == Domain::Persistent,
        Mode::NonPersistent => name.domain() == Domain::NonPersistent,
        Mode::All => true,
    };
    (mode && name.namespace() == request.namespace).then_some(name)
}
