//! Files beside messages: what is known of each, how much of that is kept, how they read, and how many bytes there may be.

use ipc_handlers::{
    Code, Refusal,
    file::{Attach, MediaKind},
};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// How many files are kept beside one message.
pub const MOST: usize = 32;
/// How long the names, types, captions and problems of these files may be together, bytes.
pub const MOST_TEXT: usize = 16 << 10;
/// How long a name, a type or a problem may be, characters.
const LONGEST_NAME: usize = 255;
/// The longest part of a file's name in a folder, bytes: the numbers before it have room.
const LONGEST_SAFE: usize = 120;
/// As how many bytes a file counts at least, for how much a chat gets in an hour: it takes a block of the disk. The store's
/// triggers have the same number (`migrations/0001_init.sql`).
pub const BLOCK: u64 = 4096;

/// The SHA-256 of a file's bytes. The file is `data/media/<first two digits>/<all of them>`.
pub type Digest = [u8; 32];

/// A file beside a message that came in, or beside what is to be said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Attachment {
    /// As its sender calls it. It is no path of ours.
    pub name: String,
    /// As what it is shown.
    pub kind: MediaKind,
    /// Its media type, such as `image/png`.
    #[serde(rename = "type")]
    pub mime: String,
    /// Whether the type is what its sender says, and not what its contents tell.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub claimed: bool,
    /// How long it is, bytes; of a missing one 0, where nobody says.
    pub size: u64,
    /// The SHA-256 of its bytes: below `data/media/` its name. `None`: it is missing.
    #[serde(serialize_with = "hex_or_null", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub digest: Option<Digest>,
    /// Why it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The text with this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    /// How long it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
    /// What a hook read in it, such as what somebody says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// Why a hook did not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// Of a file that just came in: what is to be done with it once its message is heard.
    #[serde(skip)]
    pub todo: Option<Todo>,
}

/// What is to be done with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Todo {
    /// Its channel fetches it by this.
    Fetch(String),
    /// It lies at this place below the channel's folder.
    Take(String),
    /// It is there, and a hook may read it.
    Read,
}

/// What is said of a file that was not fetched yet.
pub const NOT_FETCHED: &str = "not fetched";

impl Attachment {
    /// Returns the row of a file that a command sends along and that the host has: its contents tell the type, otherwise the
    /// command does.
    #[must_use]
    pub fn sent(file: &Attach, digest: Digest, size: u64, told: Option<&str>) -> Self {
        let named = file.mimetype.as_deref().filter(|mime| is_type(mime));
        let mime = told.or(named).unwrap_or("application/octet-stream");
        Self {
            name: one_line(file.shown_name()),
            kind: file.media_type.unwrap_or_else(|| MediaKind::of_type(mime)),
            mime: mime.to_owned(),
            claimed: told.is_none(),
            size,
            digest: Some(digest),
            problem: None,
            caption: file.caption.clone().filter(|caption| !caption.is_empty()),
            ..Self::default()
        }
    }

    /// Returns what is known of a file that came in, once the host has it.
    #[must_use]
    pub fn kept(self, digest: Digest, size: u64, told: Option<&str>) -> Self {
        let claimed = Some(self.mime.as_str()).filter(|mime| is_type(mime));
        let mime = told.or(claimed).unwrap_or("application/octet-stream").to_owned();
        Self { mime, claimed: told.is_none(), size, digest: Some(digest), problem: None, ..self }
    }

    /// How much text there is in what is known of it, bytes.
    fn text(&self) -> usize {
        let optional = [&self.problem, &self.caption].into_iter().flatten().map(String::len).sum::<usize>();
        self.name.len() + self.mime.len() + optional
    }

    /// Whether it can be kept: it is called something, is of some type, and is there or missing for a reason.
    fn is_sound(&self) -> bool {
        let fits = |text: &str| (1..=LONGEST_NAME).contains(&text.chars().count()) && !text.contains('\0');
        fits(&self.name)
            && fits(&self.mime)
            && self.problem.as_deref().is_none_or(fits)
            && self.digest.is_none() == self.problem.is_some()
            && i64::try_from(self.size).is_ok()
    }

