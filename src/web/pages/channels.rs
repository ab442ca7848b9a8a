//! Channels: how each account stands, by its three lights; what links it; the end of its adapter's log. And a form for one more.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Extension, body::Body, extract::State, http::Response};
use ipc_handlers::Time;
use maud::{Markup, html};
use serde_json::Value;

use super::now::lights;
use crate::{
    config::adapters::{OWN_PLATFORMS, tokens, warning},
    domain::rows::{ChannelState, Chat},
    ops::{OpError, channels::add as adding},
    web::{
        Visitor, Web,
        act::{self, Fields},
        layout::{Failed, Page, Place, View},
        parts::{act as button, at, at_or_dash, hidden, line, qr, reveal, shown},
    },
};

/// How much of the end of a log is shown, bytes.
const LOG: u64 = 4 << 10;
/// How many chats of an account are shown, the newest first.
const CHATS: usize = 100;
/// How many accounts are shown.
const MOST: usize = 50;
/// The longest token that is taken, bytes.
const TOKEN: usize = 4096;

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
    let (owned, addresses) = (store.owned_channels().await?, store.addresses().await?);
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
                        (button(&view, "channels.restart", &[("name", name)], "Start anew"))
                    }
                    (standing(&view, state))
                    @if !owned.contains(name) && !addresses.is_of_programs(name) {
                        div.acts { span.none { "Nobody is an owner there yet." } (super::claim::button(&view, name)) }
                    }
                    p.dim { @if *count == 0 { "Nothing is unsent." } @else { (count) " unsent, the oldest of " (at_or_dash(*oldest, view.now, &view.zone)) } }
                    (chats(&view, name, known))
                    @if let Some(pair) = &left.pair { (linking(pair)) }
                    div.acts { (reveal(&view, "channels.remove", &[("name", name)], "Remove", "Remove the account; its chats and messages stay")) }
                    @if !left.log.is_empty() { details { summary { "Log of its adapter" } pre.output tabindex="0" { (shown(&left.log)) } } }
                }
            }
        }
        @if names.is_empty() { p.none { "No account on a platform." } }
        (form(&view))
    };
    Ok(view.show(&Page::new(Place::Channels, "g2 channels list", body).every(5)))
}

/// The form that adds an account.
fn form(view: &View) -> Markup {
    html! {
        section {
            h2 { "Add an account" }
            form.asks id="channels/add" method="post" action="/channels/add" hx-post="/channels/add" hx-target="#main" hx-swap="outerMorph" data-clear autocomplete="off" {
                (hidden(view))
                label { "Platform" select name="platform" required { @for platform in OWN_PLATFORMS { option value=(platform) { (platform) } } } }
                label { "Name of a second account there" input name="account" maxlength="40" pattern="[a-z0-9_\\-]*" placeholder="work"; }
                label { "Token" input type="password" name="secret" maxlength=(TOKEN) autocomplete="off" spellcheck="false"; }
                label { "Matrix: its homeserver" input type="url" name="homeserver" maxlength="300" placeholder="https://matrix.example.org"; }
                label { "Matrix: who may invite it" input name="invites" maxlength="1000" placeholder="@you:example.org, @her:example.org"; }
                label { "Signal: its number in signal-cli" input type="tel" name="number" maxlength="40" placeholder="+4930123456"; }
                label { "Mail: the mailbox's address" input name="user" maxlength="300" placeholder="agent@example.org"; }
                label { "Mail: its IMAP server" input name="imap" maxlength="300" placeholder="imap.example.org"; }
                label { "Mail: its SMTP server" input name="smtp" maxlength="300" placeholder="smtp.example.org"; }
                label { "Mail: the server that checks senders" input name="authserv" maxlength="300" placeholder="mx.example.org"; }
                button.main { "Add" }
            }
            p.dim { "Of a mailbox the token is the password; an app password where there is one. Signal has no token." }
            p.dim { "Slack has two tokens: give both, with a space between. " code { "g2 channels add slack" } " shows the manifest of its app." }
            @if let Some(warning) = warning("whatsapp") { p.dim { "WhatsApp has no token: its phone scans the picture that is shown above once the account is there. " (warning) "." } }
            p.dim { "The token is kept in " code { "data/secrets/" } ", for this user only, and is shown nowhere again. The lights above say whether the platform takes it. An adapter of your own is added by " code { "g2 channels add NAME --program PROGRAM" } "." }
        }
    }
}

/// Adds an account.
pub(in crate::web) async fn add(
    State(web): State<Arc<Web>>,
    Extension(visitor): Extension<Visitor>,
    fields: Fields,
) -> Response<Body> {
    match read(|name| fields.get(name)) {
        Ok(args) => act::done(&web, &visitor, &fields, args.into()).await,
        Err(wrong) => act::refused(&web, &visitor, &fields, &wrong),
    }
}

/// What an account of mail has beside its password.
const MAIL: [(&str, &str); 4] = [
    ("user", "the mailbox's address"),
    ("imap", "an IMAP server"),
    ("smtp", "an SMTP server"),
    ("authserv", "a server that checks senders"),
];

