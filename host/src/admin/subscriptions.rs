//! Subscriptions of a topic.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, put};
use axum::{Json, Router};
use serde::Deserialize;
use weir_broker::{Start, Topic, TopicName};

use super::errors::Refusal;
use super::names::{Named, Params, Segments, Sent};
use super::{Admin, Shared};

pub(super) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/{tenant}/{namespace}/{topic}/subscriptions", get(list))
        .route("/{tenant}/{namespace}/{topic}/subscription/{subscription}", put(create).delete(delete))
}

#[derive(Deserialize)]
struct Subscription {
    subscription: String,
}

#[derive(Deserialize)]
struct DeleteParams {
    #[serde(default)]
    force: bool,
}

async fn list(State(admin): Shared, Named(name): Named) -> Result<Json<Vec<String>>, Refusal> {
    Ok(Json(topic(&admin, &name).await?.subscriptions()))
}

/// Body: `"earliest"`, or anything else for the end of the topic. Pulsar sends a message id, too; only
/// its two ends are served.
async fn create(
    State(admin): Shared,
    Named(name): Named,
    Segments(path): Segments<Subscription>,
    Sent(body): Sent,
) -> Result<StatusCode, Refusal> {
    let earliest = body.windows(8).any(|word| word.eq_ignore_ascii_case(b"earliest")) || is_first(&body);
    let start = if earliest { Start::Earliest } else { Start::Latest };
    topic(&admin, &name).await?.create_subscription(&path.subscription, start).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Whether a body is the message id −1:−1, as `pulsar-admin` sends for "earliest".
fn is_first(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct MessageId {
        ledger_id: i64,
    }
    serde_json::from_slice::<MessageId>(body).is_ok_and(|id| id.ledger_id == -1)
}

async fn delete(
    State(admin): Shared,
    Named(name): Named,
    Segments(path): Segments<Subscription>,
    Params(params): Params<DeleteParams>,
) -> Result<StatusCode, Refusal> {
    topic(&admin, &name).await?.delete_subscription(&path.subscription, params.force).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn topic(admin: &Admin, name: &TopicName) -> Result<Arc<Topic>, Refusal> {
    Ok(admin.broker.topic(name, false).await?)
}
