//! `.env`, as v1 read it: secrets are read when they are used and never put into the process's environment.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use ipc_handlers::wire::Secrets;

use super::environment::OVER;
use crate::domain::platforms::accounts::{Account, SecretPlace};

/// The names that an agent may be given on stdin: v1's, and the other way to say a token.
const SECRETS: [&str; 12] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "AWS_ACCESS_KEY_ID",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
];

/// Names of v1 that are no settings of G2, with what is there instead.
const REPLACED: [(&str, &str); 6] = [
    ("CONTAINER_MAX_OUTPUT_SIZE", "sandbox.output_mib bounds what a run writes"),
    (
        "ASSISTANT_HAS_OWN_NUMBER",
        "a number is the agent's own, unless `shared_as` in `[channels.whatsapp]` names the agent",
    ),
    ("ONECLI_URL", "the gateway adds the key that stands in .env"),
    ("ONECLI_API_KEY", "the gateway adds the key that stands in .env"),
    ("GMAIL_POLL_INTERVAL", "there is no adapter for mail"),
    ("GMAIL_TRIGGER_ADDRESS", "there is no adapter for mail"),
];

/// What can serve as a key, the first that is there.
const KEYS: [&str; 4] =
    ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK"];

/// Returns the root's secrets: those of `.env` that have one of v1's names. No file, no secrets.
///
/// # Errors
/// The operating system's.
pub fn secrets(root: &Path) -> std::io::Result<Secrets> {
    let text = match std::fs::read_to_string(root.join(".env")) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Secrets::default()),
        Err(error) => return Err(error),
    };
    let found = SECRETS.iter().filter_map(|name| Some(((*name).to_owned(), value(&text, name)?)));
    Ok(Secrets(found.collect()))
}

/// Returns those of these secrets that `.env` has. No name, and the file is not read; no file, no secrets.
///
/// # Errors
/// The operating system's.
pub fn named<'a>(root: &Path, names: impl Iterator<Item = &'a str>) -> std::io::Result<Secrets> {
    let mut names = names.peekable();
    if names.peek().is_none() {
        return Ok(Secrets::default());
    }
    let text = match std::fs::read_to_string(root.join(".env")) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Secrets::default()),
        Err(error) => return Err(error),
    };
    Ok(Secrets(names.filter_map(|name| Some((name.to_owned(), value(&text, name)?))).collect()))
}

/// Returns the name of the secret by which the agent's requests are let in, if there is one.
#[must_use]
pub fn key(secrets: &Secrets) -> Option<&'static str> {
    KEYS.into_iter().find(|name| secrets.0.contains_key(*name))
}

/// Returns what `.env` says; nothing where it can't be read.
#[must_use]
pub fn text(root: &Path) -> String {
    std::fs::read_to_string(root.join(".env")).unwrap_or_default()
}

/// What counts of `.env` as a setting does, by the names of the variables; the rest is read whenever it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said(BTreeMap<&'static str, String>);

impl Said {
    pub(super) fn of(text: &str) -> Self {
        Self(OVER.into_iter().filter_map(|(name, _)| Some((name, value(text, name)?))).collect())
    }

    /// Returns what a variable is.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns for each variable what one of two says.
    pub(super) fn choose<'a>(of: impl Fn(&'static str) -> &'a Self) -> Self {
        let chosen = |(name, _)| Some((name, of(name).get(name)?.to_owned()));
        Self(OVER.into_iter().filter_map(chosen).collect())
    }
}

/// Returns the names of v1 that `.env` or the environment has, and that are no settings of G2, a sentence for each.
#[must_use]
pub fn replaced(text: &str, environment: &super::Environment) -> Vec<String> {
    let told = |(name, instead): (&str, &str)| {
        let place = match (environment.get(name), value(text, name)) {
            (Some(_), _) => "in the environment",
            (None, Some(_)) => "in .env",
            (None, None) => return None,
        };
        Some(format!("{name} {place} has no effect: {instead}"))
    };
    REPLACED.into_iter().filter_map(told).collect()
}

