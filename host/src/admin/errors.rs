//! What a failure is called over HTTP. All admin answers get their status here.

use axum::Json;
use axum::body::to_bytes;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weir_broker::{BindingError, BrokerError, StoreError};
use weir_extension::{ConfigError, NameError, RegisterError, RemoveError, RollbackError, Unavailable};
use weir_listing::ListError;

/// An answer that is not what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) reason: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into() }
    }

    pub(super) fn bad_request(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    pub(super) fn not_found(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, reason)
    }

    pub(super) fn conflict(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, reason)
    }

    pub(super) fn unavailable() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "weir is stopping")
    }

    pub(super) fn too_large(what: &str, bytes: u64, limit: u64, key: &str) -> Self {
        let reason = format!("{what} has {bytes} bytes, at most {limit} are taken ({key})");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, reason)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({ "reason": self.reason }))).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let ask = header::HeaderValue::from_static("Bearer realm=\"weir\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
        }
        response
    }
}

/// Puts what axum itself refuses, in plain text or without a word, into the form of all other refusals.
pub(super) async fn in_json(response: Response) -> Response {
    /// What axum says of a refusal is a sentence.
    const MOST: usize = 4096;
    let status = response.status();
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if is_json || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    // A sentence that cannot be read is one that was not said.
    let said = to_bytes(body, MOST).await.unwrap_or_default();
    let reason = match String::from_utf8_lossy(&said).trim() {
        "" => status.canonical_reason().unwrap_or("refused").to_owned(),
        said => said.to_owned(),
    };
    let mut refusal = Refusal::new(status, reason).into_response();
    // `Allow`, for instance.
    for (name, value) in &parts.headers {
        if name != header::CONTENT_TYPE && name != header::CONTENT_LENGTH {
            refusal.headers_mut().insert(name, value.clone());
        }
    }
    refusal
}

/// Source: the statuses that Pulsar's admin resources answer with.
impl From<BrokerError> for Refusal {
    fn from(error: BrokerError) -> Self {
        let status = match &error {
            BrokerError::TopicNotFound(_)
            | BrokerError::NamespaceNotFound(_)
            | BrokerError::TenantNotFound(_)
            | BrokerError::SubscriptionNotFound(_) => StatusCode::NOT_FOUND,
            BrokerError::AlreadyExists(_)
            | BrokerError::ProducerBusy { .. }
            | BrokerError::ConsumerBusy(_)
            | BrokerError::NotAllowed(_) => StatusCode::CONFLICT,
            BrokerError::InUse(_) | BrokerError::InvalidName(_) => StatusCode::PRECONDITION_FAILED,
            BrokerError::Invalid(_) | BrokerError::TooMany(_) => StatusCode::UNPROCESSABLE_ENTITY,
            BrokerError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            BrokerError::Closing(_) | BrokerError::Storage(StoreError::Paused(_)) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            BrokerError::Binding(error) => of_binding(error),
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl From<BindingError> for Refusal {
    fn from(error: BindingError) -> Self {
        Self::new(of_binding(&error), error.to_string())
    }
}

fn of_binding(error: &BindingError) -> StatusCode {
    match error {
        BindingError::Conflict { .. } | BindingError::FixedByFile { .. } => StatusCode::CONFLICT,
        BindingError::Filter(_) | BindingError::TooManyBindings => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::BAD_REQUEST,
    }
}

impl From<ListError> for Refusal {
    fn from(error: ListError) -> Self {
        let status = match &error {
            ListError::BadPattern { .. }
            | ListError::TooManyProperties { .. }
            | ListError::PropertyTooLong { .. } => StatusCode::BAD_REQUEST,
            ListError::TooManyListings { .. } => StatusCode::TOO_MANY_REQUESTS,
            ListError::Stopped => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl From<RegisterError> for Refusal {
    fn from(error: RegisterError) -> Self {
        let status = match &error {
            RegisterError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            RegisterError::NotAnArtifact { .. } | RegisterError::NativeOverSocket => {
                StatusCode::UNSUPPORTED_MEDIA_TYPE
            }
            RegisterError::ChecksumConflict { .. }
            | RegisterError::ConfigSetByFile { .. }
            | RegisterError::OtherClass { .. }
            | RegisterError::TakenBack { .. }
            | RegisterError::BuiltIn { .. }
            | RegisterError::SourceConflict { .. } => StatusCode::CONFLICT,
            RegisterError::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, error.to_string())
    }
}

impl From<ConfigError> for Refusal {
    fn from(error: ConfigError) -> Self {
        let status = match &error {
            ConfigError::Missing { .. } => StatusCode::NOT_FOUND,
            ConfigError::SetByFile { .. } => StatusCode::CONFLICT,
            ConfigError::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, error.to_string())
    }
}

impl From<RollbackError> for Refusal {
    fn from(error: RollbackError) -> Self {
        let status = match &error {
            RollbackError::Missing { .. } => StatusCode::NOT_FOUND,
            RollbackError::Refused { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            RollbackError::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::CONFLICT,
        };
        Self::new(status, error.to_string())
    }
}

impl From<RemoveError> for Refusal {
    fn from(error: RemoveError) -> Self {
        let status = match &error {
            RemoveError::Missing { .. } => StatusCode::NOT_FOUND,
            RemoveError::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::CONFLICT,
        };
        Self::new(status, error.to_string())
    }
}

impl From<Unavailable> for Refusal {
    fn from(error: Unavailable) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
    }
}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        Self::new(StatusCode::PRECONDITION_FAILED, error.to_string())
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}

impl From<PathRejection> for Refusal {
    fn from(rejection: PathRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}
