//! A message of a local chat on its way in.

use ipc_handlers::Time;
use serde::{Deserialize, Serialize};

use crate::{
    channels::Intake,
    domain::{
        heard::people::{BadSpeaker, check_speaker},
        rows::{Inbound, Quoted},
    },
    store::StoreError,
};

/// A message of more than this is refused, bytes.
pub const LONGEST_TEXT: usize = 4 << 20;
/// How many files go with a message.
pub const MOST_FILES: usize = 10;
/// The longest name of a chat, and the longest of all other words around a message, characters.
const LONGEST_WORD: usize = 512;

/// A message as a client hands it over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Incoming {
    pub chat: String,
    pub sender: String,
    pub text: String,
    /// What tells this event from every other of its chat: the same `key` again is the same event, and changes nothing.
    pub key: String,
    /// The message's id, as agents see it; absent: the key. An edited message is an event of its own (another key) with the
    /// id of the first one; so is a message whose id was given to another before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// When it was written, RFC 3339; absent: now. Order is never taken from it. A text that is no such instant is shown as
    /// `Invalid Date`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// As if the platform said that the agent was mentioned.
    #[serde(default)]
    pub mention: bool,
    #[serde(default)]
    pub thread: String,
    /// The id of the message that this one answers.
    #[serde(default)]
    pub reply_to: Option<String>,
    /// Names of files that go with it. They lie in `data/incoming/KEY/`, KEY the message's own, and are taken from there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// Why a message is not taken, in a sentence for its sender.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadMessage {
    #[error("the sender {0}")]
    Sender(#[from] BadSpeaker),
    #[error("{name} has {length} characters; at most {LONGEST_WORD} are taken")]
    LongWord { name: &'static str, length: usize },
    #[error("there is nothing in this message")]
    Empty,
    #[error("it has {0} files; at most {MOST_FILES} are taken")]
    ManyFiles(usize),
    #[error("the name of a file has 1 to 255 bytes, no slash and no control characters: {0:?}")]
    FileName(String),
    #[error("a message with files has a key of 1 to 64 letters, digits and dashes: it names their folder")]
    FilesKey,
    #[error("no files are taken here")]
    NoFiles,
    #[error("the message has {length} bytes; at most {LONGEST_TEXT} are taken")]
    Long { length: usize },
    #[error("{0:?} is no local chat; use local:NAME")]
    NoChat(String),
    #[error("the chat's name has {length} characters; at most {LONGEST_WORD} are taken")]
    LongChat { length: usize },
    /// No fault of the message's.
    #[error("the store can't be read")]
    Unread(#[source] StoreError),
}

/// Reads a message of a client.
///
/// # Errors
/// [`BadMessage`].
pub(super) async fn inbound(intake: &Intake, message: Incoming, now: Time) -> Result<Inbound, BadMessage> {
    check(&message)?;
    let replied = match &message.reply_to {
        Some(id) => intake.quoted(&message.chat, id).await.map_err(BadMessage::Unread)?,
        None => None,
    };
    let at = message.at.as_deref().map_or(Some(now), |text| text.parse().ok().map(Time::from_jiff));
    Ok(Inbound {
        chat_jid: message.chat,
        id: message.id.unwrap_or_else(|| message.key.clone()),
        replay_key: message.key,
        thread: message.thread,
        sender: format!("local:{}", message.sender),
        sender_name: message.sender,
        text: message.text,
        at,
        mentioned: message.mention,
        answered: replied.as_ref().map(Quoted::answered).unwrap_or_default(),
        reply_to_text: replied.as_ref().map(|quoted| quoted.text.clone()),
        reply_to_sender: replied.map(|quoted| quoted.sender_name),
        reply_to_id: message.reply_to,
        ..Inbound::default()
    })
}

fn check(message: &Incoming) -> Result<(), BadMessage> {
    check_chat(&message.chat)?;
    check_speaker(&message.sender)?;
    let words = [
        ("sender", Some(&message.sender)),
        ("key", Some(&message.key)),
        ("id", message.id.as_ref()),
        ("thread", Some(&message.thread)),
        ("reply_to", message.reply_to.as_ref()),
    ];
    for (name, word) in words {
        let length = word.map_or(0, |word| word.chars().count());
        if length > LONGEST_WORD {
            return Err(BadMessage::LongWord { name, length });
        }
    }
    check_files(message)?;
    if message.text.trim().is_empty() && message.files.is_empty() {
        return Err(BadMessage::Empty);
    }
    if message.text.len() > LONGEST_TEXT {
        return Err(BadMessage::Long { length: message.text.len() });
    }
    Ok(())
}

/// Files are names in a folder that is theirs alone.
fn check_files(message: &Incoming) -> Result<(), BadMessage> {
    if message.files.len() > MOST_FILES {
        return Err(BadMessage::ManyFiles(message.files.len()));
    }
    let is_name = |name: &str| {
        (1..=255).contains(&name.len())
            && !name.contains(|c: char| c == '/' || c.is_control())
            && ![".", ".."].contains(&name)
    };
    if let Some(name) = message.files.iter().find(|name| !is_name(name)) {
        return Err(BadMessage::FileName(name.chars().take(60).collect()));
    }
    let key = &message.key;
    let is_plain =
        (1..=64).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if message.files.is_empty() || is_plain { Ok(()) } else { Err(BadMessage::FilesKey) }
}

/// A chat of this channel has a name that can be stored and shown.
fn check_chat(chat: &str) -> Result<(), BadMessage> {
    let name = chat.strip_prefix("local:").unwrap_or_default();
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(BadMessage::NoChat(chat.to_owned()));
    }
    match chat.chars().count() {
        most if most <= LONGEST_WORD => Ok(()),
        length => Err(BadMessage::LongChat { length }),
    }
}