    /// Returns the lines that say what a hook read in it, or why nothing is known of that.
    #[must_use]
    pub fn read(&self) -> Option<String> {
        let kind = self.kind;
        let lasts = self.lasts();
        let verb = match kind {
            MediaKind::Voice | MediaKind::Audio => "transcribed",
            MediaKind::Image | MediaKind::Video | MediaKind::Document => "read",
        };
        match (&self.words, &self.unread) {
            (Some(words), _) => Some(format!("[{kind}{lasts}, {verb}] {words}")),
            (None, Some(why)) => Some(format!("[{kind}{lasts}, not {verb}: {}]", one_line(why))),
            (None, None) => None,
        }
    }

    fn lasts(&self) -> String {
        self.seconds.map(|s| format!(", {}:{:02}", s / 60, s % 60)).unwrap_or_default()
    }

    /// Returns the line that stands for it: `[image: photo.jpg — WHERE, 81 kB]`, or why it is missing.
    #[must_use]
    pub fn line(&self, place: &str) -> String {
        let (kind, name) = (self.kind, one_line(&self.name));
        let lasts = self.lasts();
        match &self.problem {
            Some(problem) => format!("[{kind}: {name}{lasts} — {}]", one_line(problem)),
            None => format!("[{kind}: {name}{lasts} — {place}, {}]", size(self.size)),
        }
    }
}

/// Returns a message as it is judged: its text with what was read in its files; of a message that is files alone, their kinds.
#[must_use]
pub fn heard_as(text: &str, files: &[Attachment]) -> String {
    let words = files.iter().filter_map(|file| file.words.as_deref());
    let all: Vec<&str> = std::iter::once(text).filter(|text| !text.trim().is_empty()).chain(words).collect();
    if all.is_empty() {
        return files.iter().map(|file| format!("[{}]", file.kind)).collect::<Vec<_>>().join("\n");
    }
    all.join("\n")
}

/// Returns the name of a file that has none.
#[must_use]
pub fn name_of(kind: MediaKind, mime: &str) -> String {
    const ENDINGS: [(&str, &str); 9] = [
        ("image/jpeg", "jpg"),
        ("image/png", "png"),
        ("image/webp", "webp"),
        ("image/gif", "gif"),
        ("video/mp4", "mp4"),
        ("audio/ogg", "ogg"),
        ("audio/mpeg", "mp3"),
        ("application/pdf", "pdf"),
        ("text/plain", "txt"),
    ];
    match ENDINGS.iter().find(|(of, _)| *of == mime) {
        Some((_, ending)) => format!("{kind}.{ending}"),
        None => kind.to_string(),
    }
}

/// Where a file goes that is beside what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    /// The chat's platform takes it.
    Along,
    /// It stays in the host's folder, where a person of this machine finds it.
    ToFolder,
    /// The platform takes no file of that size.
    Nowhere,
}

/// Returns a text with one line for each of its files that does not go along, as `goes` says.
#[must_use]
pub fn told(text: &str, files: &[Attachment], goes: impl Fn(&Attachment) -> Goes) -> String {
    let mut lines: Vec<String> = Vec::new();
    if !text.is_empty() {
        lines.push(text.to_owned());
    }
    for file in files {
        let line = match goes(file) {
            Goes::Along => continue,
            Goes::ToFolder => file.line(&file.digest.map(|digest| place(&digest)).unwrap_or_default()),
            Goes::Nowhere => file.line("can't be sent in this chat"),
        };
        lines.push(match &file.caption {
            Some(caption) => format!("{line} {caption}"),
            None => line,
        });
    }
    lines.join("\n")
}

/// Returns where a file is, below the root.
#[must_use]
pub fn place(digest: &Digest) -> String {
    let hex = hex(digest);
    format!("data/media/{}/{hex}", &hex[..2])
}

