//! Markdown to a text and its spans. No visible word is lost; markup that means nothing is words.

use std::{collections::BTreeSet, ops::Range};

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

use crate::{
    beside::Beside,
    flow::Flow,
    span::{Kind, Text},
    table::Table,
    urls,
};

/// Quotes and items that begin in one line; a mark beyond them is a word. Each later line costs the parser a step for
/// each of them.
const DEEPEST: usize = 32;

/// Reads what an agent wrote. Takes time by the length of `markdown`, and never fails.
#[must_use]
pub fn parse(markdown: &str) -> Text {
    let (beside, source) = Beside::read(cleaned(markdown));
    let source = with_lone_definitions(source);
    let mut reader = Reader { source: &source, beside, ..Reader::default() };
    for (event, range) in parser(&source).into_offset_iter() {
        reader.take(event, range);
    }
    let text = urls::linked(reader.flow.finished());
    if text.text().is_empty() && !source.trim().is_empty() {
        // Markup around nothing, as an empty fence. An empty answer would puzzle more.
        return Text::new(beside.together(source.trim().into()).into_string(), Vec::new());
    }
    text
}

fn parser(source: &str) -> Parser<'_> {
    Parser::new_ext(
        source,
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS,
    )
}

/// Returns `markdown` without control characters and without hostile depth.
fn cleaned(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    for line in markdown.replace("\r\n", "\n").split(['\n', '\r']) {
        let (mut depth, mut is_prefix) = (0, true);
        let mut chars = line.chars().filter(|c| *c == '\t' || !c.is_control()).peekable();
        while let Some(c) = chars.next() {
            is_prefix = is_prefix && (c.is_ascii_digit() || " \t>-*+.)".contains(c));
            let is_mark = match c {
                '>' => true,
                '-' | '*' | '+' | '.' | ')' => chars.peek().is_none_or(|next| next.is_whitespace()),
                _ => false,
            };
            depth += usize::from(is_prefix && is_mark);
            if depth > DEEPEST {
                out.push('\\');
                (depth, is_prefix) = (0, false);
            }
            out.push(c);
        }
        out.push('\n');
    }
    out
}

/// Returns `source` with each `[word]: more` shown that is no definition of a link in use, but looks like one.
fn with_lone_definitions(source: String) -> String {
    if !source.contains("]:") {
        return source;
    }
    let mut ids = BTreeSet::new();
    let mut kept: Vec<Range<usize>> = Vec::new();
    let mut events = parser(&source).into_offset_iter();
    for (event, range) in events.by_ref() {
        match event {
            Event::Start(Tag::Link { link_type, id, .. } | Tag::Image { link_type, id, .. }) => {
                match link_type {
                    LinkType::Autolink | LinkType::Email => kept.push(range),
                    _ => drop(ids.insert(id.into_string())),
                }
            }
            Event::Code(_) | Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::CodeBlock(_)) => {
                kept.push(range);
            }
            _ => {}
        }
    }
    let definitions = events.reference_definitions();
    kept.extend(ids.iter().filter_map(|id| Some(definitions.get(id)?.span.clone())));
    kept.sort_by_key(|range| range.start);
    let (mut out, mut at, mut next) = (String::with_capacity(source.len()), 0, 0);
    for (colon, _) in source.match_indices("]:").map(|(bracket, s)| (bracket + 1, s)) {
        while kept.get(next).is_some_and(|range| range.end <= colon) {
            next += 1;
        }
        if kept.get(next).is_none_or(|range| colon < range.start) {
            out.push_str(&source[at..colon]);
            out.push('\\');
            at = colon;
        }
    }
    out.push_str(&source[at..]);
    out
}

/// Returns the language that a block of code begins with, `None` if words stand there.
fn language(info: &str) -> Option<String> {
    let lang = info.split(|c: char| c.is_whitespace() || ",{".contains(c)).next()?;
    let settings = info[lang.len()..].trim_start();
    let is_lang = (1..=20).contains(&lang.len())
        && lang.chars().all(|c| c.is_ascii_alphanumeric() || "_+-.#".contains(c));
    let are_settings = settings.is_empty() || settings.starts_with(',') || settings.contains(['=', '{']);
    (is_lang && are_settings).then(|| lang.to_owned())
}

#[derive(Default)]
struct Reader<'a> {
    source: &'a str,
    beside: Beside,
    flow: Flow,
    /// Where a table stands, while its cells are read.
    table: Option<(Flow, Table)>,
    /// Where the last cell ended in the source.
    cell_end: usize,
    /// The next number of each list that is open, `None` for one with bullets.
    lists: Vec<Option<u64>>,
    in_heading: bool,
    in_code: bool,
}

