//! gRPC-Web, for programs in browsers: the same calls over HTTP/1.1 or HTTP/2, on the gRPC port.
//!
//! Protocol: <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md>. A browser sends a call of a page only if
//! the gateway names the origin of the page (CORS). No origin is named unless the operator gives it, since a page acts
//! with the token of its user.

mod plain;

use std::str::FromStr;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Uri, header};
use tonic_web::GrpcWebLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

pub(crate) use plain::GrpcOnlyLayer;

/// How long a browser may remember that an origin is allowed.
const REMEMBERED: Duration = Duration::from_secs(600);
/// What a page may read of an answer without a body.
const READ: [HeaderName; 3] = [
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status-details-bin"),
];
/// What a page may send.
const SENT: [HeaderName; 5] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    HeaderName::from_static("grpc-timeout"),
    HeaderName::from_static("x-grpc-web"),
    HeaderName::from_static("x-user-agent"),
];

/// The origin of web pages that may call the gateway, such as `https://console.example.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrigin(HeaderValue);

/// A text that is no origin. Give a scheme and a host, and nothing behind the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "accepted: SCHEME://HOST or SCHEME://HOST:PORT with http or https, such as https://console.example.com"
)]
pub struct WebOriginError;

impl FromStr for WebOrigin {
    type Err = WebOriginError;

    fn from_str(text: &str) -> Result<Self, WebOriginError> {
        let uri: Uri = text.parse().map_err(|_| WebOriginError)?;
        let (scheme, authority) = (uri.scheme_str(), uri.authority().map(http::uri::Authority::as_str));
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (scheme, authority) else {
            return Err(WebOriginError);
        };
        // A browser sends it in this form and no other. So it is compared byte by byte.
        if authority.contains('@')
            || text != format!("{scheme}://{authority}")
            || text != text.to_ascii_lowercase()
        {
            return Err(WebOriginError);
        }
        HeaderValue::from_str(text).map(Self).map_err(|_| WebOriginError)
    }
}

/// What a call of a browser passes first: the question of the browser, and the form of gRPC-Web.
pub(crate) fn web_layers(origins: Vec<WebOrigin>) -> (CorsLayer, GrpcWebLayer) {
    let cors = CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins.into_iter().map(|WebOrigin(origin)| origin)))
        .allow_methods([Method::POST])
        .allow_headers(SENT)
        .expose_headers(READ)
        .max_age(REMEMBERED);
    (cors, GrpcWebLayer::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_what_a_browser_sends() {
        for good in ["https://console.example.com", "http://127.0.0.1:5173", "http://[::1]:80"] {
            assert!(good.parse::<WebOrigin>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "*",
            "null",
            "console.example.com",
            "https://console.example.com/",
            "https://console.example.com/x",
            "https://ann@console.example.com",
            "https://Console.example.com",
            "ftp://console.example.com",
            "https://a b",
        ] {
            assert_eq!(bad.parse::<WebOrigin>(), Err(WebOriginError), "{bad}");
        }
    }
}
