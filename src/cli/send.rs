//! `g2 send`: a message in by the local channel, and with `--wait` the replies.

use std::time::Duration;

use anyhow::bail;
use clap::Args;

use super::{Context, Failure, Outcome, client::Client};
use crate::{
    app,
    loops::control::{Request, Response},
};

#[derive(Debug, Args)]
pub(super) struct Send {
    /// Which local chat
    #[arg(long, default_value = "local:main", value_name = "JID")]
    chat: String,
    /// Who speaks
    #[arg(long = "as", default_value = "me", value_name = "NAME")]
    sender: String,
    /// As if the platform said that the agent was mentioned
    #[arg(long)]
    mention: bool,
    /// A thread of the chat
    #[arg(long, default_value = "", hide_default_value = true)]
    thread: String,
    /// The id of the message that this one answers
    #[arg(long, value_name = "ID")]
    reply_to: Option<String>,
    /// Print replies until the chat rests, for so many seconds at most
    #[arg(long, value_name = "SECS")]
    wait: Option<u64>,
    /// What to say
    text: String,
}

impl Send {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let mut client = Client::needed(context).await?;
        let wait = self.wait.map(Duration::from_secs);
        let chat = self.chat.clone();
        let whole = exchange(context, &mut client, self);
        match wait {
            None => whole.await,
            Some(wait) => match tokio::time::timeout(wait, whole).await {
                Ok(outcome) => outcome,
                Err(_) => Err(Failure::Failed(anyhow::anyhow!(
                    "{chat} does not rest after {} s; `g2 why` and `g2 status` tell what it waits for",
                    wait.as_secs()
                ))),
            },
        }
    }
}

async fn exchange(context: &Context, client: &mut Client, send: Send) -> Outcome {
    if send.wait.is_some() {
        client.call(&Request::Listen { chat: send.chat.clone() }).await?;
    }
    let request = Request::Send {
        chat: send.chat.clone(),
        sender: send.sender,
        text: send.text,
        key: app::new_id()?,
        mention: send.mention,
        thread: send.thread,
        reply_to: send.reply_to,
    };
    let Response::Accepted { seq, wired } = client.call(&request).await? else {
        return Err(anyhow::anyhow!("the daemon gave an answer to something else").into());
    };
    let mut replies = Vec::new();
    if send.wait.is_some() {
        client.ask(&Request::Rest { chat: send.chat }).await?;
        loop {
            match client.hear().await? {
                Response::Said(said) if context.json => replies.push(said),
                Response::Said(said) => println!("{}", said.text),
                Response::Rest => break,
                Response::Error { message } => return Err(anyhow::anyhow!(message).into()),
                Response::Accepted { .. } | Response::Listening | Response::Status(_) | Response::Done => {}
            }
        }
    }
    if context.json {
        println!("{}", serde_json::json!({ "seq": seq, "wired": wired, "replies": replies }));
    } else if send.wait.is_none() {
        println!("{seq}");
    }
    if wired == 0 && !context.json {
        eprintln!("g2: no group is wired to this chat; wire one with `g2 wirings add`");
    }
    Ok(())
}

/// Sends lines as messages and prints what is said, until `lines` ends and the chat rests.
pub(super) async fn converse(
    client: &mut Client,
    chat: &str,
    sender: &str,
    mut lines: tokio::sync::mpsc::Receiver<String>,
    prompt: Option<&str>,
) -> anyhow::Result<()> {
    client.call(&Request::Listen { chat: chat.to_owned() }).await?;
    let show_prompt = || {
        if let Some(prompt) = prompt {
            eprint!("{prompt}");
        }
    };
    show_prompt();
    let mut more = true;
    loop {
        tokio::select! {
            line = lines.recv(), if more => match line {
                Some(line) if line.trim().is_empty() => show_prompt(),
                Some(text) => {
                    client.ask(&Request::Send {
                        chat: chat.to_owned(), sender: sender.to_owned(), text, key: app::new_id()?, mention: false,
                        thread: String::new(), reply_to: None,
                    }).await?;
                }
                None => {
                    more = false;
                    client.ask(&Request::Rest { chat: chat.to_owned() }).await?;
                }
            },
            heard = client.hear() => match heard? {
                Response::Said(said) => {
                    println!("{}", said.text);
                    show_prompt();
                }
                Response::Rest => return Ok(()),
                Response::Error { message } => bail!(message),
                Response::Accepted { .. } | Response::Listening | Response::Status(_) | Response::Done => {}
            },
        }
    }
}

/// Reads lines of stdin on a thread of its own: a read of a terminal can't be cancelled.
pub(super) fn stdin_lines() -> tokio::sync::mpsc::Receiver<String> {
    let (sender, receiver) = tokio::sync::mpsc::channel(64);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
