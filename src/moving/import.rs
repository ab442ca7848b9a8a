//! Rows and files of a source go in: batch by batch, while the next one is read.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context as _, anyhow, bail};
use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Batch, Place, Source, Tree,
    files::{Acts, Copied, Copying, Grow, Modes, open_below, place_below},
    instances_of,
};
use crate::{
    config::Config,
    domain::{
        kept::{held_back::HeldCount, templates},
        moved::{
            findings::{Finding, Findings, NotTaken},
            rows::{File, Keyed, Kind, List, ListName, Part, Row, Secret, Setting},
        },
        platforms::attachments::Attachment,
        time::zone::Zones,
    },
    ipc::{self, Owner},
    store::{Arriving, Store},
    system::{
        failpoint,
        media::{InHand, Media},
        world::World,
    },
};

/// The most settings and secrets that come with an installation.
const MOST_SETTINGS: usize = 1_000;
/// A larger file beside a message is not kept, bytes.
const LARGEST_MEDIA: u64 = 1 << 30;
/// The most bytes of files beside messages that come with an installation.
const MOST_MEDIA: u64 = 256 << 30;

/// Where rows go in.
pub struct Here<'a> {
    pub world: &'a World,
    pub root: &'a Path,
    pub store: &'a Store,
    pub config: &'a Config,
    /// User and group of containers; `None`: our own.
    pub owner: Option<Owner>,
    pub acts: Acts,
}

/// How far an import is, for somebody who watches.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    rows: AtomicU64,
    of: AtomicU64,
    files: AtomicU64,
}

impl Progress {
    /// Returns how many rows were read so far, and about how many there are; 0: nobody knows.
    #[must_use]
    pub fn rows(&self) -> (u64, u64) {
        (self.0.rows.load(Ordering::Relaxed), self.0.of.load(Ordering::Relaxed))
    }

    pub(super) fn add_rows(&self, rows: usize) {
        self.0.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Returns how many files were copied so far.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.0.files.load(Ordering::Relaxed)
    }
}

/// What came of an import.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Imported {
    /// What was imported, in words.
    pub from: String,
    /// How many rows are new, by kind.
    pub new: BTreeMap<Kind, u64>,
    /// How many were here already.
    pub again: BTreeMap<Kind, u64>,
    pub files: Copied,
    /// How much waits for a decision of an owner.
    pub held_back: HeldCount,
    pub findings: Findings,
    /// Settings that are not the store's: who asked for the import takes them in.
    #[serde(skip)]
    pub settings: Vec<Setting>,
    #[serde(skip)]
    pub secrets: Vec<Secret>,
    /// The groups that it has, which need their folders.
    #[serde(skip)]
    pub groups: Vec<Folder>,
}

/// Takes in rows of these parts, and the files if they are among them. What was taken before changes nothing, so one that broke off
/// goes on.
///
/// # Errors
/// The source can't be read further, or the store or the disk here fails. What was taken until then stays.
pub async fn import(
    here: &Here<'_>,
    source: Box<dyn Source>,
    parts: &[Part],
    progress: &Progress,
) -> anyhow::Result<Imported> {
    let name = source.name().to_owned();
    let instances = instances_of(here.world, here.root, here.store).await?;
    if source.of_root().is_some_and(|root| instances.iter().any(|known| known == root)) {
        bail!(
            "{} is of this root, which has its rows already; `g2 restore` gives an earlier state back from a backup",
            source.about()
        );
    }
    let mut imported = Imported { from: source.about(), ..Imported::default() };
    progress.0.of.store(source.weight(), Ordering::Relaxed);
    let mut media = Beside { acts: here.acts, data: here.root.join("data"), ..Beside::default() };
    let files_come = parts.contains(&Part::Files);
    let (mut source, mut next) = read(here.world, source, parts.to_vec()).await?;
    while let Some(Batch { rows, findings }) = next {
        progress.add_rows(rows.len());
        imported.findings.extend(findings);
        let rows = aside(here, &name, rows, &mut imported).await?;
        let arriving;
        (source, media, arriving) = with_files(here.world, source, media, rows).await?;
        imported.findings.extend(std::mem::take(&mut media.findings));
        let zones = zones(here, &imported.settings);
        let taking = here.store.take_in(&name, (arriving, files_come), &zones, here.world.now());
        let (taken, read) = tokio::join!(taking, read(here.world, source, parts.to_vec()));
        let taken = taken.context("taking rows in")?;
        add(&mut imported.new, taken.new);
        add(&mut imported.again, taken.again);
        imported.findings.extend(taken.findings);
        (source, next) = read?;
        media.hands.clear();
        failpoint::reach("moving.batch");
    }
    imported.files = media.copied;
    if files_come {
        let trees = source.trees();
        copy(here, &name, trees, progress, &mut imported).await?;
    }
    imported.held_back = here.store.count_held_back().await?;
    Ok(imported)
}

