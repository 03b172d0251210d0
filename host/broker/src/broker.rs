//! The broker: opening it on a store, and the calls that concern more than one topic.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_filter::{Binding, BindingError, Bindings, NamespaceName, Target, TopicName, Workers};
use weir_listing::Index;
use weir_store::{Paused, Records, Store};

use crate::budget::{Budget, Share, cost};
use crate::catalogue::{Catalogue, TopicInfo, check_served};
use crate::decoder::EntryDecoder;
use crate::error::BrokerError;
use crate::removal::Removal;
use crate::stats::TopicStats;
use crate::subscription::{MAX_READ_BYTES, MAX_READ_ENTRIES};
use crate::topic::{Engine, Topic};

/// What may be chosen.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// The cluster's name, as Pulsar's admin shows it; producers' generated names begin with it.
    pub cluster: String,
    /// Topics come into being when a client first uses them. Pulsar: `allowAutoTopicCreation`.
    pub auto_create_topics: bool,
    /// The largest entry that is taken, in bytes. Pulsar: `maxMessageSize`.
    pub max_message_size: usize,
    /// The most partitions that a topic may have. Pulsar: `maxNumPartitionsPerPartitionedTopic`.
    pub max_partitions: u32,
    /// A message that a filter broke on is judged again after this long, then after twice as long, …
    pub withhold_first_pause: Duration,
    /// … up to this.
    pub withhold_longest_pause: Duration,
    /// When so many messages of a subscription are withheld, nothing new is read for it until one is not.
    pub max_withheld: usize,
    /// Bytes of entries that are in memory for one connection, from before they are read until they are
    /// written to it; then nothing is read for its consumers. One read, of an entry of `max_message_size`
    /// at least, is always allowed.
    pub pending_deliveries: usize,
    /// The same for all connections together.
    pub all_deliveries: usize,
}

impl Default for BrokerOptions {
    fn default() -> Self {
        Self {
            cluster: "weir".into(),
            auto_create_topics: true,
            max_message_size: 5 * 1024 * 1024,
            max_partitions: 1_000,
            withhold_first_pause: Duration::from_secs(1),
            withhold_longest_pause: Duration::from_secs(60),
            max_withheld: 1_000,
            pending_deliveries: 16 * 1024 * 1024,
            all_deliveries: 256 * 1024 * 1024,
        }
    }
}

/// The broker. All methods may be called from async code: what blocks runs on blocking threads.
///
/// Topics are loaded when they are first asked for, and stay loaded: at a hundred times the topics in use,
/// a hundred times the memory (some kilobytes each, and a cursor's for each subscription).
pub struct Broker {
    inner: Arc<Inner>,
}

struct Inner {
    catalogue: Catalogue,
    engine: Arc<Engine>,
    removal: Removal,
    /// Lock order: `changing`, `loaded`, whatever a topic locks.
    ///
    /// Held on blocking threads, across the disk: one changes what exists at a time.
    changing: Mutex<()>,
    /// Held for moments.
    loaded: RwLock<HashMap<TopicName, Arc<Topic>>>,
}

const BINDINGS: &str = "bindings";
const BROKER: &str = "broker";
const OPENED: &str = "opened";

