//! What groups take on the disk, for people and for programs.

use serde::Serialize;

use super::show::size;
use crate::domain::kept::housekeeping::GroupDisk;

/// What a group takes, bytes.
#[derive(Default, Serialize)]
pub(super) struct Disk {
    all: u64,
    working_folder: u64,
    sessions: u64,
    runs: u64,
    media: u64,
    mailbox: u64,
    /// Not all of it could be weighed.
    partial: bool,
}

impl Disk {
    pub(super) fn of(disk: &GroupDisk) -> Self {
        Self {
            all: disk.all(),
            working_folder: disk.working_folder,
            sessions: disk.sessions,
            runs: disk.runs,
            media: disk.media,
            mailbox: disk.mailbox,
            partial: disk.partial,
        }
    }

    fn kinds(&self) -> [(&'static str, u64); 5] {
        [
            ("working folder", self.working_folder),
            ("sessions", self.sessions),
            ("runs", self.runs),
            ("media", self.media),
            ("mailbox", self.mailbox),
        ]
    }

    /// Returns a line for each kind, and one for all.
    pub(super) fn lines(&self) -> Vec<String> {
        let kinds = self.kinds().into_iter().map(|(kind, bytes)| format!("  {kind:<14}  {}", size(bytes)));
        kinds.chain([format!("  {:<14}  {}{}", "all", self.at_least(), size(self.all))]).collect()
    }

    /// Returns it in one line: all, and the kinds that take most of it.
    pub(super) fn line(&self) -> String {
        let mut kinds = self.kinds();
        kinds.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let large = kinds.into_iter().filter(|(_, bytes)| *bytes > 0 && bytes.saturating_mul(10) >= self.all);
        let large: Vec<String> = large.map(|(kind, bytes)| format!("{kind} {}", size(bytes))).collect();
        format!("{}{} ({})", self.at_least(), size(self.all), large.join(", "))
    }

    fn at_least(&self) -> &'static str {
        if self.partial { "at least " } else { "" }
    }
}
