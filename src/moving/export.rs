//! Everything of a root as JSON Lines and files: the way out.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, bail};
use ipc_handlers::Time;
use schemars::schema_for;
use serde::{Deserialize, Serialize};

use super::{
    Progress,
    files::{Acts, Copied, Copying, Modes, names_below},
    instance_of,
};
use crate::{
    allowlists::{mounts, senders},
    config::{Config, secrets_in, without_secrets},
    domain::{
        moved::{
            findings::{Finding, Findings, NotTaken},
            rows::{Hidden, Keyed, Kind, List, ListName, Part, Row, Secret, Setting},
        },
        shown::errors::chain,
    },
    store::{self, Store},
    system::world::World,
};

/// The format of exports that this program writes.
pub(super) const FORMAT: u32 = 1;
/// The parts that have a file of rows, in the order in which rows go in again.
pub(super) const PARTS: [Part; 8] = [
    Part::Settings,
    Part::Groups,
    Part::People,
    Part::Runs,
    Part::Messages,
    Part::Sessions,
    Part::Tasks,
    Part::Audit,
];
/// The kinds of the store's rows, in that order.
const KINDS: [Kind; 16] = [
    Kind::Group,
    Kind::Chat,
    Kind::Wiring,
    Kind::User,
    Kind::Role,
    Kind::Member,
    Kind::Approval,
    Kind::Run,
    Kind::Usage,
    Kind::Message,
    Kind::Mark,
    Kind::Text,
    Kind::Lane,
    Kind::Archive,
    Kind::Task,
    Kind::Audit,
];
/// What is said to somebody who opens the folder.
const README: &str = include_str!("export.md");
/// The store as it stands, while it is read.
const SNAPSHOT: &str = ".snapshot";
/// The longest list, and the longest file of settings, bytes.
const LONGEST_TEXT: u64 = 4 << 20;
/// What of the folder of an agent's program is no memory but a key.
const KEYS: &str = ".credentials.json";

/// What `manifest.json` says; it is written last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    pub made_by: String,
    pub made_at: String,
    /// What tells the root from others.
    pub root: String,
    /// How many rows there are, by kind.
    pub rows: BTreeMap<Kind, u64>,
    pub files: u64,
}

/// What was exported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exported {
    pub folder: PathBuf,
    pub rows: BTreeMap<Kind, u64>,
    pub files: Copied,
    pub findings: Findings,
}

/// Returns the path of the rows of a part, below the folder.
#[must_use]
pub(super) fn file_of(part: Part) -> String {
    format!("rows/{part}.jsonl")
}

/// What is exported.
pub struct From<'a> {
    pub world: &'a World,
    pub root: &'a Path,
    pub config: &'a Config,
}

/// Writes everything of a root into a new or empty folder. A daemon may serve it meanwhile: the rows are those of one instant, files
/// are as they were when they were read.
///
/// # Errors
/// The folder has something in it; the store can't be read; the disk. Without `manifest.json` it is no export.
pub async fn export(from: &From<'_>, to: &Path, progress: &Progress) -> anyhow::Result<Exported> {
    let now = from.world.now();
    begin(to)?;
    let snapshot = Snapshot::in_folder(to)?;
    let (store, copy) = (from.root.join("data/g2.sqlite"), snapshot.0.join("g2.sqlite"));
    let copied = from.world.blocking(move || store::copy_to(&store, &copy));
    copied.await.map_err(|panic| anyhow!("copying the store: {panic}"))?.context("copying the store")?;
    folder(&to.join("rows"))?;
    let mut out = Out { rows: BTreeMap::new(), to, file: None };
    let mut findings = Findings::default();
    let senders = out.settings(from, &mut findings)?;
    let root = {
        let store = Store::open(&snapshot.0.join("g2.sqlite"))?;
        out.store(&store, senders, now, progress).await?;
        store.meta("instance")?
    };
    let root = match root {
        Some(root) => root,
        // No daemon ever served it. It is known by the same name in its next export.
        None => instance_of(from.world, from.root, &Store::open(&from.root.join("data/g2.sqlite"))?).await?,
    };
    out.end()?;
    let rows = out.rows;
    drop(snapshot);
    let copied = files(from, to).await?;
    findings.merge(copied.findings);
    new_file(&to.join("README.md"))?.write_all(README.as_bytes())?;
    let schema = serde_json::to_string_pretty(&schema_for!(Keyed))?;
    new_file(&to.join("rows.schema.json"))?.write_all(format!("{schema}\n").as_bytes())?;
    let manifest = Manifest {
        format: FORMAT,
        made_by: format!("g2 {}", env!("CARGO_PKG_VERSION")),
        made_at: now.to_string(),
        root,
        rows: rows.clone(),
        files: copied.copied.files,
    };
    let mut file = new_file(&to.join("manifest.json"))?;
    file.write_all(format!("{}\n", serde_json::to_string_pretty(&manifest)?).as_bytes())?;
    file.sync_all()?;
    Ok(Exported { folder: to.to_owned(), rows, files: copied.copied, findings })
}

