//! The client: its connections, and what it asks of a cluster.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::timeout;
use weir_wire::pulsar::Command;
use weir_wire::pulsar::command::{
    CommandGetTopicsOfNamespace, CommandLookupTopic, CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata, KeyValue, LookupType, MetadataLookupType, TopicsMode,
};

use crate::connection::{Connection, Hello};
use crate::error::Error;

/// How a client connects.
#[derive(Clone)]
pub struct ClientOptions {
    /// A token, if the server wants one. Default: none.
    pub token: Option<String>,
    /// How long any answer may take. Default: 30 s.
    pub timeout: Duration,
    /// How long a server may be silent before it is asked; silent twice as long, it is given up.
    /// Default: 30 s, as all clients.
    pub keep_alive: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        let half_a_minute = Duration::from_secs(30);
        Self { token: None, timeout: half_a_minute, keep_alive: half_a_minute }
    }
}

impl std::fmt::Debug for ClientOptions {
    /// Without the token: what is printed may be kept.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientOptions")
            .field("timeout", &self.timeout)
            .field("keep_alive", &self.keep_alive)
            .finish_non_exhaustive()
    }
}

/// A client of one cluster. Clones share its connections, one to each server.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: ClientOptions,
    service: String,
    /// Grows with the servers that serve our topics; ended connections are replaced when asked for.
    connections: Mutex<HashMap<Target, Connection>>,
    /// Producers and consumers are told apart by number, over all connections.
    next_id: AtomicU64,
}

/// Where a connection goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    /// Host and port.
    address: String,
    /// Through the service address to this broker, where brokers cannot be reached.
    proxy_to: Option<String>,
}

/// What a namespace holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicList {
    /// Full names, partitions one by one.
    pub topics: Vec<String>,
    /// Whether the pattern has been applied. If not, all topics are here, and the caller applies it.
    pub filtered: bool,
    /// The hash of the list, to ask with the next time.
    pub hash: Option<String>,
    /// False if the list has the hash that was asked with; `topics` is empty then.
    pub changed: bool,
}

/// A lookup that is passed on more often goes in circles.
const MAX_REDIRECTS: u32 = 20;

/// The port of `pulsar://host`.
const DEFAULT_PORT: &str = ":6650";

