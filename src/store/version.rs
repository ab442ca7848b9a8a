//! The version of a store's schema: the number of its newest migration.
//!
//! `PRAGMA user_version` holds it with 1000 added. The schemas of before `0001_init.sql` stand there as 1 to 67; programs of
//! that time refuse any larger number, so that none of them touches a store of today.

use std::{fmt, path::Path};

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::{Result, StoreError};

/// What `PRAGMA user_version` holds above the number.
const ABOVE: usize = 1000;

/// A version of the schema, as `PRAGMA user_version` holds it; a newer one is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version(usize);

impl Version {
    /// Nothing was ever stored.
    pub const NONE: Self = Self(0);
    /// The newest schema of before `0001_init.sql`, which has the same tables.
    pub(super) const LAST_OF_BEFORE: Self = Self(67);

    /// Returns the version whose newest migration has this number; 0: nothing is there.
    pub(super) const fn of(number: usize) -> Self {
        match number {
            0 => Self::NONE,
            _ => Self(ABOVE + number),
        }
    }

    /// Returns the number of its newest migration; 0 where none was applied.
    pub(super) fn number(self) -> usize {
        self.0.saturating_sub(ABOVE)
    }

    /// Returns the version of a store.
    pub(super) fn read(c: &Connection) -> rusqlite::Result<Self> {
        c.query_row("PRAGMA user_version", [], |row| row.get(0)).map(Self)
    }

    /// Has it be the version of a store.
    pub(super) fn write(self, c: &Connection) -> rusqlite::Result<()> {
        c.pragma_update(None, "user_version", self.0)
    }

    /// Returns four digits for the name of a copy: the larger, the newer.
    pub(super) fn digits(self) -> String {
        format!("{:04}", self.0)
    }

    /// Refuses the store at `path` that has this version, where this program can never work on it.
    ///
    /// # Errors
    /// [`StoreError::Newer`]; [`StoreError::TooOld`].
    pub fn check(self, path: &Path) -> Result<()> {
        let (path, known) = (path.to_owned(), super::migrate::version());
        match self {
            found if found > known => Err(StoreError::Newer { path, found, known }),
            Self::NONE | Self::LAST_OF_BEFORE => Ok(()),
            found if found.0 <= ABOVE => Err(StoreError::TooOld { path, found, last: Self::LAST_OF_BEFORE }),
            _ => Ok(()),
        }
    }

    /// Whether this program can work on such a store at all.
    #[must_use]
    pub fn is_too_old(self) -> bool {
        matches!(self.check(Path::new("")), Err(StoreError::TooOld { .. }))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => f.write_str("0"),
            Self(at) if at <= ABOVE => write!(f, "{at} of the old count"),
            _ => write!(f, "{}", self.number()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::migrate::version;

    #[test]
    fn versions_are_told_by_their_numbers_and_later_ones_are_larger() {
        let in_order = [Version::NONE, Version(66), Version::LAST_OF_BEFORE, Version::of(1), Version::of(12)];
        assert!(in_order.is_sorted());
        let told = in_order.map(|version| version.to_string());
        assert_eq!(told, ["0", "66 of the old count", "67 of the old count", "1", "12"]);
        assert_eq!(in_order.map(Version::number), [0, 0, 0, 1, 12]);
    }

    #[test]
    fn a_store_is_refused_that_is_newer_or_older_than_the_last_schema_of_before() {
        let path = Path::new("/g2.sqlite");
        for taken in [Version::NONE, Version::LAST_OF_BEFORE, Version::of(1), version()] {
            assert!(taken.check(path).is_ok(), "{taken}");
        }
        for old in [Version(1), Version(66), Version(68), Version(ABOVE)] {
            let refused = old.check(path).unwrap_err();
            assert!(old.is_too_old(), "{refused}");
            let told = refused.to_string();
            assert!(
                told.contains(&format!("schema {old}")) && told.contains("67 of the old count"),
                "{told}"
            );
        }
        let newer = Version(version().0 + 1);
        assert!(matches!(newer.check(path), Err(StoreError::Newer { .. })) && !newer.is_too_old());
    }
}
