//! What happens to the connection, and how the account stands then. Pure.

use std::time::Duration;

use channel_protocol::{Light, State};
use whatsapp_rust::types::events::{ConnectFailureReason, Event};

const AGAIN: &str = "`g2 channels restart NAME` links it anew";
const UPDATE: &str = "a newer G2 has a newer g2-whatsapp; until then the account's setting web_version may name the newest version of WhatsApp Web";

/// Something that happened to the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// WhatsApp has let us in: all is in step, or messages come already.
    Connected,
    Disconnected(String),
    /// A picture for the phone, and for how long it holds.
    Picture(String, Duration),
    /// A code that is typed into the phone.
    Code(String, Duration),
    /// Why there is no code.
    NoCode(String),
    /// The code does not hold any more.
    OldCode,
    /// Nobody has linked it in time.
    NobodyLinked,
    /// A message could not be read.
    Unreadable,
    /// A message could be read after some that could not be.
    Readable,
    /// A person has to act, and the account does not go on before.
    Refused {
        why: String,
        hint: String,
        left: Left,
    },
}

/// What is left of the login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It still holds.
    Login,
    /// WhatsApp has ended it: the account has to be linked anew.
    Nothing,
}

/// Reads what an event means to the connection. `None`: nothing.
pub(crate) fn change(event: &Event) -> Option<Change> {
    let refused = |why: String, hint: String, left: Left| Some(Change::Refused { why, hint, left });
    match event {
        Event::Connected(_) => Some(Change::Connected),
        Event::Disconnected(of) => Some(Change::Disconnected(of.reason.to_string())),
        Event::PairingQrCode(code) => Some(Change::Picture(code.code.clone(), code.timeout)),
        Event::PairingCode(code) => Some(Change::Code(code.code.clone(), code.timeout)),
        Event::PairingCodeError(error) => Some(Change::NoCode(error.error.clone())),
        Event::PairingCodeRefresh(_) => Some(Change::OldCode),
        Event::PairingQrCodesExhausted(_) => Some(Change::NobodyLinked),
        Event::PairError(error) => Some(Change::Disconnected(format!("linking failed: {}", error.error))),
        Event::LoggedOut(out) => match &out.reason {
            ConnectFailureReason::AccountLocked => refused(
                "WhatsApp has locked the account".into(),
                "WhatsApp on the phone says why, and how to ask for a review; afterwards `g2 channels restart NAME`".into(),
                Left::Login,
            ),
            _ => refused("the phone, or WhatsApp, has unlinked the account".into(), AGAIN.into(), Left::Nothing),
        },
        Event::StreamReplaced(_) => refused(
            "another program uses the login of this account".into(),
            "end it, or remove the account's folder there; then `g2 channels restart NAME`".into(),
            Left::Login,
        ),
        Event::TemporaryBan(ban) => refused(
            format!("WhatsApp has restricted the account for {}: {}", hours(ban.expire.num_seconds()), ban.code),
            "after that time `g2 channels restart NAME`; fewer and slower messages keep it from coming back".into(),
            Left::Login,
        ),
        Event::ClientOutdated(_) => refused("WhatsApp does not take this version any more".into(), UPDATE.into(), Left::Login),
        Event::ConnectFailure(failure) if !failure.reason.should_reconnect() => {
            let said = failure.message.clone().unwrap_or_default();
            refused(format!("WhatsApp does not let the account in: {:?} {said}", failure.reason), UPDATE.into(), Left::Login)
        }
        _ => None,
    }
}

fn hours(seconds: i64) -> String {
    match seconds {
        ..=5400 => format!("{} min", (seconds.max(0) + 59) / 60),
        _ => format!("{} h", (seconds + 3599) / 3600),
    }
}

/// Returns lights that are all the same.
pub(crate) fn all(light: Light, why: &str, hint: &str) -> State {
    State { transport: light, inbound: light, outbound: light, why: why.into(), hint: hint.into() }
}

/// How many messages in a row nobody could read until that is a fault of what comes in.
const UNREADABLE: u32 = 3;

/// How the account stands, as far as it was told.
#[derive(Clone, Debug)]
pub(crate) struct Lights {
    connected: bool,
    why: String,
    hint: String,
    /// How many messages in a row could not be read.
    unreadable: u32,
    told: Option<State>,
}

impl Default for Lights {
    fn default() -> Self {
        Self {
            connected: false,
            why: "WhatsApp is being connected".into(),
            hint: String::new(),
            unreadable: 0,
            told: None,
        }
    }
}

