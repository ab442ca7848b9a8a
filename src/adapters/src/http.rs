//! Asks a platform over HTTPS, within bounds of time and bytes, and tells whether it may have heard.

use std::{error::Error, sync::Arc, time::Duration};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Uri,
    body::{Body, Bytes, Incoming},
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::{
        legacy::{
            Client,
            connect::{HttpConnector, proxy::Tunnel},
        },
        proxy::matcher::Matcher,
    },
    rt::{TokioExecutor, TokioTimer},
};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(15);
/// How long a connection that is not used is kept: shorter than platforms keep it, so that no request meets its end.
const IDLE: Duration = Duration::from_secs(15);
/// How many such connections are kept.
const IDLE_MOST: usize = 4;

/// A client that keeps its connections. Clones share them. `B` is what its requests carry.
pub struct Http<B = Full<Bytes>> {
    over: Arc<Over<B>>,
    /// What it calls itself.
    agent: &'static str,
    /// What stands before a token.
    scheme: &'static str,
}

enum Over<B> {
    Plain(Client<HttpConnector, B>),
    Tls(Client<HttpsConnector<HttpConnector>, B>),
    /// By a proxy, which sees the host alone.
    Proxied(Client<HttpsConnector<Tunnel<HttpConnector>>, B>),
}

impl<B> Clone for Http<B> {
    fn clone(&self) -> Self {
        Self { over: Arc::clone(&self.over), agent: self.agent, scheme: self.scheme }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    pub method: Method,
    pub url: String,
    /// A token for `Authorization`; marked so that nothing shows it.
    pub bearer: Option<String>,
    pub content_type: Option<String>,
    pub body: Bytes,
    /// How long all of it may take.
    pub within: Duration,
    /// The longest answer, bytes.
    pub most: usize,
}

/// An answer, whatever its status is.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why there is no answer. Its text names no address, for that may hold a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Nothing of the request went out.
    #[error("the platform can't be reached: {0}")]
    NotAsked(String),
    /// The platform may have heard it.
    #[error("the platform did not answer: {0}")]
    Unknown(String),
}

impl<B> Http<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Makes a client for a base address: `https://…`, or `http://` where it is this machine. A connection over TLS goes by the
    /// proxy of `HTTPS_PROXY`, unless `NO_PROXY` names its host.
    ///
    /// # Errors
    /// What is wrong with the address, or with the machine's root certificates.
    pub fn new(base: &str) -> Result<Self, String> {
        Self::over(base, false)
    }

    /// As [`Http::new`], and `http://` may be any machine: what is sent can be read on the way.
    ///
    /// # Errors
    /// As [`Http::new`].
    pub fn also_plain(base: &str) -> Result<Self, String> {
        Self::over(base, true)
    }

    fn over(base: &str, also_plain: bool) -> Result<Self, String> {
        const NONE: &str = "it is no address such as https://matrix.example.org";
        let uri: Uri = base.parse().map_err(|_| NONE)?;
        if base.contains(['@', '?', '#']) {
            return Err(NONE.into());
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let loopback =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let mut plain = HttpConnector::new();
        plain.set_nodelay(true);
        plain.set_connect_timeout(Some(CONNECT));
        plain.set_keepalive(Some(Duration::from_secs(30)));
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_MOST)
            .pool_timer(TokioTimer::new())
            .retry_canceled_requests(false);
        let over = match uri.scheme_str() {
            Some("http") if loopback || also_plain => Over::Plain(builder.build(plain)),
            Some("https") => {
                plain.enforce_http(false);
                let roots = HttpsConnectorBuilder::new()
                    .with_native_roots()
                    .map_err(|error| format!("this machine has no root certificates: {error}"))?;
                let tls = roots.https_only().enable_http1();
                match Matcher::from_env().intercept(&uri) {
                    Some(proxy) => {
                        let way = Tunnel::new(proxy.uri().clone(), plain);
                        let way = match proxy.basic_auth() {
                            Some(who) => way.with_auth(who.clone()),
                            None => way,
                        };
                        Over::Proxied(builder.build(tls.wrap_connector(way)))
                    }
                    None => Over::Tls(builder.build(tls.wrap_connector(plain))),
                }
            }
            Some("http") => {
                return Err(
                    "without TLS the token could be read on the way; only this machine may be http".into()
                );
            }
            _ => return Err(NONE.into()),
        };
        let agent = concat!("g2-channels/", env!("CARGO_PKG_VERSION"));
        Ok(Self { over: Arc::new(over), agent, scheme: "Bearer" })
    }

    /// Calls itself otherwise, and puts another word before a token, where a platform insists on that.
    #[must_use]
    pub fn named(self, agent: &'static str, scheme: &'static str) -> Self {
        Self { agent, scheme, ..self }
    }

    /// Sends a request, and returns the answer as it begins.
    ///
    /// # Errors
    /// There is none.
    pub async fn send(&self, request: Request<B>) -> Result<Response<Incoming>, NoAnswer> {
        let answer = match &*self.over {
            Over::Plain(client) => client.request(request).await,
            Over::Tls(client) => client.request(request).await,
            Over::Proxied(client) => client.request(request).await,
        };
        answer.map_err(|error| {
            let why = chain(&error);
            if error.is_connect() { NoAnswer::NotAsked(why) } else { NoAnswer::Unknown(why) }
        })
    }
}

