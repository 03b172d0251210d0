//! The broker: opening it on a store, and the calls that concern more than one topic.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_filter::{Binding, Bindings, NamespaceName, Target, TopicName, Workers};
use weir_listing::Index;
use weir_store::Store;

use crate::catalogue::TopicInfo;
use crate::decoder::EntryDecoder;
use crate::error::BrokerError;
use crate::stats::TopicStats;
use crate::topic::Topic;

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
        }
    }
}

/// The broker. All methods may be called from async code: what blocks runs on blocking threads.
pub struct Broker {}

impl Broker {
    /// Opens the broker on a store: reads what exists, fills the listing's index, takes up the bindings
    /// that REST has set ([`Bindings::restore`]), makes tenant and namespace `public/default`.
    ///
    /// Blocks on the disk; needs a tokio runtime around it. Bindings of the configuration file are put
    /// into `bindings` by the caller, before this.
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
        let _ = (store, index, bindings, workers, decoder, options);
        todo!()
    }

    /// What was chosen.
    pub fn options(&self) -> &BrokerOptions {
        todo!()
    }

    /// Tenants, sorted.
    pub fn tenants(&self) -> Vec<String> {
        todo!()
    }

    /// Makes a tenant.
    ///
    /// # Errors
    /// When it exists, or its name is none.
    pub async fn create_tenant(&self, tenant: &str) -> Result<(), BrokerError> {
        let _ = tenant;
        todo!()
    }

    /// Deletes a tenant that has no namespaces.
    ///
    /// # Errors
    /// When there is none, or it has namespaces.
    pub async fn delete_tenant(&self, tenant: &str) -> Result<(), BrokerError> {
        let _ = tenant;
        todo!()
    }

    /// Namespaces of a tenant, sorted.
    ///
    /// # Errors
    /// When there is no such tenant.
    pub fn namespaces(&self, tenant: &str) -> Result<Vec<NamespaceName>, BrokerError> {
        let _ = tenant;
        todo!()
    }

    /// Whether there is this namespace.
    pub fn has_namespace(&self, namespace: &NamespaceName) -> bool {
        let _ = namespace;
        todo!()
    }

    /// Makes a namespace.
    ///
    /// # Errors
    /// When it exists, or its tenant does not.
    pub async fn create_namespace(&self, namespace: &NamespaceName) -> Result<(), BrokerError> {
        let _ = namespace;
        todo!()
    }

    /// Deletes a namespace that has no topics.
    ///
    /// # Errors
    /// When there is none, or it has topics.
    pub async fn delete_namespace(&self, namespace: &NamespaceName) -> Result<(), BrokerError> {
        let _ = namespace;
        todo!()
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
        let _ = (name, partitions, properties);
        todo!()
    }

    /// The topic (a partition, or one that is not partitioned) of that name, loaded. Made if it is not
    /// there, `create` is true and the options allow.
    ///
    /// # Errors
    /// When it does not exist and may not be made; when it is not persistent.
    pub async fn topic(&self, name: &TopicName, create: bool) -> Result<Arc<Topic>, BrokerError> {
        let _ = (name, create);
        todo!()
    }

    /// How many partitions a topic has: `None` if it is not partitioned. One that is not there counts as
    /// not partitioned if `create` is true and the options allow it to be made; it is not made yet.
    ///
    /// # Errors
    /// When it does not exist and may not be made.
    pub fn partitions(&self, name: &TopicName, create: bool) -> Result<Option<u32>, BrokerError> {
        let _ = (name, create);
        todo!()
    }

    /// What is known of a base topic.
    pub fn info(&self, name: &TopicName) -> Option<TopicInfo> {
        let _ = name;
        todo!()
    }

    /// The base topics of a namespace, by name.
    ///
    /// # Errors
    /// When there is no such namespace.
    pub fn list(&self, namespace: &NamespaceName) -> Result<Vec<TopicInfo>, BrokerError> {
        let _ = namespace;
        todo!()
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
        let _ = (name, properties);
        todo!()
    }

    /// Takes one property from a topic; no matter if it has none of that key.
    ///
    /// # Errors
    /// When the topic does not exist.
    pub async fn remove_property(&self, name: &TopicName, key: &str) -> Result<(), BrokerError> {
        let _ = (name, key);
        todo!()
    }

    /// Gives a partitioned topic more partitions.
    ///
    /// # Errors
    /// When it does not exist, is not partitioned ([`BrokerError::NotAllowed`]), or would have fewer or
    /// too many ([`BrokerError::Invalid`]).
    pub async fn update_partitions(&self, name: &TopicName, partitions: u32) -> Result<(), BrokerError> {
        let _ = (name, partitions);
        todo!()
    }

    /// Deletes a base topic with its partitions, entries and cursors. With `force`, its producers and
    /// consumers are closed first.
    ///
    /// # Errors
    /// When it does not exist, is one partition, or has producers or consumers.
    pub async fn delete_topic(&self, name: &TopicName, force: bool) -> Result<(), BrokerError> {
        let _ = (name, force);
        todo!()
    }

    /// What a topic, or one partition, tells of itself.
    ///
    /// # Errors
    /// When it does not exist (a partitioned base has no stats of its own).
    pub async fn stats(&self, name: &TopicName) -> Result<TopicStats, BrokerError> {
        let _ = name;
        todo!()
    }

    /// Sets a binding, durably: it is in force, and survives a restart, when this returns.
    ///
    /// # Errors
    /// See [`BindingError`](weir_filter::BindingError); nothing has changed then.
    pub async fn put_binding(&self, binding: Binding) -> Result<(), BrokerError> {
        let _ = binding;
        todo!()
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
        let _ = (target, subscription);
        todo!()
    }

    /// Stops taking entries, closes producers and consumers, waits until the entries taken are durable
    /// and all cursors are written.
    pub async fn drain(&self) {
        todo!()
    }
}
