//! Tool servers (MCP) of a group's own: what can be one, how people type it, and which secrets it is given. Pure.

use std::collections::{BTreeMap, BTreeSet};

use ipc_handlers::{
    Folder,
    wire::{McpServer, Piece, pieces},
};
use serde_json::Value;
use url::Url;

use super::{
    outside::{BadPlace, NoWay, Place, Rules},
    run_settings::Network,
};
use crate::shown::command_words::{BadWords, command_words};

/// The most servers of a group.
pub const MOST: usize = 16;
/// The longest text that `mcp` is set to, bytes.
pub const LONGEST: usize = 64 << 10;
/// The longest name of one, bytes: the agent puts it before the name of each tool.
const LONGEST_NAME: usize = 32;
/// The most words of a command.
const MOST_WORDS: usize = 64;
/// The most variables or headers of one.
const MOST_TEXTS: usize = 32;
/// The longest word, value or address, bytes.
const LONGEST_TEXT: usize = 4096;
/// The name of our own server.
const OURS: &str = "g2";
/// What a name of a variable or of an option has in it that holds a secret.
const SECRETS: [&str; 13] = [
    "apikey",
    "auth",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "key",
    "pass",
    "passwd",
    "password",
    "pat",
    "secret",
    "token",
];
/// The beginnings of names of secrets that no container is given: those of the model's keys.
const KEPT: [&str; 4] = ["ANTHROPIC_", "CLAUDE_", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

/// The servers of a group, by name.
pub type Servers = BTreeMap<String, McpServer>;

/// Why a text gives no servers. Values are not repeated: one may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadServer {
    #[error("it has {0} bytes; at most {LONGEST} are taken")]
    TooLong(usize),
    #[error("a group has at most {MOST} tool servers")]
    TooMany,
    #[error(
        "{0}; write {{\"mcpServers\": {{NAME: {{\"command\": PROGRAM, \"args\": […]}}}}}}, as .mcp.json has it"
    )]
    Json(String),
    #[error("a line is `NAME: COMMAND`, `NAME: URL`, or `NAME:` to remove it")]
    NoLine,
    #[error(
        "a name has 1 to {LONGEST_NAME} letters, digits, `-` and `_`, begins with a letter or a digit, and has no `__`"
    )]
    Name,
    #[error("`{OURS}` is the name of G2's own tools")]
    OurName,
    #[error("there is no server of that name")]
    Absent,
    #[error("{0}")]
    Words(#[from] BadWords),
    #[error("it names no program")]
    NoProgram,
    #[error("a command has at most {MOST_WORDS} words, and {MOST_TEXTS} variables")]
    TooManyWords,
    #[error("a word, a value or an address has at most {LONGEST_TEXT} bytes, and no control characters")]
    Text,
    #[error("{0:?} is no name of a variable or header")]
    Variable(String),
    #[error("behind an address stand headers: NAME=VALUE")]
    NoHeader,
    #[error("its address has to be http://… or https://…, without a user in it")]
    Url,
    #[error("its host can't be: {0}")]
    Host(#[from] BadPlace),
    #[error("`${{{0}}}` can't be: a secret's name has capital letters, digits and `_`, at most 64")]
    Reference(String),
    #[error("${{{0}}} is the model's, and no container is given it")]
    Kept(String),
    #[error(
        "{0} holds a secret, which would stand in the store and in logs. Put it into .env under a name such as MY_TOKEN, and write {0}='${{MY_TOKEN}}'"
    )]
    InTheOpen(String),
    #[error(
        "what stands in a command or an address can be seen by other programs. Give {0} as a variable or a header: NAME='${{MY_TOKEN}}'"
    )]
    Seen(String),
}

/// Why a text gives no servers, and which server it is about; empty: the text as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub server: String,
    pub why: BadServer,
}

fn of(server: &str) -> impl Fn(BadServer) -> Fault {
    let server: String = server.chars().take(LONGEST_NAME).collect();
    move |why| Fault { server: server.clone(), why }
}

/// Returns the servers that a group has after `text` was said: JSON takes the place of all; of lines `NAME: COMMAND` or
/// `NAME: URL` each changes one, and `NAME:` removes one. An empty text removes all.
///
/// # Errors
/// [`Fault`]
pub fn changed(mut servers: Servers, text: &str) -> Result<Servers, Fault> {
    if text.len() > LONGEST {
        return Err(of("")(BadServer::TooLong(text.len())));
    }
    let text = text.trim();
    if text.is_empty() {
        return Ok(Servers::new());
    }
    if text.starts_with('{') {
        servers = of_json(text)?;
    } else {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (name, rest) = line.split_once(':').ok_or_else(|| of("")(BadServer::NoLine))?;
            let (name, rest) = (name.trim(), rest.trim());
            if rest.is_empty() {
                servers.remove(name).ok_or_else(|| of(name)(BadServer::Absent))?;
            } else {
                check_name(name).map_err(of(name))?;
                servers.insert(name.to_owned(), typed(rest).map_err(of(name))?);
            }
        }
    }
    check(&servers)?;
    Ok(servers)
}

