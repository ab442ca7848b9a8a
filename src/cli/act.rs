//! Commands of agents, done by a person: the same decisions and the same effects, with main's rights.

use anyhow::anyhow;
use ipc_handlers::{Command, Folder, Outcome};

use super::{Context, Failure, client::tell_changed};
use crate::{
    app::bounds,
    clock,
    store::{Store, Transcripts},
};

/// How the fields of a command are called where a person types them.
const TYPED: [(&str, &str); 9] = [
    ("field \"targetJid\"", "--chat"),
    ("targetJid", "--chat"),
    ("\"schedule_type\":\"cron\",\"schedule_value\":\"0 9 * * *\"", "--type cron --value \"0 9 * * *\""),
    ("schedule_type \"interval\"", "--type interval"),
    ("schedule_type", "--type"),
    ("schedule_value", "--value"),
    ("context_mode", "--context"),
    ("taskId", "--id"),
    ("available_groups.json", "`g2 groups list`"),
];

/// Returns what an agent would be told in the words of the command line.
fn as_typed(text: &str) -> String {
    TYPED.iter().fold(text.to_owned(), |text, (field, option)| text.replace(field, option))
}

/// Does it as if `group` asked, tells a daemon that is up, and returns what came of it.
pub(super) async fn act(
    context: &Context,
    store: &Store,
    group: &Folder,
    command: Command,
    said: Transcripts,
) -> Result<Outcome, Failure> {
    let config = context.config()?;
    let (zones, bounds) = (config.zones.clone(), bounds(&config));
    let acted = store.clone().bounded(bounds).act(group.clone(), command, said, zones, clock::now()).await?;
    let outcomes = acted.map_err(|refusal| {
        anyhow!("{}; {} ({})", as_typed(&refusal.message), as_typed(&refusal.hint), refusal.code)
    })?;
    // A daemon that is up does so too.
    store.put_out_archives(group.clone(), config.limits.archives, config.limits.archives_bytes).await?;
    tell_changed(context, Some(group)).await;
    outcomes.into_iter().next().ok_or_else(|| anyhow!("nothing came of it").into())
}
