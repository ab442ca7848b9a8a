//! `g2 ipc send`: a command into a group's box, as its agent would put it there.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use clap::Args;

use super::{
    super::{Failure, client::perform, out},
    CliResult, Context, show,
};
use crate::{
    domain::{shown::errors::chain, states::QueueState},
    ipc::{COMMAND_LIMIT, read_inside},
    ops::{OpError, ipc::send},
    store::Store,
};

/// How often it is looked whether the command is settled.
const LOOK_EVERY: Duration = Duration::from_millis(20);

const EXAMPLES: &str = "\
With --wait the exit code is 1 if the command is refused or dead, or not settled in time.

Examples:
  echo '{\"type\": \"list_tasks\", \"requestId\": \"r1\"}' | g2 ipc send main - --wait 10";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Send {
    #[command(flatten)]
    args: send::Args,
    /// File with the command's JSON, at most 1 MiB; `-` reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Wait until it is settled, for at most SECS seconds, and print the reply
    #[arg(long, value_name = "SECS")]
    wait: Option<u64>,
}

impl Send {
    pub(super) async fn run(self, context: &Context, store: &Store) -> CliResult {
        let args = send::Args { command: read(&self.file)?.into(), ..self.args };
        let (group, in_box) = (args.group.clone(), args.in_box);
        let after = store.last_claim()?;
        let answer = perform(context, args).await?;
        let Some(secs) = self.wait else { return show::answer(context, &answer) };
        let name = answer.row["name"].as_str().unwrap_or_default();
        let settled = async {
            loop {
                let row = store.command_of_file(
                    group.as_str(),
                    in_box.as_str(),
                    name,
                    after,
                    context.world.now(),
                )?;
                match row.and_then(|row| row.id) {
                    Some(id) => return Ok::<_, Failure>(id),
                    None => tokio::time::sleep(LOOK_EVERY).await,
                }
            }
        };
        let Ok(id) = tokio::time::timeout(Duration::from_secs(secs), settled).await else {
            let why = "is not settled yet; it stays in its box, and `g2 ipc trace` says what it waits for";
            return Err(anyhow!("{group}/{in_box}/{name} {why}").into());
        };
        let story = store.story(id?, context.world.now())?.ok_or_else(|| anyhow!("its receipt is gone"))?;
        out::line(story.reply.unwrap_or_default())?;
        if story.row.state == QueueState::Applied { Ok(()) } else { Err(Failure::Quiet(1)) }
    }
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let limit = COMMAND_LIMIT + 1;
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes).context("reading stdin")?;
        bytes
    } else {
        let file = std::path::absolute(file).context("finding the file")?;
        let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
            return Err(OpError::invalid(format!("{} is not a file", file.display())).into());
        };
        let unread = |error| OpError::invalid(format!("reading {}: {}", file.display(), chain(&error)));
        read_inside(folder, Path::new(name), limit).map_err(unread)?.bytes
    };
    if bytes.len() as u64 > COMMAND_LIMIT {
        return Err(OpError::invalid(format!("the command has more than {COMMAND_LIMIT} bytes")).into());
    }
    Ok(bytes)
}
