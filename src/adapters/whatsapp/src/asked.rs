//! What the daemon asks for: texts, changes, signs of life, chats and files.

use adapter_kit::{Gone, Outcome};
use channel_protocol::{Amend, Chat, Fetch, Hint, NotSent, Send};
use whatsapp_rust::{
    Jid, RevokeType, SendOptions, UploadOptions,
    prelude::wa,
    types::{events::UnavailableType, message::AddressingMode},
    wacore_binary::JidExt as _,
};

use crate::{
    WhatsApp,
    acks::WITHIN,
    inbox::{Found, facts},
    link::{Again, News},
    media,
    net::{Bounded, LARGEST},
    out::{self, Quoted, id_of},
    places::{number, person, person_of},
};

/// How many files go out or come in at the same time.
pub(crate) const MOST_FILES: usize = 2;
/// How many groups are listed.
const MOST_LISTED: usize = 10_000;
const ONLY_ANSWERS: &str = "WhatsApp restricts accounts that write to persons first; the account's setting answers_only = false allows it";

impl WhatsApp {
    /// Returns the chat that an address names.
    fn spot(&self, address: &str) -> Result<Jid, Outcome> {
        self.places
            .chat(address)
            .ok_or_else(|| Outcome::refused("no_chat", format!("{address} is no chat of this account"), ""))
    }

    /// Whether the account may write to a chat: a group, or a person who has written.
    fn may_write(&self, chat: &Jid, address: &str) -> bool {
        let own = self.us.is(&person(chat));
        chat.is_group() || own || !self.settings.answers_only || self.known().has_written(address)
    }

    pub(crate) async fn say(&self, send: &Send) -> Result<Vec<String>, Outcome> {
        let chat = self.spot(&send.chat)?;
        if !self.may_write(&chat, &send.chat) {
            let why = format!("{} has not written to this account", number(&chat));
            return Err(Outcome::refused("answers_only", why, ONLY_ANSWERS));
        }
        // A file would be brought first, and each failure of that costs a try.
        if !self.client.is_logged_in() {
            return Err(Outcome::NotSent(NotSent::Offline));
        }
        let text = format!("{}{}", self.settings.mark(), send.text);
        let quoted = match &send.reply_to {
            Some(id) => self.quoted(&chat, &send.chat, id).await,
            None => None,
        };
        let message = match &send.attachments[..] {
            [] if send.text.trim().is_empty() => {
                return Err(Outcome::refused("empty", "there is nothing to send", ""));
            }
            [] => out::text(text, quoted),
            [file] => {
                let turn = self.files.acquire().await;
                let _turn = turn.map_err(|error| Outcome::refused("no_file", error.to_string(), ""))?;
                let place = self.spool.join(&file.file);
                let read = tokio::fs::read(place).await;
                let bytes = read.map_err(|error| Outcome::refused("no_file", error.to_string(), ""))?;
                if bytes.len() as u64 > LARGEST {
                    return Err(Outcome::refused(
                        "too_large",
                        "WhatsApp is given files of at most 100 MiB",
                        "",
                    ));
                }
                let kind = out::media_type(file.kind);
                let brought = self.client.upload(bytes, kind, UploadOptions::new()).await;
                // Without its text nobody sees the file.
                let brought = brought.map_err(|error| {
                    Outcome::NotSent(match self.client.is_logged_in() {
                        true => NotSent::Again { text: error.to_string() },
                        false => NotSent::Offline,
                    })
                })?;
                let caption = if send.text.is_empty() { String::new() } else { text };
                out::with_file(brought, file, caption, quoted)
            }
            _ => return Err(Outcome::refused("too_many", "a message of WhatsApp has one file", "")),
        };
        let id = id_of(&send.key);
        // Somebody may answer it before WhatsApp's word is here.
        if let Err(error) = self.known().note(&send.chat, &id, "", &send.text) {
            eprintln!("a text of our own can't be noted: {error}");
        }
        self.hand_over(&chat, &send.chat, &id, message).await?;
        Ok(vec![id])
    }

