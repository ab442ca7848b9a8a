//! The way to hosts outside that the owner allows: a proxy on a socket of each run, by `CONNECT` and for plain HTTP.
//!
//! A place is judged by its name, looked up here, and its addresses are judged again; the connection goes to an address that was
//! judged, so a name that changes its address in between gains nothing. A redirect is a request of its own. Bounds are per group:
//! a new run does not begin with new ones. A connection ends when a change of the rules forbids its place.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use http_body_util::{Either, Full};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Uri,
    body::{Bytes, Incoming},
    client::conn::http1 as client,
    ext::ReasonPhrase,
    header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue},
    server::conn::http1,
    service::service_fn,
    upgrade::OnUpgrade,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use ipc_handlers::{Folder, Time};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional},
    net::{TcpStream, UnixStream, lookup_host},
    sync::{OwnedSemaphorePermit, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    books::Books,
    log::{Line, Log},
    places::{Crowd, Places},
    proxy::through,
    serve::{HEAD, in_vain, listen},
    socket::{self, OUTSIDE, SocketError},
};
use crate::{
    config::Proxy,
    domain::{
        mailbox::bucket::Bucket,
        runs::outside::{Hour, NoWay, Place, Rules, judge_address},
        shown::errors::chain,
    },
    system::{locked::Locked as _, world::World},
};

/// The most addresses of a name that are tried.
const TRIED: usize = 4;

/// How long a name may take to be looked up that a proxy looks up, too.
const KNOWN_HERE: Duration = Duration::from_secs(2);

/// Bounds, each for one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutsideLimits {
    /// Connections at a time; further ones wait for [`Self::queue`], then are told to come again.
    pub connections: usize,
    /// Connections in a minute, those that are refused included; further ones wait in the same way.
    pub per_minute: u32,
    pub queue: Duration,
    /// What all of them may carry in an hour, both ways, bytes.
    pub bytes_per_hour: u64,
    /// How long one may last.
    pub life: Duration,
    /// How long one may carry nothing.
    pub silence: Duration,
    /// How long a name may take to be looked up, and an address to be reached.
    pub connect: Duration,
    /// How long an agent may take to say where it wants to go.
    pub head: Duration,
}

impl Default for OutsideLimits {
    fn default() -> Self {
        Self {
            connections: 64,
            per_minute: 600,
            queue: Duration::from_secs(30),
            bytes_per_hour: 2 << 30,
            life: Duration::from_secs(3600),
            silence: Duration::from_secs(300),
            connect: Duration::from_secs(10),
            head: Duration::from_secs(60),
        }
    }
}

/// The ways outside of all groups.
pub(super) struct Outside {
    world: World,
    proxy: Option<Arc<Proxy>>,
    limits: Mutex<OutsideLimits>,
    groups: Mutex<BTreeMap<Folder, Arc<Group>>>,
    open: Mutex<BTreeMap<i64, Open>>,
}

/// What the runs of a group share.
struct Group {
    folder: Folder,
    limits: Mutex<OutsideLimits>,
    rules: watch::Sender<Rules>,
    places: Places,
    rate: Mutex<Bucket>,
    hour: Mutex<Hour>,
}

/// An open socket.
struct Open {
    dir: PathBuf,
    crowd: Arc<Crowd>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    tunnels: TaskTracker,
}

/// A run at its socket.
struct Caller {
    world: World,
    proxy: Option<Arc<Proxy>>,
    run: i64,
    group: Arc<Group>,
    books: Arc<Books>,
    log: Log,
    stop: CancellationToken,
    tunnels: TaskTracker,
}

type Body = Either<Full<Bytes>, Incoming>;

impl Outside {
    pub(super) fn new(world: World, proxy: Option<Arc<Proxy>>) -> Self {
        let (limits, groups, open) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { world, proxy, limits, groups, open }
    }

