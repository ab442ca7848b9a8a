//! Reads what was rendered as the platform does, by rules of its own: Discord's marks, and Matrix's HTML.

use std::sync::LazyLock;

use fancy_regex::Regex;

use crate::{
    breaks::BREAK,
    span::{Kind, Text},
};

/// Words without spaces, and spans counted in their characters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) words: String,
    spans: Vec<(usize, usize, Kind)>,
}

impl Seen {
    fn push(&mut self, words: &str) {
        self.words.extend(words.chars().filter(|c| !c.is_whitespace() && *c != BREAK));
    }

    fn len(&self) -> usize {
        self.words.chars().count()
    }

    fn span(&mut self, from: usize, kind: Kind) {
        let words: String = self.words.chars().skip(from).collect();
        // An address links itself.
        let is_bare = matches!(&kind, Kind::Link { to } if *to == words);
        if !words.is_empty() && !is_bare {
            self.spans.push((from, self.len(), kind));
        }
    }

    fn sorted(mut self) -> Seen {
        self.spans.sort();
        self
    }
}

/// Returns what a reader has to see of `text`.
pub(super) fn expected(text: &Text) -> Seen {
    let mut seen = Seen::default();
    seen.push(text.text());
    let place = |at: usize| text.text()[..at].chars().filter(|c| !c.is_whitespace() && *c != BREAK).count();
    for span in text.spans() {
        let kind = match &span.kind {
            Kind::Heading => Kind::Bold,
            other => other.clone(),
        };
        let is_bare = matches!(&kind, Kind::Link { to } if to == text.of(span));
        if !is_bare && place(span.from) < place(span.to) {
            seen.spans.push((place(span.from), place(span.to), kind));
        }
    }
    seen.sorted()
}

/// The rules of Discord's own client, in their order.
struct Rules {
    quote: Regex,
    block: Regex,
    list_or_heading: Regex,
    escape: Regex,
    angle: Regex,
    url: Regex,
    link: Regex,
    strong: Regex,
    under: Regex,
    em: Regex,
    star: Regex,
    strike: Regex,
    code: Regex,
    spoiler: Regex,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let rule = |rule: &str| Regex::new(rule).unwrap();
    Rules {
        quote: rule(r"^( *> [^\n]*(?:\n *> [^\n]*)*\n?)"),
        block: rule(r"(?i)^```(?:([a-z0-9_+\-.#]+?)\n)?\n*([^\n][\s\S]*?)\n*```"),
        list_or_heading: rule(r"^(?: *(?:[-*]|\d+\.) +\S| *#{1,3} +\S| *-# +\S| *>>> )"),
        escape: rule(r"^\\([^0-9A-Za-z\s])"),
        angle: rule(r"^<([^: >]+:/[^ >]+)>"),
        url: rule(r#"^((?:https?|steam)://[^\s<]+[^<.,:;"'\]\s])"#),
        link: rule(
            r#"^\[((?:\[[^\]]*\]|[^\[\]]|\](?=[^\[]*\]))*)\]\(\s*<?((?:\([^)]*\)|[^\s\\]|\\.)*?)>?(?:\s+['"][\s\S]*?['"])?\s*\)"#,
        ),
        strong: rule(r"^\*\*((?:\\[\s\S]|[^\\])+?)\*\*(?!\*)"),
        under: rule(r"^__((?:\\[\s\S]|[^\\])+?)__(?!_)"),
        em: rule(r"^_((?:__|\\[\s\S]|[^\\_])+?)_(?![0-9A-Za-z_])"),
        star: rule(r"^\*(?=\S)((?:\*\*|\s+(?:[^*\s]|\*\*)|[^\s*])+?)\*(?!\*)"),
        strike: rule(r"^~~([\s\S]+?)~~(?!_)"),
        code: rule(r"^(`+)([\s\S]*?[^`])\1(?!`)"),
        spoiler: rule(r"^\|\|([\s\S]+?)\|\|"),
    }
});

pub(super) fn discord(text: &str) -> Seen {
    let mut seen = Seen::default();
    discord_into(text, true, &mut seen);
    seen.sorted()
}