impl Http {
    /// Asks, and reads the whole answer.
    ///
    /// # Errors
    /// There is no answer, or none within its bounds.
    pub async fn ask(&self, ask: Ask) -> Result<Answer, NoAnswer> {
        let not_asked = |why: String| NoAnswer::NotAsked(why);
        let mut request = Request::builder().method(ask.method).uri(ask.url).header(USER_AGENT, self.agent);
        if let Some(kind) = ask.content_type {
            request = request.header(CONTENT_TYPE, kind);
        }
        if let Some(token) = ask.bearer {
            let mut value = HeaderValue::from_str(&format!("{} {token}", self.scheme))
                .map_err(|_| not_asked("the token holds characters that no token has".into()))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request
            .body(Full::new(ask.body))
            .map_err(|_| not_asked("our own fault: the address can't be asked".into()))?;
        let asked = async {
            let (head, body) = self.send(request).await?.into_parts();
            let body = Limited::new(body, ask.most).collect().await;
            let body = body.map_err(|error| NoAnswer::Unknown(error.to_string()))?.to_bytes();
            Ok(Answer { status: head.status, headers: head.headers, body })
        };
        let late = || NoAnswer::Unknown(format!("no answer within {} s", ask.within.as_secs()));
        tokio::time::timeout(ask.within, asked).await.map_err(|_| late())?
    }
}

/// Returns an error with its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(cause) = at {
        text = format!("{text}: {cause}");
        at = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    fn ask(url: String) -> Ask {
        Ask {
            method: Method::GET,
            url,
            bearer: Some("secret".into()),
            content_type: None,
            body: Bytes::new(),
            within: Duration::from_secs(20),
            most: 100,
        }
    }

    #[test]
    fn a_token_goes_over_tls_or_stays_on_this_machine() {
        for (base, fits) in [
            ("http://127.0.0.1:1", true),
            ("http://[::1]:1", true),
            ("http://localhost:1", true),
            ("http://matrix.example.org", false),
            ("http://127.0.0.1.example.org", false),
            ("https://u@matrix.example.org", false),
            ("ftp://x", false),
            ("x", false),
        ] {
            assert_eq!(Http::<Full<Bytes>>::new(base).is_ok(), fits, "{base}");
        }
    }

    #[tokio::test]
    async fn who_was_not_asked_and_who_may_have_heard_are_told_apart() {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/secret-in-a-path", free.local_addr().unwrap());
        let http: Http = Http::new(&url).unwrap();
        let server = tokio::spawn(async move {
            // It hears and leaves; then it says too much; then it is gone.
            let (mut one, _) = free.accept().await.unwrap();
            let mut heard = [0; 4096];
            assert!(one.read(&mut heard).await.unwrap() > 0);
            drop(one);
            let (mut two, _) = free.accept().await.unwrap();
            assert!(two.read(&mut heard).await.unwrap() > 0);
            let long = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 101\r\n\r\n{}",
                "x".repeat(101)
            );
            two.write_all(long.as_bytes()).await.unwrap();
            let (mut three, _) = free.accept().await.unwrap();
            assert!(three.read(&mut heard).await.unwrap() > 0);
            three
                .write_all(b"HTTP/1.1 429 No\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
                .await
                .unwrap();
        });
        for _ in 0..2 {
            let error = http.ask(ask(url.clone())).await.unwrap_err();
            assert!(matches!(error, NoAnswer::Unknown(_)), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let answer = http.ask(ask(url.clone())).await.unwrap();
        assert_eq!((answer.status.as_u16(), &answer.body[..]), (429, &b"{}"[..]));
        server.await.unwrap();
        let error = http.ask(ask(url)).await.unwrap_err();
        assert!(matches!(error, NoAnswer::NotAsked(_)), "{error}");
    }
}
