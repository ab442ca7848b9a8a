//! Conversations of agents: archived ones, found by what was said in them and taken up again, and those that go on.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Path, Query},
    http::Response,
};
use ipc_handlers::{Folder, Refusal, commands::search_sessions::check_query, shown::FoundSession};
use maud::{Markup, html};
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::{
    domain::{rows::Session, shown::screen::quoted, states::SessionState},
    ops::OpError,
    store::{Stop, Store, StoreError},
    system::world::World,
    web::{
        layout::{Failed, Page, Place, View},
        parts::{at, at_or_dash, encoded, form, form_to, line, reveal, shown, sure},
    },
};

/// How many are listed, the newest.
const MOST: usize = 200;
/// How many a search shows.
const FOUND: usize = 50;
/// How long a search goes on, in all groups together.
const LOOKS: Duration = Duration::from_secs(8);
/// How much of the end of a conversation is shown, bytes.
const SHOWN: u32 = 256 << 10;

/// Searches of the page: as many at a time, whatever is asked.
static SEARCHING: Semaphore = Semaphore::const_new(2);

#[derive(Deserialize)]
pub(in crate::web) struct Wanted {
    #[serde(default)]
    group: String,
    #[serde(default)]
    find: String,
}

pub(in crate::web) async fn show(view: View, Query(wanted): Query<Wanted>) -> Result<Response<Body>, Failed> {
    let store = &view.web.desk.store;
    let group = match wanted.group.trim() {
        "" => None,
        name => {
            let none = || Failed::not_found(format!("there is no group {name}"));
            let folder = Folder::parse(name).map_err(|_| none())?;
            store.group(&folder).await?.ok_or_else(none)?;
            Some(folder)
        }
    };
    let find = wanted.find.trim();
    let of_group = group.as_ref().map(|group| format!(" --group {group}")).unwrap_or_default();
    let asks = html! {
        form.find method="get" action="/conversations" role="search" {
            label { span.hidden { "Group" } input type="search" name="group" value=(wanted.group) placeholder="Only of this group"; }
            label { span.hidden { "Words that were said" } input type="search" name="find" value=(find) placeholder="Words that were said"; }
            button { "Find" }
        }
    };
    if !find.is_empty() {
        let (found, notes) = search(&view, group, find).await?;
        let body = html! {
            (asks)
            @for note in &notes { p.dim { (shown(note)) } }
            (hits(&view, &found))
        };
        let command = format!("g2 sessions search {}{of_group}", quoted(find));
        // Nobody else's change has a search made again.
        return Ok(view.show(&Page::new(Place::Conversations, command, body).still()));
    }
    let newest = |state| store.sessions(group.as_ref(), Some(state), Some(MOST));
    let (live, archived) = (newest(SessionState::Live)?, newest(SessionState::Archived)?);
    let body = html! {
        (asks)
        section {
            h2 { "Archived" }
            @if archived.is_empty() { p.none { "No conversation is archived." } } @else { (list(&view, &archived)) }
            @if archived.len() == MOST { p.dim { "The newest " (MOST) ". " code { "g2 sessions list --state archived" (of_group) } " has all." } }
        }
        section {
            h2 { "Going on" }
            @if live.is_empty() { p.none { "No agent has a conversation that goes on." } } @else { (going_on(&view, &live)) }
            @if live.len() == MOST { p.dim { "The newest " (MOST) " of those that go on. " code { "g2 sessions list --state live" (of_group) } " has all." } }
        }
        @if let Some(group) = &group { (changes(&view, group)) }
    };
    Ok(view.show(&Page::new(Place::Conversations, format!("g2 sessions list{of_group}"), body)))
}

/// Finds archived conversations, and says why that may not be all.
async fn search(
    view: &View,
    group: Option<Folder>,
    find: &str,
) -> Result<(Vec<FoundSession>, Vec<String>), Failed> {
    check_query(find).map_err(|fault| OpError::invalid(format!("the query {fault}")))?;
    let store = view.web.desk.store.clone();
    let groups = match group {
        Some(group) => vec![group],
        None => store.groups().await?.into_iter().map(|group| group.folder).collect(),
    };
    let (world, find) = (view.web.world.clone(), find.to_owned());
    let turn = SEARCHING.acquire().await;
    let looks = move || {
        // It ends with the search, even where nobody waits for that any more.
        let _turn = turn;
        look(&world, &store, &groups, &find)
    };
    Ok(view.web.world.blocking(looks).await??)
}

fn look(
    world: &World,
    store: &Store,
    groups: &[Folder],
    find: &str,
) -> Result<(Vec<FoundSession>, Vec<String>), StoreError> {
    let (clock, began) = (world.clone(), world.monotonic());
    let stop: Stop = Arc::new(move || clock.monotonic().duration_since(began) >= LOOKS);
    let (mut ranked, mut notes) = (Vec::new(), Vec::new());
    for group in groups {
        if stop() {
            notes.push("not all groups were searched: it took too long; name a group".to_owned());
            break;
        }
        let is_whole = store.is_indexed(group)?;
        let found = store.search(group, find, i64::try_from(FOUND).unwrap_or(i64::MAX), is_whole, &stop)?;
        notes.extend(found.unsearched.map(|why| format!("group {group}: {}", Refusal::from(why).message)));
        ranked.extend(found.sessions.into_iter().enumerate());
    }
    notes.truncate(FOUND);
    // How well something fits is known within its group only: the best of each, then the second of each.
    ranked.sort_by_key(|(rank, _)| *rank);
    Ok((ranked.into_iter().take(FOUND).map(|(_, found)| found).collect(), notes))
}

