//! The model's host, and the way there.

use std::{fmt, net::IpAddr, sync::Arc, task::Poll, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use hyper::{
    Request, Response, Uri,
    body::{Body, Incoming},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use tokio::{net::TcpStream, sync::OnceCell, time::timeout};
use tower_service::Service;

use super::{body::Upload, proxy::through};
use crate::{
    config::{Config, Proxy},
    system::world::World,
};

/// How long a connection that is not used is kept.
const IDLE: Duration = Duration::from_secs(60);
/// How many such connections are kept.
const IDLE_MOST: usize = 16;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Where requests go: scheme, host and what stands before every path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    base: String,
    is_tls: bool,
    /// The way to hosts outside.
    pub(super) proxy: Option<Arc<Proxy>>,
}

/// Where the model's host may be reached without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plain {
    /// On this machine only.
    Here,
    /// Everywhere: the owner trusts the network.
    Everywhere,
}

/// Why an address can't be that of the model's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    #[error("it is no address such as https://api.anthropic.com")]
    NoAddress,
    #[error(
        "without TLS the key could be read on the way, so only a loopback address may be http; if you trust the network, `g2 config set gateway.allow_plain true`"
    )]
    Plain,
    #[error("it must hold no user, `?` or `#`")]
    TooMuch,
}

impl Upstream {
    /// Reads the address in the settings, and the way there.
    ///
    /// # Errors
    /// [`UpstreamError`]: the fault of the address.
    pub fn of(config: &Config) -> Result<Self, UpstreamError> {
        let plain = if config.gateway.allow_plain { Plain::Everywhere } else { Plain::Here };
        let upstream = Self::read(&config.gateway.upstream, plain)?;
        Ok(Self { proxy: config.proxy.clone().map(Arc::new), ..upstream })
    }

    /// Reads the address: `https://HOST[:PORT][/PREFIX]`, or `http` where the host is this machine. The way there is direct.
    ///
    /// # Errors
    /// [`UpstreamError`]: the fault of the address.
    pub fn parse(text: &str) -> Result<Self, UpstreamError> {
        Self::read(text, Plain::Here)
    }

    /// Reads an address that the owner has set for their own texts: with a path and a query, and by TLS or not.
    ///
    /// # Errors
    /// [`UpstreamError`]: the fault of the address.
    pub fn of_owner(text: &str, proxy: Option<Arc<Proxy>>) -> Result<Self, UpstreamError> {
        let uri: Uri = text.parse().map_err(|_| UpstreamError::NoAddress)?;
        if text.contains('#') || uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(UpstreamError::TooMuch);
        }
        match (uri.scheme_str(), uri.host()) {
            (Some(scheme @ ("http" | "https")), Some(_)) => {
                Ok(Self { base: text.to_owned(), is_tls: scheme == "https", proxy })
            }
            (_, _) => Err(UpstreamError::NoAddress),
        }
    }

    fn read(text: &str, plain: Plain) -> Result<Self, UpstreamError> {
        if text.contains(['@', '?', '#']) {
            return Err(UpstreamError::TooMuch);
        }
        let uri: Uri = text.parse().map_err(|_| UpstreamError::NoAddress)?;
        let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else {
            return Err(UpstreamError::NoAddress);
        };
        let is_tls = match scheme {
            "https" => true,
            "http" if plain == Plain::Everywhere || is_loopback(host) => false,
            "http" => return Err(UpstreamError::Plain),
            _ => return Err(UpstreamError::NoAddress),
        };
        Ok(Self { base: text.trim_end_matches('/').to_owned(), is_tls, proxy: None })
    }

    /// Returns the address of a target, which begins with `/`.
    pub(super) fn uri(&self, target: &str) -> Result<Uri, hyper::http::uri::InvalidUri> {
        format!("{}{target}", self.base).parse()
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Asks the model's host over connections that are kept for a while.
pub(super) struct Client {
    world: World,
    connect: Duration,
    /// Made for the first request: reading the machine's root certificates takes its time.
    made: OnceCell<legacy::Client<Dial, Upload>>,
}

impl Client {
    pub(super) fn new(world: World, connect: Duration) -> Self {
        Self { world, connect, made: OnceCell::new() }
    }

    /// Sends a request and waits for the head of the answer. Redirects are not followed.
    pub(super) async fn send(
        &self,
        upstream: &Upstream,
        request: Request<Upload>,
    ) -> Result<Response<Incoming>, BoxError> {
        let client = self.made.get_or_try_init(|| make(&self.world, upstream, self.connect)).await?;
        Ok(client.request(request).await?)
    }
}

/// Makes a client for the model's host; a connection has to stand within `limit`.
pub(super) async fn make<B>(
    world: &World,
    upstream: &Upstream,
    limit: Duration,
) -> Result<legacy::Client<Dial, B>, BoxError>
where
    B: Body + Send,
    B::Data: Send,
{
    let mut plain = HttpConnector::new();
    // A request's head goes out before its body: held back until the head was acknowledged, each would wait for 40 ms.
    plain.set_nodelay(true);
    let over = if upstream.is_tls {
        plain.enforce_http(false);
        let builder = world.tried(|| HttpsConnectorBuilder::new().with_native_roots()).await?;
        let way = Way { plain, proxy: upstream.proxy.clone() };
        Over::Tls(builder.https_only().enable_http1().wrap_connector(way))
    } else {
        Over::Plain(plain)
    };
    Ok(legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_MOST)
        .pool_timer(TokioTimer::new())
        .build(Dial { over, limit }))
}

