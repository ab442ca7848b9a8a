//! One run's connections and requests.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http_body_util::Either;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body as _, Incoming},
    header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    task::{JoinSet, spawn_blocking},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    Caller,
    admit::{self, Asked},
    answer::{self, Body, Denial},
    body::{Download, Entry, Fault, Upload},
    meter::{Form, Meter},
    upstream::chain,
};
use crate::domain::usage::Refusal;

/// What is kept of a head that comes in pieces, bytes: the longest head.
const HEAD: usize = 64 << 10;
/// What is kept of a refused request's path, characters.
const KEPT_PATH: usize = 120;
/// How long we leave a socket alone that can't be accepted from.
const REST: Duration = Duration::from_millis(50);

/// Serves a run's socket until `stop`, then ends what is under way.
pub(super) async fn listen(caller: Arc<Caller>, listener: UnixListener, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(caller.shared.limits.connections));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let permit = Arc::clone(&room).acquire_owned().await;
            (listener.accept().await, permit)
        };
        tokio::select! {
            () = stop.cancelled() => break,
            (accepted, permit) = next => match accepted {
                Ok((stream, _)) => {
                    let caller = Arc::clone(&caller);
                    connections.spawn(async move {
                        let _permit = permit;
                        serve(caller, stream).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(run = caller.run, %error, "a connection could not be taken");
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
    tracing::warn!(run = caller.run, why, "the model's host gave no answer");
    caller.shared.books.failed(caller.run, in_vain(asked, why));
}

fn in_vain(asked: &str, why: String) -> Refusal {
    Refusal { asked: asked.chars().take(KEPT_PATH).collect(), why }
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
        return Err(too_large(limits.request_bytes));
    }
    let permit = timeout(limits.queue, Arc::clone(&caller.requests).acquire_owned()).await;
    let Ok(Ok(permit)) = permit else {
        let message = format!("this run has {} requests under way; wait for some to end", limits.requests);
        return Err(refused(StatusCode::TOO_MANY_REQUESTS, message));
    };
    let keys = Arc::clone(shared);
    let credential = match spawn_blocking(move || keys.credentials.current()).await {
        Ok(Ok(credential)) => credential,
        Ok(Err(error)) => return Err(refused(StatusCode::UNAUTHORIZED, error.to_string())),
        Err(error) => return Err(refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    };
    let uri = shared
        .upstream
        .uri(&target)
        .map_err(|error| refused(StatusCode::BAD_REQUEST, format!("the path can't be used: {error}")))?;

    let (head, body) = request.into_parts();
    let fault = Arc::new(OnceLock::new());
    let body = Upload::new(body, limits.request_bytes, limits.upload_silence, Arc::clone(&fault));
    let mut upward = Request::new(body);
    *upward.method_mut() = head.method;
    *upward.uri_mut() = uri;
    *upward.headers_mut() = admit::request_headers(&head.headers);
    // What is packed can't be metered.
    upward.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    credential.sign(upward.headers_mut());

    let meter = Meter::new(Form::Other);
    let mut entry = Entry { caller: Arc::clone(caller), meter, is_error: true, _permit: permit };
    let response = match timeout(limits.answer, shared.client.send(&shared.upstream, upward)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            return Err(match fault.get() {
                Some(Fault::TooLarge(most)) => too_large(*most),
                Some(fault) => failed(StatusCode::REQUEST_TIMEOUT, format!("the request: {fault}")),
                None => failed(StatusCode::BAD_GATEWAY, format!("{}: {}", shared.upstream, chain(&*error))),
            });
        }
        Err(_) => {
            let message = format!("{} gave no answer for {} s", shared.upstream, limits.answer.as_secs_f32());
            return Err(failed(StatusCode::GATEWAY_TIMEOUT, message));
        }
    };

    let (head, body) = response.into_parts();
    if head.status.is_redirection() {
        let message = format!("{} answers with a redirect, which is not followed", shared.upstream);
        return Err(failed(StatusCode::BAD_GATEWAY, message));
    }
    if body.size_hint().lower() > limits.response_bytes {
        let message = format!("the answer has more than {} MiB", limits.response_bytes >> 20);
        return Err(failed(StatusCode::BAD_GATEWAY, message));
    }
    // What is packed can't be looked through for the key.
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
    let body = Download::new(body, limits.response_bytes, limits.silence, entry, sought);
    let mut response = Response::new(Either::Right(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = headers;
    Ok(response)
}

fn too_large(most: u64) -> Unpassed {
    let message = format!("a request may have at most {} MiB", most >> 20);
    Unpassed::Refused(Denial::new(StatusCode::PAYLOAD_TOO_LARGE, message))
}
