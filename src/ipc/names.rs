//! The words of this module as types: boxes, kinds of files, and how a hostile name is shown.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    fmt::Write as _,
    hash::{BuildHasher as _, RandomState},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use ipc_handlers::seen::hides;
use rustix::fs::FileType;

/// A box: one mounted, container-writable folder of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BoxName {
    /// Commands, container → host.
    Messages,
    /// Commands, container → host.
    Tasks,
    /// Follow-ups, host → container.
    Input,
    /// Replies, host → container.
    Responses,
    /// Heartbeat and current tool, container → host.
    State,
}

impl BoxName {
    /// Every box, in the order in which they are made.
    pub const ALL: [Self; 5] = [Self::Messages, Self::Tasks, Self::Input, Self::Responses, Self::State];

    /// Returns the folder's name on disk.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Tasks => "tasks",
            Self::Input => "input",
            Self::Responses => "responses",
            Self::State => "state",
        }
    }
}

/// One of the two boxes that commands come from; either takes any command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandBox {
    Messages,
    Tasks,
}

impl CommandBox {
    /// Both, in the order in which they are scanned.
    pub const ALL: [Self; 2] = [Self::Messages, Self::Tasks];

    /// Returns the box that this is.
    #[must_use]
    pub fn name(self) -> BoxName {
        match self {
            Self::Messages => BoxName::Messages,
            Self::Tasks => BoxName::Tasks,
        }
    }

    /// Returns the folder's name on disk, as it also stands in `why.json`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.name().as_str()
    }

    /// Returns the box whose folder has this name.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|b| b.as_str().as_bytes() == name)
    }
}

impl fmt::Display for CommandBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a name leads to, by `lstat`; nothing is opened to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    File,
    Directory,
    Link,
    Fifo,
    Socket,
    BlockDevice,
    CharDevice,
    Unknown,
}

impl FileKind {
    pub(super) fn of(stat: &rustix::fs::Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::CharacterDevice => Self::CharDevice,
            FileType::Unknown => Self::Unknown,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Link => "symbolic link",
            Self::Fifo => "FIFO",
            Self::Socket => "socket",
            Self::BlockDevice => "block device",
            Self::CharDevice => "character device",
            Self::Unknown => "file of unknown kind",
        })
    }
}

/// Returns a file name as text that is safe in a log, a terminal and JSON.
///
/// Characters that act on a screen or are invisible, and bytes that are no UTF-8, become escapes; a backslash becomes two.
#[must_use]
pub fn display_name(name: &OsStr) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if hides(c) => text.extend(c.escape_default()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}"); // A String takes everything.
        }
    }
    text
}

/// Whether a name from outside is one component: what a rename relative to a held folder may be given.
pub(super) fn is_one_component(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    (1..=255).contains(&bytes.len())
        && bytes != b"."
        && bytes != b".."
        && !bytes.iter().any(|b| matches!(b, b'/' | 0))
}

/// What names begin with that the host gives, for an instant, to files in a box.
const HAND: &[u8] = b".g2-";
/// The bytes of such a name up to the one that the file had: the process and the step, as hexadecimal numbers.
const HAND_LENGTH: usize = HAND.len() + 8 + 1 + 16 + 1;
/// The longest file name, bytes.
const LONGEST: usize = 255;

/// The names that this process gives on the real machine. No container can foresee one, so none can be taken beforehand.
static OURS: LazyLock<Hands> = LazyLock::new(|| {
    let secret = RandomState::new();
    Hands::of(secret.hash_one("process") >> 32, Secret::Chance(secret))
});

/// The names that one process gives to files in boxes, for an instant.
#[derive(Debug)]
pub struct Hands {
    secret: Secret,
    ours: String,
    next: AtomicU64,
}

/// What the names come from.
#[derive(Debug)]
enum Secret {
    Chance(RandomState),
    /// In a simulation, where they have to be the same each time.
    Seed(u64),
}

impl Hands {
    fn of(process: u64, secret: Secret) -> Self {
        Self { ours: format!(".g2-{process:08x}-"), secret, next: AtomicU64::new(0) }
    }

    /// Returns those of this process.
    pub(super) fn ours() -> &'static Self {
        &OURS
    }

    /// Returns those of another process, which depend on these two alone.
    pub(super) fn seeded(process: u32, seed: u64) -> Self {
        Self::of(process.into(), Secret::Seed(seed))
    }

    fn next(&self) -> String {
        let step = self.next.fetch_add(1, Ordering::Relaxed);
        let step = match &self.secret {
            Secret::Chance(secret) => secret.hash_one(step),
            Secret::Seed(seed) => (seed ^ step).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31),
        };
        format!("{}{step:016x}-", self.ours)
    }

    /// Returns an unused name for a file of a box that is on its way out. It ends as `name` does, and shows it where there is
    /// room.
    pub(super) fn in_hand(&self, name: &OsStr) -> OsString {
        let bytes = name.as_bytes();
        let mut taken = self.next().into_bytes();
        taken.extend(&bytes[bytes.len().saturating_sub(LONGEST - HAND_LENGTH)..]);
        OsString::from_vec(taken)
    }

    /// Returns an unused name for a file that is on its way to its place in a box; no reader takes it for its own.
    pub(super) fn on_its_way(&self) -> String {
        self.next() + "tmp"
    }

    /// Whether the name may stand for a command. What this process is just taking out of a box does not, and what an earlier
    /// one left in the middle of that does.
    pub(super) fn is_command_name(&self, name: &OsStr) -> bool {
        name.as_bytes().ends_with(b".json") && !name.as_bytes().starts_with(self.ours.as_bytes())
    }
}

