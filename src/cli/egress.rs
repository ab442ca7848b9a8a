//! `g2 egress`: hosts outside that agents may reach.

use clap::Subcommand;
use ipc_handlers::Folder;

use super::{
    CliResult, Context,
    client::change,
    filter::{Rows, Span, check_group},
    show,
};
use crate::ops::egress::{allow, deny, remove};

const EXPLAINED: &str = "\
A group whose setting `network` is allowlist (`g2 groups set GROUP network=allowlist`) reaches its
model, and the hosts that are allowed here or under [egress] in g2.toml. Everything else is
refused, and listed by `g2 egress list`. Addresses of this machine and of its networks are never
reached.

Examples:
  g2 egress allow api.example.com --group main
  g2 egress list --group main";

const LISTED: &str = "\
States: allowed and denied: rules; refused: what a run asked for in vain, the newest 100 of each
group, and no more once a rule allows or denies it.

Fields: group: empty for rules of g2.toml, which hold for all groups; why, times, run: of what was
refused, with the run that asked last.

Examples:
  g2 egress list
  g2 egress list --group main --json";

const ALLOWED: &str = "\
*.NAME stands for all names below NAME, and not for NAME. A rule holds at once, also for a live run.

Examples:
  g2 egress allow api.example.com --group main
  g2 egress allow '*.example.org:443' --group main";

const DENIED: &str = "\
*.NAME stands for all names below NAME, and not for NAME. A rule holds at once, also for a live run:
its open connections there are closed.

Examples:
  g2 egress deny tracker.example.com --group main";

const REMOVED: &str = "\
Afterwards the host is treated as if there was no such rule of the group. Open connections that no
other rule allows are closed.

Examples:
  g2 egress remove '*.example.org:443' --group main";

#[derive(Debug, Subcommand)]
#[command(after_help = EXPLAINED)]
pub(super) enum Egress {
    /// List the rules, and the hosts that agents were refused
    #[command(after_help = LISTED)]
    List {
        /// Only this group, by its folder
        #[arg(long)]
        group: Option<Folder>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        rows: Rows,
    },
    #[command(after_help = ALLOWED)]
    Allow(allow::Args),
    #[command(after_help = DENIED)]
    Deny(deny::Args),
    #[command(after_help = REMOVED)]
    Remove(remove::Args),
}

impl Egress {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { group, span, rows: wanted } => {
                let store = context.store()?;
                let all = context.config().map(|config| config.egress.allow).unwrap_or_default();
                let (since, until) = span.read(context)?;
                let rows = store.egress(group.as_ref(), &all)?;
                let own: Vec<_> = rows.iter().filter(|row| row.group.is_some()).collect();
                check_group(&store, &own, group.as_ref()).await?;
                let rows = wanted.that(rows, |row| {
                    since.is_none_or(|since| row.at.is_some_and(|at| at >= since))
                        && until.is_none_or(|until| row.at.is_some_and(|at| at < until))
                });
                let columns = ["group", "host", "state", "~why", "times", "-run", "at"];
                show::rows(context, &rows, &columns)
            }
            Self::Allow(args) => change(context, args).await,
            Self::Deny(args) => change(context, args).await,
            Self::Remove(args) => change(context, args).await,
        }
    }
}
