//! Texts of a `CLAUDE.md` that are kept: those that another one took the place of, and those that were not saved. Pure.

use ipc_handlers::{Time, words};
use serde::Serialize;

/// The most that are kept of one memory.
pub const KEPT: usize = 20;
/// The longest one that is kept, bytes: the longest that a person edits.
pub const LONGEST_KEPT: usize = 1 << 20;

words! {
    /// Why a text is kept.
    #[derive(schemars::JsonSchema)]
    pub enum KeptAs: "kept text" {
        /// Another one took its place.
        Replaced = "replaced",
        /// It was not saved: the memory was another by then than its author had seen, or could not be written.
        Unsaved = "unsaved",
    }
}

/// A text that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KeptMemory {
    /// Its number: a newer one has a larger one.
    pub version: u64,
    /// Since when it is kept.
    #[serde(serialize_with = "crate::rows::rfc3339")]
    pub at: Time,
    #[serde(rename = "is")]
    pub kept_as: KeptAs,
    pub bytes: u64,
}

impl KeptMemory {
    /// Returns the name of its file.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}-{}-{}.md", self.version, self.at.0, self.kept_as)
    }

    /// Reads the name of a file; `None`: no text that is kept has it.
    #[must_use]
    pub fn of_file(name: &str, bytes: u64) -> Option<Self> {
        let mut parts = name.strip_suffix(".md")?.splitn(3, '-');
        let (version, at, kept_as) = (parts.next()?, parts.next()?, parts.next()?);
        let kept = Self {
            version: version.parse().ok()?,
            at: Time(at.parse().ok()?),
            kept_as: KeptAs::from_name(kept_as)?,
            bytes,
        };
        (kept.file() == name).then_some(kept)
    }
}

/// Returns those that go, so that with one more at most [`KEPT`] stay.
#[must_use]
pub fn outdated(mut kept: Vec<KeptMemory>) -> Vec<KeptMemory> {
    kept.sort_by_key(|one| std::cmp::Reverse(one.version));
    kept.split_off(kept.len().min(KEPT - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(version: u64) -> KeptMemory {
        KeptMemory { version, at: Time(1_700_000_000_000), kept_as: KeptAs::Replaced, bytes: 3 }
    }

    #[test]
    fn a_kept_text_is_known_by_its_file_and_nothing_else_is_one() {
        assert_eq!(kept(12).file(), "12-1700000000000-replaced.md");
        assert_eq!(KeptMemory::of_file("12-1700000000000-replaced.md", 3), Some(kept(12)));
        for other in [
            "",
            "12.md",
            "12-1.md",
            "12-1700000000000-lost.md",
            "012-1700000000000-replaced.md",
            "+2-1-replaced.md",
            "12-1700000000000-replaced.md.new",
            "-1-1-replaced.md",
        ] {
            assert_eq!(KeptMemory::of_file(other, 3), None, "{other:?}");
        }
    }

    #[test]
    fn the_oldest_go_so_that_one_more_has_its_place() {
        let numbers = |kept: Vec<KeptMemory>| kept.iter().map(|one| one.version).collect::<Vec<_>>();
        assert!(outdated((1..20).map(kept).collect()).is_empty());
        assert_eq!(numbers(outdated((1..=22).rev().map(kept).collect())), [3, 2, 1]);
    }
}
