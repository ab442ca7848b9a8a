//! What an answer brings about.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, params};

use super::{
    ApprovalKind, Asking, OpenApproval, US,
    ask::speak,
    decide::{Decided, How, Pick, decide},
    end::give_up,
    note, place,
    senders::ask_again,
};
use crate::domain::heard::{
    approvals::{
        Action, Rights, State,
        name::{BadName, new_agent},
        wording,
    },
    chat_commands::told::plain,
    engage::{ChatKind, Engages, default_for},
};
use crate::store::{
    NewGroup, Result,
    talk::{
        groups::{check_room, insert_group, leaves, names, wire_by_default},
        messages::replay,
        people,
    },
};

/// One answer that may be given, under way.
pub(super) struct Answer<'a> {
    pub(super) c: &'a Connection,
    pub(super) asking: &'a Asking,
    pub(super) approval: &'a OpenApproval,
    pub(super) by: &'a str,
    pub(super) seq: Option<i64>,
    pub(super) now: Time,
}

impl Answer<'_> {
    /// The groups know the sender, and hear the messages that wait. About messages for groups that the answer is not good for, a new
    /// question is asked.
    pub(super) fn allow(&self, rights: &Rights, groups: &[Folder]) -> Result<Decided> {
        let OpenApproval { id, sender, sender_name, .. } = self.approval;
        if groups.is_empty() {
            return self.nothing_left();
        }
        let mine: Vec<&Folder> = groups.iter().filter(|group| rights.over(group)).collect();
        for group in &mine {
            people::add_member(self.c, sender, sender_name, group, self.by, self.now)?;
        }
        self.close(State::Approved, &Action::Allow)?;
        for (seq, group) in self.waiting()? {
            if let Some(group) = mine.iter().find(|mine| mine.as_str() == group) {
                self.replay(group, seq)?;
            }
        }
        self.leave_to_others(rights, groups)?;
        let names: Vec<String> = mine.iter().map(|group| self.name_of(group)).collect::<Result<_>>()?;
        let who = wording::named(sender, sender_name);
        let says = format!(
            "Allowed by {}: {} knows {who} from now on (question #{id}).",
            self.by,
            wording::list(&names)
        );
        Ok(Decided::of(How::Done, says))
    }

    /// The groups that a sender was to be heard by were removed: nobody is admitted, and nobody need answer any more.
    fn nothing_left(&self) -> Result<Decided> {
        let OpenApproval { id, sender, sender_name, .. } = self.approval;
        self.c
            .prepare_cached(
                "UPDATE approvals SET state = 'expired', decided_at = ?2, decided_by = ?3, naming = NULL WHERE id = ?1",
            )?
            .execute(params![id, self.now.0, self.by])?;
        let why = format!("every group that question {id} was about was removed");
        note(self.c, *id, self.by, "settled", &why, self.seq, self.now)?;
        give_up(self.c, *id, &why, None, self.now)?;
        let who = wording::named(sender, sender_name);
        Ok(Decided::of(
            How::Late,
            format!("Question #{id} is closed, and {who} is not allowed anything: {why}."),
        ))
    }

    pub(super) fn deny(&self, action: &Action, rights: &Rights, groups: &[Folder]) -> Result<Decided> {
        let OpenApproval { id, kind, sender, sender_name, chat, .. } = self.approval;
        self.close(State::Denied, action)?;
        self.leave_to_others(rights, groups)?;
        give_up(self.c, *id, &format!("{} said no (question {id})", self.by), None, self.now)?;
        let (what, whom) = match kind {
            ApprovalKind::Sender => ("Denied", wording::named(sender, sender_name)),
            ApprovalKind::Channel => ("Ignored", wording::named(chat, &place(self.c, chat)?.0)),
        };
        Ok(Decided::of(How::Done, format!("{what} by {}: {whom} (question #{id}).", self.by)))
    }

    pub(super) fn connect(&self, group: &Folder) -> Result<Decided> {
        let OpenApproval { id, sender, sender_name, chat, .. } = self.approval;
        let Some(name) = self.find_name(group)? else {
            return Ok(Decided::of(
                How::Not,
                format!("there is no group {group} any more; question #{id} stays open"),
            ));
        };
        let kind = wire_by_default(self.c, group, chat, self.now)?;
        if !sender.is_empty() {
            people::add_member(self.c, sender, sender_name, group, self.by, self.now)?;
        }
        self.close(State::Approved, &Action::Connect(group.clone()))?;
        for (seq, _) in self.waiting()? {
            self.replay(group, seq)?;
        }
        let place = wording::named(chat, &place(self.c, chat)?.0);
        let says = format!(
            "Connected by {}: {name} answers in {place} {} (question #{id}).",
            self.by,
            when_it_answers(kind)
        );
        Ok(Decided::of(How::Done, says))
    }

    /// Makes a group of this name, and connects it.
    pub(super) fn make(&self, name: &str) -> Result<Decided> {
        let groups = names(self.c)?;
        let (name, folder) = match new_agent(name, &groups) {
            Ok(made) => made,
            Err(bad) => return Ok(Decided::of(How::Not, bad_name(&bad))),
        };
        if let Err(full) = check_room(self.c, self.asking.groups)? {
            return Ok(Decided::of(
                How::Not,
                format!("{}. Question #{} stays open.", plain(&full.to_string()), self.approval.id),
            ));
        }
        if leaves(self.c, &folder)? {
            let says = format!(
                "An earlier group {folder} is being removed; try again in a minute. Question #{} stays open.",
                self.approval.id
            );
            return Ok(Decided::of(How::Not, says));
        }
        let group =
            NewGroup { folder: folder.clone(), name, is_main: false, trigger: self.asking.trigger.clone() };
        insert_group(self.c, &group, self.asking.groups, self.now)?;
        note(self.c, self.approval.id, self.by, "made a group", folder.as_str(), self.seq, self.now)?;
        Ok(Decided { made: Some(folder.clone()), ..self.connect(&folder)? })
    }

    /// Asks for the new group's name, in the card's chat. Of one person's requests there the newest counts.
    pub(super) fn ask_for_name(&self) -> Result<Decided> {
        let OpenApproval { id, card_chat, .. } = self.approval;
        if card_chat.is_empty() {
            let says = format!("say the name of the new agent: `g2 approvals approve {id} --new NAME`");
            return Ok(Decided::of(How::Not, says));
        }
        self.c
            .prepare_cached("UPDATE approvals SET naming = NULL WHERE naming = ?1 AND card_chat = ?2 AND state = 'pending'")?
            .execute([self.by, card_chat])?;
        let says =
            format!("What is the new agent to be called? Answer with its name, or cancel (question #{id}).");
        self.prompt_for_name(&says)?;
        note(self.c, *id, self.by, "asked for a name", "", self.seq, self.now)?;
        Ok(Decided::of(How::Done, says))
    }

    fn prompt_for_name(&self, says: &str) -> Result<()> {
        let row = speak(self.c, self.approval.id, &self.approval.card_chat, says, &[], self.now)?;
        // What could not be said before is open again, as somebody has answered it.
        self.c
            .prepare_cached(
                "UPDATE approvals SET state = 'pending', decided_at = NULL, naming = ?2, card = ?3 WHERE id = ?1",
            )?
            .execute(params![self.approval.id, self.by, row])?;
        Ok(())
    }

    /// Messages for groups that the answer does not cover are asked about anew, of somebody else.
    fn leave_to_others(&self, rights: &Rights, groups: &[Folder]) -> Result<()> {
        let mut left = Vec::new();
        for group in groups.iter().filter(|group| !rights.over(group)) {
            let taken: Vec<i64> = self
                .c
                .prepare_cached("DELETE FROM approval_messages WHERE approval_id = ?1 AND group_folder = ?2 RETURNING seq")?
                .query_map(params![self.approval.id, group.as_str()], |r| r.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            left.extend(taken.into_iter().map(|seq| (seq, group.clone())));
        }
        if !left.is_empty() {
            ask_again(self.c, self.asking, self.approval, &left, self.now)?;
        }
        Ok(())
    }

    fn close(&self, state: State, action: &Action) -> Result<()> {
        let (decision, group) = (action.decision().as_str(), action.group().map(Folder::as_str));
        self.c
            .prepare_cached(
                "UPDATE approvals SET state = ?2, decided_at = ?3, decided_by = ?4, decision = ?5, decided_group = ?6, naming = NULL WHERE id = ?1",
            )?
            .execute(params![self.approval.id, state.as_str(), self.now.0, self.by, decision, group])?;
        note(self.c, self.approval.id, self.by, state.as_str(), &action.name(), self.seq, self.now)
    }

    /// What waits, oldest first.
    fn waiting(&self) -> Result<Vec<(i64, String)>> {
        let mut all = self.c.prepare_cached(
            "SELECT seq, group_folder FROM approval_messages WHERE approval_id = ?1 ORDER BY seq, group_folder",
        )?;
        Ok(all
            .query_map([self.approval.id], |r| Ok((r.get("seq")?, r.get("group_folder")?)))?
            .collect::<rusqlite::Result<_>>()?)
    }

    fn replay(&self, group: &Folder, seq: i64) -> Result<()> {
        let thread: String = self
            .c
            .prepare_cached("SELECT thread FROM messages WHERE seq = ?1")?
            .query_row([seq], |r| r.get(0))?;
        let wired: bool = self
            .c
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM wirings WHERE group_folder = ?1 AND chat_jid = ?2)",
            )?
            .query_row([group.as_str(), &self.approval.chat], |r| r.get(0))?;
        if !wired {
            let detail = format!("group {group} is not wired to the chat any more");
            return note(self.c, self.approval.id, US, "not replayed", &detail, Some(seq), self.now);
        }
        replay(self.c, group, &self.approval.chat, &thread, seq)
    }

    fn find_name(&self, group: &Folder) -> Result<Option<String>> {
        let mut name = self.c.prepare_cached("SELECT name FROM groups WHERE folder = ?1")?;
        Ok(name.query_map([group.as_str()], |r| r.get(0))?.next().transpose()?)
    }

    fn name_of(&self, group: &Folder) -> Result<String> {
        Ok(self.find_name(group)?.unwrap_or_else(|| group.to_string()))
    }
}

/// Takes in the name that was asked for. A text that is none is asked for again.
pub(super) fn named(
    c: &Connection,
    asking: &Asking,
    approval: &OpenApproval,
    name: &str,
    by: &str,
    seq: i64,
    now: Time,
) -> Result<Decided> {
    let decided = decide(c, asking, approval.id, &Pick::New(name.to_owned()), by, Some(seq), now)?;
    if decided.how == How::Not {
        let answer = Answer { c, asking, approval, by, seq: Some(seq), now };
        answer.prompt_for_name(&format!("{} Answer with another name, or cancel.", decided.says))?;
    }
    Ok(decided)
}

fn bad_name(bad: &BadName) -> String {
    format!("That is no name for a new agent: {bad}.")
}

fn when_it_answers(kind: ChatKind) -> &'static str {
    match default_for(kind).0 {
        Engages::Pattern(_) => "to every message",
        Engages::Mention => "when it is mentioned",
        Engages::MentionSticky => "when it is mentioned, and then in that thread",
    }
}
