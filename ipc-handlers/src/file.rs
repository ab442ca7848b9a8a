//! A file that a command sends along: how it is named, and why it may be refused. The host opens it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{Code, Refusal, fields::Fields, json::kind_of, refusal::quoted, words};

/// How many files go with one message.
pub const MOST: usize = 10;
/// Where a container sees the folder of its group.
const IN_CONTAINER: &str = "/workspace/group/";
/// The longest path, bytes.
const LONGEST_PATH: usize = 1_000;

words! {
    /// As what a file is shown.
    #[derive(Default, JsonSchema)]
    pub enum MediaKind: "media type" {
        /// A picture.
        Image = "image",
        /// A film.
        Video = "video",
        /// Sound.
        Audio = "audio",
        /// Speech.
        Voice = "voice",
        /// Any other file.
        #[default]
        Document = "document",
    }
}

impl MediaKind {
    /// Returns the kind of files of a media type.
    #[must_use]
    pub fn of_type(mime: &str) -> Self {
        match mime.split('/').next() {
            Some("image") if mime != "image/svg+xml" => Self::Image,
            Some("video") => Self::Video,
            Some("audio") => Self::Audio,
            Some(_) | None => Self::Document,
        }
    }
}

/// A file that goes with a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attach {
    /// The file: `/workspace/group/…`, or relative to the group's folder.
    pub file_path: String,
    /// The name under which it is shown; left out, the file's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The text with this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    /// As what it is shown; left out, its contents decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<MediaKind>,
    /// Its media type, such as `image/png`, for a file whose contents do not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mimetype: Option<String>,
}

impl Attach {
    /// Reads the field `attachments`.
    pub(crate) fn read_all(fields: &Fields<'_>) -> Result<Vec<Self>, Refusal> {
        const NAME: &str = "attachments";
        let Some(value) = fields.get(NAME) else { return Ok(Vec::new()) };
        let Value::Array(files) = value else {
            return Err(fields.invalid(NAME, &format!("is {}, not a list", kind_of(value))));
        };
        if files.len() > MOST {
            return Err(
                fields.invalid(NAME, &format!("has {} files; a message has at most {MOST}", files.len()))
            );
        }
        let one = |file: &Value| {
            let Value::Object(map) = file else {
                let fault = format!("holds {}, not an object with \"filePath\"", kind_of(file));
                return Err(fields.invalid(NAME, &fault));
            };
            let of = Fields { map, ..*fields };
            Ok(Self {
                file_path: of.name("filePath")?,
                name: of.optional_name("name")?,
                caption: of.optional_text("caption")?.map(|text| crate::outbound::strip_internal(&text)),
                media_type: of.optional_choice("mediaType", MediaKind::CHOICES)?,
                mimetype: of.optional_name("mimetype")?,
            })
        };
        files.iter().map(one).collect()
    }

    /// Returns its path relative to the group's folder, which the host has at `group`: no part of it leads up.
    ///
    /// # Errors
    /// `invalid_field` for a path elsewhere.
    pub fn relative(&self, group: &str) -> Result<&str, Refusal> {
        let path = self.file_path.as_str();
        let below = path
            .strip_prefix(IN_CONTAINER)
            .or_else(|| path.strip_prefix(group).and_then(|rest| rest.strip_prefix('/')));
        let relative = below.unwrap_or(path);
        let is_sound = |part: &str| !matches!(part, "" | "." | "..");
        let relative_is = relative.strip_prefix("./").unwrap_or(relative);
        if path.len() <= LONGEST_PATH && relative_is.split('/').all(is_sound) {
            return Ok(relative_is);
        }
        Err(Refusal::new(
            Code::InvalidField,
            format!("filePath {} is no file below {IN_CONTAINER}", quoted(path)),
            "copy the file into /workspace/group and send it from there; \"..\" is no part of a path",
        ))
    }

    /// Returns the name under which it is shown.
    #[must_use]
    pub fn shown_name(&self) -> &str {
        let own = self.file_path.rsplit('/').next().unwrap_or_default();
        self.name.as_deref().unwrap_or(own)
    }
}