/// Returns the zones in which times are reckoned: everybody's may come along, before all rows that need it.
fn zones(here: &Here<'_>, settings: &[Setting]) -> Zones {
    let stays = here.config.written.says("timezone");
    let comes = settings.iter().find(|setting| setting.name == "timezone" && !stays);
    let comes = comes.and_then(|setting| here.config.zones.with_everybodys(setting.value.as_str()?));
    comes.unwrap_or_else(|| here.config.zones.clone())
}

fn add(to: &mut BTreeMap<Kind, u64>, more: BTreeMap<Kind, u64>) {
    for (kind, count) in more {
        *to.entry(kind).or_default() += count;
    }
}

type Opened = Box<dyn Source>;

async fn read(
    world: &World,
    mut source: Opened,
    parts: Vec<Part>,
) -> anyhow::Result<(Opened, Option<Batch>)> {
    let read = world.blocking(move || {
        let batch = source.next(&parts);
        (source, batch)
    });
    let (source, batch) = read.await.map_err(|panic| anyhow!("reading the source: {panic}"))?;
    Ok((source, batch.context("reading the source")?))
}

/// Sets aside what is no row of the store, and the groups that need their folders.
async fn aside(
    here: &Here<'_>,
    source: &str,
    rows: Vec<Keyed>,
    imported: &mut Imported,
) -> anyhow::Result<Vec<Keyed>> {
    let mut others = Vec::with_capacity(rows.len());
    for keyed in rows {
        let (kind, room) =
            (keyed.row.kind(), imported.settings.len() + imported.secrets.len() < MOST_SETTINGS);
        // Who asked for the import notes these by their names.
        let name = match &keyed.row {
            Row::Setting(setting) => Some(setting.name.as_str()),
            Row::Secret(secret) => Some(secret.name.as_str()),
            Row::List(_) => Some(keyed.key.as_str()),
            _ => None,
        };
        if let Some(name) = name
            && here.store.moved_as(source, kind, name).await?.is_some()
        {
            *imported.again.entry(kind).or_default() += 1;
            continue;
        }
        match keyed.row {
            Row::Setting(_) | Row::Secret(_) if !room => {
                imported.findings.add(Finding::left(kind, keyed.key, "there are too many settings"));
            }
            Row::Setting(setting) => imported.settings.push(setting),
            Row::Secret(secret) => imported.secrets.push(secret),
            Row::List(list) => {
                match put_list(here, &list)? {
                    Ok(()) => *imported.new.entry(kind).or_default() += 1,
                    Err(why) => imported.findings.add(Finding::changed(kind, keyed.key.clone(), why)),
                }
                here.store.note_moved(source, kind, &keyed.key, list.name.as_str()).await?;
            }
            Row::Group(group) => {
                imported.groups.push(group.folder.clone());
                others.push(Keyed { key: keyed.key, row: Row::Group(group) });
            }
            row => others.push(Keyed { key: keyed.key, row }),
        }
    }
    Ok(others)
}

/// Writes a list that is not there; or says why not.
fn put_list(here: &Here<'_>, list: &List) -> anyhow::Result<Result<(), NotTaken>> {
    use crate::allowlists::{mounts, senders};
    let path = match list.name {
        ListName::Senders => senders::list_path(here.config),
        ListName::Mounts => mounts::list_path(here.config),
    };
    let Some(path) = path else { return Ok(Err("there is no home folder to put it in".into())) };
    if path.symlink_metadata().is_ok() {
        return Ok(Err(format!("{} is there, and stays", path.display()).into()));
    }
    if here.acts == Acts::Looking {
        return Ok(Ok(()));
    }
    let text = serde_json::to_string_pretty(&list.content)?;
    path.parent().map_or(Ok(()), crate::root::make_private_folder)?;
    crate::root::make_private_file(&path, format!("{text}\n").as_bytes())
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(Ok(()))
}

/// Files beside messages, as they are kept.
#[derive(Default)]
struct Beside {
    acts: Acts,
    data: PathBuf,
    media: Option<Arc<Media>>,
    /// Where the source has them, once it was asked.
    from: Option<Option<PathBuf>>,
    /// Files that rows will name, once these are committed.
    hands: Vec<InHand>,
    findings: Vec<Finding>,
    copied: Copied,
    /// Bytes of all files that were read.
    read: u64,
}

