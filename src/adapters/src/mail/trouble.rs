//! What goes wrong with a server of mail, in words.

use channel_protocol::{Light, State};

/// The longest piece of a server's own words that is shown, characters.
const LONGEST: usize = 200;

/// Why a server did not do something. Texts of mails are never in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Trouble {
    /// It was not asked, or did not answer.
    #[error("the server can't be reached: {0}")]
    Away(String),
    #[error("the server's TLS does not hold: {0}")]
    Tls(String),
    #[error("the server does not take the user and the password: {0}")]
    Denied(String),
    #[error("the server refuses it: {0}")]
    No(String),
    #[error("the connection to the server is lost: {0}")]
    Lost(String),
    /// It said something that nobody can read.
    #[error("the server said something that can't be read")]
    Unread,
}

impl Trouble {
    /// What a person can do about it.
    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::Denied(_) => {
                "put the right password into the account's file in data/secrets/ and restart it; Gmail, Fastmail and others want an app password"
            }
            Self::Tls(_) => {
                "the name of the server has to be the one in its certificate; an authority of your own belongs to those of this machine"
            }
            Self::No(_) | Self::Away(_) | Self::Lost(_) | Self::Unread => "",
        }
    }
}

impl From<async_imap::error::Error> for Trouble {
    fn from(error: async_imap::error::Error) -> Self {
        use async_imap::error::Error;
        match error {
            Error::No(says) | Error::Bad(says) => Self::No(line(&says)),
            Error::Io(error) => error.into(),
            Error::ConnectionLost => Self::Lost("it ended".into()),
            Error::Append => Self::No("it takes no copy of a mail".into()),
            Error::Validate(_) => Self::No("a word can't stand in a command".into()),
            // What could not be read may be a mail's.
            Error::Parse(_) => Self::Unread,
            _ => Self::Unread,
        }
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        let says = error.to_string();
        match says.split_once(" during parsing of ") {
            Some(_) => Self::Unread,
            None => Self::Lost(line(&says)),
        }
    }
}

/// Returns a server's words as one short line.
pub(super) fn line(says: &str) -> String {
    let plain: String = says.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
    plain.trim().to_owned()
}

/// How one direction stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    #[default]
    Ok,
    /// It is being tried.
    Waiting(String),
    /// It was tried, and a person may have to act. It is tried again with what is next, so the host has to go on.
    Failing { why: String, hint: &'static str },
}

impl Standing {
    fn light(&self) -> Light {
        match self {
            Self::Ok => Light::Ok,
            // The host sends nothing on a way that it takes for broken, and nothing would mend it.
            Self::Waiting(_) | Self::Failing { .. } => Light::Waiting,
        }
    }

    fn words(&self) -> (&str, &'static str) {
        match self {
            Self::Ok => ("", ""),
            Self::Waiting(why) => (why, ""),
            Self::Failing { why, hint } => (why, hint),
        }
    }
}

/// The three lights of an account.
pub(super) fn state(inward: &Standing, outward: &Standing) -> State {
    let ((why, hint), other) = (inward.words(), outward.words());
    let (why, hint) = if why.is_empty() { other } else { (why, hint) };
    let transport = if matches!(inward, Standing::Ok) { Light::Ok } else { Light::Waiting };
    State {
        transport,
        inbound: inward.light(),
        outbound: outward.light(),
        why: why.into(),
        hint: hint.into(),
    }
}

/// All three lights of an account that waits for a person.
pub(super) fn refused(why: String, hint: &str) -> State {
    let light = Light::Refused;
    State { transport: light, inbound: light, outbound: light, why, hint: hint.into() }
}