/// Makes the folder, or takes one that is empty.
fn begin(to: &Path) -> anyhow::Result<()> {
    match folder(to) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_folder = to.symlink_metadata().is_ok_and(|meta| meta.is_dir());
            if !is_folder || !names_below(to, 1).is_empty() {
                bail!("{} is there and not empty; an export needs a new folder", to.display());
            }
            Ok(())
        }
        Err(error) => Err(error).with_context(|| format!("making {}", to.display())),
    }
}

fn folder(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

fn new_file(path: &Path) -> anyhow::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.with_context(|| format!("writing {}", path.display()))
}

/// A folder for the copy of the store, which goes with this.
struct Snapshot(PathBuf);

impl Snapshot {
    fn in_folder(to: &Path) -> io::Result<Self> {
        let path = to.join(SNAPSHOT);
        folder(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Snapshot {
    #[expect(
        clippy::disallowed_methods,
        reason = "a folder that we have made, which no container can write to"
    )]
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(error = %chain(&error), folder = %self.0.display(), "the copy of the store stays; remove it");
        }
    }
}

/// Rows on the way out.
struct Out<'a> {
    rows: BTreeMap<Kind, u64>,
    to: &'a Path,
    /// The file that is written now.
    file: Option<(Part, BufWriter<File>)>,
}

