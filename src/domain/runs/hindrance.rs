//! What of the host keeps a group's runs from their work: a key that the model's host refuses, a missing image, an engine that
//! can't. The group's work waits at no cost, longer each time, and goes on at once when the cause is seen to be put right. A
//! limit of the model ([`super::model_limit`]) is one, too: work waits until the time that the host names.

use ipc_handlers::{Time, words};
use jiff::tz::TimeZone;

use super::model_limit::spread_ms;
use crate::time::times;

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
        /// The model's host does not know the model that was asked for.
        NoModel = "no_model",
        /// The limit of what the key may use of the model is reached, for a while.
        Limit = "limit",
        /// The model's host has no room now.
        Busy = "busy",
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
    /// When that is over, as the host says; of a limit, and of a model that is asked while another one is at its limit.
    pub until: Option<Time>,
}

/// How long the words for a hindrance may be, characters.
pub const LONGEST_WHY: usize = 500;
/// The longest rest where nobody says when it is over, ms: within what lanes take for a rest.
pub const LONGEST_REST_MS: i64 = 1_800_000;
/// How long a lane rests at a time for a limit that lasts longer, ms: within what lanes take for a rest. Then its rest is prolonged.
pub const STEP_MS: i64 = 3_000_000;
/// From what rest on a chat is told of a limit of the model, ms: most often it is over soon.
pub const TOLD_FROM_MS: i64 = 60_000;
/// For how long a group asks its fallback at least, ms: its model is not changed at every message.
const FALLBACK_MS: i64 = 600_000;
/// How much of the host's own words is kept, characters.
const LONGEST_SAID: usize = 200;

/// An error of the model's host, as far as its body could be read. Both texts are the host's, and may be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostError<'a> {
    /// The kind, such as `authentication_error`.
    pub kind: &'a str,
    pub message: &'a str,
}

/// The model that a group asks while its own is at a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    pub model: String,
    pub until: Time,
}

impl Fallback {
    /// Returns what a chat is told of it.
    #[must_use]
    pub fn notice(&self, what: Hindrance, now: Time, zone: &TimeZone) -> String {
        let at = times::clock(self.until, now, zone);
        format!("I answer with the model {} until {at} because {}.", self.model, what.for_a_chat())
    }
}

/// What follows for a group's work from a refusal of its model's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It waits: for a limit, until then where somebody knows that.
    Rest { until: Option<Time> },
    /// It goes on at once with the group's own model, whose limit is over.
    GoOn,
    /// It goes on at once with another model, which is asked until then.
    FallBack { until: Time },
}

/// Decides what follows for a group's work. `fallback`: until when another model was to be asked since the last limit, and whether
/// the run has asked that one.
#[must_use]
pub fn then(refused: &Refused, has_fallback: bool, fallback: Option<(Time, bool)>, now: Time) -> Then {
    let rests = Then::Rest { until: refused.until };
    match fallback {
        // The own model is asked again when its limit is over; the other one is no model.
        Some((until, true)) if refused.what == Hindrance::NoModel => match until <= now {
            true => Then::GoOn,
            false => Then::Rest { until: Some(until) },
        },
        _ if !refused.what.is_weather() => rests,
        Some((until, true)) if until <= now => Then::GoOn,
        // The own model is asked again when its limit is over, at the latest.
        Some((until, true)) => Then::Rest { until: refused.until.map(|ends| ends.min(until)) },
        // The other model could not be asked.
        Some((until, false)) if until > now => rests,
        Some((_, false)) | None if has_fallback => {
            let least = now.plus_ms(FALLBACK_MS);
            Then::FallBack { until: refused.until.map_or(least, |ends| ends.max(least)) }
        }
        Some((_, false)) | None => rests,
    }
}

impl Refused {
    /// Returns the refusal that an answer of `host` means for requests with the same key; `None`: none, or another fault. `until`: when
    /// it may be asked again, as its headers say.
    #[must_use]
    pub fn of_answer(status: u16, said: HostError<'_>, host: &str, until: Option<Time>) -> Option<Self> {
        let HostError { kind, message } = said;
        // Both ways of saying it are in use, and the first has the status of a request that is wrong.
        let no_credit =
            kind == "billing_error" || message.to_ascii_lowercase().contains("credit balance is too low");
        // An address that is wrong is not found, too, and says nothing of a model.
        let no_model = message.to_ascii_lowercase().contains("model");
        let what = match status {
            400 | 402 | 403 if no_credit => Hindrance::NoCredit,
            401 => Hindrance::Key,
            402 => Hindrance::NoCredit,
            403 => Hindrance::NotAllowed,
            404 if no_model => Hindrance::NoModel,
            429 => Hindrance::Limit,
            503 | 529 => Hindrance::Busy,
            _ => return None,
        };
        let does = match what {
            Hindrance::NoCredit => "says that the account has no credit",
            Hindrance::NotAllowed => "does not allow what the agent asks with this key",
            Hindrance::NoModel => "does not know the model that it was asked for",
            Hindrance::Limit => "says that the limit of the key is reached",
            Hindrance::Busy => "has no room now",
            Hindrance::NoKey | Hindrance::Key | Hindrance::NoImage | Hindrance::Engine => {
                "does not take the key"
            }
        };
        let said = [kind, message].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
        let said = on_a_line(&said, LONGEST_SAID);
        let said = if said.is_empty() { said } else { format!(": {said}") };
        let why = on_a_line(&format!("{host} {does} ({status}{said})"), LONGEST_WHY);
        Some(Self { what, why, until: until.filter(|_| what.is_weather()) })
    }

