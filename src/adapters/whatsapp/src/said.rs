//! What a message of WhatsApp's says, in words: its text, and all that people see beside it. Pure.

use adapter_kit::{LONGEST_ANSWERED, LONGEST_TEXT, Poll, below_one_another, cut};
use channel_protocol::{Attached, Kind};
use whatsapp_rust::{
    prelude::{MessageExt as _, wa},
    waproto::whatsapp::message::protocol_message::Type,
};

use crate::media;

/// How many mentioned persons are looked at.
const MOST_MENTIONED: usize = 1024;
/// The longest piece of a line that others wrote, bytes.
const LONGEST: usize = 4096;
/// How many contacts of one message are told.
const MOST_CONTACTS: usize = 20;
/// The longest id of a message, bytes.
const LONGEST_ID: usize = 128;

/// What a message does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    Message(Box<Words>),
    /// Another message has another text.
    Edit {
        of: String,
        words: Box<Words>,
    },
    Delete {
        of: String,
    },
    /// An empty sign: the reaction is taken back.
    Reaction {
        of: String,
        sign: String,
    },
    /// People see nothing of it.
    Nothing,
}

/// What a message says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Words {
    pub(crate) text: String,
    pub(crate) attachments: Vec<Attached>,
    /// WhatsApp's word for a kind that is not known here.
    pub(crate) unknown: String,
    /// Whom it names, by their addresses.
    pub(crate) mentioned: Vec<String>,
    pub(crate) answers: Option<Answers>,
    /// Of a forward: whose words they are, as far as WhatsApp says that.
    pub(crate) forwarded_from: Option<String>,
}

/// The message that is answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answers {
    pub(crate) id: String,
    /// The address of its author.
    pub(crate) from: String,
    pub(crate) text: String,
    pub(crate) kind: Option<Kind>,
}

/// Reads what a message does.
pub(crate) fn said(message: &wa::Message) -> Said {
    let message = message.get_base_message();
    if let Some(protocol) = message.protocol_message.as_option() {
        let of = protocol.key.as_option().and_then(|key| key.id.as_deref()).unwrap_or_default();
        let edited = protocol.edited_message.as_option();
        return match (protocol.r#type, edited) {
            (Some(Type::REVOKE), _) if is_id(of) => Said::Delete { of: of.to_owned() },
            (Some(Type::MESSAGE_EDIT), Some(edited)) if is_id(of) => {
                Said::Edit { of: of.to_owned(), words: Box::new(words(edited.get_base_message())) }
            }
            _ => Said::Nothing,
        };
    }
    if let Some(reaction) = message.reaction_message.as_option() {
        let of = reaction.key.as_option().and_then(|key| key.id.as_deref()).unwrap_or_default();
        let sign = cut(reaction.text.as_deref().unwrap_or_default(), 64);
        return if is_id(of) { Said::Reaction { of: of.to_owned(), sign } } else { Said::Nothing };
    }
    let words = words(message);
    if words.text.trim().is_empty() && words.attachments.is_empty() {
        Said::Nothing
    } else {
        Said::Message(Box::new(words))
    }
}

/// Whether a text can be the id of a message.
pub(crate) fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= LONGEST_ID && id.bytes().all(|b| b.is_ascii_graphic())
}

/// Returns as much of an id as can be told, for what has none that can be one.
pub(crate) fn told_id(id: &str) -> String {
    id.chars().filter(char::is_ascii_graphic).take(LONGEST_ID).collect()
}

/// Reads what a message says.
fn words(message: &wa::Message) -> Words {
    let mut words = plain(message);
    words.text = cut(&words.text, LONGEST_TEXT);
    let Some(context) = context(message) else { return words };
    words.mentioned = context.mentioned_jid.iter().take(MOST_MENTIONED).cloned().collect();
    if let Some(id) = context.stanza_id.as_deref().filter(|id| is_id(id)) {
        let quoted = context.quoted_message.as_option().map(|quoted| plain(quoted.get_base_message()));
        let quoted = quoted.unwrap_or_default();
        words.answers = Some(Answers {
            id: id.to_owned(),
            from: cut(context.participant.as_deref().unwrap_or_default(), 128),
            kind: quoted.attachments.first().map(|file| file.kind),
            text: cut(&quoted.text, LONGEST_ANSWERED),
        });
    }
    if context.is_forwarded == Some(true) {
        let channel = context.forwarded_newsletter_message_info.as_option();
        let name = channel.and_then(|channel| channel.newsletter_name.as_deref()).unwrap_or_default();
        words.forwarded_from = Some(cut(name, 256));
    }
    words
}

