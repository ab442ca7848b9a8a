//! What a root begins with.
#![expect(clippy::disallowed_methods, reason = "lays out the root, which no container can write")]

use std::{fs, path::Path};

use anyhow::{Context as _, Result, anyhow};
use ipc_handlers::{
    Folder,
    effect::{EngageMode, IgnoredMessages, SenderScope},
};

use super::{
    box_owner, check_version,
    lock::lock,
    open::{open_store, open_store_under, private_dir},
};
use crate::{
    config::{self, Config},
    domain::{
        kept::{
            folders::{Stands, stands},
            templates,
        },
        problems::RootFault,
        shown::errors::chain,
    },
    ipc::{lay_out_global, lay_out_group_with, lay_out_template, look_at_folder},
    ops::{Alone, Keeper as _, OpError},
    root::{RESTORING, Standing, keep_private, make_private_file, standing},
    store::{NewGroup, NewWiring, Store},
    system::world::World,
};

/// The skills that a new root is given, by name. They are its owner's from then on: none comes back that was removed.
const SKILLS: [(&str, &str); 3] = [
    ("browsing", include_str!("../../container/skills/browsing/SKILL.md")),
    ("mailbox", include_str!("../../container/skills/mailbox/SKILL.md")),
    ("scheduling", include_str!("../../container/skills/scheduling/SKILL.md")),
];

/// What to do about history that lies somewhere without its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Leave everything as it is: the store may only not be mounted.
    Refuse,
    /// Move it aside and begin anew.
    MoveAside,
}

/// Lays out a root that somebody asked for.
///
/// # Errors
/// History that lies there without its store, unless it is to be moved aside; what could not be made, and why.
pub async fn found(world: &World, root: &Path, config: &Config, history: History) -> Result<()> {
    match (standing(root), history) {
        (Standing::WithoutStore { trace }, History::Refuse) => return Err(without_store(root, &trace)),
        (Standing::WithoutStore { .. }, History::MoveAside) => {
            let _lock = lock(root).await?;
            let aside = format!("before-{}", world.now()).replace(':', "-");
            crate::root::move_aside(&root.join("data"), &aside)
                .with_context(|| format!("moving aside what lies in {}/data", root.display()))?;
        }
        // Not under a daemon of another version.
        (Standing::Root, _) => check_version(root)?,
        (Standing::Restoring, _) => return Err(restoring(root).into()),
        (Standing::LogOfAnother, _) => return Err(log_of_another(root).into()),
        (Standing::Nothing, _) => {}
    }
    init(world, root, config).await
}

/// Makes the boxes that groups of a root lack, so that commands can be put into them. A daemon that serves the root has made
/// them.
///
/// # Errors
/// When a folder can't be made or given away.
pub async fn lay_out_boxes(world: &World, root: &Path) -> Result<()> {
    let Ok(lock) = lock(root).await else { return Ok(()) };
    let store = open_store_under(world, &lock, root)?;
    let keeper = Alone::new(root, &store, box_owner());
    for group in store.groups().await? {
        let made = keeper.boxes(&group.folder);
        made.with_context(|| format!("making the boxes of group {}", group.folder))?;
    }
    Ok(())
}

/// Whether a root is there to work with.
///
/// # Errors
/// Names the obstacle, and the way around it.
pub fn check_root(root: &Path) -> Result<()> {
    match standing(root) {
        Standing::Root => check_version(root),
        Standing::Nothing => Err(no_root(root).into()),
        Standing::Restoring => Err(restoring(root).into()),
        Standing::LogOfAnother => Err(log_of_another(root).into()),
        Standing::WithoutStore { trace } => Err(without_store(root, &trace)),
    }
}

fn no_root(root: &Path) -> OpError {
    OpError::invalid(format!("no root here: {} holds no store of g2", root.display()))
        .hint(format!("`g2 --root {} init` lays one out, --root names another", root.display()))
}