/// Returns what in `.env` nobody reads, a sentence for each line; `of_servers`: the names that tool servers are given. Values
/// are not repeated.
#[must_use]
pub fn odd_lines(text: &str, accounts: &[Account], of_servers: &BTreeSet<String>) -> Vec<String> {
    let of_accounts = accounts.iter().flat_map(|account| &account.secrets);
    let of_accounts: Vec<&str> = of_accounts
        .filter_map(|(_, place)| match place {
            SecretPlace::Variable(name) => Some(name.as_str()),
            SecretPlace::File(_) => None,
        })
        .collect();
    let lines = lines(text).enumerate();
    let settings = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let odd = |(at, line): (usize, &str)| {
        let at = at + 1;
        let Some((name, _)) = line.split_once('=') else {
            return Some(format!("line {at} of .env is no NAME=VALUE and is not read"));
        };
        let name = name.trim();
        if name.starts_with("export ") {
            return Some(format!("line {at} of .env is not read: write NAME=VALUE without `export`"));
        }
        let is_v1s = |(known, _): &(&str, &str)| *known == name;
        let is_read = SECRETS.contains(&name)
            || OVER.iter().chain(&REPLACED).any(is_v1s)
            || of_accounts.contains(&name)
            || of_servers.contains(name);
        (!is_read).then(|| format!("line {at} of .env is not read: nothing is known by the name {name:?}"))
    };
    settings.filter_map(odd).collect()
}

/// Returns the names of the variables that have a value.
#[must_use]
pub fn variables(text: &str) -> BTreeSet<String> {
    let lines = lines(text).filter(|line| !line.starts_with('#'));
    let named = lines.filter_map(|line| line.split_once('='));
    named.filter(|(_, value)| !bare(value).is_empty()).map(|(name, _)| name.trim().to_owned()).collect()
}

/// v1's reader for one name: the last one wins, one pair of quotes is stripped, no escapes. A comment behind a value (a `#`
/// behind a space) is none of it.
#[must_use]
pub fn value(text: &str, name: &str) -> Option<String> {
    lines(text)
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .filter(|(found, _)| found.trim() == name)
        .map(|(_, value)| bare(value).to_owned())
        .rfind(|value| !value.is_empty())
}

/// Returns the lines of the file without the spaces around them. Some editors put a mark of the encoding before the first.
fn lines(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.strip_prefix('\u{feff}').unwrap_or(text).lines().map(str::trim)
}

