//! `g2 egress`: hosts outside that agents may reach.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use ipc_handlers::Folder;

use super::{
    CliResult, Context,
    client::perform,
    filter::{Rows, Span, check_group},
    show,
};
use crate::{
    domain::runs::outside::Pattern,
    ops::egress::{allow, deny, remove},
};

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
HOST or HOST:PORT is a name or an address; without a port, ports 80 and 443. *.HOST stands for all
names below HOST, and not for HOST. A rule holds at once, also for a live run.

Examples:
  g2 egress allow api.example.com --group main
  g2 egress allow '*.example.org:443' --group main";

const DENIED: &str = "\
HOST or HOST:PORT is a name or an address; without a port, all ports. *.HOST stands for all names
below HOST, and not for HOST. A rule holds at once, also for a live run: its open connections there
are closed.

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
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        rows: Rows,
    },
    /// Let a group reach a host
    #[command(after_help = ALLOWED)]
    Allow(Rule),
    /// Have a group not reach a host, also if g2.toml allows it to all
    #[command(after_help = DENIED)]
    Deny(Rule),
    /// Remove a group's rule about a host
    #[command(after_help = REMOVED)]
    Remove(Rule),
}

#[derive(Debug, Args)]
pub(super) struct Rule {
    /// The host: a name, an address or *.NAME, each perhaps with a :PORT behind it
    #[arg(value_name = "HOST")]
    host: Pattern,
    /// The group, by its folder
    #[arg(long, value_name = "GROUP")]
    group: String,
}

impl Egress {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let folder = |name: &str| Folder::parse(name).context("reading --group");
        match self {
            Self::List { group, span, rows: wanted } => {
                let of = group.as_deref().map(folder).transpose()?;
                let store = context.store()?;
                let all = context.config().map(|config| config.egress.allow).unwrap_or_default();
                let (since, until) = span.read(context)?;
                let rows = store.egress(of.as_ref(), &all)?;
                let own: Vec<_> = rows.iter().filter(|row| row.group.is_some()).collect();
                check_group(&store, &own, group.as_deref()).await?;
                let rows = wanted.that(rows, |row| {
                    since.is_none_or(|since| row.at.is_some_and(|at| at >= since))
                        && until.is_none_or(|until| row.at.is_some_and(|at| at < until))
                });
                let columns = ["group", "host", "state", "~why", "times", "-run", "at"];
                show::rows(context, &rows, &columns)
            }
            Self::Allow(Rule { host, group }) => {
                let args = allow::Args { group: folder(&group)?, host };
                show::answer(context, &perform(context, args).await?)
            }
            Self::Deny(Rule { host, group }) => {
                let args = deny::Args { group: folder(&group)?, host };
                show::answer(context, &perform(context, args).await?)
            }
            Self::Remove(Rule { host, group }) => {
                let args = remove::Args { group: folder(&group)?, host };
                show::answer(context, &perform(context, args).await?)
            }
        }
    }
}
