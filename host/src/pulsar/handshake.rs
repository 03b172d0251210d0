//! CONNECT.

use tracing::{debug, info};
use weir_wire::pulsar::PROTOCOL_VERSION;
use weir_wire::pulsar::command::{CommandConnect, CommandConnected, FeatureFlags};

use super::connection::{Connection, Ended};
use super::frames;

/// Clients show it in their logs; C++ ones fail without it.
const SERVER_VERSION: &str = concat!("Pulsar Server (weir ", env!("CARGO_PKG_VERSION"), ")");

/// How much of what a client calls itself is logged.
const MAX_SHOWN: usize = 100;

impl Connection<'_> {
    /// Greets. There is no authentication yet: whoever reaches the port is served.
    pub(super) async fn connect(&mut self, request: CommandConnect) -> Result<(), Ended> {
        if self.greeted {
            return Err(Ended::Violation("a second CONNECT came".into()));
        }
        let protocol = request.protocol_version.unwrap_or(0).min(PROTOCOL_VERSION);
        let client: String = request.client_version.chars().take(MAX_SHOWN).collect();
        info!(client, protocol, "connected");
        if let Some(broker) = request.proxy_to_broker_url {
            // There is one broker, and the client has reached it.
            debug!(broker, "asked to go through us to a broker");
        }
        let max_message_size = self.service.limits.max_message_size.bytes();
        let connected = CommandConnected {
            server_version: SERVER_VERSION.to_owned(),
            protocol_version: Some(protocol),
            max_message_size: Some(i32::try_from(max_message_size).unwrap_or(i32::MAX)),
            feature_flags: Some(FeatureFlags {
                // Topic watchers are not offered: they would undo a listing by properties.
                supports_get_partitioned_metadata_without_auto_creation: Some(true),
                ..FeatureFlags::default()
            }),
        };
        self.greeted = true;
        // Not by the lane: nothing may precede it, and a PONG does not wait for lanes.
        Ok(self.outbox.send(frames::simple(connected)).await?)
    }
}
