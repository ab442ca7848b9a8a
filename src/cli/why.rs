//! `g2 why`: what became of a message.

use clap::Args;
use ipc_handlers::Time;
use serde::Serialize;

use super::{
    CliResult, Context, Failure, channels,
    client::{Client, NoDaemon},
    jid, out, show,
};
use crate::{
    app,
    domain::{
        heard::engage::Rule,
        kept::prune::History,
        platforms::attachments::{self, Goes},
        states::RunStatus,
    },
    ipc::peek,
    loops::lost::is_lost,
    ops::{OpError, missing},
    store::{Beside, Store, Why},
};

const EXAMPLES: &str = "\
It says which groups the message woke and by which rule, how long it waited and for which
reason, and which answer was sent.

Examples:
  g2 why
  g2 why 1
  g2 why --chat local:main";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct WhyCommand {
    /// Number of the message, as `g2 send` and `g2 messages list` print it [default: the newest of the chat]
    seq: Option<i64>,
    /// Chat whose newest message is explained
    #[arg(long, value_name = "JID", value_parser = jid, default_value = "local:main", conflicts_with = "seq")]
    chat: String,
}

impl WhyCommand {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let seq =
            match self.seq {
                Some(seq) => seq,
                None => context.store()?.newest_message(&self.chat).await?.ok_or_else(|| {
                    OpError::not_found(format!("no message has come in for {} yet", self.chat))
                })?,
            };
        let why = why(context, seq).await?;
        let channel = channel(context, &why).await;
        if context.json {
            return show::object(context, &Shown { why: &why, channel });
        }
        let stands = channel.filter(|channel| !channel.is_built_in());
        let stands = stands
            .map(|channel| format!("  channel {}\n", channel.line(&show::Sheet::stdout(context))))
            .unwrap_or_default();
        out::text(&format!("{}{stands}", told(&why)))
    }
}

/// Returns what became of a message, in lines for people.
pub(super) async fn text(context: &Context, seq: i64) -> Result<String, Failure> {
    Ok(told(&why(context, seq).await?))
}

/// The story of a message, and how the channel stands that it came by.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    why: &'a Why,
    channel: Option<channels::Row>,
}

async fn channel(context: &Context, why: &Why) -> Option<channels::Row> {
    let (config, store) = (context.config().ok()?, context.store().ok()?);
    let rows = channels::rows(&config, &store, channels::is_up(context).await).await.ok()?;
    let name = store.addresses().await.ok()?.channel_of(&why.message.chat_jid).to_owned();
    rows.into_iter().find(|row| row.name == name)
}

async fn why(context: &Context, seq: i64) -> Result<Why, Failure> {
    let store = context.store()?;
    let now = context.world.now();
    let mut why = store.why(seq, now)?.ok_or_else(|| missing(&store, History::Messages, seq))?;
    if why.is_open() {
        look_further(context, &store, &mut why, now).await;
    }
    Ok(why)
}

/// Asks what the store can't know: whether there is a daemon, what keeps it from launching anything, whether it has
/// set the group aside, and when a run that is
/// at work has shown that it lives.
async fn look_further(context: &Context, store: &Store, why: &mut Why, now: Time) {
    match Client::status(&context.root).await {
        Ok(status) => why.look_beside(&Beside {
            obstacle: status.obstacle,
            lives: &app::is_alive,
            is_lost: &|group| is_lost(&context.root, store, group),
            heard_of: &|group| peek::heard_of(&context.root.join("data"), group, now),
        }),
        Err(NoDaemon::Down) => {
            why.wait_for_daemon("the daemon, which is not running; start it with `g2 start`")
        }
        Err(NoDaemon::Mute(mute)) => {
            why.wait_for_daemon(&format!("the daemon, which does not answer ({mute})"));
        }
    }
}

fn told(why: &Why) -> String {
    let mut lines = vec![why.answer.clone()];
    for wiring in &why.wirings {
        let engages = if wiring.engages { "engages" } else { "does not engage" };
        let rule = wiring.rule.map_or("-", Rule::as_str);
        let reason = wiring.reason.as_deref().map(|r| format!(" ({r})")).unwrap_or_default();
        let run = match (wiring.run, wiring.run_status) {
            (Some(run), status) => format!(", run {run} {}", status.map_or("", RunStatus::as_str)),
            (None, _) => String::new(),
        };
        let tries = match wiring.tries {
            0 => String::new(),
            tries => format!(", failed tries {tries}"),
        };
        lines.push(format!("  {}: {engages}, rule {rule}{reason}{run}{tries}", wiring.group));
        if let Some(woken) = &wiring.woken {
            lines.push(format!("  {}: its agent was woken: {woken}", wiring.group));
        }
    }
    for command in &why.commands {
        let kind = command.kind.as_deref().unwrap_or("-");
        lines.push(format!(
            "  command {}: {kind} of run {}, by its {}",
            command.id, command.run, command.run_by
        ));
    }
    for row in &why.outbox {
        let what = if why.answers.contains(&row.id) { "answer" } else { &*row.cause };
        let text = show::cell(&attachments::told(&row.text, &row.attachments, |_| Goes::ToFolder).into());
        lines.push(format!("  outbox {} ({}) {}: {text}", row.id, show::cell(&what.into()), row.status));
        let why = row.error.iter().map(|error| format!("    {}", show::cell(&error.as_str().into())));
        lines.extend(why);
        let gone = row.thread_gone.iter().map(|why| {
            format!("    said without its topic, which is gone: {}", show::cell(&why.as_str().into()))
        });
        lines.extend(gone);
    }
    lines.join("\n") + "\n"
}
