//! The trait of everything that answers which topics a client may see. It works on sets, so that an
//! answer over ten million topics copies no name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use crate::filter::Broke;
use crate::names::NamespaceName;

/// Which domains a listing covers. Pulsar's `CommandGetTopicsOfNamespace.Mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Mode {
    /// `persistent://` only.
    #[default]
    Persistent,
    /// `non-persistent://` only.
    NonPersistent,
    /// Both.
    All,
}

/// What a lister is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ListRequest {
    /// The namespace whose topics are asked for.
    pub namespace: NamespaceName,
    /// The domains asked for.
    pub mode: Mode,
    /// What the client says of itself, in the order of the keys; may be empty.
    pub properties: BTreeMap<String, String>,
}

/// Answers listings. An instance belongs to one worker of the listers' pool.
pub trait TopicLister: Send {
    /// The set of topics that this client may see; a valid answer may be empty.
    ///
    /// All sets of one answer come from one snapshot (`topics`). Names are made, and system topics,
    /// foreign and malformed names dropped, by the caller.
    ///
    /// # Errors
    /// When the lister broke or returned an error: the client gets an error, never a list.
    fn answer(&mut self, request: &ListRequest, topics: &Arc<dyn Topics>) -> Result<TopicSet, Broke>;
}

/// One snapshot of a namespace's topics: what sets can be made of. Base topics are the unit; partitions
/// follow when names are made.
pub trait Topics: Send + Sync {
    /// All topics of the request's namespace and mode.
    fn all(&self) -> TopicSet;

    /// Those that have this property with this value.
    fn with_property(&self, key: &str, value: &str) -> TopicSet;

    /// Those whose whole base name, without its domain, matches a regular expression. A domain in the
    /// pattern is dropped, as Pulsar does.
    ///
    /// # Errors
    /// When the pattern cannot be compiled: the sentence says why.
    fn matching(&self, pattern: &str) -> Result<TopicSet, String>;

    /// A set of names of the lister's own; such as are topics of the snapshot become members of it.
    ///
    /// # Errors
    /// When there are more names, or longer ones, than a lister may return.
    fn named(&self, names: &[&str]) -> Result<TopicSet, String>;

    /// The full base names of a set, in order: at most `limit` from the `start`th on.
    fn names(&self, of: &TopicSet, start: usize, limit: usize) -> Vec<String>;
}

/// A set of topics of one snapshot: ranks in its sorted names, and names that it does not know.
///
/// Cloning costs a reference count. Both parts are kept apart, so that set operations on the first stay
/// a few microseconds at ten million topics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicSet {
    /// Ranks in the snapshot's sorted base names.
    pub ranks: Arc<RoaringBitmap>,
    /// Names from elsewhere.
    pub names: Arc<BTreeSet<String>>,
}

impl TopicSet {
    /// The members of the snapshot with these ranks.
    pub fn of_ranks(ranks: RoaringBitmap) -> Self {
        Self { ranks: Arc::new(ranks), names: Arc::default() }
    }

    /// Topics in both sets.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        Self {
            ranks: Arc::new(&*self.ranks & &*other.ranks),
            names: Arc::new(self.names.intersection(&other.names).cloned().collect()),
        }
    }

    /// Topics in either set.
    #[must_use]
    pub fn unite(&self, other: &Self) -> Self {
        Self {
            ranks: Arc::new(&*self.ranks | &*other.ranks),
            names: Arc::new(self.names.union(&other.names).cloned().collect()),
        }
    }

    /// Topics in this set and not in the other.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self {
            ranks: Arc::new(&*self.ranks - &*other.ranks),
            names: Arc::new(self.names.difference(&other.names).cloned().collect()),
        }
    }

    /// Whether there is no topic in it.
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty() && self.names.is_empty()
    }
}
