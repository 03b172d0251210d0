//! Whether weir is ready.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use super::{Admin, Shared};

pub(super) fn routes() -> Router<Arc<Admin>> {
    Router::new().route("/ready", get(ready))
}

/// 200 while clients may come; 503 with the reason before that, once a stop has begun, while nothing can be
/// stored, and while no topic can be listed.
async fn ready(State(admin): Shared) -> impl IntoResponse {
    match unready(&admin).await {
        None => (StatusCode::OK, Json(json!({ "ready": true }))),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "ready": false, "reason": reason }))),
    }
}

async fn unready(admin: &Admin) -> Option<String> {
    if !admin.ready.load(Ordering::Relaxed) {
        return Some("weir is starting or stopping".to_owned());
    }
    if let Some(paused) = admin.broker.paused() {
        return Some(paused.to_string());
    }
    let listed = admin.listing.ready().await;
    listed.err().map(|error| format!("no topic can be listed (listing.class): {error}"))
}
