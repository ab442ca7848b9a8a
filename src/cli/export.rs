//! `g2 export`: everything of a root as JSON Lines and files.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::{CliResult, Context, out};
use crate::{
    app,
    domain::{moved::rows::Kind, shown::screen::escaped},
    moving::{self, Progress},
};

pub(super) const EXPLAINED: &str = "\
In the folder: rows as JSON Lines with their JSON Schema, the groups' folders, the agents' sessions,
files beside messages, the settings, and a README that says what each file has. The daemon may be
up: the rows are those of one instant.

Not in it: keys and tokens, which are named; open questions; command files in mailboxes; logs;
links and pipes. `g2 backup` makes one file to restore a root from; an export is for other programs.

Examples:
  g2 export ~/g2-export";

#[derive(Debug, Args)]
pub(super) struct Export {
    /// New or empty folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Export {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        app::check_root(&context.root)?;
        let config = context.config()?;
        let folder = std::path::absolute(&self.folder).context("finding the folder")?;
        let from = moving::From { world: &context.world, root: &context.root, config: &config };
        let exported = moving::export(&from, &folder, &Progress::default()).await?;
        if context.json {
            return out::json(serde_json::json!(exported));
        }
        let rows: u64 = exported.rows.values().sum();
        out::line(format!(
            "{}: {rows} rows, {} files, {} KiB",
            folder.display(),
            exported.files.files,
            exported.files.bytes.div_ceil(1024)
        ))?;
        for finding in exported.findings.kept {
            let what = if finding.kind == Kind::Secret { "without secret" } else { "left out" };
            out::line(format!("{what}: {}: {}", escaped(&finding.key), escaped(&finding.why)))?;
        }
        Ok(())
    }
}