/// Returns digits for a digest.
#[must_use]
pub fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns where a group sees the file `n` of the message `seq`, below the folder of its media.
#[must_use]
pub fn shown_at(date: &str, seq: i64, n: usize, name: &str) -> String {
    format!("{date}/{seq}-{n}-{}", safe_name(name))
}

/// Returns the message and the number that [`shown_at`] put into the name of a file.
#[must_use]
pub fn shown_of(name: &str) -> Option<(i64, i64)> {
    let mut parts = name.splitn(3, '-');
    let (seq, n) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().map(|_| (seq, n))
}

/// Returns a sender's name for a file as a name in a folder: letters, digits, `.`, `-` and `_`, its ending kept.
#[must_use]
pub fn safe_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    let safe: String = name.chars().map(plain).collect();
    let safe = safe.trim_start_matches(['.', '-']);
    let safe = if safe.is_empty() { "file" } else { safe };
    if safe.len() <= LONGEST_SAFE {
        return safe.to_owned();
    }
    let ending = safe.rsplit_once('.').map(|(_, ending)| ending).filter(|ending| ending.len() <= 16);
    let ending = ending.map(|ending| format!(".{ending}")).unwrap_or_default();
    let end = safe.floor_char_boundary(LONGEST_SAFE - ending.len());
    format!("{}{ending}", &safe[..end])
}

/// Returns a text without line ends, other control characters, and brackets that would end the line that it stands in.
fn one_line(text: &str) -> String {
    let plain = |c: char| match c {
        '[' => '(',
        ']' => ')',
        c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => ' ',
        c => c,
    };
    text.chars().take(LONGEST_NAME).map(plain).collect()
}

/// Whether a text has the form of a media type.
fn is_type(mime: &str) -> bool {
    let word = |word: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "!#$&-^_.+".contains(c);
        (1..=100).contains(&word.len()) && word.chars().all(fits)
    };
    mime.split_once('/').is_some_and(|(main, sub)| word(main) && word(sub))
}

/// Returns a count of bytes as people read it: `81 kB`, `3.1 MB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        1_000_000..10_000_000 => {
            let tenths = bytes.div_ceil(100_000);
            format!("{}.{} MB", tenths / 10, tenths % 10)
        }
        _ => format!("{} MB", bytes.div_ceil(1_000_000)),
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

/// How many bytes of files there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaLimits {
    /// One file.
    pub largest: u64,
    /// Of one chat in the current minute and the 60 before it, both ways together.
    pub chat_hour: u64,
    /// Of all that are kept.
    pub all: u64,
}

impl MediaLimits {
    /// No bounds.
    pub const NONE: Self = Self { largest: u64::MAX, chat_hour: u64::MAX, all: u64::MAX };

    /// Returns which bound files of `adds` bytes would pass, if any.
    #[must_use]
    pub fn fault(&self, used: MediaUse, adds: u64) -> Option<NoMedia> {
        if used.chat_hour.saturating_add(adds) > self.chat_hour {
            return Some(NoMedia::ChatHour { most: self.chat_hour });
        }
        (used.all.saturating_add(adds) > self.all).then_some(NoMedia::All { most: self.all })
    }
}

/// Which bound leaves no room for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMedia {
    #[error("a chat gets at most {} MiB of files an hour", most >> 20)]
    ChatHour { most: u64 },
    #[error("the host keeps at most {} MiB of files", most >> 20)]
    All { most: u64 },
}

impl From<NoMedia> for Refusal {
    fn from(fault: NoMedia) -> Self {
        let (code, hint) = match fault {
            NoMedia::ChatHour { .. } => {
                (Code::RateLimited, "send it later; the user can raise media.chat_mib_per_hour")
            }
            NoMedia::All { .. } => (
                Code::NoRoom,
                "tell the user: `g2 prune` removes old history, and media.store_mib is the limit",
            ),
        };
        Self::new(code, fault.to_string(), hint)
    }
}

/// How many bytes of files there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaUse {
    /// Of one chat in the current minute and the 60 before it.
    pub chat_hour: u64,
    /// Of all that are kept.
    pub all: u64,
}