/// Returns the same name as one that a process which ended would have left.
pub(super) fn of_another_life(hand: &OsStr) -> OsString {
    let mut name = hand.as_bytes().to_vec();
    if let Some(process) = name.get_mut(HAND.len()..HAND.len() + 8) {
        process.fill(b'0');
    }
    OsString::from_vec(name)
}

/// Returns the name that a file had before a process that ended took it in hand; any other name as it is.
pub(super) fn without_hand(name: &OsStr) -> &OsStr {
    let is_number = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    match name.as_bytes().strip_prefix(HAND).and_then(|rest| rest.split_at_checked(HAND_LENGTH - HAND.len()))
    {
        Some((hand, had)) if !had.is_empty() => {
            let (process, step) = hand.split_at(9);
            let fits =
                is_number(&process[..8]) && process[8] == b'-' && is_number(&step[..16]) && step[16] == b'-';
            if fits { OsStr::from_bytes(had) } else { name }
        }
        Some(_) | None => name,
    }
}

/// Whether `id` is 1 to 64 letters, digits, hyphens, or bytes of `also`.
fn is_id(id: &[u8], also: &[u8]) -> bool {
    (1..=64).contains(&id.len())
        && id.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-' || also.contains(b))
}

/// Whether a batch id may be part of a file name: `[A-Za-z0-9-]{1,64}`.
pub(super) fn is_batch_id(id: &[u8]) -> bool {
    is_id(id, b"")
}

/// Whether a request id may be part of a file name: `[A-Za-z0-9_-]{1,64}`.
pub(super) fn is_request_id(id: &[u8]) -> bool {
    is_id(id, b"_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_is_shown_on_one_line_and_can_be_told_from_any_other() {
        for (name, shown) in [
            (&b"plain.json"[..], "plain.json"),
            (b"two\nlines.json", "two\\nlines.json"),
            (b"\x1b[2J.json", "\\u{1b}[2J.json"),
            (b"\xff\xfe.json", "\\xff\\xfe.json"),
            (b"\\n.json", "\\\\n.json"),
            ("Grüße.json".as_bytes(), "Grüße.json"),
            ("a\u{202e}nosj.json".as_bytes(), "a\\u{202e}nosj.json"),
        ] {
            assert_eq!(display_name(OsStr::from_bytes(name)), shown);
        }
    }

    #[test]
    fn only_a_single_component_is_taken_for_a_name() {
        for bad in ["", ".", "..", "a/b", "/etc/passwd", "../x.json", &"x".repeat(256)] {
            assert!(!is_one_component(OsStr::new(bad)), "{bad}");
        }
        for good in ["..json", "...", "a b\n.json", &"x".repeat(255)] {
            assert!(is_one_component(OsStr::new(good)), "{good}");
        }
    }

    #[test]
    fn a_file_in_hand_is_no_command_of_ours_and_is_one_of_another_life_under_the_name_that_it_had() {
        let long = "x".repeat(250) + ".json";
        let hands = Hands::ours();
        for had in ["a.json", "batch-1.claimed", &long] {
            let name = hands.in_hand(OsStr::new(had));
            assert!(
                name.len() <= LONGEST && is_one_component(&name) && !hands.is_command_name(&name),
                "{name:?}"
            );
            assert_ne!(name, hands.in_hand(OsStr::new(had)));
            assert!(
                had.ends_with(".json") == Hands::seeded(7, 7).is_command_name(&name),
                "it is of another process"
            );
            let shown = without_hand(&name).to_str().unwrap();
            assert!(had.ends_with(shown) && shown.len() >= had.len().min(200), "{shown}");
        }
        let of_another = OsStr::new(".g2-0123abcd-0123456789abcdef-a.json");
        assert!(hands.is_command_name(of_another));
        assert_eq!(without_hand(of_another), "a.json");
        for plain in
            ["a.json", ".g2-a.json", ".g2-0123abcd-0123456789abcdef-", ".g2-0123abcd-0123456789abcdefa.json"]
        {
            assert_eq!(without_hand(OsStr::new(plain)), plain);
        }
        assert!(!hands.is_command_name(OsStr::new(&hands.on_its_way())));
    }

    #[test]
    fn ids_that_could_leave_the_folder_are_no_ids() {
        assert!(is_batch_id(b"018f-aB9") && is_request_id(b"req_1-a"));
        for bad in [&b""[..], b"a/b", b"..", b"a.b", b"a\0", b"a b", &[b'x'; 65]] {
            assert!(!is_batch_id(bad) && !is_request_id(bad), "{bad:?}");
        }
        assert!(!is_batch_id(b"a_b"));
    }
}
