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
    let (mut text, mut wide, mut is_first) = (head.to_owned(), begun.width(), true);
    for word in words {
        // There is room for what a broken line ends with.
        if !is_first && wide + 1 + word.width() + end.width() > width {
            text.push_str(end);
            text.push('\n');
            text.push_str(hang);
            (wide, is_first) = (hang.width(), true);
        }
        if !is_first {
            text.push(' ');
            wide += 1;
        }
        text.push_str(word);
        wide += word.width();
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
    fn words_hang_below_each_other() {
        assert_eq!(hanging("ok  ", "a sound store", "    ", 12), "ok  a sound\n    store");
        assert_eq!(hanging("ok  ", "日本 日本", "    ", 10), "ok  日本\n    日本");
        assert_eq!(hanging("", "indivisible", "", 4), "indivisible");
    }
}
