//! `g2 prune`: removes old history.

use clap::Args;
use ipc_handlers::Time;
use serde_json::{Value, json};

use super::{
    CliResult, Context, Failure,
    client::{Client, NoDaemon},
    confirm::Yes,
    out, show,
};
use crate::{
    app::{Shrunk, shrink},
    domain::kept::prune::{History, Horizon, counted_from},
    loops::{
        housekeeping::{Housekept, housekeep},
        prune::{How, Pruned, horizon, prune},
    },
    store::{Size, Store, is_disk_full},
};

pub(super) const REMOVED: &str = "\
Removed if older than DAYS:
  messages that every agent has finished, and texts that were sent
  runs that have ended, with their logs; slots of tasks that did not run
  commands that were settled at least 30 days ago and whose files cannot come back
  questions that were answered or have expired
  counts of unheard senders (`g2 dropped list`)
  rows of the audit (`g2 audit list`), at least 400 days old

Of each group these files go too, if they are older or take more than [housekeeping] in g2.toml
says, whatever DAYS is:
  logs, prompts and black boxes of runs that have ended
  transcripts that no conversation and no archived session needs; debug files and snapshots

Kept: everything that waits, is held or is at work; texts that could not be sent; the newest
message of each chat; groups, wirings, people, tasks, archived sessions and model usage.

Age is counted from now, but from at most 2 days after the newest row in the store: a clock that
is far ahead makes nothing old. With the daemon down, the store's file shrinks too. With the
daemon up, the free part of the file is used again. If a platform delivers a removed message
again, G2 takes it for a new one.

Examples:
  g2 prune --dry-run
  g2 prune --older-than 90 --yes";

#[derive(Debug, Args)]
pub(super) struct Prune {
    /// Least age of the history to remove, in days, 1 to 36500
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    older_than: u32,
    /// Remove nothing; count the rows that would be removed
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    yes: Yes,
}

/// The store's file before and after.
struct Sizes {
    before: Size,
    after: Size,
}

impl Prune {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        self.prune(context).await.map_err(|failure| match failure {
            Failure::Failed(error) => Failure::Failed(mended(error)),
            other => other,
        })
    }

    async fn prune(self, context: &Context) -> CliResult {
        let (store, config, now) = (context.store()?, context.config()?, context.world.now());
        let ahead = ahead(now, store.newest()?);
        let horizon = horizon(&store, now, self.older_than, config.approvals.deny_ttl_ms)?;
        if !self.dry_run {
            yes_to(&self.yes, horizon)?;
        }
        let how = match (self.dry_run, Client::connect(&context.root).await) {
            (true, _) => How::DryRun,
            (false, Err(NoDaemon::Down)) => How::Alone,
            (false, Ok(_) | Err(NoDaemon::Mute(_))) => How::Beside,
        };
        let before = store.size()?;
        let pruned = prune(&context.world, &store, &context.root.join("data"), horizon, how)
            .await
            .map_err(anyhow::Error::new)?;
        let from = counted_from(now, store.newest()?);
        let files = housekeep(
            &context.world,
            &store,
            &context.root,
            &config.housekeeping,
            from,
            (how, &pruned.would_go),
        )
        .await
        .map_err(anyhow::Error::new)?;
        let note = match how {
            How::DryRun => None,
            How::Beside => note(Shrunk::Served),
            How::Alone => make_smaller(context, &store).await,
        };
        let sizes = Sizes { before, after: store.size()? };
        if context.json {
            let mut document = document((&pruned, &files), horizon, how, &sizes, note);
            document["clock"] = ahead.into();
            return out::line(document);
        }
        if let Some(ahead) = ahead {
            out::line(ahead)?;
        }
        tell((&pruned, &files), horizon.before, how, &sizes, note)
    }
}

fn yes_to(yes: &Yes, horizon: Horizon) -> CliResult {
    yes.to(&format!(
        "history older than {} is removed for good (`g2 prune --dry-run` counts it)",
        horizon.before
    ))
}

/// Says that age is not counted by the clock, where it is not.
fn ahead(now: Time, newest: Option<Time>) -> Option<String> {
    let (newest, from) = (newest?, counted_from(now, newest));
    (from < now).then(|| {
        format!(
            "the clock says {now}, but the newest row in the store is of {newest}, so age is counted from {from}; if the clock is right, the next message corrects this"
        )
    })
}

/// Says how to go on where the disk is full.
fn mended(error: anyhow::Error) -> anyhow::Error {
    if is_disk_full(error.as_ref()) {
        return error.context("there is no room left on the store's disk, and removing rows needs some: free some MiB there, then try again");
    }
    error
}

