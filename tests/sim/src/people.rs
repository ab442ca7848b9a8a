//! What people do on platforms: they write, change and delete what they wrote, react, and answer questions.

use g2::domain::{
    heard::origin::Origin,
    platforms::channels::{Mark, MarkKind},
    rows::Inbound,
};

use crate::{
    Chance,
    plan::{GROUPS, PLATFORMS, token},
};

/// Chats that no group is wired to.
pub const NEW_CHATS: [&str; 2] = ["sima:3", "simb:3"];
/// Who may answer all questions, and who those of one group.
pub const OWNERS: [&str; 2] = ["sima:9", "simd:9"];
pub const ADMIN: (&str, &str) = ("simc:6", "beta");

/// Something that somebody does on a platform.
#[derive(Clone, Debug)]
pub enum Deed {
    /// A message, or an edit of one.
    Writes(Box<Inbound>),
    /// A deletion, or a reaction.
    Marks(Mark),
    /// A press of a button.
    Presses { press: String, by: String },
}

impl Deed {
    /// Returns the message that is written by it.
    #[must_use]
    pub const fn message(&self) -> Option<&Inbound> {
        match self {
            Self::Writes(message) => Some(message),
            Self::Marks(_) | Self::Presses { .. } => None,
        }
    }
}

/// An answer to a question, and who gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub question: i64,
    pub yes: bool,
    pub by: String,
}

/// What somebody says to a question of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub question: i64,
    pub by: String,
}

/// What becomes of a message later.
#[derive(Clone, Copy)]
enum Then {
    Edited,
    Deleted,
    Reaction(MarkKind),
}

/// One line of what is to happen.
struct Line {
    at: u64,
    chat: &'static str,
    /// Which message; the first deed about it writes it.
    message: usize,
    then: Option<Then>,
}

/// Returns what people do by themselves, by platform: when, ms, and what.
pub(crate) fn deeds(chance: &mut Chance, calm_at: u64) -> Vec<Vec<(u64, Deed)>> {
    let mut lines = Vec::new();
    for message in 0..1 + usize::try_from(chance.below(24)).unwrap_or(0) {
        let chats: Vec<&str> = GROUPS.iter().flat_map(|(_, chats)| chats.iter().copied()).collect();
        let chats = if chance.one_of(8) { NEW_CHATS.to_vec() } else { chats };
        let chat = chats[usize::try_from(chance.below(chats.len() as u64)).unwrap_or(0)];
        let at = chance.below(calm_at);
        lines.push(Line { at, chat, message, then: None });
        let mut later = |chance: &mut Chance, then, within| {
            let at = at + chance.below(within);
            lines.push(Line { at, chat, message, then: Some(then) });
        };
        for _ in 0..if chance.one_of(4) { 1 + chance.below(2) } else { 0 } {
            // Some come before it is handed out, some while an agent has it in hand.
            later(chance, Then::Edited, 10_000);
        }
        if chance.one_of(8) {
            later(chance, Then::Deleted, 20_000);
        }
        if chance.one_of(8) {
            later(chance, Then::Reaction(MarkKind::Reaction), 5_000);
            later(chance, Then::Reaction(MarkKind::ReactionGone), 20_000);
        }
    }
    lines.sort_by_key(|line| line.at);
    let mut deeds = vec![Vec::new(); PLATFORMS.len()];
    let mut written: Vec<(usize, Inbound)> = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let known = written.iter().position(|(message, _)| *message == line.message);
        let deed = match (known, line.then) {
            (None, _) => {
                let first = message(line.chat, n, chance);
                written.push((line.message, first.clone()));
                Deed::Writes(first.into())
            }
            (Some(known), None | Some(Then::Edited)) => Deed::Writes(edit(&written[known].1, n).into()),
            (Some(known), Some(Then::Deleted)) => Deed::Marks(mark(&written[known].1, n, MarkKind::Deleted)),
            (Some(known), Some(Then::Reaction(kind))) => Deed::Marks(mark(&written[known].1, n, kind)),
        };
        let platform = PLATFORMS.iter().position(|kind| line.chat.starts_with(kind.name));
        deeds[platform.unwrap_or(0)].push((line.at, deed));
    }
    deeds
}

fn message(chat: &str, n: usize, chance: &mut Chance) -> Inbound {
    let token = token(n);
    let (addressed, is_stranger) = (!chance.one_of(4), chance.one_of(6));
    let platform = chat.split(':').next().unwrap_or_default();
    Inbound {
        chat_jid: chat.to_owned(),
        replay_key: token.clone(),
        id: format!("m{n}"),
        sender: if is_stranger { format!("{platform}:8") } else { format!("{platform}:7") },
        sender_name: if is_stranger { "Sam".into() } else { "Mia".into() },
        text: if addressed { format!("@Andy {token}") } else { format!("by the way {token}") },
        mentioned: addressed,
        ..Inbound::default()
    }
}