impl Broker {
    /// Opens the broker on a store: reads what exists, fills the listing's index, takes up the bindings
    /// that REST has set ([`Bindings::restore`]), makes tenant and namespace `public/default`.
    ///
    /// Blocks on the disk; needs a tokio runtime around it. Bindings of the configuration file are put into
    /// `bindings` by the caller, before this. What was left of deleted topics is removed in the background.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn open(
        store: &Store,
        index: Arc<Index>,
        bindings: Arc<Bindings>,
        workers: Arc<Workers>,
        decoder: Arc<dyn EntryDecoder>,
        options: BrokerOptions,
    ) -> Result<Arc<Self>, BrokerError> {
        let (records, log) = (store.records(), store.entries());
        let opened = records.get::<u64>(BROKER, OPENED)?.unwrap_or(0) + 1;
        records.put(BROKER, OPENED, &opened)?;
        let (catalogue, doomed) = Catalogue::open(records.clone(), &*log, index, options.max_partitions)?;
        if opened == 1 {
            catalogue.create_tenant("public")?;
            catalogue.create_namespace(&NamespaceName::new("public/default")?)?;
        }
        restore_bindings(&records, &bindings)?;
        let read = MAX_READ_BYTES.max(options.max_message_size) + cost(0) * MAX_READ_ENTRIES;
        let budget = Budget::new(options.all_deliveries, options.pending_deliveries, read);
        let engine = Arc::new(Engine {
            log,
            records,
            bindings,
            workers,
            decoder,
            options,
            budget,
            tasks: TaskTracker::new(),
            appends: TaskTracker::new(),
            stop: CancellationToken::new(),
            abandoned: AtomicBool::new(false),
            opened,
            next_producer: AtomicU64::new(0),
        });
        let (tasks, stop) = (&engine.tasks, engine.stop.child_token());
        let removal = Removal::start(engine.records.clone(), Arc::clone(&engine.log), tasks, stop, doomed);
        let inner = Inner {
            catalogue,
            engine,
            removal,
            changing: Mutex::new(()),
            loaded: RwLock::new(HashMap::new()),
        };
        Ok(Arc::new(Self { inner: Arc::new(inner) }))
    }

    /// The bindings that REST has set, for what has to be known before the broker is open. Blocks on the
    /// disk.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn stored_bindings(store: &Store) -> Result<Vec<Binding>, BrokerError> {
        let stored = store.records().scan::<Binding>(BINDINGS, "")?;
        Ok(stored.into_iter().map(|(_, binding)| binding).collect())
    }

    /// What was chosen.
    pub fn options(&self) -> &BrokerOptions {
        &self.inner.engine.options
    }

    /// Why nothing can be stored right now; `None` while it can. Does not wait for the disk.
    pub fn paused(&self) -> Option<Paused> {
        self.inner.engine.log.paused()
    }

    /// What the consumers of one connection share: to be made once for each connection.
    pub fn share(&self) -> Share {
        self.inner.engine.budget.share()
    }

    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.inner.catalogue
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn loaded(&self) -> Vec<Arc<Topic>> {
        self.inner.loaded.read().values().cloned().collect()
    }

    /// Changes what exists, on a blocking thread, one change at a time.
    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Inner) -> Result<T, BrokerError> + Send + 'static,
    ) -> Result<T, BrokerError> {
        let inner = Arc::clone(&self.inner);
        let work = move || {
            let _one_at_a_time = inner.changing.lock();
            if inner.engine.stop.is_cancelled() {
                return Err(BrokerError::Closing("the broker is draining".to_owned()));
            }
            change(&inner)
        };
        tokio::task::spawn_blocking(work).await.map_err(|_panicked| BrokerError::lost("a change"))?
    }

    /// Tenants, sorted.
    pub fn tenants(&self) -> Vec<String> {
        self.inner.catalogue.tenants()
    }

    /// Makes a tenant.
    ///
    /// # Errors
    /// When it exists, or its name is none.
    pub async fn create_tenant(&self, tenant: &str) -> Result<(), BrokerError> {
        let tenant = tenant.to_owned();
        self.change(move |inner| inner.catalogue.create_tenant(&tenant)).await
    }

    /// Deletes a tenant that has no namespaces.
    ///
    /// # Errors
    /// When there is none, or it has namespaces.
    pub async fn delete_tenant(&self, tenant: &str) -> Result<(), BrokerError> {
        let tenant = tenant.to_owned();
        self.change(move |inner| inner.catalogue.delete_tenant(&tenant)).await
    }

    /// Namespaces of a tenant, sorted.
    ///
    /// # Errors
    /// When there is no such tenant.
    pub fn namespaces(&self, tenant: &str) -> Result<Vec<NamespaceName>, BrokerError> {
        self.inner.catalogue.namespaces(tenant)
    }

    /// Whether there is this namespace.
    pub fn has_namespace(&self, namespace: &NamespaceName) -> bool {
        self.inner.catalogue.has_namespace(namespace)
    }

    /// Makes a namespace.
    ///
    /// # Errors
    /// When it exists, or its tenant does not.
    pub async fn create_namespace(&self, namespace: &NamespaceName) -> Result<(), BrokerError> {
        let namespace = namespace.clone();
        self.change(move |inner| inner.catalogue.create_namespace(&namespace)).await
    }

    /// Deletes a namespace that has no topics.
    ///
    /// # Errors
    /// When there is none, or it has topics.
    pub async fn delete_namespace(&self, namespace: &NamespaceName) -> Result<(), BrokerError> {
        let namespace = namespace.clone();
        self.change(move |inner| inner.catalogue.delete_namespace(&namespace)).await
    }

    /// Makes a topic, or a partitioned one. Listed, and durable, when this returns.
    ///
    /// # Errors
    /// When it exists, its namespace does not, it is not persistent, names a partition, or has too many
    /// partitions or properties.
    pub async fn create_topic(
        &self,
        name: &TopicName,
        partitions: Option<u32>,
        properties: BTreeMap<String, String>,
    ) -> Result<(), BrokerError> {
        let name = name.clone();
        self.change(move |inner| inner.catalogue.create_topic(&name, partitions, properties)).await
    }

    /// The topic (a partition, or one that is not partitioned) of that name, loaded. Made if it is not
    /// there, `create` is true and the options allow.
    ///
    /// A name that ends as a partition's (`-partition-3`) is only ever one: it is there when its base has
    /// that many partitions, and is not made by itself.
    ///
    /// # Errors
    /// When it does not exist and may not be made; when it is not persistent, or is a partitioned base.
    pub async fn topic(&self, name: &TopicName, create: bool) -> Result<Arc<Topic>, BrokerError> {
        check_served(name)?;
        if let Some(topic) = self.inner.loaded.read().get(name) {
            return Ok(Arc::clone(topic));
        }
        let create = create && self.options().auto_create_topics;
        let name = name.clone();
        self.change(move |inner| inner.load(&name, create)).await
    }

    /// How many partitions a topic has: `None` if it is not partitioned. One that is not there counts as
    /// not partitioned if `create` is true and the options allow it to be made; it is not made yet.
    ///
    /// # Errors
    /// When it does not exist and may not be made.
    pub fn partitions(&self, name: &TopicName, create: bool) -> Result<Option<u32>, BrokerError> {
        check_served(name)?;
        if let Some(info) = self.inner.catalogue.info(name) {
            return Ok(info.partitions);
        }
        if !self.has_namespace(&name.namespace()) {
            return Err(BrokerError::NamespaceNotFound(name.namespace().to_string()));
        }
        let may_be_made = create && self.options().auto_create_topics && name.partition().is_none();
        if may_be_made || self.inner.catalogue.id(name).is_some() {
            return Ok(None);
        }
        Err(BrokerError::TopicNotFound(name.to_string()))
    }

    /// What is known of a base topic.
    pub fn info(&self, name: &TopicName) -> Option<TopicInfo> {
        self.inner.catalogue.info(name)
    }

    /// The base topics of a namespace, by name.
    ///
    /// # Errors
    /// When there is no such namespace.
    pub fn list(&self, namespace: &NamespaceName) -> Result<Vec<TopicInfo>, BrokerError> {
        self.inner.catalogue.list(namespace)
    }

    /// Merges properties into a topic's; visible to listings, and durable, when this returns.
    ///
    /// # Errors
    /// When it does not exist, or would have too many.
    pub async fn update_properties(
        &self,
        name: &TopicName,
        properties: BTreeMap<String, String>,
    ) -> Result<(), BrokerError> {
        let name = name.clone();
        self.change(move |inner| inner.catalogue.change_properties(&name, |all| all.extend(properties))).await
    }

    /// Takes one property from a topic; no matter if it has none of that key.
    ///
    /// # Errors
    /// When the topic does not exist.
    pub async fn remove_property(&self, name: &TopicName, key: &str) -> Result<(), BrokerError> {
        let (name, key) = (name.clone(), key.to_owned());
        let remove = move |all: &mut BTreeMap<String, String>| {
            all.remove(&key);
        };
        self.change(move |inner| inner.catalogue.change_properties(&name, remove)).await
    }

    /// Gives a partitioned topic more partitions.
    ///
    /// # Errors
    /// When it does not exist, is not partitioned ([`BrokerError::NotAllowed`]), or would have fewer or
    /// too many ([`BrokerError::Invalid`]).
    pub async fn update_partitions(&self, name: &TopicName, partitions: u32) -> Result<(), BrokerError> {
        let name = name.clone();
        self.change(move |inner| inner.catalogue.update_partitions(&name, partitions)).await
    }

    /// Deletes a base topic with its partitions, entries and cursors. With `force`, its producers and
    /// consumers are closed first. It is gone for good when this returns; the room of its entries is given
    /// back in the background ([`removing`](Self::removing)).
    ///
    /// # Errors
    /// When it does not exist, is one partition, or has producers or consumers.
    pub async fn delete_topic(&self, name: &TopicName, force: bool) -> Result<(), BrokerError> {
        let name = name.clone();
        self.change(move |inner| inner.delete(&name, force)).await
    }

    /// Deleted topics whose entries still take room.
    pub fn removing(&self) -> usize {
        self.inner.removal.left()
    }

    /// What a topic, or one partition, tells of itself.
    ///
    /// # Errors
    /// When it does not exist (a partitioned base has no stats of its own).
    pub async fn stats(&self, name: &TopicName) -> Result<TopicStats, BrokerError> {
        self.topic(name, false).await?.stats().await
    }

    /// Sets a binding, durably: it is in force, and survives a restart, when this returns. Batches under
    /// way end on the one before.
    ///
    /// # Errors
    /// See [`BindingError`]; nothing has changed then.
    pub async fn put_binding(&self, binding: Binding) -> Result<(), BrokerError> {
        self.change(move |inner| inner.put_binding(&binding)).await
    }

    /// Takes a binding away, durably; gives back whether there was one.
    ///
    /// # Errors
    /// When the configuration file wrote it.
    pub async fn remove_binding(
        &self,
        target: &Target,
        subscription: Option<&str>,
    ) -> Result<bool, BrokerError> {
        let (target, subscription) = (target.clone(), subscription.map(str::to_owned));
        self.change(move |inner| inner.remove_binding(&target, subscription.as_deref())).await
    }

    /// Stops taking entries, closes producers and consumers, waits until the entries taken are durable
    /// and all cursors are written.
    pub async fn drain(&self) {
        let engine = &self.inner.engine;
        engine.stop.cancel();
        let loaded = std::mem::take(&mut *self.inner.loaded.write());
        for topic in loaded.values() {
            topic.close();
        }
        engine.appends.close();
        engine.appends.wait().await;
        engine.tasks.close();
        engine.tasks.wait().await;
    }
}

