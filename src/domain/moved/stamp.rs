//! Instants of rows, as RFC 3339 in UTC with milliseconds.

use ipc_handlers::Time;
use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

pub(super) fn serialize<S: Serializer>(time: &Time, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(time)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Time, D::Error> {
    let text = String::deserialize(d)?;
    let read =
        text.parse::<jiff::Timestamp>().map_err(|_| D::Error::custom("it is no instant in RFC 3339"))?;
    Ok(Time::from_jiff(read))
}

/// The same of an instant that may be missing.
pub(super) mod option {
    use super::{Deserializer, Serializer, Time};

    pub(in super::super) fn serialize<S: Serializer>(time: &Option<Time>, s: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => super::serialize(time, s),
            None => s.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Time>, D::Error> {
        super::deserialize(d).map(Some)
    }
}
