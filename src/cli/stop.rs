//! `g2 stop`: ends the daemon in order.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;

use super::{
    CliResult, Context, Failure,
    client::{self, Client, NoDaemon},
    show,
};
use crate::{
    app,
    domain::shown::audit::Origin,
    loops::control::{Request, Response},
    ops::By,
    system::process::own_ids,
};

pub(super) const EXPLAINED: &str = "\
Containers go on without the daemon, and its next start takes them over. With --agents each of them
finishes its turn and leaves first. It has health.close_grace_ms and 20 s more, and is told of if it
has not left. A service manager may start the daemon again; stop it there then.

If no daemon runs, --agents ends the containers of this root: each is asked to leave, and killed
after health.close_grace_ms. What an agent had in hand is handed out again by the next start.

Examples:
  g2 stop
  g2 stop --agents";

/// Time between two looks whether it has stopped.
const AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
pub(super) struct Stop {
    /// Have every agent finish its turn and leave first
    #[arg(long)]
    agents: bool,
    /// Wait at most SECS seconds for the end
    #[arg(long, value_name = "SECS", default_value_t = 90)]
    wait: u64,
}

impl Stop {
    /// A stop that leaves agents at work.
    pub(super) fn in_order(wait: u64) -> Self {
        Self { agents: false, wait }
    }

    pub(super) async fn run(self, context: &Context) -> CliResult {
        let said = self.end(context).await?;
        show::done(context, &said)
    }

    /// Ends the daemon; returns what came of it.
    pub(super) async fn end(self, context: &Context) -> Result<String, Failure> {
        let mut client = match Client::needed(context).await {
            Err(Failure::NotRunning(_)) if self.agents => return agents(context).await,
            Err(Failure::NotRunning(root)) => return Err(Failure::NothingToStop(root)),
            other => other?,
        };
        match client.call(&Request::Stop { agents: self.agents }).await? {
            Response::Done => {}
            _ => return Err(client::unexpected().into()),
        }
        let gone = async {
            while !matches!(Client::connect(&context.root).await, Err(NoDaemon::Down)) {
                tokio::time::sleep(AGAIN).await;
            }
            // Its lock is the last that it gives back.
            app::wait_for_lock(&context.root).await
        };
        match tokio::time::timeout(Duration::from_secs(self.wait), gone).await {
            Ok(ended) => ended?,
            Err(_) => {
                return Err(Failure::Failed(anyhow!("the daemon has not stopped within {} s", self.wait)));
            }
        }
        // Agents that did not leave are named.
        let left = if self.agents { context.store()?.active_runs()? } else { Vec::new() };
        if left.is_empty() {
            return Ok("the daemon has stopped".to_owned());
        }
        let runs: Vec<String> = left.iter().map(|run| format!("run {} of {}", run.id, run.group)).collect();
        Err(Failure::Failed(anyhow!(
            "the daemon has stopped, but not every agent has left: {}. Its next start looks after them",
            runs.join(", ")
        )))
    }
}

/// Ends the containers that go on without a daemon.
async fn agents(context: &Context) -> Result<String, Failure> {
    app::check_root(&context.root)?;
    let sudo_user = context.environment.get("SUDO_USER").map(str::to_owned);
    let by = By::owner(own_ids().0, sudo_user, Origin::CommandLine);
    let ended = app::end_agents(&context.world, &context.root, &context.config()?, &by).await?;
    if ended.is_empty() {
        return Ok("no daemon runs, and no agent of this root".to_owned());
    }
    let agents = ended.iter().map(|ended| match ended.run {
        0 => format!("one of {}", ended.group),
        run => format!("run {run} of {}", ended.group),
    });
    let agents = agents.collect::<Vec<_>>().join(", ");
    Ok(format!("no daemon runs; these agents are ended: {agents}"))
}
