//! What exists: tenants, namespaces, topics with their properties. Records in the store, a table in
//! memory, and the listing's index, kept the same.
//!
//! All methods that change something block on the disk, and are called one at a time; readers never wait
//! for the disk. The table holds some 200 bytes and the properties for each topic; a hundred times the
//! topics take a hundred times the memory and the start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use weir_filter::{Domain, NamespaceName, TopicName};
use weir_listing::Index;
use weir_store::{EntryLog, Records, TopicId};

use crate::error::BrokerError;

/// The most properties of one topic, producer or consumer.
const MAX_PROPERTIES: usize = 1_000;

/// Keys and values of those, together.
const MAX_PROPERTIES_BYTES: usize = 64 * 1024;

const TENANTS: &str = "tenants";
const NAMESPACES: &str = "namespaces";
const TOPICS: &str = "topics";
/// Deleted topics whose entries are still to be removed, by name and first number: one of the same name may
/// be deleted before that is done.
const DOOMED: &str = "doomed-topics";

/// A base topic as listings and REST show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its base name.
    pub name: TopicName,
    /// How many partitions; `None` if it is not partitioned.
    pub partitions: Option<u32>,
    /// What its creator said of it.
    pub properties: BTreeMap<String, String>,
}

/// A topic's record.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct TopicRecord {
    /// One for a topic that is not partitioned, else one for each partition.
    ids: Vec<TopicId>,
    partitioned: bool,
    properties: BTreeMap<String, String>,
}

impl TopicRecord {
    fn partitions(&self) -> Option<u32> {
        self.partitioned.then(|| u32::try_from(self.ids.len()).unwrap_or(u32::MAX))
    }
}

/// Nothing to say of a tenant or namespace yet; an object, so that there is room for it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Nothing {}

#[derive(Default)]
struct Table {
    tenants: BTreeMap<String, BTreeMap<NamespaceName, BTreeMap<TopicName, TopicRecord>>>,
}

/// A deleted topic, as long as it has not been removed.
#[derive(Clone, Debug)]
pub(crate) struct Doomed {
    /// Its record's key.
    key: String,
    /// Its base name.
    pub(crate) name: String,
    /// Where its entries lie.
    pub(crate) ids: Vec<TopicId>,
}

/// A doomed topic has been removed.
pub(crate) fn forget_doomed(records: &Records, doomed: &Doomed) -> Result<(), BrokerError> {
    Ok(records.delete(DOOMED, &doomed.key)?)
}

pub(crate) struct Catalogue {
    records: Records,
    index: Arc<Index>,
    max_partitions: u32,
    /// Held for moments, never across the disk.
    table: RwLock<Table>,
}

impl Catalogue {
    /// Reads what exists, and what is still to be removed.
    pub(crate) fn open(
        records: Records,
        log: &dyn EntryLog,
        index: Arc<Index>,
        max_partitions: u32,
    ) -> Result<(Self, Vec<Doomed>), BrokerError> {
        let mut doomed = Vec::new();
        for (key, ids) in records.scan::<Vec<TopicId>>(DOOMED, "")? {
            let name = key.split(' ').next().unwrap_or_default().to_owned();
            tracing::info!(topic = name, "the removal of a deleted topic goes on");
            doomed.push(Doomed { key, name, ids });
        }
        let known: BTreeSet<TopicId> = doomed.iter().flat_map(|doomed| &doomed.ids).copied().collect();
        let ids: Vec<TopicId> = log.forgotten()?.into_iter().filter(|id| !known.contains(id)).collect();
        if !ids.is_empty() {
            doomed.push(Doomed { key: String::new(), name: String::new(), ids });
        }
        let mut table = Table::default();
        for (tenant, Nothing {}) in records.scan(TENANTS, "")? {
            table.tenants.entry(tenant).or_default();
        }
        for (namespace, Nothing {}) in records.scan(NAMESPACES, "")? {
            let namespace = NamespaceName::new(&namespace)?;
            let tenant = table.tenants.entry(namespace.tenant().to_owned()).or_default();
            tenant.entry(namespace).or_default();
        }
        for (name, record) in records.scan::<TopicRecord>(TOPICS, "")? {
            let name = TopicName::new(&name)?;
            index.put(&name, record.partitions(), record.properties.clone());
            let namespace = name.namespace();
            let tenant = table.tenants.entry(namespace.tenant().to_owned()).or_default();
            tenant.entry(namespace).or_default().insert(name, record);
        }
        Ok((Self { records, index, max_partitions, table: RwLock::new(table) }, doomed))
    }

    // ---- tenants and namespaces

    pub(crate) fn tenants(&self) -> Vec<String> {
        self.table.read().tenants.keys().cloned().collect()
    }

    pub(crate) fn create_tenant(&self, tenant: &str) -> Result<(), BrokerError> {
        // A tenant's name is the first part of a namespace's.
        NamespaceName::new(&format!("{tenant}/default"))?;
        if self.table.read().tenants.contains_key(tenant) {
            return Err(BrokerError::AlreadyExists(format!("tenant {tenant}")));
        }
        self.records.put(TENANTS, tenant, &Nothing {})?;
        self.table.write().tenants.entry(tenant.to_owned()).or_default();
        Ok(())
    }

