//! Egress: the hosts outside that each group may reach or not, and those that it was refused.

use axum::{body::Body, extract::Query, http::Response};
use maud::{Markup, html};
use serde::Deserialize;

use crate::{
    domain::{
        rows::Group,
        runs::{
            outside::{EgressRow, EgressState},
            run_settings::Network,
        },
    },
    web::{
        layout::{Failed, Page, Place, View},
        parts::{act, at_or_dash, encoded, form, line, reveal, shown},
    },
};

/// How many groups are shown at a time.
const GROUPS: usize = 20;
/// How many refused hosts of each are shown beside others, the newest.
const REFUSED: usize = 5;

#[derive(Deserialize)]
pub(in crate::web) struct Wanted {
    /// This group alone, with all that it was refused.
    #[serde(default)]
    group: String,
    #[serde(default)]
    skip: usize,
}

pub(in crate::web) async fn show(view: View, Query(wanted): Query<Wanted>) -> Result<Response<Body>, Failed> {
    let Wanted { group: only, skip } = wanted;
    let config = view.web.config.now();
    let mut groups = view.web.desk.store.groups().await?;
    let all = groups.len();
    let is_one = !only.is_empty();
    if is_one {
        groups.retain(|group| group.folder.as_str() == only);
        if groups.is_empty() {
            return Err(Failed::not_found(format!("there is no group {only}")));
        }
    }
    let groups: Vec<Group> = groups.into_iter().skip(if is_one { 0 } else { skip }).take(GROUPS).collect();
    let (store, folders) =
        (view.web.desk.store.clone(), groups.iter().map(|group| group.folder.clone()).collect::<Vec<_>>());
    let read =
        move || folders.iter().map(|folder| store.egress(Some(folder), &[])).collect::<Result<Vec<_>, _>>();
    let rows = view.web.world.blocking(read).await??;
    let end = skip.saturating_add(groups.len());
    let body = html! {
        section {
            h2 { "All groups" }
            @if config.egress.allow.is_empty() { p.none { "The settings allow no host to all groups." } } @else {
                ul { @for host in &config.egress.allow { li { code { (line(&host.to_string(), 120)) } } } }
            }
            p.dim { "These stand under " code { "[egress]" } " in g2.toml. A group’s own rules hold beside them, at once. Addresses of this machine and of its networks are never reached." }
        }
        @if is_one { p { a href="/egress" { "All groups" } } }
        @for (group, rows) in groups.iter().zip(&rows) {
            (of_group(&view, group, config.sandbox.network, rows, if is_one { usize::MAX } else { REFUSED }))
        }
        @if !is_one {
            p.pieces {
                @if skip > 0 { a href={ "/egress?skip=" (skip.saturating_sub(GROUPS)) } rel="prev" { "Before" } }
                @if all > groups.len() { span.dim { (skip.saturating_add(1)) "–" (end) " of " (all) " groups" } }
                @if end < all { a href={ "/egress?skip=" (end) } rel="next" { "More" } }
            }
        }
    };
    let command = if is_one { format!("g2 egress list --group {only}") } else { "g2 egress list".to_owned() };
    Ok(view.show(&Page::new(Place::Egress, command, body).every(10)))
}

/// A group with its rules, what it was refused, and a form for a new rule.
fn of_group(view: &View, group: &Group, all: Network, rows: &[EgressRow], most: usize) -> Markup {
    let network = group.config().ok().and_then(|config| config.network).unwrap_or(all);
    let (refused, rules): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.state == EgressState::Refused);
    let folder = group.folder.as_str();
    html! {
        section id={ "group-" (folder) } {
            h2 { (line(&group.name, 40)) " " span.dim { (folder) ", network " (network) } }
            @if network != Network::Allowlist {
                p.dim { "Rules have no effect before it has the network for them: " code { "g2 groups set " (folder) " network=allowlist" } }
            }
            @if rows.is_empty() { p.none { "It has no rule of its own, and was refused nothing." } } @else {
                div.scroll tabindex="0" { table.cards {
                    thead { tr { th { "Host" } th { "State" } th { "Why" } th.num { "Times" } th { "Last" } th { span.hidden { "Change" } } } }
                    tbody {
                        @for row in &rules { (of_host(view, folder, row)) }
                        @for row in refused.iter().rev().take(most) { (of_host(view, folder, row)) }
                    }
                } }
                @if refused.len() > most { p { a href={ "/egress?group=" (encoded(folder)) } { "All " (refused.len()) " refused hosts" } } }
            }
            div.acts {
                @for (operation, label) in [("egress.allow", "Allow"), ("egress.deny", "Deny")] {
                    (form(view, operation, &[("group", folder)], "host", &html! {
                        label { span.hidden { (label) " " (folder) " a host" } input name="arg-host" required maxlength="260" placeholder="api.example.com"; }
                        button { (label) }
                    }))
                }
            }
        }
    }
}

fn of_host(view: &View, folder: &str, row: &EgressRow) -> Markup {
    let about = [("group", folder), ("host", row.host.as_str())];
    html! {
        tr {
            td data-of="Host" { code { (line(&row.host, 120)) } }
            td data-of="State" { span.state data-is=(row.state) { (row.state) } }
            td data-of="Why" { @match &row.why { Some(why) => (shown(why)), None => "–" } }
            td.num data-of="Times" { @match row.times { Some(times) => (times), None => "–" } }
            td data-of="Last" { (at_or_dash(row.at, view.now, &view.zone)) @if let Some(run) = row.run { " " a.dim href={ "/runs/" (run) } { "run " (run) } } }
            td { div.acts {
                @match row.state {
                    EgressState::Refused => { (act(view, "egress.allow", &about, "Allow")) (act(view, "egress.deny", &about, "Deny")) }
                    EgressState::Allowed => { (act(view, "egress.deny", &about, "Deny")) (reveal(view, "egress.remove", &about, "Remove", "Remove the rule")) }
                    EgressState::Denied => { (act(view, "egress.allow", &about, "Allow")) (reveal(view, "egress.remove", &about, "Remove", "Remove the rule")) }
                }
            } }
        }
    }
}
