//! Who is let in at the operator's page. Sockets, cookies and the store are elsewhere.
//!
//! A ticket opens one session, once, and soon. A session is a cookie of one name; a cookie goes to every server of a name,
//! whatever its port, so the page has a name of its own: `g2.localhost`. A change comes from the page itself or not at all.

use core::net::SocketAddr;

use ipc_handlers::{Time, words};
use schemars::JsonSchema;
use serde::Serialize;

use crate::rows::{rfc3339, rfc3339_option};

/// How long a ticket can be used, ms.
pub const TICKET_MS: i64 = 60_000;
/// How long a session lasts, ms.
pub const SESSION_MS: i64 = 12 * 3_600_000;
/// How many sessions and tickets there are at a time, at most.
pub const MOST_SESSIONS: usize = 64;
/// How much of the name of a browser is kept, characters.
pub const LONGEST_BROWSER: usize = 200;
/// How many tokens there are at a time, at most, beside the one in `data/web.token`.
pub const MOST_TOKENS: usize = 32;
/// What the token in `data/web.token` is called.
pub const TOKEN_OF_FILE: &str = "web.token";
/// How often it is written down that a token is in use, ms: a scrape is no write.
pub const NOTED_EVERY_MS: i64 = 600_000;
/// The page's own name on this machine.
pub const NAME: &str = "g2.localhost";

/// A session of the page, or a ticket for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WebSession {
    pub id: i64,
    /// Who asked for its ticket.
    pub opened_by: String,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub made_at: Time,
    /// When the ticket was used; `null`: it is still a ticket.
    #[serde(serialize_with = "rfc3339_option")]
    #[schemars(with = "Option<String>")]
    pub entered_at: Option<Time>,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub ends_at: Time,
    /// What the browser calls itself.
    pub browser: Option<String>,
}

words! {
    /// What a token of a program is good for.
    #[derive(JsonSchema)]
    pub enum Purpose: "purpose of a token" {
        /// Reading figures, and nothing else.
        Metrics = "metrics",
        /// Reading figures, and operations that keep the work going.
        Operate = "operate",
    }
}

/// A token of a program at the page. What the program shows is nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WebToken {
    /// Its number, which no other token ever has.
    #[serde(skip)]
    pub id: i64,
    pub name: String,
    pub purpose: Purpose,
    pub made_by: String,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub made_at: Time,
    /// When it was used last, to within [`NOTED_EVERY_MS`]; `null`: never.
    #[serde(serialize_with = "rfc3339_option")]
    #[schemars(with = "Option<String>")]
    pub used_at: Option<Time>,
}

/// Whether two digests are the same. It takes as long whatever differs.
#[must_use]
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b));
    one.len() == other.len() && differs == 0
}

/// Under which names the page is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// Each with its port where it has one, in lower case; the first is the one that people are told.
    hosts: Vec<String>,
    scheme: &'static str,
}

words! {
    /// Why a request is turned away before anybody looks at it.
    pub enum Turned: "reason" {
        /// It is for another name: a page elsewhere may have had it lead here.
        Host = "host",
        /// It is a change that does not come from the page.
        Origin = "origin",
    }
}

/// What a request says of where it goes and comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Knock<'a> {
    pub host: Option<&'a str>,
    pub origin: Option<&'a str>,
    /// `Sec-Fetch-Site`.
    pub site: Option<&'a str>,
    /// It is no `GET` or `HEAD`.
    pub is_change: bool,
    /// It has the token for scripts, which no browser sends by itself.
    pub by_script: bool,
}

impl Door {
    /// Returns the door of a page that listens there; `public` is its name behind a proxy, which speaks TLS.
    #[must_use]
    pub fn new(listen: SocketAddr, public: Option<&str>) -> Self {
        match public {
            Some(name) => Self { hosts: vec![name.to_ascii_lowercase()], scheme: "https" },
            None => {
                Self { hosts: vec![format!("{NAME}:{}", listen.port()), listen.to_string()], scheme: "http" }
            }
        }
    }

