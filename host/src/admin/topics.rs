//! Topics: listing, creating, properties, partitions, statistics, deleting, and where they are served.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::get;
use axum::{Extension, Json, Router};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use weir_broker::{Domain, TopicInfo, TopicName, TopicStats};
use weir_extension::{ListRequest, Mode};

use super::errors::Refusal;
use super::names::{In, InNamespace, Named, Params, Segment, Segments, Sent, from_json};
use super::namespaces::{exists, list};
use super::{Admin, Shared, properties, subscriptions};

/// Everything under `/admin/v2/{domain}`.
pub(super) fn routes(domain: Domain) -> Router<Arc<Admin>> {
    Router::new()
        .route("/{tenant}/{namespace}", get(topics))
        .route("/{tenant}/{namespace}/{topic}", get(partitioned).put(create).delete(delete))
        .route(
            "/{tenant}/{namespace}/{topic}/partitions",
            get(partitions).put(create_partitioned).post(update_partitions).delete(delete_partitioned),
        )
        .route("/{tenant}/{namespace}/{topic}/stats", get(stats))
        .route("/{tenant}/{namespace}/{topic}/partitioned-stats", get(partitioned_stats))
        .route(
            "/{tenant}/{namespace}/{topic}/properties",
            get(show_properties).put(update_properties).delete(remove_property),
        )
        .merge(subscriptions::routes())
        .layer(Extension(domain))
}

/// Everything under `/lookup/v2`.
pub(super) fn lookup_routes() -> Router<Arc<Admin>> {
    Router::new().route("/topic/{domain}/{tenant}/{namespace}/{topic}", get(lookup))
}

#[derive(Deserialize)]
struct ListParams {
    #[serde(default)]
    properties: String,
}

/// Topics that a client with these properties may see; see [`properties::parse`]. Partitions one by one.
async fn topics(
    State(admin): Shared,
    In(domain): In,
    InNamespace(namespace): InNamespace,
    Params(params): Params<ListParams>,
) -> Result<Json<Vec<String>>, Refusal> {
    let properties = properties::parse(&params.properties).map_err(Refusal::bad_request)?;
    exists(&admin, &namespace)?;
    let mode = match domain {
        Domain::Persistent => Mode::Persistent,
        Domain::NonPersistent => Mode::NonPersistent,
    };
    list(&admin, ListRequest { namespace, mode, properties }).await
}

/// `…/partitioned`: base names of partitioned topics. One route with the topics', so that a topic of that
/// name can be created and deleted, too.
async fn partitioned(
    State(admin): Shared,
    In(domain): In,
    InNamespace(namespace): InNamespace,
    Segment(topic): Segment,
) -> Result<Json<Vec<TopicName>>, Refusal> {
    if topic != "partitioned" {
        let reason = "a topic itself is not shown; ask for its stats, properties or partitions";
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, reason));
    }
    let topics = admin.broker.list(&namespace)?;
    let wanted = |topic: &TopicInfo| topic.partitions.is_some() && topic.name.domain() == domain;
    Ok(Json(topics.into_iter().filter(wanted).map(|topic| topic.name).collect()))
}

