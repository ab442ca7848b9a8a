//! Codes that make somebody an owner, each shown to the session that asked for it and to no other. They stand in memory alone: the
//! store has their digests.

use std::{collections::VecDeque, sync::Mutex};

use ipc_handlers::Time;

use crate::{domain::heard::claims::KEPT, ops::people::claim::Way, system::locked::Locked as _};

/// A code, for the one who made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Code {
    /// The number of its row.
    pub(super) id: i64,
    pub(super) session: i64,
    pub(super) code: String,
    /// Until when it is good.
    pub(super) until: Time,
    /// The accounts to which it can be written.
    pub(super) doors: Vec<(String, String, Option<String>)>,
}

impl Code {
    /// Reads the row of the operation that made it.
    pub(super) fn of(row: &serde_json::Value, session: i64) -> Option<Self> {
        let doors: Vec<Way> = serde_json::from_value(row["doors"].clone()).ok()?;
        Some(Self {
            id: row["id"].as_i64()?,
            session,
            code: row["code"].as_str()?.to_owned(),
            until: Time::from_jiff(row["expires_at"].as_str()?.parse().ok()?),
            doors: doors.into_iter().map(|way| (way.channel, way.who, way.link)).collect(),
        })
    }

    /// Returns what its picture says: the first link, otherwise the code.
    pub(super) fn pictured(&self) -> &str {
        self.doors.iter().find_map(|(_, _, link)| link.as_deref()).unwrap_or(&self.code)
    }
}

/// The newest codes, of all sessions.
#[derive(Default)]
pub(super) struct Codes(Mutex<VecDeque<Code>>);

impl Codes {
    pub(super) fn keep(&self, code: Code) {
        let mut kept = self.0.locked();
        kept.push_back(code);
        // The store knows no more of them.
        if i64::try_from(kept.len()).unwrap_or(i64::MAX) > KEPT {
            kept.pop_front();
        }
    }

    /// Returns a code to the session that it is for, while it is good.
    pub(super) fn get(&self, session: i64, id: i64, now: Time) -> Option<Code> {
        let mut kept = self.0.locked();
        kept.retain(|code| now < code.until);
        kept.iter().find(|code| code.id == id && code.session == session).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_shown_to_its_session_alone_and_only_while_it_is_good() {
        let codes = Codes::default();
        let row = serde_json::json!({"id": 3, "code": "K7QM-2XPD", "expires_at": "2026-01-01T00:10:00Z", "doors": [
            {"channel": "matrix", "who": "matrix", "link": null},
            {"channel": "telegram", "who": "@andy_bot", "link": "https://t.me/andy_bot?start=K7QM-2XPD"}]});
        let code = Code::of(&row, 1).unwrap();
        assert_eq!(code.pictured(), "https://t.me/andy_bot?start=K7QM-2XPD");
        codes.keep(code.clone());
        let at = |text: &str| Time::from_jiff(text.parse().unwrap());
        assert_eq!(codes.get(1, 3, at("2026-01-01T00:09:59Z")), Some(code));
        assert_eq!(codes.get(2, 3, at("2026-01-01T00:09:59Z")), None);
        assert_eq!(codes.get(1, 3, at("2026-01-01T00:10:00Z")), None);
        // It is forgotten then, whatever the clock says later.
        assert_eq!(codes.get(1, 3, at("2026-01-01T00:09:59Z")), None);
        assert_eq!(Code::of(&serde_json::json!({"id": 3}), 1), None);
    }
}