/// Reads the text and the files of a message, without what it answers.
fn plain(message: &wa::Message) -> Words {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let with = |text: String, file: Option<Attached>| Words {
        text,
        attachments: file.into_iter().collect(),
        ..Words::default()
    };
    if let Some(said) = &message.conversation {
        return with(said.clone(), None);
    }
    if let Some(said) = message.extended_text_message.as_option() {
        return with(text(&said.text), None);
    }
    if let Some(image) = message.image_message.as_option() {
        return with(text(&image.caption), Some(media::image(image)));
    }
    if let Some(video) = message.video_message.as_option().or(message.ptv_message.as_option()) {
        return with(text(&video.caption), Some(media::video(video)));
    }
    if let Some(audio) = message.audio_message.as_option() {
        return with(String::new(), Some(media::audio(audio)));
    }
    if let Some(document) = message.document_message.as_option() {
        return with(text(&document.caption), Some(media::document(document)));
    }
    if let Some(sticker) = message.sticker_message.as_option() {
        return with("[Sticker]".into(), Some(media::sticker(sticker)));
    }
    with(beside(message), None).or_unknown(message)
}

impl Words {
    /// Names the kind of a message that says nothing that is known here.
    fn or_unknown(mut self, message: &wa::Message) -> Self {
        if self.text.is_empty()
            && let Some(kind) = kind(message)
        {
            self.text = adapter_kit::unknown(&kind);
            self.unknown = kind;
        }
        self
    }
}

/// Returns what is neither text nor file, in words; empty: nothing of it is there.
fn beside(message: &wa::Message) -> String {
    let short = |text: &Option<String>| cut(text.as_deref().unwrap_or_default(), LONGEST);
    let line = |what: &str, more: &[&str]| {
        let more: Vec<&str> = more.iter().copied().filter(|more| !more.is_empty()).collect();
        if more.is_empty() { format!("[{what}]") } else { format!("[{what}: {}]", more.join(", ")) }
    };
    if let Some(place) = message.location_message.as_option() {
        return line(
            "Location",
            &[
                &spot(place.degrees_latitude, place.degrees_longitude),
                &short(&place.name),
                &short(&place.address),
            ],
        );
    }
    if let Some(place) = message.live_location_message.as_option() {
        let where_ = spot(place.degrees_latitude, place.degrees_longitude);
        return below_one_another(&[&line("Live location", &[&where_]), &short(&place.caption)]);
    }
    if let Some(contact) = message.contact_message.as_option() {
        return shown(contact);
    }
    if let Some(contacts) = message.contacts_array_message.as_option() {
        let all: Vec<String> = contacts.contacts.iter().take(MOST_CONTACTS).map(shown).collect();
        return all.join("\n");
    }
    let polls = [
        &message.poll_creation_message,
        &message.poll_creation_message_v2,
        &message.poll_creation_message_v3,
        &message.poll_creation_message_v5,
        &message.poll_creation_message_v6,
    ];
    if let Some(poll) = polls.into_iter().find_map(|poll| poll.as_option()) {
        let options = poll.options.iter().map(|option| (option.option_name.clone().unwrap_or_default(), 0));
        return Poll {
            several: poll.selectable_options_count != Some(1),
            question: poll.name.clone().unwrap_or_default(),
            options: options.take(100).collect(),
            ..Poll::default()
        }
        .words();
    }
    if let Some(pressed) = message.buttons_response_message.as_option() {
        return short(&pressed.selected_button_id);
    }
    if let Some(chosen) = message.list_response_message.as_option() {
        return short(&chosen.title);
    }
    if let Some(pressed) = message.template_button_reply_message.as_option() {
        return short(&pressed.selected_display_text);
    }
    if let Some(event) = message.event_message.as_option() {
        return below_one_another(&[&line("Event", &[&short(&event.name)]), &short(&event.description)]);
    }
    if let Some(invite) = message.group_invite_message.as_option() {
        return below_one_another(&[
            &line("Invitation to the group", &[&short(&invite.group_name)]),
            &short(&invite.caption),
        ]);
    }
    if message.call.is_set() || message.call_log_messsage.is_set() || message.bcall_message.is_set() {
        return "[Call]".into();
    }
    String::new()
}