impl Reader<'_> {
    fn take(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(tag) => self.end(tag, range),
            Event::Text(words) if self.in_code => self.flow.out.push_str(&self.beside.together(words)),
            Event::Text(words) => {
                let words = self.beside.together(words);
                let is_escaped = self.source[..range.start].ends_with('\\');
                self.flow.words_with_spoilers(&words, is_escaped, self.table.is_some());
            }
            Event::Code(words) => {
                self.flow.open(Kind::Code);
                self.flow.words(&self.beside.together(words));
                self.flow.close(&Kind::Code);
            }
            Event::Html(html) | Event::InlineHtml(html) => self.html(&self.beside.together(html)),
            Event::SoftBreak | Event::HardBreak if self.in_heading => self.flow.words(" "),
            Event::SoftBreak | Event::HardBreak => self.flow.line(1),
            Event::Rule => {
                self.flow.block();
                self.flow.words("———");
                self.flow.block();
            }
            Event::TaskListMarker(is_done) => self.flow.words(if is_done { "☑ " } else { "☐ " }),
            Event::FootnoteReference(words) | Event::InlineMath(words) | Event::DisplayMath(words) => {
                self.flow.words(&words);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.flow.line(2),
            Tag::Heading { .. } => {
                self.flow.block();
                self.in_heading = true;
                self.flow.open(Kind::Heading);
            }
            Tag::BlockQuote(_) => {
                self.flow.block();
                self.flow.open(Kind::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.in_code = true;
                let info = match kind {
                    CodeBlockKind::Fenced(info) => self.beside.together(info).into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                let lang = language(&info);
                self.flow.begin_block();
                let is_words = lang.is_none() && !info.is_empty();
                self.flow.open(Kind::Pre { lang });
                if is_words {
                    self.flow.out.extend([&info, "\n"]);
                }
            }
            Tag::List(first) => {
                self.flow.line(if self.lists.is_empty() { 2 } else { 1 });
                self.lists.push(first);
            }
            Tag::Item => {
                let prefix = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let prefix = format!("{number}. ");
                        *number = number.saturating_add(1);
                        prefix
                    }
                    Some(None) | None => "• ".to_owned(),
                };
                self.flow.item(&prefix);
            }
            Tag::Emphasis => self.flow.open(Kind::Italic),
            Tag::Strong => self.flow.open(Kind::Bold),
            Tag::Strikethrough => self.flow.open(Kind::Strike),
            Tag::Link { dest_url: to, .. } | Tag::Image { dest_url: to, .. } => {
                self.flow.open(Kind::Link { to: self.beside.together(to).into_string() });
            }
            Tag::Table(columns) => {
                self.flow.block();
                self.table = Some((std::mem::take(&mut self.flow), Table { columns, rows: Vec::new() }));
            }
            Tag::TableHead | Tag::TableRow => {
                self.cell_end = range.start;
                if let Some((_, table)) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            Tag::TableCell => self.flow = Flow::default(),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, range: Range<usize>) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flow.block(),
            TagEnd::Heading(_) => {
                self.in_heading = false;
                self.flow.close(&Kind::Heading);
                self.flow.block();
            }
            TagEnd::BlockQuote(_) => {
                self.flow.close(&Kind::Quote);
                self.flow.block();
            }
            TagEnd::CodeBlock => {
                self.in_code = false;
                self.flow.end_code();
                self.flow.block();
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.flow.line(if self.lists.is_empty() { 2 } else { 1 });
            }
            TagEnd::Item => self.flow.end_item(),
            TagEnd::Emphasis => self.flow.close(&Kind::Italic),
            TagEnd::Strong => self.flow.close(&Kind::Bold),
            TagEnd::Strikethrough => self.flow.close(&Kind::Strike),
            TagEnd::Link | TagEnd::Image => self.flow.close(&Kind::Link { to: String::new() }),
            TagEnd::TableCell => {
                self.cell_end = range.end;
                let cell = std::mem::take(&mut self.flow).finished();
                self.cell(cell);
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                // Cells beyond the last column are no cells in markdown.
                let beyond = self.source.get(self.cell_end..range.end).unwrap_or_default();
                let beyond = beyond.trim_matches(|c: char| c == '|' || c.is_whitespace());
                if !beyond.is_empty() {
                    self.cell(Text::new(self.beside.together(beyond.into()).into_string(), Vec::new()));
                }
            }
            TagEnd::Table => {
                if let Some((flow, table)) = self.table.take() {
                    self.flow = flow;
                    self.flow.append(&table.shown());
                    self.flow.block();
                }
            }
            _ => {}
        }
    }

    fn cell(&mut self, cell: Text) {
        if let Some(row) = self.table.as_mut().and_then(|(_, table)| table.rows.last_mut()) {
            row.push(cell);
        }
    }

    fn html(&mut self, html: &str) {
        let is_break = html.strip_prefix("<br").is_some_and(|end| matches!(end.trim(), ">" | "/>"));
        if is_break && !self.in_heading && self.table.is_none() {
            return self.flow.line(1);
        }
        if is_break {
            return self.flow.words(" ");
        }
        for line in html.split_inclusive('\n') {
            self.flow.words(line.trim_end_matches('\n'));
            if line.ends_with('\n') {
                self.flow.line(1);
            }
        }
    }
}
