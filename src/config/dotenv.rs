//! `.env`, as v1 read it: secrets are read when they are used and never put into the process's environment.

use std::path::Path;

use ipc_handlers::wire::Secrets;

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

/// What counts of `.env` as a setting does; the rest is read whenever it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) zone: Option<String>,
    pub(super) upstream: Option<String>,
}

impl Said {
    pub(super) fn of(text: &str) -> Self {
        Self { zone: value(text, "TZ"), upstream: value(text, "ANTHROPIC_BASE_URL") }
    }
}

/// Returns what in `.env` nobody reads, a sentence for each line. Values are not repeated.
#[must_use]
pub fn odd_lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).enumerate();
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
        let is_read = name == "TZ" || SECRETS.contains(&name);
        (!is_read).then(|| format!("line {at} of .env is not read: nothing is known by the name {name:?}"))
    };
    settings.filter_map(odd).collect()
}

/// v1's reader for one name: the last one wins, one pair of quotes is stripped, no escapes.
#[must_use]
pub fn value(text: &str, name: &str) -> Option<String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .filter(|(found, _)| found.trim() == name)
        .map(|(_, value)| {
            let value = value.trim();
            let quoted = value.len() >= 2
                && (value.starts_with('"') && value.ends_with('"')
                    || value.starts_with('\'') && value.ends_with('\''));
            if quoted { value[1..value.len() - 1].to_owned() } else { value.to_owned() }
        })
        .rfind(|value| !value.is_empty())
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
    fn what_nobody_reads_is_told_without_its_value() {
        let text = "# a\n\nTZ=UTC\nANTHROPIC_API_KEY=k\nexport AWS_REGION=sk1\nOTHER=sk2\nsk3\n";
        let odd = odd_lines(text);
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