impl Drop for Broker {
    /// Ends the tasks of a broker that was not drained, as the end of the process would: acknowledgements
    /// whose futures have not resolved may be lost.
    fn drop(&mut self) {
        let engine = &self.inner.engine;
        if !engine.stop.is_cancelled() {
            engine.abandoned.store(true, Ordering::Release);
            engine.stop.cancel();
        }
    }
}

impl Inner {
    fn load(&self, name: &TopicName, create: bool) -> Result<Arc<Topic>, BrokerError> {
        if let Some(topic) = self.loaded.read().get(name) {
            return Ok(Arc::clone(topic));
        }
        let id = match self.catalogue.id(name) {
            Some(id) => id,
            None if self.catalogue.info(name).is_some() => {
                let reason = format!("{name} is partitioned: its partitions are topics of their own");
                return Err(BrokerError::NotAllowed(reason));
            }
            None if !self.catalogue.has_namespace(&name.namespace()) => {
                return Err(BrokerError::NamespaceNotFound(name.namespace().to_string()));
            }
            None if create && name.partition().is_none() => {
                self.catalogue.create_topic(name, None, BTreeMap::new())?;
                self.catalogue.id(name).ok_or_else(|| BrokerError::TopicNotFound(name.to_string()))?
            }
            None => return Err(BrokerError::TopicNotFound(name.to_string())),
        };
        let topic = Topic::load(&self.engine, name, id)?;
        let mut loaded = self.loaded.write();
        // Draining takes what is loaded away, once.
        if self.engine.stop.is_cancelled() {
            drop(loaded);
            topic.close();
            return Err(BrokerError::Closing("the broker is draining".to_owned()));
        }
        loaded.insert(name.clone(), Arc::clone(&topic));
        Ok(topic)
    }

