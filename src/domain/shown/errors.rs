//! How an error is told.

use std::error::Error;

/// Returns an error with its causes. A cause that the text before it ends with already is not repeated.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !text.ends_with(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text
}

/// Returns a mistake with how to mend it, if there is a hint.
#[must_use]
pub fn with_hint(mistake: &str, hint: &str) -> String {
    if hint.is_empty() { mistake.to_owned() } else { format!("{mistake}; {hint}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{says}")]
    struct Said {
        says: &'static str,
        source: Option<Box<Self>>,
    }

    #[test]
    fn each_cause_is_told_once() {
        let cause = |says, source: Option<Said>| Said { says, source: source.map(Box::new) };
        let error = cause("a failed", Some(cause("b: c", Some(cause("c", None)))));
        assert_eq!(chain(&error), "a failed: b: c");
    }
}
