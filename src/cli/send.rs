//! `g2 send`: a message in by the local channel, and with `--wait` the replies.

use std::{io::Read as _, path::PathBuf, time::Duration};

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde_json::json;

use super::{
    CliResult, Context, Failure,
    client::{Client, change, lost_messages, refused},
    jid, out, speaker,
};
use crate::{
    channels::local::{Ask, Incoming, LONGEST_TEXT, MOST_FILES, Told},
    domain::rows::Delivery,
    ops::{OpCode, OpError, outbox::say},
    root::put_incoming,
    system::world::World,
};

const EXAMPLES: &str = "\
Without --wait the number of the message is printed, for `g2 why`. With --wait the exit code is
1 if the chat still has work after SECS seconds.

Examples:
  g2 send --wait 30 \"hello\"
  uptime | g2 send --wait 60 -
  g2 send --file plan.pdf \"read this\"
  g2 send --chat local:family --as ada --mention \"are you there?\"";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Send {
    /// Local chat to send to
    #[arg(long, default_value = "local:main", value_name = "JID", value_parser = jid)]
    chat: String,
    /// Name of the person who speaks
    #[arg(long = "as", default_value = "me", value_name = "NAME", value_parser = speaker)]
    sender: String,
    /// Send it as a message that mentions the agent
    #[arg(long)]
    mention: bool,
    /// Thread of the chat; without it the chat itself
    #[arg(long, default_value = "", hide_default_value = true)]
    thread: String,
    /// Id of the message that this one replies to
    #[arg(long, value_name = "ID")]
    reply_to: Option<String>,
    /// Print the answers until the chat has no more work, for at most SECS seconds
    #[arg(long, value_name = "SECS")]
    wait: Option<u64>,
    /// File that goes with it; may be given up to 10 times
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Text of the message; `-` reads it from standard input
    #[arg(required_unless_present = "files")]
    text: Option<String>,
}

/// Copies files to where the daemon takes them with the message of this key; returns their names.
fn put_files(context: &Context, key: &str, files: &[PathBuf]) -> Result<Vec<String>, Failure> {
    if files.len() > MOST_FILES {
        let why = format!("{} files are too many: at most {MOST_FILES} go with a message", files.len());
        return Err(Failure::Usage(OpError::invalid(why)));
    }
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let (data, most) = (context.root.join("data"), context.config()?.media.largest);
    let put = |path: &PathBuf| {
        put_incoming(&data, key, path, most).with_context(|| format!("sending {}", path.display()))
    };
    Ok(files.iter().map(put).collect::<anyhow::Result<_>>()?)
}

pub(super) const SAID: &str = "\
The text goes to the people of the chat, and no agent reads it. The audit has it.

Examples:
  g2 say --chat local:family \"dinner is ready\"
  uptime | g2 say --chat local:main -";

/// Has a text of a person's said in a chat.
pub(super) async fn say(context: &Context, mut args: say::Args) -> CliResult {
    args.text = text_of(args.text)?;
    change(context, args).await
}

/// Returns a text that was typed, or for `-` what standard input has.
fn text_of(typed: String) -> Result<String, Failure> {
    if typed != "-" {
        return Ok(typed);
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(LONGEST_TEXT).unwrap_or(u64::MAX);
    std::io::stdin().lock().take(most + 1).read_to_end(&mut bytes).context("reading standard input")?;
    if bytes.len() > LONGEST_TEXT {
        return Err(Failure::Usage(OpError::invalid(format!(
            "standard input has more than {LONGEST_TEXT} bytes; at most these are taken"
        ))));
    }
    Ok(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned())
}

impl Send {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        crate::app::check_version(&context.root)?;
        let mut client = Client::needed(context).await?;
        if self.wait.is_some() {
            client
                .call_chat(&Ask::Listen {
                    chat: self.chat.clone(),
                    typing: false,
                    people: false,
                    growing: false,
                })
                .await?;
        }
        let key = context.world.id().context("making a key")?;
        let files = put_files(context, &key, &self.files)?;
        let message = Incoming {
            chat: self.chat.clone(),
            sender: self.sender,
            text: self.text.map_or_else(|| Ok(String::new()), text_of)?,
            key,
            files,
            mention: self.mention,
            thread: self.thread,
            reply_to: self.reply_to,
            ..Incoming::default()
        };
        let Told::Accepted { seq, wired, note } = client.send(message).await? else {
            return Err(anyhow!("the daemon answered another request").into());
        };
        if let Some(note) = &note {
            out::tell(note);
        } else if wired == 0 {
            out::tell(format!(
                "no group is wired to {0}; wire one with `g2 wirings add --group GROUP --chat {0} --engage pattern`",
                self.chat
            ));
        }
        let Some(wait) = self.wait else {
            return if context.json {
                out::json(json!({ "seq": seq, "wired": wired, "note": note }))
            } else {
                out::line(seq)
            };
        };
        let mut replies = Vec::new();
        let resting = rest(&mut client, seq, &self.chat, context.json, &mut replies);
        let rested = tokio::time::timeout(Duration::from_secs(wait), resting).await;
        if context.json {
            let rested = matches!(rested, Ok(Ok(())));
            out::json(
                json!({ "seq": seq, "wired": wired, "note": note, "rested": rested, "replies": replies }),
            )?;
        }
        rested.unwrap_or_else(|_| {
            Err(OpError::new(OpCode::Failed, format!("{} still has work after {wait} s", self.chat))
                .hint(format!(
                    "`g2 why {seq}` says what the message waits for, `g2 status` how the daemon is"
                ))
                .into())
        })
    }
}

