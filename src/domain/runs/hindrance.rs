//! What of the host keeps a group's runs from their work: a key that the model's host refuses, a missing image, an engine that
//! can't. The group's work waits at no cost, longer each time, and goes on at once when the cause is seen to be put right.

use ipc_handlers::words;

words! {
    /// What keeps a group's runs from their work.
    pub enum Hindrance: "hindrance" {
        /// There is no key for the model's host.
        NoKey = "no_key",
        /// The model's host does not take the key.
        Key = "key",
        /// The key may not ask for what the group's agent asks.
        NotAllowed = "not_allowed",
        /// The account of the key has no credit.
        NoCredit = "no_credit",
        /// The image is missing.
        NoImage = "no_image",
        /// The container engine, or the host below it, can't run a container now.
        Engine = "engine",
    }
}

/// A refusal of the model's host, or of the gateway for want of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Never [`Hindrance::NoImage`] or [`Hindrance::Engine`].
    pub what: Hindrance,
    /// In one line of at most [`LONGEST_WHY`] characters, without the key.
    pub why: String,
}

/// How long the words for a hindrance may be, characters.
pub const LONGEST_WHY: usize = 500;
/// The longest rest, ms: within what lanes take for a rest.
pub const LONGEST_REST_MS: i64 = 1_800_000;
/// How much of the host's own words is kept, characters.
const LONGEST_SAID: usize = 200;

/// An error of the model's host, as far as its body could be read. Both texts are the host's, and may be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostError<'a> {
    /// The kind, such as `authentication_error`.
    pub kind: &'a str,
    pub message: &'a str,
}

impl Refused {
    /// Returns the refusal that an answer of `host` means for requests with the same key; `None`: none, or another fault.
    #[must_use]
    pub fn of_answer(status: u16, said: HostError<'_>, host: &str) -> Option<Self> {
        let HostError { kind, message } = said;
        // Both ways of saying it are in use, and the first has the status of a request that is wrong.
        let no_credit =
            kind == "billing_error" || message.to_ascii_lowercase().contains("credit balance is too low");
        let what = match status {
            400 | 402 | 403 if no_credit => Hindrance::NoCredit,
            401 => Hindrance::Key,
            402 => Hindrance::NoCredit,
            403 => Hindrance::NotAllowed,
            _ => return None,
        };
        let does = match what {
            Hindrance::NoCredit => "says that the account has no credit",
            Hindrance::NotAllowed => "does not allow what the agent asks with this key",
            Hindrance::NoKey | Hindrance::Key | Hindrance::NoImage | Hindrance::Engine => {
                "does not take the key"
            }
        };
        let said = [kind, message].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
        let said = on_a_line(&said, LONGEST_SAID);
        let said = if said.is_empty() { said } else { format!(": {said}") };
        Some(Self { what, why: on_a_line(&format!("{host} {does} ({status}{said})"), LONGEST_WHY) })
    }

    /// There is no key that could be sent, for this reason.
    #[must_use]
    pub fn no_key(why: &str) -> Self {
        Self { what: Hindrance::NoKey, why: on_a_line(why, LONGEST_WHY) }
    }
}

impl Hindrance {
    /// Returns how long what has met it rests, when that many runs in a row have met it (ms): `base_ms`, and twice as long each
    /// time, up to 128 times that where somebody else's machine is asked, otherwise up to 16 times; never longer than half an hour.
    #[must_use]
    pub fn rest_ms(self, times: u32, base_ms: i64) -> i64 {
        let most = if self.is_of_the_model() { 7 } else { 4 };
        base_ms.saturating_mul(1 << times.saturating_sub(1).min(most)).min(LONGEST_REST_MS)
    }

    /// Whether it is between us and the model's host.
    #[must_use]
    pub fn is_of_the_model(self) -> bool {
        match self {
            Self::NoKey | Self::Key | Self::NotAllowed | Self::NoCredit => true,
            Self::NoImage | Self::Engine => false,
        }
    }

