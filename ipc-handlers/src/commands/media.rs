//! `media`: shows a file of the group in a chat.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Command, Entry, Who, send_message::foreign_chat};
use crate::{
    Caller, Effect, Facts, Refusal, Wants,
    fields::Fields,
    file::{Attach, MediaKind},
    outbound::outbound,
};

/// The catalogue's line. `send_media` is the tool's name.
pub static ENTRY: Entry = Entry {
    type_name: "media",
    alias: Some("send_media"),
    who: Who::OwnChats,
    example: r#"{"type":"media","chatJid":"tg:-100123","filePath":"/workspace/group/chart.png","mediaType":"image","caption":"This week"}"#,
    read: |fields| Media::read(fields).map(Command::Media),
};

/// The fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Media {
    /// The chat's address.
    pub chat_jid: String,
    /// The file: `/workspace/group/…`, or relative to the group's folder.
    pub file_path: String,
    /// As what it is shown.
    pub media_type: MediaKind,
    /// The text with it; `<internal>` blocks are taken out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    /// Its media type, such as `image/png`, for a file whose contents do not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mimetype: Option<String>,
}

impl Media {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        fields.required("mediaType")?;
        Ok(Self {
            chat_jid: fields.name("chatJid")?,
            file_path: fields.name("filePath")?,
            media_type: fields.choice("mediaType", MediaKind::CHOICES)?,
            caption: fields.optional_text("caption")?,
            mimetype: fields.optional_name("mimetype")?,
        })
    }

    pub(crate) fn wants(&self, _caller: &Caller) -> Wants {
        Wants { chat: Some(self.chat_jid.clone()), ..Wants::default() }
    }

    /// Returns the one file.
    #[must_use]
    pub fn attach(&self) -> Attach {
        Attach {
            file_path: self.file_path.clone(),
            name: None,
            caption: None,
            media_type: Some(self.media_type),
            mimetype: self.mimetype.clone(),
        }
    }

    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        if !caller.is_main && !facts.is_own_chat(caller, &self.chat_jid) {
            return Err(foreign_chat("chatJid", &self.chat_jid, caller, facts));
        }
        let said = outbound(self.caption.as_deref().unwrap_or_default());
        Ok(vec![Effect::Say {
            chat_jid: self.chat_jid.clone(),
            text: said.text,
            unclosed: said.unclosed,
            sender: None,
            reply_to: None,
            attachments: vec![self.attach()],
        }])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Code,
        commands::testing::{ask, caller, refused},
    };

    fn chart() -> serde_json::Value {
        json!({"type": "media", "chatJid": "tg:-100", "filePath": "/workspace/group/a.png", "mediaType": "image"})
    }

    #[test]
    fn a_file_is_shown_in_a_chat_of_ones_own_with_what_of_its_caption_may_leave() {
        let mut command = chart();
        command["caption"] = "<internal>x</internal> here".into();
        let Effect::Say { text, attachments, .. } = ask(&caller("family"), &command).unwrap() else {
            panic!("says something");
        };
        assert_eq!(text, "here");
        assert_eq!(attachments[0].file_path, "/workspace/group/a.png");
        assert_eq!(attachments[0].media_type, Some(MediaKind::Image));
        command["chatJid"] = "dc:1".into();
        assert_eq!(refused(&caller("family"), &command), Code::NotAuthorized);
        assert!(ask(&caller("main"), &command).is_ok());
    }

    #[test]
    fn what_is_missing_or_no_kind_is_named() {
        for (field, value, code) in [
            ("filePath", json!(null), Code::MissingField),
            ("mediaType", json!(null), Code::MissingField),
            ("mediaType", json!("picture"), Code::InvalidField),
            ("filePath", json!("a\u{0}b"), Code::InvalidField),
            ("filePath", json!(""), Code::InvalidField),
            ("caption", json!(3), Code::InvalidField),
        ] {
            let mut command = chart();
            command[field] = value;
            assert_eq!(refused(&caller("family"), &command), code, "{command}");
        }
    }
}