    fn delete(&self, base: &TopicName, force: bool) -> Result<(), BrokerError> {
        if base.partition().is_some() && self.catalogue.id(base).is_some() {
            let reason = format!("{base} is one partition; delete {}", base.base());
            return Err(BrokerError::NotAllowed(reason));
        }
        let Some(info) = self.catalogue.info(base) else {
            return Err(BrokerError::TopicNotFound(base.to_string()));
        };
        let names: Vec<TopicName> = match info.partitions {
            None => vec![base.clone()],
            Some(n) => (0..n).map(|partition| base.with_partition(partition)).collect(),
        };
        let topics: Vec<Arc<Topic>> = {
            let loaded = self.loaded.read();
            names.iter().filter_map(|name| loaded.get(name).cloned()).collect()
        };
        if !force {
            let users = topics.iter().map(|topic| topic.users());
            let (producers, consumers) = users.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            if producers + consumers > 0 {
                let reason = format!("topic {base} has {producers} producers and {consumers} consumers");
                return Err(BrokerError::InUse(reason));
            }
        }
        let closed: Vec<_> = topics.iter().flat_map(|topic| topic.close()).collect();
        let deleted = self.catalogue.delete_topic(base);
        for subscription in closed {
            if deleted.is_err() {
                // What it acknowledges to its clients at its end is read again with the topic.
                subscription.wait_until_written();
            }
            subscription.forget_cursor();
        }
        // Also after a failure: what is closed is of no use, and is loaded anew.
        let mut loaded = self.loaded.write();
        for name in &names {
            loaded.remove(name);
        }
        self.removal.add(deleted?);
        Ok(())
    }