fn read<'a>(field: impl Fn(&str) -> &'a str) -> Result<adding::Args, OpError> {
    let platform = field("platform");
    if !OWN_PLATFORMS.contains(&platform) {
        return Err(OpError::invalid("no platform is chosen that G2 has an adapter for"));
    }
    let name = match field("account").trim() {
        "" => platform.to_owned(),
        account => format!("{platform}.{account}"),
    };
    let token = Some(field("secret").trim()).filter(|token| !token.is_empty() || !tokens(&name).is_empty());
    if token.is_some_and(|token| token.is_empty() || token.len() > TOKEN || token.contains(char::is_control))
    {
        return Err(OpError::invalid(format!("a token is one line of 1 to {TOKEN} bytes")));
    }
    let mut settings = BTreeMap::new();
    if platform == "matrix" {
        let homeserver = field("homeserver").trim();
        if homeserver.is_empty() {
            return Err(OpError::invalid("an account on Matrix needs the address of its homeserver"));
        }
        settings.insert("homeserver".to_owned(), Value::from(homeserver));
        let invites: Vec<&str> =
            field("invites").split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
        if !invites.is_empty() {
            settings.insert("invites_from".to_owned(), Value::from(invites));
        }
    }
    if platform == "mail" {
        for (key, what) in MAIL {
            let value = field(key).trim();
            if !value.is_empty() {
                settings.insert(key.to_owned(), Value::from(value));
            } else if key != "authserv" {
                return Err(OpError::invalid(format!("an account of mail needs {what}")));
            }
        }
    }
    if platform == "signal" {
        let number = field("number").trim();
        if number.is_empty() {
            return Err(OpError::invalid("an account on Signal needs its number in signal-cli"));
        }
        settings.insert("account".to_owned(), Value::from(number));
    }
    Ok(adding::Args { name, token: token.map(str::to_owned), program: Vec::new(), settings })
}

/// The chats of an account, and when it told of them last.
fn chats(view: &View, account: &str, ((chats, all), listed): &((Vec<Chat>, usize), Option<Time>)) -> Markup {
    html! {
        details {
            summary { "Chats: " (all) }
            p.dim { "Listed by the account " (at_or_dash(*listed, view.now, &view.zone)) @if chats.len() < *all { ", the newest " (chats.len()) " are shown" } }
            ul { @for chat in chats { li { (line(&chat.name, 80)) " " code { (line(&chat.jid, 80)) } " " span.dim { (chat.kind) } } } }
        }
        (button(view, "chats.refresh", &[("account", account)], "Ask for its chats"))
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
            @if let (Some("qr" | "link"), Some(data)) = (pair["kind"].as_str(), pair["data"].as_str()) { @if let Some(picture) = qr(data, "The code that links it, for a phone") { (picture) } }
            @if let Some(fields) = pair.as_object() {
                dl.facts { @for (name, value) in fields { @if !value.is_null() { div { dt { (line(name, 30)) } dd { code { (line(value.as_str().unwrap_or(&value.to_string()), 400)) } } } } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_names_an_account_of_a_platform_and_nothing_that_it_does_not_need() {
        let of = |fields: &'static [(&str, &str)]| {
            read(|name| fields.iter().find(|(field, _)| *field == name).map_or("", |(_, value)| value))
        };
        let typed = |fields| crate::ops::Op::from(of(fields).unwrap()).typed();
        for (fields, command) in [
            (&[("platform", "telegram"), ("secret", " 12:ab ")][..], "g2 channels add telegram"),
            (
                &[("platform", "discord"), ("account", "work"), ("secret", "x"), ("homeserver", "https://a")],
                "g2 channels add discord.work",
            ),
            (&[("platform", "slack"), ("secret", "xapp-1 xoxb-2")], "g2 channels add slack"),
            (&[("platform", "whatsapp"), ("account", "work")], "g2 channels add whatsapp.work"),
            (
                &[("platform", "signal"), ("number", " +4930123456 ")],
                "g2 channels add --set account=+4930123456 signal",
            ),
            (
                &[("platform", "mail"), ("secret", "x"), ("user", "a@b.c"), ("imap", "i"), ("smtp", "s")],
                "g2 channels add --set imap=i --set smtp=s --set user=a@b.c mail",
            ),
            (
                &[
                    ("platform", "matrix"),
                    ("secret", "x"),
                    ("homeserver", "https://a"),
                    ("invites", "@a:b, "),
                ],
                "g2 channels add --set homeserver=https://a --set invites_from='[\"@a:b\"]' matrix",
            ),
        ] {
            assert_eq!(typed(fields), command);
        }
        assert_eq!(
            of(&[("platform", "telegram"), ("secret", " 12:ab ")]).unwrap().token.as_deref(),
            Some("12:ab")
        );
        for fields in [
            &[("platform", "irc"), ("secret", "x")][..],
            &[("platform", "signal")],
            &[("platform", "telegram")],
            &[("platform", "telegram"), ("secret", " ")],
            &[("platform", "telegram"), ("secret", "a\nb")],
            &[("platform", "matrix"), ("secret", "x")],
        ] {
            assert!(of(fields).is_err(), "{fields:?}");
        }
    }
}
