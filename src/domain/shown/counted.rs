//! Numbers of things in words.

/// Returns a number of things: `1 message`, `3 messages`.
#[must_use]
pub fn counted(count: i64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// Returns how many things wait: `1 question waits`, `2 questions wait`.
#[must_use]
pub fn waiting(count: i64, one: &str) -> String {
    format!("{} {}", counted(count, one), if count == 1 { "waits" } else { "wait" })
}

/// Returns a length of a list as a number for these.
#[must_use]
pub fn number(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_no_several() {
        for (count, all) in [(0, "0 questions wait"), (1, "1 question waits"), (2, "2 questions wait")] {
            assert_eq!(waiting(count, "question"), all);
        }
        assert_eq!((counted(1, "task"), counted(13, "task")), ("1 task".to_owned(), "13 tasks".to_owned()));
        assert_eq!(number(3), 3);
    }
}
