//! `g2 import`: another installation moves in.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use super::{CliResult, Context, client::perform, out, show};
use crate::{
    app,
    domain::shown::screen::escaped,
    moving::{self, Imported, Progress},
    ops::moving::import,
};

pub(super) const EXPLAINED: &str = "\
What is here stays: a group, a setting or a file of the same name is not replaced. The same import
again changes nothing, and one that broke off goes on. History wakes no agent and asks nobody about
strangers. Messages that were unanswered there are held back, and you decide about all of them at
once (`g2 restored list`).

The daemon must be down, as `g2 stop` leaves it. With --dry-run it may be up: the rows go into a
copy of the store, which is thrown away.

Parts: settings, groups, people, messages, sessions, tasks, runs, files.

Examples:
  g2 import export ~/g2-export --dry-run
  g2 import export ~/g2-export
  g2 import export ~/g2-export --only groups,people,files";

/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(2);
/// Number of findings that are printed.
const NAMED: usize = 50;

#[derive(Debug, Args)]
pub(super) struct Import {
    #[command(flatten)]
    args: import::Args,
    /// Say what would come of it; write nothing
    #[arg(long)]
    dry_run: bool,
}

impl Import {
    pub(super) async fn run(mut self, context: &Context) -> CliResult {
        app::check_root(&context.root)?;
        self.args.path = std::path::absolute(&self.args.path).context("finding the folder")?;
        let progress = self.args.progress.clone();
        let work = async {
            match self.dry_run {
                true => {
                    let imported = dry_run(context, &self.args).await?;
                    print(context, &imported)
                }
                false => {
                    let answer = perform(context, self.args.clone()).await?;
                    if context.json {
                        return show::answer(context, &answer);
                    }
                    out::line(&answer.says)?;
                    findings_of(&answer.row)?;
                    answer.notes.iter().try_for_each(|note| out::line(note))
                }
            }
        };
        tokio::select! {
            done = work => done,
            never = watch(&progress) => match never {},
        }
    }
}

/// Tells on a terminal how far it is.
async fn watch(progress: &Progress) -> std::convert::Infallible {
    let shown = out::is_terminal();
    loop {
        tokio::time::sleep(PROGRESS).await;
        let (rows, of) = progress.rows();
        if shown && rows > 0 {
            let of = if of > 0 { format!(" of about {of}") } else { String::new() };
            out::tell(format!("{rows}{of} rows, {} files", progress.files()));
        }
    }
}

async fn dry_run(context: &Context, args: &import::Args) -> anyhow::Result<Imported> {
    let config = context.config()?;
    let (kind, path) = (args.kind, args.path.clone());
    let opened = context.world.blocking(move || moving::open(kind, &path)).await;
    let source = opened.context("opening the source broke off")??;
    moving::dry_run(&context.world, (&context.root, &config), source, &args.parts(), &args.progress).await
}

fn print(context: &Context, imported: &Imported) -> CliResult {
    if context.json {
        return out::json(serde_json::json!(imported));
    }
    out::line(format!("{} (dry run: nothing was written)", imported.from))?;
    for (kind, count) in &imported.new {
        out::line(format!("{count:>9}  {kind} would be new"))?;
    }
    for (kind, count) in &imported.again {
        out::line(format!("{count:>9}  {kind} here already"))?;
    }
    out::line(format!("{:>9}  files, {} KiB", imported.files.files, imported.files.bytes.div_ceil(1024)))?;
    if !imported.held_back.is_none() {
        out::line(format!("would wait for you: {}", imported.held_back.words()))?;
    }
    findings_of(&serde_json::json!(imported))
}

fn findings_of(row: &serde_json::Value) -> CliResult {
    let text = |value: &serde_json::Value| escaped(value.as_str().unwrap_or_default());
    let findings = row["findings"]["kept"].as_array().map(Vec::as_slice).unwrap_or_default();
    for finding in findings.iter().take(NAMED) {
        let sort = match finding["sort"].as_str() {
            Some("changed") => "changed",
            Some("differs") => "differs",
            _ => "left",
        };
        out::line(format!(
            "{sort}: {} {}: {}",
            text(&finding["kind"]),
            text(&finding["key"]),
            text(&finding["why"])
        ))?;
    }
    match findings.len().checked_sub(NAMED).filter(|more| *more > 0) {
        Some(more) => out::line(format!("{more} more are in --json")),
        None => Ok(()),
    }
}
