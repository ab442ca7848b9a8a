//! How settings are read: units, words, and the values that stand for none.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Deserializer, de::Error};

use crate::domain::runs::run_settings::NoSuchValue;

/// Reads MiB as bytes.
pub(super) fn mib<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(u64::deserialize(from)? << 20)
}

/// Reads MiB as bytes, less than 4 GiB of them.
pub(super) fn mib_u32<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    Ok(u32::deserialize(from)? << 20)
}

/// Reads MiB as bytes; 0 is `None`.
pub(super) fn mib_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(number_or_none(from)?.map(|mib| mib << 20))
}

/// Reads KiB as bytes.
pub(super) fn kib<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    Ok(usize::deserialize(from)? << 10)
}

/// Reads a number; 0 is `None`.
pub(super) fn number_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Some(u64::deserialize(from)?).filter(|number| *number > 0))
}

/// Reads a count of things; 0 is `None`.
pub(super) fn count_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    Ok(Some(usize::deserialize(from)?).filter(|count| *count > 0))
}

/// Reads a text; the empty one is `None`.
pub(super) fn text_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(from)?).filter(|text| !text.is_empty()))
}

/// Reads a path; the empty one is `None`.
pub(super) fn path_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    Ok(text_or_none(from)?.map(PathBuf::from))
}

/// Reads milliseconds.
pub(super) fn millis<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Ok(Duration::from_millis(u64::deserialize(from)?))
}

/// Reads hours as milliseconds; 0 is `None`.
pub(super) fn hours_or_none_ms<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    Ok(Some(3_600_000 * i64::from(u32::deserialize(from)?)).filter(|ms| *ms > 0))
}

/// Reads milliseconds; 0 is `None`.
pub(super) fn ms_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    Ok(Some(i64::deserialize(from)?).filter(|ms| *ms > 0))
}

/// Reads minutes.
pub(super) fn minutes<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Ok(Duration::from_secs(60 * u64::from(u32::deserialize(from)?)))
}

/// Reads minutes as milliseconds.
pub(super) fn minutes_ms<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    Ok(60_000 * i64::from(u32::deserialize(from)?))
}

/// Reads a setting that is one of a few words.
pub(super) fn word<'de, D: Deserializer<'de>, T>(
    from: D,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, NoSuchValue>,
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map_err(|why| D::Error::custom(format!("{name} can't be {text:?}: {}", why.0)))
}
