//! Mail: one mailbox, by IMAP in and SMTP out. `docs/mail.md` is the page for people.
//!
//! A chat is a person: `mail:ada@example.org`. A thread of mails is a thread of that chat. A sender for whom no named server vouches
//! is somebody else: `mail:unproven:ada@example.org`.
//!
//! A copy of each mail of ours lies in the folder of what was sent before the mail is handed over, as a draft; afterwards it is one no
//! more. So the folder says what became of a mail:
//!
//! | the copy | the mail |
//! |---|---|
//! | is there | was handed over |
//! | is there as a draft | nobody knows |
//! | is not there | was not handed over |
//!
//! A server that keeps copies by itself does so once it has the mail, and in its own time: where there is no copy, nobody knows.
#![expect(clippy::disallowed_methods, reason = "the adapter reads its own spool and the clock")]

mod addresses;
mod html;
mod imap;
mod inbox;
mod net;
mod notes;
mod proof;
mod read;
mod said;
mod settings;
mod smtp;
mod tries;
mod trouble;
mod write;

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher as _, Hasher as _},
    path::PathBuf,
    sync::{Arc, PoisonError},
    time::{Duration, SystemTime},
};

use channel_protocol::{
    Addresses, Can, Fetch, Format, Hello, LookFor, Media, Myself, Scope, Send, SentTwice, Start, TextLimit,
    Unit,
};
use futures_util::future::BoxFuture;
use tokio::{
    sync::{Mutex, Semaphore},
    time::Instant,
};

use crate::kit::{Adapter, Doubt, Ended, Gone, Host, Look, Outcome, Rest};
use imap::{Copy, Imap};
use inbox::Inbox;
use notes::Notes;
use read::Wanted;
use settings::{Sent, Settings};
use smtp::Handed;
use tries::Tries;
use trouble::{Standing, Trouble};

/// The longest text, characters.
const LONGEST: usize = 100_000;
/// The files of one mail, bytes: servers give mails 25 MB, of which a third is lost to their form.
const LARGEST: u64 = 18 << 20;
/// How many files go with a mail.
const MOST_FILES: usize = 10;
/// For how long a mail is looked for: the host waits a little longer.
const LOOKED_FOR: Duration = Duration::from_secs(50);
/// How long the way out may take to be tried at the start.
const CHECKED: Duration = Duration::from_secs(20);
/// How many connections there are at once beside the one that listens.
const MOST_DESKS: usize = 3;

/// One mailbox.
pub struct Mail {
    host: Host,
    settings: Arc<Settings>,
    prefix: String,
    spool: PathBuf,
    notes: Arc<std::sync::Mutex<Notes>>,
    tries: Arc<Tries>,
    inbox: Mutex<Inbox>,
    first: std::sync::Mutex<Option<Imap>>,
    doubt: Mutex<Doubt>,
    lights: Mutex<Lights>,
    desks: Semaphore,
}

/// How both directions stand.
#[derive(Default)]
struct Lights {
    inward: Standing,
    outward: Standing,
}

/// Logs in and says who we are.
///
/// # Errors
/// Why that failed; where a person has to do something, the host has been told.
pub async fn connect(start: Start, host: Host) -> Result<Arc<Mail>, String> {
    let refuse = async |why: String, hint: &str| {
        host.state(trouble::refused(why.clone(), hint)).await.map_err(|gone| gone.to_string())?;
        Err(why)
    };
    let settings = match Settings::read(&start.config) {
        Ok(settings) => Arc::new(settings),
        Err(unfit) => {
            let hint =
                format!("mend it in g2.toml, [channels.{}]; docs/mail.md has the settings", start.instance);
            return refuse(unfit.to_string(), &hint).await;
        }
    };
    let (mut rest, mut doubt) = (Rest::default(), Doubt::of(&start));
    let first = loop {
        let error = match Imap::log_in(&settings).await {
            Ok(imap) => break imap,
            Err(error) => error,
        };
        if matches!(error, Trouble::Denied(_)) && doubt.denied(Instant::now()) {
            return refuse(format!("imap: {error}"), error.hint()).await;
        }
        let waits = Standing::Waiting(format!("imap: {error}"));
        host.state(trouble::state(&waits, &Standing::Ok)).await.map_err(|gone| gone.to_string())?;
        tokio::time::sleep(spread(rest.next(None))).await;
    };
    doubt.known();
    // Mails come in without a way out, too.
    let checked = tokio::time::timeout(CHECKED, smtp::check(&settings)).await;
    let outward = match checked.unwrap_or_else(|_| Err(Trouble::Away("it does not answer".into()))) {
        Ok(()) => Standing::Ok,
        Err(error @ Trouble::Denied(_)) if start.cursor.is_empty() => {
            return refuse(format!("smtp: {error}"), error.hint()).await;
        }
        Err(error) => Standing::Failing { why: format!("smtp: {error}"), hint: error.hint() },
    };
    if settings.authserv.is_empty() {
        eprintln!("authserv names no server: nobody vouches for senders, so each of them is a stranger");
    }
    host.hello(hello(&settings)).await.map_err(|gone| gone.to_string())?;
    let notes = Arc::new(std::sync::Mutex::new(Notes::read(&start.cursor)));
    let tries = Arc::new(Tries::of(&start.state_dir));
    Ok(Arc::new(Mail {
        inbox: Mutex::new(Inbox::new(Arc::clone(&settings), &start, Arc::clone(&notes), Arc::clone(&tries))),
        tries,
        host,
        settings,
        prefix: start.prefix,
        spool: PathBuf::from(&start.spool),
        notes,
        first: std::sync::Mutex::new(Some(first)),
        doubt: Mutex::new(doubt),
        lights: Mutex::new(Lights {
            inward: Standing::Waiting("reading what came meanwhile".into()),
            outward,
        }),
        desks: Semaphore::new(MOST_DESKS),
    }))
}

