//! Channels: how each account stands, by its three lights; what links it; the end of its adapter's log.

use axum::{body::Body, http::Response};
use ipc_handlers::Time;
use maud::{Markup, html};
use serde_json::Value;

use super::now::lights;
use crate::{
    domain::rows::{ChannelState, Chat},
    web::{
        layout::{Failed, Page, Place, View},
        parts::{act, at, at_or_dash, line, shown},
    },
};

/// How much of the end of a log is shown, bytes.
const LOG: u64 = 4 << 10;
/// How many chats of an account are shown, the newest first.
const CHATS: usize = 100;
/// How many accounts are shown.
const MOST: usize = 50;

/// What an adapter leaves for people.
struct Left {
    pair: Option<Value>,
    log: String,
}

pub(in crate::web) async fn show(view: View) -> Result<Response<Body>, Failed> {
    let store = &view.web.desk.store;
    let states = store.connections().await?;
    let names: Vec<String> =
        view.web.config.now().channels.iter().take(MOST).map(|account| account.name.clone()).collect();
    let (mut unsent, mut known) = (Vec::new(), Vec::new());
    for name in &names {
        unsent.push(store.unsent(name).await?);
        known.push((store.chats_of(name, CHATS).await?, store.listed(name)?));
    }
    let (root, of) = (view.web.root.clone(), names.clone());
    let left =
        view.web.world.blocking(move || of.iter().map(|name| left(&root, name)).collect::<Vec<_>>()).await?;
    let body = html! {
        section.card-list {
            div.item { p { strong { "local" } " " span.dim { "terminals of this machine, and this page: always there" } } }
            @for (((name, (count, oldest)), left), known) in names.iter().zip(&unsent).zip(&left).zip(&known) {
                @let state = states.iter().find(|state| state.channel == *name);
                article.account id=(name) {
                    div.item-head {
                        p.lights { (lights(name, state)) }
                        (act(&view, "channels.restart", &[("name", name)], "Start anew"))
                    }
                    (standing(&view, state))
                    p.dim { @if *count == 0 { "Nothing is unsent." } @else { (count) " unsent, the oldest of " (at_or_dash(*oldest, view.now, &view.zone)) } }
                    (chats(&view, name, known))
                    @if let Some(pair) = &left.pair { (linking(pair)) }
                    @if !left.log.is_empty() { details { summary { "Log of its adapter" } pre.output tabindex="0" { (shown(&left.log)) } } }
                }
            }
        }
        @if names.is_empty() { p.none { "No account on a platform. " code { "g2 channels add telegram" } " adds one." } }
    };
    Ok(view.show(&Page::new(Place::Channels, "g2 channels list", body).every(5)))
}

/// The chats of an account, and when it told of them last.
fn chats(view: &View, account: &str, ((chats, all), listed): &((Vec<Chat>, usize), Option<Time>)) -> Markup {
    html! {
        details {
            summary { "Chats: " (all) }
            p.dim { "Listed by the account " (at_or_dash(*listed, view.now, &view.zone)) @if chats.len() < *all { ", the newest " (chats.len()) " are shown" } }
            ul { @for chat in chats { li { (line(&chat.name, 80)) " " code { (line(&chat.jid, 80)) } " " span.dim { (chat.kind) } } } }
        }
        (act(view, "chats.refresh", &[("account", account)], "Ask for its chats"))
    }
}

fn left(root: &std::path::Path, name: &str) -> Left {
    let log = crate::root::read_adapter_log_end(root, name, LOG).unwrap_or_default();
    Left { pair: crate::root::read_pair(root, name), log: String::from_utf8_lossy(&log).into_owned() }
}

fn standing(view: &View, state: Option<&ChannelState>) -> Markup {
    html! {
        @match state {
            None => p.none { "Its adapter has not said how it stands." },
            Some(state) => {
                p { "Connection " strong { (state.state) } ", inbound " strong { (state.inbound) } ", outbound " strong { (state.outbound) } ", since " (at(state.since, view.now, &view.zone)) }
                @if let Some(why) = &state.why { p { (shown(why)) } }
                @if let Some(hint) = &state.hint { p.dim { (shown(hint)) } }
                p.dim { "Last event " (at_or_dash(state.last_in, view.now, &view.zone)) ", last text taken " (at_or_dash(state.last_out, view.now, &view.zone)) ", started " (state.starts) @if state.starts == 1 { " time" } @else { " times" } }
            }
        }
    }
}

/// What links an account: the fields that its adapter gives.
fn linking(pair: &Value) -> Markup {
    html! {
        div.item.problem {
            p { strong { "It is to be linked." } }
            @if let Some(fields) = pair.as_object() {
                dl.facts { @for (name, value) in fields { @if !value.is_null() { div { dt { (line(name, 30)) } dd { code { (line(value.as_str().unwrap_or(&value.to_string()), 400)) } } } } } }
            }
        }
    }
}