/// Body: the properties, as a JSON map; may be empty.
async fn create(State(admin): Shared, Named(name): Named, Sent(body): Sent) -> Result<StatusCode, Refusal> {
    let properties = json_or_default(&body, "a map of properties, as in {\"env\": \"prod\"}")?;
    admin.broker.create_topic(&name, None, properties).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Body: the number of partitions; or, to say properties too, an object of both.
async fn create_partitioned(
    State(admin): Shared,
    Named(name): Named,
    Sent(body): Sent,
) -> Result<StatusCode, Refusal> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Body {
        Number(i64),
        Metadata {
            partitions: i64,
            #[serde(default)]
            properties: Option<BTreeMap<String, String>>,
        },
    }
    let expected = "a number of partitions, or {\"partitions\": 3, \"properties\": {…}}";
    let (partitions, properties) = match from_json(&body, expected)? {
        Body::Number(partitions) => (partitions, None),
        Body::Metadata { partitions, properties } => (partitions, properties),
    };
    let partitions = number_of_partitions(partitions, StatusCode::NOT_ACCEPTABLE)?;
    admin.broker.create_topic(&name, Some(partitions), properties.unwrap_or_default()).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn update_partitions(
    State(admin): Shared,
    Named(name): Named,
    Sent(body): Sent,
) -> Result<StatusCode, Refusal> {
    let partitions = from_json(&body, "a number of partitions")?;
    let partitions = number_of_partitions(partitions, StatusCode::UNPROCESSABLE_ENTITY)?;
    admin.broker.update_partitions(&name, partitions).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn number_of_partitions(partitions: i64, status: StatusCode) -> Result<u32, Refusal> {
    let number = u32::try_from(partitions).ok().filter(|number| *number > 0);
    number.ok_or_else(|| Refusal::new(status, "Number of partitions should be more than 0"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataParams {
    #[serde(default)]
    check_allow_auto_creation: bool,
}

async fn partitions(
    State(admin): Shared,
    Named(name): Named,
    Params(params): Params<MetadataParams>,
) -> Result<Json<Value>, Refusal> {
    match admin.broker.info(&name.base()) {
        Some(info) if name.partition().is_none() => Ok(Json(json!({
            "partitions": info.partitions.unwrap_or(0),
            "deleted": false,
            "properties": info.properties,
        }))),
        // One partition is a topic that has none.
        Some(_) => Ok(Json(json!({ "partitions": 0, "deleted": false }))),
        None if params.check_allow_auto_creation && admin.config.broker.auto_create_topics => {
            Ok(Json(json!({ "partitions": 0, "deleted": false })))
        }
        None => Err(not_found(&name)),
    }
}

#[derive(Deserialize)]
struct DeleteParams {
    #[serde(default)]
    force: bool,
}

async fn delete(
    State(admin): Shared,
    Named(name): Named,
    Params(params): Params<DeleteParams>,
) -> Result<StatusCode, Refusal> {
    if info(&admin, &name)?.partitions.is_some() {
        return Err(Refusal::conflict(format!("{name} is a partitioned topic; delete it by …/partitions")));
    }
    admin.broker.delete_topic(&name, params.force).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn delete_partitioned(
    State(admin): Shared,
    Named(name): Named,
    Params(params): Params<DeleteParams>,
) -> Result<StatusCode, Refusal> {
    if info(&admin, &name)?.partitions.is_none() {
        return Err(Refusal::conflict(format!("Topic {name} is not the partitioned topic.")));
    }
    admin.broker.delete_topic(&name, params.force).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn stats(State(admin): Shared, Named(name): Named) -> Result<Json<TopicStats>, Refusal> {
    if name.partition().is_none() && info(&admin, &name)?.partitions.is_some() {
        return Err(Refusal::not_found(format!(
            "{name} is a partitioned topic; ask for its partitioned-stats"
        )));
    }
    Ok(Json(admin.broker.stats(&name).await?))
}

/// What the partitions tell, one by one, and the sums of what can be summed.
async fn partitioned_stats(State(admin): Shared, Named(name): Named) -> Result<Json<Value>, Refusal> {
    let info = info(&admin, &name)?;
    let Some(number) = info.partitions else {
        return Err(Refusal::not_found(format!("Topic {name} is not the partitioned topic.")));
    };
    let mut partitions = BTreeMap::new();
    for index in 0..number {
        let partition = name.with_partition(index);
        let stats = admin.broker.stats(&partition).await?;
        partitions.insert(partition.as_str().to_owned(), stats);
    }
    let sum = |of: fn(&TopicStats) -> u64| partitions.values().map(of).sum::<u64>();
    Ok(Json(json!({
        "msgInCounter": sum(|stats| stats.msg_in_counter),
        "bytesInCounter": sum(|stats| stats.bytes_in_counter),
        "msgOutCounter": sum(|stats| stats.msg_out_counter),
        "bytesOutCounter": sum(|stats| stats.bytes_out_counter),
        "storageSize": sum(|stats| stats.storage_size),
        "backlogSize": sum(|stats| stats.backlog_size),
        "metadata": { "partitions": number, "deleted": false, "properties": info.properties },
        "partitions": partitions,
    })))
}

async fn show_properties(
    State(admin): Shared,
    Named(name): Named,
) -> Result<Json<BTreeMap<String, String>>, Refusal> {
    Ok(Json(info(&admin, &name.base())?.properties))
}

/// Body: a JSON map, merged into what there is. In force for listings when this is answered.
async fn update_properties(
    State(admin): Shared,
    Named(name): Named,
    Sent(body): Sent,
) -> Result<StatusCode, Refusal> {
    if name.domain() == Domain::NonPersistent {
        return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, "Need to provide a persistent topic name"));
    }
    let properties = from_json(&body, "a map of properties, as in {\"env\": \"prod\"}")?;
    admin.broker.update_properties(&name.base(), properties).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct KeyParams {
    key: String,
}

async fn remove_property(
    State(admin): Shared,
    Named(name): Named,
    Params(params): Params<KeyParams>,
) -> Result<StatusCode, Refusal> {
    admin.broker.remove_property(&name.base(), &params.key).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct LookupSegments {
    domain: String,
    tenant: String,
    namespace: String,
    topic: String,
}

/// Where the topic is served: here, at the address that clients are told.
async fn lookup(
    State(admin): Shared,
    Segments(segments): Segments<LookupSegments>,
    headers: HeaderMap,
) -> Result<Json<Value>, Refusal> {
    let LookupSegments { domain, tenant, namespace, topic } = segments;
    let name = TopicName::new(&format!("{domain}://{tenant}/{namespace}/{topic}"))?;
    exists(&admin, &name.namespace())?;
    let address = admin.advertised.address(admin.local_address());
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let url = format!("pulsar://{address}");
    Ok(Json(json!({
        "brokerId": address,
        "brokerUrl": url,
        "nativeUrl": url,
        "httpUrl": format!("http://{host}"),
        "brokerUrlSsl": "",
    })))
}

impl Admin {
    /// The address of the Pulsar listener as seen from this machine.
    fn local_address(&self) -> SocketAddr {
        let ip = match self.pulsar.ip() {
            ip if ip.is_unspecified() => std::net::Ipv4Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, self.pulsar.port())
    }
}

fn info(admin: &Admin, name: &TopicName) -> Result<TopicInfo, Refusal> {
    admin.broker.info(name).ok_or_else(|| not_found(name))
}

fn not_found(name: &TopicName) -> Refusal {
    Refusal::not_found(format!("Topic {name} not found"))
}

fn json_or_default<T: DeserializeOwned + Default>(body: &[u8], expected: &str) -> Result<T, Refusal> {
    if body.trim_ascii().is_empty() { Ok(T::default()) } else { from_json(body, expected) }
}