/// An edit is an event of its own, with another key and the id of the message.
fn edit(of: &Inbound, n: usize) -> Inbound {
    let token = token(n);
    let text = of.text.replace(&of.replay_key, &token);
    Inbound { text, replay_key: token, origin: Origin::Edited, ..of.clone() }
}

fn mark(of: &Inbound, n: usize, kind: MarkKind) -> Mark {
    Mark {
        chat_jid: of.chat_jid.clone(),
        replay_key: format!("mark{n}"),
        message_id: of.id.clone(),
        sender: of.sender.clone(),
        kind,
        reaction: if kind == MarkKind::Deleted { String::new() } else { "👍".into() },
    }
}

/// Returns what people do about a card that they are shown in a chat: who answers how, and how much later, ms. `presses`: its
/// buttons.
pub(crate) fn about_card(
    chance: &mut Chance,
    chat: &str,
    card: Card,
    presses: &[String],
) -> Vec<(u64, Deed, Answer)> {
    let Card { question, no } = card;
    let mut answers = Vec::new();
    let mut answers_it = |chance: &mut Chance, by: &str, yes: bool| {
        let choice = if yes { 0 } else { no };
        let answer = Answer { question, yes, by: by.to_owned() };
        let deed = match presses.get(choice) {
            Some(press) if chance.one_of(2) => Deed::Presses { press: press.clone(), by: by.to_owned() },
            _ => Deed::Writes(Box::new(Inbound {
                chat_jid: chat.to_owned(),
                replay_key: format!("answer{question} {} {by} {yes}", chance.number()),
                id: format!("a{}", chance.number()),
                sender: by.to_owned(),
                sender_name: by.to_owned(),
                text: format!("#{question} {}", choice + 1),
                ..Inbound::default()
            })),
        };
        answers.push((500 + chance.below(30_000), deed, answer));
    };
    // Somebody who may not.
    if chance.one_of(2) {
        let stranger = format!("{}:8", chat.split(':').next().unwrap_or_default());
        answers_it(chance, &stranger, true);
    }
    if !chance.one_of(6) {
        let yes = !chance.one_of(3);
        answers_it(chance, chat, yes);
        // They think better of it, too late or in time.
        if chance.one_of(4) {
            answers_it(chance, chat, !yes);
        }
    }
    answers
}

/// Returns what people do about a question of an agent that they are shown in a chat: who says something, and how much later, ms.
/// `card`: what the platform calls the message that asks; `presses`: its buttons.
pub(crate) fn about_question(
    chance: &mut Chance,
    chat: &str,
    (question, card): (i64, &str),
    presses: &[String],
) -> Vec<(u64, Deed, Reply)> {
    let platform = chat.split(':').next().unwrap_or_default();
    let mut replies = Vec::new();
    let mut says = |chance: &mut Chance, who: u64| {
        let by = format!("{platform}:{who}");
        let option = chance.below(2);
        let pressed = usize::try_from(option).ok().and_then(|option| presses.get(option));
        let (text, reply_to_id) = match chance.below(3) {
            0 => (format!("#q{question} {}", option + 1), None),
            1 => ("neither of them".to_owned(), Some(card.to_owned())),
            _ => ((option + 1).to_string(), Some(card.to_owned())),
        };
        let deed = match pressed {
            Some(press) if chance.one_of(2) => Deed::Presses { press: press.clone(), by: by.clone() },
            _ => Deed::Writes(Box::new(Inbound {
                chat_jid: chat.to_owned(),
                replay_key: format!("reply{question} {}", chance.number()),
                id: format!("r{}", chance.number()),
                sender: by.clone(),
                sender_name: by.clone(),
                text,
                reply_to_id,
                ..Inbound::default()
            })),
        };
        replies.push((500 + chance.below(150_000), deed, Reply { question, by }));
    };
    // Somebody whom the agent may not hear.
    if chance.one_of(4) {
        says(chance, 8);
    }
    if !chance.one_of(4) {
        says(chance, 7);
        if chance.one_of(4) {
            says(chance, 7);
        }
    }
    replies
}

/// Returns the question of an agent that a text asks.
pub(crate) fn asked_in(text: &str) -> Option<i64> {
    let (_, rest) = text.rsplit_once(" (question #q")?;
    rest.split_once(')')?.0.parse().ok()
}

/// A question, and which of its choices is a no, from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Card {
    pub(crate) question: i64,
    no: usize,
}

impl Card {
    /// Returns the card that a text is.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let (title, rest) = text.split_once(" (question #")?;
        let no = match title {
            "New sender" => 1,
            // Behind the groups and a new one.
            "New direct chat" | "New group chat" => GROUPS.len() + 1,
            _ => return None,
        };
        Some(Self { question: rest.split_once(')')?.0.parse().ok()?, no })
    }
}
