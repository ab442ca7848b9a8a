//! People: questions that are open, users with their roles, who was not heard.

use axum::{body::Body, http::Response};
use maud::html;

use super::cards::{Cards, asked};
use crate::{
    domain::heard::approvals::State,
    store::Which,
    web::{
        layout::{Failed, Page, Place, View},
        parts::{at, form, line, reveal, shown},
    },
};

/// How many rows of each are shown.
const MOST: usize = 100;
/// How many questions that are answered.
const ANSWERED: usize = 20;

pub(in crate::web) async fn show(view: View) -> Result<Response<Body>, Failed> {
    let store = &view.web.desk.store;
    let open = store.approvals(false).await?;
    let mut answered = store.approvals_of(true, Which { limit: Some(ANSWERED), ..Which::default() }).await?;
    answered.retain(|question| question.decided_at.is_some());
    let users = store.newest_users(Some(MOST)).await?;
    let dropped = store.dropped(Some(MOST)).await?;
    let (pending, unsaid): (Vec<_>, Vec<_>) =
        open.into_iter().partition(|question| question.state == State::Pending);
    let cards = Cards::read(&view, pending.iter().take(MOST).cloned().collect()).await?;
    let of_agents = store.questions(false, Which { limit: Some(MOST), ..Which::default() }).await?;
    let body = html! {
        section {
            h2 { "Questions" }
            @if pending.is_empty() && unsaid.is_empty() { p.none { "No question is open." } }
            (cards.all(&view))
            @for question in &unsaid {
                div.item { p { "Question " (question.id) " about " (line(&question.sender_name, 40)) " could not be sent to " (line(&question.approver, 60)) } }
            }
        }
        @if !of_agents.is_empty() {
            section #asked {
                h2 { "Asked by agents" }
                p.dim { "The people of the chat answer there. " code { "g2 questions list --all" } " has those that are over." }
                @for question in of_agents.iter().rev() { (asked(&view, question)) }
            }
        }
        section {
            h2 { "Users" }
            @if users.is_empty() { p.none { "Nobody has a role or is known to a group by name." } } @else {
                div.scroll { table {
                    thead { tr { th { "Name" } th { "Id" } th { "Roles" } th { "Known to" } th { "Asked in" } th { span.hidden { "Change" } } } }
                    tbody { @for user in users.iter().rev() { tr {
                        td { (line(&user.name, 40)) }
                        td { code { (line(&user.id, 60)) } }
                        td { (user.roles.join(", ")) }
                        td { (line(&user.member_of.join(", "), 120)) }
                        td { (user.dm_chat.as_deref().map(|chat| line(chat, 40)).unwrap_or_default()) }
                        td { div.acts {
                            (form(&view, "users.role", &[("id", &user.id)], "role", &html! {
                                label { span.hidden { "Role of " (line(&user.id, 60)) } select name="arg-role" { @for role in ["admin", "owner", "none"] { option value=(role) { (role) } } } }
                                button { "Give role" }
                            }))
                            (reveal(&view, "users.remove", &[("id", &user.id)], "Remove", "Remove them"))
                        } }
                    } } }
                } }
            }
            (form(&view, "users.add", &[], "id", &html! {
                label { span.hidden { "User id" } input name="arg-id" required placeholder="tg:12345" maxlength="200"; }
                label { span.hidden { "Name" } input name="arg-name" placeholder="Name" maxlength="100"; }
                button { "Add a user" }
            }))
        }
        section {
            h2 { "Not heard" }
            @if dropped.is_empty() { p.none { "Nobody was left unheard." } } @else {
                div.scroll { table {
                    thead { tr { th { "Who" } th { "Chat" } th { "Group" } th { "Because" } th.num { "Times" } th { "Last" } } }
                    tbody { @for row in &dropped { tr {
                        td { (line(&row.sender_name, 40)) " " span.dim { (line(&row.sender, 50)) } }
                        td { (line(&row.chat_jid, 40)) }
                        td { (row.group.as_deref().unwrap_or("–")) }
                        td { (shown(&row.reason)) }
                        td.num { (row.count) }
                        td { a href={ "/why/" (row.last_seq) } { (at(row.last_at, view.now, &view.zone)) } }
                    } } }
                } }
                (reveal(&view, "dropped.clear", &[], "Count anew", "Forget these counts"))
            }
        }
        @if !answered.is_empty() {
            section {
                h2 { "Answered lately" }
                ul {
                    @for question in answered.iter().rev() {
                        li { (line(&question.outcome(), 200)) @if let Some(decided) = question.decided_at { " " span.dim { (at(decided, view.now, &view.zone)) } } }
                    }
                }
            }
        }
    };
    Ok(view.show(&Page::new(Place::People, "g2 approvals list; g2 users list", body)))
}
