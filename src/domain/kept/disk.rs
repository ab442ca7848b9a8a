//! The reaction to a disk that fills up: below the wanted space nothing is launched and nothing taken in, and the group that
//! fills it is stopped: where that lasts, and below half of it at once. What a group has in the store is bounded before that.

use ipc_handlers::Folder;

/// What a name takes beside its bytes, so that many empty files weigh something too.
pub const A_NAME: u64 = 4_096;
/// A group that grew less than this is not stopped, however little is missing: 16 MiB, or 4 096 names.
pub const LEAST: u64 = 16 << 20;
/// With less than this left, groups are weighed before something is missing: who writes slowly is seen, too.
const NEAR: u64 = 4 * LEAST;

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// Bytes that are missing to half of the wanted space: a group has to stop at once.
    Short {
        missing: u64,
    },
    /// Bytes that are missing to the wanted space: nothing is launched, and if that lasts a group has to
    /// stop.
    Low {
        missing: u64,
    },
    Enough,
}

/// What a group that runs has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub group: Folder,
    /// What its folders take now, and what it has in the store, bytes.
    pub now: u64,
    /// What they took when they were first weighed since there was plenty of room, or since somebody was stopped; `None`:
    /// nobody looked.
    pub before: Option<u64>,
    /// What it wrote since there was room, as far as the files say that it changed since, bytes; `None`: there was none
    /// since the daemon is up.
    pub wrote: Option<u64>,
}

/// Who fills the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filler<'w> {
    /// These groups, each with its bytes since they were first weighed, or since there was room: one, or more that wrote
    /// the same. They are stopped.
    Groups(Vec<&'w Folder>, u64),
    /// Not everybody was weighed before; the next look tells.
    NotKnown,
    /// No group's folders show it: something else fills the disk, or files of a group that can't be weighed. Nobody is
    /// stopped for that; nothing is started or taken in until there is room again.
    NotSeen,
}

/// A disk with its free and wanted space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Free space, bytes.
    pub free: u64,
    /// Free space inside of the store, for the next rows, bytes.
    pub inside: u64,
    /// Wanted free space, bytes.
    pub wanted: u64,
    pub free_inodes: u64,
    /// 0 where the file system has no fixed number of them.
    pub all_inodes: u64,
}

impl Disk {
    /// Returns the space that counts as free, bytes. Free space inside of the store serves nothing else, so it counts only
    /// if half of the wanted space is free beside it.
    fn counts(&self) -> u64 {
        if self.free >= self.wanted / 2 { self.free.saturating_add(self.inside) } else { self.free }
    }

    /// Returns the space that is free for writers.
    #[must_use]
    pub fn all_free(&self) -> Free {
        Free { bytes: self.free.saturating_add(self.inside), inodes: self.free_inodes }
    }

    /// Returns what may be written before something is missing, bytes.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.counts().saturating_sub(self.wanted)
    }

    /// Returns how many inodes are to be free: of twenty one.
    const fn wanted_inodes(&self) -> u64 {
        self.all_inodes / 20
    }

    /// Whether so little is left that groups are weighed.
    #[must_use]
    pub fn is_near(&self) -> bool {
        let names = self.free_inodes.saturating_sub(self.wanted_inodes()).saturating_mul(A_NAME);
        self.left() < NEAR || (self.all_inodes > 0 && names < NEAR)
    }
}

/// Decides how much room there is, in bytes and in inodes.
#[must_use]
pub fn space(disk: &Disk) -> Space {
    let inodes = match of(disk.free_inodes, disk.wanted_inodes()) {
        Space::Short { missing } => Space::Short { missing: missing.saturating_mul(A_NAME) },
        Space::Low { missing } => Space::Low { missing: missing.saturating_mul(A_NAME) },
        Space::Enough => Space::Enough,
    };
    of(disk.counts(), disk.wanted).min(inodes)
}

/// Whether a group's commands are taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Open,
    /// There is no room for anybody's.
    Low,
    /// The group has more in the store than the space that is left: it would take the others' room.
    Ahead,
    /// The group has far more in the store than is kept of it; not even refusals are written down any more.
    Over,
}