impl Client {
    /// Connects to a service address, `pulsar://host:port`; several hosts may be given, with commas.
    ///
    /// # Errors
    /// When the address is none, or no host of it answers.
    pub async fn connect(service_url: &str, options: ClientOptions) -> Result<Self, Error> {
        let hosts = hosts(service_url)?;
        let mut last = Error::Url { url: service_url.to_owned(), reason: "it names no host" };
        for service in hosts {
            let client = Self {
                inner: Arc::new(Inner {
                    options: options.clone(),
                    service,
                    connections: Mutex::default(),
                    next_id: AtomicU64::new(0),
                }),
            };
            match client.service().await {
                Ok(_) => return Ok(client),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The partitions of a topic, as names that can be produced to and subscribed: `…-partition-0` and so
    /// on, or its own if it has none. With `create`, a topic that does not exist may come into being.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn partitions(&self, topic: &str, create: bool) -> Result<Vec<String>, Error> {
        let service = self.service().await?;
        let answer = service
            .request(|request_id| CommandPartitionedTopicMetadata {
                topic: topic.to_owned(),
                request_id,
                metadata_auto_creation_enabled: Some(create),
                ..Default::default()
            })
            .await?;
        let Command::PartitionedTopicMetadataResponse(answer) = answer else {
            return Err(Error::Answer { request: "PARTITIONED_METADATA", answer: answer.name() });
        };
        // Absent means failed, which the getter would not say: zero is success.
        let succeeded = answer.response == Some(MetadataLookupType::Success.into());
        if !succeeded || answer.error.is_some() {
            return Err(Error::Server {
                request: "PARTITIONED_METADATA",
                error: answer.error(),
                message: answer.message.unwrap_or_else(|| topic.to_owned()),
            });
        }
        Ok(match answer.partitions() {
            0 => vec![topic.to_owned()],
            number => (0..number).map(|partition| format!("{topic}-partition-{partition}")).collect(),
        })
    }

    /// The topics of a namespace `tenant/name`, through the server's lister (PIP-452).
    ///
    /// `pattern` is applied by the server if it can, see [`TopicList::filtered`]. `hash` is that of a list
    /// that the caller has.
    ///
    /// # Errors
    /// When the server refuses, or its lister breaks: there is never a part of the list.
    pub async fn topics_of_namespace(
        &self,
        namespace: &str,
        mode: TopicsMode,
        pattern: Option<&str>,
        properties: &[(String, String)],
        hash: Option<&str>,
    ) -> Result<TopicList, Error> {
        let service = self.service().await?;
        let answer = service
            .request(|request_id| CommandGetTopicsOfNamespace {
                request_id,
                namespace: namespace.to_owned(),
                mode: Some(mode.into()),
                topics_pattern: pattern.map(str::to_owned),
                topics_hash: hash.map(str::to_owned),
                properties: pairs(properties),
            })
            .await?;
        match answer {
            Command::GetTopicsOfNamespaceResponse(answer) => Ok(TopicList {
                filtered: answer.filtered(),
                changed: answer.changed(),
                topics: answer.topics,
                hash: answer.topics_hash,
            }),
            other => Err(Error::Answer { request: "GET_TOPICS_OF_NAMESPACE", answer: other.name() }),
        }
    }

    /// A connection to the server that serves `topic`, which is not partitioned, or a partition.
    ///
    /// # Errors
    /// When there is none, or it cannot be reached.
    pub(crate) async fn connection_for(&self, topic: &str) -> Result<Connection, Error> {
        let mut asked = self.service().await?;
        let mut authoritative = false;
        for _ in 0..MAX_REDIRECTS {
            let answer = lookup(&asked, topic, authoritative).await?;
            let url = answer.broker_service_url.as_deref().unwrap_or_default();
            let broker = hosts(url)?.remove(0);
            let target = if answer.proxy_through_service_url() {
                Target { address: self.inner.service.clone(), proxy_to: Some(broker) }
            } else {
                Target { address: broker, proxy_to: None }
            };
            let connection = self.connection(target).await?;
            if answer.response == Some(LookupType::Connect.into()) {
                return Ok(connection);
            }
            authoritative = answer.authoritative();
            asked = connection;
        }
        Err(Error::Redirects { topic: topic.to_owned(), redirects: MAX_REDIRECTS })
    }

    /// A number for a producer or consumer.
    pub(crate) fn next_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// How long any answer may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.inner.options.timeout
    }

    async fn service(&self) -> Result<Connection, Error> {
        self.connection(Target { address: self.inner.service.clone(), proxy_to: None }).await
    }

    /// The connection that goes there, opened if there is none or it has ended.
    async fn connection(&self, target: Target) -> Result<Connection, Error> {
        let open = self.inner.connections.lock().get(&target).filter(|open| !open.is_closed()).cloned();
        if let Some(open) = open {
            return Ok(open);
        }
        let opened = self.open(&target).await?;
        // Two may have opened one at once: the first to come stays, the other ends unused.
        let mut connections = self.inner.connections.lock();
        if let Some(first) = connections.get(&target).filter(|open| !open.is_closed()) {
            return Ok(first.clone());
        }
        connections.insert(target, opened.clone());
        Ok(opened)
    }

    async fn open(&self, target: &Target) -> Result<Connection, Error> {
        let options = &self.inner.options;
        let failed = |source| Error::Connect { address: target.address.clone(), source: Arc::new(source) };
        let Ok(connected) = timeout(options.timeout, TcpStream::connect(&target.address)).await else {
            return Err(failed(std::io::ErrorKind::TimedOut.into()));
        };
        let stream = connected.map_err(failed)?;
        // Requests are small, and each is waited for.
        stream.set_nodelay(true).map_err(failed)?;
        let hello = Hello {
            token: options.token.clone(),
            proxy_to: target.proxy_to.clone(),
            timeout: options.timeout,
            keep_alive: options.keep_alive,
        };
        Connection::open(stream, hello).await
    }
}

async fn lookup(
    connection: &Connection,
    topic: &str,
    authoritative: bool,
) -> Result<CommandLookupTopicResponse, Error> {
    let answer = connection
        .request(|request_id| CommandLookupTopic {
            topic: topic.to_owned(),
            request_id,
            authoritative: Some(authoritative),
            ..Default::default()
        })
        .await?;
    let Command::LookupTopicResponse(answer) = answer else {
        return Err(Error::Answer { request: "LOOKUP", answer: answer.name() });
    };
    let found = [LookupType::Connect, LookupType::Redirect].map(|found| Some(i32::from(found)));
    if !found.contains(&answer.response) {
        return Err(Error::Server {
            request: "LOOKUP",
            error: answer.error(),
            message: answer.message.unwrap_or_else(|| topic.to_owned()),
        });
    }
    Ok(answer)
}

/// Properties as they are sent.
pub(crate) fn pairs(properties: &[(String, String)]) -> Vec<KeyValue> {
    properties.iter().map(|(name, value)| KeyValue::new(name, value)).collect()
}

/// The partition that a topic's name says; −1 if it says none.
pub(crate) fn partition_of(topic: &str) -> i32 {
    topic.rsplit_once("-partition-").and_then(|(_, number)| number.parse().ok()).unwrap_or(-1)
}

/// The hosts of a service address, each with its port. At least one.
fn hosts(url: &str) -> Result<Vec<String>, Error> {
    let refuse = |reason| Error::Url { url: url.to_owned(), reason };
    if url.starts_with("pulsar+ssl://") {
        return Err(refuse("TLS is not spoken; expected pulsar://host:port"));
    }
    let rest = url.strip_prefix("pulsar://").ok_or_else(|| refuse("expected pulsar://host:port"))?;
    let rest = rest.trim_end_matches('/');
    let hosts: Vec<_> = rest.split(',').map(str::trim).map(with_port).collect();
    if hosts.iter().any(|host| host.starts_with(':') || host.contains('/')) {
        return Err(refuse("expected pulsar://host:port"));
    }
    Ok(hosts)
}

fn with_port(host: &str) -> String {
    // The colons of an address of version 6 lie within brackets.
    let after = host.rsplit(']').next().unwrap_or(host);
    if after.contains(':') { host.to_owned() } else { format!("{host}{DEFAULT_PORT}") }
}

#[cfg(test)]
mod tests;
