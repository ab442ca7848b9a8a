//! A chat on a terminal: both sides, who speaks, and what was said while nobody was here.

use anyhow::anyhow;

use super::{Context, Outcome, client::Client, editor::Editor, send, why};
use crate::{
    clock,
    domain::{people::user_id, screen::on_screen},
    loops::control::{Request, Response},
    store::{By, Conversation, Line, Store},
};

/// How many lines are shown on opening.
const FEW: usize = 20;
/// How many at most, where more than that is new.
const MANY: usize = 200;

const HELP: &str = "\
/why   what became of the newest message of this chat
/help  this list
/quit  leave; so do Ctrl-D and Ctrl-C
The arrow keys bring earlier lines back. Lines that are pasted together are one message.";

/// Where somebody chats, and how the terminal shows it.
pub(super) struct Talk<'a> {
    pub(super) context: &'a Context,
    pub(super) chat: &'a str,
    pub(super) sender: &'a str,
    /// What agents are called that give themselves no name.
    pub(super) assistant: &'a str,
    /// What is to be known about the agents, in a line.
    pub(super) about: Option<String>,
}

impl Talk<'_> {
    /// Chats until the person leaves; without a terminal, until stdin ends and the chat rests.
    pub(super) async fn run(self, client: &mut Client) -> Outcome {
        let store = self.context.store()?;
        let user = user_id(self.chat, self.sender);
        let listen = Request::Listen { chat: self.chat.to_owned(), typing: true, people: true };
        client.call(&listen).await?;
        let before = store.conversation(self.chat, &user, FEW, MANY)?;
        let greeting = format!("{}\n{}", self.banner(), self.history(&before));
        let Some(editor) = Editor::open(own_lines(&before, &user), greeting) else {
            return send::pipe(client, self.chat, self.sender).await;
        };
        let mut screen = Screen { editor, typing_above: false, assistant: self.assistant };
        let outcome = self.converse(client, &mut screen, &store).await;
        drop(screen);
        // What was on the screen is not new the next time. Where it can't be noted, it is shown once more.
        let _ = store.visit(self.chat, &user, clock::now()).await;
        outcome
    }

    fn banner(&self) -> String {
        let Self { chat, sender, assistant, about, .. } = self;
        let about = about.as_deref().map(|about| format!("{about}\n")).unwrap_or_default();
        format!(
            "{chat}: you are {sender}, the agent is {assistant}. Ctrl-D leaves, /help lists commands.\n{about}"
        )
    }

    /// What was said before, and what of it is new.
    fn history(&self, before: &Conversation) -> String {
        let old = before.lines.len() - before.new;
        let mut text = String::new();
        for (n, line) in before.lines.iter().enumerate() {
            if n == old {
                let older = match before.older {
                    0 => String::new(),
                    more => format!(", and {more} before them: `g2 messages list`, `g2 outbox list`"),
                };
                text += &format!("{}\n", dim(&format!("since you were here: {} new{older}", before.new)));
            }
            let name = match &line.by {
                By::Person { name, .. } => name,
                By::Agent(name) => name.as_deref().unwrap_or(self.assistant),
            };
            text += &format!("{}\n", said(name, &line.text, line.cut));
        }
        text
    }

    async fn converse(&self, client: &mut Client, screen: &mut Screen<'_>, store: &Store) -> Outcome {
        // Numbers of messages that were said here.
        let mut own = Vec::new();
        loop {
            tokio::select! {
                biased;
                heard = client.hear() => match heard? {
                    Response::Said(said) => {
                        let name = store.speaker(said.id).ok().flatten();
                        screen.say(name.as_deref().unwrap_or(self.assistant), &said.text, false);
                    }
                    Response::Typing { on, .. } => screen.typing(on),
                    Response::Accepted { seq, note, .. } => {
                        match note {
                            Some(note) => screen.note(&note),
                            None => own.push(seq),
                        }
                    }
                    Response::Heard { seq, name, text, cut, asleep } => {
                        let ours = own.iter().position(|own| *own == seq).map(|at| own.swap_remove(at)).is_some();
                        if !ours && name != self.sender {
                            screen.say(&name, &text, cut);
                        }
                        if let Some(why) = asleep.filter(|_| ours) {
                            screen.note(&format!("no agent was woken by this message ({why}); /why says more"));
                        }
                    }
                    Response::Error { message } => screen.note(&message),
                    Response::Rest
                    | Response::Listening
                    | Response::Status(_)
                    | Response::Command { .. }
                    | Response::Answered { .. }
                    | Response::Done => {}
                },
                line = screen.editor.typed() => {
                    screen.typing_above = false;
                    match line.as_deref().map(str::trim) {
                        None | Some("/quit") => return Ok(()),
                        Some("") => {}
                        Some("/help") => screen.note(HELP),
                        Some("/why") => screen.note(&self.why(store).await),
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
        let told = match store.newest_message(self.chat) {
            Ok(None) => return "nothing was said here yet".into(),
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

/// What stands above the line that is being typed.
struct Screen<'a> {
    editor: Editor,
    /// The line right above says that the agent is typing; it goes before anything else is printed there.
    typing_above: bool,
    assistant: &'a str,
}

/// From the line that is being typed to the one above, which is erased.
const ERASE_ABOVE: &str = "\x1b[1A\x1b[2K";

impl Screen<'_> {
    /// Somebody says something.
    fn say(&mut self, name: &str, text: &str, cut: bool) {
        self.print(&said(name, text, cut));
    }

    /// G2 itself tells something about the chat.
    fn note(&mut self, text: &str) {
        self.print(&dim(&on_screen(text)));
    }

    fn typing(&mut self, on: bool) {
        if on && !self.typing_above {
            self.editor.print(dim(&format!("{} is typing…", on_screen(self.assistant))) + "\n");
        } else if !on && self.typing_above {
            // Up, erase, up again: the new line that ends it leads back to where the erased one stood.
            self.editor.print(format!("{ERASE_ABOVE}\x1b[1A\n"));
        }
        self.typing_above = on;
    }

    fn print(&mut self, text: &str) {
        let erase = if std::mem::take(&mut self.typing_above) { ERASE_ABOVE } else { "" };
        self.editor.print(format!("{erase}{text}\n"));
    }
}

/// A line of a chat, as a terminal may have it.
fn said(name: &str, text: &str, cut: bool) -> String {
    let more = if cut { "… (cut)" } else { "" };
    // A name of two lines would look like somebody else's line.
    let name: String = on_screen(name).split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{name}: {}{more}", on_screen(text).trim_end_matches('\n'))
}

/// Not said by anybody.
fn dim(text: &str) -> String {
    format!("\x1b[2m{text}\x1b[0m")
}
