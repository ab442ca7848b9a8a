//! `g2 questions`: what agents asked the people of their chats.

use clap::Subcommand;
use ipc_handlers::Folder;

use super::{
    CliResult, Context,
    filter::{Rows, Span, check_chat, check_group},
    show,
    word::word,
};
use crate::{domain::heard::questions::QuestionState, store::Which};

#[derive(Debug, Subcommand)]
pub(super) enum Questions {
    /// List the questions that may still be answered, in the order asked
    #[command(after_help = "Examples:\n  g2 questions list --all --chat local:main")]
    List {
        /// Include those that are over
        #[arg(long)]
        all: bool,
        /// Only questions in this state
        #[arg(long, value_parser = word::<QuestionState>())]
        state: Option<QuestionState>,
        /// Only questions of this group's agent, by its folder
        #[arg(long, value_name = "GROUP")]
        group: Option<Folder>,
        /// Only questions in this chat, by its address such as local:family
        #[arg(long, value_name = "JID")]
        chat: Option<String>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        rows: Rows,
    },
}

impl Questions {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let Self::List { all, state, group, chat, span, rows } = self;
        let store = context.store()?;
        let (since, until) = span.read(context)?;
        let which = Which {
            chat: chat.clone(),
            group: group.clone(),
            state: state.map(QuestionState::as_str),
            since,
            until,
            text: rows.text(),
            limit: rows.limit,
        };
        let found = store.questions(all || state.is_some(), which).await?;
        check_group(&store, &found, group.as_ref()).await?;
        check_chat(&store, &found, chat.as_deref()).await?;
        show::rows(
            context,
            &found,
            &[
                "id",
                "group",
                "chat_jid",
                "state",
                "expires_at",
                "~question",
                "~answer",
                "-answered_by",
                "-message",
                "-card",
                "-run",
            ],
        )
    }
}