fn hello(settings: &Settings) -> Hello {
    let name = if settings.name.is_empty() { &settings.address } else { &settings.name };
    Hello {
        adapter: concat!("g2-channels mail ", env!("CARGO_PKG_VERSION")).into(),
        myself: Myself { id: settings.address.clone(), name: name.clone(), handle: settings.address.clone() },
        // Words, and the same as HTML.
        text: TextLimit { max: LONGEST, unit: Unit::Chars, format: Format::Matrix },
        caption_max: LONGEST,
        sent_twice: SentTwice::Readback,
        can: vec![Can::Threads, Can::Reply, Can::MediaIn, Can::MediaOut, Can::OpenDm],
        media: Media { out_max: LARGEST, in_max: imap::LARGEST, together: MOST_FILES },
        addresses: Some(Addresses { direct: ".*".into(), ..Addresses::default() }),
        ..Hello::default()
    }
}

/// Returns a wait that is made longer by a random part of a half: many adapters do not come back at the same moment.
fn spread(wait: Duration) -> Duration {
    let chance = RandomState::new().build_hasher().finish();
    let half = u64::try_from(wait.as_millis() / 2).unwrap_or(u64::MAX).max(1);
    wait + Duration::from_millis(chance % half)
}

impl Mail {
    /// Changes the lights, and says so.
    async fn light(&self, change: impl FnOnce(&mut Lights)) -> Result<(), Gone> {
        let mut lights = self.lights.lock().await;
        change(&mut lights);
        let mut state = trouble::state(&lights.inward, &lights.outward);
        if state.why.is_empty() && self.settings.authserv.is_empty() {
            state.why = "authserv names no server, so each sender counts as a stranger".into();
            state.hint = "docs/mail.md says how to find the name of the server that checks senders".into();
        }
        self.host.state(state).await
    }

    /// Listens until the host is gone, or the server wants no more of us.
    async fn listen(&self) -> Ended {
        let mut inbox = self.inbox.lock().await;
        let mut rest = Rest::default();
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        loop {
            let connected = match first.take() {
                Some(imap) => Ok(imap),
                None => Imap::log_in(&self.settings).await,
            };
            let error = match connected {
                Ok(imap) => {
                    self.doubt.lock().await.known();
                    match inbox.attend(imap, self, &mut rest).await {
                        Ok(()) => Trouble::Lost("it ended".into()),
                        Err(inbox::Ended::Gone) => return Ended::Left,
                        Err(inbox::Ended::Trouble(error)) => error,
                    }
                }
                Err(error) => error,
            };
            let why = format!("imap: {error}");
            if matches!(error, Trouble::Denied(_)) && self.doubt.lock().await.denied(Instant::now()) {
                return match self.host.state(trouble::refused(why.clone(), error.hint())).await {
                    Ok(()) => Ended::Failed(why),
                    Err(Gone) => Ended::Left,
                };
            }
            if self.light(|lights| lights.inward = Standing::Waiting(why)).await.is_err() {
                return Ended::Left;
            }
            tokio::time::sleep(spread(rest.next(None))).await;
        }
    }

