//! `g2 ipc send`: a command into a group's box, as its agent would put it there.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use ipc_handlers::Folder;

use super::{
    super::{Failure, out},
    Context, Outcome, show,
};
use crate::{
    app, clock,
    domain::states::QueueState,
    ipc::{COMMAND_LIMIT, CommandBox, post::post, read_inside},
    store::Store,
};

/// How often it is looked whether the command is settled.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
pub(in crate::cli) struct Send {
    group: String,
    /// A file with the command's JSON; `-` reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which box it is put into
    #[arg(long = "box", value_enum, default_value_t = Into::Tasks)]
    in_box: Into,
    /// Wait so many seconds until it is settled, and print the reply
    #[arg(long, value_name = "SECS")]
    wait: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Into {
    Messages,
    Tasks,
}

impl Send {
    pub(super) async fn run(self, context: &Context, store: &Store) -> Outcome {
        let group = Folder::parse(&self.group).context("sending a command")?;
        if store.group(&group)?.is_none() {
            return Err(anyhow!("group {group} does not exist").into());
        }
        let bytes = read(&self.file)?;
        let in_box = match self.in_box {
            Into::Messages => CommandBox::Messages,
            Into::Tasks => CommandBox::Tasks,
        };
        let (now, after) = (clock::now(), store.last_claim()?);
        let name = format!("{:013}-sent-{}.json", now.0, &app::new_id()?[..8]);
        post(&context.root.join("data"), &group, in_box, &name, &bytes).context("sending a command")?;
        let Some(secs) = self.wait else {
            return show::done(context, &format!("{group}/{in_box}/{name}"));
        };
        let settled = async {
            loop {
                let row =
                    store.command_of_file(group.as_str(), in_box.as_str(), &name, after, clock::now())?;
                match row.and_then(|row| row.id) {
                    Some(id) => return Ok::<_, Failure>(id),
                    None => tokio::time::sleep(LOOK_EVERY).await,
                }
            }
        };
        let Ok(id) = tokio::time::timeout(Duration::from_secs(secs), settled).await else {
            let why = "is not settled yet; it stays in its box, and `g2 ipc trace` tells what it waits for";
            return Err(anyhow!("{group}/{in_box}/{name} {why}").into());
        };
        let story = store.story(id?, clock::now())?.ok_or_else(|| anyhow!("its receipt is gone"))?;
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
            return Err(anyhow!("{} is no file", file.display()));
        };
        read_inside(folder, Path::new(name), limit)?.bytes
    };
    if bytes.len() as u64 > COMMAND_LIMIT {
        return Err(anyhow!("the command has more than {COMMAND_LIMIT} bytes"));
    }
    Ok(bytes)
}
