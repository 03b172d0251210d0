//! A snapshot of a namespace's topics in one mode, as listers see it: what sets can be made of.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use roaring::RoaringBitmap;
use weir_extension::{Mode, TopicName, TopicSet, Topics};

use crate::config::{MAX_OWN_NAME_BYTES, MAX_OWN_NAMES, MAX_PAGE};
use crate::index::Snapshot;
use crate::pattern::Pattern;

/// A snapshot, and the ranks of one mode in it.
pub(crate) struct View {
    snapshot: Arc<Snapshot>,
    range: Range<u32>,
}

impl View {
    pub(crate) fn new(snapshot: Arc<Snapshot>, mode: Mode) -> Self {
        let range = snapshot.range(mode);
        Self { snapshot, range }
    }

    /// Name and partitions of a rank; `None` if the mode has no such topic.
    pub(crate) fn get(&self, rank: u32) -> Option<(&TopicName, Option<u32>)> {
        self.range.contains(&rank).then(|| self.snapshot.get(rank)).flatten()
    }

    /// The rank of a base topic of this mode.
    pub(crate) fn rank(&self, name: &str) -> Option<u32> {
        self.snapshot.rank(name).filter(|rank| self.range.contains(rank))
    }
}

impl Topics for View {
    fn all(&self) -> TopicSet {
        let mut ranks = RoaringBitmap::new();
        ranks.insert_range(self.range.clone());
        TopicSet::of_ranks(ranks)
    }

    fn with_property(&self, key: &str, value: &str) -> TopicSet {
        let Some(ranks) = self.snapshot.with_property(key, value) else { return TopicSet::default() };
        let mut ranks = ranks.clone();
        ranks.remove_range(..self.range.start);
        ranks.remove_range(self.range.end..);
        TopicSet::of_ranks(ranks)
    }

    /// Looks at every topic of the mode, at some 0.1 µs each.
    fn matching(&self, pattern: &str) -> Result<TopicSet, String> {
        let pattern = Pattern::new(pattern).map_err(|error| error.to_string())?;
        let ranks = self.range.clone().filter(|rank| {
            let name = self.get(*rank).map(|(name, _)| name);
            name.is_some_and(|name| pattern.is_match(name.base().without_domain()))
        });
        Ok(TopicSet::of_ranks(ranks.collect()))
    }

    fn named(&self, names: &[&str]) -> Result<TopicSet, String> {
        if names.len() > MAX_OWN_NAMES {
            return Err(format!("{} names are too many, at most {MAX_OWN_NAMES} are taken", names.len()));
        }
        let mut ranks = RoaringBitmap::new();
        let mut own = BTreeSet::new();
        for name in names {
            if name.len() > MAX_OWN_NAME_BYTES {
                let len = name.len();
                return Err(format!("a name has {len} bytes, at most {MAX_OWN_NAME_BYTES} are taken"));
            }
            match self.rank(name) {
                Some(rank) => {
                    ranks.insert(rank);
                }
                None => {
                    own.insert((*name).to_owned());
                }
            }
        }
        Ok(TopicSet { ranks: Arc::new(ranks), names: Arc::new(own) })
    }

    /// At most [`MAX_PAGE`] names, whatever `limit` says. A set without names of its own is entered at
    /// `start` directly; else the names before `start` are passed over one by one.
    fn names(&self, of: &TopicSet, start: usize, limit: usize) -> Vec<String> {
        let limit = limit.min(MAX_PAGE);
        let name = |rank| self.get(rank).map(|(name, _)| name.as_str());
        if of.names.is_empty() {
            let Some(first) = u32::try_from(start).ok().and_then(|start| of.ranks.select(start)) else {
                return Vec::new();
            };
            return of.ranks.range(first..).filter_map(name).take(limit).map(str::to_owned).collect();
        }
        let mut ranked = of.ranks.iter().filter_map(name).peekable();
        let mut own = of.names.iter().map(String::as_str).peekable();
        let merged = std::iter::from_fn(|| match (ranked.peek(), own.peek()) {
            (Some(a), Some(b)) if a <= b => ranked.next(),
            (_, Some(_)) => own.next(),
            (_, None) => ranked.next(),
        });
        merged.skip(start).take(limit).map(str::to_owned).collect()
    }
}
