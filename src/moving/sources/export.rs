//! A folder that an export wrote.

use std::{
    collections::VecDeque,
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use ipc_handlers::Folder;

use crate::{
    domain::moved::{
        findings::Finding,
        rows::{Keyed, Kind, LONGEST_ROW, Part},
    },
    moving::{
        Batch, Place, Source, Tree,
        export::{FORMAT, Manifest, PARTS, file_of},
        files::{names_below, open_below},
        source::{MOST_BYTES, MOST_ROWS},
    },
};

/// The longest manifest, bytes.
const LONGEST_MANIFEST: u64 = 1 << 20;
/// The most folders of groups that are looked for.
const MOST_GROUPS: usize = 100_000;

/// A folder that an export wrote, while it is read.
pub(super) struct Export {
    folder: PathBuf,
    manifest: Manifest,
    name: String,
    /// What is still to be read.
    left: VecDeque<Part>,
    /// What is read now, and how many lines of it were.
    at: Option<(Part, BufReader<File>, u64)>,
    findings: Vec<Finding>,
}

impl Export {
    pub(super) fn open(folder: &Path) -> anyhow::Result<Self> {
        let folder = std::path::absolute(folder)?;
        let mut text = String::new();
        open_below(&folder, "manifest.json")
            .with_context(|| {
                format!(
                    "{} is no export, or none that was finished: manifest.json is missing",
                    folder.display()
                )
            })?
            .take(LONGEST_MANIFEST)
            .read_to_string(&mut text)?;
        let manifest: Manifest = serde_json::from_str(&text).context("reading manifest.json")?;
        if manifest.format > FORMAT {
            bail!(
                "{} has format {}, and this g2 knows those up to {FORMAT}; install the newer g2",
                folder.display(),
                manifest.format
            );
        }
        let name = format!("export {}", manifest.root);
        let left = PARTS.iter().copied().filter(|part| *part != Part::Audit).collect();
        let changes = manifest.rows.get(&Kind::Audit).filter(|count| **count > 0).map(|count| {
            let why =
                format!("{count} rows about changes stay in the export: this root has a list of its own");
            Finding::left(Kind::Audit, file_of(Part::Audit), why)
        });
        Ok(Self { folder, manifest, name, left, at: None, findings: changes.into_iter().collect() })
    }

    /// Opens the next file of rows that is wanted; `None`: there is none.
    fn begin(&mut self, parts: &[Part]) -> Option<()> {
        while let Some(part) = self.left.pop_front() {
            if !parts.contains(&part) {
                continue;
            }
            let path = file_of(part);
            match open_below(&self.folder, &path) {
                Ok(file) => {
                    self.at = Some((part, BufReader::with_capacity(256 << 10, file), 0));
                    return Some(());
                }
                Err(error) => {
                    self.findings.push(Finding::left(
                        Kind::Source,
                        path,
                        format!("it can't be read: {error}"),
                    ));
                }
            }
        }
        None
    }
}

impl Source for Export {
    fn name(&self) -> &str {
        &self.name
    }

    fn of_root(&self) -> Option<&str> {
        Some(&self.manifest.root)
    }

    fn about(&self) -> String {
        format!(
            "the export {}, made {} by {}",
            self.folder.display(),
            self.manifest.made_at,
            self.manifest.made_by
        )
    }

    fn weight(&self) -> u64 {
        self.manifest.rows.values().sum()
    }

    fn next(&mut self, parts: &[Part]) -> anyhow::Result<Option<Batch>> {
        let mut batch = Batch { rows: Vec::new(), findings: std::mem::take(&mut self.findings) };
        let (mut bytes, mut lines) = (0, 0);
        let mut line = Vec::new();
        while batch.rows.len() < MOST_ROWS && bytes < MOST_BYTES && lines < 2 * MOST_ROWS {
            let Some((part, reader, number)) = &mut self.at else {
                if self.begin(parts).is_none() {
                    break;
                }
                continue;
            };
            line.clear();
            let read =
                reader.take(LONGEST_ROW as u64 + 1).read_until(b'\n', &mut line).context("reading rows")?;
            if read == 0 {
                self.at = None;
                continue;
            }
            *number += 1;
            lines += 1;
            bytes += read;
            let left =
                |why: String| Finding::left(Kind::Source, format!("{} line {number}", file_of(*part)), why);
            if read > LONGEST_ROW {
                if !line.ends_with(b"\n") {
                    reader.skip_until(b'\n').context("reading rows")?;
                }
                batch.findings.push(left(format!("it has more than {LONGEST_ROW} bytes")));
                continue;
            }
            match serde_json::from_slice::<Keyed>(&line) {
                // A row in a file of another part would come before those that it names.
                Ok(keyed) if keyed.row.part() != *part && keyed.row.kind().part() != *part => {
                    batch.findings.push(left(format!("{} is none of these rows", keyed.row.kind())));
                }
                Ok(keyed) => batch.rows.push(keyed),
                Err(error) => batch.findings.push(left(format!("it is no row: {error}"))),
            }
        }
        batch.findings.append(&mut self.findings);
        let is_end =
            batch.rows.is_empty() && batch.findings.is_empty() && self.at.is_none() && self.left.is_empty();
        Ok((!is_end).then_some(batch))
    }

    fn trees(&self) -> Vec<Tree> {
        let tree =
            |to, below: &str| Tree { to, from: self.folder.join("files").join(below), without: Vec::new() };
        let mut trees = vec![
            tree(Place::Media, "media"),
            tree(Place::Global, "global"),
            tree(Place::Template, "groups/_template"),
            tree(Place::AllSkills, "skills"),
            tree(Place::Memories(None), "memories/global"),
        ];
        for (below, place) in [
            ("groups", Place::Group as fn(Folder) -> Place),
            ("agents", Place::Agent),
            ("memories", |group| Place::Memories(Some(group))),
        ] {
            let names = names_below(&self.folder.join("files").join(below), MOST_GROUPS);
            // `global` is no group's.
            let groups = names.iter().filter_map(|name| Folder::parse(name).ok());
            trees.extend(groups.map(|group| tree(place(group.clone()), &format!("{below}/{group}"))));
        }
        trees
    }
}
