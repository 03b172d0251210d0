//! Which topics a namespace has: GET_TOPICS_OF_NAMESPACE, with properties (PIP-452). Watchers are refused.

use std::sync::Arc;

use weir_broker::NamespaceName;
use weir_extension::{ListRequest, Mode};
use weir_listing::Query;
use weir_wire::pulsar::command::{
    CommandGetTopicsOfNamespace, CommandGetTopicsOfNamespaceResponse, TopicsMode,
};
use weir_wire::pulsar::{FRAME_PADDING, ServerError};

use super::Service;
use super::connection::{Connection, Ended};
use super::errors::Refused;
use super::frames;
use super::outbox::{Closed, Outgoing};

impl Connection<'_> {
    /// Asks in a task of its own, so that sending and acknowledging go on meanwhile.
    pub(super) async fn list_topics(&self, request: CommandGetTopicsOfNamespace) -> Result<(), Ended> {
        let service = Arc::clone(self.service);
        let request_id = request.request_id;
        let few = Arc::clone(&self.listings).acquire_owned().await.map_err(|_never_closed| Closed)?;
        let answer = tokio::spawn(async move { list(&service, request).await });
        let answer = async move {
            let answer = match answer.await {
                Ok(answer) => answer,
                Err(error) => {
                    Err(Refused::new(ServerError::UnknownError, format!("the listing failed: {error}")))
                }
            };
            drop(few);
            Some(answer.unwrap_or_else(|refused| frames::error(request_id, refused.code, refused.text)))
        };
        Ok(self.answers.push(answer).await?)
    }

    /// Watchers are not offered in the handshake: a client that asks all the same is told so.
    pub(super) async fn watch_topics(&self, request_id: u64) -> Result<(), Ended> {
        let text = "topic list watchers are not served; ask for the topics of the namespace instead";
        self.refuse(request_id, Refused::new(ServerError::NotAllowedError, text)).await
    }
}

async fn list(service: &Service, request: CommandGetTopicsOfNamespace) -> Result<Outgoing, Refused> {
    let namespace = NamespaceName::new(&request.namespace)?;
    let mode = match request.mode() {
        TopicsMode::Persistent => Mode::Persistent,
        TopicsMode::NonPersistent => Mode::NonPersistent,
        TopicsMode::All => Mode::All,
    };
    let query = Query {
        request: ListRequest { namespace, mode, properties: frames::properties(request.properties) },
        pattern: request.topics_pattern,
        hash: request.topics_hash,
    };
    let answer = service.listing.list(query).await.inspect_err(|_| {
        service.metrics.listings_failed.inc();
    })?;
    service.metrics.listings.inc();
    let frame = frames::simple(CommandGetTopicsOfNamespaceResponse {
        request_id: request.request_id,
        topics: answer.topics,
        filtered: Some(answer.filtered),
        topics_hash: Some(answer.hash),
        changed: Some(answer.changed),
    });
    // Clients close a connection that sends them more than they were promised.
    let limit = service.limits.max_message_size.bytes() + FRAME_PADDING;
    if frame.head.len() > limit {
        return Err(Refused::new(
            ServerError::MetadataError,
            format!(
                "the list of topics has {} bytes, clients take at most {limit}; ask with a pattern or properties",
                frame.head.len()
            ),
        ));
    }
    Ok(frame)
}
