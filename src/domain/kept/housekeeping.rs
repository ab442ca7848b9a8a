//! Which files that only people or an agent's own program look at are removed: those that are too old, and then the oldest ones
//! above a bound.

use ipc_handlers::Time;

use super::prune::DAY_MS;

/// What was changed within this time stays, whatever its size: somebody may just look at it, or begin to need it. ms.
const YOUNG_MS: i64 = 3_600_000;

/// How much is kept of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// ms; `None`: any age.
    age_ms: Option<i64>,
    /// `None`: any number.
    bytes: Option<u64>,
}

impl Bounds {
    /// Returns bounds by days and MiB; 0: none.
    #[must_use]
    pub fn new(days: u32, mib: u64) -> Self {
        Self {
            age_ms: (days > 0).then(|| i64::from(days) * DAY_MS),
            bytes: (mib > 0).then(|| mib.saturating_mul(1 << 20)),
        }
    }

    /// Whether nothing is ever removed.
    #[must_use]
    pub const fn are_none(&self) -> bool {
        self.age_ms.is_none() && self.bytes.is_none()
    }
}

/// A file, or the files of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aged {
    /// When it was changed last.
    pub changed: Time,
    pub bytes: u64,
    /// Something needs it: it stays, and counts.
    pub is_needed: bool,
}

/// Returns which of these files go, by their places, oldest first.
#[must_use]
pub fn outlived(files: &[Aged], bounds: Bounds, now: Time) -> Vec<usize> {
    let mut left = files.iter().fold(0_u64, |all, file| all.saturating_add(file.bytes));
    let mut oldest_first: Vec<usize> = (0..files.len()).filter(|at| !files[*at].is_needed).collect();
    oldest_first.sort_by_key(|at| (files[*at].changed, *at));
    oldest_first.retain(|at| {
        let file = &files[*at];
        let age = now.ms_since(file.changed);
        let too_old = bounds.age_ms.is_some_and(|most| age >= most);
        let too_much = age >= YOUNG_MS && file.bytes > 0 && bounds.bytes.is_some_and(|most| left > most);
        let goes = too_old || too_much;
        if goes {
            left = left.saturating_sub(file.bytes);
        }
        goes
    });
    oldest_first
}

/// What a group takes on the disk, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupDisk {
    /// `groups/<folder>`.
    pub working_folder: u64,
    /// `data/sessions/<folder>`.
    pub sessions: u64,
    /// Its runs in `data/runs`.
    pub runs: u64,
    /// `data/media-of/<folder>`.
    pub media: u64,
    /// Its boxes, and what is kept of its commands.
    pub mailbox: u64,
    /// Not all of it could be weighed: there may be more.
    pub partial: bool,
}

impl GroupDisk {
    /// Returns the sum of all kinds.
    #[must_use]
    pub fn all(&self) -> u64 {
        [self.sessions, self.runs, self.media, self.mailbox]
            .into_iter()
            .fold(self.working_folder, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Time = Time(1_800_000_000_000);

    fn file(days: i64, mib: u64) -> Aged {
        Aged { changed: NOW.plus_ms(-days * DAY_MS), bytes: mib << 20, is_needed: false }
    }

    #[test]
    fn what_is_too_old_goes_and_then_the_oldest_above_the_bound() {
        let files = [file(1, 10), file(40, 10), file(20, 10), file(2, 10), file(30, 1)];
        for (days, mib, goes) in [
            (0, 0, &[] as &[usize]),
            (30, 0, &[1, 4]),
            (31, 0, &[1]),
            (0, 41, &[]),
            (0, 40, &[1]),
            (0, 15, &[1, 4, 2, 3]),
            (30, 25, &[1, 4, 2]),
            (0, 1, &[1, 4, 2, 3, 0]),
        ] {
            assert_eq!(outlived(&files, Bounds::new(days, mib), NOW), goes, "{days} days, {mib} MiB");
        }
    }

    #[test]
    fn what_is_needed_or_young_stays_and_counts() {
        let needed = Aged { is_needed: true, ..file(90, 100) };
        let young = Aged { changed: NOW.plus_ms(1 - YOUNG_MS), ..file(0, 100) };
        let ahead = Aged { changed: NOW.plus_ms(DAY_MS), ..file(0, 100) };
        let files = [needed, young, file(1, 1), ahead];
        assert_eq!(outlived(&files, Bounds::new(30, 300), NOW), [2]);
        assert_eq!(outlived(&files, Bounds::new(0, 301), NOW), [0; 0]);
        // A folder takes nothing: it makes no room.
        assert_eq!(outlived(&[file(1, 0), needed], Bounds::new(30, 1), NOW), [0; 0]);
        assert_eq!(outlived(&[file(30, 0), needed], Bounds::new(30, 1), NOW), [0]);
    }

    proptest! {
        #[test]
        fn what_is_left_is_within_the_bounds_or_needed_or_young(
            files in prop::collection::vec((0_i64..80 * 24, 0_u64..50, any::<bool>()), 0..60),
            days in 0_u32..60,
            mib in 0_u64..200,
        ) {
            let files: Vec<Aged> = files
                .into_iter()
                .map(|(hours, mib, is_needed)| Aged { changed: NOW.plus_ms(-hours * 3_600_000), bytes: mib << 20, is_needed })
                .collect();
            let bounds = Bounds::new(days, mib);
            let goes = outlived(&files, bounds, NOW);
            prop_assert!(goes.iter().all(|at| !files[*at].is_needed));
            let stays: Vec<&Aged> = files.iter().enumerate().filter(|(at, _)| !goes.contains(at)).map(|(_, file)| file).collect();
            let free = |file: &&Aged| !file.is_needed;
            if days > 0 {
                prop_assert!(stays.iter().copied().filter(free).all(|file| NOW.ms_since(file.changed) < i64::from(days) * DAY_MS));
            }
            let left: u64 = stays.iter().map(|file| file.bytes).sum();
            if mib > 0 && left > mib << 20 {
                prop_assert!(stays.iter().copied().filter(free).all(|file| file.bytes == 0 || NOW.ms_since(file.changed) < YOUNG_MS));
            }
            // Once is enough.
            let stays: Vec<Aged> = stays.into_iter().copied().collect();
            prop_assert_eq!(outlived(&stays, bounds, NOW), [0; 0]);
        }
    }
}
