//! `g2 engage explain`: which groups a message would wake, and by which rule. It is decided as the daemon decides it;
//! nothing is stored, sent or counted.

use clap::{Args, Subcommand};
use ipc_handlers::effect::SenderScope;
use serde::Serialize;
use serde_json::json;

use super::{CliResult, Context, jid, show};
use crate::{
    allowlists::senders,
    domain::{
        heard::{
            access::{Listed, Standing, Unheeded, UnknownSenders},
            chat_commands::{May, Words},
            engage::{self, Rule},
            hearing::{Decision, Rules},
        },
        rows::Inbound,
    },
    ops::OpError,
    store::Unjudged,
};

const EXAMPLES: &str = "\
If no group is wired to the chat, the exit code is 1.

Examples:
  g2 engage explain --chat local:main \"hello\"
  g2 engage explain --chat local:main --as eve --mention \"hello\"";

#[derive(Debug, Subcommand)]
pub(super) enum Engage {
    /// Say for each wiring of a chat whether a message would wake the group, and why; nothing is sent
    #[command(after_help = EXAMPLES)]
    Explain(Explain),
}

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// Chat, by its address such as local:family
    #[arg(long, value_name = "JID", value_parser = jid)]
    chat: String,
    /// Sender: a name on the chat's channel, or an id of that channel such as tg:12345 [default: an owner]
    #[arg(long = "as", value_name = "NAME")]
    sender: Option<String>,
    /// Treat the message as one that mentions the agent
    #[arg(long)]
    mention: bool,
    /// Thread of the chat; without it the chat itself
    #[arg(long, default_value = "", hide_default_value = true)]
    thread: String,
    /// Treat the message as written by another bot
    #[arg(long)]
    bot: bool,
    /// Treat the message as written by this agent's own account
    #[arg(long)]
    own: bool,
    /// Text of the message
    text: String,
}

/// What one wiring makes of the message.
#[derive(Debug, Serialize)]
struct Row {
    group: String,
    engages: bool,
    rule: Rule,
    reason: String,
    outcome: engage::EngageVerdict,
    /// `asked` or `counted`, when it would have engaged and its sender is not heard.
    refused: Option<&'static str>,
    sender: String,
    standing: Standing,
    /// What `sender-allowlist.json` says.
    listed: Listed,
    /// The chat's, for senders whom the group does not know.
    policy: UnknownSenders,
    sender_scope: Option<SenderScope>,
    /// Whether the agent was addressed in this thread before, and listens on.
    sticky: bool,
    /// A fault of the wiring's rule.
    problem: Option<String>,
}

impl Engage {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let Self::Explain(asked) = self;
        let store = context.store()?;
        let addresses = store.addresses().await?;
        let sender = addresses.user_id(&asked.chat, asked.sender.as_deref().unwrap_or("me"));
        let inbound = Inbound {
            chat_jid: asked.chat.clone(),
            thread: asked.thread,
            sender: sender.clone(),
            text: asked.text,
            mentioned: asked.mention,
            from_me: asked.own,
            bot: asked.bot,
            ..Inbound::default()
        };
        let config = context.config()?;
        let list = senders::read(&config);
        let mut rules = Rules::default();
        let rows: Vec<Row> = store
            .as_if(inbound, context.world.now())
            .await?
            .into_iter()
            .map(|mut row| {
                // Nobody in particular: the wiring's own rules are asked about.
                if asked.sender.is_none() {
                    row.standing = Standing::Owner;
                }
                let listed = list.listed_any(&asked.chat, row.senders());
                explained(&mut rules, &config.words, row, listed)
            })
            .collect();
        if rows.is_empty() {
            let known = store.chat(&asked.chat).await?.is_some();
            return nobody(context, &asked.chat, known);
        }
        show::rows(context, &rows, &["group", "engages", "rule", "standing", "policy", "sticky", "reason"])
    }
}

/// There is nobody who could be woken: in the array, too, there is an object that says so.
fn nobody(context: &Context, chat: &str, known: bool) -> CliResult {
    let unknown = if known { "" } else { "nobody has spoken there yet either; " };
    let refused = OpError::refused(format!("no group is wired to {chat}")).hint(format!(
        "{unknown}wire one with `g2 wirings add --group FOLDER --chat {chat} --engage pattern`"
    ));
    if context.json {
        let row = json!({ "group": null, "engages": false, "rule": "none", "reason": refused.to_string(), "outcome": "ignore" });
        show::rows(context, &[row], &[])?;
    }
    Err(refused.into())
}

/// What the message is if it is a command to the host, and none to the agent.
fn command(words: &Words, row: &Unjudged, listed: Listed, wakes: bool) -> Option<String> {
    let asked = words.said(&row.text, &row.trigger, row.mentioned).filter(|_| !row.from_me && !row.bot)?;
    let may = asked.word.may(row.standing, row.commands);
    may.is_word(row.standing, listed, true, || wakes).then(|| match may {
        May::Yes => format!("it is the command {}", asked.word),
        May::Refused | May::No => "its sender may not give this command here".to_owned(),
    })
}

fn explained(rules: &mut Rules, words: &Words, row: Unjudged, listed: Listed) -> Row {
    let mut decision = rules.decide(&row.asked(listed));
    if let Some(reason) = command(words, &row, listed, decision.outcome == engage::EngageVerdict::Wake) {
        let (outcome, rule) = (engage::EngageVerdict::Ignore, Rule::Word);
        decision = Decision { outcome, rule, reason, refused: None, sticks: false, problem: None };
    }
    Row {
        engages: decision.outcome == engage::EngageVerdict::Wake,
        rule: decision.rule,
        reason: decision.reason,
        outcome: decision.outcome,
        refused: decision.refused.map(|refusal| match refusal {
            Unheeded::Asked => "asked",
            Unheeded::Counted => "counted",
        }),
        standing: row.standing,
        listed,
        policy: row.unknown_senders,
        sticky: row.sticky == engage::Sticky::Yes,
        problem: decision.problem.map(|problem| problem.to_string()),
        group: row.group.map(|group| group.to_string()).unwrap_or_default(),
        sender: row.sender,
        sender_scope: row.sender_scope,
    }
}
