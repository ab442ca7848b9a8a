//! The mailbox: one connection by IMAP, each command within bounds of time and bytes.

use std::{future::Future, time::Duration};

use async_imap::{
    Client, Session,
    extensions::idle::IdleResponse,
    imap_proto::{AttributeValue, MailboxDatum, NameAttribute, Response, Status},
    types::UnsolicitedResponse,
};
use futures_util::TryStreamExt as _;
use tokio::time::timeout;

use super::{
    net::{Line, Speaks},
    settings::{Sent, Settings},
    trouble::{Trouble, line},
};

/// The largest mail that is read, bytes; of a larger one that much of its beginning.
pub(super) const LARGEST: u64 = 26 << 20;
/// How long a command may take.
const WITHIN: Duration = Duration::from_secs(60);
/// How long a mail may take to be read or written.
const LONG: Duration = Duration::from_secs(300);
/// How much a server may say to a command, bytes.
const MOST: u64 = 4 << 20;

/// A mail as the server has it.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) uid: u32,
    /// When it came, RFC 3339.
    pub(super) at: Option<String>,
    /// How large it is, bytes; more than is read of a very large one.
    pub(super) size: u64,
    pub(super) bytes: Vec<u8>,
}

/// Where a folder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stand {
    /// Changes where the server numbers its mails anew.
    pub(super) validity: u32,
    /// The number of the next mail.
    pub(super) next: u32,
}

/// Whether a copy of a mail of ours lies in the folder of what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copy {
    None,
    /// It was put there before the mail was handed over, and nothing says that it was.
    Draft(u32),
    Sent,
}

/// A connection that is logged in.
pub(super) struct Imap {
    session: Session<Line>,
    idles: bool,
    expunges: bool,
    /// It keeps copies of what is sent by itself.
    keeps_sent: bool,
    /// It told of new mails beside an answer.
    news: bool,
}

async fn within<T, E: Into<Trouble>>(
    most: Duration,
    what: impl Future<Output = Result<T, E>>,
) -> Result<T, Trouble> {
    match timeout(most, what).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => Err(Trouble::Lost("it does not answer".into())),
    }
}

impl Imap {
    /// Connects and logs in.
    pub(super) async fn log_in(settings: &Settings) -> Result<Self, Trouble> {
        let connection = Line::connect(&settings.imap, Speaks::Imap).await?;
        let mut client = Client::new(connection);
        within(WITHIN, client.read_response())
            .await?
            .ok_or_else(|| Trouble::Away(format!("{}: it hung up", settings.imap.host)))?;
        client.get_mut().allow(MOST);
        let logged_in = timeout(WITHIN, client.login(&settings.user, &settings.password)).await;
        let mut session = match logged_in {
            Ok(Ok(session)) => session,
            Ok(Err((async_imap::error::Error::No(says), _))) => return Err(refusal(&says)),
            Ok(Err((error, _))) => return Err(error.into()),
            Err(_) => return Err(Trouble::Lost("it does not answer".into())),
        };
        let can = within(WITHIN, session.capabilities()).await?;
        let (idles, expunges) = (can.has_str("IDLE"), can.has_str("UIDPLUS"));
        Ok(Self { session, idles, expunges, keeps_sent: can.has_str("X-GM-EXT-1"), news: false })
    }

    /// Whether it tells of new mails by itself.
    pub(super) fn idles(&self) -> bool {
        self.idles
    }

    /// Whether it keeps copies of what is sent by itself.
    pub(super) fn keeps_sent(&self) -> bool {
        self.keeps_sent
    }

    fn allowed(&mut self, bytes: u64) -> &mut Session<Line> {
        self.session.get_mut().allow(bytes);
        &mut self.session
    }

