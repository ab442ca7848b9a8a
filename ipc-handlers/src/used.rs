//! What an agent uses a tool on, in a few words that may be shown: one line, short, and without secrets.

use crate::seen::acts;

/// The longest words about the use of a tool, characters.
pub const LONGEST_ABOUT: usize = 80;
/// How much of an argument is looked at, characters: behind it nothing is shown in any case.
const LOOKED_AT: usize = 4 * LONGEST_ABOUT;
/// How much of it is searched for secrets that are known, bytes.
const SEARCHED: usize = 16 << 10;
/// The shortest secret that is looked for, bytes. A shorter one is in many words.
const SHORTEST_SECRET: usize = 4;
/// What a secret of a known kind begins with.
const KINDS: [&str; 12] = [
    "sk-",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "eyJ",
];
/// How long one of these kinds is at least, characters. Shorter words begin so, too.
const LEAST_OF_A_KIND: usize = 16;
/// What the name of a secret has in it.
const NAMES: [&str; 8] =
    ["token", "secret", "passwd", "password", "api_key", "apikey", "api-key", "authorization"];

/// Returns an argument as it may be shown, with `…` for each secret: those that are known, and what looks like one.
#[must_use]
pub fn about<'s>(argument: &str, secrets: impl IntoIterator<Item = &'s str>) -> String {
    let mut text = argument[..argument.floor_char_boundary(SEARCHED)].to_owned();
    let mut known: Vec<&str> = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST_SECRET).collect();
    // One may be a part of another.
    known.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    for secret in known {
        text = text.replace(secret, "…");
    }
    let line: String = text.chars().take(LOOKED_AT).map(|c| if acts(c) { ' ' } else { c }).collect();
    let mut shown: Vec<String> = Vec::new();
    let mut next = Next::Plain;
    for word in line.split_whitespace() {
        let told = match next {
            Next::Plain => Some(word_as_shown(word)),
            Next::Secret => Some(hidden(word)),
            Next::Within(quote) if word.contains(quote) => {
                next = Next::Plain;
                None
            }
            Next::Within(_) => None,
        };
        if let Some((words, after)) = told {
            shown.push(words);
            next = after;
        }
    }
    cut(&shown.join(" "), LONGEST_ABOUT)
}

/// How the next word is taken.
#[derive(Clone, Copy)]
enum Next {
    Plain,
    /// It is a secret.
    Secret,
    /// It is a part of one, until this quote.
    Within(char),
}

/// How the word after a secret is taken: a quote that is open in it ends in a later word.
fn after(secret: &str) -> Next {
    let is_open =
        |quote: &char| !secret.matches(*quote).count().is_multiple_of(2) && !secret.ends_with(*quote);
    ['"', '\''].into_iter().find(is_open).map_or(Next::Plain, Next::Within)
}

/// Whether a word tells how the secret behind it is meant.
fn is_a_way(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase();
    matches!(bare.as_str(), "bearer" | "basic" | "token")
}

/// A word in the place of a secret, and how the next one is taken: in `Authorization: Bearer x` that is in its place, too.
fn hidden(word: &str) -> (String, Next) {
    if is_a_way(word) { (word.to_owned(), Next::Secret) } else { ("…".to_owned(), after(word)) }
}

/// A word as it is shown, and how the next one is taken.
fn word_as_shown(word: &str) -> (String, Next) {
    let word = without_user(word);
    let (mut shown, mut rest) = (String::new(), word.as_str());
    // NAME=VALUE, also several in the query of an address.
    while let Some(at) = rest.find(['=', ':']) {
        let (name, behind) = rest.split_at(at);
        let end = behind.find(['&', ';', '|']).unwrap_or(behind.len());
        let value = &behind[1..end.max(1)];
        shown.push_str(&of_a_kind(name));
        shown.push_str(&behind[..1]);
        if names_a_secret(name) {
            if value.trim_matches(['"', '\'']).is_empty() || is_a_way(value) {
                return (shown + value, Next::Secret);
            }
            shown.push('…');
            if let Next::Within(quote) = after(value) {
                return (shown, Next::Within(quote));
            }
            rest = &behind[end.max(1)..];
        } else {
            rest = &behind[1..];
        }
    }
    let is_option = word.starts_with("--") && !word.contains('=') && names_a_secret(&word);
    (shown + &of_a_kind(rest), if is_option { Next::Secret } else { Next::Plain })
}

