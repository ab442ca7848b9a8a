//! What of the Bot API's objects is read. Everything may be missing, and what is not known is ignored.

use serde::Deserialize;

/// Something that happened.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Update {
    pub(super) update_id: i64,
    pub(super) message: Option<Box<Message>>,
    pub(super) edited_message: Option<Box<Message>>,
    pub(super) channel_post: Option<Box<Message>>,
    pub(super) edited_channel_post: Option<Box<Message>>,
    pub(super) callback_query: Option<Box<Press>>,
    pub(super) message_reaction: Option<Box<Reacted>>,
    pub(super) my_chat_member: Option<Box<Member>>,
}

/// The kinds of updates that are asked for.
pub(super) const KINDS: [&str; 7] = [
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
    "message_reaction",
    "my_chat_member",
];

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct User {
    pub(super) id: i64,
    pub(super) is_bot: bool,
    pub(super) first_name: String,
    pub(super) last_name: Option<String>,
    pub(super) username: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chat {
    pub(super) id: i64,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) title: Option<String>,
    pub(super) username: Option<String>,
    pub(super) first_name: Option<String>,
    pub(super) last_name: Option<String>,
    pub(super) is_forum: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub(super) message_id: i64,
    pub(super) message_thread_id: Option<i64>,
    pub(super) is_topic_message: bool,
    pub(super) from: Option<User>,
    pub(super) sender_chat: Option<Chat>,
    pub(super) date: i64,
    pub(super) edit_date: Option<i64>,
    pub(super) chat: Chat,
    pub(super) forward_origin: Option<Origin>,
    pub(super) reply_to_message: Option<Box<Message>>,
    pub(super) quote: Option<Quote>,
    pub(super) media_group_id: Option<String>,
    pub(super) text: Option<String>,
    pub(super) entities: Vec<Entity>,
    pub(super) caption: Option<String>,
    pub(super) caption_entities: Vec<Entity>,
    pub(super) photo: Vec<File>,
    pub(super) animation: Option<File>,
    pub(super) audio: Option<File>,
    pub(super) document: Option<File>,
    pub(super) video: Option<File>,
    pub(super) video_note: Option<File>,
    pub(super) voice: Option<File>,
    pub(super) sticker: Option<Sticker>,
    pub(super) location: Option<Location>,
    pub(super) venue: Option<Venue>,
    pub(super) contact: Option<Contact>,
    pub(super) poll: Option<Poll>,
    pub(super) dice: Option<Dice>,
    pub(super) migrate_to_chat_id: Option<i64>,
    pub(super) migrate_from_chat_id: Option<i64>,
    pub(super) forum_topic_created: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entity {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) offset: usize,
    pub(super) length: usize,
    pub(super) user: Option<User>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Quote {
    pub(super) text: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Origin {
    pub(super) sender_user: Option<User>,
    pub(super) sender_user_name: Option<String>,
    pub(super) sender_chat: Option<Chat>,
    pub(super) chat: Option<Chat>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct File {
    pub(super) file_id: String,
    pub(super) file_size: Option<u64>,
    pub(super) file_name: Option<String>,
    pub(super) mime_type: Option<String>,
    pub(super) duration: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sticker {
    pub(super) emoji: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Location {
    pub(super) latitude: f64,
    pub(super) longitude: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Venue {
    pub(super) title: String,
    pub(super) address: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Contact {
    pub(super) first_name: String,
    pub(super) last_name: Option<String>,
    pub(super) phone_number: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Poll {
    pub(super) question: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Dice {
    pub(super) emoji: String,
    pub(super) value: u32,
}

/// A button was pressed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Press {
    pub(super) id: String,
    pub(super) from: User,
    pub(super) message: Option<Box<Message>>,
    pub(super) data: Option<String>,
}

/// Somebody changed their reactions to a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reacted {
    pub(super) chat: Chat,
    pub(super) message_id: i64,
    pub(super) user: Option<User>,
    pub(super) actor_chat: Option<Chat>,
    pub(super) date: i64,
    pub(super) old_reaction: Vec<Reaction>,
    pub(super) new_reaction: Vec<Reaction>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Reaction {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) emoji: String,
    pub(super) custom_emoji_id: String,
}

/// The account was let into a chat, or put out of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Member {
    pub(super) chat: Chat,
}
