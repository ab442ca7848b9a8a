//! What goes out: messages as WhatsApp takes them, and what became of one. Pure.

use adapter_kit::Outcome;
use channel_protocol::{File, Kind, NotSent, Pace, Scope, Went};
use whatsapp_rust::{
    ClientError, IqError, Jid, SendError,
    media::{
        AudioOptions, DocumentOptions, ImageOptions, VideoOptions, audio_message, document_message,
        image_message, video_message,
    },
    prelude::{MessageBuilderExt as _, MessageField, wa},
    upload::UploadResponse,
    wacore::download::MediaType,
    wacore_binary::JidExt as _,
};

/// For how long a linked account is slow, s.
const SLOW_S: u64 = 7 * 86_400;

/// Returns our own id of a text: WhatsApp's form, made of the daemon's key, so that it is the same each time.
pub(crate) fn id_of(key: &str) -> String {
    let half = |seed: u64| {
        key.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    };
    let all = format!("{:016X}{:016X}", half(0xcbf2_9ce4_8422_2325), half(0x9e37_79b9_7f4a_7c15));
    format!("3EB0{}", &all[..20])
}

/// Returns how fast the account may speak, `linked_s` seconds after it was linked.
pub(crate) fn pace(slow_start: bool, linked_s: u64) -> Pace {
    match slow_start && linked_s < SLOW_S {
        true => Pace { chat_ms: 4000, group_per_min: 6, account_per_s: 1 },
        false => Pace { chat_ms: 1500, group_per_min: 20, account_per_s: 1 },
    }
}

/// What a message answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quoted {
    pub(crate) id: String,
    pub(crate) by: Jid,
    pub(crate) text: String,
}

fn context(quoted: Option<Quoted>) -> Option<wa::ContextInfo> {
    quoted.map(|quoted| wa::ContextInfo {
        stanza_id: Some(quoted.id),
        participant: Some(quoted.by.to_non_ad_string()),
        quoted_message: MessageField::some(wa::Message::text(quoted.text)),
        ..Default::default()
    })
}

/// Returns a text as WhatsApp takes it.
pub(crate) fn text(text: String, quoted: Option<Quoted>) -> wa::Message {
    match context(quoted) {
        Some(context) => wa::Message::text_with_context(text, context),
        None => wa::Message::text(text),
    }
}

/// Returns under which kind WhatsApp keeps a file.
pub(crate) fn media_type(kind: Kind) -> MediaType {
    match kind {
        Kind::Image => MediaType::Image,
        Kind::Video => MediaType::Video,
        Kind::Audio | Kind::Voice => MediaType::Audio,
        Kind::Document => MediaType::Document,
    }
}

/// Returns a file as WhatsApp shows it. Speech is a voice message if it is Opus, which is all that WhatsApp plays as one.
pub(crate) fn with_file(
    upload: UploadResponse,
    file: &File,
    caption: String,
    quoted: Option<Quoted>,
) -> wa::Message {
    let context_info = context(quoted).map(Box::new);
    let mimetype = Some(file.mime.clone()).filter(|mime| !mime.is_empty());
    let caption = Some(caption).filter(|caption| !caption.is_empty());
    match file.kind {
        Kind::Image => {
            image_message(upload, ImageOptions { caption, mimetype, context_info, ..Default::default() })
        }
        Kind::Video => {
            video_message(upload, VideoOptions { caption, mimetype, context_info, ..Default::default() })
        }
        Kind::Voice => {
            let is_opus = file.mime.is_empty()
                || file.mime.starts_with("audio/ogg")
                || file.mime.starts_with("audio/opus");
            let mimetype = if is_opus { Some("audio/ogg; codecs=opus".into()) } else { mimetype };
            audio_message(
                upload,
                AudioOptions { ptt: Some(is_opus), mimetype, context_info, ..Default::default() },
            )
        }
        Kind::Audio => audio_message(upload, AudioOptions { mimetype, context_info, ..Default::default() }),
        Kind::Document => {
            let file_name = Some(file.name.clone()).filter(|name| !name.is_empty());
            document_message(
                upload,
                DocumentOptions { caption, mimetype, file_name, context_info, ..Default::default() },
            )
        }
    }
}

/// Returns the key of a message that a sign is put to.
pub(crate) fn key(chat: &Jid, id: &str, by: Option<&Jid>) -> wa::MessageKey {
    wa::MessageKey {
        remote_jid: Some(chat.to_string()),
        from_me: Some(by.is_none()),
        id: Some(id.to_owned()),
        participant: by.filter(|_| chat.is_group()).map(Jid::to_non_ad_string),
    }
}

