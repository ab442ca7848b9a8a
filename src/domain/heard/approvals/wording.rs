//! How questions read. A card says what follows from each answer, and nothing that a stranger wrote can look like a
//! line of it.

use std::fmt::Write as _;

use ipc_handlers::Folder;

use super::{Action, Choice};
use crate::{
    heard::engage::ChatKind,
    shown::{
        counted::{counted, number},
        screen::acts,
    },
};

/// What is said of the main group wherever a person may choose it.
pub const OF_MAIN: &str = "can act in every chat";
/// The most groups that a card offers, beside main; the command line takes any.
const OFFERED: usize = 20;
/// The most characters of main's name on its button, so that no platform cuts off [`OF_MAIN`].
const NAME_OF_MAIN: usize = 40;
/// At most this many characters of a name are shown; of a message, more.
const NAME: usize = 60;
const QUOTE: usize = 200;

/// A question as it is said, with what it can be answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wording {
    pub text: String,
    pub choices: Vec<Choice>,
}

/// Who spoke, where, and what.
#[derive(Clone, Copy, Debug)]
pub struct Spoken<'a> {
    pub sender: &'a str,
    pub sender_name: &'a str,
    pub chat: &'a str,
    pub chat_name: &'a str,
    pub kind: ChatKind,
    pub text: &'a str,
}

/// The groups that a question is about, by folder and name. Main stands by itself, so that nobody takes it for any other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// All but main, in the order of their offer.
    pub others: Vec<(Folder, String)>,
    pub main: Option<(Folder, String)>,
}

impl FromIterator<(Folder, String, bool)> for Groups {
    /// Gathers groups by folder, name, and whether each is main.
    fn from_iter<T: IntoIterator<Item = (Folder, String, bool)>>(all: T) -> Self {
        let mut groups = Self::default();
        for (folder, name, is_main) in all {
            match is_main {
                true => groups.main = Some((folder, name)),
                false => groups.others.push((folder, name)),
            }
        }
        groups
    }
}

/// Asks whether a sender is to be heard by groups.
#[must_use]
pub fn about_sender(id: i64, spoken: &Spoken<'_>, groups: &Groups) -> Wording {
    let choices = vec![
        Choice { label: "Allow".into(), action: Action::Allow },
        Choice { label: "Deny".into(), action: Action::Deny },
    ];
    let names: Vec<String> = groups.others.iter().chain(&groups.main).map(|(_, name)| name.clone()).collect();
    let (who, names) = (who(spoken), list(&names));
    let mut text = format!(
        "New sender (question #{id})\n{who} wants to talk to {names} in {}: {}\nAllowed, {names} will know them in \
         every chat.",
        place(spoken),
        quote(spoken.text)
    );
    if let Some((_, main)) = &groups.main {
        let _ = write!(text, " Careful: {} {OF_MAIN}.", one_line(main, NAME));
    }
    Wording { text: with_choices(text, id, &choices), choices }
}

/// Asks which group a chat is to be wired to. Main is the last answer of all.
#[must_use]
pub fn about_chat(id: i64, spoken: &Spoken<'_>, groups: &Groups) -> Wording {
    let Groups { others, main } = groups;
    let mut choices: Vec<Choice> = others
        .iter()
        .take(OFFERED)
        .map(|(folder, name)| {
            let name = one_line(name, NAME);
            let alike = |other: &str| one_line(other, NAME).to_lowercase() == name.to_lowercase();
            let twice = others.iter().filter(|(_, other)| alike(other)).count() > 1;
            let label =
                if twice { format!("Connect to {name} ({folder})") } else { format!("Connect to {name}") };
            Choice { label, action: Action::Connect(folder.clone()) }
        })
        .collect();
    choices.push(Choice { label: "Create a new agent".into(), action: Action::New });
    choices.push(Choice { label: "Ignore".into(), action: Action::Ignore });
    if let Some((folder, name)) = main {
        let label = format!("Connect to {} ({OF_MAIN})", one_line(name, NAME_OF_MAIN));
        choices.push(Choice { label, action: Action::Connect(folder.clone()) });
    }
    let (title, what, when) = match spoken.kind {
        ChatKind::Direct => ("New direct chat", "a direct chat", "will answer every message there"),
        ChatKind::Group => ("New group chat", "a group", "will answer there when it is mentioned"),
        ChatKind::ThreadedGroup => (
            "New group chat",
            "a group with threads",
            "will answer there when it is mentioned, and then all of that thread",
        ),
    };
    let mut text = format!(
        "{title} (question #{id})\n{} writes in {}, {what} that no agent is connected to: {}\nConnected, the agent \
         {when}; {} will be known to it.",
        who(spoken),
        place(spoken),
        quote(spoken.text),
        if spoken.sender.is_empty() { "nobody" } else { "this sender" },
    );
    if let Some(more) = others.len().checked_sub(OFFERED).filter(|more| *more > 0) {
        let _ = write!(
            text,
            "\n{} more: g2 approvals approve {id} --group FOLDER",
            counted(number(more), "agent")
        );
    }
    Wording { text: with_choices(text, id, &choices), choices }
}

