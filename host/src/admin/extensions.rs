//! Extensions: what there is, registering, removing, configuring.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::Value;
use tracing::info;
use weir_extension::{ExtensionInfo, Extensions, RefusedFile, Registered, RolledBack, Source};

use super::errors::Refusal;
use super::names::{Class, Params, Sent, from_json};
use super::{Admin, Shared};

pub(super) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/extensions", get(list))
        .route("/extensions/{class}", get(show).put(register).delete(remove))
        .route("/extensions/{class}/config", get(config).put(set_config).delete(clear_config))
        .route("/extensions/{class}/rollback", post(rollback))
        .route("/refused", get(refused))
}

async fn list(State(admin): Shared) -> Json<Vec<ExtensionInfo>> {
    Json(admin.extensions.list())
}

/// Files of the drop folder that are not in force, and why.
async fn refused(State(admin): Shared) -> Result<Json<Vec<RefusedFile>>, Refusal> {
    blocking(&admin, Extensions::refused).await.map(Json)
}

async fn show(State(admin): Shared, Class(class): Class) -> Result<Json<ExtensionInfo>, Refusal> {
    match admin.extensions.info(&class) {
        Some(info) => Ok(Json(info)),
        None => Err(Refusal::not_found(format!("{class} is not registered"))),
    }
}

/// `?force=true` of a call.
#[derive(Deserialize)]
struct Force {
    #[serde(default)]
    force: bool,
}

/// Body: a component. 201 if the class is new, 200 if it replaces a version or nothing has changed. The header
/// `X-Weir-Config`, a configuration in JSON, comes into force with it, or neither does. With `?force=true` also
/// what was taken back before.
///
/// Too large a body is refused from the length that it announces, before any of it is read.
async fn register(
    State(admin): Shared,
    Class(class): Class,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Params(Force { force }): Params<Force>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Registered>), Refusal> {
    let limit = admin.config.plugins.max_artifact_size;
    let announced =
        text(&headers, header::CONTENT_LENGTH.as_str())?.and_then(|length| length.parse::<u64>().ok());
    if let Some(announced) = announced.filter(|announced| *announced > limit.0) {
        return Err(Refusal::too_large("the artifact", announced, limit.0, "plugins.max-artifact-size"));
    }
    let crc32 = match text(&headers, "x-weir-crc32")? {
        None => None,
        Some(hex) => Some(u32::from_str_radix(hex, 16).map_err(|error| {
            Refusal::bad_request(format!("X-Weir-Crc32 is {hex:?}, expected up to 8 hex digits: {error}"))
        })?),
    };
    let sha256 = text(&headers, "x-weir-sha256")?.map(str::to_ascii_lowercase);
    let config = match headers.get("x-weir-config") {
        None => None,
        Some(json) => {
            Some(from_json::<Value>(json.as_bytes(), "a configuration in JSON").map_err(|refusal| {
                Refusal::bad_request(refusal.reason.replacen("the body", "the header X-Weir-Config", 1))
            })?)
        }
    };
    let _one_of_few = admin.uploads.acquire().await.map_err(|_never_closed| Refusal::unavailable())?;
    let bytes = to_bytes(body, limit.bytes()).await.map_err(|error| match announced {
        // Nobody announced a length, and reading went on to the limit.
        None => Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the artifact could not be read, or has more than {limit} (plugins.max-artifact-size): {error}"),
        ),
        Some(_) => Refusal::bad_request(format!("the artifact could not be read: {error}")),
    })?;
    let from = format!("PUT from {peer}");
    let source = Source::Upload { class, bytes, crc32, sha256, config, force, from };
    let registered = blocking(&admin, move |extensions| extensions.register(source)).await??;
    info!(class = %registered.class, crc32 = registered.crc32, %peer,
        unchanged = registered.unchanged, configured = registered.configured, "registered by REST");
    let status = match registered.unchanged || registered.replaced {
        true => StatusCode::OK,
        false => StatusCode::CREATED,
    };
    Ok((status, Json(registered)))
}

/// Back to the version before. 409 if none is kept.
async fn rollback(
    State(admin): Shared,
    Class(class): Class,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
) -> Result<Json<RolledBack>, Refusal> {
    let by = format!("POST from {peer}");
    let rolled_back = blocking(&admin, move |extensions| extensions.rollback(&class, &by)).await??;
    Ok(Json(rolled_back))
}

async fn remove(
    State(admin): Shared,
    Class(class): Class,
    Params(Force { force }): Params<Force>,
) -> Result<StatusCode, Refusal> {
    blocking(&admin, move |extensions| extensions.remove(&class, force)).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// The configuration that is set for the class.
async fn config(State(admin): Shared, Class(class): Class) -> Result<Json<Value>, Refusal> {
    match admin.extensions.config(&class) {
        Some(set) => Ok(Json(set.config)),
        None => Err(Refusal::not_found(format!("no configuration is set for {class}"))),
    }
}

async fn set_config(
    State(admin): Shared,
    Class(class): Class,
    Sent(body): Sent,
) -> Result<StatusCode, Refusal> {
    let config: Value = from_json(&body, "a configuration in JSON")?;
    blocking(&admin, move |extensions| extensions.set_config(&class, config)).await??;
    Ok(StatusCode::NO_CONTENT)
}

async fn clear_config(State(admin): Shared, Class(class): Class) -> Result<StatusCode, Refusal> {
    blocking(&admin, move |extensions| extensions.clear_config(&class)).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Runs what compiles, opens, writes or asks the disk on a thread that may wait.
async fn blocking<T: Send + 'static>(
    admin: &Admin,
    work: impl FnOnce(&Extensions) -> T + Send + 'static,
) -> Result<T, Refusal> {
    let extensions = Arc::clone(&admin.extensions);
    let done = tokio::task::spawn_blocking(move || work(&extensions)).await;
    done.map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("it was given up: {error}")))
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Refusal> {
    match headers.get(name).map(|value| value.to_str()) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text.trim())),
        Some(Err(_)) => Err(Refusal::bad_request(format!("the header {name} is not text"))),
    }
}
