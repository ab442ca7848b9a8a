//! What becomes of a message in a chat that no group is wired to.

use ipc_handlers::{Folder, effect::IgnoredMessages};

use super::Rights;
use crate::{
    heard::{
        access::UnknownSenders,
        engage::{self, Author, ChatKind, Engages},
    },
    shown::screen::quoted,
};

/// A message, and the facts about its chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwired<'a> {
    pub author: Author,
    pub addressed: Addressed,
    pub rights: Rights,
    /// Whether the sender is known to anybody.
    pub known: bool,
    pub policy: UnknownSenders,
    /// Those that there are; of many, two are enough.
    pub groups: &'a [Folder],
    /// Whether a group was wired to the chat once: then it was somebody's decision that none is.
    pub wired_before: bool,
    /// Whether it is a command of the chat. It asks for nothing of an agent.
    pub is_command: bool,
    /// Whether the sender is alone with the bot.
    pub is_direct: bool,
    /// Whether it was written now, by its sender: it is neither forwarded nor edited, and did not come late.
    pub is_written_now: bool,
}

/// Whether a message is meant for an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressed {
    Yes,
    No,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unheard {
    /// It is stored, and nothing to anybody.
    Nothing,
    /// The chat is wired to this group, and the message goes the way of all.
    Wire(Folder),
    /// Somebody is asked.
    Ask,
    /// It is counted and told, with this reason.
    Drop(&'static str),
    /// The same, and its sender is told how the chat is wired ([`nobody_listens`]).
    Tell(&'static str),
}

/// Returns what an owner is told whose command nobody hears. Strangers are told nothing.
#[must_use]
pub fn nobody_listens(chat: &str) -> String {
    format!(
        "No group listens here. This wires one, with its folder from g2 groups list: g2 wirings add --group FOLDER --chat {}",
        quoted(chat)
    )
}

/// Whether a message concerns nobody, whatever else is known of it.
#[must_use]
pub fn is_nothing(author: Author, addressed: Addressed) -> bool {
    match (author, addressed) {
        (Author::Me | Author::Bot, _) | (Author::Person, Addressed::No) => true,
        (Author::Person, Addressed::Yes) => false,
    }
}

/// Decides.
#[must_use]
pub fn decide(message: &Unwired<'_>) -> Unheard {
    if is_nothing(message.author, message.addressed) {
        return Unheard::Nothing;
    }
    match (message.groups, &message.rights) {
        ([], _) => Unheard::Drop("no group is wired to the chat, and there is none that could be"),
        ([only], Rights::Everything)
            if !message.wired_before && (message.is_direct || !message.is_command) =>
        {
            Unheard::Wire(only.clone())
        }
        (_, Rights::Everything) if message.is_command && message.is_direct && message.is_written_now => {
            Unheard::Tell("a command wires no chat where a choice is to be made; its sender was told how to")
        }
        (_, _) if message.is_command => Unheard::Drop("a command wires no chat"),
        (_, _) if !message.known && message.policy == UnknownSenders::Strict => Unheard::Drop(
            "no group is wired to the chat, nobody knows this sender, and the chat's policy is strict",
        ),
        (_, _) => Unheard::Ask,
    }
}

/// Returns whether a message is meant for an agent: in a chat with one person every one is, elsewhere the channel says
/// so, or the text begins with the main group's trigger.
#[must_use]
pub fn addressed(kind: ChatKind, mentioned: engage::Mentioned, text: &str, trigger: &str) -> Addressed {
    let rule = engage::WiringRule {
        mode: Engages::Mention,
        trigger: trigger.to_owned(),
        ignored: IgnoredMessages::Drop,
    };
    let heard = engage::Heard { text, author: Author::Person, mentioned, sticky: engage::Sticky::No };
    let direct = kind == ChatKind::Direct;
    if direct || engage::decide(&rule, &heard).outcome == engage::EngageVerdict::Wake {
        Addressed::Yes
    } else {
        Addressed::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(names: &[&str]) -> Vec<Folder> {
        names.iter().map(|name| Folder::parse(name).unwrap()).collect()
    }

    fn nobody() -> Rights {
        Rights::Groups(Vec::new())
    }

    #[test]
    fn a_stranger_s_word_asks_and_an_owner_s_wires_where_there_is_no_choice() {
        use UnknownSenders::{Ask, Public, Strict};
        let (one, two) = (folders(&["main"]), folders(&["family", "main"]));
        let wire = Unheard::Wire(one[0].clone());
        let admin_of_one = Rights::Groups(one.clone());
        let strict = Unheard::Drop(
            "no group is wired to the chat, nobody knows this sender, and the chat's policy is strict",
        );
        let none = Unheard::Drop("no group is wired to the chat, and there is none that could be");
        // Rights, known, policy, groups, wired before.
        let table = [
            (Rights::Everything, true, Ask, &one[..], false, wire.clone()),
            (Rights::Everything, true, Strict, &one[..], false, wire),
            (Rights::Everything, true, Ask, &one[..], true, Unheard::Ask),
            (Rights::Everything, true, Ask, &two[..], false, Unheard::Ask),
            (admin_of_one, true, Ask, &one[..], false, Unheard::Ask),
            (nobody(), false, Ask, &one[..], false, Unheard::Ask),
            (nobody(), false, Public, &one[..], false, Unheard::Ask),
            (nobody(), false, Strict, &one[..], false, strict.clone()),
            (nobody(), true, Strict, &one[..], false, Unheard::Ask),
            (nobody(), false, Ask, &[], false, none.clone()),
            (Rights::Everything, true, Ask, &[], false, none),
        ];
        for (rights, known, policy, groups, wired_before, expected) in table {
            let message = |author, addressed| Unwired {
                author,
                addressed,
                rights: rights.clone(),
                known,
                policy,
                groups,
                wired_before,
                is_command: false,
                is_direct: false,
                is_written_now: true,
            };
            let said = decide(&message(Author::Person, Addressed::Yes));
            assert_eq!(said, expected, "{rights:?} {known} {policy:?} {groups:?} {wired_before}");
            for (author, addressed) in
                [(Author::Person, Addressed::No), (Author::Bot, Addressed::Yes), (Author::Me, Addressed::Yes)]
            {
                assert_eq!(decide(&message(author, addressed)), Unheard::Nothing, "{author:?}");
            }
        }
    }

    #[test]
    fn an_agent_is_addressed_in_a_direct_chat_by_a_mention_and_by_its_trigger() {
        use engage::Mentioned;
        for (kind, mentioned, text, is) in [
            (ChatKind::Direct, Mentioned::No, "hello", Addressed::Yes),
            (ChatKind::Group, Mentioned::No, "hello", Addressed::No),
            (ChatKind::Group, Mentioned::Yes, "hello", Addressed::Yes),
            (ChatKind::Group, Mentioned::No, "@g2 hello", Addressed::Yes),
            (ChatKind::ThreadedGroup, Mentioned::No, "hello @G2", Addressed::No),
        ] {
            assert_eq!(addressed(kind, mentioned, text, "@G2"), is, "{kind:?} {text}");
        }
    }

    #[test]
    fn a_command_wires_the_direct_chat_of_an_owner_alone_and_asks_nobody() {
        let groups = folders(&["family", "main"]);
        let decided = |rights, count: usize, is_direct, wired_before, is_written_now| {
            decide(&Unwired {
                author: Author::Person,
                addressed: Addressed::Yes,
                rights,
                known: true,
                policy: UnknownSenders::Ask,
                groups: &groups[..count],
                wired_before,
                is_command: true,
                is_direct,
                is_written_now,
            })
        };
        let wire = Unheard::Wire(groups[0].clone());
        assert_eq!(decided(Rights::Everything, 1, true, false, true), wire);
        let drop = Unheard::Drop("a command wires no chat");
        let tell =
            Unheard::Tell("a command wires no chat where a choice is to be made; its sender was told how to");
        let admin = || Rights::Groups(groups.clone());
        for (rights, count, is_direct, wired_before, is_written_now, expected) in [
            (Rights::Everything, 1, false, false, true, &drop),
            (Rights::Everything, 2, false, false, true, &drop),
            (Rights::Everything, 1, true, true, true, &tell),
            (Rights::Everything, 2, true, false, true, &tell),
            (Rights::Everything, 2, true, false, false, &drop),
            (admin(), 2, true, false, true, &drop),
            (nobody(), 1, true, false, true, &drop),
            (nobody(), 2, true, false, true, &drop),
        ] {
            let said = decided(rights, count, is_direct, wired_before, is_written_now);
            assert_eq!(said, *expected, "{count} {is_direct} {wired_before} {is_written_now}");
        }
    }

    #[test]
    fn an_owner_reads_a_command_that_can_be_typed() {
        for (chat, typed) in [("tg:7", "--chat tg:7"), ("mx:!a:b", "--chat 'mx:!a:b'")] {
            let told = nobody_listens(chat);
            assert!(told.ends_with(typed) && told.lines().count() == 1, "{told}");
        }
    }
}
