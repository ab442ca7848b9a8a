//! `g2 restore`: a root out of a backup.

use std::path::PathBuf;

use clap::Args;

use super::{CliResult, Context, out};
use crate::{
    backup,
    domain::{rows::rfc3339_option, shown::screen::escaped},
};

pub(super) const EXPLAINED: &str = "\
The root must be an empty folder or a new one; name it with --root. Each file is compared with
its size and SHA-256 before anything gets its place. A restore that is killed leaves no root, and
can be begun again.

The old daemon must not run any more. A backup is older than the root that it was made of, so
nothing is done twice: texts that were unsent then and messages that were unanswered then are
held back for you (`g2 restored list`), and tasks go on with their next time from now. Containers
of the old root are not touched.

Examples:
  g2 restore --check monday.tar
  g2 restore monday.tar --root ~/g2-new";

/// How many tasks are named.
const NAMED: usize = 20;

#[derive(Debug, Args)]
pub(super) struct Restore {
    /// File that `g2 backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Read all of it and compare each file with its SHA-256; restore nothing
    #[arg(long)]
    check: bool,
    /// The same, and list its files
    #[arg(long)]
    list: bool,
}

impl Restore {
    /// Whether it makes a root.
    pub(super) fn is_a_change(&self) -> bool {
        !self.check && !self.list
    }

    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self.is_a_change() {
            true => self.restore(context).await,
            false => self.show(context),
        }
    }

    fn show(&self, context: &Context) -> CliResult {
        let contents = backup::contents(&self.file)
            .map_err(|error| error.context(format!("{} is not right", self.file.display())))?;
        if context.json {
            return out::json(serde_json::json!(contents));
        }
        if self.list {
            for file in &contents.files {
                out::line(format!("{:>12}  {}", file.size, escaped(&file.path)))?;
            }
            let left_out = contents.left_out.iter().map(|left_out| escaped(left_out));
            left_out.into_iter().try_for_each(|left_out| out::line(format!("left out: {left_out}")))?;
        }
        for part in &contents.without {
            out::line(format!("without {}: there was no room for it", escaped(part)))?;
        }
        let once = contents.files.iter().filter(|file| file.same_as.is_none());
        let bytes: u64 = once.map(|file| file.size).fold(0, u64::saturating_add);
        out::line(format!(
            "{} is right: {} files, {} KiB, made {} by {}, {} secrets",
            self.file.display(),
            contents.files.len(),
            bytes.div_ceil(1024),
            contents.made_at,
            contents.made_by,
            if contents.with_secrets { "with" } else { "without" }
        ))
    }

    async fn restore(self, context: &Context) -> CliResult {
        let restored =
            backup::restore(&self.file, &context.root, &context.environment, context.world.now()).await?;
        if context.json {
            return out::json(serde_json::json!(restored));
        }
        out::line(format!(
            "{}: restored, {} files of {}",
            restored.root.display(),
            restored.files,
            restored.made_at
        ))?;
        for part in &restored.without {
            out::line(format!(
                "without {}: there was no room for it; an older backup may have it",
                escaped(part)
            ))?;
        }
        if !restored.held.is_none() {
            out::line(format!("held back: {}; `g2 restored list` shows them", restored.held.words()))?;
        }
        for over in restored.passed_over.iter().take(NAMED) {
            #[derive(serde::Serialize)]
            struct Next(#[serde(serialize_with = "rfc3339_option")] Option<ipc_handlers::Time>);
            let next = serde_json::json!(Next(over.next));
            out::line(format!(
                "passed over: task {} of {}, {}{} times; next {}",
                over.task,
                over.group,
                over.count,
                if over.at_least { " or more" } else { "" },
                next.as_str().unwrap_or("never")
            ))?;
        }
        if let Some(more) = restored.passed_over.len().checked_sub(NAMED).filter(|more| *more > 0) {
            out::line(format!("passed over: {more} more tasks"))?;
        }
        if !restored.with_secrets {
            out::line("without secrets: put .env and data/secrets/ back, or log in anew")?;
        }
        out::line(format!(
            "make sure that the old daemon is stopped, then: g2 --root {} serve",
            restored.root.display()
        ))
    }
}
