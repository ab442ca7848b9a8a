//! The rules here, on the rows as they would be taken in.

use std::collections::{BTreeMap, BTreeSet};

use ipc_handlers::{Folder, effect::EngageMode};

use super::{Effect, Judgement, there::Mentions};
use crate::{
    heard::{
        access::{Listed, Standing, Unheeded, UnknownSenders},
        bots::{Bots, Turn},
        chat_commands::{Commands, May, Words},
        engage::{EngageVerdict, Rule, Sticky},
        hearing::{Asked, Decision, Rules, Wired},
        people::Role,
        sender_list::SenderList,
    },
    moved::rows::{Chat, ListName, Message, Row, Wiring},
    platforms::{
        addresses::{Addresses, user_in},
        chats::ChatKind,
    },
};

/// More turns of bots in a chat are not looked at.
const TURNS: usize = 500;

/// The groups and people that would be here, and what they were told so far.
#[derive(Debug, Default)]
pub struct Here {
    groups: BTreeMap<Folder, Listening>,
    chats: BTreeMap<String, Place>,
    wirings: BTreeMap<(String, Folder), Wiring>,
    owners: BTreeSet<String>,
    admins: BTreeSet<(String, Option<Folder>)>,
    members: BTreeSet<(String, Folder)>,
    /// Conversations in which the agent listens without being addressed again.
    sticky: BTreeSet<(Folder, String, String)>,
    turns: BTreeMap<(Folder, String), Vec<(String, Turn)>>,
    senders: Option<SenderList>,
    words: Words,
    rules: Rules,
    /// How addresses read where the messages come from.
    addresses: Addresses,
}

#[derive(Debug)]
struct Listening {
    trigger: String,
    bots: Bots,
    commands: Commands,
}

#[derive(Debug)]
struct Place {
    kind: ChatKind,
    unknown_senders: UnknownSenders,
}

/// What is made of a message here, and the command that would change it.
pub(super) struct Is {
    pub(super) judgement: Judgement,
    pub(super) fix: Option<String>,
}

impl Here {
    /// Returns rules without groups. `words`: the commands in chats. `senders`: the list that is in force here already; without one
    /// the list that comes with the rows counts.
    #[must_use]
    pub fn new(words: Words, senders: SenderList, addresses: Addresses) -> Self {
        let senders = Some(senders).filter(|list| *list != SenderList::Absent);
        Self { senders, words, addresses, ..Self::default() }
    }

    /// Takes a row in, and returns whether it counts: groups, chats, wirings, people and lanes do.
    pub fn take(&mut self, row: &Row) -> bool {
        match row {
            Row::Group(group) => {
                let word = |key: &str| group.config.get(key).and_then(serde_json::Value::as_str);
                let listening = Listening {
                    trigger: group.trigger.clone(),
                    bots: word("bots").and_then(|text| text.parse().ok()).unwrap_or_default(),
                    commands: word("commands").and_then(|text| text.parse().ok()).unwrap_or_default(),
                };
                self.groups.insert(group.folder.clone(), listening);
            }
            Row::Chat(Chat { jid, kind, unknown_senders, .. }) => {
                self.chats.insert(jid.clone(), Place { kind: *kind, unknown_senders: *unknown_senders });
            }
            Row::Wiring(wiring) => {
                self.wirings.insert((wiring.chat.clone(), wiring.group.clone()), wiring.clone());
            }
            Row::Role(role) => match role.role {
                Role::Owner => {
                    self.owners.insert(role.user.clone());
                }
                Role::Admin => {
                    self.admins.insert((role.user.clone(), role.group.clone()));
                }
            },
            Row::Member(member) => {
                self.members.insert((member.user.clone(), member.group.clone()));
            }
            Row::Lane(lane) if lane.sticky_at.is_some() => {
                self.sticky.insert((lane.group.clone(), lane.chat.clone(), lane.thread.clone()));
            }
            Row::List(list) if list.name == ListName::Senders && self.senders.is_none() => {
                self.senders = Some(SenderList::parse(list.content.to_string().as_bytes()));
            }
            Row::List(_)
            | Row::Lane(_)
            | Row::Setting(_)
            | Row::Secret(_)
            | Row::User(_)
            | Row::Approval(_)
            | Row::Message(_)
            | Row::Mark(_)
            | Row::Archive(_)
            | Row::Task(_)
            | Row::Run(_)
            | Row::Usage(_)
            | Row::Text(_)
            | Row::Audit(_) => return false,
        }
        true
    }

    /// Returns the groups that listen in a chat.
    pub(super) fn groups(&self, chat: &str) -> impl Iterator<Item = Folder> {
        let all = self.wirings.iter().filter(move |((of, _), _)| of == chat);
        all.map(|((_, group), _)| group.clone()).collect::<Vec<_>>().into_iter()
    }

