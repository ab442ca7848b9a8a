//! From the mailbox to the host: each mail is told in order, and the mailbox hears that it was read once the host has stored it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use channel_protocol::{Chat, ChatKind, Event, EventKind, From, Mention, ReplyTo, Start};
use tokio::time::Instant;

use super::{
    addresses,
    imap::{Imap, Raw, Stand},
    notes::Notes,
    read::{self, Mail, Read},
    settings::Settings,
    tries::Tries,
    trouble::{Standing, Trouble, line},
};
use crate::kit::{Gone, Host, Rest, Unread};

/// How long a server is waited for to tell of new mails, until it is asked again: it may forget us after half an hour, and what
/// lies between us sooner.
const IDLE: Duration = Duration::from_secs(9 * 60);
/// How often a server is asked that tells nothing by itself.
const POLL: Duration = Duration::from_secs(60);
/// How many mails are marked as read at once.
const TOGETHER: usize = 20;
/// The name of the place in the mailbox in the daemon's store.
const PLACE: &str = "uid";

/// Why a connection ended.
pub(super) enum Ended {
    Gone,
    Trouble(Trouble),
}

impl std::convert::From<Gone> for Ended {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl std::convert::From<Trouble> for Ended {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// What a mail is to the host.
enum Told {
    Event(Box<Event>),
    /// It broke its reader, and so would each time.
    Unread,
    Nothing,
}

/// Where we stand in the mailbox.
pub(super) struct Inbox {
    settings: Arc<Settings>,
    prefix: String,
    place: Option<Stand>,
    notes: Arc<Mutex<Notes>>,
    tries: Arc<Tries>,
    unread: Unread,
}

/// Reads the place that the daemon kept.
fn place(text: &str) -> Option<Stand> {
    let (validity, next) = text.split_once(':')?;
    Some(Stand { validity: validity.parse().ok()?, next: next.parse().ok()? })
}

fn cursor(stand: Stand) -> BTreeMap<String, String> {
    BTreeMap::from([(PLACE.to_owned(), format!("{}:{}", stand.validity, stand.next))])
}

impl Inbox {
    pub(super) fn new(
        settings: Arc<Settings>,
        start: &Start,
        notes: Arc<Mutex<Notes>>,
        tries: Arc<Tries>,
    ) -> Self {
        Self {
            settings,
            prefix: start.prefix.clone(),
            place: start.cursor.get(PLACE).and_then(|text| place(text)),
            notes,
            tries,
            unread: Unread::of(start),
        }
    }

    /// Tells what comes until the connection ends. A connection that was of use makes the next rest a short one.
    pub(super) async fn attend(
        &mut self,
        mut imap: Imap,
        account: &super::Mail,
        rest: &mut Rest,
    ) -> Result<(), Ended> {
        let host = &account.host;
        let open = imap.open(&self.settings.folder).await?;
        self.find_place(open, host).await?;
        self.catch_up(&mut imap, host, true, rest).await?;
        account.light(|lights| lights.inward = Standing::Ok).await?;
        loop {
            if imap.idles() {
                imap = imap.idle(IDLE).await?;
            } else {
                tokio::time::sleep(POLL).await;
            }
            *rest = Rest::default();
            self.catch_up(&mut imap, host, false, rest).await?;
        }
    }

    /// Goes on where we were. A mailbox that is new to us begins with the next mail.
    async fn find_place(&mut self, open: Stand, host: &Host) -> Result<(), Gone> {
        let unread = match self.place {
            Some(place) if place.validity == open.validity => return Ok(()),
            // Numbers of before mean other mails now.
            Some(_) => {
                "the server has numbered the mailbox anew: mails that came since the last one are not told"
            }
            None => "",
        };
        self.place = Some(open);
        let event = Event {
            kind: EventKind::Nothing,
            unread: unread.into(),
            cursor: cursor(open),
            ..Event::default()
        };
        host.event(event).await
    }

