//! What a message of WhatsApp's means to the daemon. Pure.

use channel_protocol::{Chat, ChatKind, Event, EventKind, From, Mention, ReplyTo};
use whatsapp_rust::{
    Jid,
    types::message::{EditAttribute, MessageInfo},
};

use crate::{
    known::{Known, Note},
    places::{number, person, person_of},
    said::{Answers, Said, Words},
};

/// Who the account is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Us {
    pub(crate) number: Jid,
    pub(crate) lid: Option<Jid>,
    /// What texts of ours begin with, where a person shares the number.
    pub(crate) mark: String,
}

impl Us {
    /// Whether an address is the account's own.
    pub(crate) fn is(&self, address: &str) -> bool {
        let Some((user, server)) = address.split_once('@') else { return false };
        let user = user.split([':', '.']).next().unwrap_or_default();
        match server {
            "lid" => self.lid.as_ref().is_some_and(|lid| lid.user_base() == user),
            "s.whatsapp.net" | "c.us" => self.number.user_base() == user,
            _ => false,
        }
    }
}

/// Where a message stands, and whose it is, as the daemon knows both.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) chat: String,
    pub(crate) is_group: bool,
    /// The sender by their number, where that is known.
    pub(crate) sender: Jid,
    /// Another id of the same person.
    pub(crate) also: Option<Jid>,
    /// Whether the sender is an admin of the group. `None`: its facts are not here.
    pub(crate) is_admin: Option<bool>,
}

/// Reads an event. `None`: there is nothing to tell of it.
pub(crate) fn event(said: Said, info: &MessageInfo, spot: &Spot, us: &Us, known: &Known) -> Option<Event> {
    let from_us = info.source.is_from_me;
    let id = person(&spot.sender);
    let mut base = Event {
        // Ids are unique within what one sender writes in a chat.
        key: format!("{}.{}", info.id, person(&info.source.sender)),
        chat: spot.chat.clone(),
        id: info.id.clone(),
        at: jiff::Timestamp::from_second(info.timestamp.timestamp()).ok().map(|at| at.to_string()),
        late: info.is_offline,
        from: From {
            id: id.clone(),
            name: name(info, &spot.sender),
            also: spot.also.iter().map(person).collect(),
            ..From::default()
        },
        about: (!spot.is_group && !from_us).then(|| Chat {
            chat: spot.chat.clone(),
            name: name(info, &spot.sender),
            kind: ChatKind::Direct,
            ..Chat::default()
        }),
        ..Event::default()
    };
    let author = |of: &str| known.of(&spot.chat, of);
    // A message may have been noted before the number of its author was known.
    let wrote = |note: &Note| match from_us {
        true => note.by.is_empty(),
        false => note.by == id || spot.also.as_ref().is_some_and(|also| note.by == person(also)),
    };
    match said {
        Said::Nothing => None,
        Said::Message(words) => Some(whole(*words, base, from_us, us, spot, known)),
        Said::Edit { of, words } if author(&of).is_some_and(wrote) => {
            base.kind = EventKind::Edit;
            base.of = of;
            Some(whole(*words, base, from_us, us, spot, known))
        }
        // Nobody can tell whose words would be changed: it is a text of its own, and says what it is about.
        Said::Edit { of, words } => {
            let words = Words { answers: Some(Answers { id: of, ..Answers::default() }), ..*words };
            Some(whole(words, base, from_us, us, spot, known))
        }
        Said::Delete { of } => {
            let theirs = author(&of).map_or(!spot.is_group, wrote);
            (theirs || by_admin(info, spot) == Some(true)).then_some(Event {
                kind: EventKind::Delete,
                of,
                ..base
            })
        }
        Said::Reaction { of, sign } => {
            let on = !sign.is_empty();
            Some(Event { kind: EventKind::Reaction, of, emoji: sign, on, ..base })
        }
    }
}

/// Whether an admin deletes what another one wrote. `None`: the group's facts say whether it is one, and are not here. The mark
/// alone is the sender's to set.
pub(crate) fn by_admin(info: &MessageInfo, spot: &Spot) -> Option<bool> {
    if spot.is_group && info.edit == EditAttribute::AdminRevoke { spot.is_admin } else { Some(false) }
}