    pub(crate) fn delete_tenant(&self, tenant: &str) -> Result<(), BrokerError> {
        match self.table.read().tenants.get(tenant) {
            None => return Err(BrokerError::TenantNotFound(tenant.to_owned())),
            Some(namespaces) if !namespaces.is_empty() => {
                let reason = format!("tenant {tenant} still has {} namespaces", namespaces.len());
                return Err(BrokerError::InUse(reason));
            }
            Some(_) => {}
        }
        self.records.delete(TENANTS, tenant)?;
        self.table.write().tenants.remove(tenant);
        Ok(())
    }

    pub(crate) fn namespaces(&self, tenant: &str) -> Result<Vec<NamespaceName>, BrokerError> {
        match self.table.read().tenants.get(tenant) {
            Some(namespaces) => Ok(namespaces.keys().cloned().collect()),
            None => Err(BrokerError::TenantNotFound(tenant.to_owned())),
        }
    }

    pub(crate) fn has_namespace(&self, namespace: &NamespaceName) -> bool {
        self.table.read().topics(namespace).is_some()
    }

    pub(crate) fn create_namespace(&self, namespace: &NamespaceName) -> Result<(), BrokerError> {
        match self.table.read().tenants.get(namespace.tenant()) {
            None => return Err(BrokerError::TenantNotFound(namespace.tenant().to_owned())),
            Some(namespaces) if namespaces.contains_key(namespace) => {
                return Err(BrokerError::AlreadyExists(format!("namespace {namespace}")));
            }
            Some(_) => {}
        }
        self.records.put(NAMESPACES, namespace.as_str(), &Nothing {})?;
        if let Some(tenant) = self.table.write().tenants.get_mut(namespace.tenant()) {
            tenant.entry(namespace.clone()).or_default();
        }
        Ok(())
    }

    pub(crate) fn delete_namespace(&self, namespace: &NamespaceName) -> Result<(), BrokerError> {
        match self.table.read().topics(namespace) {
            None => return Err(BrokerError::NamespaceNotFound(namespace.to_string())),
            Some(topics) if !topics.is_empty() => {
                let reason = format!("namespace {namespace} still has {} topics", topics.len());
                return Err(BrokerError::InUse(reason));
            }
            Some(_) => {}
        }
        self.records.delete(NAMESPACES, namespace.as_str())?;
        if let Some(tenant) = self.table.write().tenants.get_mut(namespace.tenant()) {
            tenant.remove(namespace);
        }
        Ok(())
    }

    // ---- topics

    pub(crate) fn info(&self, base: &TopicName) -> Option<TopicInfo> {
        self.table.read().topic(base).map(|record| info(base, record))
    }

    pub(crate) fn list(&self, namespace: &NamespaceName) -> Result<Vec<TopicInfo>, BrokerError> {
        match self.table.read().topics(namespace) {
            Some(topics) => Ok(topics.iter().map(|(name, record)| info(name, record)).collect()),
            None => Err(BrokerError::NamespaceNotFound(namespace.to_string())),
        }
    }

    /// All base topics.
    pub(crate) fn names(&self) -> Vec<TopicName> {
        let table = self.table.read();
        table.tenants.values().flat_map(BTreeMap::values).flat_map(BTreeMap::keys).cloned().collect()
    }

    /// How many base topics there are, and how many with partitions counted one by one.
    pub(crate) fn count(&self) -> (u64, u64) {
        let table = self.table.read();
        let topics = table.tenants.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
        topics.fold((0, 0), |(topics, partitions), record| (topics + 1, partitions + record.ids.len() as u64))
    }

    /// Where the entries of a topic, or of one partition, lie. `None` if it is not there, or is a
    /// partitioned base.
    pub(crate) fn id(&self, name: &TopicName) -> Option<TopicId> {
        let table = self.table.read();
        match name.partition() {
            None => table.topic(name).filter(|record| !record.partitioned)?.ids.first().copied(),
            Some(partition) => {
                let record = table.topic(&name.base()).filter(|record| record.partitioned)?;
                record.ids.get(partition as usize).copied()
            }
        }
    }

    pub(crate) fn create_topic(
        &self,
        name: &TopicName,
        partitions: Option<u32>,
        properties: BTreeMap<String, String>,
    ) -> Result<(), BrokerError> {
        check_served(name)?;
        if name.partition().is_some() {
            let reason = format!("{name} is the name of a partition; create {}", name.base());
            return Err(BrokerError::NotAllowed(reason));
        }
        check_properties(&properties)?;
        let n = self.check_partitions(partitions)?;
        match self.table.read().topics(&name.namespace()) {
            None => return Err(BrokerError::NamespaceNotFound(name.namespace().to_string())),
            Some(topics) if topics.contains_key(name) => {
                return Err(BrokerError::AlreadyExists(format!("topic {name}")));
            }
            Some(_) => {}
        }
        let ids = self.new_ids(n)?;
        self.put(name, TopicRecord { ids, partitioned: partitions.is_some(), properties })
    }