/// Keeps the files of rows, which are gone by the end of an installation.
async fn with_files(
    world: &World,
    source: Opened,
    mut beside: Beside,
    rows: Vec<Keyed>,
) -> anyhow::Result<(Opened, Beside, Vec<Arriving>)> {
    if rows.iter().all(|keyed| files_of(&keyed.row).is_empty()) {
        let rows = rows.into_iter().map(|keyed| Arriving { keyed, files: Vec::new() }).collect();
        return Ok((source, beside, rows));
    }
    let kept = world.blocking(move || {
        let rows: std::io::Result<Vec<Arriving>> =
            rows.into_iter().map(|keyed| beside.keep(source.as_ref(), keyed)).collect();
        (source, beside, rows)
    });
    let (source, beside, rows) = kept.await.map_err(|panic| anyhow!("keeping files: {panic}"))?;
    Ok((source, beside, rows.context("keeping files in data/media")?))
}

fn files_of(row: &Row) -> &[File] {
    match row {
        Row::Message(message) => &message.files,
        Row::Text(text) => &text.files,
        _ => &[],
    }
}

impl Beside {
    fn keep(&mut self, source: &dyn Source, keyed: Keyed) -> std::io::Result<Arriving> {
        let is_media = |tree: &Tree| tree.to == Place::Media;
        let from = || source.trees().into_iter().find(is_media).map(|tree| tree.from);
        let mut files = Vec::new();
        for file in files_of(&keyed.row) {
            let from = self.from.get_or_insert_with(from).clone();
            files.push(self.one(from.as_deref(), &keyed, file)?);
        }
        Ok(Arriving { keyed, files })
    }

    fn one(&mut self, from: Option<&Path>, keyed: &Keyed, file: &File) -> std::io::Result<Attachment> {
        let mut known = Attachment {
            name: file.name.clone(),
            kind: file.kind,
            mime: file.mime.clone(),
            claimed: true,
            size: file.size,
            problem: file.problem.clone(),
            caption: file.caption.clone().filter(|caption| !caption.is_empty()),
            seconds: file.seconds,
            words: file.words.clone().filter(|words| !words.is_empty()),
            ..Attachment::default()
        };
        let (Some(from), Some(path)) = (from, &file.path) else {
            known.problem.get_or_insert_with(|| "not imported".to_owned());
            return Ok(known);
        };
        let opened = open_below(from, path).map_err(|_| "it is not there, or a link");
        let kept = match (opened, self.acts) {
            (Err(why), _) => Err(why.to_owned()),
            (Ok(_), Acts::Looking) => {
                known.problem = Some("only looked at".to_owned());
                self.copied.files += 1;
                return Ok(known);
            }
            (Ok(opened), Acts::Really) => {
                let media = match &self.media {
                    Some(media) => media,
                    None => self.media.insert(Media::open(&self.data)?),
                };
                match media.keep(&opened, LARGEST_MEDIA.min(MOST_MEDIA.saturating_sub(self.read))) {
                    Ok(hand) => Ok(hand),
                    Err(crate::system::media::NotKept::Fault(fault)) => {
                        Err(format!("{fault:?}").to_lowercase())
                    }
                    Err(crate::system::media::NotKept::World(error)) => return Err(error),
                }
            }
        };
        match kept {
            Ok(hand) => {
                let count = if hand.is_new { &mut self.copied.files } else { &mut self.copied.same };
                *count += 1;
                self.read = self.read.saturating_add(hand.size);
                self.copied.bytes += if hand.is_new { hand.size } else { 0 };
                known = known.kept(hand.digest, hand.size, hand.mime);
                self.hands.push(hand);
            }
            Err(why) => {
                let key = format!("{}: {path}", keyed.key);
                self.findings.push(Finding::left(Kind::File, key, why.clone()));
                known.problem = Some(why);
            }
        }
        Ok(known)
    }
}

