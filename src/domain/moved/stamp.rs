//! Instants of rows, as RFC 3339 in UTC with milliseconds.

use ipc_handlers::Time;
use serde::{Deserialize as _, Deserializer, Serializer};

pub(in crate::moved) fn serialize<S: Serializer>(time: &Time, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(time)
}

pub(in crate::moved) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Time, D::Error> {
    read(&String::deserialize(d)?)
}

fn read<E: serde::de::Error>(text: &str) -> Result<Time, E> {
    let read = text.parse::<jiff::Timestamp>().map_err(|_| E::custom("it is no instant in RFC 3339"))?;
    Ok(Time::from_jiff(read))
}

/// The same of an instant that may be missing.
pub(in crate::moved) mod option {
    use serde::Deserialize as _;

    use super::{Deserializer, Serializer, Time};

    pub(in crate::moved) fn serialize<S: Serializer>(time: &Option<Time>, s: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => super::serialize(time, s),
            None => s.serialize_none(),
        }
    }

    pub(in crate::moved) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Time>, D::Error> {
        Option::<String>::deserialize(d)?.map(|text| super::read(&text)).transpose()
    }
}
