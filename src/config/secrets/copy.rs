//! A copy of `g2.toml` without its secrets, and their names.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    super::declare, Among, InTheOpen, OURS, name_tells, secret_in, tells_of, user_in, user_of_proxy,
};

/// Shorter secrets are looked for in their own place only, bytes.
const SHORT: usize = 8;

/// A value that is a secret, or has one in it.
struct Secret {
    setting: InTheOpen,
    /// Whether its own name or form tells; a variable of an agent's may be none.
    is_sure: bool,
    /// Where the value stands, in bytes.
    value: Range<usize>,
    /// The text that is left of it.
    left: String,
    /// The secret, if it is a text.
    text: Option<String>,
}

/// What is found in a file.
#[derive(Default)]
struct Found {
    secrets: Vec<Secret>,
    /// Other texts that adapters and agents are given, and where they stand.
    texts: Vec<(Range<usize>, String)>,
}

pub(super) fn named(text: &str) -> Vec<InTheOpen> {
    let secrets = DeTable::parse(text).map(|table| Found::of(table.get_ref()).secrets).unwrap_or_default();
    let mut named: Vec<InTheOpen> =
        secrets.into_iter().filter(|secret| secret.is_sure).map(|secret| secret.setting).collect();
    named.sort_by(|a, b| a.name.cmp(&b.name));
    named.dedup_by(|a, b| a.name == b.name);
    named
}

/// Returns a `g2.toml` with empty values where its secrets stood, and without them in comments. An agent's environment has no
/// values in it, and no comments are left where accounts and that environment are. `None`: the text is no TOML, so nobody can
/// tell what is secret in it.
#[must_use]
pub fn without_secrets(text: &str) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    let Found { mut secrets, texts } = Found::of(table.get_ref());
    secrets.sort_by_key(|secret| secret.value.start);
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let long: Vec<&str> = secrets
        .iter()
        .filter_map(|secret| secret.text.as_deref())
        .filter(|text| text.len() >= SHORT)
        .collect();
    let without_long =
        |text: &str| long.iter().fold(text.to_owned(), |left, secret| left.replace(secret, "…"));
    let mut edits: Vec<(Range<usize>, String)> =
        secrets.iter().map(|secret| (secret.value.clone(), quoted(&secret.left))).collect();
    for (place, text) in texts {
        let left = without_long(&text);
        if left != text {
            edits.push((place, quoted(&left)));
        }
    }
    for Comment { place, is_foreign } in comments(text) {
        let before = secrets.partition_point(|secret| secret.value.end <= place.start).checked_sub(1);
        let is_behind = before.is_some_and(|at| !text[secrets[at].value.end..place.start].contains('\n'));
        let left =
            if is_foreign || is_behind { String::new() } else { without_long(&bare(&text[place.clone()])) };
        edits.push((place, left));
    }
    edits.sort_by_key(|(place, _)| place.start);
    let mut left = text.to_owned();
    for (place, instead) in edits.into_iter().rev() {
        left.replace_range(place, &instead);
    }
    left.parse::<toml::Table>().is_ok().then_some(left)
}

impl Found {
    fn of(table: &DeTable<'_>) -> Self {
        let mut found = Self::default();
        for (key, value) in table {
            found.gather(&mut vec![&**key.get_ref()], value, Among::Alone);
        }
        found
    }

    fn gather<'a>(&mut self, path: &mut Vec<&'a str>, value: &'a Spanned<DeValue<'_>>, among: Among) {
        let told = tells_of(path);
        let is_foreign = matches!(**path, ["channels", _, ..] | ["agent", "acp", _, ..]);
        let (left, text) = match value.get_ref() {
            DeValue::Table(inner) => {
                for (key, value) in inner {
                    path.push(key.get_ref());
                    self.gather(path, value, Among::Alone);
                    path.pop();
                }
                return;
            }
            DeValue::Array(list) => {
                let mut among = Among::Words;
                for one in list {
                    self.gather(path, one, if is_foreign { among } else { Among::Alone });
                    let word = if let DeValue::String(word) = one.get_ref() { word } else { "" };
                    among = Among::next(word);
                }
                return;
            }
            DeValue::String(text) => {
                let part = if **path == ["network", "proxy"] {
                    user_of_proxy(text)
                } else {
                    secret_in(text, told, among)
                };
                let Some(part) = part else {
                    if is_foreign {
                        self.texts.push((value.span(), text.to_string()));
                    }
                    return;
                };
                let secret = text[part.clone()].to_owned();
                ([&text[..part.start], &text[part.end..]].concat(), Some(secret))
            }
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Datetime(_) if told => (String::new(), None),
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Boolean(_) => return,
        };
        let twin = match **path {
            ["channels", account, name] if among == Among::Alone && !OURS.contains(&name) => {
                Some((account.to_owned(), name.to_owned()))
            }
            _ => None,
        };
        let is_environment = matches!(**path, ["agent", "acp", "env", ..]);
        let is_sure = !is_environment
            || path.last().is_some_and(|name| name_tells(name))
            || text.as_deref().is_some_and(|text| user_in(text).is_some());
        let setting = InTheOpen { name: path.join("."), twin };
        self.secrets.push(Secret { setting, is_sure, value: value.span(), left, text });
    }
}

