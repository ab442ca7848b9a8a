//! `send_message`: says something in a chat at once, while the run goes on.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Command, Entry, Who};
use crate::{
    Caller, Code, Effect, Facts, Refusal, Wants, fields::Fields, file::Attach, outbound::outbound,
    refusal::quoted,
};

/// The catalogue's line. `message` is v1's type.
pub static ENTRY: Entry = Entry {
    type_name: "send_message",
    alias: Some("message"),
    who: Who::OwnChats,
    example: r#"{"type":"send_message","chatJid":"tg:-100123","text":"On my way."}"#,
    read: |fields| SendMessage::read(fields).map(Command::SendMessage),
};

/// The fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendMessage {
    /// The chat's address.
    pub chat_jid: String,
    /// What to say; `<internal>` blocks are taken out. It may be left out where there are files.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(default)]
    pub text: String,
    /// The name to speak under, where the channel can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// The platform's id of the message that is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// Files that go with it, at most ten; the text may be left out then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub attachments: Vec<Attach>,
}

impl SendMessage {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let chat_jid = fields.name("chatJid")?;
        let attachments = Attach::read_all(fields)?;
        let text = match attachments.is_empty() {
            true => fields.text("text")?,
            false => fields.optional_text("text")?.unwrap_or_default(),
        };
        let command = Self {
            chat_jid,
            text,
            sender: fields.optional_text("sender")?,
            reply_to: fields.optional_text("replyTo")?,
            attachments,
        };
        if command.attachments.is_empty() && outbound(&command.text).text.is_empty() {
            return Err(
                fields.invalid("text", "has nothing to say outside <internal> blocks and white space")
            );
        }
        Ok(command)
    }

    pub(crate) fn wants(&self, _caller: &Caller) -> Wants {
        Wants { chat: Some(self.chat_jid.clone()), ..Wants::default() }
    }

    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        if !caller.is_main && !facts.is_own_chat(caller, &self.chat_jid) {
            return Err(foreign_chat("chatJid", &self.chat_jid, caller, facts));
        }
        let said = outbound(&self.text);
        Ok(vec![Effect::Say {
            chat_jid: self.chat_jid.clone(),
            text: said.text,
            unclosed: said.unclosed,
            sender: self.sender.clone(),
            reply_to: self.reply_to.clone(),
            attachments: self.attachments.clone(),
        }])
    }
}

/// Returns the refusal for a chat that is not the caller's; an unknown one reads the same.
pub(super) fn foreign_chat(field: &str, jid: &str, caller: &Caller, facts: &Facts) -> Refusal {
    Refusal::new(
        Code::NotAuthorized,
        format!("{field} {} is no chat of the group \"{}\"", quoted(jid), caller.group),
        own_chats_hint(facts),
    )
}

