//! Tries a tool server (MCP) that speaks on stdin and stdout: whether it answers `initialize` in a container.
//!
//! The container lives for this alone. Variables go in on stdin, so that no secret stands in an argument or in what the engine
//! tells of a container. Every wait ends, and what the server writes is bounded.

use std::{collections::BTreeMap, fmt, time::Duration};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::domain::shown::screen::without;
use crate::sandbox::{Chunk, Sandbox, SandboxError, Spec};

/// The longest line that is read, bytes.
const LONGEST_LINE: usize = 1 << 20;
/// How much of what it said last is kept, bytes.
const LAST_WORDS: usize = 2000;
/// The version of the protocol that it is greeted in.
const VERSION: &str = "2025-06-18";
/// What our script writes before the server's exit code, to stdout and to stderr: neither of them says more.
const ENDED: &str = "\u{1}g2 ended ";

/// Takes variables up to an empty line, and has the server read the rest. Its stdin stays open: some leave at its end without an
/// answer. The words of the server are arguments, so nothing in them is read as a script.
const SCRIPT: &str = "cd /workspace/group 2>/dev/null
while IFS= read -r line && [ -n \"$line\" ]; do export \"$line\"; done
{ cat; sleep 600; } | { \"$@\"; code=$?; printf '\\n\\001g2 ended %s\\n' $code; printf '\\n\\001g2 ended %s\\n' $code >&2; }";

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It answered, and names itself so.
    Answers {
        name: String,
    },
    Silent {
        within: Duration,
        said: String,
    },
    Ended {
        code: String,
        said: String,
    },
    Refuses {
        why: String,
    },
    Flooded,
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let behind = |said: &str| if said.is_empty() { String::new() } else { format!("; it said: {said}") };
        match self {
            Self::Answers { name } => write!(f, "it answers as {name}"),
            Self::Silent { within, said } => {
                write!(f, "it gave no answer within {} s{}", within.as_secs(), behind(said))
            }
            Self::Ended { code, said } => {
                write!(f, "it ended with exit code {code} before it answered{}", behind(said))
            }
            Self::Refuses { why } => write!(f, "it refuses to begin: {why}"),
            Self::Flooded => f.write_str("it writes without end, and no answer"),
        }
    }
}

impl Heard {
    /// Leaves these secrets out of what it said.
    #[must_use]
    pub fn without(self, secrets: &[String]) -> Self {
        match self {
            Self::Answers { name } => Self::Answers { name: without(&name, secrets) },
            Self::Silent { within, said } => Self::Silent { within, said: without(&said, secrets) },
            Self::Ended { code, said } => Self::Ended { code, said: without(&said, secrets) },
            Self::Refuses { why } => Self::Refuses { why: without(&why, secrets) },
            Self::Flooded => Self::Flooded,
        }
    }
}