/// A comment, and whether it stands among settings of accounts or of an agent's environment, which may be out of use.
struct Comment {
    place: Range<usize>,
    is_foreign: bool,
}

/// Returns the comments of a text that is TOML.
fn comments(text: &str) -> Vec<Comment> {
    let bytes = text.as_bytes();
    let line_at = |at: usize| {
        let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |length| at + length);
        at..end
    };
    let (mut all, mut at, mut depth, mut begins) = (Vec::new(), 0, 0_usize, true);
    let (mut is_foreign, mut is_foreign_out_of_use) = (false, false);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'#' => {
                let place = line_at(at);
                let body = text[place.clone()].trim_start_matches('#').trim_start();
                if body.starts_with('[') {
                    is_foreign_out_of_use = is_foreign_head(body);
                }
                at = place.end;
                all.push(Comment { place, is_foreign: is_foreign || is_foreign_out_of_use });
                continue;
            }
            b'"' | b'\'' => {
                at = end_of_text(bytes, at);
                begins = false;
                continue;
            }
            b'[' | b'{' => {
                if *byte == b'[' && begins && depth == 0 {
                    (is_foreign, is_foreign_out_of_use) = (is_foreign_head(&text[line_at(at)]), false);
                }
                depth += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        begins = *byte == b'\n' || begins && byte.is_ascii_whitespace();
        at += 1;
    }
    all
}

