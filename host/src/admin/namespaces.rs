//! Clusters, brokers, tenants and namespaces.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_broker::NamespaceName;
use weir_extension::{ListRequest, Mode};
use weir_listing::Query;

use super::errors::Refusal;
use super::names::{InNamespace, One, Params};
use super::{Admin, Shared};

pub(super) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/clusters", get(clusters))
        .route("/clusters/{cluster}", get(cluster))
        .route("/brokers/health", get(health))
        .route("/brokers/ready", get(health))
        .route("/tenants", get(tenants))
        .route("/tenants/{tenant}", get(tenant).put(create_tenant).post(update_tenant).delete(delete_tenant))
        .route("/namespaces/{tenant}", get(namespaces))
        .route(
            "/namespaces/{tenant}/{namespace}",
            get(policies).put(create_namespace).delete(delete_namespace),
        )
        .route("/namespaces/{tenant}/{namespace}/topics", get(topics))
}

async fn clusters(State(admin): Shared) -> Json<Vec<String>> {
    Json(vec![admin.config.broker.cluster.clone()])
}

async fn cluster(State(admin): Shared, One(cluster): One) -> Result<Json<Value>, Refusal> {
    if cluster != admin.config.broker.cluster {
        return Err(Refusal::not_found("Cluster does not exist"));
    }
    Ok(Json(json!({ "serviceUrl": "", "brokerServiceUrl": "" })))
}

/// Pulsar's readiness address: `ok`, or 503.
async fn health(State(admin): Shared) -> Result<&'static str, Refusal> {
    match admin.ready.load(Ordering::Relaxed) {
        true => Ok("ok"),
        false => Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "weir is starting or stopping")),
    }
}

async fn tenants(State(admin): Shared) -> Json<Vec<String>> {
    Json(admin.broker.tenants())
}

async fn tenant(State(admin): Shared, One(tenant): One) -> Result<Json<Value>, Refusal> {
    if !admin.broker.tenants().contains(&tenant) {
        return Err(Refusal::not_found("Tenant does not exist"));
    }
    Ok(Json(json!({ "adminRoles": [], "allowedClusters": [admin.config.broker.cluster] })))
}

/// The body names roles and clusters. There are no roles yet, and one cluster, so it is not read.
async fn create_tenant(State(admin): Shared, One(tenant): One) -> Result<StatusCode, Refusal> {
    admin.broker.create_tenant(&tenant).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn update_tenant(State(admin): Shared, one: One) -> Result<StatusCode, Refusal> {
    tenant(State(admin), one).await.map(|_| StatusCode::NO_CONTENT)
}

async fn delete_tenant(State(admin): Shared, One(tenant): One) -> Result<StatusCode, Refusal> {
    admin.broker.delete_tenant(&tenant).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn namespaces(State(admin): Shared, One(tenant): One) -> Result<Json<Vec<NamespaceName>>, Refusal> {
    Ok(Json(admin.broker.namespaces(&tenant)?))
}

/// Those policies that weir has.
async fn policies(State(admin): Shared, InNamespace(namespace): InNamespace) -> Result<Json<Value>, Refusal> {
    exists(&admin, &namespace)?;
    Ok(Json(json!({ "replication_clusters": [admin.config.broker.cluster], "deleted": false })))
}

/// The body holds policies, of which none are kept yet.
async fn create_namespace(
    State(admin): Shared,
    InNamespace(namespace): InNamespace,
) -> Result<StatusCode, Refusal> {
    admin.broker.create_namespace(&namespace).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn delete_namespace(
    State(admin): Shared,
    InNamespace(namespace): InNamespace,
) -> Result<StatusCode, Refusal> {
    admin.broker.delete_namespace(&namespace).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct Modes {
    #[serde(default)]
    mode: Mode,
}

/// What clients with an HTTP service URL ask for a pattern subscription.
async fn topics(
    State(admin): Shared,
    InNamespace(namespace): InNamespace,
    Params(Modes { mode }): Params<Modes>,
) -> Result<Json<Vec<String>>, Refusal> {
    exists(&admin, &namespace)?;
    list(&admin, ListRequest { namespace, mode, properties: Default::default() }).await
}

/// One listing over REST: by the same door as the binary protocol's.
pub(super) async fn list(admin: &Admin, request: ListRequest) -> Result<Json<Vec<String>>, Refusal> {
    match admin.listing.list(Query { request, pattern: None, hash: None }).await {
        Ok(answer) => {
            admin.metrics.listings.inc();
            Ok(Json(answer.topics))
        }
        Err(error) => {
            admin.metrics.listings_failed.inc();
            Err(error.into())
        }
    }
}

pub(super) fn exists(admin: &Admin, namespace: &NamespaceName) -> Result<(), Refusal> {
    match admin.broker.has_namespace(namespace) {
        true => Ok(()),
        false => Err(Refusal::not_found("Namespace does not exist")),
    }
}