/// Whether the end of a text is the name of a secret.
fn names_a_secret(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let bare = text.trim_end_matches(['"', '\'']);
    let name = bare.rsplit(|c| !is_part(c)).next().unwrap_or_default().to_ascii_lowercase();
    NAMES.iter().any(|part| name.contains(part))
}

/// An address without its user and password.
fn without_user(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let place = rest.find('/').unwrap_or(rest.len());
    match rest[..place].rfind('@') {
        Some(at) => format!("{scheme}://…{}", &rest[at..]),
        None => word.to_owned(),
    }
}

/// A text in which a secret of a known kind is hidden.
fn of_a_kind(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let end = |at: usize| text[at..].find(|c| !is_part(c)).map_or(text.len(), |end| at + end);
    let is_one = |at: &usize| {
        let (before, from) = text.split_at(*at);
        KINDS.iter().any(|kind| from.starts_with(kind))
            && !before.ends_with(|c: char| c.is_ascii_alphanumeric())
            && end(*at) - at >= LEAST_OF_A_KIND
    };
    match text.char_indices().map(|(at, _)| at).find(is_one) {
        Some(at) => format!("{}…{}", &text[..at], of_a_kind(&text[end(at)..])),
        None => text.to_owned(),
    }
}

/// Returns the beginning of a text; one that is cut ends in `…`.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most - 1).collect();
    format!("{}…", head.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_one_short_line() {
        let of = |text: &str| about(text, []);
        for (text, shown) in [
            ("ls -la", "ls -la"),
            ("cd /x &&\n\tmake\u{1b}[31m  all", "cd /x && make [31m all"),
            ("", ""),
            ("a\u{202e}b", "a b"),
        ] {
            assert_eq!(of(text), shown);
        }
        let long = of(&"word ".repeat(1_000_000));
        assert!(long.chars().count() <= LONGEST_ABOUT && long.ends_with('…'), "{long}");
        assert_eq!(of(&"é".repeat(80)), "é".repeat(80));
        assert_eq!(of(&"é".repeat(81)), format!("{}…", "é".repeat(79)));
    }

    #[test]
    fn no_secret_is_in_it() {
        let known = ["hunter22", "hunter2", "abc"];
        for (text, shown) in [
            ("login hunter22", "login …"),
            ("abc stays, as it is short", "abc stays, as it is short"),
            ("export API_TOKEN=12345 && make", "export API_TOKEN=… && make"),
            ("API_TOKEN= x", "API_TOKEN= …"),
            (
                "curl -H 'Authorization: Bearer xyz' https://h/p",
                "curl -H 'Authorization: Bearer … https://h/p",
            ),
            ("curl https://ada:pw@h.example/p?a=1", "curl https://…@h.example/p?a=1"),
            ("https://h/p?access_token=xyz&b=2", "https://h/p?access_token=…&b=2"),
            ("tool --password letmein --verbose", "tool --password … --verbose"),
            ("tool --password=letmein --verbose", "tool --password=… --verbose"),
            ("echo sk-ant-api03-abcdefghijkl", "echo …"),
            ("echo 'ghp_0123456789abcdef'", "echo '…'"),
            ("grep sk-learn README.md", "grep sk-learn README.md"),
            ("cat task-1/ghp_0123456789abcdef", "cat task-1/…"),
            ("cat task-scheduler-design.md", "cat task-scheduler-design.md"),
            (
                "curl -H \"Authorization:Bearer s3cr3t\" https://h",
                "curl -H \"Authorization:Bearer … https://h",
            ),
            ("PASSWORD=ab'c d' make", "PASSWORD=… make"),
            ("git log --format=%h a:b", "git log --format=%h a:b"),
            ("{\"password\":\"x y\"} z", "{\"password\":… z"),
            ("login --password 'two words' now", "login --password … now"),
            ("PASSWORD=\"a b c\" make", "PASSWORD=… make"),
        ] {
            assert_eq!(about(text, known), shown);
        }
        // One that stands where the text is cut is hidden before that.
        let cut = about(&format!("{} hunter22", "x".repeat(74)), known);
        assert!(!cut.contains("hunter"), "{cut}");
    }
}
