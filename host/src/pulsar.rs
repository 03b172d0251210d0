//! The listener for Pulsar clients: unmodified ones of Java, C++, Python, Go and Rust.
//!
//! Bytes become frames and commands in `weir-wire`; a [`connection`](connection::Connection) takes them
//! one after another; each family of commands has a file, which turns a command into calls of the broker
//! and their outcome into an answer. What a failure is called on the wire is decided in [`errors`] alone.

mod ack;
mod connection;
mod consumer;
mod decoder;
mod errors;
mod frames;
mod handshake;
mod lane;
mod lookup;
mod outbox;
mod producer;
mod schema;
mod seek;
mod send;
mod topics;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, debug, info_span, warn};
use weir_broker::{Broker, Listing};
use weir_wire::pulsar::{NO_REQUEST, ServerError};

use crate::config::Limits;
use crate::metrics::Metrics;

pub(crate) use decoder::PulsarEntries;

/// What all connections share.
pub(crate) struct Service {
    /// The embedded broker.
    pub(crate) broker: Arc<Broker>,
    /// Which topics a client may see.
    pub(crate) listing: Arc<Listing>,
    /// What one peer may make us hold.
    pub(crate) limits: Limits,
    /// Where lookups send clients.
    pub(crate) advertised: Advertised,
    /// What is counted.
    pub(crate) metrics: Metrics,
}

/// Where clients are told to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advertised {
    /// `host`, `host:port`, or nothing.
    configured: String,
    /// The port that we listen on.
    port: u16,
}

impl Advertised {
    /// `configured` is `listen.advertised`; `port` the port that was bound.
    pub(crate) fn new(configured: &str, port: u16) -> Self {
        Self { configured: configured.to_owned(), port }
    }

    /// `host:port` for a client that reached us at `local`, which is an address that works for it.
    pub(crate) fn address(&self, local: SocketAddr) -> String {
        let has_port = |text: &str| {
            let port = text.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
            // An IPv6 address without brackets has colons and no port.
            matches!(port, Some((host, Ok(_))) if !host.contains(':') || host.ends_with(']'))
        };
        match self.configured.as_str() {
            "" => SocketAddr::new(local.ip(), self.port).to_string(),
            host if has_port(host) => host.to_owned(),
            host if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{}", self.port),
            host => format!("{host}:{}", self.port),
        }
    }
}

/// How long to wait before accepting again when the system gives no socket (too many open files).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until `stop`, then waits until those that are open have sent what is under way.
pub(crate) async fn serve(listener: TcpListener, service: Arc<Service>, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let free = Arc::new(Semaphore::new(service.limits.connections));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "no connection could be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&free).try_acquire_owned() else {
            refuse(&socket, &service);
            continue;
        };
        service.metrics.connections_opened.inc();
        let (service, stop) = (Arc::clone(&service), stop.clone());
        let span = info_span!("pulsar", %peer);
        connections.spawn(
            async move {
                service.metrics.connections.inc();
                connection::run(socket, &service, stop).await;
                service.metrics.connections.dec();
                drop(permit);
            }
            .instrument(span),
        );
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Tells a client that there are too many, as far as that goes without waiting, and closes.
fn refuse(socket: &TcpStream, service: &Service) {
    service.metrics.connections_refused.inc();
    let text = format!("too many connections; at most {} are served", service.limits.connections);
    let frame = frames::error(NO_REQUEST, ServerError::NotAllowedError, text);
    if let Err(error) = socket.try_write(&frame.head) {
        debug!(%error, "a connection too many was closed without a word");
    }
}
