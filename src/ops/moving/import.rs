//! Taking in another installation.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpCode, OpError, Operation, Site, args::word},
    settings,
};
use crate::{
    domain::{
        moved::{findings::Sort, rows::Part},
        shown::errors::chain,
    },
    ipc,
    moving::{self, Acts, Around, Here, Imported, Progress, SourceKind},
};

/// Take in groups, people, messages, sessions, tasks and files of another installation.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Kind of the installation.
    #[arg(value_name = "KIND", value_parser = word::<SourceKind>())]
    pub kind: SourceKind,
    /// Its folder. It is only read.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Parts that are taken, all of them by default.
    #[serde(default)]
    #[arg(long, value_name = "PARTS", value_delimiter = ',', value_parser = word::<Part>())]
    pub only: Vec<Part>,
    #[serde(skip)]
    #[arg(skip)]
    pub progress: Progress,
}

impl Args {
    /// Returns the parts that are wanted.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        match self.only.as_slice() {
            [] => Part::CHOICES.iter().map(|(_, part)| *part).collect(),
            only => only.to_vec(),
        }
    }
}

impl Operation for Args {
    type Row = Imported;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Imported>, OpError> {
        if site.keeper.is_serving() {
            return Err(OpError::refused("the daemon is up, and an import needs the root for itself")
                .hint("`g2 stop` stops it; a dry run and an export do not need that"));
        }
        let failed = |error: anyhow::Error| OpError::new(OpCode::Failed, format!("{error:#}"));
        let (parts, kind, path) = (self.parts(), self.kind, self.path.clone());
        let config = site.config()?;
        let around = Around::of(site.root, config, site.world.now());
        let opened = site.world.blocking(move || moving::open(kind, &path, around)).await;
        let source = opened
            .map_err(|panic| OpError::new(OpCode::Failed, chain(&panic)))?
            .map_err(|error| OpError::refused(format!("{error:#}")))?;
        let here = Here {
            world: site.world,
            root: site.root,
            store: site.store,
            config,
            owner: site.box_owner,
            acts: Acts::Really,
        };
        let name = source.name().to_owned();
        let mut imported = moving::import(&here, source, &parts, &self.progress).await.map_err(failed)?;
        for group in std::mem::take(&mut imported.groups) {
            if site.store.group(&group).await?.is_some() {
                ipc::lay_out_group(site.root, &group, site.box_owner)?;
                site.keeper.changed(Some(&group)).await?;
            }
        }
        settings::take(site, &name, &mut imported).await?;
        let new: u64 = imported.new.values().sum();
        let says = format!(
            "{}: {new} rows and {} files are new, {} rows were here already",
            imported.from,
            imported.files.files,
            imported.again.values().sum::<u64>()
        );
        let left = imported.findings.count(Sort::Left);
        let notes = (left > 0).then(|| format!("not taken: {left} rows and files; `--json` has the reasons"));
        let held = imported.held_back;
        let waits = (!held.is_none()).then(|| format!("{}: `g2 restored list` shows them", held.words()));
        Ok(Done::new(imported, says).noting(notes.into_iter().chain(waits)))
    }
}
