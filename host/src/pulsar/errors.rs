//! What a failure is called on the wire. All answers of this protocol get their code here.

use weir_broker::{BrokerError, StoreError};
use weir_extension::NameError;
use weir_listing::ListError;
use weir_wire::pulsar::ServerError;

/// A request is answered with this instead of what it asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// What the client's code branches on.
    pub(super) code: ServerError,
    /// What a person reads.
    pub(super) text: String,
}

impl Refused {
    pub(super) fn new(code: ServerError, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// A consumer that this connection does not have. Pulsar says `MetadataError`.
    pub(super) fn no_consumer() -> Self {
        Self::new(ServerError::MetadataError, "Consumer not found")
    }
}

impl From<NameError> for Refused {
    fn from(error: NameError) -> Self {
        // Pulsar has no code for a malformed namespace, and this one says what is wrong.
        Self::new(ServerError::InvalidTopicName, error.to_string())
    }
}

impl From<BrokerError> for Refused {
    fn from(error: BrokerError) -> Self {
        Self::new(code(&error), error.to_string())
    }
}

impl Refused {
    /// What a SEND is answered with. Whatever kept it from being stored, the client is to send it again.
    pub(super) fn of_send(error: BrokerError) -> Self {
        match error {
            BrokerError::Storage(_) => Self::new(ServerError::PersistenceError, error.to_string()),
            other => Self::from(other),
        }
    }
}

impl From<ListError> for Refused {
    fn from(error: ListError) -> Self {
        let code = match &error {
            ListError::TooManyListings { .. } => ServerError::TooManyRequests,
            ListError::Stopped => ServerError::ServiceNotReady,
            // Pulsar's for whatever its listing plug-in throws, and for patterns that do not compile.
            _ => ServerError::MetadataError,
        };
        Self::new(code, error.to_string())
    }
}

/// Source: Pulsar `BrokerServiceException.getClientErrorCode`.
fn code(error: &BrokerError) -> ServerError {
    match error {
        BrokerError::TopicNotFound(_) => ServerError::TopicNotFound,
        // Pulsar: "Namespace not found" comes out of its metadata store.
        BrokerError::NamespaceNotFound(_) | BrokerError::TenantNotFound(_) => ServerError::TopicNotFound,
        BrokerError::SubscriptionNotFound(_) => ServerError::SubscriptionNotFound,
        BrokerError::ProducerBusy { .. } => ServerError::ProducerBusy,
        BrokerError::ConsumerBusy(_) => ServerError::ConsumerBusy,
        BrokerError::InvalidName(_) => ServerError::InvalidTopicName,
        BrokerError::InUse(_) | BrokerError::AlreadyExists(_) | BrokerError::Invalid(_) => {
            ServerError::MetadataError
        }
        BrokerError::NotAllowed(_) | BrokerError::TooLarge { .. } => ServerError::NotAllowedError,
        BrokerError::TooMany(_) => ServerError::TooManyRequests,
        // Clients come again, by themselves, after ever longer pauses.
        BrokerError::Closing(_) | BrokerError::Storage(StoreError::Paused(_)) => ServerError::ServiceNotReady,
        BrokerError::Storage(_) => ServerError::PersistenceError,
        _ => ServerError::UnknownError,
    }
}

#[cfg(test)]
mod tests {
    use weir_broker::Paused;

    use super::*;

    #[test]
    fn codes_are_those_that_clients_branch_on() {
        let text = String::new;
        for (error, code) in [
            (BrokerError::TopicNotFound(text()), ServerError::TopicNotFound),
            (BrokerError::SubscriptionNotFound(text()), ServerError::SubscriptionNotFound),
            (BrokerError::ConsumerBusy(text()), ServerError::ConsumerBusy),
            (BrokerError::ProducerBusy { producer: text(), topic: text() }, ServerError::ProducerBusy),
            (BrokerError::InUse(text()), ServerError::MetadataError),
            (BrokerError::NotAllowed(text()), ServerError::NotAllowedError),
            (BrokerError::TooLarge { size: 2, max: 1 }, ServerError::NotAllowedError),
            (BrokerError::TooMany(text()), ServerError::TooManyRequests),
            (BrokerError::Closing(text()), ServerError::ServiceNotReady),
        ] {
            assert_eq!(Refused::from(error).code, code);
        }
    }

    #[test]
    fn a_paused_store_sends_producers_away_and_has_messages_sent_again() {
        let paused = || {
            let retry_in = std::time::Duration::from_secs(3);
            BrokerError::Storage(StoreError::Paused(Paused { cause: "no space".into(), retry_in }))
        };
        let text = "storage is paused: no space, next try in 3 s";
        assert_eq!(Refused::from(paused()), Refused::new(ServerError::ServiceNotReady, text));
        assert_eq!(Refused::of_send(paused()), Refused::new(ServerError::PersistenceError, text));
    }

    #[test]
    fn a_bad_name_is_told_with_its_reason() {
        let error = weir_extension::TopicName::new("x://y").unwrap_err();
        let refused = Refused::from(error);
        assert_eq!(refused.code, ServerError::InvalidTopicName);
        assert!(refused.text.contains("x://y"), "{}", refused.text);
    }
}
