//! Files beside messages: what is known of each, and how much of that is kept.

use std::path::{Component, Path};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// How many files are kept beside one message.
pub const MOST: usize = 32;
/// How long the names, the types and the places of these files may be together, bytes.
pub const MOST_TEXT: usize = 16 << 10;
/// How long a name or a type may be, characters.
const LONGEST_NAME: usize = 255;
/// How long a place may be, characters.
const LONGEST_PLACE: usize = 4096;

/// A file beside a message that came in, or beside what is to be said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Attachment {
    /// As its sender calls it. It is no path of ours.
    pub name: String,
    /// Its media type, such as `image/png`.
    #[serde(rename = "type")]
    pub kind: String,
    /// How long it is, bytes.
    pub size: u64,
    /// The SHA-256 of its bytes.
    #[serde(serialize_with = "hex")]
    #[schemars(with = "String")]
    pub digest: [u8; 32],
    /// Where it lies, below `data/`.
    pub place: String,
}

impl Attachment {
    /// How much text there is in what is known of it, bytes.
    fn text(&self) -> usize {
        self.name.len() + self.kind.len() + self.place.len()
    }

    /// Whether it can be kept: it is called something, is of some type, and lies below `data/`.
    fn is_sound(&self) -> bool {
        let fits = |text: &str, most| (1..=most).contains(&text.chars().count()) && !text.contains('\0');
        let below = Path::new(&self.place).components().all(|part| matches!(part, Component::Normal(_)));
        fits(&self.name, LONGEST_NAME)
            && fits(&self.kind, LONGEST_NAME)
            && fits(&self.place, LONGEST_PLACE)
            && below
            && i64::try_from(self.size).is_ok()
    }
}

/// Returns the files that are kept beside a message: the first that can be, [`MOST`] of them, with [`MOST_TEXT`] of text.
#[must_use]
pub fn kept(files: Vec<Attachment>) -> Vec<Attachment> {
    let mut left = MOST_TEXT;
    let fitting = files.into_iter().filter(|file| {
        let fits = file.is_sound() && file.text() <= left;
        left -= if fits { file.text() } else { 0 };
        fits
    });
    fitting.take(MOST).collect()
}

fn hex<S: Serializer>(digest: &[u8; 32], s: S) -> Result<S::Ok, S::Error> {
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    s.serialize_str(&hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, place: &str) -> Attachment {
        Attachment {
            name: name.into(),
            kind: "image/png".into(),
            size: 1,
            digest: [0xab; 32],
            place: place.into(),
        }
    }

    #[test]
    fn the_first_files_are_kept_that_can_be_as_many_as_there_is_room_for() {
        let names =
            |files: Vec<Attachment>| kept(files).into_iter().map(|file| file.name).collect::<Vec<_>>();
        assert_eq!(names(vec![file("a", "files/a"), file("ä b.png", "f")]), ["a", "ä b.png"]);
        let long = "x".repeat(LONGEST_NAME);
        assert_eq!(names(vec![file(&long, "f")]), [long.as_str()]);
        let unsound = [
            file("", "f"),
            file(&format!("{long}x"), "f"),
            file("a\0", "f"),
            file("a", ""),
            file("a", "/etc/passwd"),
            file("a", "../store/env"),
            file("a", "files/../../x"),
            file("a", &"x".repeat(LONGEST_PLACE + 1)),
            Attachment { kind: String::new(), ..file("a", "f") },
            Attachment { size: u64::MAX, ..file("a", "f") },
        ];
        for unsound in unsound {
            assert_eq!(names(vec![unsound.clone(), file("b", "f")]), ["b"], "{unsound:?}");
        }
        let many: Vec<Attachment> = (0..MOST + 5).map(|n| file(&n.to_string(), "f")).collect();
        assert_eq!(names(many).len(), MOST);
        let large: Vec<Attachment> = (0..10).map(|n| file(&n.to_string(), &"x".repeat(4000))).collect();
        assert_eq!(names(large), ["0", "1", "2", "3"], "of text there is no more than fits");
    }

    #[test]
    fn its_digest_is_shown_as_people_write_it() {
        let shown = serde_json::to_value(file("a", "f")).unwrap();
        assert_eq!(shown["digest"], "ab".repeat(32));
        assert_eq!(shown["type"], "image/png");
    }
}
