//! All rows of a store, read out a page at a time, as they move.

use ipc_handlers::Time;
use rusqlite::{Connection, Row as Found};

use crate::{
    domain::moved::rows::{
        Approval, Archive, Audit, Chat, Fate, File, Group, Heard, Host, Keyed, Kind, Lane, Mark, Member,
        Message, Reply, Role, Row, Run, Said, Task, Text, Usage, User, Wiring,
    },
    store::{Result, Store, columns::Columns as _},
};

/// Rows of one kind, and where the next ones begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub rows: Vec<Keyed>,
    /// `None`: there are no more.
    pub next: Option<i64>,
}

/// As many rows are in a page, about.
const PAGE: i64 = 500;
/// The error of a run that is under way.
const UNDER_WAY: &str = "it was under way when it was exported";

impl Store {
    /// Returns rows of a kind, those after `after`; 0: the first ones. Of kinds that are no rows of the store there are none.
    pub async fn move_out(&self, kind: Kind, after: i64, now: Time) -> Result<Page> {
        self.ask(move |c| {
            let numbered = match kind {
                Kind::Group => groups(c, after)?,
                Kind::Chat => page(c, "SELECT rowid AS number, * FROM chats WHERE rowid > ?1 ORDER BY rowid LIMIT ?2", after, chat)?,
                Kind::Wiring => page(c, "SELECT id AS number, * FROM wirings WHERE id > ?1 ORDER BY id LIMIT ?2", after, wiring)?,
                Kind::User => page(c, "SELECT rowid AS number, * FROM users WHERE rowid > ?1 ORDER BY rowid LIMIT ?2", after, user)?,
                Kind::Role => page(c, "SELECT rowid AS number, * FROM roles WHERE rowid > ?1 ORDER BY rowid LIMIT ?2", after, role)?,
                Kind::Member => page(
                    c,
                    "SELECT * FROM (SELECT row_number() OVER (ORDER BY user_id, group_folder) AS number, * FROM members) WHERE number > ?1 ORDER BY number LIMIT ?2",
                    after,
                    member,
                )?,
                Kind::Approval => page(c, "SELECT id AS number, * FROM approvals WHERE id > ?1 AND decision IS NOT NULL ORDER BY id LIMIT ?2", after, approval)?,
                Kind::Message => messages(c, after)?,
                Kind::Mark => page(c, "SELECT id AS number, * FROM message_marks WHERE id > ?1 ORDER BY id LIMIT ?2", after, mark)?,
                Kind::Text => texts(c, after)?,
                Kind::Lane => page(
                    c,
                    "SELECT l.id AS number, l.group_folder, l.chat_jid, l.thread, l.sticky_at, s.session_id, s.active_at
                     FROM lanes l LEFT JOIN sessions s ON s.lane_id = l.id WHERE l.id > ?1 ORDER BY l.id LIMIT ?2",
                    after,
                    lane,
                )?,
                Kind::Archive => page(c, "SELECT id AS number, * FROM archives WHERE id > ?1 ORDER BY id LIMIT min(?2, 50)", after, archive)?,
                Kind::Task => page(c, "SELECT n AS number, * FROM tasks WHERE n > ?1 ORDER BY n LIMIT ?2", after, task)?,
                Kind::Run => page(c, "SELECT id AS number, * FROM runs WHERE id > ?1 ORDER BY id LIMIT ?2", after, |r| run(r, now))?,
                Kind::Usage => page(
                    c,
                    "SELECT run_id AS number, * FROM usage WHERE run_id > ?1
                       AND run_id <= (SELECT max(run_id) FROM (SELECT DISTINCT run_id FROM usage WHERE run_id > ?1 ORDER BY run_id LIMIT ?2))
                     ORDER BY run_id, model, quarter",
                    after,
                    usage,
                )?,
                Kind::Audit => page(c, "SELECT id AS number, * FROM audit WHERE id > ?1 ORDER BY id LIMIT ?2", after, audit)?,
                Kind::Setting | Kind::Secret | Kind::List | Kind::File | Kind::Source => Vec::new(),
            };
            let next = numbered.last().map(|(number, _)| *number);
            Ok(Page { rows: numbered.into_iter().map(|(_, row)| row).collect(), next })
        })
        .await
    }
}

