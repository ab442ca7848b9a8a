//! Budgets: what groups may use in a day, what they have used of it, and what is left; and forms that set it.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Extension,
    body::Body,
    extract::{Query, State},
    http::Response,
};
use ipc_handlers::Folder;
use maud::{Markup, html};
use serde::Deserialize;

use crate::{
    domain::{
        rows::Group,
        runs::{
            budget::{Day, Part, Share, Wish, shares},
            group_config::Key,
        },
    },
    ops::{OpError, groups::set as in_group},
    store::StoreError,
    web::{
        Visitor, Web,
        act::{self, Fields},
        layout::{Failed, Page, Place, View},
        parts::{at, encoded, form, gauge, hidden, line},
    },
};

/// How many groups are shown at a time: of each, its use of the day is counted.
const GROUPS: usize = 20;

#[derive(Deserialize)]
pub(in crate::web) struct Wanted {
    #[serde(default)]
    find: String,
    #[serde(default)]
    skip: usize,
}

pub(in crate::web) async fn show(view: View, Query(wanted): Query<Wanted>) -> Result<Response<Body>, Failed> {
    let Wanted { find, skip } = wanted;
    let config = view.web.config.now();
    let day = Day::of(view.now, &config.zone.zone);
    let mut groups = view.web.desk.store.groups().await?;
    groups.retain(|group| group.folder.as_str().contains(find.trim()) || group.name.contains(find.trim()));
    let all = groups.len();
    let groups: Vec<Group> = groups.into_iter().skip(skip).take(GROUPS).collect();
    let (store, now, budgets) = (view.web.desk.store.clone(), view.now, config.budget.clone());
    let count = move || {
        let of = |group: &Group| {
            let used = store.used_of_day(&group.folder, day, &budgets.prices, now)?;
            Ok::<_, StoreError>(shares(&budgets.of(group), &used))
        };
        groups.into_iter().map(|group| Ok((of(&group)?, group))).collect::<Result<Vec<_>, StoreError>>()
    };
    let rows = view.web.world.blocking(count).await??;
    let (end, page_at) = (skip.saturating_add(rows.len()), |skip: usize| {
        format!("/budgets?find={}&skip={skip}", encoded(&find))
    });
    let body = html! {
        p.dim { "Today’s use, until " (at(day.end, view.now, &view.zone)) ". A group whose budget is used up waits until then, or until it has more. 0: no limit." }
        section {
            h2 { "All groups" }
            (wish(&config.budget.all))
            (form(&view, "config.set", &[], "all", &html! {
                label { span.hidden { "Part of the budget of all groups" } select name="arg-name" { @for part in Part::ALL { option value={ "budget." (part) } { (part) } } } }
                label { span.hidden { "Amount a day" } input.short name="arg-value" required inputmode="decimal" maxlength="20" placeholder="0"; }
                button { "Set for all" }
            }))
            @if config.budget.prices.is_empty() { p.none { "Money is not counted: models have no prices (" code { "budget.prices" } " in g2.toml)." } }
        }
        section {
            h2 { "Groups" }
            form.find method="get" action="/budgets" role="search" {
                label { span.hidden { "Part of a name" } input type="search" name="find" value=(find) placeholder="Find a group"; }
                button { "Find" }
            }
            @if rows.is_empty() { p.none { "There is no such group." } }
            @for (shares, group) in &rows { (of_group(&view, group, shares)) }
            p.pieces {
                @if skip > 0 { a href=(page_at(skip.saturating_sub(GROUPS))) rel="prev" { "Before" } }
                @if all > rows.len() { span.dim { (skip.saturating_add(1)) "–" (end) " of " (all) } }
                @if end < all { a href=(page_at(end)) rel="next" { "More" } }
            }
        }
    };
    Ok(view.show(&Page::new(Place::Budgets, "g2 usage --budgets", body).every(30)))
}

/// What all groups may use that have no budget of their own.
fn wish(all: &Wish) -> Markup {
    let of = |part| match part {
        Part::Requests => all.requests.map(amount_of),
        Part::Tokens => all.tokens.map(amount_of),
        Part::Money => all.money,
        Part::Minutes => all.minutes.map(amount_of),
    };
    html! {
        dl.facts {
            @for part in Part::ALL {
                div { dt { (title(part)) " a day" } dd { @match of(part).filter(|amount| *amount > 0.0) { Some(amount) => (amount), None => "no limit" } } }
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn amount_of(count: u64) -> f64 {
    count as f64
}

fn title(part: Part) -> &'static str {
    match part {
        Part::Requests => "Requests",
        Part::Tokens => "Tokens",
        Part::Money => "Money",
        Part::Minutes => "Minutes",
    }
}

/// A group with each part of its budget that is bounded, and the form that sets one.
fn of_group(view: &View, group: &Group, shares: &[Share]) -> Markup {
    html! {
        article.item.budget id={ "budget-" (group.folder) } {
            h3 { (line(&group.name, 40)) " " span.dim { (group.folder) } }
            @if shares.is_empty() { p.none { "It may use any amount." } }
            @for share in shares {
                (gauge(title(share.part), share.used, share.budget))
                p { span.state data-is=(share.state) { (share.state) } " " (share.percent) " % used, " ((share.budget - share.used).max(0.0)) " " (share.part) " left" }
            }
            form.act id={ "budgets/set/" (group.folder) } method="post" action="/budgets/set" hx-post="/budgets/set" hx-target="#main" hx-swap="outerMorph" data-clear {
                (hidden(view))
                input type="hidden" name="folder" value=(group.folder);
                label { span.hidden { "Part of the budget of " (group.folder) } select name="part" { @for part in Part::ALL { option value=(part) { (part) } } } }
                label { span.hidden { "Amount a day" } input.short name="amount" required inputmode="decimal" maxlength="20" placeholder="0"; }
                button { "Set" }
                button name="as" value="all" formnovalidate { "As all groups" }
            }
        }
    }
}

/// Sets one part of a group's budget, or has it be as that of all groups.
pub(in crate::web) async fn set(
    State(web): State<Arc<Web>>,
    Extension(visitor): Extension<Visitor>,
    fields: Fields,
) -> Response<Body> {
    match read(&fields) {
        Ok(args) => act::done(&web, &visitor, &fields, args.into()).await,
        Err(wrong) => act::refused(&web, &visitor, &fields, &wrong),
    }
}

fn read(fields: &Fields) -> Result<in_group::Args, OpError> {
    let folder = Folder::parse(fields.get("folder")).map_err(|bad| OpError::invalid(bad.to_string()))?;
    let part = Part::from_name(fields.get("part"))
        .ok_or_else(|| OpError::invalid("no part of a budget is chosen"))?;
    let key = match part {
        Part::Requests => Key::BudgetRequests,
        Part::Tokens => Key::BudgetTokens,
        Part::Money => Key::BudgetMoney,
        Part::Minutes => Key::BudgetMinutes,
    };
    let amount = match (fields.get("as"), fields.get("amount").trim()) {
        ("all", _) => "",
        (_, "") => {
            return Err(OpError::invalid("no amount is given").hint("“As all groups” takes its own away"));
        }
        (_, amount) => amount,
    };
    Ok(in_group::Args { folder, settings: BTreeMap::from([(key, amount.to_owned())]), was: BTreeMap::new() })
}
