//! Bindings: which filters stand between which topics and subscriptions.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use weir_broker::{Binding, Target, TopicName};
use weir_filter::{FilterRef, OnFailure, Origin};

use super::errors::Refusal;
use super::names::{Params, Sent, from_json};
use super::{Admin, Shared};

pub(super) fn routes() -> Router<Arc<Admin>> {
    Router::new().route("/bindings", get(list).put(put).delete(remove))
}

/// Which binding is meant.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Which {
    topic: Option<TopicName>,
    pattern: Option<String>,
    subscription: Option<String>,
}

/// A binding as it is sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    topic: Option<TopicName>,
    pattern: Option<String>,
    subscription: Option<String>,
    filters: Vec<FilterRef>,
    #[serde(default)]
    on_failure: OnFailure,
}

async fn list(State(admin): Shared) -> Json<Vec<Binding>> {
    Json(admin.bindings.list())
}

/// Sets a binding, or replaces the one of the same target and subscription. In force, and kept, when
/// this is answered.
async fn put(State(admin): Shared, Sent(body): Sent) -> Result<StatusCode, Refusal> {
    let expected = "a binding, as in {\"topic\": \"…\", \"subscription\": \"…\", \"filters\": [\"class\"]}";
    let written: Written = from_json(&body, expected)?;
    let binding = Binding {
        target: target(written.topic, written.pattern)?,
        subscription: written.subscription,
        filters: written.filters,
        on_failure: written.on_failure,
        origin: Origin::Rest,
    };
    admin.broker.put_binding(binding).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn remove(State(admin): Shared, Params(which): Params<Which>) -> Result<StatusCode, Refusal> {
    let target = target(which.topic, which.pattern)?;
    match admin.broker.remove_binding(&target, which.subscription.as_deref()).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Refusal::not_found(format!("there is no such binding of {target}"))),
    }
}

fn target(topic: Option<TopicName>, pattern: Option<String>) -> Result<Target, Refusal> {
    match (topic, pattern) {
        (Some(topic), None) => Ok(Target::Topic(topic)),
        (None, Some(pattern)) => Ok(Target::Pattern(pattern)),
        (Some(_), Some(_)) => Err(Refusal::bad_request("topic and pattern are both given; one has to go")),
        (None, None) => Err(Refusal::bad_request("neither topic nor pattern is given")),
    }
}
