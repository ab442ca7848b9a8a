//! Settings of an installation: `.env`, and the two lists in its user's home. Secrets are named, and their values are kept hidden.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Around, NotOpened, Program, parts::keyed};
use crate::{
    config::dotenv,
    domain::moved::{
        findings::Finding,
        rows::{Hidden, Keyed, Kind, List, ListName, Row, Secret, Setting},
    },
    moving::installation::{Installation, Unread},
};

/// Secrets of the model that are taken as they are.
const MODEL: [&str; 12] = [
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
/// Tokens of platforms that G2 has an adapter for.
const TOKENS: [(&str, &str); 2] = [("TELEGRAM_BOT_TOKEN", "telegram"), ("DISCORD_BOT_TOKEN", "discord")];
/// Names of variables of OneCLI, which keeps keys for newer versions.
const VAULT: &str = "ONECLI_";
/// Names that are settings here too, and what they are called.
const NUMBERS: [(&str, &str); 4] = [
    ("MAX_CONCURRENT_CONTAINERS", "limits.max_concurrent_containers"),
    ("MAX_MESSAGES_PER_PROMPT", "limits.max_messages_per_prompt"),
    ("IDLE_TIMEOUT", "health.idle_ms"),
    ("CONTAINER_TIMEOUT", "health.ceiling_ms"),
];

/// What `.env` says that other rows need.
pub(super) struct Env {
    pub assistant: String,
    pub zone: Option<String>,
    pub rows: Vec<Keyed>,
}

/// Reads `.env`.
pub(super) fn env(
    program: Program,
    installation: &Installation,
    around: &Around,
    findings: &mut Vec<Finding>,
) -> Env {
    let text = match installation.text(".env") {
        Ok(text) => text,
        Err(Unread::Missing) => String::new(),
        Err(why) => {
            findings.push(Finding::left(Kind::Setting, ".env", why.to_string()));
            String::new()
        }
    };
    let (names, odd) = names_of(&text);
    if let Some((first, count)) = odd {
        let why = match count {
            1 => "a line that is no variable".to_owned(),
            count => format!("the first of {count} lines that are no variables"),
        };
        findings.push(Finding::left(Kind::Setting, format!(".env line {first}"), why));
    }
    let assistant = dotenv::value(&text, "ASSISTANT_NAME").unwrap_or_else(|| program.assistant().to_owned());
    let mut env = Env { assistant, zone: None, rows: Vec::new() };
    setting("assistant_name", Value::from(env.assistant.clone()), &mut env.rows);
    // Their agents are all of this kind; a new root's are the built-in one.
    setting("agent.provider", Value::from("claude"), &mut env.rows);
    for name in names {
        let Some(value) = dotenv::value(&text, name) else { continue };
        if name == "TZ" {
            if around.zones.get(&value).is_some() {
                setting("timezone", Value::from(value.clone()), &mut env.rows);
                env.zone = Some(value);
            } else {
                findings.push(Finding::left(Kind::Setting, "TZ", "there is no such zone"));
            }
        } else if let Some((_, key)) = NUMBERS.iter().find(|(known, _)| *known == name) {
            match value.parse::<u64>() {
                Ok(number) => setting(key, Value::from(number), &mut env.rows),
                Err(_) => findings.push(Finding::left(Kind::Setting, name, "it is no number")),
            }
        } else if MODEL.contains(&name) {
            secret(name, value, &mut env.rows);
        } else if let Some((_, channel)) = TOKENS.iter().find(|(known, _)| *known == name) {
            setting(&format!("channels.{channel}"), json!({ "token_env": name }), &mut env.rows);
            secret(name, value, &mut env.rows);
            findings.push(
                Finding::differs(
                    Kind::Secret,
                    name,
                    format!("{channel} gives each message to one program: both can't use this token at once"),
                )
                .fix("docs/moving.md: side by side, with another bot"),
            );
        } else if name.starts_with(VAULT) {
            findings.push(
                Finding::left(
                    Kind::Secret,
                    name,
                    "keys of models and services that its vault keeps stay there",
                )
                .fix("a key in .env, such as ANTHROPIC_API_KEY; `g2 doctor` names what is missing"),
            );
        } else if name != "ASSISTANT_NAME" {
            findings.push(Finding::left(Kind::Secret, name, "nothing here is known by this name"));
        }
    }
    env
}

/// Returns the names of variables; and of the lines that are none the number of the first, and how many there are. A key may go on over
/// several lines, which look like variables: nothing of these is a name, as names are printed.
fn names_of(text: &str) -> (BTreeSet<&str>, Option<(usize, usize)>) {
    let (mut names, mut odd) = (BTreeSet::new(), None);
    let mut end: Option<&str> = None;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (line, number) in text.lines().map(str::trim).zip(1..) {
        let is_own = end.is_none();
        if line.is_empty() || (is_own && line.starts_with('#')) {
            continue;
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (line, None),
        };
        match value {
            // The reader of `.env` finds these in any line.
            Some(_) if is_known(name) => {
                names.insert(name);
            }
            // A variable without a value does not count, and a text in Base64 may end in these signs.
            Some("" | "=") if is_own => {}
            Some(_) if is_own && is_name(name) => {
                names.insert(name);
            }
            Some(_) | None => odd = Some(odd.map_or((number, 1), |(first, count)| (first, count + 1))),
        }
        end = match end {
            Some(mark) => (!line.contains(mark)).then_some(mark),
            None => goes_on(line, value.unwrap_or_default()),
        };
    }
    (names, odd)
}

fn is_name(name: &str) -> bool {
    name.len() <= 128
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_known(name: &str) -> bool {
    ["ASSISTANT_NAME", "TZ"].contains(&name)
        || MODEL.contains(&name)
        || TOKENS.iter().chain(&NUMBERS).any(|(known, _)| *known == name)
}

/// Returns what ends a value that its own line does not end.
fn goes_on(line: &str, value: &str) -> Option<&'static str> {
    let open = |quote: &str| value.strip_prefix(quote).is_some_and(|rest| !rest.contains(quote));
    if line.contains("-----BEGIN ") && !line.contains("-----END ") {
        return Some("-----END ");
    }
    match (open("\""), open("'")) {
        (true, _) => Some("\""),
        (false, true) => Some("'"),
        (false, false) => None,
    }
}

fn setting(name: &str, value: Value, rows: &mut Vec<Keyed>) {
    rows.push(keyed(name, Row::Setting(Setting { name: name.to_owned(), value })));
}

fn secret(name: &str, value: String, rows: &mut Vec<Keyed>) {
    rows.push(keyed(name, Row::Secret(Secret { name: name.to_owned(), value: Hidden(Some(value)) })));
}

/// Reads the lists in the home of the installation's user.
///
/// # Errors
/// The list of senders is there, and can't be read: without it people would be heard whom nobody heard there.
pub(super) fn lists(
    program: Program,
    around: &Around,
    findings: &mut Vec<Finding>,
) -> Result<Vec<Keyed>, NotOpened> {
    // A home that can't be opened has no lists.
    let opened = around.home.as_deref().and_then(|home| Installation::open(home, &around.scratch).ok());
    let Some(home) = opened else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    let names = match program {
        Program::Nanoclaw => &[ListName::Senders, ListName::Mounts][..],
        Program::G2 | Program::NanoclawV2 => &[ListName::Mounts],
    };
    for name in names {
        let path = format!("{}/{name}.json", program.lists());
        match home.text(&path) {
            Ok(text) => match serde_json::from_str::<Value>(&text) {
                Ok(content) => rows.push(keyed(name.as_str(), Row::List(List { name: *name, content }))),
                Err(error) => findings.push(Finding::left(
                    Kind::List,
                    format!("~/{path}"),
                    format!("it is no JSON: {error}"),
                )),
            },
            Err(Unread::Missing) => {}
            Err(why) if *name == ListName::Senders => {
                return Err(NotOpened::List { path: home.path().join(path), why });
            }
            Err(why) => findings.push(Finding::left(Kind::List, format!("~/{path}"), why.to_string())),
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_over_several_lines_is_no_name() {
        let text = "\u{feff}# one\nTZ=Asia/Tokyo\nKEY=\"-----BEGIN KEY-----\nb3BlbnNz=x\nQyNTUxOQAAACBZw==\n-----END KEY-----\"\n\
                    OTHER=1\n-----BEGIN KEY-----\nAAAA=b\n-----END KEY-----\nQyNTUxOQAAACBZw==\nNOTE='a\nb=c\nANTHROPIC_API_KEY=k\nd'\n\
                    EMPTY=\nno-name=1\nLAST=2\n";
        let (names, odd) = names_of(text);
        assert_eq!(
            names.into_iter().collect::<Vec<_>>(),
            ["ANTHROPIC_API_KEY", "KEY", "LAST", "NOTE", "OTHER", "TZ"]
        );
        assert_eq!(odd, Some((4, 9)));
    }
}
