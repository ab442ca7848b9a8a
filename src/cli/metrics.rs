//! `g2 metrics`: figures for Prometheus.

use clap::Args;

use super::{
    CliResult, Context, Failure,
    client::{Client, NoDaemon},
    out,
};
use crate::{domain::shown::metrics::text, loops::metrics::gather};

pub(super) const EXPLAINED: &str = "\
The output is Prometheus's text format. With the daemon down it has what the root tells, and
g2_up is 0. Texts, names of people and chats are not in it.

Have a timer write it where the node_exporter reads files, or have Prometheus scrape /metrics of
the page (docs/metrics.md).

Examples:
  g2 metrics";

#[derive(Debug, Args)]
pub(super) struct Metrics {}

impl Metrics {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let text = match Client::metrics(&context.root).await {
            Ok(text) => text,
            Err(NoDaemon::Down) => {
                text(&gather(&context.store()?, &context.root, None, context.world.now()).await?)
            }
            Err(NoDaemon::Mute(why)) => return Err(Failure::Mute { root: context.root.clone(), why }),
        };
        if context.json { out::json(serde_json::json!({ "text": text })) } else { out::script(&text) }
    }
}