/// A variable that can't be given to a server on trial.
#[derive(Debug, thiserror::Error)]
pub enum NotTried {
    #[error("its variable {0} has several lines, so it can be tried in a run only")]
    Lines(String),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// Returns the words of a container that tries a server of these words.
#[must_use]
pub fn command(words: impl IntoIterator<Item = String>) -> Vec<String> {
    ["sh", "-c", SCRIPT, "sh"].into_iter().map(str::to_owned).chain(words).collect()
}

/// Starts a server, whose container `spec` says, by [`command`], and waits for its answer, which has none of `secrets`. The container
/// is removed.
///
/// # Errors
/// [`NotTried`]
pub async fn greet(
    sandbox: &dyn Sandbox,
    spec: &Spec,
    (env, secrets): (&BTreeMap<String, String>, &[String]),
    within: Duration,
) -> Result<Heard, NotTried> {
    let stdin = stdin(env)?;
    let id = sandbox.create(spec).await?;
    let mut listener = Listener { secrets: secrets.to_vec(), ..Listener::default() };
    let listened = timeout(within, listen(sandbox, &id, stdin, &mut listener)).await;
    // Whatever came of it, nothing of it stays.
    let removed = sandbox.remove(&id).await;
    let heard = match listened {
        Ok(heard) => heard?,
        Err(_) => Heard::Silent { within, said: listener.last_words() },
    };
    removed?;
    Ok(heard.without(secrets))
}

/// What is written to the script: the variables, and the greeting.
fn stdin(env: &BTreeMap<String, String>) -> Result<Vec<u8>, NotTried> {
    let mut lines = String::new();
    for (name, value) in env {
        if value.contains('\n') {
            return Err(NotTried::Lines(name.clone()));
        }
        lines.push_str(&format!("{name}={value}\n"));
    }
    let client = json!({"name": "g2", "version": env!("CARGO_PKG_VERSION")});
    let params = json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    lines.push_str(&format!("\n{hello}\n"));
    Ok(lines.into_bytes())
}

async fn listen(
    sandbox: &dyn Sandbox,
    id: &str,
    stdin: Vec<u8>,
    listener: &mut Listener,
) -> Result<Heard, SandboxError> {
    let mut output = sandbox.output(id);
    sandbox.start(id, stdin).await?;
    while let Some(chunk) = output.next().await {
        let heard = match chunk {
            Ok(Chunk::Stdout(bytes)) => listener.hear(&bytes),
            Ok(Chunk::Stderr(bytes)) => {
                listener.note(&bytes);
                listener.ended()
            }
            Err(SandboxError::Flooded { .. }) => Some(Heard::Flooded),
            Err(error) => return Err(error),
        };
        if let Some(heard) = heard {
            return Ok(heard);
        }
    }
    // The container's own end: there is no shell, or it was killed.
    let exit = sandbox.wait(id).await?;
    Ok(Heard::Ended { code: exit.code.to_string(), said: listener.last_words() })
}

/// What was heard so far. Pure.
#[derive(Default)]
struct Listener {
    line: Vec<u8>,
    words: Vec<u8>,
    /// Its exit code, once stdout has no more.
    code: Option<String>,
    /// They are in none of its words.
    secrets: Vec<String>,
}

impl Listener {
    /// Takes a piece of its stdout.
    fn hear(&mut self, mut bytes: &[u8]) -> Option<Heard> {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            self.line.extend(&bytes[..at]);
            bytes = &bytes[at + 1..];
            let line = std::mem::take(&mut self.line);
            if let Some(heard) = self.judge(&line) {
                return Some(heard);
            }
        }
        self.line.extend(bytes);
        (self.line.len() > LONGEST_LINE).then_some(Heard::Flooded)
    }

    fn judge(&mut self, line: &[u8]) -> Option<Heard> {
        let text = String::from_utf8_lossy(line);
        if let Some(code) = text.strip_prefix(ENDED) {
            self.code = Some(code.chars().filter(char::is_ascii_digit).take(3).collect());
            return self.ended();
        }
        let answer: Value = serde_json::from_slice(line).unwrap_or_default();
        if answer["id"] != 1 {
            self.note(line);
            self.note(b"\n");
            return None;
        }
        if let Some(error) = answer.get("error") {
            let why = error["message"].as_str().unwrap_or("it does not say why");
            return Some(Heard::Refuses { why: short(&without(why, &self.secrets)) });
        }
        let of = |field: &str| {
            let said = answer["result"]["serverInfo"][field].as_str().unwrap_or_default();
            short(&without(said, &self.secrets))
        };
        let name = format!("{} {}", of("name"), of("version")).trim().to_owned();
        Some(Heard::Answers {
            name: if name.is_empty() { "a server without a name".to_owned() } else { name },
        })
    }

    /// Its end, once neither stdout nor stderr has more.
    fn ended(&self) -> Option<Heard> {
        let code = self.code.clone()?;
        let is_over = self.words.windows(ENDED.len()).any(|part| part == ENDED.as_bytes());
        is_over.then(|| Heard::Ended { code, said: self.last_words() })
    }

    /// Keeps the end of what it says that is no answer.
    fn note(&mut self, bytes: &[u8]) {
        self.words.extend(&bytes[bytes.len().saturating_sub(LAST_WORDS)..]);
        let over = self.words.len().saturating_sub(LAST_WORDS);
        self.words.drain(..over);
    }

    fn last_words(&self) -> String {
        let words = String::from_utf8_lossy(&self.words);
        // Before it is cut: a part of a secret is none that can be found.
        let is_cut = self.words.len() >= LAST_WORDS;
        let kept = if is_cut { without_rest(&words, &self.secrets) } else { &words };
        let words = without(kept, &self.secrets);
        let lines = words.lines().filter(|line| !line.starts_with(ENDED)).map(str::trim);
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        let last = lines.join(" · ");
        let skip = last.chars().count().saturating_sub(300);
        last.chars().skip(skip).collect()
    }
}

/// A text without the rest of a secret that it begins within, as what was before is not kept.
fn without_rest<'a>(text: &'a str, secrets: &[String]) -> &'a str {
    let rests = secrets.iter().flat_map(|secret| secret.char_indices().map(|(at, _)| &secret[at..]));
    let begun = rests.filter(|rest| rest.len() >= 4 && text.starts_with(rest)).map(str::len).max();
    begun.map_or(text, |length| &text[length..])
}