/// Checks servers that somebody has written.
///
/// # Errors
/// [`Fault`]
pub fn check(servers: &Servers) -> Result<(), Fault> {
    if servers.len() > MOST {
        return Err(of("")(BadServer::TooMany));
    }
    for (name, server) in servers {
        check_name(name).and_then(|()| check_server(server)).map_err(of(name))?;
    }
    Ok(())
}

/// Returns the names of the servers that a text is about, for logs: nothing else of it.
#[must_use]
pub fn names(text: &str) -> String {
    let text = text.trim();
    let names: Vec<String> = if text.starts_with('{') {
        of_json(text).map(|servers| servers.into_keys().collect()).unwrap_or_default()
    } else {
        let lines = text.lines().take(MOST).filter_map(|line| line.split_once(':'));
        lines.map(|(name, _)| name.trim().to_owned()).filter(|name| check_name(name).is_ok()).collect()
    };
    match (names.is_empty(), text.is_empty()) {
        (true, true) => String::new(),
        (true, false) => "…".to_owned(),
        (false, _) => format!("{}: …", names.join(", ")),
    }
}

/// Returns the names of the secrets that a server is given.
pub fn secrets(server: &McpServer) -> impl Iterator<Item = &str> {
    let named = |piece| match piece {
        Piece::Secret(name) => Some(name),
        Piece::Text(_) => None,
    };
    server.texts().values().flat_map(move |text| pieces(text).into_iter().filter_map(named))
}

/// Returns the place outside that a server is at; `None`: it runs in the container.
#[must_use]
pub fn place(server: &McpServer) -> Option<Place> {
    match server {
        McpServer::Stdio { .. } => None,
        McpServer::Http { url, .. } | McpServer::Sse { url, .. } => {
            let url = Url::parse(url).ok()?;
            Place::new(url.host_str()?, url.port_or_known_default()?).ok()
        }
    }
}

/// Returns how a place is allowed to a group: the host, with its port where it is another than those of the web.
#[must_use]
pub fn as_rule(place: &Place) -> String {
    match place.port() {
        80 | 443 => place.host(),
        _ => place.to_string(),
    }
}

/// What a server still lacks, and how it comes to have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    pub what: String,
    pub fix: String,
}

/// Returns what servers of a group lack, by their names: a way out of the container, secrets that `.env` does not have.
#[must_use]
pub fn lacks(
    group: &Folder,
    servers: &Servers,
    network: Network,
    rules: &Rules,
    has: impl Fn(&str) -> bool,
) -> Vec<(String, Lack)> {
    let mut lacks = Vec::new();
    for (name, server) in servers {
        let mut lack = |what: String, fix: String| lacks.push((name.clone(), Lack { what, fix }));
        if let Some(place) = place(server).filter(|place| !place.is_of_the_container()) {
            let allow = format!("`g2 egress allow {} --group {group}`", as_rule(&place));
            let away = format!("the tool server {name} of group {group} is at {place}");
            match (network, rules.judge(&place)) {
                (Network::Open, _) | (Network::Allowlist, Ok(())) => {}
                (Network::Model, Ok(())) => lack(
                    format!("{away}, and the group reaches its model only"),
                    format!("`g2 groups set {group} network=allowlist`"),
                ),
                (Network::Model, Err(_)) => lack(
                    format!("{away}, and the group reaches its model only"),
                    format!("`g2 groups set {group} network=allowlist`, then {allow}"),
                ),
                (Network::Allowlist, Err(NoWay::NotOutside(_))) => lack(
                    format!("{away}, an address of this machine or of its networks, which are never reached"),
                    format!("`g2 groups set {group} network=open`, or run the server in the container"),
                ),
                (Network::Allowlist, Err(NoWay::Denied)) => lack(
                    format!("{away}, which is denied to the group"),
                    format!("`g2 egress list --group {group}` shows the rule; {allow} takes its place"),
                ),
                (Network::Allowlist, Err(NoWay::NotAllowed)) => {
                    lack(format!("{away}, which the group may not reach"), allow);
                }
            }
        }
        let missing: BTreeSet<&str> = secrets(server).filter(|name| !has(name)).collect();
        for secret in missing {
            lack(
                format!("the tool server {name} of group {group} is left out: .env has no {secret}"),
                format!("write {secret}=… into .env, and `chmod 600` the file"),
            );
        }
    }
    lacks
}

