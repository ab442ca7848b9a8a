//! Usage: tokens and requests by day, group and model, as bars that need no script.

use axum::{body::Body, extract::Query, http::Response};
use ipc_handlers::Time;
use maud::{Markup, html};
use serde::Deserialize;

use crate::{
    domain::runs::usage::{By, Total, UsageRow, Whose},
    web::{
        layout::{Failed, Page, Place, View},
        parts::{bars, days, grouped, line, switch},
    },
};

/// How many groups and models are shown: those that used most.
const MOST: usize = 30;

#[derive(Deserialize)]
pub(in crate::web) struct Wanted {
    days: Option<u16>,
}

pub(in crate::web) async fn show(view: View, Query(wanted): Query<Wanted>) -> Result<Response<Body>, Failed> {
    let count = [7, 30, 90].into_iter().find(|days| wanted.days == Some(*days)).unwrap_or(7);
    let since = midnight(&view, i64::from(count) - 1);
    // Each walks through all quarters of these days, so they do it side by side.
    let used = |by| {
        let (store, zone) = (view.web.desk.store.clone(), view.zone.clone());
        let config = view.web.config.now();
        view.web
            .world
            .blocking(move || store.usage(by, None, (since, Time::MAX), (&zone, &config.budget.prices)))
    };
    let (by_day, by_group, by_model) = tokio::try_join!(used(By::Day), used(By::Group), used(By::Model))?;
    let (by_day, by_group, by_model) = (by_day?, most(by_group?), most(by_model?));
    let all = by_day.iter().fold(Total::default(), |sum, row| added(sum, row.total));
    let body = html! {
        (switch("/usage?days=", &[("7", "7 days"), ("30", "30 days"), ("90", "90 days")], &count.to_string()))
        p.counts { (grouped(tokens(&all))) " tokens in " (grouped(all.requests)) " requests, " (grouped(all.errors)) " of them failed, " (grouped(all.refused)) " refused" }
        section { h2 { "By day" } (days(&each_day(&view, &by_day, i64::from(count)))) }
        section { h2 { "By group" } (table("Group", &by_group)) }
        section { h2 { "By model" } (table("Model", &by_model)) }
    };
    Ok(view.show(&Page::new(Place::Usage, "g2 usage --by day", body)))
}

/// The start of the day `ago` days ago, by the user's clock.
fn midnight(view: &View, ago: i64) -> Time {
    let now = view.now.plus_ms(-ago * 86_400_000).to_jiff().to_zoned(view.zone.clone());
    now.start_of_day().map_or(view.now, |start| Time::from_jiff(start.timestamp()))
}

/// A bar for each day, also for those without use.
fn each_day(view: &View, rows: &[UsageRow], count: i64) -> Vec<(String, u64)> {
    (0..count)
        .rev()
        .map(|ago| {
            let day =
                midnight(view, ago).to_jiff().to_zoned(view.zone.clone()).strftime("%Y-%m-%d").to_string();
            let used = rows.iter().find(|row| row.whose == Whose::Day { day: day.clone() });
            (day, used.map_or(0, |row| tokens(&row.total)))
        })
        .collect()
}

fn tokens(total: &Total) -> u64 {
    [total.input_tokens, total.cache_creation_tokens, total.cache_read_tokens, total.output_tokens]
        .into_iter()
        .fold(0, u64::saturating_add)
}

fn added(one: Total, other: Total) -> Total {
    Total {
        requests: one.requests.saturating_add(other.requests),
        errors: one.errors.saturating_add(other.errors),
        refused: one.refused.saturating_add(other.refused),
        input_tokens: one.input_tokens.saturating_add(other.input_tokens),
        cache_creation_tokens: one.cache_creation_tokens.saturating_add(other.cache_creation_tokens),
        cache_read_tokens: one.cache_read_tokens.saturating_add(other.cache_read_tokens),
        output_tokens: one.output_tokens.saturating_add(other.output_tokens),
        money: None,
    }
}

fn most(mut rows: Vec<UsageRow>) -> Vec<UsageRow> {
    rows.sort_by_key(|row| std::cmp::Reverse(tokens(&row.total)));
    rows.truncate(MOST);
    rows
}

fn name(whose: &Whose) -> String {
    match whose {
        Whose::Run { run, .. } => run.to_string(),
        Whose::Group { group } => group.to_string(),
        Whose::Model { model } => {
            model.as_deref().map_or_else(|| "not named".to_owned(), |model| line(model, 60))
        }
        Whose::Day { day } => day.clone(),
    }
}

fn table(of: &str, rows: &[UsageRow]) -> Markup {
    let largest = rows.iter().map(|row| tokens(&row.total)).max().unwrap_or(0);
    html! {
        @if rows.is_empty() { p.none { "Nothing was used." } } @else {
            div.scroll tabindex="0" { table {
                thead { tr { th { (of) } th.num { "Requests" } th.num { "In" } th.num { "From cache" } th.num { "Out" } th { span.hidden { "Share" } } } }
                tbody { @for row in rows { tr {
                    td { (name(&row.whose)) }
                    td.num { (grouped(row.total.requests)) }
                    td.num { (grouped(row.total.input_tokens.saturating_add(row.total.cache_creation_tokens))) }
                    td.num { (grouped(row.total.cache_read_tokens)) }
                    td.num { (grouped(row.total.output_tokens)) }
                    td { (bars(tokens(&row.total), largest)) }
                } } }
            } }
        }
    }
}