/// The beginning of a text.
fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(pieces: &[&str]) -> Option<Heard> {
        let mut listener = Listener::default();
        pieces.iter().find_map(|piece| listener.hear(piece.as_bytes()))
    }

    #[test]
    fn an_answer_is_heard_however_it_is_cut_and_whatever_stands_before_it() {
        let answers = |name: &str| Some(Heard::Answers { name: name.to_owned() });
        let hello = r#"{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"weather","version":"2"}}}"#;
        assert_eq!(heard(&[hello, "\n"]), answers("weather 2"));
        assert_eq!(
            heard(&["starting…\n{\"method\":\"log\"}\n", &hello[..20], &hello[20..], "\n"]),
            answers("weather 2")
        );
        assert_eq!(heard(&[r#"{"id":1,"result":{}}"#, "\n"]), answers("a server without a name"));
        assert_eq!(heard(&[hello]), None, "a line that has no end yet");
        let refuses = heard(&["{\"id\":1,\"error\":{\"message\":\"too old\"}}\n"]);
        assert_eq!(refuses, Some(Heard::Refuses { why: "too old".to_owned() }));
    }

    #[test]
    fn no_secret_is_in_what_it_says() {
        let secrets = vec!["hush-1234567890".to_owned()];
        let said = |text: &str| {
            let mut listener = Listener { secrets: secrets.clone(), ..Listener::default() };
            let heard = listener.hear(text.as_bytes());
            listener.note(b"\n\x01g2 ended 1\n");
            let heard = heard.or_else(|| listener.ended()).expect("an answer or an end");
            heard.without(&secrets).to_string()
        };
        let long = "x".repeat(290);
        for text in [
            "{\"id\":1,\"result\":{\"serverInfo\":{\"name\":\"hush-1234567890\"}}}\n".to_owned(),
            "{\"id\":1,\"error\":{\"message\":\"hush-1234567890 is no key\"}}\n".to_owned(),
            "hush-1234567890 is no key\n\u{1}g2 ended 1\n".to_owned(),
            ["hush-1234567890", &long, "\n\u{1}g2 ended 1\n"].concat(),
            ["hush-1234567890 ", &"x".repeat(100), &"\n".repeat(1890), "…\n\u{1}g2 ended 1\n"].concat(),
        ] {
            let said = said(&text);
            assert!(!said.contains("67890") && said.contains('…'), "{said}");
        }
    }

    #[test]
    fn an_end_garbage_and_a_flood_are_told_apart() {
        // Stdout and stderr come in any order.
        let ended = Some(Heard::Ended { code: "3".to_owned(), said: "no such module".to_owned() });
        let (out, error) = (b"\n\x01g2 ended 3\n", b"no such module\n\n\x01g2 ended 3\n");
        let mut listener = Listener::default();
        assert_eq!(listener.hear(out), None);
        listener.note(&error[..20]);
        assert_eq!(listener.ended(), None);
        listener.note(&error[20..]);
        assert_eq!(listener.ended(), ended);
        let mut listener = Listener::default();
        listener.note(error);
        assert_eq!(listener.ended(), None, "its answer may be under way");
        assert_eq!(listener.hear(out), ended);
        let mut listener = Listener::default();
        for _ in 0..10_000 {
            assert_eq!(listener.hear(b"this is no JSON\n"), None);
        }
        assert!(listener.words.len() <= LAST_WORDS && listener.last_words().chars().count() <= 300);
        let flood = "x".repeat(LONGEST_LINE);
        assert_eq!(heard(&[&flood, "x"]), Some(Heard::Flooded));
    }

    #[test]
    fn variables_go_in_on_stdin_and_the_words_of_a_server_are_no_script() {
        let env = BTreeMap::from([("TOKEN".to_owned(), "a b$(c)".to_owned())]);
        let given = String::from_utf8(stdin(&env).unwrap()).unwrap();
        assert!(given.starts_with("TOKEN=a b$(c)\n\n{") && given.ends_with("}\n"), "{given}");
        let lines = BTreeMap::from([("A".to_owned(), "a\nB=c".to_owned())]);
        assert!(matches!(stdin(&lines), Err(NotTried::Lines(name)) if name == "A"));
        let words = command(["$(x)".to_owned(), "; y".to_owned()]);
        assert_eq!((words.len(), &words[4..]), (6, &["$(x)".to_owned(), "; y".to_owned()][..]));
    }
}
