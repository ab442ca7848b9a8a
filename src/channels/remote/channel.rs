//! The account as a channel: what is sent, asked and shown goes to the living adapter.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use channel_protocol::{self as protocol, Can, Down, Fetch, Hint, LookFor, NotSent, Up, line};
use futures_util::future::BoxFuture;
use g2_text::Rendered;
use ipc_handlers::Time;
use tokio_util::sync::CancellationToken;

use super::{
    super::{Channel, Fetched, Intake, NotFetched, NotOpened, Ran, Unanswered},
    Last, Remote,
    child::{Folders, append},
    inward, lock,
    wire::{Lost, Wire, lost, outcome},
    words,
};
use crate::{
    domain::platforms::{
        addresses::Platform,
        channels::{Change, Found, Outcome, Part, Scope, Traits, Unsent},
        chats::{ChatKind, Listing, NotListed},
        growth::PACE_MS,
        parcels::Takes,
    },
    system::failpoint,
};

/// The time between two changes of a text that grows, where the adapter says nothing about it, ms.
const GROWTH_MS: u64 = 1000;

impl Remote {
    async fn perform(&self, make: impl FnOnce(u64) -> Down) -> Outcome {
        let Some(wire) = self.living() else { return Err(Unsent::Not(NotSent::Offline)) };
        self.perform_by(&wire, make).await
    }

    async fn perform_by(&self, wire: &Wire, make: impl FnOnce(u64) -> Down) -> Outcome {
        let outcome = match wire.ask(make).await {
            Ok(Up::Done(done)) => outcome(done),
            Ok(_) => Err(Unsent::Unknown("the adapter answered something else".into())),
            Err(error) => Err(lost(error)),
        };
        match &outcome {
            Ok(_) => self.note_out(),
            Err(Unsent::Not(NotSent::Busy { after_ms, scope: Scope::Account })) => {
                let ms = i64::try_from(*after_ms).unwrap_or(i64::MAX);
                lock(&self.gate).rest(ms.min(3_600_000), self.now_ms());
            }
            Err(_) => {}
        }
        outcome
    }

    fn key(&self, part: &Part<'_>) -> String {
        format!("{}.{}", self.ground.install, part.key())
    }
}

impl Channel for Remote {
    fn platform(&self) -> &Platform {
        &self.platform
    }

    fn owns(&self, jid: &str) -> bool {
        self.addresses().owns(jid)
    }

    fn traits(&self) -> Traits {
        let hello = lock(&self.hello);
        let Some(hello) = hello.as_ref() else { return Traits::default() };
        let can = |what| hello.can.contains(&what);
        Traits {
            sent_twice: hello.sent_twice,
            buttons: can(Can::Buttons),
            typing: can(Can::Typing),
            edits: can(Can::Edit),
            growth_ms: if hello.draft_ms == 0 {
                GROWTH_MS
            } else {
                hello.draft_ms.clamp(*PACE_MS.start(), *PACE_MS.end())
            },
            reacts: can(Can::React),
            threads: can(Can::Threads),
            text: Some(hello.text),
            files: Takes {
                largest: if can(Can::MediaOut) { hello.media.out_max } else { 0 },
                together: hello.media.together,
                caption: hello.caption_max,
            },
        }
    }

