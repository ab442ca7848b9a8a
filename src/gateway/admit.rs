//! The requests and headers that pass: those that an agent needs. Pure. Both are lists of allowed ones;
//! everything else stays outside, whatever it is.

use std::borrow::Cow;

use hyper::{
    HeaderMap, Method, Uri,
    header::{CONTENT_ENCODING, HeaderName, HeaderValue, TRANSFER_ENCODING},
};

/// A request to the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Whether anybody is there; we answer that ourselves.
    Probe,
    /// Goes to the model's host under this path, `?` and all.
    Pass(String),
    /// Nothing an agent needs.
    No,
}

/// The answer to a request that is not passed on.
pub(super) const WHAT_PASSES: &str = "the gateway passes only POST /v1/messages, POST /v1/messages/count_tokens and \
                                      GET /v1/models on; a container has no other way out";

/// Decides on a request's method and target. A target that names a host is taken for its path: the host is never the
/// agent's choice.
pub(super) fn judge(method: &Method, uri: &Uri) -> Asked {
    let path = uri.path();
    let pass = || Asked::Pass(uri.path_and_query().map_or(path, |target| target.as_str()).to_owned());
    match (method, path) {
        (&Method::HEAD, "/") => Asked::Probe,
        (&Method::POST, "/v1/messages" | "/v1/messages/count_tokens") => pass(),
        (&Method::GET, "/v1/models") => pass(),
        (&Method::GET, _) if path.strip_prefix("/v1/models/").is_some_and(is_model) => pass(),
        _ => Asked::No,
    }
}

/// A model's id, as one segment of a path.
fn is_model(id: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
    (1..=128).contains(&id.len()) && id.chars().all(fits) && id.chars().any(|c| c != '.')
}

/// Whether a request's header is passed on. Keys, cookies, hosts, what concerns the connection, and what nobody knows,
/// are not.
fn passes_up(name: &HeaderName) -> bool {
    let name = name.as_str();
    ["accept", "content-type", "content-encoding", "user-agent", "x-app"].contains(&name)
        || ["anthropic-", "x-stainless-", "x-claude-"].iter().any(|prefix| name.starts_with(prefix))
}

/// Whether an answer's header is passed on.
fn passes_down(name: &HeaderName) -> bool {
    let name = name.as_str();
    ["content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id"].contains(&name)
        || name.starts_with("anthropic-")
}

