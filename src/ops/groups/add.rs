//! Adding a group.

use ipc_handlers::{Folder, effect::SenderScope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::super::{
    By, Done, OpError, Operation, Site,
    args::{Jid, Trigger, word},
    wirings::{default_mode, two_answer},
};
use crate::{
    domain::{
        heard::engage::{Engages, kept_beside},
        kept::templates::Template,
        platforms::chats::ChatKind,
        rows::{Chat, Group},
        shown::errors::chain,
    },
    ipc::{self, LaidOut},
    store::{NewGroup, NewWiring},
    system::failpoint,
};

/// Held from the look at what an earlier group of that name has left until the new one's row is there.
static ADDING: Mutex<()> = Mutex::const_new(());

/// Add a group and wire a chat to it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Name of its folder under groups/.
    pub folder: Folder,
    /// Chat that it answers in, such as local:family.
    #[arg(long, value_name = "JID")]
    pub chat: Jid,
    /// Name for people, which other groups may have too [default: FOLDER].
    #[arg(long)]
    pub name: Option<String>,
    /// Word at the start of a message that mentions the agent, such as @bo [default: from the assistant's name].
    #[arg(long)]
    pub trigger: Option<Trigger>,
    /// Text that its CLAUDE.md begins with [default: that of groups/_template].
    #[serde(default)]
    #[arg(long, value_name = "TEMPLATE", value_parser = word::<Template>())]
    pub from: Option<Template>,
    /// Make it the main group, whose agent may act for all groups; there is only one.
    #[serde(default)]
    #[arg(long)]
    pub main: bool,
}

impl Operation for Args {
    type Row = Group;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Group>, OpError> {
        let Self { folder, chat, name, trigger, from, main } = self;
        let assistant = &site.config()?.assistant_name;
        let group = NewGroup {
            folder: folder.clone(),
            name: name.unwrap_or_else(|| folder.to_string()),
            is_main: main,
            trigger: trigger.map_or_else(|| format!("@{assistant}"), String::from),
        };
        let known = site.store.chat(chat.as_str()).await?;
        let shown = chat.kind(site).await?;
        let wiring = wiring_for(&folder, &chat, main, (shown, known.as_ref()));
        // Of two that make the same one, the second finds the first one's row.
        let _turn = ADDING.lock().await;
        site.keeper.clear(&folder).await?;
        failpoint::reach("op.group_cleared");
        let begun = match from {
            Some(template) => begin(site, &folder, &group, template).await?,
            None => None,
        };
        // A daemon that dies from here on finds the row when it starts, and makes the rest.
        if let Err(error) = site.store.add_group(group, vec![wiring], site.world.now()).await {
            // What was there before stays.
            if begun == Some(LaidOut::New)
                && let Err(left) = ipc::take_back_group(site.root, &folder)
            {
                tracing::warn!(error = %chain(&left), group = %folder, "the folder of a group that was refused stays");
            }
            return Err(error.into());
        }
        failpoint::reach("op.group_stored");
        ipc::lay_out_group(site.root, &folder, site.box_owner)?;
        failpoint::reach("op.group_laid_out");
        site.keeper.changed(Some(&folder)).await?;
        let notes =
            two_answer(site.store, &folder, &chat).await?.into_iter().chain(chat.unserved(site).await?);
        let kept = || {
            format!(
                "groups/{folder}/CLAUDE.md was there and stays as it is; `g2 groups edit {folder}` changes it"
            )
        };
        let notes = notes.chain((begun == Some(LaidOut::Kept)).then(kept));
        let says = format!("group {folder} answers in {chat}");
        Ok(Done::new(site.group(&folder).await?, says).noting(notes))
    }
}

/// Lays the folder out with the memory that a person has chosen, before the group's row: a loop that hears of the row lays out
/// what is missing. A memory that is there stays. `None`: the group is there, and nothing is done.
async fn begin(
    site: &Site<'_>,
    folder: &Folder,
    group: &NewGroup,
    template: Template,
) -> Result<Option<LaidOut>, OpError> {
    if site.store.group(folder).await?.is_some() {
        return Ok(None);
    }
    let text = template.text(group.trigger.trim_start_matches('@'), folder.as_str());
    Ok(Some(ipc::lay_out_group_with(site.root, folder, site.box_owner, &text)?))
}

/// How a new group engages in its chat: as the main group on every message, otherwise as fits the kind of the chat.
fn wiring_for(
    folder: &Folder,
    chat: &Jid,
    main: bool,
    (shown, known): (ChatKind, Option<&Chat>),
) -> NewWiring {
    let mode = if main { Engages::Pattern(".".into()) } else { default_mode(shown, known) };
    let ignored = kept_beside(&mode);
    let (engage_mode, engage_pattern) = mode.columns();
    NewWiring {
        group: folder.clone(),
        chat_jid: chat.to_string(),
        ignored_message_policy: ignored,
        engage_mode,
        engage_pattern,
        sender_scope: SenderScope::All,
    }
}