/// Returns the name of a tool as people are shown it: `mcp__weather__forecast` is `weather: forecast`.
#[must_use]
pub fn tool_as_shown(name: &str) -> String {
    match name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((server, tool)) if !server.is_empty() && !tool.is_empty() => format!("{server}: {tool}"),
        _ => name.to_owned(),
    }
}

fn check_name(name: &str) -> Result<(), BadServer> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if name.len() > LONGEST_NAME || !begins_well || !name.chars().all(fits) || name.contains("__") {
        return Err(BadServer::Name);
    }
    if name.eq_ignore_ascii_case(OURS) { Err(BadServer::OurName) } else { Ok(()) }
}

/// `[NAME=VALUE …] COMMAND …`, or `URL [HEADER=VALUE …]`.
fn typed(text: &str) -> Result<McpServer, BadServer> {
    let words = command_words(text)?;
    let texts = |words: &[String]| {
        let pair =
            |word: &String| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        words.iter().map(pair).collect::<Option<BTreeMap<_, _>>>()
    };
    match &words[..] {
        [url, headers @ ..] if is_address(url) => {
            Ok(McpServer::Http { url: url.clone(), headers: texts(headers).ok_or(BadServer::NoHeader)? })
        }
        _ => {
            let is_variable =
                |word: &&String| word.split_once('=').is_some_and(|(name, _)| is_variable(name));
            let (env, command) = words.split_at(words.iter().take_while(is_variable).count());
            let [command, args @ ..] = command else { return Err(BadServer::NoProgram) };
            let env = texts(env).ok_or(BadServer::NoProgram)?;
            Ok(McpServer::Stdio { command: command.clone(), args: args.to_vec(), env })
        }
    }
}

fn is_address(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    lower.starts_with("http://") || lower.starts_with("https://")
}

/// Reads what stands in `.mcp.json`, or the object below its `mcpServers`.
fn of_json(text: &str) -> Result<Servers, Fault> {
    let json = |why: String| of("")(BadServer::Json(why));
    // Where it is wrong is told, not how: a value may be a secret.
    let wrong =
        |e: serde_json::Error| json(format!("it is no JSON at line {} column {}", e.line(), e.column()));
    let mut whole: Value = serde_json::from_str(text).map_err(wrong)?;
    let inner = match whole.get_mut("mcpServers") {
        Some(inner) => inner.take(),
        None => whole,
    };
    let Value::Object(named) = inner else { return Err(json("mcpServers is no object".into())) };
    if named.len() > MOST {
        return Err(of("")(BadServer::TooMany));
    }
    named
        .into_iter()
        .map(|(name, value)| Ok((name.clone(), one_of_json(value).map_err(of(&name))?)))
        .collect()
}

/// The keys of a server, by the way that it is spoken with.
const OF_PROGRAM: [&str; 4] = ["type", "command", "args", "env"];
const OF_ADDRESS: [&str; 3] = ["type", "url", "headers"];

fn one_of_json(mut value: Value) -> Result<McpServer, BadServer> {
    let json = |why: &str| BadServer::Json(why.to_owned());
    let Value::Object(fields) = &mut value else { return Err(json("a server is an object")) };
    let (default, known): (&str, &[&str]) =
        if fields.contains_key("url") { ("http", &OF_ADDRESS) } else { ("stdio", &OF_PROGRAM) };
    if let Some(field) = fields.keys().find(|field| !known.contains(&field.as_str())) {
        let field: String = field.chars().take(LONGEST_NAME).collect();
        return Err(BadServer::Json(format!("it has {field:?}, and can have {}", known.join(", "))));
    }
    let kind = fields.entry("type").or_insert_with(|| default.into());
    match (kind.as_str(), default) {
        // Another name of the same.
        (Some("streamable-http" | "streamableHttp"), "http") => *kind = "http".into(),
        (Some("http" | "sse"), "http") | (Some("stdio"), "stdio") => {}
        _ => {
            return Err(json("a program has the type stdio and `command`, an address http or sse and `url`"));
        }
    }
    serde_json::from_value(value)
        .map_err(|_| json("`args` is a list of texts, `env` and `headers` are objects of texts, `command` and `url` are texts"))
}

