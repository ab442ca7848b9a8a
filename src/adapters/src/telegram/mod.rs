//! Telegram, by its Bot API: `docs/telegram.md` is the page for people.
//!
//! In: one long poll at a time. The next one names the last update, and so tells Telegram to forget it; it is made once all
//! updates of the one before are stored. Out: Telegram knows no key of ours and can't be asked what it has, so a request that
//! broke off after it was written has an unknown end.
//!
//! | state | how it ends |
//! |---|---|
//! | not known yet | `getMe` answers: `hello` |
//! | polling | the connection fails: tried again, at first after 1 s, later after 30 s |
//! | denied: Telegram says that it does not know the token | `getMe` answers: as before; it says no again a minute later, or the account was never let in: refused |
//! | another program polls | three times in a row: refused |
//! | refused | the program ends; a person has to do something |

mod api;
mod body;
mod entities;
mod judge;
mod outgoing;
mod polling;
mod read;
mod spans;
mod stuck;
mod wire;
mod words;
mod write;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, OnceLock, PoisonError, atomic::AtomicU64},
};

use channel_protocol::{Amend, Fetch, Hint, Light, Send, Start, State};
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::{api::Api, judge::Fault, read::Us, write::Ways};
use crate::kit::{Adapter, Ended, Host, Outcome};

/// One bot.
pub struct Telegram {
    api: Api,
    host: Host,
    start: Start,
    ways: Ways,
    lights: tokio::sync::Mutex<Option<State>>,
    us: OnceLock<Us>,
    /// The key of a press, and the id by which the presser is answered.
    presses: Mutex<VecDeque<(String, String)>>,
    /// The chat that has to wait, and until when.
    busy: Mutex<Option<(String, Instant)>>,
    /// How many updates could not be read.
    passed_over: AtomicU64,
}

/// Takes up an account. It is reached for in `run`, so that the host is heard meanwhile.
///
/// # Errors
/// The account can't be reached as it is set up.
pub async fn connect(start: Start, host: Host) -> Result<Arc<Telegram>, String> {
    let token = start.config.get("token").and_then(Value::as_str).unwrap_or_default();
    let ways =
        Ways { previews: start.config.get("link_previews").and_then(Value::as_bool).unwrap_or_default() };
    match Api::new(token, start.upstream.as_deref()) {
        Ok(api) => Ok(Arc::new(Telegram {
            api,
            host,
            start,
            ways,
            lights: tokio::sync::Mutex::default(),
            us: OnceLock::new(),
            presses: Mutex::default(),
            busy: Mutex::default(),
            passed_over: AtomicU64::new(0),
        })),
        Err(why) => {
            let why = why.to_string();
            let _ = host.state(refused(&why, &token_hint(&start.instance))).await;
            Err(why)
        }
    }
}

fn refused(why: &str, hint: &str) -> State {
    let light = Light::Refused;
    State { transport: light, inbound: light, outbound: light, why: why.into(), hint: hint.into() }
}

fn token_hint(instance: &str) -> String {
    format!(
        "@BotFather shows the bot's token (/mybots, API Token); set it, then `g2 channels restart {instance}`"
    )
}

impl Adapter for Telegram {
    fn run(self: Arc<Self>, _: Host) -> BoxFuture<'static, Ended> {
        async move { self.live().await.unwrap_or(Ended::Left) }.boxed()
    }

    fn send(&self, send: Send) -> BoxFuture<'_, Outcome> {
        async move { self.put(&send).await.unwrap_or_else(|refused| refused) }.boxed()
    }

    fn amend(&self, amend: Amend) -> BoxFuture<'_, Outcome> {
        async move { self.change(&amend).await.unwrap_or_else(|refused| refused) }.boxed()
    }

    fn show(&self, hint: Hint) -> BoxFuture<'_, ()> {
        async move {
            if hint.typing
                && !self.has_to_wait(&hint.chat)
                && let Ok(call) = write::typing(&self.start.prefix, &hint.chat, &hint.thread)
                && let Err(Fault::Told(told)) = self.api.call(call.method, &call.params).await
            {
                self.note_busy(&hint.chat, told.parameters.retry_after);
            }
        }
        .boxed()
    }

    fn told(&self, event_key: String, text: String) -> BoxFuture<'_, ()> {
        async move {
            let query = {
                let mut presses = self.presses.lock().unwrap_or_else(PoisonError::into_inner);
                let at = presses.iter().position(|(key, _)| *key == event_key);
                at.and_then(|at| presses.remove(at))
            };
            let Some((_, query)) = query else { return };
            let call = write::told(&query, &text);
            if let Err(fault) = self.api.call(call.method, &call.params).await {
                eprintln!("who pressed a button was not answered: {fault}");
            }
        }
        .boxed()
    }

    fn open_dm(&self, user: String) -> BoxFuture<'_, Result<String, String>> {
        async move {
            // The chat with a person has the person's number, and is there once the person wrote to the bot.
            let id = user.rsplit(':').next().and_then(|id| id.parse::<i64>().ok());
            let id = id.ok_or("a person of Telegram is a number")?;
            let chat = json!({"chat_id": id}).as_object().cloned().unwrap_or_default();
            match self.api.call("getChat", &chat).await {
                Ok(_) => Ok(format!("{}:{id}", self.start.prefix)),
                Err(Fault::Told(_)) => Err("the person has to write to the bot first".into()),
                Err(fault) => Err(fault.to_string()),
            }
        }
        .boxed()
    }

    fn fetch(&self, what: Fetch) -> BoxFuture<'_, Result<String, String>> {
        async move { self.bring(&what).await }.boxed()
    }
}
