//! `g2 approvals`: questions about strangers and new chats, and their answers.

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::Folder;
use serde::Serialize;

use super::{
    CliResult, Context,
    client::perform,
    filter::{Rows, Span, check_chat},
    show,
    word::word,
};
use crate::{
    domain::{
        heard::approvals::{Approval, ApprovalEvent, State},
        host::prune::History,
    },
    ops::{
        approvals::{approve, deny, deny_many},
        args::Jid,
        missing,
    },
    store::Which,
};

const APPROVED: &str = "\
Examples:
  g2 approvals approve 3
  g2 approvals approve 4 --group family
  g2 approvals approve 5 --new Chess";

const DENIED: &str = "\
Examples:
  g2 approvals deny 3
  g2 approvals deny --chat local:main
  g2 approvals deny --all";

#[derive(Debug, Subcommand)]
pub(super) enum Approvals {
    /// List open questions, also those that could not be sent to anybody
    #[command(after_help = "Examples:\n  g2 approvals list --all --since 1w")]
    List {
        /// Include questions that were answered or have expired
        #[arg(long)]
        all: bool,
        /// Only questions in this state
        #[arg(long, value_parser = word::<State>())]
        state: Option<State>,
        /// Only questions about this chat and its senders, by its address such as local:family
        #[arg(long, value_name = "JID")]
        chat: Option<String>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        rows: Rows,
    },
    /// Show one question and its history
    #[command(after_help = "Examples:\n  g2 approvals show 3")]
    Show {
        /// Number of the question, as `g2 approvals list` shows it
        id: i64,
    },
    /// Say yes: the sender is heard, or the chat is wired; messages that waited are answered
    #[command(after_help = APPROVED)]
    Approve {
        /// Number of the question, as `g2 approvals list` shows it
        id: i64,
        /// For a new chat: the group that it is wired to, by its folder
        #[arg(long, value_name = "GROUP", conflicts_with = "new")]
        group: Option<String>,
        /// For a new chat: name of a new group for it, unlike that of any other group
        #[arg(long, value_name = "NAME")]
        new: Option<String>,
        /// User who decides: an owner, or an admin of the group
        #[arg(long = "as", default_value = "local:me", value_name = "USER")]
        user: String,
    },
    /// Say no: messages that waited are not heard
    #[command(after_help = DENIED)]
    Deny {
        /// Number of the question, as `g2 approvals list` shows it
        #[arg(required_unless_present_any = ["chat", "all"])]
        id: Option<i64>,
        /// All open questions about this chat and its senders
        #[arg(long, value_name = "JID", conflicts_with = "id")]
        chat: Option<Jid>,
        /// All open questions
        #[arg(long, conflicts_with_all = ["id", "chat"])]
        all: bool,
        /// User who decides: an owner, or an admin of the group
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
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { all, state, chat, span, rows } => {
                let store = context.store()?;
                let (since, until) = span.read(context)?;
                let which = Which {
                    chat: chat.clone(),
                    group: None,
                    state: state.map(State::as_str),
                    since,
                    until,
                    text: rows.text(),
                    limit: rows.limit,
                };
                let rows = store.approvals_of(all || state.is_some(), which).await?;
                check_chat(&store, &rows, chat.as_deref()).await?;
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
                        "-approver",
                        "-card_chat",
                        "expires_at",
                        "-messages",
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