/// Returns the headers of a request that are passed on.
pub(super) fn request_headers(all: &HeaderMap) -> HeaderMap {
    all.iter()
        .filter(|(name, _)| passes_up(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns the headers of an answer that are passed on: none that holds the real key, be it in its name.
pub(super) fn response_headers(all: &HeaderMap, holds_key: impl Fn(&[u8]) -> bool) -> HeaderMap {
    let holds_none = |name: &HeaderName, value: &HeaderValue| {
        !holds_key(name.as_str().as_bytes()) && !holds_key(value.as_bytes())
    };
    all.iter()
        .filter(|(name, value)| passes_down(name) && holds_none(name, value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns how an answer is packed, if it is.
pub(super) fn packing(headers: &HeaderMap) -> Option<String> {
    let values = |name| headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    // The last of these is framing, which is not passed on.
    let all: Vec<_> = values(CONTENT_ENCODING).chain(values(TRANSFER_ENCODING)).collect();
    let is_plain =
        |word: &str| ["", "identity", "chunked"].contains(&word.trim().to_ascii_lowercase().as_str());
    let packs = |value: &&Cow<'_, str>| !value.split(',').all(is_plain);
    let packing: Vec<_> = all.iter().filter(packs).map(|value| &**value).collect();
    (!packing.is_empty()).then(|| packing.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_agent_needs_passes() {
        let pass = |target: &str| Asked::Pass(target.to_owned());
        for (method, target, expected) in [
            ("POST", "/v1/messages?beta=true", pass("/v1/messages?beta=true")),
            ("POST", "/v1/messages/count_tokens", pass("/v1/messages/count_tokens")),
            ("GET", "/v1/models?limit=1000", pass("/v1/models?limit=1000")),
            ("GET", "/v1/models/claude-opus-5-5", pass("/v1/models/claude-opus-5-5")),
            ("HEAD", "/", Asked::Probe),
            ("POST", "http://evil.example/v1/messages?x", pass("/v1/messages?x")),
            ("GET", "/v1/messages", Asked::No),
            ("GET", "/", Asked::No),
            ("POST", "/v1/messages/", Asked::No),
            ("POST", "/v1/messages/batches", Asked::No),
            ("POST", "//v1/messages", Asked::No),
            ("POST", "/v1/messages/../organizations/api_keys", Asked::No),
            ("GET", "/v1/models/..", Asked::No),
            ("GET", "/v1/models/../organizations", Asked::No),
            ("GET", "/v1/models/%2e%2e%2forganizations", Asked::No),
            ("GET", "/v1/models/", Asked::No),
            ("DELETE", "/v1/models/claude", Asked::No),
            ("POST", "/v1/files", Asked::No),
            ("GET", "/api/oauth/profile", Asked::No),
            ("CONNECT", "evil.example:443", Asked::No),
            ("OPTIONS", "*", Asked::No),
        ] {
            let (method, uri) = (method.parse::<Method>().unwrap(), target.parse::<Uri>().unwrap());
            assert_eq!(judge(&method, &uri), expected, "{method} {target}");
        }
    }

    fn headers(names: &[&'static str]) -> HeaderMap {
        names.iter().map(|name| (HeaderName::from_static(name), "v".parse().unwrap())).collect()
    }

    fn names(map: &HeaderMap) -> Vec<&str> {
        map.keys().map(HeaderName::as_str).collect()
    }

    #[test]
    fn no_key_cookie_host_or_framing_of_the_containers_own_passes() {
        let all = headers(&[
            "x-api-key",
            "authorization",
            "host",
            "cookie",
            "proxy-authorization",
            "forwarded",
            "x-forwarded-for",
            "connection",
            "keep-alive",
            "te",
            "trailer",
            "transfer-encoding",
            "content-length",
            "upgrade",
            "expect",
            "accept-encoding",
            "origin",
            "x-made-up",
            "content-type",
            "anthropic-beta",
            "anthropic-version",
            "user-agent",
            "x-stainless-os",
        ]);
        let passed = request_headers(&all);
        let expected =
            ["content-type", "anthropic-beta", "anthropic-version", "user-agent", "x-stainless-os"];
        assert_eq!(names(&passed), expected);
    }

    #[test]
    fn an_answer_is_packed_where_one_of_its_headers_says_so() {
        for (content, transfer, expected) in [
            (None, None, None),
            (Some("identity"), Some("chunked"), None),
            (Some(""), Some("Chunked"), None),
            (Some("gzip"), Some("chunked"), Some("gzip")),
            (None, Some("gzip, chunked"), Some("gzip, chunked")),
            (None, Some("deflate"), Some("deflate")),
            (Some("identity, br"), Some("gzip"), Some("identity, br, gzip")),
        ] {
            let mut all = HeaderMap::new();
            for (name, value) in [(CONTENT_ENCODING, content), (TRANSFER_ENCODING, transfer)] {
                if let Some(value) = value {
                    all.insert(name, value.parse().unwrap());
                }
            }
            assert_eq!(packing(&all).as_deref(), expected, "{content:?} {transfer:?}");
        }
    }

    #[test]
    fn an_answer_brings_no_cookie_no_redirect_and_no_key() {
        let mut all = headers(&[
            "set-cookie",
            "location",
            "connection",
            "x-api-key",
            "authorization",
            "server",
            "alt-svc",
            "retry-after",
            "request-id",
            "anthropic-ratelimit-requests-remaining",
            "content-type",
        ]);
        all.insert("anthropic-echo", "got sk-real here".parse().unwrap());
        let passed = response_headers(&all, |value| value.windows(7).any(|part| part == b"sk-real"));
        let expected =
            ["retry-after", "request-id", "anthropic-ratelimit-requests-remaining", "content-type"];
        assert_eq!(names(&passed), expected);
    }
}
