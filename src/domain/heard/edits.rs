//! What becomes of an edit, wiring by wiring. Words that nobody has read are replaced where they stand. Who has read them is told
//! once, in a message of its own; while that waits, later edits replace its words.
//!
//! | the newest row of the message in a lane | other words | the same, of no person (`quiet`) |
//! |---|---|---|
//! | there is none | a message of its own | nothing |
//! | waits | replaced | replaced |
//! | engaged nobody | replaced, and judged anew | replaced |
//! | is asked about | a message of its own | replaced |
//! | was read | a message of its own | replaced |
//!
//! An edit with the same words is nothing to anybody. Words that one lane has read, or that a person is asked about, stay as they
//! are: the rows of other lanes go on to the new message.

use super::engage::{EngageVerdict, Rule};
use ipc_handlers::file::MediaKind;

/// How an edit differs from what is known of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The words and the files are those that stand there.
    None,
    /// A person changed them.
    ByPerson,
    /// They changed by themselves.
    Quiet,
}

/// How the newest row of a message stands in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The wiring has none.
    Absent,
    /// It is still to be judged, wakes an agent that has not read it, or waits for a person to look at a backup.
    Waits,
    /// It woke nobody, and nobody has read it.
    Unheard,
    /// A person is asked whether its sender is heard, and was shown its words.
    Asked,
    /// It was handed to an agent, or passed by.
    Read,
}

impl Standing {
    /// Reads a row of the inbox: its verdict, its rule, whether the lane's cursor is past it, and whether a person is asked about
    /// its sender.
    #[must_use]
    pub const fn of(
        verdict: Option<EngageVerdict>,
        rule: Option<Rule>,
        is_past: bool,
        is_asked: bool,
    ) -> Self {
        match verdict {
            _ if matches!(rule, Some(Rule::Restored)) => Self::Waits,
            _ if is_asked && matches!(rule, Some(Rule::UnknownSender)) => Self::Asked,
            None => Self::Waits,
            Some(EngageVerdict::Wake | EngageVerdict::Context) if is_past => Self::Read,
            Some(EngageVerdict::Wake) => Self::Waits,
            Some(EngageVerdict::Context | EngageVerdict::Ignore | EngageVerdict::Held) => Self::Unheard,
        }
    }
}

/// What becomes of an edit in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Becomes {
    Nothing,
    /// Its words take the place of those that stand there.
    Replaced,
    /// The same, and the row is judged anew.
    JudgedAnew,
    /// A message of its own.
    Message,
}

/// Decides what becomes of an edit in a lane.
#[must_use]
pub const fn decide(change: Change, standing: Standing) -> Becomes {
    match (change, standing) {
        (Change::None, _) | (Change::Quiet, Standing::Absent) => Becomes::Nothing,
        (Change::ByPerson, Standing::Absent | Standing::Asked | Standing::Read) => Becomes::Message,
        (Change::ByPerson, Standing::Unheard) => Becomes::JudgedAnew,
        (Change::ByPerson, Standing::Waits)
        | (Change::Quiet, Standing::Waits | Standing::Unheard | Standing::Asked | Standing::Read) => {
            Becomes::Replaced
        }
    }
}

/// A file as far as an edit of its message tells it from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLook {
    pub kind: MediaKind,
    pub name: String,
    /// Bytes as they were told, whatever the file has; 0: nobody said.
    pub size: u64,
}

/// What stands in a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    pub text: String,
    /// Of a forward: the name of its author.
    pub forwarded_from: Option<String>,
    pub comment: String,
    /// Empty of an edit: it says nothing of files, and those that are there stay.
    pub files: Vec<FileLook>,
}

/// Whether the files of an edit are others than those that are there.
#[must_use]
pub fn has_other_files(known: &[FileLook], told: &[FileLook]) -> bool {
    let alike = |(a, b): (&FileLook, &FileLook)| {
        (a.kind, &a.name) == (b.kind, &b.name) && (a.size == b.size || a.size == 0 || b.size == 0)
    };
    !told.is_empty() && (known.len() != told.len() || !known.iter().zip(told).all(alike))
}