    /// Returns the person that a chat is, and the address that their mails come from.
    fn person(&self, chat: &str) -> Result<String, Outcome> {
        let id = chat.strip_prefix(&self.prefix[..]).and_then(|rest| rest.strip_prefix(':'));
        id.and_then(addresses::of_id)
            .ok_or_else(|| Outcome::refused("no_address", format!("{chat} is no address of mail"), ""))
    }

    async fn say(&self, send: &Send) -> Result<Vec<String>, Outcome> {
        let to = self.person(&send.chat)?;
        if !send.thread.is_empty() && !read::is_thread(&send.thread) {
            return Err(Outcome::refused("no_thread", format!("{} is no thread of mails", send.thread), ""));
        }
        let note =
            self.notes.lock().unwrap_or_else(PoisonError::into_inner).of(&send.chat, &send.thread).cloned();
        let id = read::own_id(&send.key, &send.thread, self.settings.domain());
        let answered = send.reply_to.as_deref().filter(|id| id.contains('@') && id.len() <= read::LONGEST_ID);
        let copies = note
            .as_ref()
            .filter(|_| self.settings.reply_all)
            .map(|note| note.others.clone())
            .unwrap_or_default();
        let mail = write::write(write::Draft {
            settings: &self.settings,
            id: &id,
            to: &to,
            thread: note.as_ref(),
            answered,
            copies: &copies,
            text: &send.text,
            html: send.html.as_deref(),
            files: self.files(send).await?,
            said_as: send.said_as.as_deref(),
            now: SystemTime::now(),
        })
        .map_err(|why| Outcome::refused("unfit", why, ""))?;
        let everybody: Vec<&str> = [&to[..]].into_iter().chain(copies.iter().map(String::as_str)).collect();
        self.hand_over(&id, &everybody, &mail).await
    }

    /// Keeps a copy of a mail as a draft, hands the mail over, and makes the copy one of a mail that was sent.
    async fn hand_over(&self, id: &str, to: &[&str], mail: &[u8]) -> Result<Vec<String>, Outcome> {
        let (mut desk, copy) = match self.copied(id, mail).await {
            Ok(copied) => copied,
            Err(error) => {
                let why = format!("a mail waits, for no copy of it can be kept: imap: {error}");
                self.outward(Standing::Failing { why, hint: error.hint() }).await;
                return Err(Outcome::busy(Some(smtp::AWAY_MS), Scope::Account));
            }
        };
        if copy == Copy::Sent {
            desk.leave().await;
            return Ok(vec![id.to_owned()]);
        }
        let handed = smtp::hand_over(&self.settings, to, mail).await;
        let outcome = handed.outcome(id);
        if let Copy::Draft(uid) = copy {
            let kept = match (&handed, &outcome) {
                (Handed::Over, _) => desk.handed_over(uid).await,
                (_, Outcome::NotSent(channel_protocol::NotSent::Refused { .. })) => desk.drop_copy(uid).await,
                _ => Ok(()),
            };
            if let Err(error) = kept {
                eprintln!("the copy of a mail in the folder of what was sent stays a draft: {error}");
            }
        }
        desk.leave().await;
        let outward = match &handed {
            Handed::Kept(error) => Standing::Failing { why: format!("smtp: {error}"), hint: error.hint() },
            Handed::Over | Handed::Refused { .. } | Handed::Unknown(_) => Standing::Ok,
        };
        self.outward(outward).await;
        match outcome {
            Outcome::Sent(ids) => Ok(ids),
            other => Err(other),
        }
    }

    /// Sees to it that a copy of a mail lies in the folder of what was sent.
    async fn copied(&self, id: &str, mail: &[u8]) -> Result<(Imap, Copy), Trouble> {
        let mut desk = Imap::log_in(&self.settings).await?;
        let sent = if desk.keeps_sent() { Sent::None } else { self.settings.sent.clone() };
        let copy = match desk.open_sent(&sent).await? {
            None => Copy::None,
            Some(folder) => match desk.find(id).await? {
                Copy::None => match desk.keep(&folder, mail, id).await? {
                    // Without a mark that is found again, nobody could tell later what became of the mail.
                    Copy::None => return Err(Trouble::No("the copy can't be found again".into())),
                    copy => copy,
                },
                copy => copy,
            },
        };
        Ok((desk, copy))
    }

    /// Says how the way out stands, if it stands otherwise than before.
    async fn outward(&self, outward: Standing) {
        if self.lights.lock().await.outward != outward {
            // A host that is gone asks for no answer.
            let _ = self.light(|lights| lights.outward = outward).await;
        }
    }