    async fn catch_up(
        &mut self,
        imap: &mut Imap,
        host: &Host,
        late: bool,
        rest: &mut Rest,
    ) -> Result<(), Ended> {
        let Some(mut place) = self.place else { return Ok(()) };
        loop {
            let new = imap.after(place.next).await?;
            if new.is_empty() {
                return Ok(());
            }
            for some in new.chunks(TOGETHER) {
                let mut seen = Vec::new();
                let mut is_stored = true;
                for uid in some {
                    let read = match imap.read(*uid).await {
                        Err(Trouble::Unread) => {
                            self.pass_over(*uid, host).await?;
                            return Err(Trouble::Unread.into());
                        }
                        read => read?,
                    };
                    self.unread.read();
                    place.next = uid.saturating_add(1);
                    let told = match read {
                        Some(raw) => self.told(raw, place, late).await,
                        None => Told::Nothing,
                    };
                    is_stored = match told {
                        Told::Event(event) => {
                            host.event(*event).await?;
                            seen.push(*uid);
                            *rest = Rest::default();
                            true
                        }
                        Told::Unread => {
                            let unread = format!("mail {uid} is of a form that nobody can read");
                            let cursor = cursor(place);
                            let event =
                                Event { kind: EventKind::Nothing, unread, cursor, ..Event::default() };
                            host.event(event).await?;
                            true
                        }
                        Told::Nothing => false,
                    };
                    self.place = Some(place);
                }
                if !is_stored {
                    host.event(Event { kind: EventKind::Nothing, cursor: cursor(place), ..Event::default() })
                        .await?;
                }
                if self.settings.mark_seen {
                    match imap.seen(&seen).await {
                        // A mailbox that is only to be read is read all the same.
                        Err(Trouble::No(why)) => eprintln!("mails can't be marked as read: {why}"),
                        marked => marked?,
                    }
                }
            }
        }
    }

    /// A mail that nobody can read is tried for a while, and then passed over.
    async fn pass_over(&mut self, uid: u32, host: &Host) -> Result<(), Gone> {
        let (Some(place), true) = (&mut self.place, self.unread.again(Instant::now())) else { return Ok(()) };
        place.next = uid.saturating_add(1);
        let unread = format!("the server's answer about mail {uid} can't be read");
        let event = Event { kind: EventKind::Nothing, unread, cursor: cursor(*place), ..Event::default() };
        host.event(event).await?;
        self.unread.read();
        Ok(())
    }

    /// Reads a mail, and notes in the log what is not told of it.
    async fn told(&self, raw: Raw, place: Stand, late: bool) -> Told {
        let (uid, at, settings) = (raw.uid, raw.at.clone(), Arc::clone(&self.settings));
        let name = (place.validity, uid);
        let read = self.tries.read(name, move || read::mail(&raw, name.0, &settings)).await;
        match read {
            None => Told::Unread,
            Some(Read::Mail(mail)) => {
                if !mail.proven {
                    eprintln!("the sender of mail {uid} counts as a stranger: {}", mail.doubt);
                }
                Told::Event(Box::new(Event { at, ..self.event(&mail, place, late) }))
            }
            Some(Read::Nothing(why)) => {
                eprintln!("mail {uid} is passed over: {}", line(&why));
                Told::Nothing
            }
        }
    }

    /// Returns the event that a mail is.
    fn event(&self, mail: &Mail, place: Stand, late: bool) -> Event {
        let id = addresses::id(&mail.address, mail.proven);
        let chat = format!("{}:{id}", self.prefix);
        let mut cursor = cursor(place);
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        cursor.extend(notes.told(&chat, mail, self.settings.reply_all));
        Event {
            key: mail.id.clone(),
            cursor,
            kind: EventKind::Message,
            thread: mail.thread.clone(),
            id: mail.id.clone(),
            late,
            from: From { id, name: mail.name.clone(), handle: mail.address.clone(), ..From::default() },
            text: mail.text.clone(),
            // Anybody may have written it: it is no command, answers no question and proves no code.
            forwarded_from: (!mail.proven).then(|| mail.address.clone()),
            title: mail.subject.clone(),
            references: mail.references.clone(),
            mention: Mention::Unknown,
            reply_to: mail.answers_ours.clone().map(|id| ReplyTo { id, myself: true, ..ReplyTo::default() }),
            attachments: mail.files.clone(),
            about: Some(Chat {
                chat: chat.clone(),
                name: if mail.proven { mail.name.clone() } else { format!("{} (unproven)", mail.address) },
                kind: ChatKind::Direct,
                threaded: true,
                ..Chat::default()
            }),
            chat,
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let stand = Stand { validity: 7, next: 12 };
        assert_eq!(place(&cursor(stand)[PLACE]), Some(stand));
        for bad in ["", "7", "7:x", ":1", "7:-1"] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }
}