/// Compares an edit with what is known of its message.
#[must_use]
pub fn compare(known: &Look, told: &Look, quiet: bool) -> Change {
    let is_same = (&known.text, &known.forwarded_from, &known.comment)
        == (&told.text, &told.forwarded_from, &told.comment)
        && !has_other_files(&known.files, &told.files);
    match (is_same, quiet) {
        (true, _) => Change::None,
        (false, true) => Change::Quiet,
        (false, false) => Change::ByPerson,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_read_where_the_words_before_were_and_replaces_them_otherwise() {
        use Becomes::{JudgedAnew, Message, Nothing, Replaced};
        for (standing, by_person, quiet) in [
            (Standing::Absent, Message, Nothing),
            (Standing::Waits, Replaced, Replaced),
            (Standing::Unheard, JudgedAnew, Replaced),
            (Standing::Asked, Message, Replaced),
            (Standing::Read, Message, Replaced),
        ] {
            assert_eq!(decide(Change::None, standing), Nothing, "{standing:?}");
            assert_eq!(decide(Change::ByPerson, standing), by_person, "{standing:?}");
            assert_eq!(decide(Change::Quiet, standing), quiet, "{standing:?}");
        }
    }

    #[test]
    fn a_row_is_read_once_the_cursor_is_past_it() {
        for (verdict, is_past, expected) in [
            (None, false, Standing::Waits),
            (Some(EngageVerdict::Wake), false, Standing::Waits),
            (Some(EngageVerdict::Wake), true, Standing::Read),
            (Some(EngageVerdict::Context), false, Standing::Unheard),
            (Some(EngageVerdict::Context), true, Standing::Read),
            (Some(EngageVerdict::Ignore), false, Standing::Unheard),
            (Some(EngageVerdict::Ignore), true, Standing::Unheard),
            (Some(EngageVerdict::Held), false, Standing::Unheard),
        ] {
            assert_eq!(Standing::of(verdict, None, is_past, false), expected, "{verdict:?} {is_past}");
        }
        let ignored = Some(EngageVerdict::Ignore);
        for (rule, is_asked, expected) in [
            (Rule::UnknownSender, true, Standing::Asked),
            (Rule::UnknownSender, false, Standing::Unheard),
            (Rule::Restored, false, Standing::Waits),
        ] {
            assert_eq!(Standing::of(ignored, Some(rule), true, is_asked), expected, "{rule} {is_asked}");
        }
    }

    #[test]
    fn the_same_words_and_files_are_no_change_and_an_edit_without_files_says_nothing_of_them() {
        let file = |name: &str, size| FileLook { kind: MediaKind::Image, name: name.to_owned(), size };
        let look =
            |text: &str, files: Vec<FileLook>| Look { text: text.to_owned(), files, ..Look::default() };
        let known = look("a", vec![file("x", 7)]);
        for (told, change) in [
            (look("a", vec![file("x", 7)]), Change::None),
            (look("a", vec![file("x", 0)]), Change::None),
            (look("a", vec![]), Change::None),
            (look("b", vec![]), Change::ByPerson),
            (look("a", vec![file("y", 7)]), Change::ByPerson),
            (look("a", vec![file("x", 8)]), Change::ByPerson),
            (look("a", vec![file("x", 7), file("x", 7)]), Change::ByPerson),
            (Look { comment: "c".into(), ..known.clone() }, Change::ByPerson),
            (Look { forwarded_from: Some(String::new()), ..known.clone() }, Change::ByPerson),
        ] {
            assert_eq!(compare(&known, &told, false), change, "{told:?}");
            let quiet = if change == Change::None { change } else { Change::Quiet };
            assert_eq!(compare(&known, &told, true), quiet, "{told:?}");
        }
    }
}
