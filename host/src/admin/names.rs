//! Names and parameters out of addresses.
//!
//! A topic is one segment of the address, percent-encoded once; what comes out of that is its name,
//! spelled as it was created.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use weir_broker::{Domain, NamespaceName, TopicName};
use weir_extension::ClassName;

use super::errors::Refusal;

/// `{tenant}/{namespace}` of an address.
pub(super) struct InNamespace(pub(super) NamespaceName);

/// `{tenant}/{namespace}/{topic}` of an address, without its domain.
#[derive(Deserialize)]
pub(super) struct Local {
    tenant: String,
    namespace: String,
    topic: String,
}

/// `{class}` of an address.
pub(super) struct Class(pub(super) ClassName);

/// The parameters of an address; one that cannot be read is answered as every other error.
pub(super) struct Params<T>(pub(super) T);

impl Local {
    /// The segment itself.
    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    /// The topic's name, in the domain that the address stands for.
    pub(super) fn name(&self, domain: Domain) -> Result<TopicName, Refusal> {
        let text = format!("{}://{}/{}/{}", domain.as_str(), self.tenant, self.namespace, self.topic);
        Ok(TopicName::new(&text)?)
    }
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

impl<S: Send + Sync> FromRequestParts<S> for Local {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        path(parts, state).await
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
