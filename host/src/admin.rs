//! The admin address: Pulsar's REST as far as command line, listing and `pulsar-admin` need it, weir's own
//! under `/weir/v1`, and `/metrics`.
//!
//! One file for each family of addresses. Errors are `{"reason": "…"}` everywhere, as Pulsar's; which
//! status stands for which failure is decided in [`errors`] alone.

mod auth;
mod bindings;
mod errors;
mod extensions;
mod listener;
mod logs;
mod metrics;
mod names;
mod namespaces;
mod properties;
mod status;
mod subscriptions;
mod topics;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::debug;
use weir_broker::{Bindings, Broker, Domain, Listing};
use weir_extension::Extensions;

use crate::config::Config;
use crate::metrics::Metrics;
use crate::pulsar::Advertised;
use crate::token::Token;

use errors::Refusal;
use listener::Bounded;

/// What admin calls are answered from.
pub(crate) struct Admin {
    pub(crate) broker: Arc<Broker>,
    pub(crate) extensions: Arc<Extensions>,
    pub(crate) listing: Arc<Listing>,
    pub(crate) bindings: Arc<Bindings>,
    pub(crate) config: Config,
    /// What registrations must bring; `None` where nothing is needed.
    pub(crate) token: Option<Token>,
    pub(crate) advertised: Advertised,
    /// Where the Pulsar listener is bound.
    pub(crate) pulsar: SocketAddr,
    pub(crate) metrics: Metrics,
    /// Artifacts that may be taken in at one time; others wait unread.
    pub(crate) uploads: Semaphore,
    /// Those who may follow log lines at one time.
    pub(crate) followers: Arc<Semaphore>,
    /// Ends the serving of admin calls, and what goes on until then.
    pub(crate) stop: CancellationToken,
    /// Whether clients may come: set once everything is served, unset when a stop begins.
    pub(crate) ready: AtomicBool,
}

/// Uploads at one time: each holds an artifact of up to `plugins.max-artifact-size` in memory.
pub(crate) const MAX_UPLOADS: usize = 4;

/// Followers of log lines at one time, of which each keeps a connection.
pub(crate) const MAX_FOLLOWERS: usize = 16;

type Shared = axum::extract::State<Arc<Admin>>;

/// Serves until [`Admin::stop`], then ends once the calls under way are answered.
///
/// # Errors
/// When the listener fails.
pub(crate) async fn serve(listener: TcpListener, admin: Arc<Admin>) -> std::io::Result<()> {
    let (limits, stop) = (&admin.config.limits, admin.stop.clone());
    let listener = Bounded::new(listener, limits.admin_connections, limits.admin_idle);
    let service = router(admin).into_make_service_with_connect_info::<SocketAddr>();
    // Axum knows the peer's address behind its own wrapper only.
    axum::serve(listener.tap_io(|_peer| ()), service).with_graceful_shutdown(stop.cancelled_owned()).await
}

/// All addresses.
pub(crate) fn router(admin: Arc<Admin>) -> Router {
    let body = admin.config.limits.admin_body.bytes();
    let own = Router::new()
        .merge(extensions::routes())
        .merge(logs::routes())
        .merge(bindings::routes())
        .route_layer(middleware::from_fn_with_state(Arc::clone(&admin), auth::registrations));
    Router::new()
        .nest("/weir/v1", own.merge(status::routes()))
        .route("/metrics", get(metrics::show))
        .nest("/admin/v2", namespaces::routes())
        .nest("/admin/v2/persistent", topics::routes(Domain::Persistent))
        .nest("/admin/v2/non-persistent", topics::routes(Domain::NonPersistent))
        .nest("/lookup/v2", topics::lookup_routes())
        .fallback(no_such_address)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(body))
        .layer(middleware::map_response(errors::in_json))
        .layer(middleware::from_fn(log))
        .with_state(admin)
}

async fn no_such_address(request: Request) -> Refusal {
    Refusal::not_found(format!("there is nothing at {}", request.uri().path()))
}

async fn no_such_method(request: Request) -> Refusal {
    Refusal::new(
        axum::http::StatusCode::METHOD_NOT_ALLOWED,
        format!("{} does not serve {}", request.uri().path(), request.method()),
    )
}

async fn log(ConnectInfo(peer): ConnectInfo<SocketAddr>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    debug!(%peer, %method, path, status = response.status().as_u16(), "admin call");
    response
}