    /// Whether every request with this key is refused, whatever it asks for.
    #[must_use]
    pub fn is_of_the_key(self) -> bool {
        matches!(self, Self::NoKey | Self::Key)
    }

    /// Says it to a chat, which may be public; goes on after "because".
    #[must_use]
    pub fn for_a_chat(self) -> &'static str {
        match self {
            Self::NoKey => "I have no key for my model",
            Self::Key => "the host of my model does not take my key",
            Self::NotAllowed => "the host of my model does not let me ask it",
            Self::NoCredit => "my account at the host of my model has no credit left",
            Self::NoImage => "my container image is missing",
            Self::Engine => "my container could not be started",
        }
    }

    /// Returns what a chat is told whose message waits for this; `None`: nothing, it may be over soon.
    #[must_use]
    pub fn notice(self) -> Option<String> {
        self.is_of_the_model().then(|| {
            format!(
                "I can't answer now because {}. I keep your message, and answer it by myself when that is put right.",
                self.for_a_chat()
            )
        })
    }
}

/// Returns a text on one line without control characters, cut to `most` characters.
fn on_a_line(text: &str, most: usize) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(most)
        .collect::<String>()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "https://api.example";

    fn refused(status: u16, kind: &str, message: &str) -> Option<Refused> {
        Refused::of_answer(status, HostError { kind, message }, HOST)
    }

    #[test]
    fn the_status_and_the_words_of_the_host_tell_what_it_refuses() {
        use Hindrance::*;
        const LOW: &str = "Your credit balance is too low to access the API.";
        for (status, kind, message, expected) in [
            (401, "authentication_error", "invalid x-api-key", Some(Key)),
            (401, "", "", Some(Key)),
            (403, "permission_error", "no access to this model", Some(NotAllowed)),
            (403, "", "<html>", Some(NotAllowed)),
            (402, "", "", Some(NoCredit)),
            (403, "billing_error", "", Some(NoCredit)),
            (400, "invalid_request_error", LOW, Some(NoCredit)),
            (400, "invalid_request_error", "messages: at least one", None),
            (200, "", LOW, None),
            (404, "not_found_error", "model: x", None),
            (429, "rate_limit_error", "", None),
            (500, "api_error", "", None),
            (529, "overloaded_error", "", None),
        ] {
            assert_eq!(refused(status, kind, message).map(|r| r.what), expected, "{status} {kind} {message}");
        }
    }

    #[test]
    fn the_hosts_words_are_kept_on_one_line_and_cut() {
        let said = refused(401, "authentication_error", "invalid\n\u{1b}[31m x-api-key").unwrap().why;
        assert_eq!(
            said,
            "https://api.example does not take the key (401: authentication_error: invalid  [31m x-api-key)"
        );
        assert_eq!(
            refused(403, "", "").unwrap().why,
            "https://api.example does not allow what the agent asks with this key (403)"
        );
        assert!(refused(401, "", &"é".repeat(10_000)).unwrap().why.chars().count() <= LONGEST_WHY);
        assert!(Refused::no_key(&"x".repeat(10_000)).why.len() <= LONGEST_WHY);
    }

    #[test]
    fn rests_double_and_end_at_ten_minutes_for_the_model_and_at_eighty_seconds_for_the_machine() {
        let rests =
            |what: Hindrance| (1..=10).map(|times| what.rest_ms(times, 5_000) / 1_000).collect::<Vec<_>>();
        assert_eq!(rests(Hindrance::Key), [5, 10, 20, 40, 80, 160, 320, 640, 640, 640]);
        assert_eq!(rests(Hindrance::NoImage), [5, 10, 20, 40, 80, 80, 80, 80, 80, 80]);
        assert_eq!(Hindrance::Engine.rest_ms(0, 5_000), 5_000);
        assert_eq!(Hindrance::Key.rest_ms(u32::MAX, i64::MAX), LONGEST_REST_MS);
    }
}
