//! Files that browsers get, under names that change with their contents: an old page never has a new script.

use std::sync::LazyLock;

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};

use crate::store::digest;

/// A file.
struct Asset {
    /// Its name, with the beginning of its digest.
    name: String,
    kind: &'static str,
    bytes: &'static [u8],
}

fn asset(stem: &str, end: &str, kind: &'static str, bytes: &'static [u8]) -> Asset {
    let hash: String = digest(bytes).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    Asset { name: format!("/a/{stem}.{hash}.{end}"), kind, bytes }
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// All of them: the style, our own script, htmx with its extension for server-sent events, the icon.
static ALL: LazyLock<[Asset; 5]> = LazyLock::new(|| {
    [
        asset("page", "css", "text/css; charset=utf-8", include_bytes!("assets/page.css")),
        asset("htmx", "js", SCRIPT, include_bytes!("assets/htmx.min.js")),
        asset("hx-sse", "js", SCRIPT, include_bytes!("assets/hx-sse.min.js")),
        asset("page", "js", SCRIPT, include_bytes!("assets/page.js")),
        asset("icon", "svg", "image/svg+xml", include_bytes!("assets/icon.svg")),
    ]
});

/// Returns the path of the style.
pub(super) fn style() -> &'static str {
    &ALL[0].name
}

/// Returns the paths of the scripts, in the order in which they are loaded.
pub(super) fn scripts() -> impl Iterator<Item = &'static str> {
    ALL[1..4].iter().map(|asset| asset.name.as_str())
}

/// Returns the path of the icon.
pub(super) fn icon() -> &'static str {
    &ALL[4].name
}

/// Answers with a file.
pub(super) fn answer(path: &str) -> Response {
    let Some(asset) = ALL.iter().find(|asset| asset.name == path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let mut response = Response::new(Body::from(asset.bytes));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(header::CACHE_CONTROL, forever);
    response
}
