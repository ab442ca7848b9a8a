//! Keys and tokens that a person gives: from a terminal that does not show them, from a file, or from standard input.
#![expect(clippy::disallowed_methods, reason = "reads a file that its owner names")]

use std::{
    io::{IsTerminal as _, Read as _},
    path::Path,
};

use anyhow::Context as _;

use super::out;

/// The longest one that is read, bytes.
const LONGEST: u64 = 4096;

/// As long as it lives, the terminal does not show what is typed, and hands every key over: Ctrl-C too, so that the terminal is
/// as it was whenever somebody gives up.
struct Hidden(Option<rustix::termios::Termios>);

impl Hidden {
    fn begin() -> Self {
        use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok();
        if let Some(mut hidden) = before.clone() {
            hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
            hidden.special_codes[SpecialCodeIndex::VMIN] = 1;
            hidden.special_codes[SpecialCodeIndex::VTIME] = 0;
            // Otherwise it is shown, which is no reason not to go on.
            let _ = tcsetattr(&stdin, OptionalActions::Flush, &hidden);
        }
        Self(before)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Reads a line of keys; `None`: the person gave up.
fn typed(keys: impl std::io::BufRead) -> std::io::Result<Option<String>> {
    const CTRL_C: u8 = 3;
    const CTRL_D: u8 = 4;
    const BACKSPACE: u8 = 8;
    const DELETE: u8 = 127;
    let mut line = Vec::new();
    for key in keys.bytes() {
        match key? {
            b'\n' | b'\r' => break,
            CTRL_C | CTRL_D => return Ok(None),
            BACKSPACE | DELETE => drop(line.pop()),
            // A longer text is no secret.
            key if line.len() as u64 <= LONGEST => line.push(key),
            _ => {}
        }
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// Reads a secret; `what` names it.
pub(super) fn read(what: &str, file: Option<&Path>) -> anyhow::Result<String> {
    let text = text(what, file)?;
    Ok(one_word(what, &text)?.to_owned())
}

/// Reads the secrets of an account, with a space between; `what` names each. A terminal is asked for one after the other, elsewhere
/// they are words.
pub(super) fn words(name: &str, what: &[&str], file: Option<&Path>) -> anyhow::Result<String> {
    let named = |one: &str| format!("{one} of {name}");
    let [one] = what else {
        if file.is_none() && std::io::stdin().is_terminal() {
            let read = what.iter().map(|one| read(&named(one), None)).collect::<anyhow::Result<Vec<_>>>();
            return Ok(read?.join(" "));
        }
        let all = named(&what.join(" and "));
        let text = text(&all, file)?;
        let words: Vec<&str> = text.split_whitespace().collect();
        anyhow::ensure!(words.len() == what.len(), "{all} are not {} words", what.len());
        return words
            .into_iter()
            .map(|word| one_word(&all, word))
            .collect::<anyhow::Result<Vec<_>>>()
            .map(|all| all.join(" "));
    };
    read(&named(one), file)
}

/// Reads what is given for a secret.
fn text(what: &str, file: Option<&Path>) -> anyhow::Result<String> {
    let mut text = String::new();
    match file {
        Some(path) => {
            let file = std::fs::File::open(path).with_context(|| format!("reading {}", path.display()))?;
            file.take(LONGEST)
                .read_to_string(&mut text)
                .with_context(|| format!("reading {}", path.display()))?;
        }
        None if std::io::stdin().is_terminal() => {
            // First: what is typed as soon as the question is there counts, and is not shown either.
            let shown = Hidden::begin();
            out::ask(&format!("{what}: "));
            let read = typed(std::io::stdin().lock());
            drop(shown);
            out::ask("\n");
            match read.with_context(|| format!("reading {what}"))? {
                Some(line) => text = line,
                None => anyhow::bail!("{what} was not given"),
            }
        }
        None => {
            let read = std::io::stdin().take(LONGEST).read_to_string(&mut text);
            read.with_context(|| format!("reading {what}"))?;
        }
    }
    Ok(text)
}

fn one_word<'a>(what: &str, text: &'a str) -> anyhow::Result<&'a str> {
    let secret = text.trim();
    anyhow::ensure!(!secret.is_empty(), "{what} is empty");
    anyhow::ensure!(!secret.chars().any(|c| c.is_whitespace() || c.is_control()), "{what} is not one word");
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_make_a_line_and_somebody_may_give_up_and_two_secrets_are_two_words() {
        for (keys, line) in [
            ("key\nmore", Some("key")),
            ("kex\u{7f}y\r", Some("key")),
            ("\u{8}key", Some("key")),
            ("ke\u{3}", None),
            ("\u{4}", None),
            ("", Some("")),
        ] {
            assert_eq!(typed(keys.as_bytes()).unwrap().as_deref(), line, "{keys:?}");
        }
        let dir = tempfile::tempdir().unwrap();
        let file = |text: &str| {
            let path = dir.path().join("tokens");
            std::fs::write(&path, text).unwrap();
            words("slack", &["App token", "Bot token"], Some(&path)).map_err(|error| error.to_string())
        };
        assert_eq!(file(" xapp-1\nxoxb-2\n").as_deref(), Ok("xapp-1 xoxb-2"));
        for few in ["", "xapp-1", "a b c"] {
            assert_eq!(file(few), Err("App token and Bot token of slack are not 2 words".into()));
        }
        assert!(file("xapp-1 xo\u{1}xb").is_err());
        let long = typed("x".repeat(1 << 16).as_bytes()).unwrap().unwrap();
        assert_eq!(long.len() as u64, LONGEST + 1);
    }
}
