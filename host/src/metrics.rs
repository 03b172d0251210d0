//! What weir counts of itself, for `/metrics` in Prometheus' text form.
//!
//! Nothing is labelled with what a peer chooses freely (a topic, a client's name): the number of series
//! does not grow with use. What topics and extensions count is asked of them when they are shown.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The counters of the listeners. Cheap to clone; clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    /// Pulsar connections that are open.
    pub(crate) connections: Gauge,
    /// Pulsar connections that were opened.
    pub(crate) connections_opened: Counter,
    /// Pulsar connections that were refused because there were too many.
    pub(crate) connections_refused: Counter,
    /// Pulsar connections that weir closed because of what the peer sent, or did not send.
    pub(crate) protocol_errors: Counter,
    /// Messages taken from producers and durable.
    pub(crate) published_messages: Counter,
    /// Their bytes, as stored.
    pub(crate) published_bytes: Counter,
    /// Messages handed to consumers' connections.
    pub(crate) delivered_messages: Counter,
    /// Their bytes.
    pub(crate) delivered_bytes: Counter,
    /// Topic listings answered.
    pub(crate) listings: Counter,
    /// Topic listings that failed.
    pub(crate) listings_failed: Counter,
}

impl Metrics {
    /// Names them all in a registry.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let pulsar = registry.sub_registry_with_prefix("weir_pulsar");
        pulsar.register("connections", "Connections that are open", self.connections.clone());
        pulsar.register(
            "connections_opened",
            "Connections that were opened",
            self.connections_opened.clone(),
        );
        pulsar.register(
            "connections_refused",
            "Connections refused because there were too many",
            self.connections_refused.clone(),
        );
        pulsar.register(
            "protocol_errors",
            "Connections closed because of what the peer sent or did not send",
            self.protocol_errors.clone(),
        );
        let weir = registry.sub_registry_with_prefix("weir");
        weir.register("published_messages", "Messages taken and durable", self.published_messages.clone());
        weir.register("published_bytes", "Bytes of them, as stored", self.published_bytes.clone());
        weir.register("delivered_messages", "Messages sent to consumers", self.delivered_messages.clone());
        weir.register("delivered_bytes", "Bytes of them", self.delivered_bytes.clone());
        weir.register("listings", "Topic listings answered", self.listings.clone());
        weir.register("listings_failed", "Topic listings that failed", self.listings_failed.clone());
    }
}
