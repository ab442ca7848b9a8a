//! The pages: one file each. Each reads the store once and returns what it shows.

pub(super) mod audit;
pub(super) mod backups;
pub(super) mod budgets;
mod cards;
pub(super) mod channels;
pub(super) mod chat;
pub(super) mod chats;
pub(super) mod claim;
pub(super) mod conversations;
pub(super) mod devices;
pub(super) mod doctor;
pub(super) mod egress;
pub(super) mod files;
pub(super) mod group;
pub(super) mod groups;
pub(super) mod mailbox;
pub(super) mod memory;
pub(super) mod now;
pub(super) mod outbox;
pub(super) mod people;
pub(super) mod run;
pub(super) mod runs;
pub(super) mod task;
pub(super) mod tasks;
pub(super) mod trace;
pub(super) mod usage;
pub(super) mod why;

use std::sync::Arc;

use axum::{
    Router,
    http::Uri,
    routing::{get, post},
};

use super::{Web, layout::Failed};

/// How many rows a piece of a list has.
const PIECE: usize = 60;

/// Each page by its path.
pub(super) fn routes() -> Router<Arc<Web>> {
    Router::new()
        .route("/", get(now::show))
        .route("/chats", get(chats::show))
        .route("/chats/{group}", get(chat::show))
        .route("/say", post(chat::say))
        .route("/groups", get(groups::show))
        .route("/conversations", get(conversations::show))
        .route("/conversations/{id}", get(conversations::one))
        .route("/groups/{group}", get(group::show))
        .route("/groups/{group}/memory", get(memory::show))
        .route("/groups/{group}/memory/{version}", get(memory::one))
        .route("/files/heard/{seq}/{n}", get(files::heard))
        .route("/files/said/{id}/{n}", get(files::said))
        .route("/small/heard/{seq}/{n}", get(files::small_heard))
        .route("/small/said/{id}/{n}", get(files::small_said))
        .route("/why/{seq}", get(why::show))
        .route("/runs", get(runs::show))
        .route("/runs/{id}", get(run::show))
        .route("/tasks", get(tasks::show))
        .route("/tasks/{group}/{id}", get(task::show))
        .route("/mailbox", get(mailbox::show))
        .route("/mailbox/{id}", get(trace::show))
        .route("/outbox", get(outbox::show))
        .route("/people", get(people::show))
        .route("/channels", get(channels::show))
        .route("/channels/add", post(channels::add))
        .route("/channels/claim", post(claim::make))
        .route("/channels/claim/{id}", get(claim::show))
        .route("/usage", get(usage::show))
        .route("/egress", get(egress::show))
        .route("/budgets", get(budgets::show))
        .route("/budgets/set", post(budgets::set))
        .route("/audit", get(audit::show))
        .route("/backups", get(backups::show))
        .route("/doctor", get(doctor::show))
        .route("/devices", get(devices::show))
}

/// There is no such page.
pub(super) async fn missing(uri: Uri) -> Failed {
    Failed::not_found(format!("there is no page {}", uri.path()))
}