/// Prints or keeps the answers until the chat rests; `seq` is the number of the message that is to be answered.
pub(super) async fn rest(
    client: &mut Client,
    seq: i64,
    chat: &str,
    keep: bool,
    replies: &mut Vec<Delivery>,
) -> CliResult {
    let lost = |error: anyhow::Error| {
        let lost =
            format!("message {seq} is stored, and the connection was lost before its answer: {error:#}");
        OpError::new(OpCode::Unknown, lost).hint(format!("`g2 why {seq}` says what became of it"))
    };
    client.ask(&Ask::Rest { chat: chat.to_owned() }).await.map_err(lost)?;
    loop {
        match client.hear().await.map_err(lost)? {
            Told::Said(said) if keep => replies.push(said),
            Told::Said(said) => out::line(&said.text)?,
            Told::Rest => return Ok(()),
            Told::Error { code, message } => return Err(refused(code, &message).into()),
            Told::Accepted { .. }
            | Told::Listening
            | Told::Growing { .. }
            | Told::Heard { .. }
            | Told::Typing { .. }
            | Told::Answered { .. } => {}
        }
    }
}

/// Sends each line of stdin as a message and prints the answers, until stdin ends and the chat rests: a chat without a
/// terminal.
pub(super) async fn pipe(world: &World, client: &mut Client, chat: &str, sender: &str) -> CliResult {
    let mut lines = stdin_lines();
    client
        .call_chat(&Ask::Listen { chat: chat.to_owned(), typing: false, people: false, growing: false })
        .await?;
    let mut more = true;
    loop {
        tokio::select! {
            // Answers are taken first, so that the two ends never wait for each other with full buffers.
            biased;
            heard = client.hear() => match heard.map_err(|error| lost_messages(chat, &error))? {
                Told::Said(said) => out::line(&said.text)?,
                Told::Rest => return Ok(()),
                Told::Error { code, message } => return Err(refused(code, &message).into()),
                Told::Accepted { .. }
                | Told::Listening
                | Told::Growing { .. }
                | Told::Heard { .. }
                | Told::Typing { .. }
                | Told::Answered { .. } => {}
            },
            line = lines.recv(), if more => match line {
                Some(line) if line.trim().is_empty() => {}
                Some(text) => {
                    client.ask(&said(world, chat, sender, text)?).await?;
                }
                None => {
                    more = false;
                    client.ask(&Ask::Rest { chat: chat.to_owned() }).await?;
                }
            },
        }
    }
}

/// A message by somebody at this machine.
pub(super) fn said(world: &World, chat: &str, sender: &str, text: String) -> anyhow::Result<Ask> {
    let key = world.id().context("making a key")?;
    let message =
        Incoming { chat: chat.to_owned(), sender: sender.to_owned(), text, key, ..Incoming::default() };
    Ok(Ask::Send(Box::new(message)))
}

/// Reads lines of stdin on a thread of its own: a read of a terminal can't be cancelled.
pub(super) fn stdin_lines() -> tokio::sync::mpsc::Receiver<String> {
    let (sender, receiver) = tokio::sync::mpsc::channel(64);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut line = Vec::new();
        while std::io::BufRead::read_until(&mut input, b'\n', &mut line).is_ok_and(|read| read > 0) {
            // Bytes that are no UTF-8 are shown as such, and lose nothing of the rest.
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            if sender.blocking_send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}