/// Returns what a sender is called.
fn name(info: &MessageInfo, sender: &Jid) -> String {
    let business = info.verified_name.as_ref().and_then(|name| name.name.as_deref()).unwrap_or_default();
    [business, &info.push_name]
        .into_iter()
        .find(|name| !name.trim().is_empty())
        .map_or_else(|| number(sender), str::to_owned)
}

fn whole(words: Words, base: Event, from_us: bool, us: &Us, spot: &Spot, known: &Known) -> Event {
    // Of a shared number the texts with our mark are ours; of our own number all are.
    let ours = from_us && (us.mark.is_empty() || words.text.starts_with(&us.mark));
    let named = words.mentioned.iter().any(|one| us.is(one));
    Event {
        mention: if named { Mention::Me } else { Mention::None },
        reply_to: words.answers.map(|answers| reply_to(answers, us, spot, known)),
        forwarded_from: words.forwarded_from,
        unknown_kind: words.unknown,
        attachments: words.attachments,
        text: words.text,
        from: From { myself: ours, ..base.from },
        ..base
    }
}

/// Says what is answered. The quoted words are the answering person's to choose, so that what is known of the message goes before.
fn reply_to(answers: Answers, us: &Us, spot: &Spot, known: &Known) -> ReplyTo {
    let note = known.of(&spot.chat, &answers.id);
    let myself = note.map_or_else(|| us.is(&answers.from), |note| note.by.is_empty());
    let by = note.map(|note| note.by.clone()).filter(|by| !by.is_empty()).unwrap_or(answers.from);
    let from = known.name(&by).map(str::to_owned).or_else(|| person_of(&by).map(|jid| number(&jid)));
    let text = note.map(|note| note.text.clone()).filter(|text| !text.is_empty()).unwrap_or(answers.text);
    ReplyTo {
        id: answers.id,
        from: from.unwrap_or_default(),
        myself,
        text: Some(text).filter(|text| !text.is_empty()),
        kind: answers.kind,
        ..ReplyTo::default()
    }
}

#[cfg(test)]
mod tests {
    use whatsapp_rust::types::message::MessageSource;

    use super::*;

    const GROUP: &str = "120363000000000001@g.us";

    fn us(mark: &str) -> Us {
        Us { number: Jid::pn("49100"), lid: Some(Jid::lid("900")), mark: mark.into() }
    }

    fn info(sender: &str, from_me: bool) -> MessageInfo {
        MessageInfo {
            id: "3EB0".into(),
            push_name: "Eve".into(),
            source: MessageSource {
                sender: sender.parse().unwrap(),
                is_from_me: from_me,
                ..Default::default()
            },
            ..Default::default()
        }
    }

    fn spot(sender: &str, is_group: bool) -> Spot {
        let sender: Jid = sender.parse().unwrap();
        let chat = if is_group { GROUP.into() } else { person(&sender) };
        Spot { chat, is_group, sender, also: None, is_admin: None }
    }

    fn text(text: &str) -> Said {
        Said::Message(Box::new(Words { text: text.into(), ..Words::default() }))
    }

    fn known() -> (tempfile::TempDir, Known) {
        let dir = tempfile::tempdir().unwrap();
        let known = Known::read(dir.path(), std::iter::empty());
        (dir, known)
    }

    #[test]
    fn a_message_has_the_ids_of_before_and_a_key_of_its_own() {
        let (_dir, known) = known();
        let told = event(
            text("hi"),
            &info("49200:3@s.whatsapp.net", false),
            &spot("49200@s.whatsapp.net", false),
            &us(""),
            &known,
        )
        .unwrap();
        assert_eq!(
            (&told.chat[..], &told.from.id[..], &told.from.name[..]),
            ("49200@s.whatsapp.net", "49200@s.whatsapp.net", "Eve")
        );
        assert_eq!(
            (&told.key[..], &told.id[..], told.from.myself),
            ("3EB0.49200@s.whatsapp.net", "3EB0", false)
        );
        assert_eq!(told.about.unwrap().kind, ChatKind::Direct);
    }