/// Returns where a text in quotes ends that begins here.
fn end_of_text(bytes: &[u8], start: usize) -> usize {
    let quote = bytes[start];
    let marks = [quote; 3];
    let is_long = bytes[start..].starts_with(&marks);
    let mut at = start + if is_long { 3 } else { 1 };
    while let Some(byte) = bytes.get(at) {
        if *byte == b'\\' && quote == b'"' {
            at += 2;
        } else if is_long && bytes[at..].starts_with(&marks) {
            at += 3;
            // Up to two quotes before the end are of the text.
            while bytes.get(at) == Some(&quote) {
                at += 1;
            }
            return at;
        } else if !is_long && *byte == quote {
            return at + 1;
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Whether the head of a table is that of an account, or of an agent's environment.
fn is_foreign_head(line: &str) -> bool {
    let path: String = line.chars().filter(|c| !c.is_whitespace() && !"[\"'".contains(*c)).collect();
    ["channels.", "channels]", "agent.acp.env.", "agent.acp.env]"].iter().any(|head| path.starts_with(head))
}

/// Returns a comment; one that is a setting out of use, with a name that tells and is none of ours, without its value, and
/// addresses without their users.
fn bare(comment: &str) -> String {
    let body = comment.trim_start_matches('#');
    if let Some((name, value)) = body.split_once('=') {
        let last = name.trim().rsplit(['.', ' ']).next().unwrap_or_default();
        let is_ours = || declare::all().any(|known| known.name.rsplit('.').next() == Some(last));
        let is_environment = name.trim().split('.').any(|part| part.trim() == "env");
        if name_tells(last) && !is_ours() || is_environment && !value.trim_start().starts_with("{}") {
            return comment[..comment.len() - body.len() + name.len()].to_owned();
        }
    }
    let mut left = comment.to_owned();
    if let Some(part) = user_in(comment) {
        left.replace_range(part, "");
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::default_toml;

    const TEXT: &str = "# token = \"111:commented\" of before\n\
        [limits]\nkeep_days = 3 # stays\n\
        [channels.telegram]\ntoken = \"123456:AA-secret\" # was 123456:AA-secret\ntoken_file = \"data/secrets/t\"\n\
        [channels.\"matrix.work\"]\n#access_token='sy-old'\naccess_token = '''sy-new-secret'''\nhomeserver = \"https://m\"\n\
        [channels.toy]\nlogin = { user = \"u\", password = \"hush-hush\" }\nkeys = [\"hush-a\", \"hush-b\"]\npassword = \"\"\ntoken_env = \"TOY\"\n\
        [agent.acp.env]\nAPI_KEY = \"hush\"\nLANG = \"C\"\n";

    fn names(text: &str) -> Vec<String> {
        named(text).into_iter().map(|setting| setting.name).collect()
    }

    #[test]
    fn secrets_are_named_and_none_is_left() {
        assert_eq!(
            names(TEXT),
            [
                "agent.acp.env.API_KEY",
                "channels.matrix.work.access_token",
                "channels.telegram.token",
                "channels.toy.keys",
                "channels.toy.login.password",
            ]
        );
        let left = without_secrets(TEXT).unwrap();
        for secret in ["secret\"", "AA-secret", "sy-", "hush", "commented", "\"C\""] {
            assert!(!left.contains(secret), "{secret}: {left}");
        }
        for stays in ["keep_days = 3 # stays", "token_file = \"data/secrets/t\"", "token_env = \"TOY\""] {
            assert!(left.contains(stays), "{stays}: {left}");
        }
        let table: toml::Table = left.parse().unwrap();
        assert_eq!(table["channels"]["telegram"]["token"].as_str(), Some(""));
        assert!(named(&left).is_empty());
    }

    #[test]
    fn secrets_of_each_form_are_found() {
        for (text, name) in [
            ("[channels.toy.tokens]\nwork = \"xoxb\"\n", "channels.toy.tokens.work"),
            ("[channels.toy]\ncredentials = { value = \"xoxb\" }\n", "channels.toy.credentials.value"),
            ("[[channels.toy.accounts]]\ntoken = \"xoxb\"\n", "channels.toy.accounts.token"),
            ("[channels.toy]\npassword = 12345678 # xoxb\n", "channels.toy.password"),
            ("channels.toy.pass = \"xoxb\" # not xoxb\n", "channels.toy.pass"),
            ("[channels.toy]\npasswd = \"xoxb\"\n", "channels.toy.passwd"),
            ("[channels.toy]\npwd = \"xoxb\"\n", "channels.toy.pwd"),
            ("[channels.toy]\nauth = \"xoxb\"\n", "channels.toy.auth"),
            ("[channels.toy]\ncookie = \"xoxb\"\n", "channels.toy.cookie"),
            ("[channels.toy]\npat = \"xoxb\"\n", "channels.toy.pat"),
            ("[channels.toy]\nserver = \"https://user:xoxb@host/x\"\n", "channels.toy.server"),
            ("[gateway]\nupstream = \"https://user:xoxb@host\"\n", "gateway.upstream"),
            ("[network]\nproxy = \"ada:xoxb@p:1\"\n", "network.proxy"),
            ("[channels.toy]\ncommand = [\"adapter\", \"--token\", \"xoxb\"]\n", "channels.toy.command"),
            ("[agent.acp]\ncommand = [\"agent\", \"--api-key=xoxb\"]\n", "agent.acp.command"),
            ("[agent.acp.env]\nPAT = \"xoxb\"\n", "agent.acp.env.PAT"),
            ("channels = { toy = { key = \"xoxb\" } }\n", "channels.toy.key"),
        ] {
            assert_eq!(names(text), [name], "{text}");
            let left = without_secrets(text).unwrap();
            assert!(!left.contains("xoxb") && !left.contains("12345678"), "{left}");
            assert!(names(&left).is_empty(), "{left}");
        }
        for (text, stays) in [
            ("[gateway]\nupstream = \"https://user:pw@host\"\n", "\"https://host\""),
            (
                "[channels.toy]\ncommand = [\"adapter\", \"--token\", \"hush\", \"-v\"]\n",
                "[\"adapter\", \"--token\", \"\", \"-v\"]",
            ),
        ] {
            assert!(without_secrets(text).unwrap().contains(stays), "{text}");
        }
        // A variable that may be none is in no copy, and named by nobody.
        let text = "[agent.acp.env]\nOPENAI = \"xoxb\"\n";
        assert!(names(text).is_empty() && !without_secrets(text).unwrap().contains("xoxb"));
    }

    #[test]
    fn only_what_stands_at_the_top_of_an_account_can_be_in_a_file() {
        let twin = |text: &str| named(text).remove(0).twin;
        let of = |account: &str, name: &str| Some((account.to_owned(), name.to_owned()));
        assert_eq!(twin("[channels.\"matrix.work\"]\nkey = \"k\"\n"), of("matrix.work", "key"));
        assert_eq!(twin("[channels.toy]\npassword = 1\n"), of("toy", "password"));
        for text in [
            "[channels.toy.login]\nkey = \"k\"\n",
            "[channels.toy]\nkeys = [\"k\"]\n",
            "[channels.toy]\nupstream = \"https://u:k@h\"\n",
            "[agent.acp.env]\nKEY = \"k\"\n",
        ] {
            assert_eq!(twin(text), None, "{text}");
        }
    }

    #[test]
    fn a_copy_can_be_read_whatever_its_secrets_are() {
        for (text, stays) in [
            ("[channels.toy]\npassword = \"password\"\n", "[channels.toy]\npassword = \"\"\n"),
            (
                "[channels.telegram]\nkeyword = \"telegram\"\nkey = \"channels\"\n",
                "[channels.telegram]\nkeyword = \"telegram\"\nkey = \"\"\n",
            ),
            (
                "[channels.toy]\nkeyboard = \"k\"\nhotkeys = \"h\"\nkey_path = \"p\"\n",
                "[channels.toy]\nkeyboard = \"k\"\nhotkeys = \"h\"\nkey_path = \"p\"\n",
            ),
            (
                "[channels.toy]\ntoken = \"a\\nlong \\\"one\\\"\"\nnote = \"a\\nlong \\\"one\\\" \\\\\"\n",
                "[channels.toy]\ntoken = \"\"\nnote = ",
            ),
        ] {
            let left = without_secrets(text).unwrap();
            assert!(left.starts_with(stays), "{left}");
            assert!(left.parse::<toml::Table>().is_ok(), "{left}");
        }
    }

    #[test]
    fn comments_are_left_out_where_secrets_may_be_and_nowhere_in_texts() {
        for (text, left) in [
            ("[channels.toy]\n# hush\na = 1\n[limits]\n# b\n", "[channels.toy]\n\na = 1\n[limits]\n# b\n"),
            ("[agent.acp.env] # hush\n", "[agent.acp.env] \n"),
            ("[web]\n# [channels.toy]\n# x = \"hush\"\n[limits]\n# y\n", "[web]\n\n\n[limits]\n# y\n"),
            (
                "[agent.acp]\n# env = { A = \"hush\" }\n# env.A = \"hush\"\n",
                "[agent.acp]\n# env \n# env.A \n",
            ),
            ("# token = hush\n# at https://u:hush@h/x\n", "# token \n# at https://h/x\n"),
            (
                "[agent.claude]\nappend_system_prompt = \"\"\"\n# token = 1\n[channels.x]\n\\\"\"\"\"\n# stays\n",
                "[agent.claude]\nappend_system_prompt = \"\"\"\n# token = 1\n[channels.x]\n\\\"\"\"\"\n# stays\n",
            ),
            ("[a]\n'#[' = [\n[\"#]\"], # in\n]\n# é\r\n", "[a]\n'#[' = [\n[\"#]\"], # in\n]\n# é\r\n"),
        ] {
            assert_eq!(without_secrets(text).as_deref(), Some(left));
        }
    }

    #[test]
    fn a_text_without_secrets_stays_as_it_is_and_one_that_is_no_toml_is_none() {
        for plain in ["[limits]\n\nkeep_days = 3\n# a = 1\n", "", "# a", &default_toml()] {
            assert_eq!(without_secrets(plain).as_deref(), Some(plain));
        }
        assert!(named(&default_toml()).is_empty());
        for odd in ["[channels.telegram\ntoken = \"t\"\n", "token = ", "\u{0}"] {
            assert!(named(odd).is_empty() && without_secrets(odd).is_none(), "{odd:?}");
        }
    }
}
