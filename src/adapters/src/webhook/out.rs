//! Answers, as requests to the program that a hook belongs to.

use std::time::Duration;

use channel_protocol::{NotSent, Scope, Send, Went};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, StatusCode, body::Bytes, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::proof::{OURS, Secret, THEIRS};
use crate::{
    http::{Http, NoAnswer},
    kit::Outcome,
};

/// How long an answer may take.
const WITHIN: Duration = Duration::from_secs(20);
/// How long a receiver is left alone that can't be reached, ms.
const AWAY_MS: u64 = 60_000;
/// How much of an answer is read, bytes.
const MOST: usize = 16 << 10;
/// Where the name of the hook stands in an address.
const NAME: &str = "{name}";

/// Where answers go.
pub(super) struct Way {
    http: Http,
    url: String,
}

impl Way {
    /// `plain`: also an address without TLS, of any machine, is taken.
    pub(super) fn new(url: &str, plain: bool) -> Result<Self, String> {
        let named = url.replace(NAME, "name");
        let base = named.split('?').next().unwrap_or_default();
        let http = if plain { Http::also_plain(base) } else { Http::new(base) };
        let http = http.map_err(|why| why.replace("matrix.example.org", "example.org/from-g2"))?;
        Ok(Self { http, url: url.to_owned() })
    }

    pub(super) async fn send(&self, secret: &Secret, name: &str, send: &Send, now: Timestamp) -> Outcome {
        let id = format!("{OURS}{}", send.key);
        let answered = send.reply_to.as_deref().map(|id| id.strip_prefix(THEIRS).unwrap_or(id));
        let body = json!({
            "id": id, "chat": send.chat, "name": name, "thread": send.thread, "reply_to": answered,
            "from": send.said_as, "text": send.text, "at": now.to_string(),
        });
        let body = Bytes::from(body.to_string());
        let at_s = now.as_second();
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.url.replace(NAME, name))
            .header(header::USER_AGENT, concat!("g2-channels/", env!("CARGO_PKG_VERSION")))
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", &id)
            .header("webhook-timestamp", at_s)
            .header("webhook-signature", secret.signed(&id, at_s, &body))
            .header("idempotency-key", &id)
            .body(Full::new(body));
        let Ok(request) = request else {
            return Outcome::refused(
                "reply_url",
                "reply_url is no address with this webhook's name in it",
                "",
            );
        };
        match tokio::time::timeout(WITHIN, self.ask(request)).await {
            Ok(Ok((status, asked_ms, body))) => judged(status, asked_ms, &body, &send.key),
            // It is away, which no try mends: the text waits for it.
            Ok(Err(NoAnswer::NotAsked(why))) => {
                eprintln!("an answer for {name} waits: {why}");
                Outcome::busy(Some(AWAY_MS), Scope::Chat)
            }
            Ok(Err(NoAnswer::Unknown(why))) => Outcome::Unknown(why),
            Err(_) => Outcome::Unknown(format!("no answer within {} s", WITHIN.as_secs())),
        }
    }

    async fn ask(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Option<u64>, Bytes), NoAnswer> {
        let answer = self.http.send(request).await?;
        let (status, after) = (answer.status(), answer.headers().get(header::RETRY_AFTER));
        let after = after.and_then(|after| after.to_str().ok()?.trim().parse::<u64>().ok());
        // Its words are for people; without them the number counts.
        let body = Limited::new(answer.into_body(), MOST).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        Ok((status, after.map(|s| s.saturating_mul(1000)), body))
    }
}

/// Says what an answer means.
fn judged(status: StatusCode, asked_ms: Option<u64>, body: &[u8], key: &str) -> Outcome {
    let told: String = String::from_utf8_lossy(body).split_whitespace().collect::<Vec<_>>().join(" ");
    let text = format!("it answered {status}: {}", told.chars().take(200).collect::<String>());
    match status.as_u16() {
        200..=299 => {
            let id = serde_json::from_slice::<Value>(body)
                .ok()
                .and_then(|body| Some(body.get("id")?.as_str()?.to_owned()));
            Outcome::Sent(vec![
                id.filter(|id| !id.is_empty() && id.len() <= 512).unwrap_or_else(|| key.to_owned()),
            ])
        }
        429 => Outcome::busy(asked_ms, Scope::Chat),
        503 if asked_ms.is_some() => Outcome::busy(asked_ms, Scope::Chat),
        // The receiver may have it, and knows a second one by its id.
        408 | 425 | 500..=599 => Outcome::NotSent(NotSent::Again { text }),
        410 => Outcome::gone(
            Went::Chat,
            text,
            "the receiver wants no more of this webhook: change reply_url, or unwire the chat",
        ),
        _ => Outcome::refused(status.as_str(), text, "look at reply_url and at its receiver"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_whether_it_is_tried_again() {
        let of =
            |status: u16, asked| judged(StatusCode::from_u16(status).unwrap(), asked, b"{\"id\":\"7\"}", "k");
        assert_eq!(of(200, None), Outcome::Sent(vec!["7".into()]));
        assert_eq!(judged(StatusCode::NO_CONTENT, None, b"", "k"), Outcome::Sent(vec!["k".into()]));
        assert!(matches!(of(429, Some(3000)), Outcome::NotSent(NotSent::Busy { after_ms: 3000, .. })));
        assert!(matches!(of(503, Some(1)), Outcome::NotSent(NotSent::Busy { .. })));
        for again in [500, 502, 503, 408, 425] {
            assert!(matches!(of(again, None), Outcome::NotSent(NotSent::Again { .. })), "{again}");
        }
        assert!(matches!(of(410, None), Outcome::NotSent(NotSent::Gone { .. })));
        // An address that leads elsewhere is not followed: who stands there did not get the owner's word.
        for never in [301, 307, 400, 401, 404] {
            assert!(matches!(of(never, None), Outcome::NotSent(NotSent::Refused { .. })), "{never}");
        }
    }

    #[test]
    fn answers_go_over_tls_or_stay_here_unless_the_owner_says_otherwise() {
        for (url, plain, fits) in [
            ("https://example.org/{name}", false, true),
            ("https://example.org/x?key=7&name={name}", false, true),
            ("http://127.0.0.1:9/x", false, true),
            ("http://192.168.1.7:8123/x", false, false),
            ("http://192.168.1.7:8123/{name}", true, true),
            ("ftp://x", true, false),
            ("nowhere", true, false),
        ] {
            assert_eq!(Way::new(url, plain).is_ok(), fits, "{url}");
        }
    }
}