    async fn files(&self, send: &Send) -> Result<Vec<write::File>, Outcome> {
        if send.attachments.len() > MOST_FILES {
            return Err(Outcome::refused("too_many", "a mail is given at most 10 files", ""));
        }
        let places: Vec<PathBuf> = send.attachments.iter().map(|file| self.spool.join(&file.file)).collect();
        let read = tokio::task::spawn_blocking(move || {
            places.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()
        });
        let all = match read.await {
            Ok(Ok(all)) => all,
            Ok(Err(error)) => return Err(Outcome::refused("no_file", error.to_string(), "")),
            Err(_) => return Err(Outcome::refused("no_file", "our own fault: reading it failed", "")),
        };
        if all.iter().map(|bytes| bytes.len() as u64).sum::<u64>() > LARGEST {
            return Err(Outcome::refused("too_large", "a mail is given files of at most 18 MiB", ""));
        }
        let named = send.attachments.iter().zip(all);
        Ok(named
            .map(|(file, bytes)| write::File { name: file.name.clone(), mime: file.mime.clone(), bytes })
            .collect())
    }

    /// Looks for a mail of ours once.
    async fn search(&self, what: &LookFor) -> Result<Look, Trouble> {
        let id = read::own_id(&what.key, &what.thread, self.settings.domain());
        let mut desk = Imap::log_in(&self.settings).await?;
        if desk.open_sent(&self.settings.sent).await?.is_none() {
            desk.leave().await;
            return Ok(Look::CannotTell("the settings name no folder for copies of what was sent".into()));
        }
        let (found, keeps_sent) = (desk.find(&id).await?, desk.keeps_sent());
        desk.leave().await;
        Ok(match found {
            Copy::Sent => Look::Has(vec![id]),
            Copy::None if keeps_sent => {
                Look::CannotTell("the server keeps copies by itself, and has none yet".into())
            }
            Copy::None => Look::HasNot,
            Copy::Draft(_) => Look::CannotTell("the connection ended while the mail was handed over".into()),
        })
    }

    async fn get(&self, what: &Fetch) -> Result<String, String> {
        let wanted = Wanted::read(&what.what).ok_or("it is no file of a mail")?;
        let told = |error: Trouble| error.to_string();
        let mut desk = Imap::log_in(&self.settings).await.map_err(told)?;
        let open = desk.open(&self.settings.folder).await.map_err(told)?;
        let raw =
            if open.validity == wanted.validity { desk.read(wanted.uid).await.map_err(told)? } else { None };
        desk.leave().await;
        let raw = raw.ok_or("the mail is not in the mailbox any more")?;
        let read = self.tries.read((wanted.validity, wanted.uid), move || wanted.file(&raw)).await;
        let bytes = read.ok_or("nobody can read the mail")?.ok_or("the mail has no such file")?;
        if bytes.len() as u64 > what.most {
            return Err(format!("it has {} bytes, and {} are taken", bytes.len(), what.most));
        }
        let name = format!("in/{}", what.r);
        let path = self.spool.join(&name);
        let written = tokio::task::spawn_blocking(move || {
            std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
            std::fs::write(path, bytes)
        });
        match written.await {
            Ok(Ok(())) => Ok(name),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("our own fault: writing it failed".into()),
        }
    }
}

impl Adapter for Mail {
    fn run(self: Arc<Self>, _: Host) -> BoxFuture<'static, Ended> {
        Box::pin(async move { self.listen().await })
    }

    fn send(&self, send: Send) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let Ok(_desk) = self.desks.acquire().await else { return Outcome::busy(None, Scope::Account) };
            self.say(&send).await.map_or_else(|outcome| outcome, Outcome::Sent)
        })
    }

    fn look_for(&self, what: LookFor) -> BoxFuture<'_, Look> {
        Box::pin(async move {
            let (until, mut rest) = (Instant::now() + LOOKED_FOR, Rest::default());
            loop {
                let error = match tokio::time::timeout_at(until, self.search(&what)).await {
                    Ok(Ok(look)) => return look,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => return Look::CannotTell("the server does not answer in time".into()),
                };
                let again = Instant::now() + rest.next(None);
                if again >= until {
                    return Look::CannotTell(error);
                }
                tokio::time::sleep_until(again).await;
            }
        })
    }

    fn open_dm(&self, user: String) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move {
            match addresses::fit(&user) {
                Some(address) => Ok(format!("{}:{address}", self.prefix)),
                None => Err("it is no address of mail that somebody vouched for".into()),
            }
        })
    }

    fn fetch(&self, what: Fetch) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move {
            let _desk = self.desks.acquire().await.map_err(|_| "the adapter leaves".to_owned())?;
            self.get(&what).await
        })
    }
}