fn restoring(root: &Path) -> OpError {
    OpError::refused(format!("a restore into {} has not ended", root.display()))
        .hint("wait until it ends; if it was killed, `g2 restore FILE` begins anew")
}

/// Refuses a root whose store lies beside the log of another.
pub(super) fn check_log(root: &Path) -> Result<(), OpError> {
    if standing(root) == Standing::LogOfAnother { Err(log_of_another(root)) } else { Ok(()) }
}

fn log_of_another(root: &Path) -> OpError {
    let (why, fix) = RootFault::LogOfAnother { root: root.display().to_string() }.words();
    OpError::refused(why).hint(fix)
}

fn without_store(root: &Path, trace: &Path) -> anyhow::Error {
    anyhow!(
        "the store {0}/data/g2.sqlite is missing, but {1} shows that there was one; mount its disk or restore it from a backup. `g2 --root {0} init --fresh` starts anew without it, and moves the old files in data/ aside",
        root.display(),
        trace.display()
    )
}

/// Whether the main group has lost its folder. One that can't be looked at is not written to either.
fn has_main_lost_its_folder(root: &Path, store: &Store) -> Result<bool> {
    let main = Folder::parse("main")?;
    let had_files = store.folder_had_files(&main)?;
    Ok(look_at_folder(root, &main).map_or(true, |there| stands(had_files, there) == Stands::Lost))
}

/// Lays out a root: folders, settings, skills, store, the main group; and closes it to other users. Twice changes nothing.
///
/// # Errors
/// What could not be made, and why.
pub async fn init(world: &World, root: &Path, config: &Config) -> Result<()> {
    private_dir(&root.join("data"))?;
    let known = root.join("data/g2.sqlite").exists().then(|| open_store(world, root)).transpose()?;
    // A folder that was lost comes back by a person's word alone.
    let main_is_lost = known.as_ref().map_or(Ok(false), |store| has_main_lost_its_folder(root, store))?;
    for folder in ["groups/global", "data/runs", "data/sessions"] {
        let path = root.join(folder);
        fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
    }
    lay_out_template(root).context("making groups/_template")?;
    let settings = root.join("g2.toml");
    make_private_file(&settings, config::default_toml().as_bytes())
        .with_context(|| format!("writing {}", settings.display()))?;
    // Memories are made, and git knows none: agents write to them.
    if !main_is_lost {
        let text = templates::of_main(&config.assistant_name);
        lay_out_group_with(root, &Folder::parse("main")?, None, &text).context("making groups/main")?;
    }
    lay_out_global(root, templates::OF_ALL).context("making groups/global")?;
    let skills = root.join("container/skills");
    if !skills.exists() {
        for (name, text) in SKILLS {
            let path = skills.join(name).join("SKILL.md");
            fs::create_dir_all(skills.join(name))
                .and_then(|()| fs::write(&path, text))
                .with_context(|| format!("writing {}", path.display()))?;
        }
    }
    // What a restore left that died behind its last step.
    let _ = fs::remove_dir(root.join(RESTORING));
    let store = known.map_or_else(|| open_store(world, root), Ok)?;
    if store.groups().await?.is_empty() {
        let main = Folder::parse("main")?;
        let group = NewGroup {
            folder: main.clone(),
            name: "Main".into(),
            is_main: true,
            trigger: format!("@{}", config.assistant_name),
        };
        let wiring = NewWiring {
            group: main,
            chat_jid: "local:main".into(),
            engage_mode: EngageMode::Pattern,
            engage_pattern: Some(".".into()),
            sender_scope: SenderScope::All,
            ignored_message_policy: IgnoredMessages::Drop,
        };
        store.add_group(group, vec![wiring], world.now()).await?;
    }
    // A copy of the store may have been made just now.
    for (path, error) in keep_private(root) {
        tracing::warn!(path = %path.display(), error = %chain(&error), "other users may look into it, and it can't be closed");
    }
    Ok(())
}
