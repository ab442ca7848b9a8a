//! A chat on a terminal: both sides with their names, and the lines that came while the person was away.

use std::{collections::BTreeMap, time::Duration};

use anyhow::anyhow;
use g2_text::{Colours, for_terminal, parse};
use tokio::time::{MissedTickBehavior, interval};

use super::{
    CliResult, Context,
    client::{Client, perform},
    editor::{Editor, HISTORY, Look, Typed},
    send,
    show::Sheet,
    why,
};
use crate::{
    channels::local::{Ask, Told},
    domain::{platforms::addresses::user_in, shown::screen::on_screen},
    ops::runs::stop,
    root,
    store::{By, Conversation, Line, Store},
};

mod turn;

use turn::{Turn, Watch};

/// How many lines are shown on opening.
const FEW: usize = 20;
/// How many at most, where more than that is new.
const MANY: usize = 200;

/// Words that the terminal takes itself.
const QUIT: &str = "/quit";
const HELP_WORD: &str = "/help";
const WHY: &str = "/why";
const OWN: [&str; 3] = [QUIT, HELP_WORD, WHY];

const HELP: &str = "\
/why: explain what became of the newest message of this chat
/help: show this list
/quit: leave (also Ctrl-D)
Ctrl-C stops at once what the agent is doing. Where nothing is at work, or within 5 s the second time, it leaves the chat.
Alt-Enter begins a new line, and so does Enter after a \\. Lines that are pasted together are one message.
The arrow keys bring back earlier lines, of earlier chats too; Ctrl-R searches them.";

/// Within this time after the first Ctrl-C the second one leaves.
const LEAVES: Duration = Duration::from_secs(5);