    /// Has other bounds hold.
    pub(super) fn bound(&self, limits: OutsideLimits) {
        // No socket is opened in between with those of before.
        let open = self.open.locked();
        let groups = self.groups.locked();
        *self.limits.locked() = limits;
        groups.values().for_each(|group| group.bound(limits, self.world.now()));
        open.values().for_each(|open| open.crowd.set(limits.connections, limits.per_minute));
    }

    /// Opens a run's socket in `dir`, as that to the model is opened.
    pub(super) fn open(
        &self,
        run: i64,
        dir: &Path,
        owner: Option<(u32, u32)>,
        folder: &Folder,
        books: &Arc<Books>,
    ) -> Result<(), SocketError> {
        let listener = socket::bind(dir, OUTSIDE, owner)?;
        let mut all = self.open.locked();
        let group = self.group(folder);
        let limits = group.limits();
        let (stop, tunnels) = (CancellationToken::new(), TaskTracker::new());
        let caller = Arc::new(Caller {
            world: self.world.clone(),
            proxy: self.proxy.clone(),
            run,
            books: Arc::clone(books),
            log: Log::new(self.world.clone(), run),
            stop: stop.clone(),
            tunnels: tunnels.clone(),
            group,
        });
        let crowd = Arc::new(Crowd::new(self.world.clone(), limits.connections, limits.per_minute));
        let (until, of_listener) = (stop.clone(), Arc::clone(&crowd));
        let serving = tokio::spawn(async move {
            let not_taken = |error: &io::Error| caller.log.warn(Line::NotTaken, error);
            listen(listener, of_listener, until, not_taken, |stream| serve(Arc::clone(&caller), stream))
                .await;
        });
        let open = Open { dir: dir.to_owned(), crowd, stop, serving, tunnels };
        if let Some(before) = all.insert(run, open) {
            before.stop.cancel();
        }
        Ok(())
    }

    fn group(&self, folder: &Folder) -> Arc<Group> {
        let mut groups = self.groups.locked();
        let limits = *self.limits.locked();
        let group = || {
            Arc::new(Group {
                folder: folder.clone(),
                limits: Mutex::new(limits),
                rules: watch::Sender::default(),
                places: Places::new(limits.connections),
                rate: Mutex::new(Bucket::new(limits.per_minute, self.world.now())),
                hour: Mutex::new(Hour::new(limits.bytes_per_hour, self.world.now())),
            })
        };
        Arc::clone(groups.entry(folder.clone()).or_insert_with(group))
    }

    /// Has the rules hold that `read` returns for a group. Of several changes at a time the last one is read last.
    pub(super) fn read_rules<E>(
        &self,
        folder: &Folder,
        read: impl FnOnce() -> Result<Rules, E>,
    ) -> Result<(), E> {
        let groups = self.groups.locked();
        if let Some(group) = groups.get(folder) {
            group.rules.send_replace(read()?);
        }
        Ok(())
    }

    pub(super) async fn close(&self, run: i64) {
        let Some(open) = self.open.locked().remove(&run) else { return };
        let dir = open.dir.clone();
        open.end().await;
        socket::remove(&dir, OUTSIDE);
    }

    pub(super) async fn stop(&self) {
        let all = std::mem::take(&mut *self.open.locked());
        all.values().for_each(|open| open.stop.cancel());
        for open in all.into_values() {
            open.end().await;
        }
    }
}

impl Group {
    fn limits(&self) -> OutsideLimits {
        *self.limits.locked()
    }

    fn bound(&self, limits: OutsideLimits, now: Time) {
        *self.limits.locked() = limits;
        self.places.set(limits.connections);
        self.rate.locked().set(limits.per_minute, now);
        self.hour.locked().set(limits.bytes_per_hour);
    }
}

impl Open {
    async fn end(self) {
        self.stop.cancel();
        let _ = self.serving.await;
        self.tunnels.close();
        self.tunnels.wait().await;
    }
}

