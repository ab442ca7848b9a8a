//! `g2 approvals`: questions about strangers and new chats, and their answers.

use clap::Subcommand;
use serde::Serialize;

use super::{
    CliResult, Context,
    client::change,
    filter::{Rows, Span, check_chat},
    show,
    word::word,
};
use crate::{
    domain::{
        heard::approvals::{Approval, ApprovalEvent, State},
        kept::prune::History,
    },
    ops::{
        approvals::{approve, deny, deny_many},
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
    #[command(after_help = APPROVED)]
    Approve(approve::Args),
    /// Say no: messages that waited are not heard
    #[command(after_help = DENIED)]
    Deny {
        /// Number of the question, as `g2 approvals list` shows it
        #[arg(required_unless_present_any = ["chat", "all"], conflicts_with_all = ["chat", "all"])]
        id: Option<i64>,
        #[command(flatten)]
        many: deny_many::Args,
        /// All open questions
        #[arg(long, conflicts_with = "chat", display_order = 1)]
        all: bool,
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
            Self::Approve(args) => change(context, args).await,
            Self::Deny { id: Some(id), many, .. } => {
                change(context, deny::Args { id, user: many.user }).await
            }
            Self::Deny { id: None, many, .. } => change(context, many).await,
        }
    }
}
