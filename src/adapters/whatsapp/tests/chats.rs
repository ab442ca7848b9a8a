//! What comes in, and what goes out.

use base64::Engine as _;
use channel_protocol::{EventKind, Kind, Light, Mention, NotSent, Up};
use serde_json::json;
use whatsapp_rust::{
    download::DownloadParams,
    prelude::{MessageBuilderExt as _, MessageField, wa},
    wacore::{download::MediaType, upload::encrypt_media},
};

use crate::{
    daemon::Adapter,
    fake::{Fake, LID, NUMBER},
};

const EVE: &str = "492000000001";
const EVES: &str = "492000000001@s.whatsapp.net";
const BOB: &str = "492000000002";
const BOBS: &str = "492000000002@s.whatsapp.net";
const GROUP: &str = "120363000000000001";
const GROUPS: &str = "120363000000000001@g.us";

fn world() -> Fake {
    let fake = Fake::start();
    fake.person(EVE, "Eve");
    fake.person(BOB, "Bob");
    fake.group(GROUP, "Garden", &[EVE, BOB]);
    fake
}

fn naming(text: &str, id: &str, by: &str, mentioned: &[&str]) -> wa::Message {
    let context = wa::ContextInfo {
        stanza_id: Some(id.to_owned()).filter(|id| !id.is_empty()),
        participant: Some(by.to_owned()).filter(|by| !by.is_empty()),
        quoted_message: MessageField::some(wa::Message::text("claimed words")),
        mentioned_jid: mentioned.iter().map(|one| (*one).to_owned()).collect(),
        ..Default::default()
    };
    wa::Message::text_with_context(text, context)
}