async fn serve(caller: Arc<Caller>, stream: UnixStream) {
    let (run, head) = (caller.run, caller.group.limits().head);
    let service = service_fn(move |request| {
        let caller = Arc::clone(&caller);
        async move { Ok::<_, Infallible>(answer(&caller, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(run, error = %chain(&error), "a connection of an agent ended early");
    }
}

/// Why a request goes nowhere.
enum Denial {
    /// The place is not to be reached.
    Kept(Place, NoWay),
    /// It can't be done, or not now.
    Other(StatusCode, String),
}

async fn answer(caller: &Arc<Caller>, mut request: Request<Incoming>) -> Response<Body> {
    let asked = match request.uri().authority() {
        Some(authority) => format!("{} {authority}", request.method()),
        None => format!("{} {}", request.method(), request.uri().path()),
    };
    let went = async {
        let permit = caller.turn().await?;
        let place = place_of(request.method(), request.uri())?;
        let stream = caller.reach(&place).await?;
        if request.method() == Method::CONNECT {
            let upgrade = hyper::upgrade::on(&mut request);
            let allowed = stream.allowed.clone();
            caller.spawn(tunnel(upgrade, stream), allowed, permit);
            return Ok(Response::new(Either::Left(Full::default())));
        }
        caller.pass(&place, request, stream, permit).await
    };
    let (status, says) = match went.await {
        Ok(response) => return response,
        Err(Denial::Kept(place, why)) => {
            caller.books.kept_in(caller.run, &place, &why);
            (StatusCode::FORBIDDEN, why.says(&place, &caller.group.folder))
        }
        Err(Denial::Other(status, says)) => (status, says),
    };
    tracing::debug!(run = caller.run, asked, why = says, "a request goes nowhere");
    caller.books.refused(caller.run, in_vain(&asked, says.clone()));
    refusal(status, &says)
}

/// Says no, where a program shows it: in the body, and behind the status, as most programs show nothing else of a `CONNECT`.
fn refusal(status: StatusCode, says: &str) -> Response<Body> {
    let says = format!("g2: {says}");
    let reason = ReasonPhrase::try_from(says.as_bytes());
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(says + "\n"))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if let Ok(reason) = reason {
        response.extensions_mut().insert(reason);
    }
    response
}

/// Returns where a request is to go.
fn place_of(method: &Method, uri: &Uri) -> Result<Place, Denial> {
    let bad = |says: &str| Denial::Other(StatusCode::BAD_REQUEST, says.to_owned());
    let how = "this is a proxy: it takes CONNECT HOST:PORT, and http://HOST/PATH";
    let authority = uri.authority().filter(|name| !name.as_str().contains('@')).ok_or_else(|| bad(how))?;
    let port = match (method, uri.scheme_str()) {
        (&Method::CONNECT, _) => authority.port_u16().ok_or_else(|| bad(how))?,
        (_, Some("http")) => authority.port_u16().unwrap_or(80),
        (_, _) => return Err(bad(how)),
    };
    Place::new(authority.host(), port).map_err(|why| bad(&format!("{authority} can't be reached: {why}")))
}

impl Caller {
    /// Waits until the group may go out once more.
    async fn turn(&self) -> Result<OwnedSemaphorePermit, Denial> {
        let later = |says: String| Denial::Other(StatusCode::TOO_MANY_REQUESTS, says);
        let (limits, folder) = (self.group.limits(), &self.group.folder);
        let patience = i64::try_from(limits.queue.as_millis()).unwrap_or(i64::MAX);
        let turn = self.group.rate.locked().reserve(patience, self.world.now());
        let wait = turn.map_err(|_| {
            later(format!("{folder} may open {} connections a minute; wait for a while", limits.per_minute))
        })?;
        sleep(Duration::from_millis(u64::try_from(wait).unwrap_or(0))).await;
        let wait = self.group.hour.locked().wait(self.world.now());
        if wait > 0 {
            let (most, minutes) = (limits.bytes_per_hour >> 20, wait / 60_000 + 1);
            return Err(later(format!(
                "the connections of {folder} may carry {most} MiB an hour, and have; wait for {minutes} min"
            )));
        }
        match timeout(limits.queue, self.group.places.take()).await {
            Ok(permit) => Ok(permit),
            Err(_) => {
                let most = self.group.limits().connections;
                Err(later(format!("{folder} has {most} connections open; close some")))
            }
        }
    }

    /// Connects to a place, if it may be reached.
    async fn reach(self: &Arc<Self>, place: &Place) -> Result<Carrier, Denial> {
        let kept = |why| Denial::Kept(place.clone(), why);
        let failed = |why: String| {
            self.log.warn(Line::NotReached, &why);
            Denial::Other(StatusCode::BAD_GATEWAY, why)
        };
        let allowed = Allowed::judge(self.group.rules.subscribe(), place).map_err(kept)?;
        let limit = self.group.limits().connect;
        let carrier = |stream| Carrier { stream, caller: Arc::clone(self), carried: Arc::default(), allowed };
        if let Some(proxy) = self.proxy.as_ref().filter(|proxy| proxy.is_for(&place.host(), place.port())) {
            not_inside(place).await.map_err(kept)?;
            return match timeout(limit, through(proxy, &place.host(), place.port())).await {
                Ok(Ok(stream)) => Ok(carrier(stream)),
                Ok(Err(error)) => Err(failed(format!("{place} can't be reached: {error}"))),
                Err(_) => Err(failed(format!(
                    "the proxy {proxy} gave no way to {place} within {} s",
                    limit.as_secs()
                ))),
            };
        }
        let found = timeout(limit, lookup_host((place.host(), place.port()))).await;
        let found: Vec<SocketAddr> = match found {
            Ok(Ok(found)) => found.collect(),
            Ok(Err(error)) => return Err(failed(format!("{place} is not known: {error}"))),
            Err(_) => {
                return Err(failed(format!("{place} could not be looked up within {} s", limit.as_secs())));
            }
        };
        let mut why = format!("{place} has no address");
        let mut inside = None;
        for address in found.into_iter().take(TRIED) {
            if let Err(no) = judge_address(address.ip()).and_then(|()| not_own(address)) {
                inside = inside.or(Some(no));
                continue;
            }
            inside = None;
            match timeout(limit, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(carrier(stream));
                }
                Ok(Err(error)) => why = format!("{place} can't be reached at {}: {error}", address.ip()),
                Err(_) => why = format!("{place} did not answer within {} s", limit.as_secs()),
            }
        }
        Err(inside.map_or_else(|| failed(why), kept))
    }

    /// Passes one request of plain HTTP on, over a connection of its own.
    async fn pass(
        self: &Arc<Self>,
        place: &Place,
        request: Request<Incoming>,
        stream: Carrier,
        permit: OwnedSemaphorePermit,
    ) -> Result<Response<Body>, Denial> {
        let failed = |error: hyper::Error| {
            Denial::Other(StatusCode::BAD_GATEWAY, format!("{place} gave no answer: {}", chain(&error)))
        };
        let (bounds, allowed) = (stream.bounds(), stream.allowed.clone());
        let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let driven = async move {
            tokio::select! {
                _ = connection => {}
                () = bounds => {}
            }
        };
        self.spawn(driven, allowed, permit);
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let path = path
            .parse()
            .map_err(|_| Denial::Other(StatusCode::BAD_REQUEST, "the path can't be used".into()))?;
        head.uri = path;
        between_two_only(&mut head.headers);
        let host = if place.port() == 80 {
            place.to_string().trim_end_matches(":80").to_owned()
        } else {
            place.to_string()
        };
        if let Ok(host) = HeaderValue::from_str(&host) {
            head.headers.insert(HOST, host);
        }
        head.extensions.clear();
        let response = sender.send_request(Request::from_parts(head, body)).await.map_err(failed)?;
        let (mut head, body) = response.into_parts();
        between_two_only(&mut head.headers);
        let mut passed = Response::new(Either::Right(body));
        *passed.status_mut() = head.status;
        *passed.headers_mut() = head.headers;
        Ok(passed)
    }

    /// Has the work of a connection go on beside, until the run ends or its place is not allowed any more.
    fn spawn(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
        allowed: Allowed,
        permit: OwnedSemaphorePermit,
    ) {
        let (stop, run) = (self.stop.clone(), self.run);
        self.tunnels.spawn(async move {
            let _permit = permit;
            tokio::select! {
                () = stop.cancelled() => {}
                place = allowed.until_forbidden() => {
                    tracing::info!(run, %place, "a connection is closed: its place is not allowed any more");
                }
                () = work => {}
            }
        });
    }
}

/// Takes out what concerns one connection.
fn between_two_only(headers: &mut HeaderMap) {
    let named: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let always = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "proxy-authenticate",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "expect",
    ];
    for name in always.into_iter().chain(named.iter().map(String::as_str)) {
        headers.remove(name);
    }
}

/// Refuses an address of this machine that looks like any other: what listens there is ours. Nothing is sent for that.
fn not_own(address: SocketAddr) -> Result<(), NoWay> {
    let from: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let own = UdpSocket::bind((from, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    match own {
        Ok(own) if own.ip() == address.ip() => Err(NoWay::NotOutside(address.ip())),
        // Without a way there the connection fails, and says why.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Refuses a name that leads inside as far as it is known here. Behind a proxy it need not be: then the proxy judges.
async fn not_inside(place: &Place) -> Result<(), NoWay> {
    let Ok(Ok(found)) = timeout(KNOWN_HERE, lookup_host((place.host(), place.port()))).await else {
        return Ok(());
    };
    found.into_iter().try_for_each(|address| judge_address(address.ip()).and_then(|()| not_own(address)))
}

/// Carries bytes both ways, until one side ends or a bound is met.
async fn tunnel(upgrade: OnUpgrade, mut stream: Carrier) {
    let bounds = stream.bounds();
    let carry = async {
        if let Ok(upgraded) = upgrade.await {
            let _ = copy_bidirectional(&mut TokioIo::new(upgraded), &mut stream).await;
        }
    };
    tokio::select! {
        () = carry => {}
        () = bounds => {}
    }
}

/// A place that was allowed when it was judged, and the rules as they change.
#[derive(Clone)]
struct Allowed {
    place: Place,
    rules: watch::Receiver<Rules>,
}

impl Allowed {
    fn judge(mut rules: watch::Receiver<Rules>, place: &Place) -> Result<Self, NoWay> {
        rules.borrow_and_update().judge(place)?;
        Ok(Self { place: place.clone(), rules })
    }

    /// Waits until a change forbids the place, and returns it.
    async fn until_forbidden(mut self) -> Place {
        // The group's own rules outlive each of its connections.
        while self.rules.changed().await.is_ok() {
            if self.rules.borrow_and_update().judge(&self.place).is_err() {
                return self.place;
            }
        }
        std::future::pending().await
    }
}

/// A connection to a host outside. Its bytes are counted for its group.
struct Carrier {
    stream: TcpStream,
    caller: Arc<Caller>,
    carried: Arc<AtomicU64>,
    allowed: Allowed,
}

impl Carrier {
    /// Ends when the connection has to.
    fn bounds(&self) -> impl Future<Output = ()> + Send + 'static {
        let (limits, carried) = (self.caller.group.limits(), Arc::clone(&self.carried));
        async move {
            let silence = async {
                loop {
                    let before = carried.load(Ordering::Relaxed);
                    sleep(limits.silence).await;
                    if carried.load(Ordering::Relaxed) == before {
                        return;
                    }
                }
            };
            let _ = timeout(limits.life, silence).await;
        }
    }

    fn count(&self, bytes: usize) {
        let bytes = bytes as u64;
        self.carried.fetch_add(bytes, Ordering::Relaxed);
        self.caller.group.hour.locked().carry(bytes, self.caller.world.now());
    }

    /// Whether more may be carried.
    fn check(&self) -> io::Result<()> {
        match self.caller.group.hour.locked().wait(self.caller.world.now()) {
            0 => Ok(()),
            _ => Err(io::Error::other("the group's connections carried what they may in an hour")),
        }
    }
}

impl AsyncRead for Carrier {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.count(buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Carrier {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.count(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
