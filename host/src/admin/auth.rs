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
    match header.and_then(bearer) {
        Some(offered) if token.matches(offered) => next.run(request).await,
        Some(_) => Refusal::new(StatusCode::UNAUTHORIZED, "the token is not the one of this weir").into_response(),
        None => Refusal::new(
            StatusCode::UNAUTHORIZED,
            "registering needs the token of this weir: send \"Authorization: Bearer TOKEN\", or set WEIR_TOKEN for the command line",
        )
        .into_response(),
    }
}

/// The token of an `Authorization` header; `None` if its scheme is another. Schemes have no case: RFC 9110.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then_some(token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_has_no_case_and_the_token_has_one() {
        for (header, token) in [
            ("Bearer Abc", Some("Abc")),
            ("bearer Abc", Some("Abc")),
            ("BEARER  Abc ", Some("Abc")),
            ("Basic Abc", None),
            ("BearerAbc", None),
            ("Bearer", None),
            ("", None),
        ] {
            assert_eq!(bearer(header), token, "{header:?}");
        }
    }
}
