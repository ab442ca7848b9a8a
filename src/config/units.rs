//! How settings are read: units, words, and the values that stand for none.
//!
//! A refusal begins with `can't be`: its reader puts the setting's name before it.

use std::{fmt::Display, net::SocketAddr, ops::Shl, time::Duration};

use ipc_handlers::words::Word;
use serde::{Deserialize, Deserializer, de::Error};

use super::environment::LEVELS;
use crate::domain::{
    kept::backups::TimeOfDay,
    problems::notices::Quiet,
    runs::run_settings::{NoSuchValue, one_of},
};

/// What `sandbox.uid_base` may be: above the users of a machine, and with room above it.
const UID_BASES: std::ops::RangeInclusive<u32> = 10_000..=4_000_000_000;

/// Reads MiB as bytes.
pub(super) fn mib<'de, D: Deserializer<'de>, T: Bytes<'de>>(from: D) -> Result<T, D::Error> {
    Ok(T::deserialize(from)? << 20)
}

/// Reads KiB as bytes.
pub(super) fn kib<'de, D: Deserializer<'de>, T: Bytes<'de>>(from: D) -> Result<T, D::Error> {
    Ok(T::deserialize(from)? << 10)
}

/// A count of bytes.
pub(super) trait Bytes<'de>: Deserialize<'de> + Shl<u32, Output = Self> {}
impl<'de, T: Deserialize<'de> + Shl<u32, Output = T>> Bytes<'de> for T {}

/// Reads MiB as bytes; 0 is `None`.
pub(super) fn mib_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(or_none(from)?.map(|mib: u64| mib << 20))
}

/// Reads a value; 0, or the empty one, is `None`.
pub(super) fn or_none<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default + PartialEq,
{
    Ok(Some(T::deserialize(from)?).filter(|value| *value != T::default()))
}

/// Reads milliseconds.
pub(super) fn millis<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_millis)
}

/// Reads seconds.
pub(super) fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_secs)
}

/// Reads minutes.
pub(super) fn minutes<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Ok(Duration::from_secs(60 * u64::from(u32::deserialize(from)?)))
}

/// Reads minutes as milliseconds.
pub(super) fn minutes_ms<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    Ok(60_000 * i64::from(u32::deserialize(from)?))
}

/// Reads hours as milliseconds; 0 is `None`.
pub(super) fn hours_or_none_ms<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    Ok(or_none(from)?.map(|hours: u32| 3_600_000 * i64::from(hours)))
}

/// Reads a number of processors; 0 and less is `None`.
pub(super) fn cpus<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    Ok(Some(f64::deserialize(from)?).filter(|cpus| *cpus > 0.0))
}

/// Reads a user's number; 0 is `None`.
pub(super) fn uid_base<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let base: Option<u32> = or_none(from)?;
    let why = "use a number from 10000 to 4000000000 above which nobody else's users are, or 0";
    base.map_or(Ok(None), |base| if UID_BASES.contains(&base) { Ok(Some(base)) } else { bad(base, why) })
}

/// Reads a setting that is one of a few words.
pub(super) fn word<'de, D: Deserializer<'de>, T: Word>(from: D) -> Result<T, D::Error> {
    parsed(from, one_of)
}

/// Reads the level of a log.
pub(super) fn log_level<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let known = |level: &str| LEVELS.contains(&level).then(|| level.to_owned());
    parsed(from, |text| known(text).ok_or_else(|| NoSuchValue::but(LEVELS)))
}

/// Reads a time such as 03:30.
pub(super) fn time_of_day<'de, D: Deserializer<'de>>(from: D) -> Result<TimeOfDay, D::Error> {
    parsed(from, |text| TimeOfDay::parse(text).ok_or("use a time such as \"03:30\""))
}

/// Reads hours such as 22:00-07:00; the empty text is `None`.
pub(super) fn quiet<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Quiet>, D::Error> {
    let read = |text: &str| if text.is_empty() { Some(None) } else { Quiet::parse(text).map(Some) };
    parsed(from, |text| read(text).ok_or("use two different times such as \"22:00-07:00\""))
}

/// Reads an address on the web; the empty one is `None`.
pub(super) fn web_address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let is_one = |text: &str| {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let host = rest.and_then(|rest| rest.split(['/', '?']).next()).unwrap_or_default();
        let is_plain = text.len() <= 2048 && text.bytes().all(|b| b.is_ascii_graphic());
        is_plain && !host.is_empty() && !host.contains('@') && !text.contains('#')
    };
    let read = |text: &str| match text {
        "" => Some(None),
        text => is_one(text).then(|| Some(text.to_owned())),
    };
    parsed(from, |text| read(text).ok_or("use an address such as https://ntfy.example.org/g2"))
}

/// Reads an address with a port; the empty one is `None`.
pub(super) fn address_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let read = |text: &str| if text.is_empty() { Ok(None) } else { text.parse().map(Some) };
    parsed(from, |text| read(text).map_err(|_| "use an address and a port, such as 127.0.0.1:4747"))
}

/// Reads a list of places that have settings files.
pub(super) fn setting_sources<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let sources = Vec::<String>::deserialize(from)?;
    match sources.iter().find(|source| !["user", "project", "local"].contains(&source.as_str())) {
        None => Ok(sources),
        Some(odd) => bad(format!("{odd:?}"), "use \"user\", \"project\" and \"local\""),
    }
}

fn parsed<'de, D: Deserializer<'de>, T, E: Display>(
    from: D,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).or_else(|why| bad(format!("{text:?}"), why))
}

fn bad<T, E: Error>(value: impl Display, why: impl Display) -> Result<T, E> {
    Err(E::custom(format!("can't be {value}: {why}")))
}
