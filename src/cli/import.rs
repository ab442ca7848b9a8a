//! `g2 import`: another installation moves in.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use super::{CliResult, Context, client::perform, out, show};
use crate::{
    allowlists::senders,
    app,
    domain::{
        moved::{
            findings::Finding,
            look::{Look, ZoneHere},
            rehearsal::Rehearsal,
        },
        shown::screen::escaped,
    },
    moving::{self, Around, Imported, Progress, Source},
    ops::moving::import,
};

pub(super) const EXPLAINED: &str = "\
Nothing here is replaced: a group, a setting or a file of the same name stays. The same import
again changes nothing, and one that broke off goes on. History wakes no agent and asks nobody about
strangers. Messages that were unanswered there are held back, and you decide about all of them at
once (`g2 restored list`).

The daemon must be down, as `g2 stop` leaves it. With --dry-run and --rehearse it may be up: the rows
go into a copy of the store, which is thrown away, or nowhere. The installation is only read: its
program may run meanwhile, and nothing of it changes.

Parts: settings, groups, people, messages, sessions, tasks, runs, files.

Import only installations and exports of your own: settings come along, and say
which agents run and which places they may reach.

Kinds: nanoclaw (its first version), g2 (the program in TypeScript), nanoclaw-v2, export.

Examples:
  g2 import nanoclaw ~/nanoclaw --dry-run
  g2 import nanoclaw ~/nanoclaw --rehearse
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
    /// Say what would become of it; write nothing
    #[arg(long)]
    dry_run: bool,
    /// Say which of its newest 200 messages would wake an agent on one side
    /// alone; write nothing
    #[arg(long, conflicts_with = "dry_run")]
    rehearse: bool,
}

impl Import {
    pub(super) async fn run(mut self, context: &Context) -> CliResult {
        app::check_root(&context.root)?;
        self.args.path = std::path::absolute(&self.args.path).context("finding the folder")?;
        let progress = self.args.progress.clone();
        let work = async {
            match (self.dry_run, self.rehearse) {
                (true, _) => {
                    let look = look(context, &self.args).await?;
                    let imported = dry_run(context, &self.args).await?;
                    print(context, &look, &imported)
                }
                (false, true) => rehearsed(context, &rehearse(context, &self.args).await?),
                (false, false) => {
                    let answer = perform(context, self.args.clone()).await?;
                    if context.json {
                        return show::answer(context, &answer);
                    }
                    out::line(&answer.says)?;
                    findings_of(&answer.row)?;
                    answer.notes.iter().try_for_each(out::line)
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

/// Opens the installation; it is only read.
async fn open(context: &Context, args: &import::Args) -> anyhow::Result<Box<dyn Source>> {
    let around = Around::of(&context.root, &context.config()?, context.world.now());
    let (kind, path) = (args.kind, args.path.clone());
    let opened = context.world.blocking(move || moving::open(kind, &path, around)).await;
    opened.context("opening the source broke off")?
}

async fn look(context: &Context, args: &import::Args) -> anyhow::Result<Look> {
    let mut source = open(context, args).await?;
    let (now, config) = (context.world.now(), context.config()?);
    let is_set = config.written.says("timezone");
    let zones = (config.zones.clone(), if is_set { ZoneHere::Stays } else { ZoneHere::Comes });
    let (kind, parts) = (args.kind, args.parts());
    let look = context.world.blocking(move || moving::look(&mut *source, kind, &parts, now, zones)).await;
    look.context("reading the source broke off")?
}

async fn rehearse(context: &Context, args: &import::Args) -> anyhow::Result<Rehearsal> {
    let mut source = open(context, args).await?;
    let config = context.config()?;
    let (words, senders) = (config.words.clone(), senders::read(&config));
    let found = context.world.blocking(move || moving::rehearse(&mut *source, words, senders)).await;
    found.context("reading the source broke off")?
}

async fn dry_run(context: &Context, args: &import::Args) -> anyhow::Result<Imported> {
    let config = context.config()?;
    let source = open(context, args).await?;
    moving::dry_run(&context.world, (&context.root, &config), source, &args.parts(), &args.progress).await
}

fn print(context: &Context, look: &Look, imported: &Imported) -> CliResult {
    if context.json {
        let mut whole = serde_json::json!(imported);
        whole["look"] = serde_json::json!(look);
        return out::json(whole);
    }
    look.lines().iter().try_for_each(out::line)?;
    out::line("\nDry run: nothing was written")?;
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
    let whole = serde_json::json!(imported);
    let told = |finding: &Finding| look.findings.kept.contains(finding);
    let more = imported.findings.kept.iter().filter(|finding| !told(finding)).count();
    if more > 0 { findings_of(&whole) } else { Ok(()) }
}

fn rehearsed(context: &Context, found: &Rehearsal) -> CliResult {
    if context.json {
        return out::json(serde_json::json!(found));
    }
    let Rehearsal { messages, woke_there, wakes_here, differ, differences, notes } = found;
    out::line(format!(
        "{messages} messages: {woke_there} times one woke an agent there, {wakes_here} times one would here, {differ} times on one \
         side alone"
    ))?;
    for one in differences {
        let [chat, sender, text] = [&one.chat, &one.sender, &one.text].map(|text| escaped(text));
        out::line(format!("\n{} {chat}, {sender}: {text}", one.at))?;
        for (side, judged) in [("there", &one.there), ("here", &one.here)] {
            out::line(format!("  {side}: {} for {}: {}", judged.effect, one.group, escaped(&judged.why)))?;
        }
        if let Some(fix) = &one.fix {
            out::line(format!("  as it was: {}", escaped(fix)))?;
        }
    }
    notes.iter().try_for_each(|note| out::line(escaped(note)))
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
