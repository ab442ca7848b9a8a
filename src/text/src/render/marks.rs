//! Marks between the words: Discord, Slack, WhatsApp. A character that would be a mark is kept from being one.

use super::{Step, walk};
use crate::{
    adapt::alike,
    breaks::BREAK,
    span::{Kind, Span, Text},
};

/// The marks of a platform.
pub(super) struct Marks {
    of: Platform,
    bold: &'static str,
    italic: &'static str,
    strike: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Platform {
    Discord,
    Slack,
    Whatsapp,
}

pub(super) const DISCORD: Marks = Marks { of: Platform::Discord, bold: "**", italic: "_", strike: "~~" };
pub(super) const SLACK: Marks = Marks { of: Platform::Slack, bold: "*", italic: "_", strike: "~" };
pub(super) const WHATSAPP: Marks = Marks { of: Platform::Whatsapp, ..SLACK };

pub(super) fn written(text: &Text, marks: &Marks) -> String {
    let replaced = if marks.of == Platform::Discord { Vec::new() } else { marks.alike(text) };
    let mut writer = Writer {
        marks,
        text,
        replaced,
        out: String::new(),
        in_quote: false,
        in_code: false,
        in_address: false,
        lead: Lead::Blank,
        closed: None,
    };
    walk(text, |step| match step {
        Step::Open(span) => writer.open(span),
        Step::Words(words, at) => writer.words(words, at),
        Step::Close(span) => writer.close(span),
    });
    writer.out
}

impl Marks {
    fn mark(&self, kind: &Kind) -> &'static str {
        match kind {
            Kind::Bold | Kind::Heading => self.bold,
            Kind::Italic => self.italic,
            Kind::Strike => self.strike,
            Kind::Spoiler => "||",
            Kind::Quote | Kind::Pre { .. } | Kind::Link { .. } | Kind::Code => "",
        }
    }

    /// Returns whether a mark counts only where it touches no letter.
    fn is_shy(&self, mark: &str) -> bool {
        self.of != Platform::Discord || mark == "_"
    }

    /// Returns the places of characters that would be marks on a platform that can't escape them.
    fn alike(&self, text: &Text) -> Vec<usize> {
        const ALL: [char; 3] = ['*', '_', '~'];
        let used = ALL.map(|c| text.spans().iter().any(|s| self.mark(&s.kind).starts_with(c)));
        let code: Vec<&Span> = text.spans().iter().filter(|s| s.kind.is_code()).collect();
        let (mut closes_later, mut found, mut left) = ([false; 3], Vec::new(), code.len());
        let mut after = ' ';
        let mut chars = text.text().char_indices().rev().peekable();
        while let Some((at, c)) = chars.next() {
            let before = chars.peek().map_or(' ', |(_, c)| *c);
            while left > 0 && code[left - 1].from > at {
                left -= 1;
            }
            let in_code = left > 0 && at < code[left - 1].to;
            if c == '\n' {
                closes_later = [false; 3];
            } else if c == '`' && !in_code {
                found.push(at);
            } else if let Some(mark) = ALL.iter().position(|m| *m == c).filter(|_| !in_code) {
                let opens = !before.is_alphanumeric() && !after.is_whitespace();
                let closes = !before.is_whitespace() && !after.is_alphanumeric();
                if (opens && (closes_later[mark] || used[mark])) || (closes && used[mark]) {
                    found.push(at);
                }
                closes_later[mark] |= closes;
            }
            after = c;
        }
        found.reverse();
        found
    }
}

/// What of a line is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    Blank,
    /// A number, which with a dot would begin a list.
    Number,
    Words,
}

struct Writer<'a> {
    marks: &'a Marks,
    text: &'a Text,
    /// Places of characters that are replaced by others that look like them.
    replaced: Vec<usize>,
    out: String,
    in_quote: bool,
    in_code: bool,
    /// The words are an address, which is written when it is through.
    in_address: bool,
    lead: Lead,
    /// The mark that was written last, if nothing came after it.
    closed: Option<&'static str>,
}