/// Returns the hint that names the caller's own chats, ten at most.
pub(super) fn own_chats_hint(facts: &Facts) -> String {
    if facts.own_chats.is_empty() {
        return "this group has no chats; the user can wire one with `g2 wirings add`".into();
    }
    let chats: Vec<_> = facts.own_chats.iter().take(10).map(|jid| quoted(jid)).collect();
    let more = if facts.own_chats.len() > 10 { ", …" } else { "" };
    format!("chats of this group: {}{more}", chats.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::testing::{ask, caller, refused};

    fn to(chat: &str) -> serde_json::Value {
        json!({"type": "send_message", "chatJid": chat, "text": "hi"})
    }

    #[test]
    fn a_group_speaks_in_its_own_chats_only() {
        for own in ["tg:-100", "tg:-101"] {
            let said = ask(&caller("family"), &to(own)).unwrap();
            assert_eq!(
                said,
                Effect::Say {
                    chat_jid: own.into(),
                    text: "hi".into(),
                    unclosed: false,
                    sender: None,
                    reply_to: None,
                    attachments: Vec::new(),
                }
            );
        }
        for foreign in ["local:main", "dc:1", "tg:-200", "tg:-999"] {
            assert_eq!(refused(&caller("family"), &to(foreign)), Code::NotAuthorized, "{foreign}");
        }
    }

    #[test]
    fn a_foreign_and_an_unknown_chat_are_refused_in_the_same_words() {
        let words = |chat: &str| {
            let refusal = ask(&caller("family"), &to(chat)).unwrap_err();
            (refusal.message.replace(chat, "X"), refusal.hint)
        };
        assert_eq!(words("dc:1"), words("tg:-999"));
        assert_eq!(words("dc:1").1, r#"chats of this group: "tg:-100", "tg:-101""#);
    }

    #[test]
    fn main_speaks_anywhere_in_unknown_chats_too() {
        for chat in ["local:main", "tg:-100", "dc:1", "tg:-200", "tg:-999"] {
            assert!(ask(&caller("main"), &to(chat)).is_ok(), "{chat}");
        }
    }

    #[test]
    fn internal_blocks_never_leave_the_host() {
        let text = |text: &str| json!({"type": "message", "chatJid": "tg:-100", "text": text});
        let Effect::Say { text: said, .. } =
            ask(&caller("family"), &text(" <internal>plan</internal> hello ")).unwrap()
        else {
            panic!("says something");
        };
        assert_eq!(said, "hello");
        for silent in ["<internal>a</internal>", " \n", "\u{feff}", ""] {
            assert_eq!(refused(&caller("family"), &text(silent)), Code::InvalidField, "{silent:?}");
        }
    }

    #[test]
    fn that_a_block_is_not_closed_is_known() {
        for (text, is) in [("a <internal>b", true), ("a <internal>b</internal>", false)] {
            let command = json!({"type": "message", "chatJid": "tg:-100", "text": text});
            let said = ask(&caller("family"), &command).unwrap();
            assert!(matches!(said, Effect::Say { unclosed, .. } if unclosed == is), "{said:?}");
        }
    }

    #[test]
    fn sender_and_reply_are_carried_and_empty_ones_are_none() {
        let mut command = to("tg:-100");
        command["sender"] = "Researcher".into();
        command["replyTo"] = "42".into();
        let Effect::Say { sender, reply_to, .. } = ask(&caller("family"), &command).unwrap() else {
            panic!("says something");
        };
        assert_eq!((sender.as_deref(), reply_to.as_deref()), (Some("Researcher"), Some("42")));
        command["sender"] = "".into();
        command["replyTo"] = 42.into();
        assert_eq!(refused(&caller("family"), &command), Code::InvalidField);
    }

    #[test]
    fn who_it_says_it_is_means_nothing() {
        let mut command = to("dc:1");
        command["groupFolder"] = "main".into();
        command["isMain"] = true.into();
        assert_eq!(refused(&caller("family"), &command), Code::NotAuthorized);
    }

    #[test]
    fn files_go_with_a_text_or_alone() {
        let mut command = to("tg:-100");
        let files = json!([{"filePath": "a.png"}, {"filePath": "b", "name": "B", "caption": "b<internal>x</internal>"}]);
        command["attachments"] = files;
        command["text"] = serde_json::Value::Null;
        let Effect::Say { text, attachments, .. } = ask(&caller("family"), &command).unwrap() else {
            panic!("says something");
        };
        assert_eq!((text.as_str(), attachments.len()), ("", 2));
        assert_eq!((attachments[1].shown_name(), attachments[1].caption.as_deref()), ("B", Some("b")));
        for bad in [json!("a.png"), json!(["a.png"]), json!([{"name": "a"}]), json!([{"filePath": 3}])] {
            command["attachments"] = bad.clone();
            let code = refused(&caller("family"), &command);
            assert!(matches!(code, Code::InvalidField | Code::MissingField), "{bad}");
        }
        command["attachments"] = vec![json!({"filePath": "a"}); 11].into();
        assert_eq!(refused(&caller("family"), &command), Code::InvalidField);
        command["attachments"] = json!([]);
        assert_eq!(refused(&caller("family"), &command), Code::MissingField, "neither text nor files");
    }

    #[test]
    fn a_missing_field_is_named() {
        assert_eq!(refused(&caller("main"), &json!({"type": "message", "text": "x"})), Code::MissingField);
        assert_eq!(refused(&caller("main"), &json!({"type": "message", "chatJid": "x"})), Code::MissingField);
        assert_eq!(
            refused(&caller("main"), &json!({"type": "message", "chatJid": "", "text": "x"})),
            Code::InvalidField
        );
        assert_eq!(
            refused(&caller("main"), &json!({"type": "message", "chatJid": "a\u{0}b", "text": "x"})),
            Code::InvalidField
        );
    }
}
