//! Words in lines that fit a terminal.

use unicode_width::UnicodeWidthStr as _;

/// Lines of help are no longer than this on any terminal.
pub(super) const WIDEST: usize = 100;

/// Returns words in lines at most `width` wide. The first begins where `head` ends, all others with `hang`.
pub(super) fn hanging(head: &str, words: &str, hang: &str, width: usize) -> String {
    lines(head, words.split(' '), hang, "", width)
}

/// Returns a help text for a terminal. Its source has lines of any length: those of a paragraph are joined and broken anew, and
/// what explains a word in a list stays below itself. A command among the examples is broken as a shell reads it.
pub(super) fn help(text: &str, width: usize) -> String {
    let width = width.min(WIDEST);
    let mut laid = String::new();
    let mut is_example = false;
    let mut rest = text.lines().peekable();
    while let Some(line) = rest.next() {
        let is_heading = line.ends_with(':') && rest.peek().is_some_and(|next| next.starts_with(' '));
        is_example = if is_heading { line == "Examples:" } else { is_example && !line.is_empty() };
        if line.is_empty() || is_heading {
            laid.push_str(line);
        } else if is_example {
            laid.push_str(&example(line, width));
        } else {
            let (head, words, hang) = explained(line);
            let mut words = words.to_owned();
            while let Some(next) = rest.next_if(|next| goes_on(next, &hang)) {
                words = words + " " + next.trim_start();
            }
            laid.push_str(&hanging(head, &words, &hang, width));
        }
        laid.push('\n');
    }
    laid.truncate(laid.trim_end_matches('\n').len());
    laid
}

/// Whether a line goes on with what stands above it, which begins behind `hang`.
fn goes_on(line: &str, hang: &str) -> bool {
    line.strip_prefix(hang).is_some_and(|rest| !rest.is_empty() && !rest.starts_with(' '))
}

/// Returns lines for a terminal: one that is too wide goes on below itself, behind the word that it explains or below where it
/// begins. One with tabs stays as it is.
pub(super) fn screen(text: &str, width: usize) -> String {
    let fitted = |line: &str| {
        if columns(line) <= width || line.contains('\t') {
            return line.to_owned();
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        let gap = line[indent..].find("  ").map(|at| indent + at);
        let words = gap.map(|gap| line.len() - line[gap..].trim_start_matches(' ').len());
        // A word that takes much of the line explains nothing.
        let head = words.filter(|at| columns(&line[..*at]) <= width / 3).unwrap_or(indent);
        lines(&line[..head], pieces(&line[head..]), &" ".repeat(columns(&line[..head])), "", width)
    };
    let mut laid: String = text.split('\n').map(fitted).collect::<Vec<_>>().join("\n");
    // A broken line ends where its words do.
    while laid.contains(" \n") && !text.contains(" \n") {
        laid = laid.replace(" \n", "\n");
    }
    laid
}

/// Splits a text into words; what stands in backticks is one, so that a command is copied as it is typed.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let has_pairs = text.matches('`').count().is_multiple_of(2);
    let mut is_within = false;
    text.split(move |c: char| {
        is_within ^= has_pairs && c == '`';
        c == ' ' && !is_within
    })
}

/// How many columns a text takes, without the colours in it.
fn columns(text: &str) -> usize {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        plain.push_str(&rest[..at]);
        rest = rest[at..].split_once('m').map_or("", |(_, behind)| behind);
    }
    (plain + rest).width()
}

/// Splits a line of a list behind the word that it explains; a line of a paragraph is words alone. The third is what its other
/// lines begin with.
fn explained(line: &str) -> (&str, &str, String) {
    let indent = line.len() - line.trim_start().len();
    let behind = line[indent..].find("  ").map(|at| {
        let rest = &line[indent + at..];
        line.len() - rest.trim_start().len()
    });
    match (indent, behind) {
        (0, _) => ("", line, String::new()),
        (_, Some(at)) => (&line[..at], &line[at..], " ".repeat(line[..at].width())),
        (_, None) => (&line[..indent], &line[indent..], " ".repeat(indent + 2)),
    }
}