/// Gives room back to the disk, where that can be; returns why it was not. What was removed is all the same.
async fn make_smaller(context: &Context, store: &Store) -> Option<String> {
    match shrink(&context.world, &context.root, store).await {
        Ok(shrunk) => note(shrunk),
        Err(error) => Some(format!("the file could not be made smaller: {error:#}")),
    }
}

fn note(shrunk: Shrunk) -> Option<String> {
    match shrunk {
        Shrunk::Done | Shrunk::NotWorthIt => None,
        Shrunk::Served => Some("the file is made smaller only while no daemon is up".into()),
        Shrunk::NoSpace(wanted) => Some(format!(
            "to make the file smaller, {} MiB have to be free on its disk",
            wanted.div_ceil(1 << 20)
        )),
    }
}

fn document(
    (pruned, files): (&Pruned, &Housekept),
    horizon: Horizon,
    how: How,
    sizes: &Sizes,
    note: Option<String>,
) -> Value {
    let mut removed = json!(pruned.rows);
    removed["run_folders"] = pruned.run_folders.into();
    removed["files_of_runs"] = files.runs.into();
    removed["files_of_sessions"] = files.sessions.files.into();
    json!({
        "dry_run": how == How::DryRun,
        "before": horizon.before.to_string(),
        "receipts_before": horizon.receipts.to_string(),
        "removed": removed,
        "store_bytes": sizes.after.bytes,
        "free_bytes": sizes.after.free,
        "freed_bytes": sizes.freed(),
        "given_back_bytes": sizes.given_back(),
        "files_bytes": files.run_bytes.saturating_add(files.sessions.bytes),
        "note": note,
    })
}

fn tell(
    (pruned, files): (&Pruned, &Housekept),
    before: Time,
    how: How,
    sizes: &Sizes,
    note: Option<String>,
) -> CliResult {
    let what: Vec<String> = ["dropped", "message_marks", "slots", "audit"]
        .into_iter()
        .chain(History::ALL.map(History::name))
        .map(|table| (table, pruned.rows.get(table).copied().unwrap_or(0)))
        .chain([("folders of runs", pruned.run_folders)])
        .filter(|(_, count)| *count > 0)
        .map(|(table, count)| format!("  {count:>9}  {table}\n"))
        .collect();
    let would = if how == How::DryRun { "would be removed" } else { "removed" };
    let of_files: Vec<String> = [
        ("runs whose files", files.runs, files.run_bytes),
        ("files of sessions", files.sessions.files, files.sessions.bytes),
    ]
    .into_iter()
    .filter(|(_, count, _)| *count > 0)
    .map(|(what, count, bytes)| format!("  {count:>9}  {what} took {}\n", show::size(bytes)))
    .collect();
    if !of_files.is_empty() {
        out::text(&format!("{would}, beyond [housekeeping] in g2.toml:\n{}", of_files.concat()))?;
    }
    if files.sessions.stuck > 0 {
        out::tell(format!(
            "{} files of sessions could not be removed; the log says whose",
            files.sessions.stuck
        ));
    }
    if what.is_empty() {
        return out::line(format!("there is no history older than {before} to remove"));
    }
    out::text(&format!("{would}, older than {before}:\n{}", what.concat()))?;
    if how == How::DryRun {
        return Ok(());
    }
    let note = note.map(|note| format!("; {note}")).unwrap_or_default();
    out::line(format!(
        "freed: {} KiB, {} KiB of them on the disk{note}",
        sizes.freed() >> 10,
        sizes.given_back() >> 10
    ))
}

impl Sizes {
    /// Bytes that are no longer used, in the file and on the disk. A daemon may have used some of them since.
    fn freed(&self) -> u64 {
        let used = |size: Size| size.bytes - size.free;
        used(self.before).saturating_sub(used(self.after))
    }

    fn given_back(&self) -> u64 {
        self.before.bytes.saturating_sub(self.after.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_with_what_to_do() {
        use crate::store::{Fault, StoreError};
        let of = |code| {
            let error = crate::loops::prune::PruneError::from(StoreError::from(Fault::of(code)));
            format!("{:#}", mended(anyhow::Error::new(error)))
        };
        assert!(of(4874).starts_with("there is no room left on the store's disk"), "{}", of(4874));
        assert!(!of(266).contains("room"), "{}", of(266));
    }

    #[test]
    fn what_was_freed_is_what_is_used_no_more_wherever_it_went() {
        let size = |bytes, free| Size { bytes, free };
        for (before, after, freed, given_back) in [
            (size(100, 10), size(100, 60), 50, 0),
            (size(100, 10), size(40, 0), 50, 60),
            (size(100, 10), size(120, 0), 0, 0),
        ] {
            let sizes = Sizes { before, after };
            assert_eq!((sizes.freed(), sizes.given_back()), (freed, given_back), "{before:?} {after:?}");
        }
    }
}