    fn run(&self, intake: Intake, stop: CancellationToken) -> BoxFuture<'_, Ran> {
        Box::pin(async move { self.supervise(&intake, &stop).await })
    }

    fn anew(&self) {
        tracing::info!(channel = self.name(), "a person wants the adapter started anew");
        *lock(&self.last) = Last::Good;
    }

    fn has_left(&self) {
        self.over.cancel();
    }

    fn turn<'a>(&'a self, chat: &'a str, for_people: bool) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let is_group = self.addresses().kind_of(chat) == ChatKind::Group;
            // Counted while it waits for the account; tasks' texts then wait behind it.
            let mut counted = None;
            loop {
                let mut wire = self.wire.subscribe();
                let connected = self.over.run_until_cancelled(wire.wait_for(Option::is_some)).await.is_some();
                if !connected {
                    return;
                }
                let yields = !for_people && self.people.load(Ordering::Relaxed) > 0;
                let passed = lock(&self.gate).pass(chat, is_group, yields, self.now_ms());
                let Err(wait) = passed else { return };
                if for_people && wait.account && counted.is_none() {
                    counted = Some(Counted::new(&self.people));
                } else if !wait.account {
                    counted = None;
                }
                tokio::time::sleep(Duration::from_millis(wait.ms.clamp(1, 60_000).unsigned_abs())).await;
            }
        })
    }

    fn send<'a>(&'a self, part: Part<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            // Files that are laid out for one life of the adapter are asked of that one.
            let Some(wire) = self.living() else { return Err(Unsent::Not(NotSent::Offline)) };
            let laid = self.spool.lay_out(&self.ground, self.name(), &part).await?;
            if !laid.files.is_empty() {
                failpoint::reach("deliver.spooled");
            }
            let buttons = if part.last { part.of.buttons.as_slice() } else { &[] };
            let button = |button: &crate::domain::rows::Button| {
                vec![protocol::Button { label: button.label.clone(), press: button.press.clone() }]
            };
            let send = protocol::Send {
                key: self.key(&part),
                chat: part.of.chat_jid.clone(),
                thread: part.of.thread.clone(),
                reply_to: part.of.reply_to.clone().filter(|_| part.n == 1),
                text: part.text.text.clone(),
                spans: part.text.spans.clone(),
                html: part.text.html.clone(),
                attachments: laid.files.clone(),
                buttons: buttons.iter().map(button).collect(),
                said_as: part.of.sender.clone(),
                ..protocol::Send::default()
            };
            self.perform_by(&wire, |r| Down::Send(Box::new(protocol::Send { r, ..send }))).await
        })
    }

    fn look_for<'a>(&'a self, part: Part<'a>, since: Time) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let Some(wire) = self.living() else { return Found::CannotTell("there is no connection".into()) };
            let look = LookFor {
                key: self.key(&part),
                chat: part.of.chat_jid.clone(),
                thread: part.of.thread.clone(),
                since: since.to_string(),
                text: part.text.text.clone(),
                ..LookFor::default()
            };
            match wire.ask(|r| Down::LookFor(LookFor { r, ..look })).await {
                Ok(Up::Found(protocol::Found {
                    ids: Some(ids), not_sent: false, cannot_tell: None, ..
                })) => Found::Has(ids),
                Ok(Up::Found(protocol::Found { ids: None, not_sent: true, cannot_tell: None, .. })) => {
                    Found::HasNot
                }
                Ok(Up::Found(protocol::Found { cannot_tell: Some(why), .. })) => Found::CannotTell(why),
                Ok(_) => Found::CannotTell("the adapter's answer says nothing".into()),
                Err(_) => Found::CannotTell("the adapter ended before it answered".into()),
            }
        })
    }

    fn amend<'a>(&'a self, chat: &'a str, platform_id: &'a str, change: Change) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let needed = match &change {
                Change::Text(_) => Can::Edit,
                Change::Deleted => Can::Delete,
                Change::Reaction(_) => Can::React,
            };
            if !self.can(needed) {
                return Err(Unsent::refused("this platform does not change messages so"));
            }
            let amend = protocol::Amend {
                key: format!("{}.{}", self.ground.install, change.key(platform_id)),
                chat: chat.to_owned(),
                id: platform_id.to_owned(),
                delete: change == Change::Deleted,
                ..protocol::Amend::default()
            };
            let amend = match change {
                Change::Text(Rendered { text, spans, html }) => {
                    protocol::Amend { text: Some(text), spans, html, ..amend }
                }
                Change::Reaction(emoji) => protocol::Amend { react: Some(emoji), ..amend },
                Change::Deleted => amend,
            };
            self.perform(|r| Down::Amend(protocol::Amend { r, ..amend })).await
        })
    }

    fn chats(&self) -> BoxFuture<'_, Result<Listing, NotListed>> {
        Box::pin(async move {
            let Some(wire) = self.living() else { return Err(NotListed::Offline) };
            if !self.can(Can::ListChats) {
                return Err(NotListed::Never);
            }
            match wire.ask(|r| Down::ListChats { r }).await {
                Ok(Up::Chats { problem: Some(why), .. }) => Err(NotListed::Failed(
                    words(&why).unwrap_or_else(|| "the platform does not say why".into()),
                )),
                Ok(Up::Chats { chats, problem: None, .. }) => {
                    let (listing, why) = inward::listing(&self.addresses(), &chats);
                    if let Some(why) = why {
                        let text = format!(
                            "of the chats that it lists {} are passed over, the first one because {why}",
                            listing.passed_over
                        );
                        append(&Folders::of(&self.ground, self.name()).log, self.ground.world.now(), &text);
                    }
                    Ok(listing)
                }
                Ok(_) => Err(NotListed::Failed("the adapter answered something else".into())),
                Err(Lost::Never) => Err(NotListed::Offline),
                Err(_) => Err(NotListed::Failed("the adapter ended before it answered".into())),
            }
        })
    }

    fn direct<'a>(&'a self, user: &'a str) -> BoxFuture<'a, Result<String, NotOpened>> {
        Box::pin(async move {
            let Some(wire) = self.living() else { return Err(NotOpened::Offline) };
            if !self.can(Can::OpenDm) {
                return Err(NotOpened::Never);
            }
            let native = user.strip_prefix(self.platform.prefix()).and_then(|user| user.strip_prefix(':'));
            let native = native.unwrap_or(user).to_owned();
            match wire.ask(|r| Down::OpenDm { r, user: native }).await {
                Ok(Up::ChatOf { chat: Some(chat), .. }) => match inward::chat(&self.addresses(), &chat) {
                    Ok(chat) => Ok(chat.to_owned()),
                    Err(error) => Err(NotOpened::Failed(format!("the adapter opened a wrong chat: {error}"))),
                },
                Ok(Up::ChatOf { chat: None, why, .. }) => Err(NotOpened::Failed(
                    words(&why).unwrap_or_else(|| "the platform does not say why".into()),
                )),
                Ok(_) => Err(NotOpened::Failed("the adapter answered something else".into())),
                // Asked again, it is the same chat.
                Err(_) => Err(NotOpened::Offline),
            }
        })
    }

    fn fetch<'a>(
        &'a self,
        chat: &'a str,
        what: &'a str,
        most: u64,
    ) -> BoxFuture<'a, Result<Fetched, NotFetched>> {
        Box::pin(async move {
            let Some(wire) = self.living() else { return Err(NotFetched::Offline) };
            let fetch = Fetch { r: 0, chat: chat.to_owned(), what: what.to_owned(), most };
            match wire.ask(|r| Down::Fetch(Fetch { r, ..fetch })).await {
                Ok(Up::Fetched { file: Some(place), problem: None, .. }) => {
                    Ok(Fetched { folder: Folders::of(&self.ground, self.name()).spool, place })
                }
                Ok(Up::Fetched { problem: Some(why), .. }) => Err(NotFetched::Failed(
                    words(&why).unwrap_or_else(|| "the platform does not say why".into()),
                )),
                Ok(_) => Err(NotFetched::Failed("the adapter's answer says nothing".into())),
                Err(Lost::Never) => Err(NotFetched::Offline),
                Err(_) => Err(NotFetched::Failed("the adapter ended before it answered".into())),
            }
        })
    }

    fn request(&self, request: protocol::Request) -> BoxFuture<'_, Result<protocol::Response, Unanswered>> {
        Box::pin(async move {
            // What it said last stays while it is away.
            if !self.can(Can::Requests) {
                return Err(Unanswered::Never);
            }
            let Some(wire) = self.living() else { return Err(Unanswered::Away) };
            match wire.ask(|r| Down::Request(Box::new(protocol::Request { r, ..request }))).await {
                Ok(Up::Response(response)) => Ok(response),
                Err(Lost::TooLong) => Err(Unanswered::TooLong),
                Ok(_) | Err(Lost::Never | Lost::Perhaps) => Err(Unanswered::Away),
            }
        })
    }

    fn typing<'a>(&'a self, chat: &'a str, thread: &'a str, on: bool) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if !self.can(Can::Typing) {
                return;
            }
            let hint =
                Hint { chat: chat.to_owned(), thread: thread.to_owned(), typing: on, ..Hint::default() };
            if let (Some(wire), Some(line)) = (self.living(), line(&Down::Show(hint))) {
                // It is asked for again soon; a full line is no reason to wait.
                let _ = wire.lines.try_send(line);
            }
        })
    }
}

/// Counts one as long as it lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(of: &'a AtomicUsize) -> Self {
        of.fetch_add(1, Ordering::Relaxed);
        Self(of)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
