//! Whether a group's folder under `groups/` is the one that it had.
//!
//! | had files at the last look | now | then |
//! |---|---|---|
//! | no | missing, or empty | it is laid out: a crash came between row and folder, or there was nothing in it |
//! | no | has files | that is noted |
//! | yes | has files | it is the group's |
//! | yes | missing, or empty | it was lost: removed, or its disk is not mounted |
//! | – | no folder | something took its place |
//!
//! At the end of a run, the folder that its container had is empty only if its agent emptied it: it is none that had files
//! any more. An empty folder that took its place during the run says nothing of the group's files.

/// What stands at the place of a group's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum There {
    Missing,
    /// A folder without files, or with a memory in the making.
    Empty,
    HasFiles,
    /// A file, or a link that leads round in a circle.
    NoFolder,
}

/// How a group's folder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It is to be laid out, or was and has no files.
    New,
    /// It is the group's.
    Kept,
    /// Nothing is launched for its group until a person decides.
    Lost,
}

/// Judges a folder, of which it is known whether it had files at the last look.
#[must_use]
pub fn stands(had_files: bool, there: There) -> Stands {
    match (had_files, there) {
        (_, There::HasFiles) => Stands::Kept,
        (false, There::Missing | There::Empty) => Stands::New,
        (true, There::Missing | There::Empty) | (_, There::NoFolder) => Stands::Lost,
    }
}

/// Says whether a folder has files at the end of a run; `None`: that can't be told of it. `is_the_runs`: it is known to be the
/// folder that the run's container had.
#[must_use]
pub fn has_files_after_a_run(there: There, is_the_runs: bool) -> Option<bool> {
    match there {
        There::HasFiles => Some(true),
        There::Empty if is_the_runs => Some(false),
        There::Empty | There::Missing | There::NoFolder => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_had_files_and_has_none_is_lost_and_any_other_is_laid_out() {
        use There::{Empty, HasFiles, Missing, NoFolder};
        assert_eq!([Missing, Empty].map(|there| stands(false, there)), [Stands::New; 2]);
        assert_eq!([Missing, Empty].map(|there| stands(true, there)), [Stands::Lost; 2]);
        for had_files in [false, true] {
            assert_eq!(stands(had_files, HasFiles), Stands::Kept);
            assert_eq!(stands(had_files, NoFolder), Stands::Lost);
        }
        let after = |is_the_runs| {
            [Missing, Empty, HasFiles, NoFolder].map(|there| has_files_after_a_run(there, is_the_runs))
        };
        assert_eq!(after(true), [None, Some(false), Some(true), None]);
        assert_eq!(after(false), [None, None, Some(true), None], "an empty folder took its place");
    }
}