impl Out<'_> {
    fn put(&mut self, keyed: &Keyed) -> anyhow::Result<()> {
        let kind = keyed.row.kind();
        self.begin(keyed.row.part())?;
        let Some((_, file)) = &mut self.file else { return Ok(()) };
        serde_json::to_writer(&mut *file, keyed)?;
        file.write_all(b"\n")?;
        *self.rows.entry(kind).or_default() += 1;
        Ok(())
    }

    /// Has the next rows go into the file of a part.
    fn begin(&mut self, part: Part) -> anyhow::Result<()> {
        if self.file.as_ref().is_none_or(|(open, _)| *open != part) {
            self.end()?;
            self.file =
                Some((part, BufWriter::with_capacity(256 << 10, new_file(&self.to.join(file_of(part)))?)));
        }
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        if let Some((_, mut file)) = self.file.take() {
            file.flush()?;
            file.get_ref().sync_data()?;
        }
        Ok(())
    }

    /// Writes the settings that are not at their defaults, the list of mounts, and the names of secrets. Returns the list of senders,
    /// which goes with the people.
    fn settings(&mut self, from: &From<'_>, findings: &mut Findings) -> anyhow::Result<Option<Keyed>> {
        let mut senders = None;
        self.begin(Part::Settings)?;
        for (name, text) in from.config.written.changed() {
            let value: Option<toml::Table> = format!("value = {text}").parse().ok();
            let value = value.and_then(|mut table| table.remove("value"));
            let row = match value.map(serde_json::to_value).transpose()? {
                Some(value) if secrets_in(&name, &text).is_empty() => {
                    Row::Setting(Setting { name: name.clone(), value })
                }
                Some(_) | None => Row::Secret(Secret { name: name.clone(), value: Hidden(None) }),
            };
            self.put(&Keyed { key: name, row })?;
        }
        let of_env = crate::config::dotenv::variables(&crate::config::dotenv::text(from.root));
        let kept = names_below(&from.root.join("data/secrets"), 1_000);
        for name in of_env.into_iter().chain(kept.into_iter().map(|name| format!("data/secrets/{name}"))) {
            findings.add(Finding::left(Kind::Secret, name.clone(), "a secret is named, and not exported"));
            self.put(&Keyed { key: name.clone(), row: Row::Secret(Secret { name, value: Hidden(None) }) })?;
        }
        for (name, path) in [
            (ListName::Senders, senders::list_path(from.config)),
            (ListName::Mounts, mounts::list_path(from.config)),
        ] {
            let Some(path) = path.filter(|path| path.symlink_metadata().is_ok()) else { continue };
            let read = text(&path)
                .and_then(|text| serde_json::from_str(&text).map_err(|error| NotTaken(error.to_string())));
            match read {
                Ok(content) => {
                    let keyed = Keyed { key: name.to_string(), row: Row::List(List { name, content }) };
                    match name {
                        ListName::Senders => senders = Some(keyed),
                        ListName::Mounts => self.put(&keyed)?,
                    }
                }
                Err(why) => findings.add(Finding::left(Kind::List, path.display().to_string(), why)),
            }
        }
        let settings = from.root.join("g2.toml");
        if settings.exists() {
            match text(&settings).map(|text| without_secrets(&text)) {
                Ok(Some(text)) => new_file(&self.to.join("g2.toml"))?.write_all(text.as_bytes())?,
                Ok(None) => findings.add(Finding::left(
                    Kind::Setting,
                    "g2.toml",
                    "it can't be understood, and may hold secrets",
                )),
                Err(why) => findings.add(Finding::left(Kind::Setting, "g2.toml", why)),
            }
        }
        Ok(senders)
    }

    /// Writes all rows of the store, with the list of senders at the head of the people.
    async fn store(
        &mut self,
        store: &Store,
        mut senders: Option<Keyed>,
        now: Time,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        for kind in KINDS {
            self.begin(kind.part())?;
            if kind.part() == Part::People
                && let Some(senders) = senders.take()
            {
                self.put(&senders)?;
            }
            let mut after = 0;
            loop {
                let page = store.move_out(kind, after, now).await?;
                page.rows.iter().try_for_each(|row| self.put(row))?;
                progress.add_rows(page.rows.len());
                match page.next {
                    Some(next) => after = next,
                    None => break,
                }
            }
        }
        Ok(())
    }
}

/// Reads a file of the user's own.
#[expect(clippy::disallowed_methods, reason = "a file of the user's own, which no container can write to")]
fn text(path: &Path) -> Result<String, NotTaken> {
    use std::io::Read as _;
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST_TEXT + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 > LONGEST_TEXT => {
            Err(format!("it has more than {LONGEST_TEXT} bytes").into())
        }
        Ok(_) => Ok(text),
        Err(error) => Err(error.to_string().into()),
    }
}

/// Copies the folders of groups and of their agents' programs, the memory of all, earlier memories, skills of all, files beside messages,
/// long results.
async fn files(from: &From<'_>, to: &Path) -> anyhow::Result<Copying> {
    let (root, to) = (from.root.to_owned(), to.to_owned());
    let copying = from.world.blocking(move || -> io::Result<Copying> {
        let mut copying = Copying::new(Acts::Really, Vec::new());
        let mut copy = |from: &str, below: &Path, without: &[String]| {
            copying.folder(&root.join(from), (&to, below), Modes::Private, without)
        };
        for group in names_below(&root.join("groups"), usize::MAX) {
            let below = match group.as_str() {
                "global" => PathBuf::from("files/global"),
                group => Path::new("files/groups").join(group),
            };
            copy(&format!("groups/{group}"), &below, &[])?;
        }
        for group in names_below(&root.join("data/sessions"), usize::MAX) {
            let below = Path::new("files/agents").join(&group);
            copy(&format!("data/sessions/{group}/.claude"), &below, &[KEYS.to_owned()])?;
        }
        copy("data/media", Path::new("files/media"), &["new".to_owned()])?;
        copy("data/results", Path::new("files/results"), &[])?;
        copy("data/memories", Path::new("files/memories"), &[])?;
        copy("container/skills", Path::new("files/skills"), &[])?;
        Ok(copying)
    });
    let copying = copying.await.map_err(|panic| anyhow!("copying files: {panic}"))?;
    copying.context("copying files")
}
