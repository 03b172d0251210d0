//! Tenants, namespaces and topics: what exists.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_filter::{Bindings, NamespaceName, TopicName, Workers};
use weir_listing::Listing;
use weir_store::Store;

use crate::decoder::EntryDecoder;
use crate::topic::Topic;

/// What may be chosen.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// The cluster's name, as Pulsar's admin shows it.
    pub cluster: String,
    /// Topics come into being when a client first uses them. Pulsar: `allowAutoTopicCreation`.
    pub auto_create_topics: bool,
    /// The largest entry that is taken, in bytes. Pulsar: `maxMessageSize`.
    pub max_message_size: usize,
}

/// The broker. Cheap to share; all methods may be called from async code.
pub struct Broker {}

/// What a protocol or REST handler turns into a code; one variant for each answer that differs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// No such topic.
    #[error("topic {0} does not exist")]
    TopicNotFound(String),
    /// No such namespace.
    #[error("namespace {0} does not exist")]
    NamespaceNotFound(String),
}

/// A topic as listings and REST show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its base name.
    pub name: TopicName,
    /// How many partitions; `None` if it is not partitioned.
    pub partitions: Option<u32>,
    /// What its creator said of it.
    pub properties: BTreeMap<String, String>,
}

impl Broker {
    /// Opens the broker on a store: reads what exists, fills the listing's index, takes up the bindings
    /// that REST has set.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn open(
        store: Store,
        listing: Arc<Listing>,
        bindings: Arc<Bindings>,
        workers: Arc<Workers>,
        decoder: Arc<dyn EntryDecoder>,
        options: BrokerOptions,
    ) -> Result<Arc<Self>, BrokerError> {
        let _ = (store, listing, bindings, workers, decoder, options);
        todo!()
    }

    /// Makes a topic, or a partitioned one.
    ///
    /// # Errors
    /// When it exists, or its namespace does not.
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
    /// When it does not exist and may not be made.
    pub async fn topic(&self, name: &TopicName, create: bool) -> Result<Arc<Topic>, BrokerError> {
        let _ = (name, create);
        todo!()
    }

    /// What is known of a base topic.
    pub fn info(&self, name: &TopicName) -> Option<TopicInfo> {
        let _ = name;
        todo!()
    }

    /// Merges properties into a topic's; visible to listings when this returns.
    ///
    /// # Errors
    /// When it does not exist.
    pub async fn update_properties(
        &self,
        name: &TopicName,
        properties: BTreeMap<String, String>,
    ) -> Result<(), BrokerError> {
        let _ = (name, properties);
        todo!()
    }

    /// Deletes a topic, its entries and its cursors. With `force`, its producers and consumers are
    /// disconnected first.
    ///
    /// # Errors
    /// When it does not exist, or is in use.
    pub async fn delete_topic(&self, name: &TopicName, force: bool) -> Result<(), BrokerError> {
        let _ = (name, force);
        todo!()
    }

    /// Namespaces of a tenant.
    ///
    /// # Errors
    /// When there is no such tenant.
    pub fn namespaces(&self, tenant: &str) -> Result<Vec<NamespaceName>, BrokerError> {
        let _ = tenant;
        todo!()
    }

    /// Stops taking entries, waits until those taken are durable and cursors are written.
    pub async fn drain(&self) {
        todo!()
    }
}
