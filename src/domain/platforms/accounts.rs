//! Accounts on platforms, as the settings name them, and the lives of their adapters.

use std::path::PathBuf;

use serde_json::{Map, Value};

/// The longest name of an account, bytes.
const LONGEST_NAME: usize = 64;
/// The rest before the first new start, ms; it doubles with each failure.
const FIRST_REST_MS: u64 = 1000;
/// The longest rest, ms.
const LONGEST_REST_MS: u64 = 60_000;
/// An adapter that was connected for so long has done its work: what ended it is no failure in a row, ms.
pub const GOOD_LIFE_MS: i64 = 60_000;

/// An account: a table `[channels.NAME]` of the settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// `telegram`, or `telegram.work` of another account.
    pub name: String,
    /// The program of its adapter, with its arguments.
    pub command: Vec<String>,
    /// What the adapter may read and write beside its own folders.
    pub reads: Vec<PathBuf>,
    pub writes: Vec<PathBuf>,
    /// Where the platform is reached instead of its own address.
    pub upstream: Option<String>,
    /// What the adapter is given of the table.
    pub config: Map<String, Value>,
    /// What is added to it from elsewhere: the key, and where its value is kept.
    pub secrets: Vec<(String, SecretPlace)>,
}

/// Who an account is on its platform, as far as it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Myself {
    pub id: String,
    pub name: String,
    pub handle: String,
}

/// Where a secret is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    File(PathBuf),
    /// A variable of the daemon's environment, or of `.env`.
    Variable(String),
}

/// The platforms that G2 has an adapter for.
pub const OWN_PLATFORMS: [&str; 6] = ["discord", "matrix", "slack", "telegram", "webhook", "whatsapp"];

/// Whether those who write to an account are programs, so that nobody there can be an owner.
#[must_use]
pub fn is_of_programs(name: &str) -> bool {
    name.split('.').next() == Some("webhook")
}

/// An account of a platform that G2 has no adapter for, and none is named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("G2 has no adapter for {0}, only for discord, matrix, slack, telegram, webhook and whatsapp")]
pub struct NoAdapter(pub String);

/// Checks that G2 has an adapter for an account that names no program: for its platform, or the one that it names instead.
///
/// # Errors
/// [`NoAdapter`].
pub fn check_adapter(name: &str, adapter: Option<&str>) -> Result<(), NoAdapter> {
    let platform = adapter.unwrap_or_else(|| name.split('.').next().unwrap_or(name));
    match OWN_PLATFORMS.contains(&platform) {
        true => Ok(()),
        false => Err(NoAdapter(platform.to_owned())),
    }
}

/// Returns what an account is let in by, in the order in which a person is asked for it. Nothing: it is linked to a phone.
#[must_use]
pub fn tokens(name: &str) -> &'static [&'static str] {
    match name.split('.').next() {
        Some("slack") => &["App token (xapp-…)", "Bot token (xoxb-…)"],
        Some("whatsapp") => &[],
        Some(_) | None => &["Token"],
    }
}

/// Whether an account has no secret, and is linked to a person's phone once its adapter runs.
#[must_use]
pub fn is_linked(name: &str) -> bool {
    tokens(name).is_empty()
}

/// Returns what a person has to know before an account is theirs; `None`: nothing.
#[must_use]
pub fn warning(name: &str) -> Option<&'static str> {
    (name.split('.').next() == Some("whatsapp")).then_some(
        "WhatsApp restricts and closes accounts of programs: take a number of its own, which nobody would miss. It answers only, and is slow for its first week",
    )
}

/// Returns what a person pastes where the platform makes the app of an account; `None`: nothing.
#[must_use]
pub fn app_manifest(name: &str) -> Option<&'static str> {
    (name.split('.').next() == Some("slack")).then_some(include_str!("slack-app.json"))
}

/// A name that no account can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name of a channel: it is a platform (`telegram`), or a platform and an account of it (`telegram.work`), in a-z, 0-9, - and _, with at most 64 characters"
)]
pub struct BadName(pub String);

/// Checks the name of an account.
///
/// # Errors
/// [`BadName`].
pub fn check_name(name: &str) -> Result<(), BadName> {
    let is_word = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
    };
    let (platform, account) = name.split_once('.').unwrap_or((name, "x"));
    let taken = platform == "local" || platform == "unknown";
    match name.len() <= LONGEST_NAME && is_word(platform) && is_word(account) && !taken {
        true => Ok(()),
        false => Err(BadName(name.to_owned())),
    }
}

/// Returns how long an adapter rests before it is started anew, ms, after `failures` failures in a row before this one. `chance`
/// is a random number; it spreads the starts over a half of the rest.
#[must_use]
pub fn rest_ms(failures: u32, chance: u64) -> u64 {
    let rest = FIRST_REST_MS.saturating_mul(1 << failures.min(16)).min(LONGEST_REST_MS);
    rest - chance % (rest / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_without_an_adapter_is_named_in_one_line() {
        for good in ["telegram", "telegram.work", "discord", "matrix.x", "slack", "whatsapp.work"] {
            assert_eq!(check_adapter(good, None), Ok(()), "{good}");
        }
        for bad in ["teams", "teams.telegram", "telegramm", "signal"] {
            let said = check_adapter(bad, None).unwrap_err().to_string();
            assert!(said.starts_with("G2 has no adapter for ") && !said.contains('\n'), "{said}");
            assert_eq!(check_adapter(bad, Some("matrix")), Ok(()));
        }
        assert_eq!(check_adapter("telegram", Some("signal")), Err(NoAdapter("signal".into())));
    }

    #[test]
    fn slack_has_two_tokens_and_an_app_to_paste() {
        assert_eq!(
            (tokens("slack.work").len(), tokens("telegram"), app_manifest("discord")),
            (2, &["Token"][..], None)
        );
        let app: Value = serde_json::from_str(app_manifest("slack.work").unwrap_or_default()).unwrap();
        assert_eq!(app["settings"]["socket_mode_enabled"], true);
    }

    #[test]
    fn whatsapp_has_no_token_and_is_warned_of() {
        assert!(is_linked("whatsapp.work") && !is_linked("telegram"));
        assert!(warning("whatsapp").is_some() && warning("slack").is_none());
    }

    #[test]
    fn an_account_is_named_by_its_platform_and_a_word_of_its_own() {
        for good in ["telegram", "telegram.work", "my-own_1.x"] {
            assert_eq!(check_name(good), Ok(()));
        }
        for bad in ["", "local", "local.x", "a.b.c", "a.", ".a", "A", "a b", "a/b", "..", &"x".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rests_grow_from_a_second_to_a_minute_and_are_spread() {
        assert_eq!([0, 1, 2, 5, 6, 60].map(|n| rest_ms(n, 0)), [1000, 2000, 4000, 32_000, 60_000, 60_000]);
        for chance in [1, 499, 500, u64::MAX] {
            assert!((501..=1000).contains(&rest_ms(0, chance)));
            assert!((30_001..=60_000).contains(&rest_ms(u32::MAX, chance)));
        }
    }
}