    fn put_binding(&self, binding: &Binding) -> Result<(), BrokerError> {
        let bindings = &self.engine.bindings;
        let key = binding_key(&binding.target, binding.subscription.as_deref());
        let before = bindings
            .list()
            .into_iter()
            .find(|known| known.target == binding.target && known.subscription == binding.subscription);
        bindings.put(binding.clone(), self.catalogue.names())?;
        let Err(error) = self.engine.records.put(BINDINGS, &key, binding) else { return Ok(()) };
        // What is not durable is not in force either.
        let undone = match before {
            Some(before) => bindings.restore(before),
            None => bindings.remove(&binding.target, binding.subscription.as_deref()).map(drop),
        };
        if let Err(error) = undone {
            tracing::error!(key, %error, "binding is in force but not kept: set it again");
        }
        Err(error.into())
    }

    fn remove_binding(&self, target: &Target, subscription: Option<&str>) -> Result<bool, BrokerError> {
        let removed = self.engine.bindings.remove(target, subscription)?;
        if removed {
            self.engine.records.delete(BINDINGS, &binding_key(target, subscription))?;
        }
        Ok(removed)
    }
}

fn restore_bindings(records: &Records, bindings: &Bindings) -> Result<(), BrokerError> {
    for (key, binding) in records.scan::<Binding>(BINDINGS, "")? {
        match bindings.restore(binding) {
            Ok(()) => {}
            Err(BindingError::FixedByFile { .. }) => {
                tracing::info!(key, "binding dropped: the configuration file has one of its own");
                records.delete(BINDINGS, &key)?;
            }
            Err(error) => tracing::error!(key, %error, "binding not taken up again"),
        }
    }
    Ok(())
}

fn binding_key(target: &Target, subscription: Option<&str>) -> String {
    let (kind, text) = match target {
        Target::Topic(topic) => ("topic", topic.as_str()),
        Target::Pattern(pattern) => ("pattern", pattern.as_str()),
    };
    serde_json::json!([kind, text, subscription]).to_string()
}