/// Says what became of a text that could not be handed over.
pub(crate) fn not_sent(error: &SendError) -> Outcome {
    match error {
        SendError::NotLoggedIn => Outcome::NotSent(NotSent::Offline),
        SendError::Client(error) => of_client(error),
        SendError::Iq(error) => of_iq(error),
        SendError::InvalidRequest(why) => Outcome::refused("invalid", why.clone(), ""),
        // Before a text is written it is encrypted for each device; what fails there is not written.
        error => Outcome::NotSent(NotSent::Again { text: error.to_string() }),
    }
}

fn of_client(error: &ClientError) -> Outcome {
    match error {
        ClientError::NotConnected | ClientError::NotLoggedIn => Outcome::NotSent(NotSent::Offline),
        ClientError::Iq(error) => of_iq(error),
        // The socket broke while it was written.
        error => Outcome::Unknown(error.to_string()),
    }
}

/// Says what a question before the text means, such as who is in a group: nothing was written yet.
fn of_iq(error: &IqError) -> Outcome {
    match error {
        IqError::ServerError { code, text, backoff, .. } => {
            refused(*code, text, backoff.map(|s| u64::from(s) * 1000))
        }
        IqError::NotConnected | IqError::Disconnected(_) | IqError::InternalChannelClosed => {
            Outcome::NotSent(NotSent::Offline)
        }
        error => Outcome::NotSent(NotSent::Again { text: error.to_string() }),
    }
}

/// Says what a number of WhatsApp's means.
pub(crate) fn refused(code: u16, text: &str, after_ms: Option<u64>) -> Outcome {
    let said = format!("WhatsApp says {code} {text}").trim_end().to_owned();
    match code {
        403 | 404 | 410 => Outcome::gone(
            Went::Chat,
            said,
            "the account is not in this group any more, or may not write there",
        ),
        429 => Outcome::busy(after_ms.or(Some(60_000)), Scope::Account),
        463 => Outcome::refused(
            "463",
            said,
            "WhatsApp does not let this account write to a person who has not written to it",
        ),
        500..=599 => Outcome::NotSent(NotSent::Again { text: said }),
        _ => Outcome::refused(&code.to_string(), said, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_id_and_no_other_key_has_it() {
        let ids: std::collections::HashSet<String> = (0..10_000).map(|n| id_of(&format!("a.{n}"))).collect();
        assert_eq!((ids.len(), id_of("a.1"), id_of("a.1").len()), (10_000, id_of("a.1"), 24));
        assert!(id_of("").starts_with("3EB0") && id_of("x").bytes().all(|b| b.is_ascii_hexdigit()));
    }

    #[test]
    fn the_first_week_is_slower() {
        assert!(pace(true, 0).chat_ms > pace(true, SLOW_S).chat_ms);
        assert_eq!(pace(false, 0), pace(true, SLOW_S));
    }

    #[test]
    fn what_whatsapp_says_tells_what_a_person_can_do() {
        let of = |code| refused(code, "x", None);
        assert!(matches!(of(403), Outcome::NotSent(NotSent::Gone { .. })));
        assert!(matches!(
            of(429),
            Outcome::NotSent(NotSent::Busy { after_ms: 60_000, scope: Scope::Account })
        ));
        assert!(matches!(of(503), Outcome::NotSent(NotSent::Again { .. })));
        assert!(matches!(of(479), Outcome::NotSent(NotSent::Refused { .. })));
        assert_eq!(not_sent(&SendError::NotLoggedIn), Outcome::NotSent(NotSent::Offline));
        assert_eq!(
            not_sent(&SendError::Client(ClientError::NotConnected)),
            Outcome::NotSent(NotSent::Offline)
        );
        let unknown = SendError::Client(ClientError::Internal(whatsapp_rust::anyhow::anyhow!("broken pipe")));
        assert_eq!(not_sent(&unknown), Outcome::Unknown("broken pipe".into()));
    }

    #[test]
    fn an_answer_names_its_message_and_a_sign_the_author_in_groups() {
        let quoted = Quoted { id: "A".into(), by: Jid::pn_device("49", 3), text: "hi".into() };
        let answer = text("yes".into(), Some(quoted));
        let context = answer.extended_text_message.as_option().unwrap().context_info.as_option().unwrap();
        assert_eq!(context.participant.as_deref(), Some("49@s.whatsapp.net"));
        let (group, direct, by) = (Jid::group("1"), Jid::pn("49"), Jid::pn("49"));
        assert_eq!(key(&group, "A", Some(&by)).participant.as_deref(), Some("49@s.whatsapp.net"));
        assert_eq!(
            (key(&direct, "A", Some(&by)).participant, key(&group, "A", None).from_me),
            (None, Some(true))
        );
    }
}
