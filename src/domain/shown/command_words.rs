//! A command as people type it: words, with quotes as a shell has them. Nothing is expanded. Pure.

/// A command that can't be taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadWords {
    #[error("a quote is not closed")]
    Open,
    #[error("nothing follows the last backslash")]
    Backslash,
}

/// Returns the words of a command: blanks part them, quotes and backslashes keep them together as in a shell.
///
/// # Errors
/// [`BadWords`]
pub fn command_words(text: &str) -> Result<Vec<String>, BadWords> {
    let mut words = Vec::new();
    // A pair of quotes with nothing in it is a word, too.
    let mut word: Option<String> = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            letter if letter.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some('\'') => break,
                        Some(letter) => word.push(letter),
                        None => return Err(BadWords::Open),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some('"') => break,
                        Some('\\') => match letters.next_if(|letter| "\"\\$`".contains(*letter)) {
                            Some(letter) => word.push(letter),
                            None => word.push('\\'),
                        },
                        Some(letter) => word.push(letter),
                        None => return Err(BadWords::Open),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(letters.next().ok_or(BadWords::Backslash)?),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        for (text, expected) in [
            ("", &[][..]),
            ("  vi\t-n \n", &["vi", "-n"]),
            ("code --wait", &["code", "--wait"]),
            (r#"'a b' "c d" e\ f"#, &["a b", "c d", "e f"]),
            (r#"a'b'"c"d"#, &["abcd"]),
            (r#"'' """#, &["", ""]),
            (r#""a\"b\\c\d""#, &[r#"a"b\c\d"#]),
            (r"'a\b'", &[r"a\b"]),
            ("$(rm -rf /); `x` $HOME *", &["$(rm", "-rf", "/);", "`x`", "$HOME", "*"]),
            ("ö'ü ß'", &["öü ß"]),
        ] {
            assert_eq!(command_words(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_closed_is_an_error() {
        for (text, error) in [
            ("'a", BadWords::Open),
            ("\"a", BadWords::Open),
            ("\"a\\\"", BadWords::Open),
            ("a\\", BadWords::Backslash),
        ] {
            assert_eq!(command_words(text), Err(error), "{text}");
        }
    }
}
