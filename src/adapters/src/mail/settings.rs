//! An account's settings, checked. Pure.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::addresses;

/// The most words of a list.
const MOST: usize = 100;

/// A server, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) way: Way,
}

/// How a connection is kept from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// TLS from the first byte on.
    Tls,
    /// TLS after a first exchange in the clear.
    StartTls,
    /// Not at all.
    Plain,
}

/// Where copies of what was sent lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// In the folder that the server calls so.
    Found,
    Named(String),
    /// Nowhere.
    None,
}

/// An account.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) imap: Place,
    pub(super) smtp: Place,
    pub(super) user: String,
    pub(super) password: String,
    /// What answers come from, in small letters.
    pub(super) address: String,
    /// The name beside it.
    pub(super) name: String,
    /// Other addresses that lead to the mailbox, in small letters.
    pub(super) aliases: Vec<String>,
    /// The servers whose word about senders counts, as `Authentication-Results` name them.
    pub(super) authserv: Vec<String>,
    /// The only senders that are told, if the owner lists them: addresses, or `@` and a domain.
    pub(super) only_from: Vec<String>,
    pub(super) folder: String,
    pub(super) sent: Sent,
    pub(super) mark_seen: bool,
    pub(super) reply_all: bool,
}

/// Why an account can't be begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error("the password is missing")]
    NoPassword,
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{0}: {1:?} is no host, and no host with a port")]
    Place(&'static str, String),
    #[error("{0}: without TLS the password could be read on the way to {1}")]
    Open(&'static str, String),
    #[error("{0}: {1:?} is no address of mail")]
    Address(&'static str, String),
    #[error("{0} has characters that no command can hold, or is too long")]
    Word(&'static str),
    #[error("{0}")]
    Form(String),
}

/// The table, as it stands there.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Table {
    token: String,
    imap: String,
    smtp: String,
    user: String,
    address: String,
    name: String,
    aliases: Several,
    authserv: Several,
    only_from: Several,
    folder: Option<String>,
    sent: Option<String>,
    mark_seen: Option<bool>,
    reply_all: bool,
    plain: bool,
}

/// One word, or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Several {
    One(String),
    List(Vec<String>),
}

impl Default for Several {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Several {
    fn words(self) -> Vec<String> {
        let all = match self {
            Self::One(word) => vec![word],
            Self::List(all) => all,
        };
        let all = all.into_iter().map(|word| word.trim().to_ascii_lowercase());
        all.filter(|word| !word.is_empty()).take(MOST).collect()
    }
}

/// What stands before a server that has TLS after a first exchange, on whatever port.
const STARTTLS: &str = "starttls";

/// Whether a word can stand in a command.
fn is_line(word: &str) -> bool {
    word.len() <= 500 && !word.chars().any(char::is_control)
}

impl Settings {
    /// Checks an account's table.
    ///
    /// # Errors
    /// [`Unfit`].
    pub(super) fn read(table: &Map<String, Value>) -> Result<Self, Unfit> {
        let table: Table = serde_json::from_value(Value::Object(table.clone()))
            .map_err(|error| Unfit::Form(error.to_string()))?;
        let imap = place("imap", &table.imap, table.plain, 993, &[143])?;
        let smtp = place("smtp", &table.smtp, table.plain, 465, &[587, 25])?;
        if table.token.is_empty() {
            return Err(Unfit::NoPassword);
        }
        if table.user.is_empty() {
            return Err(Unfit::Missing("user"));
        }
        let address = if table.address.is_empty() { &table.user } else { &table.address };
        let address = addresses::fit(address).ok_or_else(|| Unfit::Address("address", address.clone()))?;
        let aliases = table.aliases.words();
        if let Some(bad) = aliases.iter().find(|alias| addresses::fit(alias).is_none()) {
            return Err(Unfit::Address("aliases", bad.clone()));
        }
        let folder = table.folder.filter(|name| !name.is_empty()).unwrap_or_else(|| "INBOX".into());
        let sent = match table.sent {
            None => Sent::Found,
            Some(name) if name.is_empty() => Sent::None,
            Some(name) => Sent::Named(name),
        };
        let sent_name = if let Sent::Named(name) = &sent { &name[..] } else { "" };
        let words = [
            ("user", &table.user[..]),
            ("the password", &table.token),
            ("folder", &folder),
            ("sent", sent_name),
            ("name", &table.name),
        ];
        if let Some((bad, _)) = words.into_iter().find(|(_, word)| !is_line(word)) {
            return Err(Unfit::Word(bad));
        }
        Ok(Self {
            imap,
            smtp,
            user: table.user,
            password: table.token,
            address,
            name: table.name,
            aliases,
            authserv: table.authserv.words(),
            only_from: table.only_from.words(),
            folder,
            sent,
            mark_seen: table.mark_seen.unwrap_or(true),
            reply_all: table.reply_all,
        })
    }

    /// Whether an address is one of ours.
    pub(super) fn is_us(&self, address: &str) -> bool {
        self.address == address || self.aliases.iter().any(|alias| alias == address)
    }

    /// Whether the owner wants to hear of a sender.
    pub(super) fn wants(&self, address: &str) -> bool {
        let at_domain = address.find('@').map_or("", |at| &address[at..]);
        self.only_from.is_empty() || self.only_from.iter().any(|one| one == address || one == at_domain)
    }

    /// The domain of our own ids.
    pub(super) fn domain(&self) -> &str {
        addresses::domain(&self.address)
    }
}

/// Reads `HOST`, `HOST:PORT`, or the same behind `imap://` or `smtp://`, which is without TLS, or behind `starttls://`.
fn place(name: &'static str, text: &str, plain: bool, port: u16, start_tls: &[u16]) -> Result<Place, Unfit> {
    if text.is_empty() {
        return Err(Unfit::Missing(name));
    }
    let unfit = || Unfit::Place(name, text.chars().take(200).collect());
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    let in_the_clear = match scheme {
        None => false,
        Some(scheme) if scheme == name => true,
        Some(scheme) if scheme == STARTTLS || scheme.strip_suffix('s') == Some(name) => false,
        Some(_) => return Err(unfit()),
    };
    let (host, given) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(unfit)?)),
        None => match rest.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    let is_host = |b: u8| b.is_ascii_alphanumeric() || b"-_.:".contains(&b);
    if host.is_empty() || host.len() > 253 || !host.bytes().all(is_host) {
        return Err(unfit());
    }
    let port = match given {
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(unfit)?,
        None if in_the_clear || scheme == Some(STARTTLS) => *start_tls.first().unwrap_or(&port),
        None => port,
    };
    let is_here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let way = match in_the_clear {
        true if is_here || plain => Way::Plain,
        true => return Err(Unfit::Open(name, host.to_owned())),
        false if scheme == Some(STARTTLS) => Way::StartTls,
        false if scheme.is_none() && start_tls.contains(&port) => Way::StartTls,
        false => Way::Tls,
    };
    Ok(Place { host: host.to_owned(), port, way })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(more: &Value) -> Result<Settings, Unfit> {
        let mut table = json!({"token": "hush", "user": "Agent@Example.org", "imap": "imap.example.org",
            "smtp": "smtp.example.org"});
        table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Settings::read(table.as_object().unwrap())
    }

    #[test]
    fn a_server_is_reached_by_tls_unless_it_is_this_machine_or_the_owner_says_otherwise() {
        for (text, plain, port, way) in [
            ("mail.example.org", false, 993, Way::Tls),
            ("mail.example.org:143", false, 143, Way::StartTls),
            ("imaps://mail.example.org:143", false, 143, Way::Tls),
            ("starttls://mail.example.org:5143", false, 5143, Way::StartTls),
            ("starttls://mail.example.org", false, 143, Way::StartTls),
            ("imap://127.0.0.1:5143", false, 5143, Way::Plain),
            ("imap://[::1]", false, 143, Way::Plain),
            ("imap://mail.example.org", true, 143, Way::Plain),
        ] {
            let settings = read(&json!({"imap": text, "plain": plain})).unwrap();
            assert_eq!((settings.imap.port, settings.imap.way), (port, way), "{text}");
        }
        assert_eq!(read(&json!({"smtp": "smtp.example.org:587"})).unwrap().smtp.way, Way::StartTls);
        for bad in ["imap://mail.example.org", "", "a b", "http://x", "mail.example.org:x", "x:0", "[::1"] {
            assert!(read(&json!({"imap": bad})).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_missing_or_can_not_be_is_named() {
        let settings = read(&json!({"authserv": "MX.Example.org", "only_from": ["@example.org"]})).unwrap();
        assert_eq!(
            (&settings.address[..], &settings.authserv[0][..]),
            ("agent@example.org", "mx.example.org")
        );
        assert!(settings.wants("a@example.org") && !settings.wants("a@sub.example.org"));
        assert!(settings.mark_seen && !settings.reply_all && settings.sent == Sent::Found);
        for (more, part) in [
            (json!({"token": ""}), "password"),
            (json!({"user": ""}), "user is missing"),
            (json!({"user": "agent"}), "no address"),
            (json!({"aliases": ["x"]}), "aliases"),
            (json!({"user": "agent", "address": "a@b.c\r\nX: y"}), "no address"),
            (json!({"folder": "a\r\nb"}), "folder"),
            (json!({"mark_seen": "x"}), "bool"),
        ] {
            let said = read(&more).unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(read(&json!({"user": "agent", "address": "A@b.c"})).unwrap().address, "a@b.c");
    }
}
