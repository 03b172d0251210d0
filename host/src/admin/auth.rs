//! Who may register: whoever brings the token, where there is one.

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::errors::Refusal;

/// Lets calls that only read pass, and calls that change something if they bring the token.
pub(super) async fn registrations(State(admin): Shared, request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let Some(token) = admin.token.as_ref().filter(|_| !reads) else {
        return next.run(request).await;
    };
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let offered = header.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim);
    match offered {
        Some(offered) if token.matches(offered) => next.run(request).await,
        Some(_) => Refusal::new(StatusCode::UNAUTHORIZED, "the token is not the one of this weir").into_response(),
        None => Refusal::new(
            StatusCode::UNAUTHORIZED,
            "registering needs the token of this weir: send \"Authorization: Bearer TOKEN\", or set WEIR_TOKEN for the command line",
        )
        .into_response(),
    }
}