fn spot(latitude: Option<f64>, longitude: Option<f64>) -> String {
    match (latitude, longitude) {
        (Some(latitude), Some(longitude)) => format!("{latitude:.5} {longitude:.5}"),
        _ => String::new(),
    }
}

/// Returns a contact with its numbers.
fn shown(contact: &wa::message::ContactMessage) -> String {
    let card = contact.vcard.as_deref().unwrap_or_default();
    let name = cut(contact.display_name.as_deref().unwrap_or_default(), LONGEST);
    let numbers = cut(card, 1 << 14)
        .lines()
        .filter_map(telephone)
        .take(10)
        .fold(String::new(), |all, one| format!("{all}, {}", cut(&one, 64)));
    format!("[Contact: {name}{numbers}]")
}

/// Returns the number of a line of a card such as `TEL;type=CELL:+49 170 1234567`.
fn telephone(line: &str) -> Option<String> {
    let (what, number) = line.split_once(':')?;
    let field = what.split(';').next()?.rsplit('.').next()?;
    let number = number.trim();
    (field.eq_ignore_ascii_case("TEL") && !number.is_empty()).then(|| number.to_owned())
}

/// Returns WhatsApp's word for the kind of a message; `None`: it is one of which people see nothing.
fn kind(message: &wa::Message) -> Option<String> {
    let silent = message.sender_key_distribution_message.is_set()
        || message.fast_ratchet_key_sender_key_distribution_message.is_set()
        || message.poll_update_message.is_set()
        || message.keep_in_chat_message.is_set()
        || message.pin_in_chat_message.is_set()
        || message.enc_reaction_message.is_set()
        || message.enc_event_response_message.is_set()
        || message.placeholder_message.is_set()
        || message.album_message.is_set()
        || message.message_history_bundle.is_set()
        || message.message_history_notice.is_set()
        || message.sticker_sync_rmr_message.is_set()
        || message.group_root_key_share.is_set()
        || message.root_secret_distribute_message.is_set();
    if silent {
        return None;
    }
    let fields = serde_json::to_value(message).ok()?;
    let named = fields.as_object()?.iter().find(|(name, value)| {
        !value.is_null() && !matches!(&name[..], "message_context_info" | "messageContextInfo")
    });
    named.map(|(name, _)| cut(name, 64))
}

/// Returns what stands around a message: what it answers, and whom it names.
fn context(message: &wa::Message) -> Option<&wa::ContextInfo> {
    macro_rules! of {
        ($($field:ident),*) => {
            [$(message.$field.as_option().and_then(|one| one.context_info.as_option())),*]
        };
    }
    of!(
        extended_text_message,
        image_message,
        video_message,
        ptv_message,
        audio_message,
        document_message,
        sticker_message,
        location_message,
        live_location_message,
        contact_message,
        contacts_array_message,
        poll_creation_message,
        poll_creation_message_v2,
        poll_creation_message_v3,
        buttons_response_message,
        list_response_message,
        template_button_reply_message,
        event_message,
        group_invite_message
    )
    .into_iter()
    .flatten()
    .next()
}

#[cfg(test)]
mod tests {
    use whatsapp_rust::prelude::{MessageBuilderExt as _, MessageField};

    use super::*;

