//! One run's connections and requests.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock, atomic::Ordering},
    time::Duration,
};

use http_body_util::Either;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body as _, Incoming},
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{UnixListener, UnixStream},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    Caller, Looks,
    admit::{self, Asked},
    answer::{self, Body, Denial},
    body::{Download, Entry, Fault, Upload},
    fetches::{Look, Reason},
    log::Line,
    meter::{Form, Meter},
    places::Crowd,
    refusals::{self, Heard},
};
use crate::domain::{runs::usage::FailedRequest, shown::errors::chain};

/// At most this many bytes of a head that comes in pieces are kept: the longest head.
pub(super) const HEAD: usize = 64 << 10;
/// The path of requests that need the model itself. A key may be allowed this and nothing beside it, or the other way round.
const MESSAGES: &str = "/v1/messages";
/// At most this many characters of a refused request's path are kept.
const KEPT_PATH: usize = 120;
/// How long we leave a socket alone that can't be accepted from.
const REST: Duration = Duration::from_millis(50);

/// Serves a run's socket to the model until `stop`, then ends its live requests.
pub(super) async fn to_model(caller: Arc<Caller>, listener: UnixListener, stop: CancellationToken) {
    let (world, limits) = (caller.shared.world.clone(), &caller.shared.limits);
    let crowd = Arc::new(Crowd::new(world, limits.connections, limits.connections_per_minute));
    let not_taken = |error: &std::io::Error| caller.log.warn(Line::NotTaken, error);
    listen(listener, crowd, stop, not_taken, |stream| serve(Arc::clone(&caller), stream)).await;
}

