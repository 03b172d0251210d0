//! The topics there are, with their properties.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use roaring::RoaringBitmap;
use weir_extension::{Domain, Mode, NamespaceName, TopicName, Topics};

use crate::topics::View;

/// All topics, by namespace. Base topics are the unit: partitions are a number of theirs.
///
/// A change costs the logarithm of the namespace's size. The first reader after a change makes the
/// namespace's next snapshot, at a cost in proportion to its topics (some 0.1 µs a topic and property);
/// all others share it and wait for nobody; a change that comes meanwhile waits. At a hundred times the load, in topics or in changes between
/// two listings, that is the first thing to replace: by snapshots that share what has not changed.
///
/// A namespace once seen keeps an empty entry after its last topic has gone.
#[derive(Default)]
pub struct Index {
    /// Lock order: this one, then one namespace's `topics`.
    namespaces: RwLock<HashMap<NamespaceName, Arc<Namespace>>>,
}

#[derive(Default)]
struct Namespace {
    /// Grows with every change, under the lock of `topics`.
    version: AtomicU64,
    topics: Mutex<BTreeMap<TopicName, Topic>>,
    snapshot: ArcSwap<Snapshot>,
}

#[derive(PartialEq)]
struct Topic {
    partitions: Option<u32>,
    properties: BTreeMap<String, String>,
}

/// A namespace's topics at one moment. A topic's rank is its place in `names`.
#[derive(Default)]
pub(crate) struct Snapshot {
    version: u64,
    /// Base names, sorted: `non-persistent://` ones come first.
    names: Vec<TopicName>,
    /// By rank; `None` for a topic that is not partitioned.
    partitions: Vec<Option<u32>>,
    /// The rank of the first `persistent://` name.
    first_persistent: u32,
    /// By key, then value: the ranks that have it.
    properties: HashMap<String, HashMap<String, RoaringBitmap>>,
}

impl Index {
    /// Adds a base topic, or replaces its partitions and properties. `partitions` is `None` for a topic
    /// that is not partitioned. A snapshot taken after this returns shows it.
    pub fn put(&self, topic: &TopicName, partitions: Option<u32>, properties: BTreeMap<String, String>) {
        let namespace = self.namespace_or_new(&topic.namespace());
        let new = Topic { partitions, properties };
        let mut topics = namespace.topics.lock();
        if topics.get(topic) != Some(&new) {
            topics.insert(topic.clone(), new);
            namespace.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Takes a base topic out; gives back whether it was there.
    pub fn remove(&self, topic: &TopicName) -> bool {
        let Some(namespace) = self.namespace(&topic.namespace()) else { return false };
        let mut topics = namespace.topics.lock();
        let was_there = topics.remove(topic).is_some();
        if was_there {
            namespace.version.fetch_add(1, Ordering::Release);
        }
        was_there
    }

    /// One snapshot of a namespace's topics, in one mode.
    ///
    /// After a change it is made here, which takes time in proportion to the namespace's topics: not for
    /// async threads.
    pub fn snapshot(&self, namespace: &NamespaceName, mode: Mode) -> Arc<dyn Topics> {
        Arc::new(self.view(namespace, mode))
    }

    /// Every base topic, namespace by namespace; each namespace as it is when its turn comes.
    pub fn topics(&self) -> impl Iterator<Item = TopicName> + use<> {
        let namespaces: Vec<Arc<Namespace>> = self.namespaces.read().values().cloned().collect();
        namespaces.into_iter().flat_map(|namespace| namespace.snapshot().names.clone())
    }

    pub(crate) fn view(&self, namespace: &NamespaceName, mode: Mode) -> View {
        let snapshot = self.namespace(namespace).map(|namespace| namespace.snapshot());
        View::new(snapshot.unwrap_or_default(), mode)
    }

    /// A number that grows with every change of a namespace; 0 if it was never seen.
    pub(crate) fn version(&self, namespace: &NamespaceName) -> u64 {
        self.namespace(namespace).map_or(0, |namespace| namespace.version.load(Ordering::Acquire))
    }

    fn namespace(&self, name: &NamespaceName) -> Option<Arc<Namespace>> {
        self.namespaces.read().get(name).cloned()
    }

    fn namespace_or_new(&self, name: &NamespaceName) -> Arc<Namespace> {
        self.namespace(name)
            .unwrap_or_else(|| self.namespaces.write().entry(name.clone()).or_default().clone())
    }
}

impl Namespace {
    fn snapshot(&self) -> Arc<Snapshot> {
        let known = self.snapshot.load();
        if known.version == self.version.load(Ordering::Acquire) {
            return Arc::clone(&known);
        }
        let topics = self.topics.lock();
        let version = self.version.load(Ordering::Acquire);
        let known = self.snapshot.load();
        if known.version == version {
            return Arc::clone(&known);
        }
        let fresh = Arc::new(Snapshot::of(&topics, version));
        self.snapshot.store(Arc::clone(&fresh));
        fresh
    }
}

impl Snapshot {
    fn of(topics: &BTreeMap<TopicName, Topic>, version: u64) -> Self {
        let mut snapshot = Self { version, ..Self::default() };
        for (rank, (name, topic)) in (0u32..).zip(topics) {
            snapshot.names.push(name.clone());
            snapshot.partitions.push(topic.partitions);
            for (key, value) in &topic.properties {
                let values = snapshot.properties.entry(key.clone()).or_default();
                values.entry(value.clone()).or_default().insert(rank);
            }
        }
        let first = snapshot.names.partition_point(|name| name.domain() == Domain::NonPersistent);
        snapshot.first_persistent = u32::try_from(first).expect("ranks are 32 bits");
        snapshot
    }

    /// Name and partitions of a rank; `None` where there is none.
    pub(crate) fn get(&self, rank: u32) -> Option<(&TopicName, Option<u32>)> {
        let rank = rank as usize;
        Some((self.names.get(rank)?, self.partitions[rank]))
    }

    /// The rank of a base topic.
    pub(crate) fn rank(&self, name: &str) -> Option<u32> {
        let rank = self.names.binary_search_by(|known| known.as_str().cmp(name)).ok()?;
        u32::try_from(rank).ok()
    }

    /// The ranks of a mode's topics.
    pub(crate) fn range(&self, mode: Mode) -> Range<u32> {
        let end = u32::try_from(self.names.len()).expect("ranks are 32 bits");
        match mode {
            Mode::Persistent => self.first_persistent..end,
            Mode::NonPersistent => 0..self.first_persistent,
            Mode::All => 0..end,
        }
    }

    pub(crate) fn with_property(&self, key: &str, value: &str) -> Option<&RoaringBitmap> {
        self.properties.get(key)?.get(value)
    }
}

#[cfg(test)]
mod tests;