impl Lights {
    /// Returns what is to be told after a change, if that is new.
    pub(crate) fn after(&mut self, change: &Change, instance: &str) -> Option<State> {
        let named = |hint: &str| hint.replace("NAME", instance);
        match change {
            Change::Connected => (self.connected, self.why, self.hint) = (true, String::new(), String::new()),
            Change::Disconnected(why) => {
                (self.connected, self.hint) = (false, String::new());
                self.why = format!("the connection ended: {why}; it is made again");
            }
            Change::Picture(..) | Change::Code(..) | Change::OldCode => {
                self.connected = false;
                self.why = "the account is not linked to a phone yet".into();
                self.hint = named(
                    "`g2 channels pair NAME` shows what the phone scans, or the code that is typed into it",
                );
            }
            Change::NoCode(why) => {
                self.connected = false;
                self.why = format!("WhatsApp gives no code: {why}");
                self.hint =
                    named("`g2 channels pair NAME` has a picture, which the phone can scan all the same");
            }
            Change::NobodyLinked => {
                self.why = "nobody has linked the account in time; new pictures are asked for".into()
            }
            Change::Unreadable => self.unreadable = self.unreadable.saturating_add(1),
            Change::Readable => self.unreadable = 0,
            Change::Refused { why, hint, .. } => return Some(all(Light::Refused, why, &named(hint))),
        }
        self.news()
    }

    /// Whether the connection stands, as far as it was told.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    fn news(&mut self) -> Option<State> {
        let now = self.state();
        (self.told.as_ref() != Some(&now)).then(|| {
            self.told = Some(now.clone());
            now
        })
    }

    /// Returns how the account stands.
    pub(crate) fn state(&self) -> State {
        if !self.connected {
            return all(Light::Waiting, &self.why, &self.hint);
        }
        if self.unreadable >= UNREADABLE {
            let why = "messages arrive, and none of them can be read";
            return State {
                inbound: Light::Failing,
                ..State { why: why.into(), hint: UPDATE.into(), ..all(Light::Ok, "", "") }
            };
        }
        all(Light::Ok, "", "")
    }
}

#[cfg(test)]
mod tests {
    use whatsapp_rust::types::events::{Connected, LoggedOut};

    use super::*;

    #[test]
    fn each_change_is_told_once_and_names_what_a_person_can_do() {
        let mut lights = Lights::default();
        assert_eq!(lights.state().transport, Light::Waiting);
        let picture = Change::Picture("2@x".into(), Duration::from_secs(20));
        let told = lights.after(&picture, "whatsapp.work").unwrap();
        assert!(told.transport == Light::Waiting && told.hint.contains("g2 channels pair whatsapp.work"));
        assert_eq!(lights.after(&picture, "whatsapp.work"), None);
        assert_eq!(lights.after(&Change::Connected, "x").unwrap(), all(Light::Ok, "", ""));
        let gone = lights.after(&Change::Disconnected("stream ended (EOF)".into()), "x").unwrap();
        assert!(gone.transport == Light::Waiting && gone.why.contains("EOF"));
    }

    #[test]
    fn what_comes_in_fails_after_three_messages_that_nobody_can_read() {
        let mut lights = Lights::default();
        lights.after(&Change::Connected, "x");
        let mut unreadable = || lights.after(&Change::Unreadable, "x");
        assert_eq!((unreadable(), unreadable()), (None, None));
        let told = unreadable().unwrap();
        assert_eq!((told.transport, told.inbound), (Light::Ok, Light::Failing));
        assert_eq!(lights.after(&Change::Readable, "x").unwrap().inbound, Light::Ok);
    }

    #[test]
    fn an_end_of_the_login_refuses_the_account_and_says_whether_it_has_to_be_linked_anew() {
        let out = |reason| Event::LoggedOut(LoggedOut::builder().on_connect(true).reason(reason).build());
        let left = |event: &Event| match change(event) {
            Some(Change::Refused { left, .. }) => Some(left),
            _ => None,
        };
        assert_eq!(left(&out(ConnectFailureReason::LoggedOut)), Some(Left::Nothing));
        assert_eq!(left(&out(ConnectFailureReason::AccountLocked)), Some(Left::Login));
        assert_eq!(left(&Event::Connected(Connected::builder().build())), None);
        let mut lights = Lights::default();
        let told = lights.after(&change(&out(ConnectFailureReason::LoggedOut)).unwrap(), "whatsapp").unwrap();
        assert!(told.transport == Light::Refused && told.hint.contains("restart whatsapp"), "{told:?}");
        assert_eq!((hours(30), hours(5400), hours(86_400)), ("1 min".into(), "90 min".into(), "24 h".into()));
    }
}