/// Why a file can't be sent. The texts name it as the agent did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// Nothing is there.
    Absent,
    /// A directory, a link, a pipe, a device, or a link is on the way to it.
    NotAFile,
    /// It has a second name, by which another group or the host may know it.
    Linked,
    /// It may not be read.
    Unreadable,
    /// It has no byte.
    Empty,
    /// It is larger than a file may be, bytes.
    TooLarge {
        /// How large it is.
        size: u64,
        /// How large it may be.
        most: u64,
    },
    /// It is larger than the platform of its chat takes, bytes.
    TooLargeThere {
        /// How large it is.
        size: u64,
        /// How large it may be there.
        most: u64,
    },
    /// It was written to while it was read.
    Changed,
}

impl FileFault {
    /// Returns the refusal.
    #[must_use]
    pub fn refusal(self, file: &Attach) -> Refusal {
        let name = quoted(&file.file_path);
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let (code, why, hint) = match self {
            Self::Absent => {
                (Code::NotFound, "is not there".to_owned(), "write the file below /workspace/group first")
            }
            Self::NotAFile => (
                Code::InvalidField,
                "is no regular file, or a link is on the way to it".to_owned(),
                "copy the file itself into /workspace/group; links, pipes and folders are not sent",
            ),
            Self::Linked => (
                Code::InvalidField,
                "has a second name (a hard link)".to_owned(),
                "copy the file (`cp`) and send the copy",
            ),
            Self::Unreadable => (
                Code::InvalidField,
                "can't be read by the host".to_owned(),
                "close the file, make it readable (`chmod a+r`), and send it again",
            ),
            Self::Empty => (Code::InvalidField, "is empty".to_owned(), "write the file before it is sent"),
            Self::TooLarge { size, most } => (
                Code::TooLarge,
                format!("has {} MiB; at most {} MiB are sent", mib(size), most >> 20),
                "make it smaller, or split it; the user can raise media.largest_mib",
            ),
            Self::TooLargeThere { size, most } => (
                Code::TooLarge,
                format!("has {} MiB; the platform of this chat takes at most {} MiB", mib(size), most >> 20),
                "make it smaller, or split it, or say where it is",
            ),
            Self::Changed => (
                Code::Conflict,
                "changed while it was read".to_owned(),
                "send it when nothing writes to it any more",
            ),
        };
        Refusal::new(code, format!("the file {name} {why}"), hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> Attach {
        Attach { file_path: path.into(), name: None, caption: None, media_type: None, mimetype: None }
    }

    #[test]
    fn a_path_is_the_containers_or_the_hosts_or_relative_and_leads_nowhere_else() {
        let group = "/srv/g2/groups/family";
        for (path, relative) in [
            ("/workspace/group/a.png", Some("a.png")),
            ("/workspace/group/out/ä b.png", Some("out/ä b.png")),
            ("/srv/g2/groups/family/a", Some("a")),
            ("a", Some("a")),
            ("./a/b", Some("a/b")),
            ("a..b/..c", Some("a..b/..c")),
            ("../a", None),
            ("a/../b", None),
            ("/workspace/group/../../etc/passwd", None),
            ("/workspace/groups/a", None),
            ("/workspace/group/", None),
            ("/workspace/group", None),
            ("/srv/g2/groups/family2/a", None),
            ("/etc/passwd", None),
            ("", None),
            ("a//b", None),
            ("a/", None),
        ] {
            assert_eq!(at(path).relative(group).ok(), relative, "{path}");
        }
        assert!(at(&"x".repeat(LONGEST_PATH + 1)).relative(group).is_err());
    }

    #[test]
    fn each_fault_says_which_limit_or_which_mistake() {
        let refusal = FileFault::TooLarge { size: 31 << 20, most: 25 << 20 }.refusal(&at("a.mp4"));
        assert_eq!(refusal.code, Code::TooLarge);
        assert_eq!(refusal.message, "the file \"a.mp4\" has 31 MiB; at most 25 MiB are sent");
        let refusal = FileFault::TooLargeThere { size: 11 << 20, most: 10 << 20 }.refusal(&at("a.mp4"));
        assert_eq!(
            (refusal.code, refusal.message.as_str()),
            (Code::TooLarge, "the file \"a.mp4\" has 11 MiB; the platform of this chat takes at most 10 MiB")
        );
    }

    #[test]
    fn a_kind_is_that_of_its_type() {
        for (mime, kind) in [
            ("image/png", MediaKind::Image),
            ("image/svg+xml", MediaKind::Document),
            ("video/mp4", MediaKind::Video),
            ("audio/ogg", MediaKind::Audio),
            ("application/pdf", MediaKind::Document),
            ("", MediaKind::Document),
        ] {
            assert_eq!(MediaKind::of_type(mime), kind, "{mime}");
        }
    }
}