    /// Gives a command, and hears its answers. Without a good end of it they are worth nothing.
    async fn ask(&mut self, command: &str, mut hear: impl FnMut(&Response<'_>)) -> Result<(), Trouble> {
        let mut news = false;
        let session = self.allowed(MOST);
        let asked = within(WITHIN, async {
            let id = session.run_command(command).await?;
            while let Some(told) = session.read_response().await? {
                match told.parsed() {
                    Response::Done { tag, status: Status::Ok, .. } if *tag == id => return Ok(()),
                    Response::Done { tag, outcome, .. } if *tag == id => {
                        return Err(Trouble::No(line(outcome.information.as_deref().unwrap_or_default())));
                    }
                    Response::MailboxData(MailboxDatum::Exists(_)) => news = true,
                    other => hear(other),
                }
            }
            Err(Trouble::Lost("it ended".into()))
        })
        .await;
        self.news |= news;
        asked
    }

    /// Returns the numbers of the mails that something holds for.
    async fn search(&mut self, what: &str) -> Result<Vec<u32>, Trouble> {
        let mut all = Vec::new();
        let hear = |told: &Response<'_>| {
            if let Response::MailboxData(MailboxDatum::Search(uids)) = told {
                all.extend(uids);
            }
        };
        self.ask(&format!("UID SEARCH {what}"), hear).await?;
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// Opens a folder.
    pub(super) async fn open(&mut self, folder: &str) -> Result<Stand, Trouble> {
        let open = within(WITHIN, self.allowed(MOST).select(folder)).await?;
        // An answer that ends early says nothing at all, and is not told from a good one.
        let lost = || Trouble::Lost("it did not say UIDVALIDITY".into());
        let validity = open.uid_validity.filter(|validity| *validity > 0).ok_or_else(lost)?;
        let next = match open.uid_next {
            Some(next) => next,
            // An old server does not say it.
            None => self.after(1).await?.last().map_or(1, |last| last.saturating_add(1)),
        };
        Ok(Stand { validity, next })
    }

    /// Returns the numbers of the mails from this one on, in order.
    pub(super) async fn after(&mut self, next: u32) -> Result<Vec<u32>, Trouble> {
        // What was told of before is found now.
        while self.session.unsolicited_responses.try_recv().is_ok() {}
        self.news = false;
        let mut all = self.search(&format!("UID {next}:*")).await?;
        // The range has the last mail in any case.
        all.retain(|uid| *uid >= next);
        Ok(all)
    }

    /// Reads a mail, and leaves it unread there. `None`: it is gone.
    pub(super) async fn read(&mut self, uid: u32) -> Result<Option<Raw>, Trouble> {
        let what = format!("(UID RFC822.SIZE INTERNALDATE BODY.PEEK[]<0.{LARGEST}>)");
        let session = self.allowed(LARGEST + MOST);
        let read = within(LONG, async {
            let mut told = session.uid_fetch(uid.to_string(), what).await?;
            let mut raw = None;
            while let Some(one) = told.try_next().await? {
                let (true, Some(bytes)) = (one.uid == Some(uid), one.body()) else { continue };
                let at = one.internal_date().and_then(|at| {
                    jiff::Timestamp::from_second(at.timestamp()).ok().map(|at| at.to_string())
                });
                let size = u64::from(one.size.unwrap_or(0)).max(bytes.len() as u64);
                raw = Some(Raw { uid, at, size, bytes: bytes.to_vec() });
            }
            Ok::<_, async_imap::error::Error>(raw)
        });
        match read.await? {
            // An answer that can't be read may look like none.
            None if self.is_there(uid).await? => Err(Trouble::Unread),
            raw => Ok(raw),
        }
    }

    async fn is_there(&mut self, uid: u32) -> Result<bool, Trouble> {
        Ok(self.search(&format!("UID {uid}")).await?.contains(&uid))
    }

    /// Marks mails as read.
    pub(super) async fn seen(&mut self, uids: &[u32]) -> Result<(), Trouble> {
        if uids.is_empty() {
            return Ok(());
        }
        let set = uids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        self.flag(&set, "+FLAGS.SILENT (\\Seen)").await
    }

    async fn flag(&mut self, set: &str, change: &str) -> Result<(), Trouble> {
        self.ask(&format!("UID STORE {set} {change}"), |_| ()).await
    }

    /// Waits until the server tells of something, for at most so long.
    pub(super) async fn idle(mut self, most: Duration) -> Result<Self, Trouble> {
        self.session.get_mut().allow(MOST);
        // What it told beside answers of before is told once.
        let beside = self.session.unsolicited_responses.clone();
        let is_news = || {
            std::iter::from_fn(|| beside.try_recv().ok())
                .any(|told| matches!(told, UnsolicitedResponse::Exists(_)))
        };
        if self.news || is_news() {
            return Ok(self);
        }
        let mut idle = self.session.idle();
        within(WITHIN, idle.init()).await?;
        if !is_news() {
            let (waits, _stop) = idle.wait_with_timeout(most);
            if matches!(waits.await?, IdleResponse::ManualInterrupt) {
                return Err(Trouble::Lost("it ended".into()));
            }
        }
        idle.as_mut().allow(MOST);
        self.session = within(WITHIN, idle.done()).await?;
        Ok(self)
    }

    /// Opens the folder of what was sent, which is made if need be, and returns its name. `None`: there is to be none.
    pub(super) async fn open_sent(&mut self, sent: &Sent) -> Result<Option<String>, Trouble> {
        let name = match sent {
            Sent::None => return Ok(None),
            Sent::Named(name) => name.clone(),
            Sent::Found => self.find_sent().await?.unwrap_or_else(|| "Sent".to_owned()),
        };
        if self.open(&name).await.is_err() {
            within(WITHIN, self.allowed(MOST).create(&name)).await?;
            self.open(&name).await?;
        }
        Ok(Some(name))
    }

    /// Returns the folder that the server calls that of what was sent.
    async fn find_sent(&mut self) -> Result<Option<String>, Trouble> {
        let mut found = None;
        let hear = |told: &Response<'_>| {
            if let Response::MailboxData(MailboxDatum::List(one)) = told
                && one.name_attributes.contains(&NameAttribute::Sent)
            {
                found.get_or_insert(one.name.clone().into_owned());
            }
        };
        self.ask("LIST \"\" *", hear).await?;
        Ok(found)
    }

