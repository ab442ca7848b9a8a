//! A strict Telegram server for tests: the Bot API on a loopback port, and `/_fake/…` to drive it (`../README.md`). Its clock
//! moves only as it is told to.

mod check;
mod control;
mod handle;
mod methods;
mod params;
mod rows;
mod world;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, StatusCode, body::Bytes, body::Incoming, header, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Notify};

pub use handle::{ADA, FORUM, Fake, GROUP, TOKEN, post};
pub use rows::rows;

use self::{
    params::Params,
    world::{Do, World},
};

/// The world, and what wakes those who wait for a change of it.
#[derive(Clone, Default)]
struct Server {
    world: Arc<Mutex<World>>,
    changed: Arc<Notify>,
}

/// An answer of the Bot API that is no result.
#[derive(Debug)]
struct No {
    code: u16,
    text: String,
    parameters: Value,
}

type Answer = Result<Value, No>;

fn no<T>(code: u16, text: impl Into<String>) -> Result<T, No> {
    Err(No { code, text: text.into(), parameters: Value::Null })
}

fn bad<T>(text: impl std::fmt::Display) -> Result<T, No> {
    no(400, format!("Bad Request: {text}"))
}

/// Serves on a listener, for ever.
pub async fn serve(listener: TcpListener) {
    let fake = Server::default();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let fake = fake.clone();
        tokio::spawn(async move {
            let serve = service_fn(move |request| {
                let fake = fake.clone();
                async move { fake.serve(request).await }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), serve)
                .await;
        });
    }
}

impl Server {
    /// Answers a request; an error cuts the connection.
    async fn serve(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, &'static str> {
        let path = params::decoded(&request.uri().path().replace('+', "%2B"));
        if let Some(what) = path.strip_prefix("/_fake/") {
            let body = request.into_body().collect().await.map_err(|_| "cut")?.to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            return Ok(self.json(200, &self.control(what, body).await));
        }
        if let Some(rest) = path.strip_prefix("/file/bot") {
            return Ok(self.file(rest));
        }
        let Some((token, method)) = path.strip_prefix("/bot").and_then(|rest| rest.split_once('/')) else {
            return Ok(self.refuse(&No { code: 404, text: "Not Found".into(), parameters: Value::Null }));
        };
        let right = self.world.lock().unwrap().token.clone();
        if token != right {
            let (code, text) = if token.contains(':') { (401, "Unauthorized") } else { (404, "Not Found") };
            return Ok(self.refuse(&No { code, text: text.into(), parameters: Value::Null }));
        }
        let fault = self.world.lock().unwrap().fault(method);
        match fault {
            Some(Do::CutBefore) => return Err("cut before the body was read"),
            Some(Do::Hang) => std::future::pending::<()>().await,
            Some(Do::Answer { status, body }) => {
                // The body is read, and nothing is done.
                let params = Params::read(request).await?;
                self.world.lock().unwrap().note(method, &params);
                self.changed.notify_waiters();
                return Ok(self.json(status, &body));
            }
            Some(Do::CutAfter) | None => {}
        }
        let params = Params::read(request).await?;
        self.world.lock().unwrap().note(method, &params);
        self.changed.notify_waiters();
        let answer = if method.eq_ignore_ascii_case("getUpdates") {
            self.updates(&params).await
        } else {
            self.world.lock().unwrap().perform(method, &params)
        };
        self.changed.notify_waiters();
        if matches!(fault, Some(Do::CutAfter)) {
            return Err("cut after the body was read");
        }
        Ok(match answer {
            Ok(result) => self.json(200, &crate::on_the_wire(&json!({"ok": true, "result": result}))),
            Err(no) => self.refuse(&no),
        })
    }

    /// Holds a poll open until there is something, or another poll takes its place.
    async fn updates(&self, params: &Params) -> Answer {
        let timeout = params.int("timeout")?.unwrap_or(0);
        let mine = self.world.lock().unwrap().begin_poll(params)?;
        self.changed.notify_waiters();
        let limit = params.int("limit")?.unwrap_or(100).clamp(1, 100);
        let late = tokio::time::sleep(Duration::from_secs(u64::try_from(timeout).unwrap_or(0)));
        tokio::pin!(late);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let world = self.world.lock().unwrap();
                if world.poll != mine {
                    return no(
                        409,
                        "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
                    );
                }
                let ready = world.waiting(usize::try_from(limit).unwrap());
                if !ready.is_empty() || timeout == 0 {
                    return Ok(ready.into());
                }
            }
            tokio::select! {
                () = &mut changed => {}
                () = &mut late => return Ok(json!([])),
            }
        }
    }

    fn file(&self, rest: &str) -> Response<Full<Bytes>> {
        let world = self.world.lock().unwrap();
        let found = rest.split_once('/').filter(|(token, _)| *token == world.token);
        let found = found.and_then(|(_, path)| world.files.values().find(|file| file.path == path));
        match found {
            Some(file) => Response::new(Full::new(file.bytes.clone().into())),
            None => Response::builder().status(404).body(Full::new("not found".into())).unwrap(),
        }
    }

    fn refuse(&self, no: &No) -> Response<Full<Bytes>> {
        let mut body = json!({"ok": false, "error_code": no.code, "description": no.text});
        if !no.parameters.is_null() {
            body["parameters"] = no.parameters.clone();
        }
        self.json(no.code, &body)
    }

    fn json(&self, status: u16, body: &impl ToString) -> Response<Full<Bytes>> {
        let now = jiff::Timestamp::from_second(self.world.lock().unwrap().now).unwrap();
        let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&now).unwrap();
        Response::builder()
            .status(StatusCode::from_u16(status).unwrap())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::DATE, date)
            .body(Full::new(body.to_string().into()))
            .unwrap()
    }
}