/// Copies the folders that come with an installation, each once.
async fn copy(
    here: &Here<'_>,
    source: &str,
    trees: Vec<Tree>,
    progress: &Progress,
    imported: &mut Imported,
) -> anyhow::Result<()> {
    let mut times: BTreeMap<PathBuf, u32> = BTreeMap::new();
    let beside = imported.files;
    let mut copying = Copying::new(here.acts, templates_of(here));
    for Tree { to, from, without } in trees {
        let Some(place) = place_below(&to) else { continue };
        // Several folders may come to one place.
        let nth = times.entry(place.clone()).or_default();
        *nth += 1;
        let key = match *nth {
            1 => place.display().to_string(),
            n => format!("{} {n}", place.display()),
        };
        let came_before = here.store.moved_as(source, Kind::File, &key).await?.is_some();
        // Transcripts grow where they are from until its program stops.
        let (inner, grow) = match (&to, came_before) {
            (Place::Transcripts(_), _) => (None, Grow::AtItsEnd),
            (Place::Agent(_), true) => (Some("projects/-workspace-group"), Grow::AtItsEnd),
            (_, true) => {
                *imported.again.entry(Kind::File).or_default() += 1;
                continue;
            }
            (_, false) => (None, Grow::Never),
        };
        let group = match &to {
            Place::Group(group)
            | Place::Agent(group)
            | Place::Transcripts(group)
            | Place::Skills(group)
            | Place::Memories(Some(group)) => {
                if !here.store.group_came(source, group).await? {
                    imported.findings.add(Finding::left(
                        Kind::File,
                        key,
                        format!("no group {group} came along"),
                    ));
                    continue;
                }
                Some(group.clone())
            }
            Place::Global | Place::Template | Place::AllSkills | Place::Memories(None) | Place::Media => None,
        };
        if grow == Grow::AtItsEnd
            && let Some(group) = &group
            && came_before
            && here.store.active_runs()?.iter().any(|run| run.group == *group)
        {
            let why = "its agent is at work: `g2 stop --agents` ends it";
            imported.findings.add(Finding::left(Kind::File, key, why));
            continue;
        }
        let is_private = matches!(to, Place::Memories(_));
        let begun = format!("{key} begun");
        if is_private && here.store.moved_as(source, Kind::File, &begun).await?.is_none() {
            if here.root.join(&place).exists() {
                // Each text has a number, and those of here have theirs.
                let why = "earlier texts of this memory are here, which stay alone";
                imported.findings.add(Finding::left(Kind::File, key, why));
                continue;
            }
            here.store.note_moved(source, Kind::File, &begun, &key).await?;
        }
        copying.templates = match to {
            // The user's own one is a file as any other.
            Place::Template => made_by_g2(here),
            _ => templates_of(here),
        };
        let (from, place) = match inner {
            Some(inner) => (from.join(inner), place.join(inner)),
            None => (from, place),
        };
        let modes = if is_private { Modes::Private } else { Modes::Shared };
        let (root, below, unread) = (here.root.to_owned(), place.clone(), copying.unread);
        let copied = here.world.blocking(move || {
            let done = copying.tree(&from, (&root, &below), (modes, grow), &without);
            (copying, done)
        });
        let done;
        (copying, done) = copied.await.map_err(|panic| anyhow!("copying files: {panic}"))?;
        done.with_context(|| format!("copying files to {key}"))?;
        imported.files.files = beside.files + copying.copied.files;
        imported.files.bytes = beside.bytes + copying.copied.bytes;
        imported.files.same = beside.same + copying.copied.same;
        progress.0.files.store(imported.files.files, Ordering::Relaxed);
        imported.findings.merge(std::mem::take(&mut copying.findings));
        if here.acts == Acts::Really {
            if !is_private {
                give(here, group.as_ref(), &place)?;
            }
            // What could not be read comes with the next import.
            if copying.unread == unread {
                here.store.note_moved(source, Kind::File, &key, &key).await?;
            }
        }
        failpoint::reach("moving.copied");
    }
    Ok(())
}

/// Returns the memories with which groups of a new root begin, which give way.
fn templates_of(here: &Here<'_>) -> Vec<String> {
    let folder = here.root.join("groups/_template");
    let template = ipc::read_inside(folder.as_path(), Path::new("CLAUDE.md"), 1 << 20).ok();
    let template = template.and_then(|template| String::from_utf8(template.bytes).ok());
    made_by_g2(here).into_iter().chain(template).collect()
}

fn made_by_g2(here: &Here<'_>) -> Vec<String> {
    vec![templates::of_main(&here.config.assistant_name), templates::OF_ALL.to_owned()]
}

/// Has the agent of a group own the files that were copied for it.
fn give(here: &Here<'_>, group: Option<&Folder>, below: &Path) -> anyhow::Result<()> {
    let (Some(group), Some(owner)) = (group, here.owner) else { return Ok(()) };
    // Of a folder that could not be opened there is no copy.
    if here.root.join(below).symlink_metadata().is_err() {
        return Ok(());
    }
    let owner = here.store.group_uid(group)?.owner(owner);
    ipc::give_folder(here.root.join(below).as_path(), owner, None)?;
    Ok(())
}
