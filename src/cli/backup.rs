//! `g2 backup`: the root in one file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use ipc_handlers::Time;

use super::{CliResult, Context, client::change, out};
use crate::{
    app,
    backup::{self, Shelved, Wanted},
    domain::{kept::backups::First, shown::screen::escaped},
    ops::backup::now,
};

pub(super) const EXPLAINED: &str = "\
In the file: the store as it stood at one instant, the groups' folders, the agents' sessions,
files that people and agents sent, results of tasks, g2.toml and the list of changes. Files that
agents write meanwhile are as they were when they were read.

A file with several names is in it once, and a hole takes no room. The root is weighed first: with
too little room, nothing is written, and the output names the largest folder. With --to, folders of
groups that do not fit are left out, the file ends with -part.tar, and the newest whole backup stays.

Not in it: .env, tokens of accounts and the state of their adapters, without --with-secrets;
commands in mailboxes; logs of runs; links, pipes and files that can't be read. The output names
those.

With --to the file is called after the root and the time. Once it is whole, the oldest backups of
this root in that folder are removed. The setting [backup] has the daemon do it each day, and --now
has it done at once, with these settings.

The file is a tar archive for you only. It gets its name after it was read back and every size and
SHA-256 was found right. A file that is there is never replaced.

Examples:
  g2 backup monday.tar
  g2 backup --with-secrets with-secrets.tar
  g2 backup --to /srv/backups --keep 7
  g2 backup --now";

#[derive(Debug, Args)]
pub(super) struct Backup {
    /// New file for the backup; its folder must exist
    #[arg(value_name = "FILE", required_unless_present_any = ["to", "now"], conflicts_with_all = ["to", "now"])]
    file: Option<PathBuf>,
    /// Folder for backups that are named by their time
    #[arg(long, value_name = "DIR", requires = "keep")]
    to: Option<PathBuf>,
    /// Number of backups that stay in that folder
    #[arg(long, value_name = "N", requires = "to", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    keep: Option<u32>,
    /// Put keys, tokens and the state of channels' adapters into it too
    #[arg(long)]
    with_secrets: bool,
    /// Have the daemon make its daily backup now
    #[arg(long, conflicts_with_all = ["to", "with_secrets"])]
    now: bool,
}

impl Backup {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        app::check_root(&context.root)?;
        if self.now {
            return change(context, now::Args {}).await;
        }
        let (root, now) = (context.root.clone(), context.world.now());
        let min_free = context.config().map_or(0, |config| config.limits.min_free_bytes);
        let saved = context
            .world
            .blocking(move || self.save(&root, min_free, now))
            .await
            .context("the backup broke off")??;
        if context.json {
            return out::json(serde_json::json!(saved));
        }
        let Shelved { saved, removed } = saved;
        out::line(format!(
            "{}: {} files, {} KiB, read back and right",
            saved.file.display(),
            saved.files,
            saved.bytes.div_ceil(1024)
        ))?;
        for part in &saved.without {
            out::line(format!(
                "without {}: there is no room for it; remove what is large in it, or make room",
                escaped(part)
            ))?;
        }
        for left_out in &saved.left_out {
            out::line(format!("left out: {}", escaped(left_out)))?;
        }
        let more = saved.left_out_count - saved.left_out.len() as u64;
        if more > 0 {
            out::line(format!("left out: {more} more"))?;
        }
        for old in &removed {
            out::line(format!("removed: {}", old.display()))?;
        }
        if !saved.with_secrets {
            out::line("without secrets: keep .env and data/secrets/ elsewhere, or add --with-secrets")?;
        }
        Ok(())
    }

    fn save(self, root: &Path, min_free: u64, now: Time) -> anyhow::Result<Shelved> {
        let wanted = Wanted { root, with_secrets: self.with_secrets, min_free, now };
        match (self.to, self.keep, self.file) {
            (Some(to), Some(keep), _) => backup::put_on_shelf(wanted, &to, keep as usize, First::Oldest),
            (_, _, file) => {
                let saved = backup::save(wanted, &file.unwrap_or_default())?;
                Ok(Shelved { saved, removed: Vec::new() })
            }
        }
    }
}