    /// Decides as the daemon would, and remembers what follows. `was`: what the message did there, and
    /// whether it is known which messages mentioned the agent.
    pub(super) fn judge(&mut self, message: &Message, group: &Folder, was: Effect, mentions: Mentions) -> Is {
        let wiring = self.wirings.get(&(message.chat.clone(), group.clone()));
        let (Some(wiring), Some(listening)) = (wiring, self.groups.get(group)) else {
            let judgement = Judgement::new(Effect::Nothing, "no wiring leads from this chat to the group");
            let fix = Some(format!("g2 wirings add --group {group} --chat {}", word(&message.chat)));
            return Is { judgement, fix };
        };
        let mode = wiring.engage_mode;
        let place = self.chats.get(&message.chat);
        let kind = place.map_or(ChatKind::Group, |place| place.kind);
        let lane = (group.clone(), message.chat.clone(), message.thread.clone());
        let trigger = wiring.trigger.as_deref().unwrap_or(&listening.trigger);
        let mentioned = message.mentioned || (mentions == Mentions::Guessed && was == Effect::Wakes);
        let sender = user_in(&message.chat, &message.sender);
        let turns = self.turns.entry((group.clone(), message.chat.clone())).or_default();
        let others: Vec<Turn> = turns.iter().map(|(by, turn)| Turn { own: *by == sender, ..*turn }).collect();
        let main_thread =
            self.addresses.of(&message.chat).map_or("", |account| account.forms().main_thread());
        let listed =
            self.senders.as_ref().map_or(Listed::Allowed, |list| list.listed(&message.chat, &sender));
        let standing = standing(&self.owners, &self.admins, &self.members, &sender, group);
        let decision = self.rules.decide(&Asked {
            wired: Some(Wired {
                mode,
                pattern: wiring.engage_pattern.as_deref(),
                trigger,
                ignored: wiring.ignored_messages,
                sender_scope: wiring.sender_scope,
            }),
            text: &message.text,
            mentioned,
            from_me: message.from_me,
            bot: message.bot,
            bots: listening.bots,
            turns: &others,
            came: message.received_at,
            late: message.late,
            sticky: Sticky::of(kind, main_thread, &message.thread, self.sticky.contains(&lane)),
            approved: None,
            answers: None,
            named: !sender.is_empty(),
            standing,
            listed,
            unknown_senders: place.map_or(UnknownSenders::Ask, |place| place.unknown_senders),
        });
        let wakes = decision.outcome == EngageVerdict::Wake;
        if message.bot && wakes && turns.len() < TURNS {
            turns.push((sender.clone(), Turn { at: message.received_at, own: false }));
        }
        let said =
            self.words.said(&message.text, trigger, mentioned).filter(|_| !message.from_me && !message.bot);
        let command = said.filter(|said| {
            let may: May = said.word.may(standing, listening.commands);
            may.is_word(standing, listed, true, || wakes)
        });
        if let Some(said) = command {
            let why = format!("{} is a command to the host", said.spelled);
            let fix = Some(format!("g2 config set words.{} ''", said.word));
            return Is { judgement: Judgement::new(Effect::Command, why), fix };
        }
        if decision.sticks {
            self.sticky.insert(lane);
        }
        let fix = fix(&decision, mode, &message.chat, &sender, group);
        let effect = match (decision.outcome, decision.refused) {
            (EngageVerdict::Wake, _) => Effect::Wakes,
            (EngageVerdict::Held, _) => Effect::Held,
            (_, Some(Unheeded::Asked)) => Effect::Asks,
            (EngageVerdict::Context, _) => Effect::Context,
            (EngageVerdict::Ignore, _) => Effect::Nothing,
        };
        Is { judgement: Judgement::new(effect, decision.reason), fix }
    }
}

/// What a sender is to a group.
fn standing(
    owners: &BTreeSet<String>,
    admins: &BTreeSet<(String, Option<Folder>)>,
    members: &BTreeSet<(String, Folder)>,
    sender: &str,
    group: &Folder,
) -> Standing {
    let is_admin = |of: Option<&Folder>| admins.contains(&(sender.to_owned(), of.cloned()));
    if owners.contains(sender) {
        Standing::Owner
    } else if is_admin(None) || is_admin(Some(group)) {
        Standing::Admin
    } else if members.contains(&(sender.to_owned(), group.clone())) {
        Standing::Member
    } else {
        Standing::Unknown
    }
}

/// Returns the command that changes what a rule made of a message.
fn fix(decision: &Decision, mode: EngageMode, chat: &str, sender: &str, group: &Folder) -> Option<String> {
    let chat = word(chat);
    match decision.rule {
        Rule::Bot => Some(format!("g2 groups set {group} bots=heard")),
        Rule::UnknownSender => {
            Some(format!("g2 members add --group {group} {}", word(sender))).filter(|_| !sender.is_empty())
        }
        Rule::SenderScope => Some(format!("g2 wirings set --group {group} --chat {chat} sender_scope=all")),
        // The program that is left listened on in the whole chat; here, in a thread alone.
        Rule::None if mode == EngageMode::MentionSticky => {
            Some(format!("g2 wirings set --group {group} --chat {chat} engage=pattern pattern=."))
        }
        Rule::None
        | Rule::Pattern
        | Rule::Mention
        | Rule::Trigger
        | Rule::Sticky
        | Rule::Own
        | Rule::SenderList
        | Rule::Late
        | Rule::BotLoop
        | Rule::Approved
        | Rule::Asked
        | Rule::Answer
        | Rule::Skipped
        | Rule::Attached
        | Rule::Undelivered
        | Rule::Word
        | Rule::Restored => None,
    }
}

/// Returns an address of somebody else's as a word of a command line.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || ":@._-+/".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
