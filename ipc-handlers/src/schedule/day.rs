//! The two day fields of a cron expression, with what the `cron` crate can't express: `L`, `5L`, `1#2`.

use super::field::{Bits, DAY_OF_MONTH, DAY_OF_WEEK};

/// The days that one field names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Days {
    /// `*` or `?`.
    Every,
    /// By date.
    OfMonth {
        /// Bits 1 to 31.
        days: Bits,
        /// `L`.
        last: bool,
    },
    /// By weekday; bit 0 is Sunday.
    OfWeek {
        /// Every week's.
        days: Bits,
        /// The last of the month.
        last: Bits,
        /// Index n: the n-th of the month, 1 to 5.
        nth: [Bits; 6],
    },
}

/// A calendar day.
#[derive(Clone, Copy)]
pub(super) struct Day {
    pub(super) of_month: u32,
    pub(super) days_in_month: u32,
    /// 0 is Sunday.
    pub(super) of_week: u32,
}

impl Days {
    /// Reads the day-of-month field.
    pub(super) fn of_month(field: &str) -> Result<Self, String> {
        let (mut days, mut last) = (0, false);
        for item in field.split(',') {
            match item {
                "*" | "?" => return Ok(Self::Every),
                "L" | "l" => last = true,
                _ => days |= DAY_OF_MONTH.item(item)?,
            }
        }
        Ok(Self::OfMonth { days, last })
    }

    /// Reads the day-of-week field.
    pub(super) fn of_week(field: &str) -> Result<Self, String> {
        let (mut days, mut last, mut nth) = (0, 0, [0; 6]);
        for item in field.split(',') {
            if matches!(item, "*" | "?") {
                return Ok(Self::Every);
            } else if let Some((day, n)) = item.split_once('#') {
                let n =
                    n.parse::<usize>().ok().filter(|n| (1..=5).contains(n)).ok_or_else(|| {
                        DAY_OF_WEEK.fault(item, "must end in #1 to #5, the week of the month")
                    })?;
                nth[n] |= 1 << (DAY_OF_WEEK.number(item, day)? % 7);
            } else if let Some(day) = item.strip_suffix(['L', 'l']) {
                if day.is_empty() {
                    return Err(DAY_OF_WEEK
                        .fault(item, "says the last, but not of which weekday; write 5L for Friday"));
                }
                last |= 1 << (DAY_OF_WEEK.number(item, day)? % 7);
            } else {
                let named = DAY_OF_WEEK.item(item)?;
                days |= (named & 0x7f) | (named >> 7 & 1);
            }
        }
        Ok(Self::OfWeek { days, last, nth })
    }

    /// Returns the field for the `cron` crate, whose Sunday is 1; `None` when it can't express it.
    pub(super) fn for_crate(&self) -> Option<(String, String)> {
        match self {
            Self::Every => Some(("*".into(), "*".into())),
            Self::OfMonth { days, last: false } => Some((list(*days, 0), "*".into())),
            Self::OfWeek { days, last: 0, nth: [0, 0, 0, 0, 0, 0] } => Some(("*".into(), list(*days, 1))),
            Self::OfMonth { .. } | Self::OfWeek { .. } => None,
        }
    }

    /// Returns whether the field names the day.
    pub(super) fn include(&self, day: Day) -> bool {
        match self {
            Self::Every => true,
            Self::OfMonth { days, last } => {
                days >> day.of_month & 1 == 1 || (*last && day.of_month == day.days_in_month)
            }
            Self::OfWeek { days, last, nth } => {
                let in_last_week = day.of_month + 7 > day.days_in_month;
                let week = (day.of_month as usize - 1) / 7 + 1;
                (days | nth[week] | if in_last_week { *last } else { 0 }) >> day.of_week & 1 == 1
            }
        }
    }

    /// Returns whether some month of `months` (bits 1 to 12) has such a day, in some year.
    pub(super) fn exist_in(&self, months: Bits) -> bool {
        match self {
            Self::OfMonth { days, last: false } => (1..=12)
                .filter(|month| months >> month & 1 == 1)
                .any(|month| days.trailing_zeros() <= longest(month)),
            Self::Every | Self::OfMonth { .. } | Self::OfWeek { .. } => true,
        }
    }
}

/// Returns the numbers as a comma list, each `shift` higher.
pub(super) fn list(bits: Bits, shift: u32) -> String {
    let numbers: Vec<_> =
        (0..64).filter(|n| bits >> n & 1 == 1).map(|n: u32| (n + shift).to_string()).collect();
    numbers.join(",")
}

fn longest(month: u32) -> u32 {
    match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A day of February 2026, which begins on a Sunday and has 28 days.
    fn february(of_month: u32) -> Day {
        Day { of_month, days_in_month: 28, of_week: (of_month - 1) % 7 }
    }

    fn named(days: Result<Days, String>) -> Vec<u32> {
        let days = days.unwrap();
        (1..=28).filter(|day| days.include(february(*day))).collect()
    }

    #[test]
    fn fields_name_their_days() {
        for (field, days) in
            [("1,15", vec![1, 15]), ("L", vec![28]), ("l,27", vec![27, 28]), ("25/3", vec![25, 28])]
        {
            assert_eq!(named(Days::of_month(field)), days, "{field}");
        }
        for (field, days) in [
            ("0", vec![1, 8, 15, 22]),
            ("7", vec![1, 8, 15, 22]),
            ("5L", vec![27]),
            ("friL", vec![27]),
            ("7L", vec![22]),
            ("1#2", vec![9]),
            ("SUN#1,6#4", vec![1, 28]),
            ("1#5", vec![]),
            ("1#1,2L,3", vec![2, 4, 11, 18, 24, 25]),
            ("6-7", vec![1, 7, 8, 14, 15, 21, 22, 28]),
        ] {
            assert_eq!(named(Days::of_week(field)), days, "{field}");
        }
        assert_eq!(Days::of_week("*"), Ok(Days::Every));
        assert_eq!(Days::of_month("?"), Ok(Days::Every));
    }

    #[test]
    fn what_names_no_day_is_refused() {
        for field in ["L", "8L", "1#0", "1#6", "1#", "#1", "1#2#3", "9#1", "1W", "1L2", "-", ""] {
            assert!(Days::of_week(field).is_err(), "{field}");
        }
        for field in ["0", "32", "LW", "15W", "L-3", "1L", "", "1,,2", "MON"] {
            assert!(Days::of_month(field).is_err(), "{field}");
        }
    }

    #[test]
    fn a_date_that_no_month_has_is_seen() {
        let exist = |field: &str, months: &[u32]| {
            Days::of_month(field).unwrap().exist_in(months.iter().fold(0, |bits, month| bits | 1 << month))
        };
        assert!(!exist("30", &[2]) && !exist("31", &[2, 4, 6, 9, 11]));
        assert!(exist("29", &[2]) && exist("31", &[2, 3]) && exist("28,31", &[2]) && exist("L", &[2]));
    }
}
