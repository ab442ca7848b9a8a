//! What a root begins with.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use ipc_handlers::Folder;

use super::{open_store, private_dir};
use crate::{
    clock,
    config::{self, Config},
    store::{NewGroup, NewWiring},
};

/// The skills that a new root is given, by name. They are its owner's from then on: none comes back that was removed.
const SKILLS: [(&str, &str); 3] = [
    ("browsing", include_str!("../../container/skills/browsing/SKILL.md")),
    ("mailbox", include_str!("../../container/skills/mailbox/SKILL.md")),
    ("scheduling", include_str!("../../container/skills/scheduling/SKILL.md")),
];

/// Lays out a root: folders, settings, skills, store, the main group. Twice changes nothing.
///
/// # Errors
/// What could not be made, and why.
pub async fn init(root: &Path, config: &Config) -> Result<()> {
    private_dir(&root.join("data"))?;
    for folder in ["groups/main", "groups/global", "groups/_template", "data/runs", "data/sessions"] {
        let path = root.join(folder);
        fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
    }
    let settings = root.join("g2.toml");
    if !settings.exists() {
        fs::write(&settings, config::DEFAULT_TOML)
            .with_context(|| format!("writing {}", settings.display()))?;
    }
    let memory = root.join("groups/main/CLAUDE.md");
    if !memory.exists() {
        let text =
            format!("# {0}\n\nYou are {0}, the assistant of this machine's owner.\n", config.assistant_name);
        fs::write(&memory, text).with_context(|| format!("writing {}", memory.display()))?;
    }
    let skills = root.join("container/skills");
    if !skills.exists() {
        for (name, text) in SKILLS {
            let path = skills.join(name).join("SKILL.md");
            fs::create_dir_all(skills.join(name))
                .and_then(|()| fs::write(&path, text))
                .with_context(|| format!("writing {}", path.display()))?;
        }
    }
    let store = open_store(root)?;
    if store.groups()?.is_empty() {
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
            engage_mode: "pattern".into(),
            engage_pattern: Some(".".into()),
            sender_scope: "all".into(),
            ignored_message_policy: "drop".into(),
        };
        store.add_group(group, vec![wiring], clock::now()).await?;
    }
    Ok(())
}
