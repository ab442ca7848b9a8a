//! Groups: a list, and a form that adds one.

use axum::{body::Body, extract::Query, http::Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::PIECE;
use crate::{
    domain::kept::templates::Template,
    web::{
        layout::{Failed, Page, Place, View},
        parts::{count, encoded, form, line},
    },
};

#[derive(Deserialize)]
pub(in crate::web) struct Wanted {
    #[serde(default)]
    find: String,
    #[serde(default)]
    skip: usize,
}

pub(in crate::web) async fn show(view: View, Query(wanted): Query<Wanted>) -> Result<Response<Body>, Failed> {
    let Wanted { find, skip } = wanted;
    let mut groups = view.web.desk.store.groups().await?;
    let has_main = groups.iter().any(|group| group.is_main);
    let part = find.to_lowercase();
    groups.retain(|group| format!("{} {}", group.name, group.folder).to_lowercase().contains(&part));
    let all = groups.len();
    let shown: Vec<_> = groups.into_iter().skip(skip).take(PIECE).collect();
    let page_at = |skip: usize| format!("/groups?find={}&skip={skip}", encoded(&find));
    let body = html! {
        form.find method="get" action="/groups" role="search" {
            label { span.hidden { "Part of a name" } input type="search" name="find" value=(find) placeholder="Find a group"; }
            button { "Find" }
        }
        @if shown.is_empty() { p.none { "There is no such group." } } @else {
            div.scroll { table {
                thead { tr { th { "Group" } th { "Name" } th { "Mentioned by" } th { "Provider" } th { "Listens to" } } }
                tbody { @for group in &shown { tr {
                    td { a href={ "/groups/" (group.folder) } { (group.folder) } @if group.is_main { " " span.state { "main" } } }
                    td { (line(&group.name, 60)) }
                    td { (line(&group.trigger, 40)) }
                    td { (group.provider.as_deref().unwrap_or("–")) }
                    td { @match group.chats.as_slice() { [] => span.none { "no chat" }, [one] => (line(one, 60)), more => (count(more.len(), "chat", "chats")) } }
                } } }
            } }
        }
        p.pieces {
            a href="/groups/global/memory" { "The CLAUDE.md that all groups share" }
            @if skip > 0 { a href=(page_at(skip.saturating_sub(PIECE))) rel="prev" { "Back" } }
            @if all > shown.len() { span.dim { (all) " in all" } }
            @if skip + shown.len() < all { a href=(page_at(skip + PIECE)) rel="next" { "More" } }
        }
        section { h2 { "A new group" } (add(&view, has_main)) }
    };
    Ok(view.show(&Page::new(Place::Groups, "g2 groups list", body)))
}

fn add(view: &View, has_main: bool) -> Markup {
    form(
        view,
        "groups.add",
        &[],
        "folder",
        &html! {
            div.fields {
                label { "Folder" input name="arg-folder" required maxlength="64" placeholder="family"; }
                label { "Chat" input name="arg-chat" required maxlength="512" placeholder="local:family"; }
                label { "Name" input name="arg-name" maxlength="64" placeholder="as the folder"; }
                label { "Mentioned by" input name="arg-trigger" maxlength="64" placeholder="@name of the assistant"; }
                label { "CLAUDE.md begins as" select name="arg-from" {
                    option value="" { "groups/_template" }
                    @for (word, _) in Template::CHOICES { option value=(word) { (word) } }
                } }
                @if !has_main { label.check { input type="checkbox" name="arg-main" value="true"; " It is main, and can act in every chat" } }
            }
            button { "Add the group" }
        },
    )
}