    /// There is no key that could be sent, for this reason.
    #[must_use]
    pub fn no_key(why: &str) -> Self {
        Self { what: Hindrance::NoKey, why: on_a_line(why, LONGEST_WHY), until: None }
    }

    /// A limit that an agent's error speaks of.
    #[must_use]
    pub fn by_limit(limit: super::model_limit::ModelLimit, error: &str) -> Self {
        Self { what: limit.what, why: on_a_line(error, LONGEST_WHY), until: limit.until }
    }
}

impl Hindrance {
    /// Returns how long what has met it rests, when that many runs in a row have met it (ms): `base_ms`, and twice as long each
    /// time, up to 128 times that where somebody else's machine is asked, otherwise up to 16 times; never longer than half an hour.
    #[must_use]
    pub fn rest_ms(self, times: u32, base_ms: i64) -> i64 {
        let (most, longest_ms) = match self.is_of_the_model() {
            _ if self.is_weather() => (10, STEP_MS),
            true => (7, LONGEST_REST_MS),
            false => (4, LONGEST_REST_MS),
        };
        base_ms.saturating_mul(1 << times.saturating_sub(1).min(most)).min(longest_ms)
    }

    /// Returns how long a group rests for it at `now`, ms: until the time that the host names and a little more, so that not all
    /// groups come back at once; otherwise, and where that is sooner, as [`Self::rest_ms`] says.
    #[must_use]
    pub fn rests_ms(self, until: Option<Time>, times: u32, base_ms: i64, group: &str, now: Time) -> i64 {
        match until.map(|until| until.ms_since(now)) {
            // A host that always names a short time is asked less and less often, too.
            Some(left) if left > 0 => left.saturating_add(spread_ms(group)).max(self.rest_ms(times, base_ms)),
            Some(_) | None => self.rest_ms(times, base_ms),
        }
    }

    /// Whether it passes by itself: a limit of the model.
    #[must_use]
    pub fn is_weather(self) -> bool {
        match self {
            Self::Limit | Self::Busy => true,
            Self::NoKey
            | Self::Key
            | Self::NotAllowed
            | Self::NoCredit
            | Self::NoModel
            | Self::NoImage
            | Self::Engine => false,
        }
    }

    /// Whether it is between us and the model's host.
    #[must_use]
    pub fn is_of_the_model(self) -> bool {
        match self {
            Self::NoKey
            | Self::Key
            | Self::NotAllowed
            | Self::NoCredit
            | Self::NoModel
            | Self::Limit
            | Self::Busy => true,
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
            Self::NoModel => "the host of my model does not know the model that I am set to",
            Self::Limit => "the limit of my model is reached",
            Self::Busy => "the host of my model has no room for me",
            Self::NoImage => "my container image is missing",
            Self::Engine => "my container could not be started",
        }
    }

