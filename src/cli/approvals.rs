//! `g2 approvals`: questions about strangers and new chats, and their answers.

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::Folder;
use serde::Serialize;

use super::{Context, Outcome, client::perform, show};
use crate::{
    domain::{
        heard::approvals::{Approval, ApprovalEvent},
        host::prune::History,
    },
    ops::{
        approvals::{approve, deny, deny_many},
        args::Jid,
        missing,
    },
};

#[derive(Debug, Subcommand)]
pub(super) enum Approvals {
    /// The questions that wait for an answer, and those that could not be asked
    List {
        /// Those that were answered, and those that nobody answered in time, too
        #[arg(long)]
        all: bool,
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// One question, and what was done about it
    Show { id: i64 },
    /// Say yes: the sender is heard, or the chat is connected; what waits is answered
    Approve {
        id: i64,
        /// The group that a chat is connected to
        #[arg(long, value_name = "FOLDER", conflicts_with = "new")]
        group: Option<String>,
        /// Connect it to a new group of this name, which no other one has
        #[arg(long, value_name = "NAME")]
        new: Option<String>,
        /// Who says so: a user who may
        #[arg(long = "as", default_value = "local:me", value_name = "USER")]
        user: String,
    },
    /// Say no: what waits is not heard
    Deny {
        #[arg(required_unless_present_any = ["chat", "all"])]
        id: Option<i64>,
        /// To every open question about this chat and its senders
        #[arg(long, value_name = "JID", conflicts_with = "id")]
        chat: Option<Jid>,
        /// To every open question
        #[arg(long, conflicts_with_all = ["id", "chat"])]
        all: bool,
        /// Who says so: a user who may
        #[arg(long = "as", default_value = "local:me", value_name = "USER")]
        user: String,
    },
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    approval: Approval,
    events: Vec<ApprovalEvent>,
}

impl Approvals {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        match self {
            Self::List { all, limit } => {
                let store = context.store()?;
                let rows = store.newest_approvals(all, limit).await?;
                show::rows(
                    context,
                    &rows,
                    &[
                        "id",
                        "kind",
                        "state",
                        "chat_jid",
                        "sender",
                        "groups",
                        "approver",
                        "card_chat",
                        "expires_at",
                        "messages",
                    ],
                )
            }
            Self::Show { id } => {
                let store = context.store()?;
                let (approval, events) =
                    store.approval(id).await?.ok_or_else(|| missing(&store, History::Approvals, id))?;
                show::object(context, &Shown { approval, events })
            }
            Self::Approve { id, group, new, user } => {
                let group = group.as_deref().map(Folder::parse).transpose().context("connecting a chat")?;
                show::answer(context, &perform(context, approve::Args { id, group, new, user }).await?)
            }
            Self::Deny { id: Some(id), user, .. } => {
                show::answer(context, &perform(context, deny::Args { id, user }).await?)
            }
            Self::Deny { id: None, chat, user, .. } => {
                show::answer(context, &perform(context, deny_many::Args { chat, user }).await?)
            }
        }
    }
}