    #[test]
    fn what_the_number_itself_writes_is_ours_unless_a_person_shares_it() {
        let (_dir, known) = known();
        let told = |mark: &str, said: &str| {
            let told = event(
                text(said),
                &info("49100@s.whatsapp.net", true),
                &spot("49100@s.whatsapp.net", true),
                &us(mark),
                &known,
            );
            told.unwrap().from.myself
        };
        assert!(told("", "hello") && told("Andy: ", "Andy: hello") && !told("Andy: ", "hello"));
    }

    #[test]
    fn only_its_author_changes_a_message_and_admins_delete_those_of_others() {
        let (_dir, mut known) = known();
        known.note(GROUP, "A", "49200@s.whatsapp.net", "x").unwrap();
        known.note(GROUP, "B", "", "ours").unwrap();
        let edit = |of: &str| Said::Edit {
            of: of.into(),
            words: Box::new(Words { text: "new".into(), ..Words::default() }),
        };
        let marked = |said: Said, by: &str, edit: EditAttribute, is_admin: Option<bool>| {
            let spot = Spot { is_admin, ..spot(by, true) };
            event(said, &MessageInfo { edit, ..info(by, false) }, &spot, &us(""), &known)
                .map(|told| told.kind)
        };
        let kind = |said: Said, by: &str| marked(said, by, EditAttribute::Empty, Some(true));
        let (author, other) = ("49200@s.whatsapp.net", "49300@s.whatsapp.net");
        assert_eq!(kind(edit("A"), author), Some(EventKind::Edit));
        for (of, by) in [("A", other), ("B", other), ("never", author)] {
            assert_eq!(kind(edit(of), by), Some(EventKind::Message), "{of} {by}");
        }
        let delete = |of: &str| Said::Delete { of: of.into() };
        assert_eq!(kind(delete("A"), author), Some(EventKind::Delete));
        assert_eq!((kind(delete("A"), other), kind(delete("never"), other)), (None, None));
        // The mark of an admin's deletion is believed of admins alone.
        for (is_admin, told) in [(Some(true), Some(EventKind::Delete)), (Some(false), None), (None, None)] {
            assert_eq!(marked(delete("A"), other, EditAttribute::AdminRevoke, is_admin), told);
        }
    }

    #[test]
    fn its_author_changes_a_message_also_after_their_number_is_known() {
        let (_dir, mut known) = known();
        known.note(GROUP, "A", "77@lid", "x").unwrap();
        let told = |also: &str| {
            let spot = Spot { also: Some(also.parse().unwrap()), ..spot("49200@s.whatsapp.net", true) };
            let info = info("49200@s.whatsapp.net", false);
            event(Said::Delete { of: "A".into() }, &info, &spot, &us(""), &known).is_some()
        };
        assert!(told("77@lid") && !told("78@lid"));
    }

    #[test]
    fn who_is_named_or_answered_is_known_by_number_and_lid() {
        let (_dir, mut known) = known();
        known.note(GROUP, "OURS", "", "the real words").unwrap();
        let told = |words: Words| {
            event(
                Said::Message(Box::new(words)),
                &info("49200@s.whatsapp.net", false),
                &spot("49200@s.whatsapp.net", true),
                &us(""),
                &known,
            )
            .unwrap()
        };
        for (mentioned, me) in [
            ("49100@s.whatsapp.net", true),
            ("900@lid", true),
            ("900:4@lid", true),
            ("900@s.whatsapp.net", false),
        ] {
            let words = Words { text: "x".into(), mentioned: vec![mentioned.into()], ..Words::default() };
            assert_eq!(told(words).mention == Mention::Me, me, "{mentioned}");
        }
        let answer = |id: &str, from: &str| Words {
            text: "x".into(),
            answers: Some(Answers { id: id.into(), from: from.into(), text: "claimed".into(), kind: None }),
            ..Words::default()
        };
        let reply = told(answer("OURS", "49200@s.whatsapp.net")).reply_to.unwrap();
        assert_eq!((reply.myself, reply.text.as_deref()), (true, Some("the real words")));
        let reply = told(answer("OLD", "900@lid")).reply_to.unwrap();
        assert_eq!((reply.myself, reply.text.as_deref()), (true, Some("claimed")));
        let reply = told(answer("OLD", "49300@s.whatsapp.net")).reply_to.unwrap();
        assert_eq!((reply.myself, &reply.from[..]), (false, "+49300"));
    }
}