fn check_server(server: &McpServer) -> Result<(), BadServer> {
    match server {
        McpServer::Stdio { command, args, env } => {
            if command.is_empty() {
                return Err(BadServer::NoProgram);
            }
            if args.len() >= MOST_WORDS {
                return Err(BadServer::TooManyWords);
            }
            [command].into_iter().chain(args).try_for_each(|word| check_text(word))?;
            [command].into_iter().chain(args).try_for_each(|word| check_is_public(word))?;
            env.keys().try_for_each(|name| {
                if is_variable(name) { Ok(()) } else { Err(BadServer::Variable(short(name))) }
            })?;
        }
        McpServer::Http { url, headers } | McpServer::Sse { url, headers } => {
            check_text(url)?;
            check_url(url)?;
            headers.keys().try_for_each(|name| {
                if is_header(name) { Ok(()) } else { Err(BadServer::Variable(short(name))) }
            })?;
        }
    }
    if server.texts().len() > MOST_TEXTS {
        return Err(BadServer::TooManyWords);
    }
    server.texts().iter().try_for_each(|(name, text)| {
        check_text(text)?;
        check_references(text)?;
        let is_open = !text.is_empty() && secrets_of(text).next().is_none();
        if is_open && sounds_secret(name) { Err(BadServer::InTheOpen(short(name))) } else { Ok(()) }
    })
}

fn secrets_of(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Secret(name) => Some(name),
        Piece::Text(_) => None,
    })
}

fn check_references(text: &str) -> Result<(), BadServer> {
    for name in secrets_of(text) {
        let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        if name.len() > 64 || !is_variable(name) || !name.chars().all(fits) {
            return Err(BadServer::Reference(short(name)));
        }
        if KEPT.iter().any(|kept| name.starts_with(kept)) {
            return Err(BadServer::Kept(name.to_owned()));
        }
    }
    Ok(())
}

/// A word of a command stands where every program can read it.
fn check_is_public(word: &str) -> Result<(), BadServer> {
    if let Some(name) = secrets_of(word).next() {
        return Err(BadServer::Seen(format!("${{{}}}", short(name))));
    }
    match word.strip_prefix('-').map(|option| option.split_once('=').unwrap_or((option, ""))) {
        Some((option, _)) if sounds_secret(option) => {
            Err(BadServer::Seen(short(word.split('=').next().unwrap_or(option))))
        }
        Some((_, value)) => check_is_no_pair(value),
        None => check_is_no_pair(word),
    }
}

/// `TOKEN=…` and `Authorization: …` are secrets, and so is the user of an address.
fn check_is_no_pair(word: &str) -> Result<(), BadServer> {
    if let Some((_, rest)) = word.split_once("://") {
        let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if place.contains('@') {
            return Err(BadServer::Seen("the user of an address".to_owned()));
        }
    }
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    let pairs = [word.split_once('='), word.split_once(':')].into_iter().flatten();
    let mut pairs = pairs.map(|(name, value)| (name.trim(), value.trim()));
    match pairs.find(|(name, value)| is_name(name) && !value.is_empty() && sounds_secret(name)) {
        Some((name, _)) => Err(BadServer::Seen(short(name))),
        None => Ok(()),
    }
}

fn check_url(text: &str) -> Result<(), BadServer> {
    if let Some(name) = secrets_of(text).next() {
        return Err(BadServer::Seen(format!("${{{}}}", short(name))));
    }
    let url =
        Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or(BadServer::Url)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(BadServer::Url);
    }
    let secret = url.query_pairs().map(|(name, _)| name.into_owned()).find(|name| sounds_secret(name));
    if let Some(name) = secret {
        return Err(BadServer::Seen(short(&name)));
    }
    Place::new(url.host_str().ok_or(BadServer::Url)?, url.port_or_known_default().unwrap_or(0))?;
    Ok(())
}

fn check_text(text: &str) -> Result<(), BadServer> {
    let has_bad = text.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
    if text.len() > LONGEST_TEXT || has_bad { Err(BadServer::Text) } else { Ok(()) }
}

/// Whether what has this name is a secret, by one of its words.
fn sounds_secret(name: &str) -> bool {
    let parted: String = name
        .chars()
        .zip(std::iter::once(' ').chain(name.chars()))
        .flat_map(|(c, before)| {
            // `apiKey` has two words.
            let begins = c.is_ascii_uppercase() && before.is_ascii_lowercase();
            [begins.then_some(' '), Some(c)].into_iter().flatten()
        })
        .collect();
    let mut words = parted.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase);
    words.any(|word| SECRETS.contains(&word.as_str()))
}

fn is_variable(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty()
        && name.len() <= 128
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(fits)
}

fn is_header(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.len() <= 128 && name.chars().all(fits)
}

/// The beginning of a text, for words.
fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

#[cfg(test)]
mod tests;