    /// Looks for a mail of ours in the folder that is open.
    pub(super) async fn find(&mut self, id: &str) -> Result<Copy, Trouble> {
        let found = self.search(&format!("HEADER Message-ID \"<{id}>\"")).await?;
        if found.is_empty() {
            return Ok(Copy::None);
        }
        let set = found.iter().take(100).map(u32::to_string).collect::<Vec<_>>().join(",");
        let (mut copy, mut count) = (Copy::None, 0);
        let hear = |told: &Response<'_>| {
            let Response::Fetch(_, values) = told else { return };
            let uid = values.iter().find_map(|value| match value {
                AttributeValue::Uid(uid) => Some(*uid),
                _ => None,
            });
            let flags = values.iter().find_map(|value| match value {
                AttributeValue::Flags(flags) => Some(flags),
                _ => None,
            });
            let (Some(uid), Some(flags)) = (uid, flags) else { return };
            count += 1;
            // Servers write flags in small and in large letters.
            let has = |name: &str| flags.iter().any(|flag| flag.eq_ignore_ascii_case(name));
            match copy {
                _ if has("\\Deleted") => {}
                _ if !has("\\Draft") => copy = Copy::Sent,
                Copy::None => copy = Copy::Draft(uid),
                _ => {}
            }
        };
        self.ask(&format!("UID FETCH {set} (UID FLAGS)"), hear).await?;
        // It found mails, and says nothing of them.
        if count == 0 { Err(Trouble::Unread) } else { Ok(copy) }
    }

    /// Puts a copy of a mail into the folder of what was sent, which is open, as one that is not handed over.
    pub(super) async fn keep(&mut self, folder: &str, mail: &[u8], id: &str) -> Result<Copy, Trouble> {
        within(LONG, self.allowed(MOST).append(folder, Some("(\\Seen \\Draft)"), None, mail)).await?;
        self.find(id).await
    }

    /// The mail was handed over.
    pub(super) async fn handed_over(&mut self, uid: u32) -> Result<(), Trouble> {
        self.flag(&uid.to_string(), "-FLAGS.SILENT (\\Draft)").await
    }

    /// The mail was not handed over, and will not be.
    pub(super) async fn drop_copy(&mut self, uid: u32) -> Result<(), Trouble> {
        let set = uid.to_string();
        self.flag(&set, "+FLAGS.SILENT (\\Deleted)").await?;
        if !self.expunges {
            return Ok(());
        }
        self.ask(&format!("UID EXPUNGE {set}"), |_| ()).await
    }

    /// Says good-bye.
    pub(super) async fn leave(mut self) {
        // A server that does not answer to it is left all the same.
        drop(timeout(Duration::from_secs(2), self.session.logout()).await);
    }
}

/// Reads why nobody is let in: the password is wrong, or the server is in trouble of its own.
fn refusal(says: &str) -> Trouble {
    let upper = says.to_ascii_uppercase();
    let own = ["UNAVAILABLE", "INUSE", "LIMIT", "CONTACTADMIN", "TRY AGAIN", "TOO MANY"];
    match own.iter().any(|word| upper.contains(word)) {
        true => Trouble::Away(line(says)),
        false => Trouble::Denied(line(says)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_in_trouble_is_told_from_a_wrong_password() {
        for says in ["code: None, info: Some(\"[UNAVAILABLE] Temporary failure\")", "Too many connections"] {
            assert!(matches!(refusal(says), Trouble::Away(_)), "{says}");
        }
        for says in [
            "[AUTHENTICATIONFAILED] Authentication failed.",
            "[ALERT] Application-specific password required",
        ] {
            assert!(matches!(refusal(says), Trouble::Denied(_)), "{says}");
        }
    }
}
