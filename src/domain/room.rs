//! What a disk that fills up asks for: below what is wanted nothing is launched, below half of it whoever writes most is
//! stopped.

use ipc_handlers::Folder;

/// What a name takes beside its bytes, so that many empty files weigh something too.
pub const A_NAME: u64 = 4_096;

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    /// So many bytes are missing until there is half of what is wanted: somebody has to stop.
    Short {
        missing: u64,
    },
    /// Nothing is launched.
    Low,
    Enough,
}

/// What a group that runs has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub group: Folder,
    /// What its folders take now, bytes.
    pub now: u64,
    /// What they took when the room became low; `None`: nobody looked.
    pub before: Option<u64>,
}

/// Decides how much room there is, in bytes and in inodes. A file system that counts no inodes has 0 of 0.
#[must_use]
pub fn room(free: u64, wanted: u64, free_inodes: u64, all_inodes: u64) -> Room {
    // Of twenty one has to be free.
    let inodes = of(free_inodes, all_inodes / 20);
    let inodes = match inodes {
        Room::Short { missing } => Room::Short { missing: missing.saturating_mul(A_NAME) },
        Room::Low | Room::Enough => inodes,
    };
    of(free, wanted).min(inodes)
}

fn of(free: u64, wanted: u64) -> Room {
    if free >= wanted {
        Room::Enough
    } else if free >= wanted / 2 {
        Room::Low
    } else {
        Room::Short { missing: wanted / 2 - free }
    }
}

/// Returns the group that is stopped where so many bytes are missing, and how much it wrote: the one that grew most
/// since the room became low. Where nobody looked then, a group that takes what is missing may have written it; where
/// nobody grew it was somebody else.
#[must_use]
pub fn to_stop(missing: u64, written: &[Written]) -> Option<(&Folder, u64)> {
    written
        .iter()
        .filter_map(|w| match w.before {
            Some(before) => Some((&w.group, w.now.saturating_sub(before))).filter(|(_, grown)| *grown > 0),
            None => Some((&w.group, w.now)).filter(|(_, takes)| *takes >= missing),
        })
        .max_by_key(|(_, grown)| *grown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_low_below_what_is_wanted_and_short_below_half_of_it_in_bytes_or_inodes() {
        for (free, wanted, free_inodes, all_inodes, expected) in [
            (100, 100, 0, 0, Room::Enough),
            (99, 100, 0, 0, Room::Low),
            (50, 100, 0, 0, Room::Low),
            (49, 100, 0, 0, Room::Short { missing: 1 }),
            (0, 0, 0, 0, Room::Enough),
            (100, 100, 50, 1_000, Room::Enough),
            (100, 100, 49, 1_000, Room::Low),
            (100, 100, 24, 1_000, Room::Short { missing: A_NAME }),
            (0, 100, 49, 1_000, Room::Short { missing: 50 }),
        ] {
            assert_eq!(
                room(free, wanted, free_inodes, all_inodes),
                expected,
                "{free} {wanted} {free_inodes}"
            );
        }
    }

    #[test]
    fn who_grew_most_is_stopped_and_nobody_for_what_others_wrote() {
        let written = |rows: &[(&str, u64, Option<u64>)]| -> Vec<Written> {
            let row = |&(group, now, before): &(&str, u64, Option<u64>)| Written {
                group: Folder::parse(group).unwrap(),
                now,
                before,
            };
            rows.iter().map(row).collect()
        };
        for (rows, expected) in [
            (&[][..], None),
            (&[("large", 900, Some(900)), ("evil", 100, Some(10))], Some(("evil", 90))),
            (&[("a", 20, Some(10)), ("b", 40, Some(10))], Some(("b", 30))),
            // Somebody outside fills the disk.
            (&[("a", 900, Some(900)), ("b", 5, Some(9))], None),
            (&[("a", 99, None)], None),
            (&[("a", 100, None), ("b", 5, Some(4))], Some(("a", 100))),
        ] {
            let rows = written(rows);
            let stopped = to_stop(100, &rows).map(|(group, grown)| (group.as_str(), grown));
            assert_eq!(stopped, expected, "{rows:?}");
        }
    }
}