/// Decides whether commands of a group with `stored` bytes in the store are taken in, if it may have at most `most`.
/// From `most` on those are refused that put more there; up to a quarter more there is room for the refusals, and for what
/// its agents say.
#[must_use]
pub fn admission(stored: u64, most: u64, disk: &Disk) -> Admission {
    if space(disk) != Space::Enough {
        Admission::Low
    } else if is_over(stored, most) {
        Admission::Over
    } else if disk.wanted > 0 && stored > disk.left() {
        Admission::Ahead
    } else {
        Admission::Open
    }
}

/// Whether a group has so much in the store that it is stopped.
#[must_use]
pub const fn is_over(stored: u64, most: u64) -> bool {
    stored > most.saturating_add(most / 4)
}

fn of(free: u64, wanted: u64) -> Space {
    if free >= wanted {
        Space::Enough
    } else if free >= wanted / 2 {
        Space::Low { missing: wanted - free }
    } else {
        Space::Short { missing: wanted / 2 - free }
    }
}

/// Free space, in bytes and in inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    pub bytes: u64,
    pub inodes: u64,
}

/// Returns how many bytes are gone between `then` and `now`.
#[must_use]
pub const fn lost(then: Free, now: Free) -> u64 {
    let names = then.inodes.saturating_sub(now.inodes).saturating_mul(A_NAME);
    then.bytes.saturating_sub(now.bytes).saturating_add(names)
}

/// Returns the most that a group can have written, if its files that were changed since take `changed` bytes, while `lost` are gone.
/// A file that was there before counts whole, but no group wrote more than `lost`.
#[must_use]
pub fn wrote(changed: u64, lost: u64) -> u64 {
    changed.min(lost)
}

