//! Names and parameters out of addresses.
//!
//! A topic is one segment of the address, percent-encoded once; what comes out of that is its name,
//! spelled as it was created.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use weir_broker::{Domain, NamespaceName, TopicName};
use weir_extension::ClassName;

use super::Admin;
use super::errors::Refusal;

/// `{tenant}/{namespace}` of an address.
pub(super) struct InNamespace(pub(super) NamespaceName);

/// The topic that an address names: `{tenant}/{namespace}/{topic}`, in the domain that it lies under.
pub(super) struct Named(pub(super) TopicName);

/// `{topic}` of an address, as it stands there.
pub(super) struct Segment(pub(super) String);

/// The domain that an address lies under.
pub(super) struct In(pub(super) Domain);

/// `{class}` of an address.
pub(super) struct Class(pub(super) ClassName);

/// The parameters of an address; one that cannot be read is answered as every other error.
pub(super) struct Params<T>(pub(super) T);

/// The segments of an address by name.
pub(super) struct Segments<T>(pub(super) T);

/// The one segment that an address has.
pub(super) struct One(pub(super) String);

/// The body of a call, whole.
pub(super) struct Sent(pub(super) Bytes);

/// A body of JSON, whatever its content type: `pulsar-admin` has several for the same.
pub(super) fn from_json<T: DeserializeOwned>(body: &[u8], expected: &str) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::bad_request(format!("the body is not {expected}: {error}")))
}

async fn path<T: DeserializeOwned + Send, S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
) -> Result<T, Refusal> {
    let Path(path) = Path::<T>::from_request_parts(parts, state)
        .await
        .map_err(|error: PathRejection| Refusal::from(error))?;
    Ok(path)
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        #[derive(Deserialize)]
        struct Segments {
            tenant: String,
            namespace: String,
            topic: String,
        }
        let In(domain) = In::from_request_parts(parts, state).await?;
        let Segments { tenant, namespace, topic } = path(parts, state).await?;
        Ok(Self(TopicName::new(&format!("{}://{tenant}/{namespace}/{topic}", domain.as_str()))?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        #[derive(Deserialize)]
        struct Segments {
            topic: String,
        }
        let Segments { topic } = path(parts, state).await?;
        Ok(Self(topic))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for In {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let domain = parts.extensions.get::<Domain>().copied();
        Ok(Self(domain.expect("the routes of topics are layered with their domain")))
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Segments<T> {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        path(parts, state).await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for One {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        path(parts, state).await.map(Self)
    }
}

impl FromRequest<Arc<Admin>> for Sent {
    type Rejection = Refusal;
    async fn from_request(request: Request, admin: &Arc<Admin>) -> Result<Self, Refusal> {
        Bytes::from_request(request, admin).await.map(Self).map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Refusal::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body has more than {} (limits.admin-body)", admin.config.limits.admin_body),
            ),
            status => Refusal::new(status, format!("the body could not be read: {}", rejection.body_text())),
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for InNamespace {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        #[derive(Deserialize)]
        struct Segments {
            tenant: String,
            namespace: String,
        }
        let Segments { tenant, namespace } = path(parts, state).await?;
        Ok(Self(NamespaceName::new(&format!("{tenant}/{namespace}"))?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Class {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        #[derive(Deserialize)]
        struct Segment {
            class: String,
        }
        let Segment { class } = path(parts, state).await?;
        match ClassName::new(&class) {
            Ok(class) => Ok(Self(class)),
            Err(reason) => Err(Refusal::new(StatusCode::BAD_REQUEST, reason)),
        }
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        let Query(params) = query.map_err(|error: QueryRejection| Refusal::from(error))?;
        Ok(Self(params))
    }
}
