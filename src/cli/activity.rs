//! `g2 activity`: what happened, on one time line.

use clap::Args;
use ipc_handlers::{Folder, Time};

use super::{
    CliResult, Context,
    filter::{Rows, Span, check_group},
    show,
};
use crate::{domain::runs::tool_servers::tool_as_shown, store::Happened};

pub(super) const EXPLAINED: &str = "\
Kinds: asked (a message woke an agent), began and ended (a run, with its use of the model and its
error), tool (that an agent began to use; the newest 1000 of a run), command (of an agent), refused
(a place outside, at the last time that it was asked for; a rule about it ends that), said (a text
for a chat). Without --since, of the last day.

Examples:
  g2 activity
  g2 activity main --since 22:00
  g2 activity --since 2h --json";

/// A day: how far back is looked without --since, ms.
const DAY_MS: i64 = 24 * 3_600_000;

/// Show what happened, on one time line
#[derive(Debug, Args)]
pub(super) struct ActivityCommand {
    /// Only of this group, by its folder
    group: Option<Folder>,
    #[command(flatten)]
    span: Span,
    #[command(flatten)]
    rows: Rows,
}

impl ActivityCommand {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let (since, until) = self.span.read(context)?;
        let until = until.unwrap_or(Time::MAX);
        let since = since.unwrap_or_else(|| context.world.now().min(until).plus_ms(-DAY_MS));
        let store = context.store()?;
        let mut rows = store.activity(self.group.as_ref(), (since, until), self.rows.enough())?;
        check_group(&store, &rows, self.group.as_ref()).await?;
        if !context.json {
            for row in rows.iter_mut().filter(|row| row.what == Happened::Tool) {
                row.text = tool_as_shown(&row.text);
            }
        }
        show::rows(context, &self.rows.of(rows), &["at", "what", "group", "-chat_jid", "-run", "~text"])
    }
}