/// Decides which group fills a disk on which `missing` bytes are missing, with `lost` bytes gone since the first weighing:
/// the group that grew most since, if that is at least [`LEAST`] and all of them together grew by half of `missing`;
/// where some grew alike, all of those. What a group had before
/// that is nobody's fault. One that was not weighed before, as the disk was filled between two looks, is told by what it
/// wrote between them.
///
/// If the groups together wrote less than half of `lost`, none of them is blamed for the rest.
#[must_use]
pub fn filler(missing: u64, lost: u64, written: &[Written]) -> Filler<'_> {
    let enough = LEAST.max(missing / 2);
    let grown = |w: &Written| w.before.map(|before| w.now.saturating_sub(before)).or(w.wrote);
    let seen = written.iter().filter_map(grown).fold(0, u64::saturating_add);
    let unseen = lost.saturating_sub(seen);
    let most = written.iter().filter_map(grown).max();
    let who = |most| written.iter().filter(|w| grown(w) == Some(most)).map(|w| &w.group).collect();
    match most {
        Some(most) if most >= LEAST && seen >= enough && unseen <= seen => Filler::Groups(who(most), most),
        _ if written.iter().any(|w| grown(w).is_none()) => Filler::NotKnown,
        _ => Filler::NotSeen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_low_below_what_is_wanted_and_short_below_half_of_it_in_bytes_or_inodes() {
        for (free, wanted, free_inodes, all_inodes, expected) in [
            (100, 100, 0, 0, Space::Enough),
            (99, 100, 0, 0, Space::Low { missing: 1 }),
            (50, 100, 0, 0, Space::Low { missing: 50 }),
            (49, 100, 0, 0, Space::Short { missing: 1 }),
            (0, 0, 0, 0, Space::Enough),
            (100, 100, 50, 1_000, Space::Enough),
            (100, 100, 49, 1_000, Space::Low { missing: A_NAME }),
            (99, 100, 49, 1_000, Space::Low { missing: 1 }),
            (100, 100, 24, 1_000, Space::Short { missing: A_NAME }),
            (0, 100, 49, 1_000, Space::Short { missing: 50 }),
        ] {
            let disk = Disk { free, inside: 0, wanted, free_inodes, all_inodes };
            assert_eq!(space(&disk), expected, "{disk:?}");
        }
    }

    #[test]
    fn groups_are_weighed_before_something_is_missing() {
        const MIB: u64 = 1 << 20;
        for (free, free_inodes, all_inodes, expected) in [
            (164, 0, 0, false),
            (163, 0, 0, true),
            (99, 0, 0, true),
            (164, 50 + NEAR / A_NAME, 1_000, false),
            (164, 49 + NEAR / A_NAME, 1_000, true),
        ] {
            let disk = Disk { free: free * MIB, inside: 0, wanted: 100 * MIB, free_inodes, all_inodes };
            assert_eq!(disk.is_near(), expected, "{disk:?}");
        }
    }

    #[test]
    fn what_is_free_inside_of_the_store_counts_where_half_of_what_is_wanted_is_free_beside_it() {
        for (free, inside, expected) in [
            (60, 40, Space::Enough),
            (60, 39, Space::Low { missing: 1 }),
            (50, 50, Space::Enough),
            (49, 1_000, Space::Short { missing: 1 }),
        ] {
            let disk = Disk { free, inside, wanted: 100, free_inodes: 0, all_inodes: 0 };
            assert_eq!(space(&disk), expected, "{disk:?}");
        }
    }

    #[test]
    fn commands_wait_while_there_is_no_room_and_those_of_who_takes_more_than_what_is_left_before() {
        for (stored, free, expected) in [
            (0, 99, Admission::Low),
            (0, 100, Admission::Open),
            (1, 100, Admission::Ahead),
            (50, 150, Admission::Open),
            (51, 150, Admission::Ahead),
            (1_250, 9_000, Admission::Open),
            (1_251, 9_000, Admission::Over),
        ] {
            let disk = Disk { free, inside: 0, wanted: 100, free_inodes: 0, all_inodes: 0 };
            assert_eq!(admission(stored, 1_000, &disk), expected, "{stored} {disk:?}");
        }
        let unwatched = Disk { free: 0, inside: 0, wanted: 0, free_inodes: 0, all_inodes: 0 };
        assert_eq!(admission(10, 1_000, &unwatched), Admission::Open);
        // A group that writes three bytes for one that is counted leaves others a fourth of the space.
        let (mut stored, mut disk) =
            (0, Disk { free: 1_100, inside: 0, wanted: 100, free_inodes: 0, all_inodes: 0 });
        while admission(stored, 10_000, &disk) == Admission::Open {
            (stored, disk.free) = (stored + 1, disk.free - 3);
        }
        assert_eq!((stored, disk.left()), (251, 247));
        assert_eq!(admission(1, 10_000, &disk), Admission::Open, "the others go on");
    }

    #[test]
    fn who_filled_the_disk_is_stopped_and_nobody_for_what_others_wrote_or_for_what_was_there() {
        const MIB: u64 = 1 << 20;
        let written = |rows: &[(&str, u64, Option<u64>)]| -> Vec<Written> {
            let row = |&(group, now, before): &(&str, u64, Option<u64>)| Written {
                group: Folder::parse(group).unwrap(),
                now: now * MIB,
                before: before.map(|mib| mib * MIB),
                wrote: None,
            };
            rows.iter().map(row).collect()
        };
        let [b, evil, good] = ["b", "evil", "good"].map(|name| Folder::parse(name).unwrap());
        for (missing, rows, expected) in [
            (100, &[][..], Filler::NotSeen),
            // Somebody outside fills the disk, beside groups that write a little.
            (100, &[("good", 905, Some(900)), ("evil", 44, Some(0))], Filler::NotSeen),
            (1, &[("good", 915, Some(900)), ("evil", 5, Some(9))], Filler::NotSeen),
            (1_000, &[("good", 249, Some(0)), ("evil", 249, Some(0))], Filler::NotSeen),
            // Three do that share it: none of them wrote half of the missing bytes.
            (
                1_000,
                &[
                    ("good", 900, Some(890)),
                    ("a", 330, Some(0)),
                    ("b", 340, Some(0)),
                    ("evil", 340, Some(10)),
                ],
                Filler::Groups(vec![&b], 340 * MIB),
            ),
            // A hostile group does, beside large ones and small writers.
            (100, &[("good", 905, Some(900)), ("evil", 60, Some(10))], Filler::Groups(vec![&evil], 50 * MIB)),
            (1, &[("good", 900, Some(899)), ("evil", 16, Some(0))], Filler::Groups(vec![&evil], 16 * MIB)),
            (10, &[("good", 60, Some(20)), ("evil", 60, Some(10))], Filler::Groups(vec![&evil], 50 * MIB)),
            // After a start, or a fall from enough to short in one look, nobody was weighed.
            (100, &[("good", 900, None), ("evil", 500, None)], Filler::NotKnown),
            (100, &[("good", 900, None), ("evil", 500, Some(499))], Filler::NotKnown),
            (100, &[("evil", 900, None), ("good", 60, Some(1))], Filler::Groups(vec![&good], 59 * MIB)),
            // Two that grew alike: neither is spared for its name.
            (
                10,
                &[("a", 10, Some(9)), ("evil", 60, Some(10)), ("good", 90, Some(40))],
                Filler::Groups(vec![&evil, &good], 50 * MIB),
            ),
        ] {
            let rows = written(rows);
            assert_eq!(filler(missing * MIB, 0, &rows), expected, "{missing} {rows:?}");
        }
    }

    #[test]
    fn nobody_wrote_more_than_what_is_gone() {
        let free = |bytes, inodes| Free { bytes, inodes };
        for (changed, then, now, expected) in [
            (900, free(1_000, 0), free(100, 0), 900),
            (900, free(1_000, 0), free(990, 0), 10),
            (50, free(1_000, 0), free(100, 0), 50),
            (900, free(1_000, 0), free(1_100, 0), 0),
            (90_000, free(1_000, 30), free(1_000, 10), 20 * A_NAME),
        ] {
            assert_eq!(wrote(changed, lost(then, now)), expected, "{changed} {then:?} {now:?}");
        }
    }

    #[test]
    fn what_nobody_is_seen_to_have_written_is_laid_on_nobody() {
        const MIB: u64 = 1 << 20;
        let [evil, good] = ["evil", "good"].map(|name| Folder::parse(name).unwrap());
        for (missing, lost, rows, expected) in [
            // A hidden file, beside somebody who wrote a little; the first missing byte is enough.
            (1, 900, &[("good", Some(20)), ("evil", Some(0))][..], Filler::NotSeen),
            (1, 41, &[("good", Some(20))], Filler::NotSeen),
            (1, 40, &[("good", Some(20))], Filler::Groups(vec![&good], 20 * MIB)),
            // A group that was seen to write more than the hidden bytes is the one.
            (1, 60, &[("good", Some(40)), ("evil", Some(1))], Filler::Groups(vec![&good], 40 * MIB)),
            (1, 60, &[("good", Some(1)), ("evil", Some(40))], Filler::Groups(vec![&evil], 40 * MIB)),
            (100, 45, &[("good", Some(1)), ("evil", Some(4))], Filler::NotSeen),
            // A group that was not weighed before may have had it, or have written it.
            (1, 900, &[("good", Some(20)), ("evil", None)], Filler::NotKnown),
        ] {
            let row = |(group, grown): &(&str, Option<u64>)| Written {
                group: Folder::parse(group).unwrap(),
                now: (grown.unwrap_or(0) + 7) * MIB,
                before: grown.map(|_| 7 * MIB),
                wrote: None,
            };
            let rows: Vec<Written> = rows.iter().map(row).collect();
            assert_eq!(filler(missing * MIB, lost * MIB, &rows), expected, "{missing} {lost} {rows:?}");
        }
    }

    #[test]
    fn who_fills_the_disk_between_two_looks_is_told_by_what_it_wrote_since_there_was_room() {
        const MIB: u64 = 1 << 20;
        let written = |rows: &[(&str, u64, Option<u64>, Option<u64>)]| -> Vec<Written> {
            let row = |&(group, now, before, wrote): &(&str, u64, Option<u64>, Option<u64>)| Written {
                group: Folder::parse(group).unwrap(),
                now: now * MIB,
                before: before.map(|mib| mib * MIB),
                wrote: wrote.map(|mib| mib * MIB),
            };
            rows.iter().map(row).collect()
        };
        let evil = Folder::parse("evil").unwrap();
        for (rows, expected) in [
            (
                &[("good", 900, None, Some(3)), ("evil", 500, None, Some(500))][..],
                Filler::Groups(vec![&evil], 500 * MIB),
            ),
            (
                &[("good", 900, Some(899), None), ("evil", 60, None, Some(60))],
                Filler::Groups(vec![&evil], 60 * MIB),
            ),
            // Nobody did: that is known at once.
            (&[("good", 900, None, Some(3)), ("evil", 500, None, Some(0))], Filler::NotSeen),
            (&[("good", 900, None, Some(49))], Filler::NotSeen),
            // What was weighed says more than what files were changed.
            (&[("good", 900, Some(899), Some(900))], Filler::NotSeen),
            // After a start nothing is known of those who were not weighed.
            (&[("good", 900, None, None), ("evil", 500, None, Some(1))], Filler::NotKnown),
        ] {
            let rows = written(rows);
            assert_eq!(filler(100 * MIB, 0, &rows), expected, "{rows:?}");
        }
    }
}