/// Returns an example: a command, with a comment or without.
fn example(line: &str, width: usize) -> String {
    if line.width() <= width {
        return line.to_owned();
    }
    if let Some((command, comment)) = line.split_once("  # ") {
        let head = format!("{command}  # ");
        let hang = " ".repeat(head.width() - 2) + "# ";
        return hanging(&head, comment, &hang, width);
    }
    let line = line.trim_start();
    let mut quote = None;
    let pieces = line.split(|c: char| {
        match quote {
            Some(open) if open == c => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            _ => {}
        }
        c == ' ' && quote.is_none()
    });
    lines("  ", pieces, "    ", " \\", width)
}

fn lines<'w>(
    head: &str,
    words: impl Iterator<Item = &'w str>,
    hang: &str,
    end: &str,
    width: usize,
) -> String {
    let begun = head.lines().last().unwrap_or_default();
    let (mut text, mut wide, mut is_first) = (head.to_owned(), columns(begun), true);
    for word in words {
        // There is room for what a broken line ends with.
        if !is_first && wide + 1 + columns(word) + columns(end) > width {
            text.push_str(end);
            text.push('\n');
            text.push_str(hang);
            (wide, is_first) = (columns(hang), true);
        }
        if !is_first {
            text.push(' ');
            wide += 1;
        }
        text.push_str(word);
        wide += columns(word);
        is_first = false;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_broken_anew_and_a_list_stays_a_list() {
        let text = "\
One two three four
five six.

Columns:
  name  what it is called by everybody
        who knows it
  at    when

Removed:
  runs that have ended, with logs
  counts

Examples:
  g2 up  # makes a root, and more
  g2 groups set main 'a b c d e f g' x=1";
        let laid = "\
One two three four five
six.

Columns:
  name  what it is called
        by everybody who
        knows it
  at    when

Removed:
  runs that have ended,
    with logs
  counts

Examples:
  g2 up  # makes a root,
         # and more
  g2 groups set main \\
    'a b c d e f g' x=1";
        assert_eq!(help(text, 25), laid);
        assert_eq!(help(&help(text, 25), 25), laid);
        // A colon at the end of a line within a paragraph makes no heading.
        assert_eq!(help("Fields of a run:\nits tool", 80), "Fields of a run: its tool");
    }

    #[test]
    fn a_line_that_is_too_wide_for_a_screen_goes_on_below_itself() {
        for (line, laid) in [
            ("short", "short"),
            ("one two three four five six", "one two three\nfour five six"),
            ("  one two three four", "  one two three\n  four"),
            ("ab  one two three four", "ab  one two\n    three four"),
            ("a-long-word  one two", "a-long-word  one\ntwo"),
            ("a\tlong line with a tab", "a\tlong line with a tab"),
            ("https://one.example/two/three", "https://one.example/two/three"),
            ("\u{1b}[1mone\u{1b}[0m two three", "\u{1b}[1mone\u{1b}[0m two three"),
            ("one\n\ntwo two two two two", "one\n\ntwo two two two\ntwo"),
            ("do `g2 groups set a b`, then go on", "do\n`g2 groups set a b`,\nthen go on"),
            ("a ` alone is no pair at all", "a ` alone is no\npair at all"),
        ] {
            assert_eq!(screen(line, 16), laid, "{line}");
            assert_eq!(screen(&screen(line, 16), 16), laid, "{line}");
        }
    }

    #[test]
    fn words_hang_below_each_other() {
        assert_eq!(hanging("ok  ", "a sound store", "    ", 12), "ok  a sound\n    store");
        assert_eq!(hanging("ok  ", "日本 日本", "    ", 10), "ok  日本\n    日本");
        assert_eq!(hanging("", "indivisible", "", 4), "indivisible");
    }
}