    fn check_partitions(&self, partitions: Option<u32>) -> Result<u32, BrokerError> {
        match partitions {
            None => Ok(1),
            Some(0) => Err(BrokerError::Invalid("Number of partitions should be more than 0".to_owned())),
            Some(n) if n > self.max_partitions => Err(BrokerError::Invalid(format!(
                "a topic may have {} partitions, {n} were asked for",
                self.max_partitions
            ))),
            Some(n) => Ok(n),
        }
    }

    fn new_ids(&self, n: u32) -> Result<Vec<TopicId>, BrokerError> {
        Ok((0..n).map(|_| self.records.new_topic_id()).collect::<Result<_, _>>()?)
    }

    pub(crate) fn change_properties(
        &self,
        base: &TopicName,
        change: impl FnOnce(&mut BTreeMap<String, String>),
    ) -> Result<(), BrokerError> {
        let mut record = self.record(base)?;
        change(&mut record.properties);
        check_properties(&record.properties)?;
        self.put(base, record)
    }

    pub(crate) fn update_partitions(&self, base: &TopicName, partitions: u32) -> Result<(), BrokerError> {
        let mut record = self.record(base)?;
        let Some(now) = record.partitions() else {
            return Err(BrokerError::NotAllowed(format!("Topic {base} is not the partitioned topic.")));
        };
        self.check_partitions(Some(partitions))?;
        if partitions < now {
            let reason = format!("topic {base} has {now} partitions and cannot have fewer");
            return Err(BrokerError::Invalid(reason));
        }
        record.ids.extend(self.new_ids(partitions - now)?);
        self.put(base, record)
    }

    /// Deletes a topic, durably. What it had is still to be removed: that is written down where the topic's
    /// record was, so that there is no half of it after a crash.
    pub(crate) fn delete_topic(&self, base: &TopicName) -> Result<Doomed, BrokerError> {
        let TopicRecord { ids, .. } = self.record(base)?;
        // Numbers are given once only, so no other deletion has this key.
        let key = format!("{base} {}", ids.first().map_or(0, |id| id.0));
        self.records.replace((TOPICS, base.as_str()), (DOOMED, &key), &ids)?;
        if let Some(topics) = self.table.write().topics_mut(&base.namespace()) {
            topics.remove(base);
        }
        self.index.remove(base);
        Ok(Doomed { key, name: base.to_string(), ids })
    }

    fn record(&self, base: &TopicName) -> Result<TopicRecord, BrokerError> {
        let table = self.table.read();
        table.topic(base).cloned().ok_or_else(|| BrokerError::TopicNotFound(base.to_string()))
    }

    fn put(&self, base: &TopicName, record: TopicRecord) -> Result<(), BrokerError> {
        self.records.put(TOPICS, base.as_str(), &record)?;
        self.index.put(base, record.partitions(), record.properties.clone());
        if let Some(topics) = self.table.write().topics_mut(&base.namespace()) {
            topics.insert(base.clone(), record);
        }
        Ok(())
    }
}

impl Table {
    fn topics(&self, namespace: &NamespaceName) -> Option<&BTreeMap<TopicName, TopicRecord>> {
        self.tenants.get(namespace.tenant())?.get(namespace)
    }

    fn topics_mut(&mut self, namespace: &NamespaceName) -> Option<&mut BTreeMap<TopicName, TopicRecord>> {
        self.tenants.get_mut(namespace.tenant())?.get_mut(namespace)
    }

    fn topic(&self, base: &TopicName) -> Option<&TopicRecord> {
        self.topics(&base.namespace())?.get(base)
    }
}

fn info(name: &TopicName, record: &TopicRecord) -> TopicInfo {
    TopicInfo { name: name.clone(), partitions: record.partitions(), properties: record.properties.clone() }
}

/// Only persistent topics are served.
pub(crate) fn check_served(name: &TopicName) -> Result<(), BrokerError> {
    match name.domain() {
        Domain::Persistent => Ok(()),
        Domain::NonPersistent => {
            Err(BrokerError::NotAllowed(format!("{name}: non-persistent topics are not served")))
        }
    }
}

fn check_properties(properties: &BTreeMap<String, String>) -> Result<(), BrokerError> {
    check_properties_of("topic", properties)
}

/// Checks how much somebody brings to be kept.
pub(crate) fn check_properties_of(
    whose: &str,
    properties: &BTreeMap<String, String>,
) -> Result<(), BrokerError> {
    let bytes: usize = properties.iter().map(|(key, value)| key.len() + value.len()).sum();
    if properties.len() > MAX_PROPERTIES || bytes > MAX_PROPERTIES_BYTES {
        return Err(BrokerError::Invalid(format!(
            "a {whose} may have {MAX_PROPERTIES} properties of {MAX_PROPERTIES_BYTES} bytes together, \
             these are {} of {bytes} bytes",
            properties.len()
        )));
    }
    Ok(())
}