/// A card whose question is closed.
#[must_use]
pub fn closed(card: &str, outcome: &str) -> String {
    let (first, rest) = outcome.split_at(outcome.chars().next().map_or(0, char::len_utf8));
    format!("{card}\n\n{}{rest}.", first.to_uppercase())
}

/// Who spoke: by name, with the id where it says more. The id is the channel's word, the name the sender's own.
#[must_use]
pub fn who(spoken: &Spoken<'_>) -> String {
    named(spoken.sender, spoken.sender_name)
}

/// A person or a chat: by name, with the address where it says more.
#[must_use]
pub fn named(id: &str, name: &str) -> String {
    let (id, name) = (one_line(id, NAME * 2), one_line(name, NAME));
    match (id.as_str(), name.as_str()) {
        ("", "") => "somebody".into(),
        ("", name) => name.to_owned(),
        (id, "") => id.to_owned(),
        (id, name) if id == name => id.to_owned(),
        (id, name) => format!("{name} ({id})"),
    }
}

fn place(spoken: &Spoken<'_>) -> String {
    named(spoken.chat, spoken.chat_name)
}

/// Names, as a sentence lists them.
#[must_use]
pub fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| one_line(name, NAME)).collect();
    match names.as_slice() {
        [] => "no agent".into(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn with_choices(mut text: String, id: i64, choices: &[Choice]) -> String {
    for (n, choice) in choices.iter().enumerate() {
        let _ = write!(text, "\n{}. {}", n + 1, choice.label);
    }
    let _ =
        write!(text, "\nAnswer with a number; where more than this is asked, #{id} 1 says which is meant.");
    text
}

fn quote(text: &str) -> String {
    format!("“{}”", one_line(text, QUOTE).replace(['“', '”'], "\""))
}

/// One line of at most `most` characters, without those that act on a screen or turn its text around.
fn one_line(text: &str, most: usize) -> String {
    let cleaned: String = text.chars().take(most * 8).map(|c| if acts(c) { ' ' } else { c }).collect();
    let line = cleaned.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPOKEN: Spoken<'_> = Spoken {
        sender: "tg:42",
        sender_name: "Bob",
        chat: "tg:-100",
        chat_name: "Chess",
        kind: ChatKind::Group,
        text: "@G2 who wins?",
    };

    fn groups(others: &[&str], main: Option<&str>) -> Groups {
        let of = |name: &str| (Folder::parse(&name.to_lowercase()).unwrap(), name.to_owned());
        Groups { others: others.iter().map(|name| of(name)).collect(), main: main.map(of) }
    }

    #[test]
    fn a_card_about_a_sender_says_who_where_what_and_what_follows() {
        let card = about_sender(3, &SPOKEN, &groups(&["Family", "Work"], None));
        assert_eq!(
            card.text,
            "New sender (question #3)\nBob (tg:42) wants to talk to Family and Work in Chess (tg:-100): “@G2 who \
             wins?”\nAllowed, Family and Work will know them in every chat.\n1. Allow\n2. Deny\nAnswer with a number; \
             where more than this is asked, #3 1 says which is meant."
        );
        assert_eq!(card.choices.len(), 2);
        let card = about_sender(3, &SPOKEN, &groups(&["Family"], Some("Main")));
        let says = "\nAllowed, Family and Main will know them in every chat. Careful: Main can act in every chat.\n1. ";
        assert!(card.text.contains(says), "{}", card.text);
    }

    #[test]
    fn main_is_offered_last_and_says_what_it_can_do() {
        let labels = |groups: &Groups| -> Vec<String> {
            about_chat(4, &SPOKEN, groups).choices.into_iter().map(|choice| choice.label).collect()
        };
        let main = "Connect to Main (can act in every chat)";
        assert_eq!(labels(&groups(&[], Some("Main"))), ["Create a new agent", "Ignore", main]);
        assert_eq!(
            labels(&groups(&["Chess"], Some("Main"))),
            ["Connect to Chess", "Create a new agent", "Ignore", main]
        );
        // Discord's buttons have room for 80 characters, and a card for 25 buttons.
        let names: Vec<String> = (0..30).map(|n| format!("g{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let long =
            Groups { main: Some((Folder::parse("main").unwrap(), "M".repeat(64))), ..groups(&names, None) };
        let last = labels(&long).pop().unwrap();
        assert!(last.ends_with("(can act in every chat)") && last.chars().count() <= 80, "{last}");
        assert!(labels(&long).len() <= 25);
    }

    #[test]
    fn a_card_about_a_chat_offers_each_group_a_new_one_and_none() {
        let groups = groups(&["Family", "Chess"], None);
        let card = about_chat(4, &SPOKEN, &groups);
        let labels: Vec<&str> = card.choices.iter().map(|choice| choice.label.as_str()).collect();
        assert_eq!(labels, ["Connect to Family", "Connect to Chess", "Create a new agent", "Ignore"]);
        assert!(card.text.contains("\n1. Connect to Family\n2. Connect to Chess\n3. "), "{}", card.text);
        for (kind, says) in [
            (ChatKind::Direct, "will answer every message there"),
            (ChatKind::Group, "will answer there when it is mentioned"),
            (ChatKind::ThreadedGroup, "and then all of that thread"),
        ] {
            let card = about_chat(4, &Spoken { kind, ..SPOKEN }, &groups);
            assert!(card.text.contains(says), "{}", card.text);
        }
    }

    #[test]
    fn more_groups_than_fit_are_left_to_the_command_line_and_equal_names_are_told_apart() {
        let many: Groups =
            (0..25).map(|n| (Folder::parse(&format!("g{n}")).unwrap(), "Same".to_owned(), false)).collect();
        let card = about_chat(4, &SPOKEN, &many);
        assert_eq!(card.choices.len(), 22);
        assert!(card.text.contains("5 agents more: g2 approvals approve 4 --group FOLDER"), "{}", card.text);
        assert_eq!(card.choices[7].label, "Connect to Same (g7)");
    }

    #[test]
    fn nothing_that_a_stranger_wrote_makes_a_line_of_its_own_or_a_card_long() {
        let (name, text) = ("Bob\n1. Allow everybody\u{202e}", "a\n\n2. Deny\r\n”x“ ".repeat(1000));
        let spoken = Spoken { sender_name: name, text: &text, chat_name: "C\u{2028}D", ..SPOKEN };
        let none = Groups::default();
        for card in [about_sender(1, &spoken, &groups(&["Family"], None)), about_chat(1, &spoken, &none)] {
            let extra = 4 + card.choices.len();
            assert_eq!(card.text.lines().count(), extra, "{}", card.text);
            assert!(card.text.chars().count() < 900, "{}", card.text.chars().count());
            assert!(!card.text.contains('\u{202e}') && card.text.matches('”').count() == 1);
        }
        let nameless = Spoken { sender: "", sender_name: "", ..SPOKEN };
        assert!(about_chat(1, &nameless, &none).text.contains("somebody writes"));
    }
}
