//! A chat on a terminal: both sides with their names, and the lines that came while the person was away.

use anyhow::anyhow;

use super::{
    CliResult, Context,
    client::Client,
    editor::{Editor, Look},
    send, why,
};
use crate::{
    channels::local::{Ask, Told},
    domain::platforms::addresses::user_id,
    store::{By, Conversation, Line, Store},
    system::clock,
};

/// How many lines are shown on opening.
const FEW: usize = 20;
/// How many at most, where more than that is new.
const MANY: usize = 200;

const HELP: &str = "\
/why   explain what became of the newest message of this chat
/help  show this list
/quit  leave (also Ctrl-D or Ctrl-C)
The arrow keys bring back earlier lines. Lines that are pasted together are one message.";

/// Where somebody chats, and how the terminal shows it.
pub(super) struct Talk<'a> {
    pub(super) context: &'a Context,
    pub(super) chat: &'a str,
    pub(super) sender: &'a str,
    /// The name of agents that have none of their own.
    pub(super) assistant: &'a str,
    /// A note about the agents, in a line.
    pub(super) about: Option<String>,
}

impl Talk<'_> {
    /// Chats until the person leaves; without a terminal, until stdin ends and the chat rests.
    pub(super) async fn run(self, client: &mut Client) -> CliResult {
        let store = self.context.store()?;
        let user = user_id(self.chat, self.sender);
        let listen = Ask::Listen { chat: self.chat.to_owned(), typing: true, people: true };
        client.call_chat(&listen).await?;
        let before = store.conversation(self.chat, &user, FEW, MANY).await?;
        let Some(mut editor) = Editor::open(own_lines(&before, &user), &self.greeting(&before)) else {
            return send::pipe(client, self.chat, self.sender).await;
        };
        let outcome = self.converse(client, &mut editor, &store).await;
        drop(editor);
        // What was on the screen is not new the next time. Where it can't be noted, it is shown once more.
        let _ = store.visit(self.chat, &user, clock::now()).await;
        outcome
    }

    /// Where the person is, what was said before, and what of it is new.
    fn greeting(&self, before: &Conversation) -> Vec<(Look, String)> {
        let Self { chat, sender, assistant, about, .. } = self;
        let here = format!(
            "{chat}: you are {sender}, the agent is {assistant}. Ctrl-D leaves, /help lists commands."
        );
        let mut lines = vec![(Look::Dim, here)];
        lines.extend(about.iter().map(|about| (Look::Dim, about.clone())));
        let old = before.lines.len() - before.new;
        for (n, line) in before.lines.iter().enumerate() {
            if n == old {
                let older = match before.older {
                    0 => String::new(),
                    more => format!(", and {more} before them: `g2 messages list`, `g2 outbox list`"),
                };
                lines.push((Look::Dim, format!("since you were here: {} new{older}", before.new)));
            }
            let name = match &line.by {
                By::Person { name, .. } => name,
                By::Agent(name) => name.as_deref().unwrap_or(self.assistant),
            };
            lines.push((Look::Plain, said_by(name, &line.text, line.cut)));
        }
        lines
    }

    async fn converse(&self, client: &mut Client, editor: &mut Editor, store: &Store) -> CliResult {
        // Numbers of messages that were said here, and whether it was told already what became of them.
        let mut own = Vec::new();
        loop {
            tokio::select! {
                biased;
                heard = client.hear() => match heard? {
                    Told::Said(delivery) => {
                        let name = store.speaker(delivery.id).await.ok().flatten();
                        editor.print(Look::Plain, &said_by(name.as_deref().unwrap_or(self.assistant), &delivery.text, false));
                    }
                    Told::Typing { on, .. } => editor.typing(self.assistant, on),
                    Told::Accepted { seq, note, .. } => {
                        own.push((seq, note.is_some()));
                        if let Some(note) = note {
                            editor.print(Look::Dim, &note);
                        }
                    }
                    Told::Heard { seq, name, text, cut, asleep } => {
                        let ours = own.iter().position(|(own, _)| *own == seq).map(|at| own.swap_remove(at));
                        match (ours, asleep) {
                            (None, _) => editor.print(Look::Plain, &said_by(&name, &text, cut)),
                            (Some((_, false)), Some(why)) => {
                                editor.print(Look::Dim, &format!("this message woke no agent ({why}); /why says more"));
                            }
                            (Some((_, true)), _) | (Some(_), None) => {}
                        }
                    }
                    Told::Error { message, .. } => editor.print(Look::Dim, &message),
                    Told::Rest | Told::Listening | Told::Answered { .. } => {}
                },
                line = editor.typed() => {
                    match line.as_deref().map(str::trim) {
                        None | Some("/quit") => return Ok(()),
                        Some("") => {}
                        Some("/help") => editor.print(Look::Dim, HELP),
                        Some("/why") => editor.print(Look::Dim, &self.why(store).await),
                        Some(_) => {
                            let text = line.unwrap_or_default();
                            client.ask(&send::said(self.chat, self.sender, text)?).await?;
                        }
                    }
                }
            }
        }
    }

    async fn why(&self, store: &Store) -> String {
        let told = match store.newest_message(self.chat).await {
            Ok(None) => return "no message has come in here yet".into(),
            Ok(Some(seq)) => why::text(self.context, seq).await,
            Err(error) => Err(anyhow!(error).into()),
        };
        told.unwrap_or_else(|failure| failure.to_string())
    }
}

/// What the user said before, for the arrow keys.
fn own_lines(before: &Conversation, user: &str) -> Vec<String> {
    let own = |line: &&Line| matches!(&line.by, By::Person { id, .. } if id == user) && !line.cut;
    before.lines.iter().filter(own).map(|line| line.text.clone()).collect()
}

/// A line of a chat.
fn said_by(name: &str, text: &str, cut: bool) -> String {
    let more = if cut { "… (cut)" } else { "" };
    // A name of two lines would look like somebody else's line.
    let name: Vec<&str> = name.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    format!("{}: {text}{more}", name.join(" "))
}
