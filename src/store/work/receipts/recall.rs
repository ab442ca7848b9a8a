//! What was read for a command, for those after it in the same transaction: nobody else writes meanwhile, and what an effect may
//! change is read anew after it.

use ipc_handlers::{Caller, Effect, Folder, RunSeat, facts::ChatFacts};
use rusqlite::{Connection, OptionalExtension};

use crate::domain::time::zone::{Zone, Zones};
use crate::store::{
    Result,
    talk::{chats, groups},
    work::by_hand,
};

/// What was read last, of each kind one.
#[derive(Default)]
pub(super) struct Recall {
    /// No receipt and no decision of a person is about a later claim.
    newest: Option<i64>,
    is_main: Last<Folder, Option<bool>>,
    begun_after: Last<Folder, i64>,
    seat: Last<i64, Option<RunSeat>>,
    chat: Last<String, Option<ChatFacts>>,
    own_chats: Last<Folder, Vec<String>>,
    zone: Last<Folder, Zone>,
    /// The audit has as many changes of it as it keeps of one group in a day.
    told_enough_of: Option<Folder>,
}

impl Recall {
    /// Whether a claim may have a receipt, or a decision of a person.
    pub(super) fn may_know(&mut self, c: &Connection, claim: i64) -> Result<bool> {
        let newest = match self.newest {
            Some(newest) => newest,
            None => by_hand::last_claim(c)?,
        };
        self.newest = Some(newest);
        Ok(claim <= newest)
    }

    /// Takes in that a claim has a receipt now.
    pub(super) fn kept(&mut self, claim: i64) {
        self.newest = self.newest.map(|newest| newest.max(claim));
    }

    /// Returns whether a group is the main one; `None`: there is no such group.
    pub(super) fn is_main(&mut self, c: &Connection, group: &Folder) -> Result<Option<bool>> {
        self.is_main.of(group, || groups::is_main(c, group))
    }

    /// Returns the last claim of the earlier groups of a group's name.
    pub(super) fn begun_after(&mut self, c: &Connection, group: &Folder) -> Result<i64> {
        self.begun_after.of(group, || by_hand::begun_after(c, group))
    }

    /// Returns the place of a run; `None`: it has none.
    pub(super) fn seat(&mut self, c: &Connection, run: i64) -> Result<Option<RunSeat>> {
        self.seat.of(&run, || {
            Ok(c.prepare_cached("SELECT lane_id, chat_jid FROM runs WHERE id = ?1")?
                .query_row([run], |r| {
                    Ok((r.get::<_, Option<i64>>("lane_id")?, r.get::<_, String>("chat_jid")?))
                })
                .optional()?
                .and_then(|(lane, chat_jid)| lane.map(|lane| RunSeat { run, lane, chat_jid })))
        })
    }

    /// Returns a chat with the groups that it is wired to; `None`: there is no such chat.
    pub(super) fn chat(&mut self, c: &Connection, jid: String) -> Result<Option<ChatFacts>> {
        self.chat.of(&jid, || {
            Ok(match chats::is_known(c, &jid)? {
                true => Some(ChatFacts { groups: groups::groups_of(c, &jid)?, jid: jid.clone() }),
                false => None,
            })
        })
    }

    /// Returns the chats of the caller's group.
    pub(super) fn own_chats(&mut self, c: &Connection, caller: &Caller) -> Result<Vec<String>> {
        self.own_chats.of(&caller.group, || groups::chats_of(c, &caller.group))
    }

    /// Returns the zone of a group.
    pub(super) fn zone(&mut self, c: &Connection, group: &Folder, zones: &Zones) -> Result<Zone> {
        self.zone.of(group, || groups::zone_of(c, group, zones))
    }

    /// Whether the audit may be told what a group changed.
    pub(super) fn tells_changes_of(&self, group: &Folder) -> bool {
        self.told_enough_of.as_ref() != Some(group)
    }

    /// Takes in that the audit is told no more changes of a group.
    pub(super) fn told_enough_of(&mut self, group: &Folder) {
        self.told_enough_of = Some(group.clone());
    }

    /// Forgets what an effect may have changed.
    pub(super) fn after(&mut self, effect: &Effect) {
        match effect {
            Effect::RegisterGroup(_) => self.forget(),
            Effect::Say { .. }
            | Effect::Ask { .. }
            | Effect::CreateTask(_)
            | Effect::ListTasks { .. }
            | Effect::ChangeTask { .. }
            | Effect::CancelTask { .. }
            | Effect::ListGroups
            | Effect::ClearSession { .. }
            | Effect::ResumeSession { .. }
            | Effect::SearchSessions { .. }
            | Effect::ArchiveSession { .. } => {}
        }
    }

    /// Forgets all.
    fn forget(&mut self) {
        *self = Self::default();
    }
}

/// The value of the key that was asked for last.
struct Last<K, V>(Option<(K, V)>);

impl<K, V> Default for Last<K, V> {
    fn default() -> Self {
        Self(None)
    }
}

impl<K: Clone + PartialEq, V: Clone> Last<K, V> {
    fn of(&mut self, key: &K, read: impl FnOnce() -> Result<V>) -> Result<V> {
        if let Some((known, value)) = &self.0
            && known == key
        {
            return Ok(value.clone());
        }
        let value = read()?;
        self.0 = Some((key.clone(), value.clone()));
        Ok(value)
    }
}
