//! The listener: who is let in, how long anything may take, and what every answer carries.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::DefaultBodyLimit,
    http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header},
    response::IntoResponse as _,
    routing::{get, post},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tower_service::Service as _;

use super::{
    Served, Web, act, assets,
    codes::Codes,
    crowd::{Crowd, Full, Guest, Holder},
    enter, hooks, live, pages, parted,
    patience::Patient,
    said::Said,
    scripts,
    upload::Places,
};
use crate::{
    domain::{
        machine::web::{Door, Knock, Turned},
        shown::errors::chain,
    },
    store::Store,
    system::world::World,
};

/// How long a head may take to come, and a connection may rest between two requests.
const HEAD_WITHIN: Duration = Duration::from_secs(15);
/// The longest head, bytes.
const HEAD: usize = 32 << 10;
/// The longest body of a request, bytes: a long message.
const BODY: usize = 256 << 10;
/// The same where a `CLAUDE.md` is saved: the longest that the page shows, as forms write it.
const MEMORY: usize = 1 << 20;
/// How long a request may take, with its body; streams go on.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The same for one with files.
const FILES_WITHIN: Duration = Duration::from_mins(10);
/// How soon it is tried again to listen.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);
/// How long a connection may go on at the stop.
const LAST_WORD: Duration = Duration::from_millis(500);

/// No scripts, styles or pictures but files of ours; nobody frames the page, and its forms lead nowhere else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Serves the page until the daemon stops. Where it can't listen, the log says so, and it is tried again.
pub async fn run(served: Served, listen: SocketAddr) {
    let closing = served.desk.closing.clone();
    let begun = tokio::select! {
        () = closing.cancelled() => None,
        begun = begin(served, listen) => Some(begun),
    };
    let Some((web, listener)) = begun else { return };
    tracing::info!(address = web.door.address(), "the operator's page is up; `g2 web open` lets somebody in");
    let routers = Routers { page: routes(&web), scripts: scripts::routes(&web) };
    let crowd = Arc::<Crowd>::default();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = closing.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let guest = crowd.enter();
                    connections.spawn(connection(Arc::clone(&web), routers.clone(), stream, guest));
                }
                Err(error) => {
                    tracing::debug!(error = %chain(&error), "a connection to the page could not be taken");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    let _late = timeout(LAST_WORD, ended).await;
    connections.shutdown().await;
}

/// Listens, however long it takes until that can be done.
async fn begin(served: Served, listen: SocketAddr) -> (Arc<Web>, TcpListener) {
    let Served { world, desk, config, media, channels, pictures, root } = served;
    let mut told = None;
    loop {
        match ready(&world, &root, &desk.store, listen).await {
            Ok((listener, at)) => {
                let door = Door::new(at, config.now().web.host.as_deref());
                desk.page.set(door.address());
                desk.machine.page_stands(None);
                let (tokens, said, streams) =
                    (scripts::Tokens::default(), Said::default(), live::Streams::default());
                let (codes, uploads) = (Codes::default(), Places::default());
                let web = Web {
                    world,
                    desk,
                    config,
                    media,
                    channels,
                    hooks: hooks::Places::default(),
                    pictures,
                    root,
                    door,
                    tokens,
                    said,
                    codes,
                    streams,
                    uploads,
                };
                return (Arc::new(web), listener);
            }
            Err(error) => {
                let why = chain(&error);
                desk.machine.page_stands(Some(why.clone()));
                if told.as_ref() != Some(&why) {
                    tracing::warn!(error = %why, %listen, "the operator's page can't be served; it is tried again");
                    told = Some(why);
                }
                tokio::time::sleep(LISTEN_AGAIN).await;
            }
        }
    }
}

async fn ready(
    world: &World,
    root: &std::path::Path,
    store: &Store,
    listen: SocketAddr,
) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(listen).await?;
    let at = listener.local_addr()?;
    let token = crate::root::web_token(world, &root.join("data"))?;
    store.keep_token_of_file(&token, world.now()).await.map_err(std::io::Error::other)?;
    Ok((listener, at))
}

/// Who is led where: browsers that are let in, and programs with a token.
#[derive(Clone)]
struct Routers {
    page: Router,
    scripts: Router,
}

/// The bound on bodies.
pub(super) fn bounded() -> DefaultBodyLimit {
    DefaultBodyLimit::max(BODY)
}

fn routes(web: &Arc<Web>) -> Router {
    pages::routes()
        .route("/live", get(live::stream))
        .route("/do/{name}", post(act::perform))
        .route("/do/groups.edit", post(act::edit).layer(DefaultBodyLimit::max(MEMORY)))
        .route("/leave", post(enter::leave))
        .fallback(pages::missing)
        .layer(bounded())
        .with_state(Arc::clone(web))
}