#[expect(clippy::ref_option, reason = "serde asks so")]
fn hex_or_null<S: Serializer>(digest: &Option<Digest>, s: S) -> Result<S::Ok, S::Error> {
    match digest {
        Some(digest) => s.serialize_str(&hex(digest)),
        None => s.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> Attachment {
        Attachment {
            name: name.into(),
            kind: MediaKind::Image,
            mime: "image/png".into(),
            size: 1,
            digest: Some([0xab; 32]),
            ..Attachment::default()
        }
    }

    #[test]
    fn the_first_files_are_kept_that_can_be_as_many_as_there_is_room_for() {
        let names =
            |files: Vec<Attachment>| kept(files).into_iter().map(|file| file.name).collect::<Vec<_>>();
        assert_eq!(names(vec![file("a"), file("ä b.png")]), ["a", "ä b.png"]);
        let long = "x".repeat(LONGEST_NAME);
        assert_eq!(names(vec![file(&long)]), [long.as_str()]);
        let missing = Attachment { digest: None, problem: Some("it is gone".into()), ..file("gone") };
        assert_eq!(names(vec![missing.clone()]), ["gone"]);
        let unsound = [
            file(""),
            file(&format!("{long}x")),
            file("a\0"),
            Attachment { digest: Some([0; 32]), ..missing.clone() },
            Attachment { problem: None, ..missing },
            Attachment { mime: String::new(), ..file("a") },
            Attachment { size: u64::MAX, ..file("a") },
        ];
        for unsound in unsound {
            assert_eq!(names(vec![unsound.clone(), file("b")]), ["b"], "{unsound:?}");
        }
        let many: Vec<Attachment> = (0..MOST + 5).map(|n| file(&n.to_string())).collect();
        assert_eq!(names(many).len(), MOST);
        let large = (0..10).map(|n| Attachment { caption: Some("x".repeat(4000)), ..file(&n.to_string()) });
        assert_eq!(names(large.collect()), ["0", "1", "2", "3"], "of text there is no more than fits");
    }

    #[test]
    fn its_digest_is_shown_as_people_write_it() {
        let shown = serde_json::to_value(file("a")).unwrap();
        assert_eq!(shown["digest"], "ab".repeat(32));
        assert_eq!(shown["type"], "image/png");
        assert_eq!(place(&[0xab; 32]), format!("data/media/ab/{}", "ab".repeat(32)));
    }

    #[test]
    fn a_file_is_one_line_whatever_it_is_called() {
        let photo = Attachment { size: 81_234, ..file("photo.jpg") };
        assert_eq!(photo.line("/workspace/media/x"), "[image: photo.jpg — /workspace/media/x, 82 kB]");
        let gone = Attachment { problem: Some("not fetched: 31 MB".into()), digest: None, ..photo };
        assert_eq!(gone.line("x"), "[image: photo.jpg — not fetched: 31 MB]");
        assert_eq!(file("a]\n[b\u{2028}c").line("x"), "[image: a) (b c — x, 1 byte]");
        let voice = Attachment { kind: MediaKind::Voice, seconds: Some(72), ..file("v.ogg") };
        assert_eq!(voice.line("x"), "[voice: v.ogg, 1:12 — x, 1 byte]");
        let sizes = [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1 kB"),
            (3_010_000, "3.1 MB"),
            (26_214_400, "27 MB"),
        ];
        for (bytes, shown) in sizes {
            assert_eq!(size(bytes), shown);
        }
    }

    #[test]
    fn what_was_read_in_a_file_stands_below_it_and_counts_as_text() {
        let voice = Attachment { kind: MediaKind::Voice, seconds: Some(12), ..file("v.ogg") };
        let heard = Attachment { words: Some("hello\nyou".into()), ..voice.clone() };
        let failed = Attachment { unread: Some("it]\ntook".into()), ..voice.clone() };
        let page = Attachment { kind: MediaKind::Document, words: Some("text".into()), ..file("a.pdf") };
        assert_eq!(voice.read(), None);
        assert_eq!(heard.read().as_deref(), Some("[voice, 0:12, transcribed] hello\nyou"));
        assert_eq!(failed.read().as_deref(), Some("[voice, 0:12, not transcribed: it) took]"));
        assert_eq!(page.read().as_deref(), Some("[document, read] text"));
        let files = [voice, heard, page];
        assert_eq!(heard_as("look", &files), "look\nhello\nyou\ntext");
        assert_eq!(heard_as(" ", &files), "hello\nyou\ntext");
        assert_eq!((heard_as("", &files[..1]), heard_as("a", &files[..1])), ("[voice]".into(), "a".into()));
        assert_eq!(
            (name_of(MediaKind::Voice, "audio/ogg"), name_of(MediaKind::Image, "x/y")),
            ("voice.ogg".into(), "image".into())
        );
    }

    #[test]
    fn what_does_not_go_along_is_a_line_below_the_text() {
        let files = [file("a"), Attachment { caption: Some("Look".into()), ..file("b") }];
        let goes = |file: &Attachment| if file.name == "a" { Goes::Along } else { Goes::Nowhere };
        assert_eq!(told("Hi", &files, goes), "Hi\n[image: b — can't be sent in this chat, 1 byte] Look");
        assert_eq!(told("", &files[..1], |_| Goes::Along), "");
        assert!(told("", &files[..1], |_| Goes::ToFolder).contains("data/media/ab/abab"));
    }

    #[test]
    fn a_name_in_a_folder_is_plain_and_keeps_its_ending() {
        for (name, safe) in [
            ("photo.jpg", "photo.jpg"),
            ("../../etc/passwd", "_.._etc_passwd"),
            ("a b\nc.png", "a_b_c.png"),
            (".hidden", "hidden"),
            ("-rf", "rf"),
            ("...", "file"),
            ("", "file"),
            ("Übung ½.pdf", "Übung_½.pdf"),
        ] {
            assert_eq!(safe_name(name), safe, "{name:?}");
        }
        let long = safe_name(&format!("{}.jpeg", "ä".repeat(500)));
        assert!(long.len() <= LONGEST_SAFE && long.ends_with("ä.jpeg"), "{long}");
        assert_eq!(shown_at("2026-11-22", 4712, 1, "a b"), "2026-11-22/4712-1-a_b");
        assert_eq!(shown_of("4712-1-a-b"), Some((4712, 1)));
        assert_eq!((shown_of("x-1-a"), shown_of("4712"), shown_of("4712-1")), (None, None, None));
    }

    #[test]
    fn the_contents_tell_the_type_and_otherwise_the_sender_does_which_is_marked() {
        let sent = |mimetype: Option<&str>, told| {
            let attach = Attach {
                file_path: "out/a.png".into(),
                name: None,
                caption: None,
                media_type: None,
                mimetype: mimetype.map(str::to_owned),
            };
            let file = Attachment::sent(&attach, [0; 32], 1, told);
            (file.name, file.mime, file.claimed, file.kind)
        };
        let is = |mime: &str, claimed, kind| ("a.png".to_owned(), mime.to_owned(), claimed, kind);
        assert_eq!(sent(Some("text/plain"), Some("image/png")), is("image/png", false, MediaKind::Image));
        assert_eq!(sent(Some("text/plain"), None), is("text/plain", true, MediaKind::Document));
        for none in [None, Some("text"), Some("a/b\n"), Some("/"), Some("a/b c")] {
            assert_eq!(sent(none, None), is("application/octet-stream", true, MediaKind::Document));
        }
    }

    #[test]
    fn a_bound_is_reached_and_not_passed() {
        let limits = MediaLimits { largest: 10, chat_hour: 100, all: 1000 };
        let used = MediaUse { chat_hour: 60, all: 900 };
        assert_eq!(limits.fault(used, 40), None);
        assert_eq!(limits.fault(used, 41), Some(NoMedia::ChatHour { most: 100 }));
        let full = MediaUse { chat_hour: 0, all: 990 };
        assert_eq!(limits.fault(full, 10), None);
        assert_eq!(Refusal::from(limits.fault(full, 11).unwrap()).code, Code::NoRoom);
    }
}