    /// Returns the address that people are told, without a path.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}://{}", self.scheme, self.hosts[0])
    }

    /// Whether browsers reach it by TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.scheme == "https"
    }

    /// Lets a request in, or says why not.
    ///
    /// # Errors
    /// [`Turned`].
    pub fn check(&self, knock: Knock<'_>) -> Result<(), Turned> {
        let host = knock.host.map(str::to_ascii_lowercase).unwrap_or_default();
        if !self.hosts.contains(&host) {
            return Err(Turned::Host);
        }
        let own = format!("{}://{host}", self.scheme);
        match knock.origin {
            Some(origin) if origin != own => return Err(Turned::Origin),
            None if knock.is_change && !knock.by_script => return Err(Turned::Origin),
            Some(_) | None => {}
        }
        match knock.is_change && !knock.by_script && knock.site != Some("same-origin") {
            true => Err(Turned::Origin),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> Door {
        Door::new("127.0.0.1:4747".parse().unwrap(), None)
    }

    #[test]
    fn digests_are_the_same_if_every_byte_is() {
        let one = [7_u8; 32];
        assert!(is_same(&one, &one));
        for at in 0..32 {
            let mut other = one;
            other[at] ^= 0x80;
            assert!(!is_same(&one, &other), "{at}");
        }
        assert!(!is_same(&one, &one[..31]) && !is_same(&[], &one));
    }

    #[test]
    fn only_our_own_names_are_answered() {
        let host = |host| door().check(Knock { host, ..Knock::default() });
        for ours in ["g2.localhost:4747", "G2.LocalHost:4747", "127.0.0.1:4747"] {
            assert_eq!(host(Some(ours)), Ok(()), "{ours}");
        }
        for other in [
            "localhost:4747",
            "g2.localhost",
            "g2.localhost:80",
            "evil.example",
            "127.0.0.1",
            "g2.localhost.evil.example:4747",
            "",
        ] {
            assert_eq!(host(Some(other)), Err(Turned::Host), "{other}");
        }
        assert_eq!(host(None), Err(Turned::Host));
    }

    #[test]
    fn a_change_comes_from_the_page_itself() {
        let (ours, other) = (Some("http://g2.localhost:4747"), Some("http://127.0.0.1:4747"));
        let same = Some("same-origin");
        for (origin, site, by_script, expected) in [
            (ours, same, false, Ok(())),
            // Another name of ours is another origin.
            (other, same, false, Err(Turned::Origin)),
            (Some("null"), same, false, Err(Turned::Origin)),
            (Some("https://g2.localhost:4747"), same, false, Err(Turned::Origin)),
            (None, same, false, Err(Turned::Origin)),
            (ours, Some("same-site"), false, Err(Turned::Origin)),
            (ours, Some("cross-site"), false, Err(Turned::Origin)),
            (ours, Some("none"), false, Err(Turned::Origin)),
            (ours, None, false, Err(Turned::Origin)),
            (None, None, true, Ok(())),
            (Some("http://evil.example"), None, true, Err(Turned::Origin)),
        ] {
            let knock = Knock { host: Some("g2.localhost:4747"), origin, site, is_change: true, by_script };
            assert_eq!(door().check(knock), expected, "{knock:?}");
        }
        // Others may lead to the page, and learn nothing by it.
        let led = Knock { host: Some("g2.localhost:4747"), site: Some("cross-site"), ..Knock::default() };
        assert_eq!(door().check(led), Ok(()));
        let read = Knock { origin: Some("http://evil.example"), ..led };
        assert_eq!(door().check(read), Err(Turned::Origin));
    }

    #[test]
    fn behind_a_proxy_it_has_the_proxys_name_alone() {
        let door = Door::new("127.0.0.1:4747".parse().unwrap(), Some("G2.example.org"));
        assert_eq!((door.address().as_str(), door.is_secure()), ("https://g2.example.org", true));
        let check = |host, origin| {
            door.check(Knock {
                host: Some(host),
                origin,
                site: Some("same-origin"),
                is_change: true,
                by_script: false,
            })
        };
        assert_eq!(check("g2.example.org", Some("https://g2.example.org")), Ok(()));
        assert_eq!(check("g2.example.org", Some("http://g2.example.org")), Err(Turned::Origin));
        assert_eq!(check("127.0.0.1:4747", Some("http://127.0.0.1:4747")), Err(Turned::Host));
    }
}