async fn connection(web: Arc<Web>, routers: Routers, stream: TcpStream, guest: Guest) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let answered = answer(&web, routers.clone(), &guest, request);
        async { Ok::<_, Infallible>(answered.await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD)
        .max_header_size(HEAD)
        .serve_connection(TokioIo::new(Patient::new(stream)), service);
    let mut serving = std::pin::pin!(serving);
    let mut asked_to_end = false;
    loop {
        tokio::select! {
            () = guest.cut.cancelled() => return,
            () = web.desk.closing.cancelled(), if !asked_to_end => {
                asked_to_end = true;
                serving.as_mut().graceful_shutdown();
            }
            served = serving.as_mut() => {
                if let Err(error) = served {
                    tracing::debug!(error = %chain(&error), "a connection to the page ended early");
                }
                return;
            }
        }
    }
}

/// Answers a request, whatever it is.
async fn answer(
    web: &Arc<Web>,
    routers: Routers,
    guest: &Guest,
    request: Request<Incoming>,
) -> Response<Body> {
    let has_files = request.uri().path() == "/say" && parted::boundary(request.headers()).is_some();
    let within = if has_files { FILES_WITHIN } else { ANSWER_WITHIN };
    let mut response = match timeout(within, admitted(web, routers, guest, request)).await {
        Ok(response) => response,
        Err(_) => {
            let mut late = (StatusCode::REQUEST_TIMEOUT, "the request took too long\n").into_response();
            late.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            late
        }
    };
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        // Nobody else is told of our pages. With `no-referrer` the browser would not say that a form is ours.
        ("referrer-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn admitted(
    web: &Arc<Web>,
    routers: Routers,
    guest: &Guest,
    request: Request<Incoming>,
) -> Response<Body> {
    // Its sender has no place on the page: the account looks at a secret of its own.
    if let Some(path) = request.uri().path().strip_prefix(hooks::BELOW).map(str::to_owned) {
        return hooks::take(web, &path, request).await;
    }
    let (is_change, now) = (!matches!(*request.method(), Method::GET | Method::HEAD), web.world.now());
    let token = match web.tokens.shown(&web.desk.store, request.headers(), now) {
        Ok(token) => token,
        Err(refused) => return refused.into_response(),
    };
    let header = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let site = HeaderName::from_static("sec-fetch-site");
    let knock = Knock {
        host: header(header::HOST),
        origin: header(header::ORIGIN),
        site: header(site),
        is_change,
        by_script: token.is_some(),
    };
    if let Err(turned) = web.door.check(knock) {
        return turned_away(web, turned);
    }
    if let Some(token) = token {
        return match guest.shows(Holder::Token(token.id)) {
            Ok(()) => led(routers.scripts, request, token).await,
            Err(Full) => crowded("token"),
        };
    }
    let path = request.uri().path().to_owned();
    if path.starts_with("/a/") && !is_change {
        return assets::answer(&path);
    }
    if let Some(ticket) = path.strip_prefix("/enter/").filter(|_| *request.method() == Method::GET) {
        return enter::enter(web, ticket, request.headers()).await;
    }
    if let Some(refused) = scripts::without_token(&path) {
        return refused;
    }
    let Some(visitor) = enter::visitor(web, request.headers(), now) else { return enter::closed() };
    match guest.shows(Holder::Session(visitor.session.id)) {
        Ok(()) => led(routers.page, request, visitor).await,
        Err(Full) => crowded("session"),
    }
}

/// Leads a request of somebody who is let in.
async fn led<T: Clone + Send + Sync + 'static>(
    mut router: Router,
    mut request: Request<Incoming>,
    who: T,
) -> Response<Body> {
    request.extensions_mut().insert(who);
    match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn crowded(of: &str) -> Response<Body> {
    let text = format!("this {of} has too many connections open at once; close some\n");
    let headers = [(header::RETRY_AFTER, "1"), (header::CONNECTION, "close")];
    (StatusCode::SERVICE_UNAVAILABLE, headers, text).into_response()
}

fn turned_away(web: &Web, turned: Turned) -> Response<Body> {
    match turned {
        Turned::Host => {
            let text = format!("this server is only reached by its own name: {}\n", web.door.address());
            (StatusCode::MISDIRECTED_REQUEST, text).into_response()
        }
        Turned::Origin => {
            (StatusCode::FORBIDDEN, "this change does not come from the page, so it is not made\n")
                .into_response()
        }
    }
}
