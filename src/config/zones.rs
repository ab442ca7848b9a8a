//! The time zones of this machine.
#![expect(clippy::disallowed_methods, reason = "this file is the door to the machine's zone data")]

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::Environment;
use crate::domain::time::zone::{ZoneChoice, ZoneData};

/// Where the user's zone and the zone data come from, to be looked at again while the daemon is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneSource {
    /// The folder of the system's data: `TZDIR`, as for the C library.
    folder: PathBuf,
    /// What the environment, the settings and the `.env` file say, in this order.
    said: [Option<String>; 3],
}

impl ZoneSource {
    pub(super) fn new(environment: &Environment, setting: &str, in_dotenv: Option<String>) -> Self {
        let folder = environment.get("TZDIR").unwrap_or("/usr/share/zoneinfo").into();
        Self { folder, said: [environment.get("TZ").map(str::to_owned), Some(setting.to_owned()), in_dotenv] }
    }

    /// Returns the newest zone data at hand: this machine's, or our own.
    #[must_use]
    pub fn data(&self) -> ZoneData {
        let system = jiff::tz::TimeZoneDatabase::from_dir(&self.folder).ok();
        ZoneData::newest(system, fs::read_to_string(self.folder.join("tzdata.zi")).ok().as_deref())
    }

    /// Returns the zone of everybody who has none of their own, by these data.
    #[must_use]
    pub fn zone(&self, data: &ZoneData) -> ZoneChoice {
        let [environment, setting, in_dotenv] = &self.said;
        let system = system_zone();
        data.resolve(&[environment.as_deref(), setting.as_deref(), in_dotenv.as_deref(), system.as_deref()])
    }

    /// Returns a text that is another one when the data, or the machine's zone, may have changed; `zone` is the one in use.
    #[must_use]
    pub fn stamp(&self, zone: &str) -> String {
        let mut stamp = format!("{} {}", ZoneData::bundled_version(), system_zone().unwrap_or_default());
        for file in [self.folder.clone(), self.folder.join("tzdata.zi"), self.folder.join(zone)] {
            let seen =
                fs::metadata(&file).map(|file| (file.ino(), file.len(), file.mtime(), file.mtime_nsec()));
            // Writing into a text does not fail.
            let _ = write!(stamp, " {seen:?}", seen = seen.ok());
        }
        stamp
    }
}

/// The machine's zone, from the link that `/etc/localtime` is.
fn system_zone() -> Option<String> {
    let target = fs::canonicalize(Path::new("/etc/localtime")).ok()?;
    let text = target.to_string_lossy().into_owned();
    text.split_once("zoneinfo/").map(|(_, name)| name.to_owned())
}
