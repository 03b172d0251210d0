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

/// 200 while clients may come, 503 before that and once a stop has begun.
async fn ready(State(admin): Shared) -> impl IntoResponse {
    let ready = admin.ready.load(Ordering::Relaxed);
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": ready })))
}