    /// Hands a text over, and waits for WhatsApp's word.
    async fn hand_over(
        &self,
        chat: &Jid,
        address: &str,
        id: &str,
        message: wa::Message,
    ) -> Result<(), Outcome> {
        if !self.client.is_logged_in() {
            return Err(Outcome::NotSent(NotSent::Offline));
        }
        let word = self.acks.wait_for(id);
        let mut options = SendOptions::default().with_message_id(id);
        let timer = self.known().timer(address);
        if let Some(seconds) = timer {
            options = options.with_ephemeral_expiration(seconds);
        }
        if let Err(error) = self.client.send_message_with_options(chat.clone(), message, options).await {
            self.acks.forget(id);
            return Err(out::not_sent(&error));
        }
        let word = tokio::time::timeout(WITHIN, word).await;
        self.acks.forget(id);
        match word {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(code))) => Err(out::refused(code, "", None)),
            Ok(Err(_)) => {
                Err(Outcome::Unknown("the connection broke before WhatsApp said that it has it".into()))
            }
            Err(_) => Err(Outcome::Unknown(format!(
                "WhatsApp did not say within {} s that it has it",
                WITHIN.as_secs()
            ))),
        }
    }

    /// Returns what an answer quotes. `None`: nobody knows any more who wrote it, so that the answer stands alone.
    async fn quoted(&self, chat: &Jid, address: &str, id: &str) -> Option<Quoted> {
        let note = self.known().of(address, id).cloned();
        let by = match &note {
            Some(note) if note.by.is_empty() => Some(self.us.number.clone()),
            Some(note) => person_of(&note.by),
            None if chat.is_group() => None,
            None => Some(chat.clone()),
        }?;
        let by = self.as_in(chat, by).await;
        Some(Quoted { id: id.to_owned(), by, text: note.map(|note| note.text).unwrap_or_default() })
    }

    /// Returns a person as a group addresses them.
    async fn as_in(&self, chat: &Jid, by: Jid) -> Jid {
        if !chat.is_group() || by.is_lid() {
            return by;
        }
        let by_lid = match self.client.groups().query_info(chat).await {
            Ok(info) => info.addressing_mode == AddressingMode::Lid,
            Err(_) => false,
        };
        if !by_lid {
            return by;
        }
        let known = self.client.get_lid_pn_entry(&by).await.ok().flatten();
        known.map_or(by, |known| Jid::lid(&*known.lid))
    }

    pub(crate) async fn change(&self, amend: &Amend) -> Result<Vec<String>, Outcome> {
        let chat = self.spot(&amend.chat)?;
        if !crate::said::is_id(&amend.id) {
            return Err(Outcome::refused(
                "no_message",
                format!("{} is no message of WhatsApp", amend.id),
                "",
            ));
        }
        if !self.client.is_logged_in() {
            return Err(Outcome::NotSent(NotSent::Offline));
        }
        let done = if amend.delete {
            self.client.revoke_message(chat, &*amend.id, RevokeType::Sender).await
        } else if let Some(sign) = &amend.react {
            let note = self.known().of(&amend.chat, &amend.id).cloned();
            let by = match note {
                Some(note) if note.by.is_empty() => None,
                Some(note) => person_of(&note.by),
                None if chat.is_group() => {
                    return Err(Outcome::refused(
                        "no_message",
                        "nobody knows any more who wrote this message",
                        "",
                    ));
                }
                None => Some(chat.clone()),
            };
            let by = match by {
                Some(by) => Some(self.as_in(&chat, by).await),
                None => None,
            };
            let key = out::key(&chat, &amend.id, by.as_ref());
            self.client.send_reaction(chat, key, sign).await.map(|_| ())
        } else {
            let text = format!("{}{}", self.settings.mark(), amend.text.clone().unwrap_or_default());
            self.client.edit_message(chat, &*amend.id, out::text(text, None)).await.map(|_| ())
        };
        // A change that may or may not have arrived is made again: it is the same afterwards.
        match done.map_err(|error| out::not_sent(&error)) {
            Ok(()) => Ok(Vec::new()),
            Err(Outcome::Unknown(text)) => Err(Outcome::NotSent(NotSent::Again { text })),
            Err(outcome) => Err(outcome),
        }
    }

    /// Shows that the agent writes; then it has read what stands before that.
    pub(crate) async fn type_in(&self, hint: &Hint) {
        let Ok(chat) = self.spot(&hint.chat) else { return };
        if !self.client.is_logged_in() || !self.may_write(&chat, &hint.chat) {
            return;
        }
        let unread =
            if self.settings.read_receipts { self.known().take_unread(&hint.chat) } else { Vec::new() };
        for (chat, by, ids) in unread {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let by = chat.is_group().then_some(&by);
            if let Err(error) = self.client.mark_as_read(&chat, by, &ids).await {
                eprintln!("messages can't be marked as read: {error}");
            }
        }
        let shown = if hint.typing {
            self.client.chatstate().send_composing(&chat).await
        } else {
            self.client.chatstate().send_paused(&chat).await
        };
        if let Err(error) = shown {
            eprintln!("a sign of life can't be shown: {error}");
        }
    }

    /// Returns the address of the chat with a person.
    pub(crate) fn direct(&self, user: &str) -> Result<String, String> {
        let Some(jid) = person_of(user) else { return Err(format!("{user} is no person of WhatsApp")) };
        let address = self.places.address(&jid);
        match self.may_write(&jid, &address) {
            true => Ok(address),
            false => Err(format!("{} has not written to this account. {ONLY_ANSWERS}", number(&jid))),
        }
    }

    pub(crate) async fn groups(&self) -> Result<Vec<Chat>, String> {
        let all = self.client.groups().get_participating().await.map_err(|error| error.to_string())?;
        let told = all.values().take(MOST_LISTED);
        Ok(told
            .map(|group| facts(&self.places, &group.id, &group.subject, group.participants.len()))
            .collect())
    }

    /// Asks for the facts about a group, and tells them.
    pub(crate) async fn facts(&self, group: &Jid) -> Result<(), Gone> {
        let found = match self.client.groups().get_metadata(group).await {
            Ok(found) => {
                let admins = found.participants.iter().filter(|one| one.is_admin());
                let ids =
                    admins.flat_map(|one| [Some(&one.jid), one.phone_number.as_ref(), one.lid.as_ref()]);
                Some(Found {
                    admins: ids.flatten().map(person).collect(),
                    chat: facts(&self.places, group, &found.subject, found.participants.len()),
                })
            }
            Err(error) => {
                eprintln!("WhatsApp does not tell what a group is called: {error}");
                None
            }
        };
        self.inbox.about(group, found).await
    }

    /// Tells what WhatsApp does not keep for us.
    pub(crate) async fn hear_again(&self, again: Again) -> Result<(), Gone> {
        match again {
            Again::Recovered(message) => self.inbox.take(&self.client, &[message]).await,
            Again::ShownOnce(info) => {
                self.inbox.unread(&info, "a message that is shown once is shown on the phone alone").await
            }
        }
    }

    /// Works on what is no message.
    pub(crate) async fn hear(&self, news: News) -> Result<(), Gone> {
        match news {
            News::Group(group) => self.inbox.ask_anew(&group),
            News::Moved { old, new, lid } => self.inbox.has_moved(&old, &new, lid.as_ref()).await?,
            News::Unreadable(UnavailableType::Bot) => {}
            // WhatsApp asks its sender for it again.
            News::Unreadable(_) => self.inbox.not_read(),
        }
        Ok(())
    }

    pub(crate) async fn get(&self, what: &Fetch) -> Result<String, String> {
        let ticket = media::ticket(&what.what, what.most.min(LARGEST))?;
        let _turn = self.files.acquire().await.map_err(|error| error.to_string())?;
        let name = format!("in/{}", what.r);
        let path = self.spool.join(&name);
        let opened = async {
            tokio::fs::create_dir_all(path.parent().unwrap_or(&path)).await?;
            Ok(tokio::fs::File::create(&path).await?.into_std().await)
        };
        let file = opened.await.map_err(|error: std::io::Error| error.to_string())?;
        // The length that its message names is its sender's to choose.
        let bounded = Bounded::new(file, what.most.min(LARGEST));
        match self.client.download_from_params_to_writer(&ticket, bounded).await {
            Ok(_) => Ok(name),
            Err(error) => {
                if let Err(error) = tokio::fs::remove_file(&path).await {
                    eprintln!("a part of a file can't be removed: {error}");
                }
                Err(format!("WhatsApp does not give the file: {error:#}"))
            }
        }
    }
}