/// How often it is looked what the agent does, while something is under way.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// After this number of looks that found nothing, nothing is under way.
const PATIENCE: u8 = 6;

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
        let user = user_in(self.chat, self.sender);
        let listen = Ask::Listen { chat: self.chat.to_owned(), typing: true, people: true, growing: true };
        client.call_chat(&listen).await?;
        let before = store.conversation(self.chat, &user, FEW, MANY).await?;
        let typed = root::read_typed(&self.context.root.join("data"), HISTORY);
        let typed = if typed.is_empty() { own_lines(&before, &user) } else { typed };
        let colours = Sheet::stdout(self.context).colours;
        let Some(mut editor) = Editor::open(typed, &self.greeting(&before, colours), colours) else {
            return send::pipe(&self.context.world, client, self.chat, self.sender).await;
        };
        let outcome = self.converse(client, &mut editor, &store).await;
        drop(editor);
        // What was on the screen is not new the next time. Where it can't be noted, it is shown once more.
        let _ = store.visit(self.chat, &user, self.context.world.now()).await;
        outcome
    }

    /// Where the person is, what was said before, and what of it is new.
    fn greeting(&self, before: &Conversation, colours: bool) -> Vec<(Look, String)> {
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
            lines.push(match &line.by {
                By::Person { name, .. } => (Look::Plain, said_by(name, &line.text, line.cut)),
                By::Agent(name) => {
                    let name = name.as_deref().unwrap_or(self.assistant);
                    (Look::Ready, said_by_agent(name, &line.text, line.cut, colours))
                }
            });
        }
        lines
    }

    async fn converse(&self, client: &mut Client, editor: &mut Editor, store: &Store) -> CliResult {
        // Numbers of messages that were said here, and whether it was told already what became of them.
        let mut own = Vec::new();
        let colours = Sheet::stdout(self.context).colours;
        let mut watch = Watch { store, chat: self.chat, root: &self.context.root, client: None };
        let mut tick = interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Looks that are left until nothing is under way; and until when the next Ctrl-C leaves.
        let (mut left, mut leaves) = (0_u8, None);
        // What is said of texts that are not whole.
        let mut grows: BTreeMap<i64, String> = BTreeMap::new();
        loop {
            tokio::select! {
                biased;
                heard = client.hear() => match heard? {
                    Told::Said(delivery) => {
                        let name = store.speaker(delivery.id).await.ok().flatten();
                        let name = name.as_deref().unwrap_or(self.assistant);
                        if grows.remove(&delivery.id).is_some() {
                            editor.growing(grows.values().next_back().map_or("", String::as_str));
                        }
                        editor.print(Look::Ready, &said_by_agent(name, &delivery.text, false, colours));
                    }
                    Told::Growing { id, text, cut } => {
                        if text.is_empty() {
                            grows.remove(&id);
                        } else {
                            let name = store.speaker(id).await.ok().flatten();
                            let begin = if cut { "… " } else { "" };
                            let name = name.as_deref().unwrap_or(self.assistant);
                            grows.insert(id, said_by_agent(name, &format!("{begin}{text}"), false, false));
                        }
                        editor.growing(grows.values().next_back().map_or("", String::as_str));
                    }
                    Told::Typing { on, .. } => {
                        left = PATIENCE;
                        let turn = watch.look(self.context.world.now()).await.unwrap_or(Turn::None);
                        let words = turn.in_words(self.assistant, self.context.world.now());
                        // The turn may be over already when it is told that it has begun.
                        editor.doing(words.as_deref().filter(|_| on));
                    }
                    Told::Accepted { seq, note, .. } => {
                        left = PATIENCE;
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
                typed = editor.typed() => match typed {
                    Typed::End => return Ok(()),
                    Typed::Interrupt { was_empty } => {
                        let turn = watch.look(self.context.world.now()).await.unwrap_or(Turn::None);
                        let now = self.context.world.monotonic();
                        if leaves.is_some_and(|until| now < until) || (was_empty && turn == Turn::None) {
                            return Ok(());
                        }
                        leaves = Some(now + LEAVES);
                        left = PATIENCE;
                        editor.print(Look::Dim, &self.interrupted(&turn).await);
                    }
                    Typed::Line(text) => {
                        leaves = None;
                        if !text.trim().is_empty() {
                            // Where it can't be kept, the arrow keys do not bring it back next time.
                            let _ = root::append_typed(&self.context.root.join("data"), &text);
                        }
                        match text.trim() {
                            QUIT => return Ok(()),
                            "" => {}
                            HELP_WORD => editor.print(Look::Dim, &self.help()),
                            WHY => editor.print(Look::Dim, &self.why(store).await),
                            _ => client.ask(&send::said(&self.context.world, self.chat, self.sender, text)?).await?,
                        }
                    }
                },
                _ = tick.tick(), if left > 0 => {
                    let turn = watch.look(self.context.world.now()).await.unwrap_or(Turn::None);
                    left = if turn == Turn::None { left - 1 } else { PATIENCE };
                    editor.doing(turn.in_words(self.assistant, self.context.world.now()).as_deref());
                }
            }
        }
    }

    /// What can be typed here: the words of this terminal, and those of the chat.
    fn help(&self) -> String {
        let mut lines = vec![HELP.to_owned()];
        if let Ok(config) = self.context.config() {
            lines.push("These are commands of the chat, for owners and admins, and for members if the group lets them:".to_owned());
            for (word, mut spelled) in config.words.all() {
                // The terminal takes these itself.
                spelled.retain(|text| !OWN.contains(text));
                if !spelled.is_empty() {
                    let name = if word.takes_name() { " [NAME]" } else { "" };
                    lines.push(format!("{}{name}: {}", spelled.join(" or "), word.does()));
                }
            }
        }
        lines.join("\n")
    }

    /// Stops what is at work at once, as `/stop` does; returns what is told about it.
    async fn interrupted(&self, turn: &Turn) -> String {
        let again = "Ctrl-C again leaves the chat";
        match (turn, turn.run()) {
            (_, Some(id)) => match perform(self.context, stop::Args { id, now: true, retry: false }).await {
                Ok(_) => format!("run {id} is stopped; {again}"),
                Err(error) => format!("run {id} can't be stopped: {error}; {again}"),
            },
            (Turn::Waits { .. }, None) => format!("what you said waits, nothing is at work yet; {again}"),
            (_, None) => again.to_owned(),
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
    format!("{}: {text}{more}", one_line(name))
}

/// What an agent said, its markdown as a terminal shows it. What has several lines begins below the name.
fn said_by_agent(name: &str, text: &str, cut: bool, colours: bool) -> String {
    let more = if cut { "… (cut)" } else { "" };
    let how = if colours { Colours::Yes } else { Colours::No };
    let shown = for_terminal(&parse(&on_screen(text)), how);
    let name = format!("{}:", on_screen(&one_line(name)));
    let name = if colours { super::colours::Paint::Bold.on(&name) } else { name };
    let between = if shown.contains('\n') { "\n" } else { " " };
    format!("{name}{between}{shown}{more}")
}

/// A name of two lines would look like somebody else's line.
fn one_line(name: &str) -> String {
    name.split(|c: char| c.is_whitespace() || c.is_control()).collect::<Vec<_>>().join(" ")
}