/// Serves a socket until `stop`, then ends its connections.
pub(super) async fn listen<F: Future<Output = ()> + Send + 'static>(
    listener: UnixListener,
    crowd: Arc<Crowd>,
    stop: CancellationToken,
    not_taken: impl Fn(&std::io::Error),
    serve: impl Fn(UnixStream) -> F,
) {
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            // Not taken, and so not paid for, where this is dropped.
            while !crowd.may_come() {
                tokio::time::sleep(REST).await;
            }
            let permit = crowd.places.take().await;
            (listener.accept().await, permit)
        };
        tokio::select! {
            () = stop.cancelled() => break,
            (accepted, permit) = next => match accepted {
                Ok((stream, _)) => {
                    crowd.came();
                    let serving = serve(stream);
                    connections.spawn(async move {
                        let _permit = permit;
                        serving.await;
                    });
                }
                Err(error) => {
                    not_taken(&error);
                    tokio::time::sleep(REST).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    connections.shutdown().await;
}

async fn serve(caller: Arc<Caller>, stream: UnixStream) {
    let service = service_fn(|request| {
        let caller = Arc::clone(&caller);
        async move { Ok::<_, Infallible>(answer(caller, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(caller.shared.limits.head)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(run = caller.run, error = %chain(&error), "a connection of an agent ended early");
    }
}

/// Answers one request.
async fn answer(caller: Arc<Caller>, request: Request<Incoming>) -> Response<Body> {
    let asked = format!("{} {}", request.method(), request.uri().path());
    if let Err(denial) = wait_for_turn(&caller).await {
        return refuse(&caller, &asked, &denial);
    }
    let target = match admit::judge(request.method(), request.uri()) {
        Asked::Probe => return answer::empty(),
        Asked::Pass(target) => target,
        Asked::No => {
            return refuse(&caller, &asked, &Denial::new(StatusCode::FORBIDDEN, admit::WHAT_PASSES));
        }
    };
    match pass(&caller, target, request).await {
        Ok(response) => {
            if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&response.status()) {
                let host = &caller.shared.upstream;
                fail(&caller, &asked, format!("{host} does not accept the key ({})", response.status()));
            }
            response
        }
        Err(Unpassed::Refused(denial)) => refuse(&caller, &asked, &denial),
        Err(Unpassed::Failed(denial)) => {
            fail(&caller, &asked, denial.message.clone());
            denial.response()
        }
    }
}

/// Waits until the run may ask again.
async fn wait_for_turn(caller: &Caller) -> Result<(), Denial> {
    let limits = &caller.shared.limits;
    let patience = i64::try_from(limits.queue.as_millis()).unwrap_or(i64::MAX);
    let turn = caller.rate().reserve(patience, caller.shared.world.now());
    let ms = |ms: i64| u64::try_from(ms).unwrap_or(0);
    match turn {
        Ok(wait) => {
            tokio::time::sleep(Duration::from_millis(ms(wait))).await;
            Ok(())
        }
        Err(wait) => {
            let most = limits.requests_per_minute;
            let message = format!(
                "a run has at most {most} requests a minute, where each MiB that is sent counts for one too; wait for a while"
            );
            let retry_after = Some(ms(wait).div_ceil(1000));
            Err(Denial { retry_after, ..Denial::new(StatusCode::TOO_MANY_REQUESTS, message) })
        }
    }
}

/// Why a request that may pass got no answer of the model's host.
enum Unpassed {
    /// We did not send it, or not to its end.
    Refused(Denial),
    /// It did not work out; the request is in the books.
    Failed(Denial),
}

fn refuse(caller: &Caller, asked: &str, denial: &Denial) -> Response<Body> {
    tracing::debug!(run = caller.run, asked, why = denial.message, "a request is not passed on");
    caller.shared.books.refused(caller.run, in_vain(asked, denial.message.clone()));
    denial.response()
}

/// Notes that the model's host gave no answer, or none that helps; how often is counted elsewhere.
fn fail(caller: &Caller, asked: &str, why: String) {
    caller.log.warn(Line::NoAnswer, &why);
    caller.shared.books.failed(caller.run, in_vain(asked, why));
}

pub(super) fn in_vain(asked: &str, why: String) -> FailedRequest {
    FailedRequest { asked: asked.chars().take(KEPT_PATH).collect(), why }
}

async fn pass(
    caller: &Arc<Caller>,
    target: String,
    request: Request<Incoming>,
) -> Result<Response<Body>, Unpassed> {
    let shared = &caller.shared;
    let limits = shared.limits;
    let refused = |status, message: String| Unpassed::Refused(Denial::new(status, message));
    let failed = |status, message: String| Unpassed::Failed(Denial::new(status, message));

    // A host that reads no body there would take it for the next request, with our key.
    if request.method() != Method::POST && !request.body().is_end_stream() {
        let message = format!("a {} has no body", request.method());
        return Err(refused(StatusCode::BAD_REQUEST, message));
    }
    if request.body().size_hint().lower() > limits.request_bytes {
        return Err(Unpassed::Refused(too_large(limits.request_bytes)));
    }
    let permit = timeout(limits.queue, Arc::clone(&caller.requests).acquire_owned()).await;
    let Ok(Ok(permit)) = permit else {
        let message = format!("this run has {} requests under way; wait for some to end", limits.requests);
        return Err(refused(StatusCode::TOO_MANY_REQUESTS, message));
    };
    let fare = caller.purse.enter(shared.world.now()).map_err(|used_up| {
        caller.is_out.store(true, Ordering::Relaxed);
        refused(StatusCode::PAYMENT_REQUIRED, used_up.to_string())
    })?;
    let keys = Arc::clone(shared);
    let credential = match shared.world.blocking(move || keys.key()).await {
        Ok(Ok(credential)) => credential,
        Ok(Err(error)) => {
            let why = error.to_string();
            refusals::no_key(caller, &why);
            return Err(refused(StatusCode::UNAUTHORIZED, why));
        }
        Err(error) => return Err(refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    };
    let uri = shared
        .upstream
        .uri(&target)
        .map_err(|error| refused(StatusCode::BAD_REQUEST, format!("the path can't be used: {error}")))?;

    let (head, body) = request.into_parts();
    let asks_the_model = head.uri.path() == MESSAGES;
    let fault = Arc::new(OnceLock::new());
    let look = (caller.looks == Looks::Inside && head.method == Method::POST).then(Look::new);
    let is_looked_into = look.is_some();
    let mut body = Upload::new(body, caller, look, Arc::clone(&fault));
    body.begin().await.map_err(|fault| Unpassed::Refused(faulty(&fault)))?;
    let mut upward = Request::new(body);
    *upward.method_mut() = head.method;
    *upward.uri_mut() = uri;
    *upward.headers_mut() = admit::request_headers(&head.headers);
    if is_looked_into {
        // As it was read, so it is to be read.
        upward.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        upward.headers_mut().remove(CONTENT_ENCODING);
    }
    // A packed answer can't be metered.
    upward.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    credential.sign(upward.headers_mut());

    let meter = Meter::new(Form::Other);
    let mut entry = Entry { caller: Arc::clone(caller), meter, is_error: true, fare, _permit: permit };
    let response = match timeout(limits.answer, shared.client.send(&shared.upstream, upward)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            return Err(match fault.get() {
                Some(fault @ (Fault::TooLarge(_) | Fault::Refused(_))) => Unpassed::Refused(faulty(fault)),
                Some(fault) => Unpassed::Failed(faulty(fault)),
                None => failed(StatusCode::BAD_GATEWAY, format!("{}: {}", shared.upstream, chain(&*error))),
            });
        }
        Err(_) => {
            let message = format!("{} gave no answer for {} s", shared.upstream, limits.answer.as_secs_f32());
            return Err(failed(StatusCode::GATEWAY_TIMEOUT, message));
        }
    };

    let (head, body) = response.into_parts();
    let heard = asks_the_model.then(|| Heard::head(caller, head.status, &head.headers, credential));
    if head.status.is_redirection() {
        let message = format!("{} answers with a redirect, which is not followed", shared.upstream);
        return Err(failed(StatusCode::BAD_GATEWAY, message));
    }
    if body.size_hint().lower() > limits.response_bytes {
        let message = format!("the answer has more than {} MiB", limits.response_bytes >> 20);
        return Err(failed(StatusCode::BAD_GATEWAY, message));
    }
    // A packed answer can't be searched for the key.
    if let Some(packing) = admit::packing(&head.headers) {
        let packing: String = packing.chars().filter(|c| !c.is_control()).take(KEPT_PATH).collect();
        let message =
            format!("{} packs its answer ({packing}) although it was asked not to", shared.upstream);
        return Err(failed(StatusCode::BAD_GATEWAY, message));
    }
    let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    entry.meter = Meter::new(Form::of(kind));
    entry.is_error = !head.status.is_success();
    let sought = shared.credentials.sought();
    let headers = admit::response_headers(&head.headers, |bytes| sought.is_in_header(bytes));
    let mut body = Download::new(body, limits.response_bytes, limits.silence, entry, (sought, heard));
    if let Err(fault) = body.begin().await {
        let (status, what) = match fault {
            Fault::NoText => {
                (StatusCode::BAD_GATEWAY, "packs its answer without saying so, or gives no text")
            }
            Fault::Silent(_) => (StatusCode::GATEWAY_TIMEOUT, "begins an answer and says nothing more"),
            Fault::TooLarge(_) | Fault::Broken | Fault::Refused(_) => {
                (StatusCode::BAD_GATEWAY, "breaks its answer off")
            }
        };
        return Err(failed(status, format!("{} {what}", shared.upstream)));
    }
    let mut response = Response::new(Either::Right(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// The note about a request that does not come to its end.
fn faulty(fault: &Fault) -> Denial {
    match fault {
        Fault::TooLarge(most) => too_large(*most),
        Fault::Silent(_) | Fault::Broken | Fault::NoText => {
            Denial::new(StatusCode::REQUEST_TIMEOUT, format!("the request: {fault}"))
        }
        Fault::Refused(reason @ Reason::Fetches(_)) => Denial::new(
            StatusCode::FORBIDDEN,
            format!(
                "{reason}, and this container is to have no way out but its model; the owner of the machine may allow it: \
                 `g2 groups set GROUP egress=model_fetch`"
            ),
        ),
        Fault::Refused(reason) => Denial::new(StatusCode::BAD_REQUEST, reason.to_string()),
    }
}

fn too_large(most: u64) -> Denial {
    Denial::new(StatusCode::PAYLOAD_TOO_LARGE, format!("a request may have at most {} MiB", most >> 20))
}
