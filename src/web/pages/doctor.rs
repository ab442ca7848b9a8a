//! Doctor: the problems that are known, each with its mend, and the facts of this daemon.

use axum::{body::Body, http::Response};
use maud::html;

use super::now::problem;
use crate::{
    domain::{problems::right, runs::run_settings::Provider},
    web::{
        layout::{Failed, Page, Place, View},
        parts::{at, grouped, line},
    },
};

pub(in crate::web) async fn show(view: View) -> Result<Response<Body>, Failed> {
    let (desk, config) = (&view.web.desk, view.web.config.now());
    let findings = desk.problems.last();
    let right = right(&findings);
    let size = desk.store.size()?;
    let provider = match config.agent.provider {
        Provider::Scripted => "scripted",
        Provider::Claude => "claude",
        Provider::Acp => "acp",
    };
    let mode = |on: bool| if on { "yes" } else { "no" };
    let body = html! {
        section {
            h2 { "Problems" }
            @if findings.is_empty() { p.none { "No problem is known." } }
            @for finding in &findings { (problem(&view, finding)) }
            p.dim { "G2 looks by itself: once a minute, and soon after something was finished. " code { "g2 doctor" } " also tries out what works." }
        }
        section {
            h2 { "In order" }
            ul.checks { @for passed in &right { li { span.good { "✓" } " " (passed.text) " " span.dim { (passed.code) } } } }
        }
        section {
            h2 { "This daemon" }
            dl.facts {
                div { dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) } }
                div { dt { "Instance" } dd { code { (line(&desk.instance, 40)) } } }
                div { dt { "Process" } dd { (std::process::id()) } }
                div { dt { "Since" } dd { (at(desk.since, view.now, &view.zone)) } }
                div { dt { "Root" } dd { code { (line(&view.web.root.display().to_string(), 200)) } } }
                div { dt { "Sandbox" } dd { (desk.problems.sandbox) } }
                div { dt { "Time zone" } dd { (line(&config.zone.name, 60)) } }
                div { dt { "Store" } dd { (grouped(size.bytes >> 20)) " MiB, " (grouped(size.free >> 20)) " MiB of it free" } }
            }
        }
        section {
            h2 { "Settings" }
            p.dim { "Read-only here: they are in " code { "g2.toml" } "." }
            dl.facts {
                div { dt { "Agents at a time" } dd { (config.limits.max_containers) } }
                div { dt { "Provider" } dd { (provider) } }
                div { dt { "Image" } dd { code { (line(&config.sandbox.image, 80)) } } }
                div { dt { "Model’s host" } dd { code { (line(&config.gateway.upstream, 120)) } } }
                div { dt { "Commands need a token" } dd { (mode(config.ipc.require_token)) } }
                div { dt { "History is kept" } dd { @if config.limits.keep_days == 0 { "for ever" } @else { (config.limits.keep_days) " days" } } }
            }
        }
    };
    Ok(view.show(&Page::new(Place::Doctor, "g2 doctor", body).every(10)))
}