    fn read(message: wa::Message) -> Words {
        match said(&message) {
            Said::Message(words) => *words,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_text_is_told_with_what_it_answers_and_whom_it_names() {
        assert_eq!(read(wa::Message::text("hello")).text, "hello");
        let context = wa::ContextInfo {
            stanza_id: Some("3EB0AA".into()),
            participant: Some("49170@s.whatsapp.net".into()),
            quoted_message: MessageField::some(wa::Message {
                image_message: MessageField::some(wa::message::ImageMessage {
                    caption: Some("the cat".into()),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            mentioned_jid: vec!["1@s.whatsapp.net".into(); 5000],
            ..Default::default()
        };
        let words = read(wa::Message::text_with_context("which?", context));
        let answers = words.answers.unwrap();
        assert_eq!(
            (&answers.id[..], &answers.text[..], answers.kind),
            ("3EB0AA", "the cat", Some(Kind::Image))
        );
        assert_eq!((words.mentioned.len(), words.forwarded_from), (MOST_MENTIONED, None));
        let forwarded = wa::ContextInfo { is_forwarded: Some(true), ..Default::default() };
        assert_eq!(
            read(wa::Message::text_with_context("news", forwarded)).forwarded_from,
            Some(String::new())
        );
    }

    #[test]
    fn edits_deletions_and_reactions_name_their_message_and_one_without_is_nothing() {
        let key = |id: &str| MessageField::some(wa::MessageKey { id: Some(id.into()), ..Default::default() });
        let protocol = |r#type, id: &str, edited: Option<&str>| wa::Message {
            protocol_message: MessageField::some(wa::message::ProtocolMessage {
                key: key(id),
                r#type: Some(r#type),
                edited_message: edited.map(wa::Message::text).into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        assert_eq!(said(&protocol(Type::REVOKE, "A", None)), Said::Delete { of: "A".into() });
        let Said::Edit { of, words } = said(&protocol(Type::MESSAGE_EDIT, "A", Some("new"))) else {
            panic!()
        };
        assert_eq!((&of[..], &words.text[..]), ("A", "new"));
        for nothing in [
            protocol(Type::REVOKE, "", None),
            protocol(Type::REVOKE, &"A".repeat(129), None),
            protocol(Type::MESSAGE_EDIT, "A", None),
            protocol(Type::EPHEMERAL_SETTING, "A", None),
            wa::Message::default(),
        ] {
            assert_eq!(said(&nothing), Said::Nothing);
        }
        let react = |id: &str, sign: &str| wa::Message {
            reaction_message: MessageField::some(wa::message::ReactionMessage {
                key: key(id),
                text: Some(sign.into()),
                ..Default::default()
            }),
            ..Default::default()
        };
        assert_eq!(said(&react("A", "👍")), Said::Reaction { of: "A".into(), sign: "👍".into() });
        assert_eq!(said(&react("", "👍")), Said::Nothing);
    }

    #[test]
    fn what_is_no_text_is_told_in_words_and_what_is_not_known_by_its_kind() {
        let place = wa::message::LocationMessage {
            degrees_latitude: Some(52.52),
            degrees_longitude: Some(13.405),
            name: Some("Alex".into()),
            ..Default::default()
        };
        let place = wa::Message { location_message: MessageField::some(place), ..Default::default() };
        assert_eq!(read(place).text, "[Location: 52.52000 13.40500, Alex]");
        let card = wa::message::ContactMessage {
            display_name: Some("Eve".into()),
            vcard: Some("BEGIN:VCARD\nFN:Eve\nitem1.TEL;waid=49:+49 170 1\nEMAIL:x@y\nEND:VCARD".into()),
            ..Default::default()
        };
        let card = wa::Message { contact_message: MessageField::some(card), ..Default::default() };
        assert_eq!(read(card).text, "[Contact: Eve, +49 170 1]");
        let option = |name: &str| wa::message::poll_creation_message::Option {
            option_name: Some(name.into()),
            ..Default::default()
        };
        let poll = wa::message::PollCreationMessage {
            name: Some("Tea?".into()),
            options: vec![option("Yes"), option("No")],
            selectable_options_count: Some(1),
            ..Default::default()
        };
        let poll = wa::Message { poll_creation_message_v3: MessageField::some(poll), ..Default::default() };
        assert_eq!(read(poll).text, "[Poll: Tea?]\n- Yes\n- No");
        let order =
            wa::Message { order_message: MessageField::some(Default::default()), ..Default::default() };
        let order = read(order);
        assert!(
            order.unknown.to_lowercase().contains("order") && order.text.contains(&order.unknown),
            "{order:?}"
        );
        let key = wa::Message {
            sender_key_distribution_message: MessageField::some(Default::default()),
            ..Default::default()
        };
        assert_eq!(said(&key), Said::Nothing);
    }

    #[test]
    fn a_long_text_is_cut_within_its_bounds() {
        assert!(read(wa::Message::text("ü".repeat(1 << 20))).text.len() <= LONGEST_TEXT);
    }
}
