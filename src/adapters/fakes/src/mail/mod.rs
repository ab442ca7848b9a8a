//! Mail on loopback: a mailbox by IMAP, and a way out by SMTP, as small as the adapter needs them. It refuses what it does not know.
//! Trouble is scripted. Dovecot and Postfix, which are real ones, are in `real.rs`.

mod imap;
pub mod real;
mod smtp;

use std::{
    collections::BTreeSet,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub const USER: &str = "agent@us.example";
pub const PASSWORD: &str = "open sesame \"now\"";
/// The server whose word about senders counts.
pub const SERVER: &str = "mx.us.example";

/// A mail in a folder.
#[derive(Clone, Debug)]
pub struct Stored {
    pub uid: u32,
    pub flags: BTreeSet<String>,
    pub bytes: Vec<u8>,
}

/// A folder.
#[derive(Debug, Default)]
pub struct Folder {
    pub validity: u32,
    pub next: u32,
    pub mails: Vec<Stored>,
}

impl Folder {
    fn add(&mut self, bytes: &[u8], flags: &[&str]) -> u32 {
        let uid = self.next;
        self.next += 1;
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        self.mails.push(Stored { uid, flags, bytes: bytes.to_vec() });
        uid
    }
}

/// A mail that was handed over.
#[derive(Clone, Debug)]
pub struct Handed {
    pub from: String,
    pub to: Vec<String>,
    pub text: String,
}

/// Something that goes wrong once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends after the mail's final dot; the mail was taken.
    CutAfterMail,
    /// It ends there, and the mail was not taken.
    CutInsteadOfMail,
    /// It ends before the mail.
    CutBeforeMail,
    /// A number in the place of the answer to `RCPT`.
    Recipient(u16),
    /// A number in the place of the answer to the mail.
    Mail(u16),
    /// The connection ends in the middle of what is read.
    HalfRead,
    /// The answer can't be read.
    Gibberish,
    /// The mail that is read is not told, and the connection ends at the next question.
    Silent,
    /// `NO` in the place of what is searched for.
    NoSearch,
    /// `NO` in the place of a copy.
    NoCopy,
}

/// All that the servers know.
pub struct World {
    pub inbox: Folder,
    pub sent: Folder,
    pub password: String,
    /// Whether the mailbox tells of new mails by itself.
    pub idles: bool,
    /// Whether it keeps copies of what is sent by itself, as Gmail does.
    pub keeps_sent: bool,
    pub faults: Vec<Fault>,
    pub handed: Vec<Handed>,
    /// Each command, without its tag.
    pub asked: Vec<String>,
    /// Those who wait for news.
    pub idle: usize,
    connections: Vec<TcpStream>,
}

impl World {
    /// Takes a fault off the list, if it is one of these.
    fn fault(&mut self, is: impl Fn(Fault) -> bool) -> Option<Fault> {
        let at = self.faults.iter().position(|fault| is(*fault))?;
        Some(self.faults.remove(at))
    }
}

struct Shared {
    world: Mutex<World>,
    changed: Condvar,
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The servers, until it is dropped.
pub struct Fake {
    shared: Arc<Shared>,
    imap: SocketAddr,
    smtp: SocketAddr,
}

impl Fake {
    #[must_use]
    pub fn start() -> Self {
        let folder = |validity| Folder { validity, next: 1, mails: Vec::new() };
        let world = World {
            inbox: folder(7),
            sent: folder(3),
            password: PASSWORD.into(),
            idles: true,
            keeps_sent: false,
            faults: Vec::new(),
            handed: Vec::new(),
            asked: Vec::new(),
            idle: 0,
            connections: Vec::new(),
        };
        let shared = Arc::new(Shared { world: Mutex::new(world), changed: Condvar::new() });
        let imap = serve(Arc::clone(&shared), imap::attend);
        let smtp = serve(Arc::clone(&shared), smtp::attend);
        Self { shared, imap, smtp }
    }

    /// The settings `imap` and `smtp` of an account.
    #[must_use]
    pub fn places(&self) -> (String, String) {
        (format!("imap://{}", self.imap), format!("smtp://{}", self.smtp))
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world()
    }

    /// A mail comes. Returns its number.
    pub fn deliver(&self, mail: &str) -> u32 {
        let uid = self.world().inbox.add(mail.replace('\n', "\r\n").as_bytes(), &[]);
        self.shared.changed.notify_all();
        uid
    }

    /// The mailbox is numbered anew, with these mails in it.
    pub fn renumber(&self, mails: &[&str]) {
        let mut world = self.world();
        world.inbox = Folder { validity: world.inbox.validity + 1, next: 1, mails: Vec::new() };
        for mail in mails {
            world.inbox.add(mail.replace('\n', "\r\n").as_bytes(), &[]);
        }
        drop(world);
        self.hang_up();
    }

    /// Ends all connections.
    pub fn hang_up(&self) {
        for connection in self.world().connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        self.shared.changed.notify_all();
    }

    /// Waits until something is so.
    pub fn wait(&self, what: &str, is: impl Fn(&World) -> bool) {
        let mut world = self.world();
        for _ in 0..1200 {
            if is(&world) {
                return;
            }
            let waited = self.shared.changed.wait_timeout(world, Duration::from_millis(50));
            world = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        panic!("{what} never came: {:?} {:?}", world.asked, world.handed);
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.hang_up();
    }
}

fn serve(shared: Arc<Shared>, attend: fn(&Shared, TcpStream) -> std::io::Result<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((connection, _)) = listener.accept() {
            let shared = Arc::clone(&shared);
            let Ok(kept) = connection.try_clone() else { continue };
            shared.world().connections.push(kept);
            // A connection that ends is no fault of the server's.
            std::thread::spawn(move || drop(attend(&shared, connection)));
        }
    });
    address
}

/// A mail of a person, for whom the server vouches, or does not.
#[must_use]
pub fn mail(from: &str, id: &str, subject: &str, text: &str) -> String {
    let domain = from.rsplit_once('@').map_or("", |(_, domain)| domain.trim_end_matches('>'));
    format!(
        "Return-Path: <{from}>\nAuthentication-Results: {SERVER}; dkim=pass header.d={domain}\nReceived: from x by {SERVER}\nFrom: {from}\nTo: {USER}\nSubject: {subject}\nMessage-ID: <{id}>\nDate: Mon, 30 Nov 2026 10:00:00 +0000\n\n{text}\n"
    )
}

/// The same as an answer to another mail.
#[must_use]
pub fn answer(from: &str, id: &str, to: &str, text: &str) -> String {
    mail(from, id, "Re: plans", text).replacen(
        "\nDate:",
        &format!("\nIn-Reply-To: <{to}>\nReferences: <{to}>\nDate:"),
        1,
    )
}
