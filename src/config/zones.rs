//! The time zones of this machine.
#![expect(clippy::disallowed_methods, reason = "this file is the door to the machine's zone data")]

use crate::domain::host::zone::ZoneData;

/// Returns the newest zone data at hand: this machine's, or our own.
#[must_use]
pub fn zone_data() -> ZoneData {
    let system = jiff::tz::TimeZoneDatabase::from_dir("/usr/share/zoneinfo").ok();
    ZoneData::newest(system, std::fs::read_to_string("/usr/share/zoneinfo/tzdata.zi").ok().as_deref())
}

/// The machine's zone, from the link that `/etc/localtime` is.
pub(super) fn system_zone() -> Option<String> {
    let target = std::fs::canonicalize("/etc/localtime").ok()?;
    let text = target.to_string_lossy().into_owned();
    text.split_once("zoneinfo/").map(|(_, name)| name.to_owned())
}
