//! Instants as the whole project passes them: milliseconds since the Unix epoch, UTC.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An instant, in milliseconds since the Unix epoch (UTC).
///
/// Nothing here reads a clock: instants are arguments. `Display` is RFC 3339 with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    /// The latest instant that every part of the project can express (year 9999).
    pub const MAX: Self = Self(253_402_207_200_000);

    /// Returns the instant `ms` milliseconds later, clamped to what can be expressed.
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms).min(Self::MAX.0))
    }

    /// Returns how many milliseconds `self` is after `earlier` (negative when it is before).
    #[must_use]
    pub fn ms_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the instant as jiff's type; out-of-range values are clamped.
    #[must_use]
    pub fn to_jiff(self) -> jiff::Timestamp {
        let clamped = self.0.clamp(-377_705_023_201_000, Self::MAX.0);
        jiff::Timestamp::from_millisecond(clamped).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }

    /// Returns jiff's instant cut to milliseconds.
    #[must_use]
    pub fn from_jiff(t: jiff::Timestamp) -> Self {
        Self(t.as_millisecond())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.to_jiff())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_reads_as_rfc_3339_with_milliseconds() {
        assert_eq!(Time(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Time(1_704_133_800_001).to_string(), "2024-01-01T18:30:00.001Z");
    }

    #[test]
    fn adding_never_overflows() {
        assert_eq!(Time(5).plus_ms(i64::MAX), Time::MAX);
    }
}