/// Makes connections, each within its time.
#[derive(Clone)]
pub(super) struct Dial {
    over: Over,
    limit: Duration,
}

#[derive(Clone)]
enum Over {
    Plain(HttpConnector),
    Tls(HttpsConnector<Way>),
}

/// Makes connections below TLS: to the host itself, or by the proxy that it is reached by.
#[derive(Clone)]
struct Way {
    plain: HttpConnector,
    proxy: Option<Arc<Proxy>>,
}

impl Service<Uri> for Way {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), BoxError>> {
        // As that below.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let (host, port) = (to.host().unwrap_or_default().to_owned(), to.port_u16().unwrap_or(443));
        match self.proxy.clone().filter(|proxy| proxy.is_for(&host, port)) {
            Some(proxy) => async move { Ok(TokioIo::new(through(&proxy, &host, port).await?)) }.boxed(),
            None => {
                let connecting = self.plain.call(to);
                async move { Ok(connecting.await?) }.boxed()
            }
        }
    }
}

impl Service<Uri> for Dial {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), BoxError>> {
        // Both kinds are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = match &mut self.over {
            Over::Plain(plain) => {
                let connecting = plain.call(to);
                async { Ok(MaybeHttpsStream::Http(connecting.await?)) }.boxed()
            }
            Over::Tls(tls) => tls.call(to),
        };
        let limit = self.limit;
        async move {
            let late = |_| format!("no connection within {} s", limit.as_secs_f32());
            timeout(limit, connecting).await.map_err(late)?
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_https_or_this_machine() {
        for (text, uri) in [
            ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages?beta=true"),
            (
                "https://proxy.example:8443/anthropic/",
                "https://proxy.example:8443/anthropic/v1/messages?beta=true",
            ),
            ("http://127.0.0.1:4000/lane", "http://127.0.0.1:4000/lane/v1/messages?beta=true"),
            ("http://[::1]:4000", "http://[::1]:4000/v1/messages?beta=true"),
            ("http://localhost", "http://localhost/v1/messages?beta=true"),
        ] {
            let upstream = Upstream::parse(text).unwrap();
            assert_eq!(upstream.uri("/v1/messages?beta=true").unwrap().to_string(), uri);
        }
        for text in
            ["http://192.168.1.20:8000", "http://model.lan/v1", "http://127.0.0.1", "https://a.example"]
        {
            assert!(Upstream::read(text, Plain::Everywhere).is_ok(), "{text}");
        }
        let refused = Upstream::parse("http://192.168.1.20:8000").unwrap_err().to_string();
        assert!(refused.contains("g2 config set gateway.allow_plain true"), "{refused}");
        for (text, error) in [
            ("", UpstreamError::NoAddress),
            ("api.anthropic.com", UpstreamError::NoAddress),
            ("ftp://api.anthropic.com", UpstreamError::NoAddress),
            ("http://api.anthropic.com", UpstreamError::Plain),
            ("http://127.0.0.1.evil.example", UpstreamError::Plain),
            ("https://user:pw@api.anthropic.com", UpstreamError::TooMuch),
            ("https://api.anthropic.com/?x", UpstreamError::TooMuch),
        ] {
            assert_eq!(Upstream::parse(text), Err(error), "{text}");
        }
    }
}
