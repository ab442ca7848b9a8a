//! Slack's own marks in a text: people, channels, calls and addresses stand between angles, and three characters are escaped. Pure.

use crate::kit::{Links, cut};

/// The longest piece between two angles that is read as one, bytes.
const LONGEST: usize = 4096;
/// The longest name that is told, bytes.
const LONGEST_NAME: usize = 256;
/// How many people one text may name.
const MOST_NAMED: usize = 32;

/// What people and channels are called.
pub(super) trait Names: Sync {
    fn person(&self, id: &str) -> Option<String>;
    fn channel(&self, id: &str) -> Option<String>;
}

/// A piece of a text.
#[derive(Debug, PartialEq)]
enum Piece<'a> {
    Person(&'a str, &'a str),
    Channel(&'a str, &'a str),
    /// `here`, `subteam^S1`, and what stands behind.
    Call(&'a str, &'a str),
    Link(&'a str, &'a str),
}

/// Returns a text as its readers see it, with the addresses behind its words.
pub(super) fn told(text: &str, names: &dyn Names, links: &mut Links) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        unescape(&rest[..at], &mut out);
        rest = &rest[at..];
        match piece(rest) {
            Some((piece, taken)) => {
                shown(&piece, names, links, &mut out);
                rest = &rest[taken..];
            }
            None => {
                out.push('<');
                rest = &rest[1..];
            }
        }
    }
    unescape(rest, &mut out);
    out
}

/// Returns the people that a text names, each once.
pub(super) fn named(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        match piece(rest) {
            Some((piece, taken)) => {
                if let Piece::Person(id, _) = piece
                    && !found.contains(&id)
                    && found.len() < MOST_NAMED
                {
                    found.push(id);
                }
                rest = &rest[taken..];
            }
            None => rest = &rest[1..],
        }
    }
    found
}

/// Whether a text calls everybody.
pub(super) fn calls_all(text: &str) -> bool {
    ["<!here", "<!channel", "<!everyone"].iter().any(|call| text.contains(call))
}

/// Reads what begins here with an angle, and how long it is in all.
fn piece(text: &str) -> Option<(Piece<'_>, usize)> {
    let end = text.bytes().take(LONGEST).position(|b| b == b'>')?;
    let within = &text[1..end];
    let (what, label) = within.split_once('|').unwrap_or((within, ""));
    let is_id = |id: &str| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric());
    let piece = match what.as_bytes().first()? {
        b'@' if is_id(&what[1..]) => Piece::Person(&what[1..], label),
        b'#' if is_id(&what[1..]) => Piece::Channel(&what[1..], label),
        b'!' if what.len() > 1 => Piece::Call(&what[1..], label),
        _ if ["https:", "http:", "mailto:", "tel:", "slack:"]
            .iter()
            .any(|scheme| what.starts_with(scheme)) =>
        {
            Piece::Link(what, label)
        }
        _ => return None,
    };
    Some((piece, end + 1))
}

fn shown(piece: &Piece<'_>, names: &dyn Names, links: &mut Links, out: &mut String) {
    let mut put = |mark: &str, known: Option<String>, label: &str, id: &str| {
        let name = known.filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| plain(if label.is_empty() { id } else { label }));
        out.push_str(mark);
        out.push_str(&cut(name.trim_start_matches(mark), LONGEST_NAME));
    };
    match piece {
        Piece::Person(id, label) => put("@", names.person(id), label, id),
        Piece::Channel(id, label) => put("#", names.channel(id), label, id),
        Piece::Call(what, label) => match what.split('^').next() {
            Some("subteam") => put("@", None, label, what.rsplit('^').next().unwrap_or_default()),
            Some("date") => out.push_str(&plain(label)),
            _ => put("@", None, label, what),
        },
        Piece::Link(address, label) => {
            let (address, label) = (plain(address), plain(label));
            let bare = ["mailto:", "tel:"].iter().find_map(|scheme| address.strip_prefix(scheme));
            let words = if label.is_empty() { bare.unwrap_or(&address) } else { &label };
            let behind = links.behind(words, &address);
            out.push_str(words);
            out.push_str(&behind.unwrap_or_default());
        }
    }
}

fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    unescape(text, &mut out);
    out
}

/// Writes a text without its escapes, each of which is read once.
fn unescape(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>')];
        match known.iter().find(|(escape, _)| rest.starts_with(escape)) {
            Some((escape, c)) => {
                out.push(*c);
                rest = &rest[escape.len()..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Town;

    impl Names for Town {
        fn person(&self, id: &str) -> Option<String> {
            (id == "U1").then(|| "Ada".to_owned())
        }

        fn channel(&self, id: &str) -> Option<String> {
            (id == "C1").then(|| "general".to_owned())
        }
    }

    #[test]
    fn a_text_is_told_as_its_readers_see_it() {
        for (text, is) in [
            ("<@U1> and <@U2|eve> and <@U3>", "@Ada and @eve and @U3"),
            ("<#C1> <#C2|plans> <#C3|> <#C4>", "#general #plans #C3 #C4"),
            ("<!here> <!channel|channel> <!everyone>", "@here @channel @everyone"),
            ("<!subteam^S1|@crew> <!subteam^S2>", "@crew @S2"),
            ("<!date^139^{date}|tomorrow>", "tomorrow"),
            (
                "read <https://a.example/b|this article> please",
                "read this article (https://a.example/b) please",
            ),
            ("<https://a.example/?x=1&amp;y=2>", "https://a.example/?x=1&y=2"),
            ("<http://a.example|a.example>", "a.example"),
            ("<mailto:ada@a.example|ada@a.example> <tel:123>", "ada@a.example 123"),
            ("1 &lt; 2 &amp;&amp; 3 &gt; 2 &amp;lt; & &x;", "1 < 2 && 3 > 2 &lt; & &x;"),
            ("a < b <> <x> <@> <javascript:x|y>", "a < b <> <x> <@> <javascript:x|y>"),
            ("*bold* `code <@U1>`", "*bold* `code @Ada`"),
        ] {
            assert_eq!(told(text, &Town, &mut Links::default()), is, "{text}");
        }
    }

    #[test]
    fn whom_a_text_names_is_bounded_and_long_pieces_are_words() {
        assert_eq!(named("<@U1> <@U2|x> <@U1> <#C1> <@"), ["U1", "U2"]);
        let many: String = (0..1000).map(|n| format!("<@U{n}>")).collect();
        assert_eq!(named(&many).len(), MOST_NAMED);
        let long = format!("<https://a.example/{}|x>", "y".repeat(LONGEST));
        assert_eq!(told(&long, &Town, &mut Links::default()), long);
        assert!(calls_all("x <!here|here>") && !calls_all("@here &lt;!here&gt;"));
        let open = "<".repeat(100_000);
        assert_eq!(told(&open, &Town, &mut Links::default()), open);
    }
}