fn hits(view: &View, found: &[FoundSession]) -> Markup {
    html! {
        @if found.is_empty() { p.none { "Nothing was found in archived conversations." } }
        @for hit in found {
            article.item {
                p {
                    a href={ "/conversations/" (hit.session.id) } { (line(&hit.session.name, 80)) }
                    " " span.dim { (hit.group) ", " (at(hit.session.archived_at, view.now, &view.zone)) }
                }
                (resume(view, hit.session.id))
                p.text { (snippet(&hit.snippet)) }
            }
        }
    }
}

/// A piece of what was said, with the words that were looked for between `**`.
fn snippet(text: &str) -> Markup {
    let text = line(text, 600);
    let parts: Vec<&str> = text.split("**").collect();
    html! {
        @for (n, part) in parts.iter().enumerate() {
            @if n % 2 == 1 && n + 1 < parts.len() { mark { (part) } } @else { (part) }
        }
    }
}

fn list(view: &View, archived: &[Session]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "Name" } th { "Group" } th { "Archived" } th { "Agent’s name" } th { span.hidden { "Change" } } } }
            tbody { @for session in archived.iter().rev() {
                @let id = session.id.unwrap_or_default();
                tr {
                    td { a href={ "/conversations/" (id) } { (line(session.name.as_deref().unwrap_or("–"), 80)) } }
                    td { a href={ "/conversations?group=" (session.group) } { (session.group) } }
                    td { (at_or_dash(session.archived_at, view.now, &view.zone)) }
                    td { code { (line(&session.session_id, 40)) } }
                    td { div.acts { (resume(view, id)) (remove(view, id)) } }
                }
            } }
        } }
    }
}

fn going_on(view: &View, live: &[Session]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "Group" } th { "Chat" } th { "Agent’s name" } th { span.hidden { "Change" } } } }
            tbody { @for session in live {
                @let chat = session.chat_jid.as_deref().unwrap_or_default();
                tr {
                    td { a href={ "/conversations?group=" (session.group) } { (session.group) } }
                    td { a href={ "/chats/" (session.group) "?chat=" (encoded(chat)) } { (line(chat, 60)) } @if let Some(thread) = &session.thread { " " span.dim { "in " (line(thread, 30)) } } }
                    td { code { (line(&session.session_id, 40)) } }
                    td {
                        @let thread = session.thread.as_deref().unwrap_or_default();
                        @let of = [("group", session.group.as_str()), ("chat", chat), ("thread", thread)];
                        (reveal(view, "sessions.clear", &of, "Begin anew", "End it without a copy"))
                    }
                }
            } }
        } }
    }
}

/// What is done to all conversations of a group.
fn changes(view: &View, group: &Folder) -> Markup {
    let of = [("group", group.as_str())];
    html! {
        section {
            h2 { "All of " (group) }
            div.acts {
                (form(view, "sessions.archive", &of, "archive", &html! {
                    label { span.hidden { "Name of the copy" } input name="arg-name" required maxlength="200" placeholder="before the move"; }
                    button { "Keep a copy" }
                }))
                (form(view, "sessions.clear", &of, "clear", &html! {
                    label { span.hidden { "Name of the copy that is kept before" } input name="arg-name" required maxlength="200" placeholder="before the move"; }
                    button { "Keep a copy and begin anew" }
                }))
            }
        }
    }
}

/// Has a group go on with an archived conversation, in all its chats.
fn resume(view: &View, id: i64) -> Markup {
    let id = id.to_string();
    html! {
        details.sure id={ "resume/" (id) } {
            summary { "Go on with it…" }
            (form(view, "sessions.resume", &[("id", &id)], "save_name", &html! {
                label { span.hidden { "Keep the present ones as" } input name="arg-save_name" maxlength="200" placeholder="keep the present ones as"; }
                button.danger { "Go on in all chats of the group" }
            }))
        }
    }
}

fn remove(view: &View, id: i64) -> Markup {
    let id = id.to_string();
    html! {
        details.sure id={ "remove/" (id) } {
            summary { "Remove…" }
            (form_to(view, "/conversations", "sessions.delete", (&[("id", &id)], ""), &html! { (sure("It does not come back")) button.danger { "Remove it for good" } }))
        }
    }
}

pub(in crate::web) async fn one(view: View, Path(id): Path<i64>) -> Result<Response<Body>, Failed> {
    let store = view.web.desk.store.clone();
    let found = view.web.world.blocking(move || store.archived_session(id, Some(SHOWN + 1))).await??;
    let (found, text) =
        found.ok_or_else(|| Failed::not_found(format!("no archived session has the number {id}")))?;
    // As many characters as are read have at least as many bytes.
    let from = text.ceil_char_boundary(text.len().saturating_sub(SHOWN as usize));
    let body = html! {
        p.dim { a href={ "/conversations?group=" (found.group) } { "All of " (found.group) } }
        dl.facts {
            div { dt { "Group" } dd { a href={ "/groups/" (found.group) } { (found.group) } } }
            div { dt { "Archived" } dd { (at(found.session.archived_at, view.now, &view.zone)) } }
            div { dt { "Agent’s name" } dd { code { (line(&found.session.session_id, 80)) } } }
        }
        div.acts { (resume(&view, id)) (remove(&view, id)) }
        @if from > 0 { p.dim { "The end of it. " code { "g2 sessions show " (id) } " has all." } }
        @if text.is_empty() { p.none { "Nothing is kept of what was said." } } @else { pre.output tabindex="0" { (shown(&text[from..])) } }
    };
    let page = Page::new(Place::Conversations, format!("g2 sessions show {id}"), body);
    Ok(view.show(&page.titled(line(&found.session.name, 60))))
}
