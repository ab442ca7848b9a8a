//! `g2 approvals`: questions about strangers and new chats, and their answers.

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use ipc_handlers::Folder;
use serde::Serialize;

use super::{
    Context, Failure, Outcome,
    client::{lay_out, tell_changed},
    jid,
    prune::missing,
    show,
};
use crate::{
    app, clock,
    domain::{
        approvals::{Approval, ApprovalEvent},
        people::user_by_hand,
        prune::History,
    },
    store::{Decided, How, Pick, Store},
};

#[derive(Debug, Subcommand)]
pub(super) enum Approvals {
    /// The questions that wait for an answer, and those that could not be asked
    List {
        /// Those that were answered, and those that nobody answered in time, too
        #[arg(long)]
        all: bool,
        /// The newest so many only
        #[arg(long)]
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
        #[arg(long, value_name = "JID", value_parser = jid, conflicts_with = "id")]
        chat: Option<String>,
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
        let store = context.store()?.asking(app::asking(&context.config()?));
        match self {
            Self::List { all, limit } => {
                let mut rows = store.approvals(all)?;
                rows.drain(..rows.len().saturating_sub(limit.unwrap_or(usize::MAX)));
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
                let (approval, events) =
                    store.approval(id)?.ok_or_else(|| missing(&store, History::Approvals, id))?;
                show::object(context, &Shown { approval, events })
            }
            Self::Approve { id, group, new, user } => {
                let pick = match (group, new) {
                    (Some(group), _) => Pick::Connect(Folder::parse(&group).context("connecting a chat")?),
                    (None, Some(name)) => Pick::New(name),
                    (None, None) => Pick::Yes,
                };
                decide(context, &store, id, pick, &user).await
            }
            Self::Deny { id: Some(id), user, .. } => decide(context, &store, id, Pick::No, &user).await,
            Self::Deny { id: None, chat, user, .. } => {
                let why = match &chat {
                    Some(chat) => format!("g2 approvals deny --chat {chat}"),
                    None => "g2 approvals deny --all".to_owned(),
                };
                let by = user_by_hand(&user);
                let (closed, left) = store.deny_many(chat.as_deref(), &by, &why, clock::now()).await?;
                tell_changed(context, None).await;
                if left > 0 {
                    return Err(Failure::Failed(anyhow!(
                        "{closed} questions are closed; {by} may not answer {left} others"
                    )));
                }
                show::done(context, &format!("{closed} questions are closed"))
            }
        }
    }
}

async fn decide(context: &Context, store: &Store, id: i64, pick: Pick, user: &str) -> Outcome {
    let by = user_by_hand(user);
    let Decided { how, says, made } = store.decide(id, pick, &by, clock::now()).await?;
    if how != How::Done {
        return Err(Failure::Failed(anyhow!(says)));
    }
    match &made {
        Some(made) => lay_out(context, made).await?,
        None => tell_changed(context, None).await,
    }
    show::done(context, &says)
}