    /// Returns what a chat is told whose message waits for this, for `rest_ms` from `now` on, with the hour if the host has named when
    /// it `ends`; `None`: nothing, it may be over soon.
    #[must_use]
    pub fn notice(self, rest_ms: i64, ends: Option<Time>, now: Time, zone: &TimeZone) -> Option<String> {
        let because = self.for_a_chat();
        if self.is_weather() {
            let at = ends.filter(|ends| *ends > now);
            let at = at.map_or_else(String::new, |_| {
                format!(" at {}", times::clock(now.plus_ms(rest_ms), now, zone))
            });
            return (rest_ms >= TOLD_FROM_MS).then(|| {
                format!(
                    "I can't answer now because {because}. I keep your message, and try again by myself{at}."
                )
            });
        }
        self.is_of_the_model().then(|| {
            format!("I can't answer now because {because}. I keep your message, and answer it by myself when that is put right.")
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
    use crate::time::zone::Zones;

    const HOST: &str = "https://api.example";

    fn refused(status: u16, kind: &str, message: &str) -> Option<Refused> {
        Refused::of_answer(status, HostError { kind, message }, HOST, None)
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
            (404, "not_found_error", "model: x", Some(NoModel)),
            (404, "", "The model `x` does not exist", Some(NoModel)),
            (404, "not_found_error", "Not Found", None),
            (404, "", "", None),
            (429, "rate_limit_error", "", Some(Limit)),
            (500, "api_error", "", None),
            (503, "", "", Some(Busy)),
            (529, "overloaded_error", "", Some(Busy)),
        ] {
            assert_eq!(refused(status, kind, message).map(|r| r.what), expected, "{status} {kind} {message}");
        }
    }

    #[test]
    fn another_model_is_asked_until_the_named_time_or_for_ten_minutes() {
        let (now, zone) = (Time(1_759_838_400_000), Zones::utc().of(Some("Europe/Berlin")).zone);
        let at = |ms: i64| now.plus_ms(ms);
        let limit = |ends: Option<i64>| Refused {
            what: Hindrance::Limit,
            why: "w".into(),
            until: ends.map(|ms| now.plus_ms(ms)),
        };
        for (ends, fallback, follows) in [
            (None, None, Then::FallBack { until: at(FALLBACK_MS) }),
            (Some(5_000), None, Then::FallBack { until: at(FALLBACK_MS) }),
            (Some(7_200_000), Some((-1, false)), Then::FallBack { until: at(7_200_000) }),
            // The other one has met a limit, too.
            (Some(9_000), Some((5_000, true)), Then::Rest { until: Some(at(5_000)) }),
            (Some(4_000), Some((5_000, true)), Then::Rest { until: Some(at(4_000)) }),
            (None, Some((5_000, true)), Then::Rest { until: None }),
            (Some(9_000), Some((0, true)), Then::GoOn),
            // It was not asked all the same.
            (Some(9_000), Some((5_000, false)), Then::Rest { until: Some(at(9_000)) }),
        ] {
            let fallback = fallback.map(|(ms, asked)| (at(ms), asked));
            assert_eq!(then(&limit(ends), true, fallback, now), follows, "{ends:?} {fallback:?}");
        }
        assert_eq!(then(&limit(Some(5)), false, None, now), Then::Rest { until: Some(at(5)) });
        let key = Refused { what: Hindrance::Key, ..limit(None) };
        assert_eq!(then(&key, true, None, now), Then::Rest { until: None });
        let none = Refused { what: Hindrance::NoModel, ..limit(None) };
        for (fallback, follows) in [
            (None, Then::Rest { until: None }),
            (Some((5_000, false)), Then::Rest { until: None }),
            (Some((5_000, true)), Then::Rest { until: Some(at(5_000)) }),
            (Some((0, true)), Then::GoOn),
        ] {
            let fallback = fallback.map(|(ms, asked)| (at(ms), asked));
            assert_eq!(then(&none, true, fallback, now), follows, "{fallback:?}");
        }
        let fallback = Fallback { model: "small".into(), until: at(3_600_000) };
        assert_eq!(
            fallback.notice(Hindrance::Limit, now, &zone),
            "I answer with the model small until 15:00 because the limit of my model is reached."
        );
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
        assert_eq!(rests(Hindrance::Limit), [5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560]);
        assert_eq!(Hindrance::Busy.rest_ms(11, 5_000), STEP_MS);
        assert_eq!(Hindrance::Engine.rest_ms(0, 5_000), 5_000);
        assert_eq!(Hindrance::Key.rest_ms(u32::MAX, i64::MAX), LONGEST_REST_MS);
    }

    #[test]
    fn a_limit_lasts_until_the_named_time_and_its_chat_is_told_the_hour_once_it_is_long() {
        let (now, zone) = (Time(1_759_838_400_000), Zones::utc().of(Some("Europe/Berlin")).zone);
        let rests = |left_ms| Hindrance::Limit.rests_ms(Some(now.plus_ms(left_ms)), 3, 5_000, "main", now);
        let hour = 3_600_000;
        assert_eq!([rests(5 * hour), rests(-1)], [5 * hour + spread_ms("main"), 20_000]);
        assert!(rests(1) >= 20_000, "as long as without the time");
        let told = |what: Hindrance, rest_ms| what.notice(rest_ms, Some(now.plus_ms(rest_ms)), now, &zone);
        let unnamed = Hindrance::Busy.notice(hour, None, now, &zone).unwrap();
        assert!(unnamed.ends_with("I keep your message, and try again by myself."), "{unnamed}");
        assert_eq!(
            told(Hindrance::Limit, hour).unwrap(),
            "I can't answer now because the limit of my model is reached. I keep your message, and try again by myself at 15:00."
        );
        assert!(told(Hindrance::Limit, 15 * hour).unwrap().ends_with("at 05:00 tomorrow."));
        assert_eq!(told(Hindrance::Busy, 59_999), None);
        assert!(told(Hindrance::Key, 5_000).is_some() && told(Hindrance::Engine, hour).is_none());
    }
}