impl Writer<'_> {
    /// Keeps what is written next from touching what was written last.
    fn apart(&mut self) {
        self.out.push(BREAK);
        self.closed = None;
    }

    fn open(&mut self, span: &Span) {
        let mark = self.marks.mark(&span.kind);
        let last = self.out.chars().next_back();
        let touches = last.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let is_mark = !mark.is_empty() || span.kind == Kind::Code;
        if self.closed.is_some() || (touches && is_mark && self.marks.is_shy(mark)) {
            self.apart();
        }
        match &span.kind {
            Kind::Quote => {
                self.out.push_str("> ");
                self.in_quote = true;
            }
            Kind::Pre { lang } => {
                self.out.push_str("```");
                let lang = lang.as_deref().filter(|_| self.marks.of == Platform::Discord);
                self.out.push_str(lang.unwrap_or_default());
                self.out.push('\n');
                self.in_code = true;
            }
            Kind::Code => {
                self.fence(self.text.of(span));
                self.in_code = true;
                self.lead = Lead::Words;
            }
            Kind::Link { to } => {
                self.in_address = to == self.text.of(span);
                match self.marks.of {
                    _ if self.in_address => {}
                    Platform::Slack => {
                        self.out.push('<');
                        self.escaped(to);
                        self.out.push('|');
                    }
                    Platform::Discord | Platform::Whatsapp => self.out.push('['),
                }
                self.lead = Lead::Words;
            }
            Kind::Heading | Kind::Bold | Kind::Italic | Kind::Strike | Kind::Spoiler => {
                self.out.push_str(mark);
                self.lead = Lead::Words;
            }
        }
    }

    fn close(&mut self, span: &Span) {
        match &span.kind {
            Kind::Quote => self.in_quote = false,
            Kind::Pre { .. } => {
                self.out.push_str("\n```");
                self.in_code = false;
            }
            Kind::Code => {
                self.fence(self.text.of(span));
                self.in_code = false;
                self.closed = Some("`");
            }
            Kind::Link { to } => {
                match (self.marks.of, self.in_address) {
                    (Platform::Slack, true) => {
                        self.out.push('<');
                        self.escaped(to);
                        self.out.push('>');
                    }
                    (Platform::Slack, false) => self.out.push('>'),
                    (_, true) => self.address(span, to),
                    (_, false) => {
                        self.out.push_str("](<");
                        self.out.push_str(to);
                        self.out.push_str(">)");
                    }
                }
                self.in_address = false;
            }
            Kind::Heading | Kind::Bold | Kind::Italic | Kind::Strike | Kind::Spoiler => {
                let mark = self.marks.mark(&span.kind);
                if self.out.chars().next_back() == mark.chars().next_back() {
                    self.apart();
                }
                self.out.push_str(mark);
                self.closed = Some(mark);
            }
        }
    }

    /// An address as it stands, in brackets where its end would be unclear.
    fn address(&mut self, span: &Span, to: &str) {
        let after = self.text.text()[span.to..].chars().next();
        let is_clear = after.is_none_or(char::is_whitespace)
            && to.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
        if is_clear {
            self.out.push_str(to);
        } else {
            self.out.extend(["<", to, ">"]);
        }
    }

    /// The backticks around `code`. With one inside there are two, and a space where they would touch.
    fn fence(&mut self, code: &str) {
        let is_end = self.in_code;
        let fence = if code.contains('`') { "``" } else { "`" };
        let touches = if is_end { code.ends_with('`') } else { code.starts_with('`') };
        let space = if touches { " " } else { "" };
        self.out.extend(if is_end { [space, fence] } else { [fence, space] });
    }

    fn words(&mut self, words: &str, at: usize) {
        if self.in_address {
            return;
        }
        if let Some(mark) = self.closed.take() {
            let letter = words.starts_with(|c: char| c.is_alphanumeric());
            if letter && self.marks.is_shy(mark) {
                self.apart();
            }
        }
        let mut replaced = self.replaced.partition_point(|place| *place < at);
        for (place, c) in words.char_indices() {
            if self.replaced.get(replaced) == Some(&(at + place)) {
                replaced += 1;
                self.out.push(alike(c));
                self.lead = Lead::Words;
            } else if c == '\n' {
                self.out.push_str(if self.in_quote { "\n> " } else { "\n" });
                self.lead = Lead::Blank;
            } else {
                match self.marks.of {
                    Platform::Discord if self.in_code => self.out.push(c),
                    Platform::Discord => self.discord(c, &words[place..]),
                    Platform::Slack | Platform::Whatsapp => self.other(c),
                }
                self.lead = match (self.lead, c) {
                    (Lead::Blank, ' ') => Lead::Blank,
                    (Lead::Blank | Lead::Number, c) if c.is_ascii_digit() => Lead::Number,
                    _ => Lead::Words,
                };
            }
        }
    }

    fn discord(&mut self, c: char, rest: &str) {
        let is_mark = match c {
            // An address that is no link: half of one, or one that is too long.
            ':' => rest.starts_with("://"),
            '\\' | '*' | '_' | '~' | '|' | '`' | '[' | ']' | '<' => true,
            '>' | '#' | '-' | '+' => self.lead == Lead::Blank,
            '.' | ')' => self.lead == Lead::Number,
            _ => false,
        };
        if is_mark {
            self.out.push('\\');
        }
        self.out.push(c);
    }

    fn other(&mut self, c: char) {
        if c == '>' && self.lead == Lead::Blank && !self.in_code {
            self.out.push(BREAK);
        }
        match self.marks.of {
            Platform::Slack => self.escaped(c.encode_utf8(&mut [0; 4])),
            Platform::Discord | Platform::Whatsapp => self.out.push(c),
        }
    }

    /// Slack's three.
    fn escaped(&mut self, words: &str) {
        for c in words.chars() {
            match c {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                c => self.out.push(c),
            }
        }
    }
}