type Numbered = Vec<(i64, Keyed)>;

fn page(
    c: &Connection,
    sql: &str,
    after: i64,
    read: impl Fn(&Found<'_>) -> rusqlite::Result<(String, Row)>,
) -> Result<Numbered> {
    let mut all = c.prepare_cached(sql)?;
    let count = all.parameter_count();
    let values: [&dyn rusqlite::ToSql; 2] = [&after, &PAGE];
    let rows = all.query_map(&values[..count], |r| {
        let (key, row) = read(r)?;
        Ok((r.get("number")?, Keyed { key, row }))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn number(r: &Found<'_>) -> rusqlite::Result<String> {
    Ok(r.get::<_, i64>("number")?.to_string())
}

fn groups(c: &Connection, after: i64) -> Result<Numbered> {
    let sql = "SELECT rowid AS number, * FROM groups WHERE rowid > ?1 ORDER BY rowid LIMIT ?2";
    let mut groups = page(c, sql, after, |r| {
        let folder = r.folder("folder")?;
        let group = Group {
            folder: folder.clone(),
            name: r.get("name")?,
            is_main: r.get("is_main")?,
            trigger: r.get("trigger")?,
            provider: r.get("provider")?,
            script: r.get("script")?,
            image: r.get("image")?,
            config: r.json("groups", "config")?,
            hosts: Vec::new(),
            created_at: r.time("created_at")?,
        };
        Ok((folder.to_string(), Row::Group(group)))
    })?;
    let mut rules =
        c.prepare_cached("SELECT host, verdict, at FROM egress_rules WHERE group_folder = ?1 ORDER BY host")?;
    for (_, keyed) in &mut groups {
        let Row::Group(group) = &mut keyed.row else { continue };
        let rules = rules.query_map([group.folder.as_str()], |r| {
            Ok(Host {
                host: r.get("host")?,
                allowed: r.get_ref("verdict")?.as_str()? == "allow",
                at: r.time("at")?,
            })
        })?;
        group.hosts = rules.collect::<rusqlite::Result<_>>()?;
    }
    Ok(groups)
}

fn chat(r: &Found<'_>) -> rusqlite::Result<(String, Row)> {
    let jid: String = r.get("jid")?;
    let chat = Chat {
        jid: jid.clone(),
        channel: r.get("channel")?,
        name: r.get("name")?,
        kind: r.word("chats", "kind")?,
        unknown_senders: r.word("chats", "unknown_sender_policy")?,
        threaded: r.get("threaded")?,
        members: r.get("members")?,
        alias_of: r.get("alias_of")?,
        wired_before: r.get("wired_before")?,
        created_at: r.time("created_at")?,
    };
    Ok((jid, Row::Chat(chat)))
}

fn wiring(r: &Found<'_>) -> rusqlite::Result<(String, Row)> {
    let wiring = Wiring {
        group: r.folder("group_folder")?,
        chat: r.get("chat_jid")?,
        engage_mode: r.word("wirings", "engage_mode")?,
        engage_pattern: r.get("engage_pattern")?,
        sender_scope: r.word("wirings", "sender_scope")?,
        ignored_messages: r.word("wirings", "ignored_message_policy")?,
        trigger: r.get("trigger")?,
        created_at: r.time("created_at")?,
    };
    Ok((number(r)?, Row::Wiring(wiring)))
}

fn user(r: &Found<'_>) -> rusqlite::Result<(String, Row)> {
    let id: String = r.get("id")?;
    let user = User {
        id: id.clone(),
        name: r.get("name")?,
        dm_chat: r.get("dm_chat")?,
        created_at: r.time("created_at")?,
    };
    Ok((id, Row::User(user)))
}

fn role(r: &Found<'_>) -> rusqlite::Result<(String, Row)> {
    let group: Option<String> = r.get("group_folder")?;
    let role = Role {
        user: r.get("user_id")?,
        role: r.word("roles", "role")?,
        group: group.map(|_| r.folder("group_folder")).transpose()?,
        granted_by: r.get("granted_by")?,
        granted_at: r.time("granted_at")?,
    };
    // A number is another role's once this one is revoked.
    let key =
        format!("{} {} {}", role.role, role.group.as_ref().map_or("", |group| group.as_str()), role.user);
    Ok((key, Row::Role(role)))
}

fn member(r: &Found<'_>) -> rusqlite::Result<(String, Row)> {
    let member = Member {
        user: r.get("user_id")?,
        group: r.folder("group_folder")?,
        added_by: r.get("added_by")?,
        added_at: r.time("added_at")?,
    };
    Ok((format!("{} {}", member.group, member.user), Row::Member(member)))
}

fn approval(r: &Found<'_>) -> rusqlite::Result<(String, Row)> {
    let approval = Approval {
        about: r.word("approvals", "kind")?,
        chat: r.get("chat_jid")?,
        sender: r.get("sender")?,
        sender_name: r.get("sender_name")?,
        approver: r.get("approver")?,
        card_chat: r.get("card_chat")?,
        yes: r.get_ref("state")?.as_str()? == "approved",
        group: r.get("decided_group")?,
        decision: r.get("decision")?,
        decided_by: r.get("decided_by")?,
        created_at: r.time("created_at")?,
        decided_at: r.time("decided_at")?,
        expires_at: r.time("expires_at")?,
    };
    Ok((number(r)?, Row::Approval(approval)))
}

fn messages(c: &Connection, after: i64) -> Result<Numbered> {
    let sql = "SELECT seq AS number, * FROM messages WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    let mut messages = page(c, sql, after, |r| Ok((number(r)?, Row::Message(Box::new(message(r)?)))))?;
    // A batch in hand, or one that came back, is not answered.
    let mut inbox = c.prepare_cached(
        "SELECT l.group_folder, i.verdict, i.rule, i.reason, i.n <= l.cursor AS given,
                EXISTS (SELECT 1 FROM batches b WHERE b.lane_id = i.lane_id AND i.n BETWEEN b.first AND b.last
                        AND (b.state = 'handed' OR b.state = 'claimed' OR b.state = 'returned')) AS in_hand
         FROM inbox i JOIN lanes l ON l.id = i.lane_id WHERE i.seq = ?1 ORDER BY i.n",
    )?;
    for (seq, keyed) in &mut messages {
        let Row::Message(message) = &mut keyed.row else { continue };
        message.files = files(c, "seq", *seq)?;
        message.heard = inbox.query_map([*seq], heard)?.collect::<rusqlite::Result<_>>()?;
    }
    Ok(messages)
}

fn message(r: &Found<'_>) -> rusqlite::Result<Message> {
    let reply = Reply {
        id: r.get("reply_to_id")?,
        text: r.get("reply_to_text")?,
        sender: r.get("reply_to_sender")?,
        own: r.get("reply_to_self")?,
        quote: r.get("reply_to_quote")?,
        kind: r.word_or_null("messages", "reply_to_kind")?,
        chat: r.get("reply_to_chat")?,
    };
    Ok(Message {
        chat: r.get("chat_jid")?,
        replay_key: r.get("replay_key")?,
        id: r.get("id")?,
        thread: r.get("thread")?,
        sender: r.get("sender")?,
        sender_name: r.get("sender_name")?,
        text: r.get("text")?,
        title: r.get("title")?,
        at: r.time_or_null("at")?,
        received_at: r.time("received_at")?,
        from_me: r.get("from_me")?,
        bot: r.get("bot")?,
        mentioned: r.get("mentioned")?,
        late: r.get("late")?,
        reply: Some(reply).filter(|reply| *reply != Reply::default()),
        origin: r.word_or_null("messages", "origin")?,
        forwarded_from: r.get("forwarded_from")?,
        comment: r.get("comment")?,
        edited_at: r.time_or_null("edited_at")?,
        files: Vec::new(),
        heard: Vec::new(),
    })
}

fn heard(r: &Found<'_>) -> rusqlite::Result<Heard> {
    let (rule, reason): (Option<String>, Option<String>) = (r.get("rule")?, r.get("reason")?);
    let (given, in_hand): (bool, bool) = (r.get("given")?, r.get("in_hand")?);
    let fate = match r.get_ref("verdict")?.as_str_or_null()? {
        Some("wake") if given && !in_hand => Fate::Answered,
        Some("context") if given => Fate::Given,
        Some("context") => Fate::Kept,
        Some("ignore") if rule.as_deref() != Some("restored") => Fate::Ignored,
        _ => Fate::Waits,
    };
    let told = fate != Fate::Waits;
    Ok(Heard {
        group: r.folder("group_folder")?,
        fate,
        rule: rule.filter(|_| told),
        reason: reason.filter(|_| told),
    })
}

/// Files beside a message or a text, by the column that names it.
fn files(c: &Connection, column: &str, row: i64) -> Result<Vec<File>> {
    let mut files = c.prepare_cached(&format!(
        "SELECT name, kind, type, size, lower(hex(digest)) AS digest, problem, caption, seconds, words FROM attachments WHERE {column} = ?1 ORDER BY n"
    ))?;
    let files = files.query_map([row], |r| {
        // Without a file, there are no digits.
        let digest: Option<String> =
            r.get::<_, Option<String>>("digest")?.filter(|digest| digest.len() == 64);
        Ok(File {
            name: r.get("name")?,
            kind: r.word("attachments", "kind")?,
            mime: r.get("type")?,
            size: r.get("size")?,
            path: digest.map(|digest| format!("{}/{digest}", &digest[..2])),
            problem: r.get("problem")?,
            caption: r.get("caption")?,
            seconds: r.get("seconds")?,
            words: r.get("words")?,
        })
    })?;
    Ok(files.collect::<rusqlite::Result<_>>()?)
}

fn mark(r: &Found<'_>) -> rusqlite::Result<(String, Row)> {
    let mark = Mark {
        chat: r.get("chat_jid")?,
        replay_key: r.get("replay_key")?,
        message_id: r.get("message_id")?,
        act: r.word("message_marks", "kind")?,
        sender: r.get("sender")?,
        reaction: r.get("reaction")?,
        at: r.time("at")?,
    };
    Ok((number(r)?, Row::Mark(mark)))
}

fn texts(c: &Connection, after: i64) -> Result<Numbered> {
    let sql = "SELECT id AS number, * FROM outbox WHERE id > ?1 ORDER BY id LIMIT ?2";
    let mut texts = page(c, sql, after, |r| Ok((number(r)?, Row::Text(Box::new(text(r)?)))))?;
    let mut ids = c.prepare_cached(
        "SELECT platform_id FROM (SELECT 0 AS more, part, platform_id FROM outbox_parts WHERE outbox_id = ?1 AND platform_id IS NOT NULL
           UNION ALL SELECT 1, 0, platform_id FROM outbox_more_ids WHERE outbox_id = ?1) ORDER BY more, part, platform_id",
    )?;
    for (id, keyed) in &mut texts {
        let Row::Text(text) = &mut keyed.row else { continue };
        text.files = files(c, "outbox_id", *id)?;
        if text.state == Said::Sent {
            text.ids = ids.query_map([*id], |r| r.get("platform_id"))?.collect::<rusqlite::Result<_>>()?;
            // The first is the one that answers name; the others have no order.
            if let Some((_, others)) = text.ids.split_first_mut() {
                others.sort();
            }
        }
    }
    Ok(texts)
}

fn text(r: &Found<'_>) -> rusqlite::Result<Text> {
    let held_back: bool = r.get("held_back")?;
    let state = match r.get_ref("status")?.as_str()? {
        "sent" => Said::Sent,
        "failed" if !held_back => Said::Failed,
        _ => Said::Unsent,
    };
    let group: Option<String> = r.get("group_folder")?;
    Ok(Text {
        chat: r.get("chat_jid")?,
        thread: r.get("thread")?,
        group: group.map(|_| r.folder("group_folder")).transpose()?,
        text: r.get("text")?,
        sender: r.get("sender")?,
        reply_to: r.get("reply_to")?,
        state,
        cause: r.get("cause")?,
        run: r.get::<_, Option<i64>>("run_id")?.map(|run| run.to_string()),
        created_at: r.time("created_at")?,
        sent_at: r.time_or_null("sent_at")?,
        error: r.get::<_, Option<String>>("error")?.filter(|_| state != Said::Unsent),
        ids: Vec::new(),
        files: Vec::new(),
    })
}

fn lane(r: &Found<'_>) -> rusqlite::Result<(String, Row)> {
    let session: Option<String> = r.get("session_id")?;
    let lane = Lane {
        group: r.folder("group_folder")?,
        chat: r.get("chat_jid")?,
        thread: r.get("thread")?,
        sticky_at: r.time_or_null("sticky_at")?,
        active_at: r.time_or_null("active_at")?.filter(|_| session.is_some()),
        session,
    };
    Ok((number(r)?, Row::Lane(lane)))
}

fn archive(r: &Found<'_>) -> rusqlite::Result<(String, Row)> {
    let archive = Archive {
        group: r.folder("group_folder")?,
        session: r.get("session_id")?,
        name: r.get("name")?,
        content: r.get("content")?,
        archived_at: r.time("archived_at")?,
    };
    Ok((number(r)?, Row::Archive(archive)))
}

fn task(r: &Found<'_>) -> rusqlite::Result<(String, Row)> {
    let task = Task {
        id: r.get("id")?,
        group: r.folder("group_folder")?,
        chat: r.get("chat_jid")?,
        prompt: r.get("prompt")?,
        script: r.get("script")?,
        schedule_type: r.word("tasks", "schedule_type")?,
        schedule_value: r.get("schedule_value")?,
        context_mode: r.word("tasks", "context_mode")?,
        catch_up: r.word("tasks", "catch_up")?,
        catch_up_window_ms: r.get("catch_up_window_ms")?,
        output: r.word("tasks", "output")?,
        status: r.word("tasks", "status")?,
        origin: r.word("tasks", "origin")?,
        next_run: r.time_or_null("next_run")?,
        last_run: r.time_or_null("last_run")?,
        last_result: r.get("last_result")?,
        paused_for: r.get("paused_for")?,
        created_at: r.time("created_at")?,
    };
    Ok((number(r)?, Row::Task(Box::new(task))))
}

fn run(r: &Found<'_>, now: Time) -> rusqlite::Result<(String, Row)> {
    use crate::domain::states::RunStatus;
    let status: RunStatus = r.word("runs", "status")?;
    let run = Run {
        group: r.folder("group_folder")?,
        chat: r.get("chat_jid")?,
        thread: r.get("thread")?,
        kind: r.word("runs", "kind")?,
        task: r.get("for_task")?,
        slot: r.time_or_null("slot")?,
        attempt: r.get("attempt")?,
        status: if status.is_over() { status } else { RunStatus::Cancelled },
        sandbox: r.word("runs", "sandbox")?,
        created_at: r.time("created_at")?,
        started_at: r.time_or_null("started_at")?,
        ended_at: r.time_or_null("ended_at")?.unwrap_or(now),
        error: if status.is_over() { r.get("error")? } else { Some(UNDER_WAY.to_owned()) },
        result: r.get("result")?,
    };
    Ok((number(r)?, Row::Run(Box::new(run))))
}

fn usage(r: &Found<'_>) -> rusqlite::Result<(String, Row)> {
    let usage = Usage {
        run: number(r)?,
        group: r.folder("group_folder")?,
        model: r.get("model")?,
        quarter: r.time("quarter")?,
        requests: r.get("requests")?,
        errors: r.get("errors")?,
        refused: r.get("refused")?,
        input_tokens: r.get("input_tokens")?,
        cache_creation_tokens: r.get("cache_creation_tokens")?,
        cache_read_tokens: r.get("cache_read_tokens")?,
        output_tokens: r.get("output_tokens")?,
    };
    Ok((format!("{} {} {}", usage.run, usage.quarter, usage.model), Row::Usage(usage)))
}

fn audit(r: &Found<'_>) -> rusqlite::Result<(String, Row)> {
    let audit = Audit {
        at: r.time("at")?,
        origin: r.get("origin")?,
        who: r.get("who")?,
        what: r.get("what")?,
        step: r.get("step")?,
        why: r.get("why")?,
    };
    Ok((number(r)?, Row::Audit(audit)))
}