fn protocol(
    r#type: wa::message::protocol_message::Type,
    of: &str,
    edited: Option<wa::Message>,
) -> wa::Message {
    let key = wa::MessageKey { id: Some(of.to_owned()), ..Default::default() };
    wa::Message {
        protocol_message: MessageField::some(wa::message::ProtocolMessage {
            key: MessageField::some(key),
            r#type: Some(r#type),
            edited_message: edited.into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[test]
fn a_group_is_heard_told_of_and_answered_with_quotes() {
    let fake = world();
    let mut adapter = Adapter::linked(&fake, json!({}));
    let first = fake.writes_to_group(EVE, GROUP, "hello all");
    let event = adapter.stored();
    assert_eq!((&event.chat[..], &event.from.id[..], event.mention), (GROUPS, EVES, Mention::None));
    let about = adapter.next("chat", |up| if let Up::Chat(chat) = up { Some(chat.clone()) } else { None });
    assert_eq!((&about.chat[..], &about.name[..], about.members), (GROUPS, "Garden", Some(3)));
    let done = adapter.sends(GROUPS, "a.1", json!({"text": "hello Eve", "reply_to": first}));
    let ours = done.ids.unwrap().remove(0);
    for member in [EVE, BOB] {
        let read = fake.read(member);
        let said = read.message.extended_text_message.as_option().unwrap();
        let context = said.context_info.as_option().unwrap();
        assert_eq!(
            (said.text.as_deref(), context.stanza_id.as_deref()),
            (Some("hello Eve"), Some(&first[..]))
        );
        assert_eq!(context.participant.as_deref(), Some(EVES));
    }
    // Somebody answers ours, and names us by number and by the other id.
    fake.sends_to_group(BOB, GROUP, &naming("what?", &ours, &format!("{NUMBER}@s.whatsapp.net"), &[]));
    let event = adapter.stored();
    let reply = event.reply_to.unwrap();
    assert_eq!((reply.myself, reply.text.as_deref(), reply.id), (true, Some("hello Eve"), ours));
    assert_eq!(event.about.map(|chat| chat.name), Some("Garden".into()));
    for named in [format!("{NUMBER}@s.whatsapp.net"), format!("{LID}@lid")] {
        fake.sends_to_group(BOB, GROUP, &naming("@g2", "", "", &[&named]));
        assert_eq!(adapter.stored().mention, Mention::Me, "{named}");
    }
}

#[test]
fn edits_deletions_and_reactions_are_told_and_nobody_changes_another_ones_words() {
    use wa::message::protocol_message::Type;
    let fake = world();
    let mut adapter = Adapter::linked(&fake, json!({}));
    let id = fake.writes_to_group(EVE, GROUP, "teh cat");
    adapter.stored();
    fake.sends_to_group(EVE, GROUP, &protocol(Type::MESSAGE_EDIT, &id, Some(wa::Message::text("the cat"))));
    let event = adapter.stored();
    assert_eq!((event.kind, &event.of, &event.text[..]), (EventKind::Edit, &id, "the cat"));
    fake.sends_to_group(BOB, GROUP, &protocol(Type::MESSAGE_EDIT, &id, Some(wa::Message::text("the dog"))));
    let event = adapter.stored();
    assert_eq!((event.kind, event.reply_to.map(|reply| reply.id)), (EventKind::Message, Some(id.clone())));
    let react = |sign: &str| wa::Message {
        reaction_message: MessageField::some(wa::message::ReactionMessage {
            key: MessageField::some(wa::MessageKey { id: Some(id.clone()), ..Default::default() }),
            text: Some(sign.into()),
            ..Default::default()
        }),
        ..Default::default()
    };
    for (sign, on) in [("👍", true), ("", false)] {
        fake.sends_to_group(BOB, GROUP, &react(sign));
        let event = adapter.stored();
        assert_eq!((event.kind, &event.emoji[..], event.on, &event.of), (EventKind::Reaction, "👍", on, &id));
    }
    // A deletion of another one's words is passed over, and the author's own is told.
    fake.sends_to_group(BOB, GROUP, &protocol(Type::REVOKE, &id, None));
    fake.sends_to_group(EVE, GROUP, &protocol(Type::REVOKE, &id, None));
    let event = adapter.stored();
    assert_eq!((event.kind, &event.of, &event.from.id[..]), (EventKind::Delete, &id, EVES));
}

#[test]
fn an_admin_deletes_the_words_of_others_and_nobody_by_the_mark_alone() {
    use wa::message::protocol_message::Type;
    let fake = world();
    fake.admin(EVE, GROUP);
    let mut adapter = Adapter::linked(&fake, json!({}));
    let (one, two) = (fake.writes_to_group(BOB, GROUP, "one"), fake.writes_to_group(EVE, GROUP, "two"));
    adapter.stored();
    adapter.stored();
    fake.sends_marked(BOB, GROUP, &protocol(Type::REVOKE, &two, None), "8");
    fake.sends_marked(EVE, GROUP, &protocol(Type::REVOKE, &one, None), "8");
    let event = adapter.stored();
    assert_eq!((event.kind, &event.of, &event.from.id[..]), (EventKind::Delete, &one, EVES));
    // A later life does not know yet who the admins are.
    let mut adapter = adapter.again(&[GROUPS]);
    adapter.hello();
    fake.sends_marked(BOB, GROUP, &protocol(Type::REVOKE, &two, None), "8");
    fake.sends_marked(EVE, GROUP, &protocol(Type::REVOKE, &one, None), "8");
    let event = adapter.stored();
    assert_eq!((event.kind, &event.of, &event.from.id[..]), (EventKind::Delete, &one, EVES));
}

#[test]
fn what_was_sent_is_changed_deleted_and_given_signs() {
    let fake = world();
    let mut adapter = Adapter::linked(&fake, json!({}));
    let theirs = fake.writes(EVE, "hello");
    adapter.stored();
    let done = adapter.sends(EVES, "a.1", json!({"text": "one"}));
    let ours = done.ids.unwrap().remove(0);
    fake.read(EVE);
    let mut amend = |change: serde_json::Value| {
        let mut order = json!({"op": "amend", "key": "a.2", "chat": EVES, "id": ours, "buttons": []});
        for (name, value) in change.as_object().unwrap() {
            order[name] = value.clone();
        }
        let r = adapter.order(order);
        let done = adapter.done(r);
        assert_eq!((done.ids, done.not, done.unknown), (Some(vec![]), None, None));
        fake.read(EVE).message
    };
    let edited = amend(json!({"text": "two"}));
    let edit =
        edited.edited_message.as_option().and_then(|outer| outer.message.as_option()).unwrap_or(&edited);
    let edit = edit.protocol_message.as_option().unwrap();
    assert_eq!(edit.key.as_option().unwrap().id.as_deref(), Some(&ours[..]));
    assert_eq!(edit.edited_message.as_option().unwrap().conversation.as_deref(), Some("two"));
    let sign = amend(json!({"id": theirs, "react": "👀"}));
    let sign = sign.reaction_message.as_option().unwrap();
    assert_eq!((sign.text.as_deref(), sign.key.as_option().unwrap().from_me), (Some("👀"), Some(false)));
    let gone = amend(json!({"delete": true}));
    assert_eq!(
        gone.protocol_message.as_option().unwrap().key.as_option().unwrap().id.as_deref(),
        Some(&ours[..])
    );
}

#[test]
fn files_go_both_ways_and_speech_is_speech() {
    let fake = world();
    let mut adapter = Adapter::linked(&fake, json!({}));
    let speech = b"OggS and so on".repeat(100);
    let sealed = encrypt_media(&speech, MediaType::Audio).unwrap();
    fake.file("/v/t62.7117-24/voice", sealed.data_to_upload.clone());
    let voice = wa::message::AudioMessage {
        direct_path: Some("/v/t62.7117-24/voice".into()),
        media_key: Some(sealed.media_key.to_vec()),
        file_sha256: Some(sealed.file_sha256.to_vec()),
        file_enc_sha256: Some(sealed.file_enc_sha256.to_vec()),
        file_length: Some(speech.len() as u64),
        mimetype: Some("audio/ogg; codecs=opus".into()),
        ptt: Some(true),
        seconds: Some(4),
        ..Default::default()
    };
    fake.sends(EVE, &wa::Message { audio_message: MessageField::some(voice), ..Default::default() });
    let event = adapter.stored();
    let told = &event.attachments[0];
    assert_eq!((told.kind, told.seconds), (Kind::Voice, Some(4)));
    // The length is what its sender says of it.
    let lies = told.fetch.as_ref().unwrap().replace(&format!("\"l\":{}", speech.len()), "\"l\":1");
    let r = adapter.order(json!({"op": "fetch", "chat": EVES, "what": lies, "most": 10}));
    let why = adapter.next("file", |up| match up {
        Up::Fetched { r: of, file: None, problem } if *of == r => problem.clone(),
        _ => None,
    });
    assert!(why.contains("more than 10 bytes"), "{why}");
    assert!(!adapter.dir().join(format!("spool/in/{r}")).exists());
    let mut fetch = |most: usize| {
        let r = adapter.order(json!({"op": "fetch", "chat": EVES, "what": told.fetch, "most": most}));
        adapter.next("file", |up| match up {
            Up::Fetched { r: of, file, problem } if *of == r => Some((file.clone(), problem.clone())),
            _ => None,
        })
    };
    assert!(fetch(10).1.unwrap().contains("bytes"));
    let (file, problem) = fetch(1 << 20);
    assert_eq!(problem, None);
    assert_eq!(std::fs::read(adapter.dir().join("spool").join(file.unwrap())).unwrap(), speech);
    // The other way: the account's file can be opened by what its message says.
    std::fs::write(adapter.dir().join("spool/out/1"), &speech).unwrap();
    let file = json!({"file": "out/1", "kind": "voice", "mime": "audio/ogg", "name": "a.ogg"});
    let done = adapter.sends(EVES, "a.1", json!({"text": "", "attachments": [file]}));
    assert!(done.ids.is_some(), "{done:?}");
    let read = fake.read(EVE).message;
    let sent = read.audio_message.as_option().unwrap();
    assert_eq!((sent.ptt, sent.mimetype.as_deref()), (Some(true), Some("audio/ogg; codecs=opus")));
    let path = sent.direct_path.clone().unwrap();
    let kept = fake.brought(&path);
    let bytes = |of: &Option<Vec<u8>>| of.clone().unwrap();
    let _ = DownloadParams::encrypted(
        path,
        &bytes(&sent.media_key),
        &bytes(&sent.file_sha256),
        &bytes(&sent.file_enc_sha256),
        sent.file_length.unwrap(),
        MediaType::Audio,
    );
    let opened = whatsapp_rust::wacore::download::DownloadUtils::decrypt_stream(
        &kept[..],
        &bytes(&sent.media_key),
        MediaType::Audio,
    )
    .unwrap();
    assert_eq!(opened, speech);
    std::fs::write(adapter.dir().join("spool/out/2"), b"%PDF").unwrap();
    let file = json!({"file": "out/2", "kind": "document", "mime": "application/pdf", "name": "plan.pdf", "caption": true});
    adapter.sends(EVES, "a.2", json!({"text": "the plan", "attachments": [file]}));
    let read = fake.read(EVE).message;
    let sent = read.document_message.as_option().or_else(|| {
        let outer = read.document_with_caption_message.as_option()?;
        outer.message.as_option()?.document_message.as_option()
    });
    let sent = sent.unwrap();
    assert_eq!((sent.file_name.as_deref(), sent.caption.as_deref()), (Some("plan.pdf"), Some("the plan")));
    let _ = base64::prelude::BASE64_STANDARD.encode("");
}

#[test]
fn typing_is_shown_and_marks_what_came_as_read() {
    let fake = world();
    let mut adapter = Adapter::linked(&fake, json!({}));
    let id = fake.writes(EVE, "hello");
    adapter.stored();
    fake.until_received(&id);
    adapter.say(&json!({"op": "show", "chat": EVES, "thread": "", "typing": true}));
    fake.told("read", &id);
    fake.told("composing", "");
    adapter.say(&json!({"op": "show", "chat": EVES, "thread": "", "typing": false}));
    fake.told("paused", "");
}

#[test]
fn a_person_is_one_by_number_and_other_id_and_their_chat_moves_to_the_number() {
    let fake = world();
    let mut adapter = Adapter::linked(&fake, json!({}));
    fake.by_lid(EVE, true);
    fake.writes(EVE, "by the other id");
    let event = adapter.stored();
    assert_eq!((&event.chat[..], &event.from.id[..]), (EVES, EVES));
    assert_eq!(event.from.also, [format!("9{EVE}@lid")]);
    fake.writes_to_group(EVE, GROUP, "here too");
    let event = adapter.stored();
    assert_eq!((&event.from.id[..], &event.from.also[..]), (EVES, &[format!("9{EVE}@lid")][..]));
    adapter.sends(EVES, "a.1", json!({"text": "hi"}));
    assert_eq!(fake.read(EVE).message.conversation.as_deref(), Some("hi"));
    // A chat that was known by the other id alone.
    let lid = format!("9{EVE}@lid");
    let mut adapter = adapter.again(&[&lid]);
    adapter.hello();
    fake.writes(EVE, "and now");
    let (n, from, to) = adapter.next("move", |up| match up {
        Up::ChatMoved { n, from, to } => Some((*n, from.clone(), to.clone())),
        _ => None,
    });
    assert_eq!((&from[..], &to[..]), (&lid[..], EVES));
    adapter.took(n);
    assert_eq!((adapter.stored().text, EVES), ("and now".into(), EVES));
}

#[test]
fn nobody_is_written_to_first_and_what_whatsapp_refuses_is_told() {
    let fake = world();
    let mut adapter = Adapter::linked(&fake, json!({}));
    let done = adapter.sends(BOBS, "a.1", json!({"text": "buy"}));
    assert!(matches!(done.not, Some(NotSent::Refused { hint, .. }) if hint.contains("answers_only")));
    let r = adapter.order(json!({"op": "open_dm", "user": BOBS}));
    let why = adapter.next("chat", |up| match up {
        Up::ChatOf { r: of, chat: None, why } if *of == r => Some(why.clone()),
        _ => None,
    });
    assert!(why.contains("answers_only"), "{why}");
    let gone = adapter.sends("120363000000000009@g.us", "a.2", json!({"text": "x"}));
    assert!(matches!(gone.not, Some(NotSent::Gone { .. })), "{gone:?}");
    fake.writes(EVE, "hello");
    adapter.stored();
    fake.refuses(EVES, 463);
    let done = adapter.sends(EVES, "a.3", json!({"text": "x"}));
    assert!(matches!(done.not, Some(NotSent::Refused { code, .. }) if code == "463"));
    let r = adapter.order(json!({"op": "list_chats"}));
    let chats = adapter.next("chats", |up| match up {
        Up::Chats { r: of, chats, .. } if *of == r => Some(chats.clone()),
        _ => None,
    });
    assert_eq!((chats.len(), &chats[0].name[..]), (1, "Garden"));
}

#[test]
fn a_text_whose_word_is_lost_is_unknown_and_never_sent_again_by_itself() {
    let fake = world();
    let mut adapter = Adapter::linked(&fake, json!({}));
    fake.writes(EVE, "hello");
    adapter.stored();
    fake.mutes();
    let r = adapter.order(json!({"op": "send", "key": "a.1", "chat": EVES, "text": "perhaps"}));
    fake.read(EVE);
    fake.hangs_up();
    let done = adapter.done(r);
    assert!(done.unknown.is_some(), "{done:?}");
}

#[test]
fn a_shared_number_tells_the_agents_words_by_its_name() {
    let fake = world();
    let mut adapter = Adapter::linked(&fake, json!({"shared_as": "Andy"}));
    fake.writes(EVE, "hello");
    adapter.stored();
    adapter.sends(EVES, "a.1", json!({"text": "hi"}));
    assert_eq!(fake.read(EVE).message.conversation.as_deref(), Some("Andy: hi"));
}

#[test]
fn what_can_not_be_read_is_asked_for_again_and_three_in_a_row_are_a_fault() {
    let fake = world();
    let mut adapter = Adapter::linked(&fake, json!({}));
    fake.writes(EVE, "hello");
    adapter.stored();
    adapter.state(Light::Ok);
    for _ in 0..3 {
        let id = fake.garbles(EVE);
        fake.told("retry", &id);
    }
    let state = adapter.next("inbound", |up| match up {
        Up::State(state) if state.inbound == Light::Failing => Some(state.clone()),
        _ => None,
    });
    assert!(state.transport == Light::Ok && state.hint.contains("web_version"), "{state:?}");
    // What a sender sends again is a message as any other, once.
    let id = fake.garbles_at_first(EVE, "now it can be read");
    fake.told("retry", &id);
    let event = adapter.stored();
    assert_eq!((event.id.as_str(), &event.text[..]), (&id[..], "now it can be read"));
    fake.new_phone(EVE);
    fake.writes(EVE, "a new phone");
    assert_eq!(adapter.stored().text, "a new phone");
    adapter.next("inbound", |up| match up {
        Up::State(state) if state.inbound == Light::Ok => Some(()),
        _ => None,
    });
}