fn discord_into(source: &str, is_top: bool, seen: &mut Seen) {
    let mut at = 0;
    while at < source.len() {
        let rest = &source[at..];
        let is_line = is_top && (at == 0 || source[..at].ends_with('\n'));
        let get = |rule: &Regex| {
            rule.captures(rest).unwrap().map(|found| {
                let groups: Vec<String> =
                    found.iter().map(|g| g.map_or(String::new(), |g| g.as_str().to_owned())).collect();
                groups
            })
        };
        let from = seen.len();
        if let Some(found) = get(&RULES.quote).filter(|_| is_line) {
            at += found[0].len();
            let lines = found[0].lines().map(|l| l.trim_start_matches(' ').strip_prefix("> ").unwrap());
            discord_into(&lines.collect::<Vec<_>>().join("\n"), false, seen);
            seen.span(from, Kind::Quote);
        } else if let Some(found) = get(&RULES.block) {
            at += found[0].len();
            seen.push(&found[2]);
            seen.span(from, Kind::Pre { lang: Some(found[1].clone()).filter(|l| !l.is_empty()) });
        } else if is_line && let Some(found) = get(&RULES.list_or_heading) {
            panic!("a line begins as a list or a heading: {found:?} in {source:?}");
        } else if let Some(found) = get(&RULES.escape) {
            at += found[0].len();
            seen.push(&found[1]);
        } else if let Some(found) = get(&RULES.angle) {
            at += found[0].len();
            seen.push(&found[1]);
        } else if let Some(found) = get(&RULES.url) {
            // Its end may be a mark that its outer rule has not left to it.
            at += found[0].len();
            seen.push(&found[1]);
        } else if let Some(found) = get(&RULES.link) {
            at += found[0].len();
            discord_into(&found[1], false, seen);
            seen.span(from, Kind::Link { to: found[2].clone() });
        } else if let Some((found, kind)) = [
            (&RULES.strong, Kind::Bold),
            (&RULES.under, Kind::Heading),
            (&RULES.em, Kind::Italic),
            (&RULES.star, Kind::Heading),
            (&RULES.strike, Kind::Strike),
            (&RULES.spoiler, Kind::Spoiler),
        ]
        .into_iter()
        .find_map(|(rule, kind)| Some((get(rule)?, kind)))
        {
            at += found[0].len();
            discord_into(&found[1], false, seen);
            seen.span(from, kind);
        } else if let Some(found) = get(&RULES.code) {
            at += found[0].len();
            seen.push(&found[2]);
            seen.span(from, Kind::Code);
        } else {
            let c = rest.chars().next().unwrap();
            seen.push(&c.to_string());
            at += c.len_utf8();
        }
    }
}

/// Reads HTML; panics at a tag or a character that Matrix does not allow, and at one that is left open.
pub(super) fn html(source: &str) -> Seen {
    let (mut seen, mut open): (Seen, Vec<(&str, usize, Kind)>) = (Seen::default(), Vec::new());
    let unescaped = |words: &str| {
        assert!(!words.contains(['>', '"']), "{words:?} in {source:?}");
        words.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    };
    let mut rest = source;
    while !rest.is_empty() {
        let words = &rest[..rest.find('<').unwrap_or(rest.len())];
        seen.push(&unescaped(words));
        rest = &rest[words.len()..];
        let Some(end) = rest.find('>') else { break };
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        let value = || unescaped(tag.split('"').nth(1).unwrap_or_default());
        let kind = match tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap() {
            "br" => continue,
            _ if tag.starts_with('/') => {
                let (name, from, kind) = open.pop().unwrap();
                assert_eq!(name, &tag[1..], "{source:?}");
                // The code of a block.
                if !(name == "code" && open.last().is_some_and(|(name, ..)| *name == "pre")) {
                    seen.span(from, kind);
                }
                continue;
            }
            "blockquote" => Kind::Quote,
            "pre" => Kind::Pre { lang: None },
            "code" => {
                if let Some(("pre", _, kind)) = open.last_mut() {
                    *kind = Kind::Pre { lang: value().strip_prefix("language-").map(str::to_owned) };
                }
                Kind::Code
            }
            "strong" => Kind::Bold,
            "em" => Kind::Italic,
            "del" => Kind::Strike,
            "span" => Kind::Spoiler,
            "a" => Kind::Link { to: value() },
            other => panic!("<{other}> in {source:?}"),
        };
        open.push((tag.split(' ').next().unwrap(), seen.len(), kind));
    }
    assert!(open.is_empty(), "{source:?}");
    seen.sorted()
}