/// Returns a value without its quotes and the comment behind it.
fn bare(value: &str) -> &str {
    let is_comment = |rest: &str| rest.trim_start().starts_with('#') && rest.starts_with(char::is_whitespace);
    let trimmed = value.trim();
    for quote in ['"', '\''] {
        let Some(inner) = trimmed.strip_prefix(quote) else { continue };
        let end = inner.match_indices(quote).map(|(at, _)| at).find(|at| is_comment(&inner[at + 1..]));
        if let Some(end) = end.or_else(|| inner.ends_with(quote).then(|| inner.len() - 1)) {
            return &inner[..end];
        }
    }
    let behind = value.char_indices().find(|(at, _)| is_comment(&value[*at..]));
    value[..behind.map_or(value.len(), |(at, _)| at)].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_v1_read_them() {
        let text = "# TZ=A/B\nTZ=\"Europe/Paris\"\n TZ = 'Asia/Tokyo' \nX=\n";
        assert_eq!(value(text, "TZ").as_deref(), Some("Asia/Tokyo"));
        assert_eq!(value(text, "X"), None);
    }

    #[test]
    fn comments_behind_values_and_a_mark_of_the_encoding_are_taken_off() {
        for (line, read) in [
            ("A=b # c", Some("b")),
            ("A=b\t# c # d", Some("b")),
            ("A=b#c", Some("b#c")),
            ("A=#b", Some("#b")),
            ("A= # b", None),
            ("A=\"b # c\"", Some("b # c")),
            ("A=\"b # c\" # d", Some("b # c")),
            ("A='b' # it's", Some("b")),
            ("A='b' #", Some("b")),
            ("A=\"b\"c\"", Some("b\"c")),
            ("A=\"b # c", Some("\"b")),
            ("A=\"", Some("\"")),
            ("A=\"\" # c", None),
            ("A=b\u{a0}# c", Some("b")),
            ("A=ü # ü", Some("ü")),
            ("A=b # c\r", Some("b")),
        ] {
            assert_eq!(value(line, "A").as_deref(), read, "{line:?}");
            assert_eq!(value(&format!("\u{feff}{line}\r\nB=1"), "A").as_deref(), read, "{line:?}");
        }
        assert!(odd_lines("\u{feff}TZ=UTC # home\n", &[], &BTreeSet::new()).is_empty());
    }

    #[test]
    fn v1s_names_are_read_or_named_with_what_replaces_them_and_none_is_odd() {
        let text = "ASSISTANT_NAME=Andy\nASSISTANT_HAS_OWN_NUMBER=true\nCONTAINER_IMAGE=x\nCONTAINER_TIMEOUT=1\n\
            CONTAINER_MAX_OUTPUT_SIZE=10485760\nIDLE_TIMEOUT=1\nMAX_CONCURRENT_CONTAINERS=5\n\
            MAX_MESSAGES_PER_PROMPT=10\nLOG_LEVEL=info\nTZ=UTC\nONECLI_URL=https://x\nONECLI_API_KEY=k\n\
            GMAIL_TRIGGER_ADDRESS=a@b\nBOT=t\n";
        let secrets = vec![("token".into(), SecretPlace::Variable("BOT".into()))];
        assert!(odd_lines(text, &[Account { secrets, ..Account::default() }], &BTreeSet::new()).is_empty());
        assert_eq!(odd_lines(text, &[], &BTreeSet::new()).len(), 1);
        let environment = crate::config::Environment::with(&[("ONECLI_URL", "y")]);
        let told = replaced(text, &environment);
        assert_eq!(told.len(), 5, "{told:?}");
        assert!(
            told[0].contains("CONTAINER_MAX_OUTPUT_SIZE in .env") && told[0].contains("sandbox.output_mib")
        );
        assert!(told[2].contains("ONECLI_URL in the environment"), "{told:?}");
        assert!(replaced("", &crate::config::Environment::default()).is_empty());
    }

    #[test]
    fn what_nobody_reads_is_told_without_its_value() {
        let text =
            "# a\n\nTZ=UTC\nANTHROPIC_API_KEY=k\nexport AWS_REGION=sk1\nOTHER=sk2\nsk3\nOF_A_SERVER=sk4\n";
        let odd = odd_lines(text, &[], &BTreeSet::from(["OF_A_SERVER".to_owned()]));
        assert_eq!(odd.len(), 3, "{odd:?}");
        assert!(odd[0].contains("line 5") && odd[0].contains("export"), "{odd:?}");
        assert!(odd[1].contains("\"OTHER\"") && odd[2].contains("line 7"), "{odd:?}");
        assert!(!odd.concat().contains("sk"), "{odd:?}");
    }

    #[test]
    fn only_the_names_that_are_known_are_secrets() {
        let root = tempfile::tempdir().unwrap();
        assert!(secrets(root.path()).unwrap().is_empty());
        std::fs::write(root.path().join(".env"), "OTHER=1\nCLAUDE_CODE_OAUTH_TOKEN=t\nAWS_REGION=r\n")
            .unwrap();
        let found = secrets(root.path()).unwrap();
        assert_eq!(found.names().collect::<Vec<_>>(), ["AWS_REGION", "CLAUDE_CODE_OAUTH_TOKEN"]);
        assert_eq!(key(&found), Some("CLAUDE_CODE_OAUTH_TOKEN"));
    }
}
