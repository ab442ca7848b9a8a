//! Old history that is removed, and rows that are kept at any age.

use g2::domain::states::BatchState;
use std::collections::BTreeMap;

use g2::{
    domain::kept::prune::{DAY_MS, History, Horizon, Keep},
    store::Note,
};

use super::*;

/// A prune 30 days after [`NOW`], at which everything happens here unless it says otherwise.
fn keep() -> Keep {
    after(30 * DAY_MS)
}

fn after(ms: i64) -> Keep {
    Keep {
        horizon: Horizon::new(NOW.plus_ms(ms), 30, 0),
        claimed: Vec::new(),
        origins: Vec::new(),
        groups: BTreeMap::new(),
        working: Vec::new(),
    }
}

impl World {
    /// Removes old history, two rows a step; returns the removed rows. A look alone finds the same.
    async fn prune(&self, keep: &Keep) -> Vec<(History, Vec<i64>)> {
        let mut found = self.store.history(keep).unwrap();
        found.retain(|(_, ids)| !ids.is_empty());
        let removed = self.remove(&History::ALL, keep).await;
        assert_eq!(found, removed, "what a look found, and what was removed");
        removed
    }

    /// Removes old history of these, two rows a step; returns the removed rows.
    async fn remove(&self, these: &[History], keep: &Keep) -> Vec<(History, Vec<i64>)> {
        let mut removed = Vec::new();
        for what in these.iter().copied() {
            let (mut all, mut last) = (Vec::new(), 0);
            loop {
                let ids = self.store.next_history(what, keep, last, 2).unwrap();
                let Some(newest) = ids.last() else { break };
                last = *newest;
                assert_eq!(
                    self.store.remove_history(what, keep.clone(), ids.clone()).await.unwrap(),
                    ids.len()
                );
                all.extend(ids);
            }
            if !all.is_empty() {
                removed.push((what, all));
            }
        }
        removed
    }

    /// A message that was answered by a run that ended.
    async fn answered(&self, chat: &str, key: &str) -> (i64, i64) {
        let seq = self.message(chat, key, key, EngageVerdict::Wake).await;
        let handed = self.start(self.lane()).await;
        self.ready(handed.run).await;
        let answer = say(&format!("to {key}"), &[handed.batch]);
        self.store.record(handed.run, 2, answer, NOW).await.unwrap();
        self.end(handed.run, End::Exited { code: 0, oom: false }, Cause::Closed).await;
        self.deliver(chat).await;
        (seq, handed.run)
    }

    async fn deliver(&self, chat: &str) {
        while let NextDelivery::Now(row) = self.store.begin_delivery(chat, NOW).await.unwrap() {
            self.store.delivered(row.id, 1, row.id.to_string(), NOW).await.unwrap();
        }
    }

    async fn seqs(&self) -> Vec<i64> {
        self.store.messages(None, None).await.unwrap().into_iter().map(|message| message.seq).collect()
    }

    async fn commands(&self, claims: impl IntoIterator<Item = i64>, at: Time) {
        for claim in claims {
            let ask = format!(r#"{{"type":"pause_task","taskId":"{claim}"}}"#);
            let file = command("main", claim, ask.as_bytes());
            self.store.settle(file, Zones::utc(), at).await.unwrap();
        }
    }

    fn claims(&self) -> Vec<i64> {
        let rows = self.store.ipc_rows(&g2::store::IpcFilter::default(), NOW).unwrap();
        rows.into_iter().filter_map(|row| row.id).collect()
    }
}

#[tokio::test]
async fn a_row_of_30_days_is_removed_with_its_dependents_and_one_a_millisecond_younger_is_kept() {
    let world = world().await;
    let (first, run) = world.answered("local:family", "1").await;
    let (last, _) = world.answered("local:family", "2").await;
    assert_eq!(world.prune(&after(30 * DAY_MS - 1)).await, []);
    let removed = world.prune(&keep()).await;
    let expected = [
        (History::Messages, vec![first]),
        (History::Batches, vec![1]),
        (History::Outbox, vec![1]),
        (History::Runs, vec![run]),
    ];
    assert_eq!(removed, expected);
    assert_eq!(world.seqs().await, [last]);
    assert_eq!(world.prune(&keep()).await, [], "nothing is left to do");
}

#[tokio::test]
async fn the_last_word_in_a_chat_stays_with_its_effects() {
    let world = world().await;
    let (seq, _) = world.answered("local:family", "1").await;
    world.commands([1, 2], NOW).await;
    assert_eq!(world.prune(&after(3650 * DAY_MS)).await, [(History::Receipts, vec![1])]);
    let why = world.store.why(seq, NOW).unwrap().unwrap();
    assert_eq!(why.answer, "answered; the answer is sent");
}

#[tokio::test]
async fn a_row_that_becomes_old_during_a_prune_keeps_its_references_until_the_next_one() {
    for passed in 0..=History::ALL.len() {
        let world = world().await;
        let (first, run) = world.answered("local:family", "1").await;
        let (before, after) = History::ALL.split_at(passed);
        assert_eq!(world.remove(before, &keep()).await, [], "it is the last word in its chat");
        let last = world.message("local:family", "2", "x", EngageVerdict::Ignore).await;
        world.remove(after, &keep()).await;
        // What is left of it is told as it was.
        if world.seqs().await.contains(&first) {
            let why = world.store.why(first, NOW).unwrap().unwrap();
            assert_eq!(why.answer, "answered; the answer is sent", "{passed}");
            assert_eq!(world.store.runs(None).unwrap().len(), 1, "{passed}");
        }
        world.prune(&keep()).await;
        assert_eq!(world.seqs().await, [last], "{passed}");
        assert_eq!(world.store.runs_gone(&[run]).unwrap(), [run], "{passed}");
        assert!(world.store.outbox(None, None).await.unwrap().is_empty(), "{passed}");
    }
}

#[tokio::test]
async fn a_persons_last_message_stays_if_only_machines_spoke_since() {
    let world = world().await;
    let chat = "local:family";
    world.message(chat, "1", "a person", EngageVerdict::Ignore).await;
    let person = world.message(chat, "2", "a person", EngageVerdict::Ignore).await;
    for key in ["3", "4"] {
        let bot = Inbound { chat_jid: chat.into(), replay_key: key.into(), bot: true, ..Inbound::default() };
        world.store.accept(bot, NOW).await.unwrap();
    }
    let last = world.message("local:main", "5", "x", EngageVerdict::Ignore).await;
    world.prune(&keep()).await;
    assert_eq!(world.seqs().await, [person, last - 1, last]);
}

#[tokio::test]
async fn a_row_that_somebody_waits_for_is_kept_at_any_age() {
    let world = world().await;
    let returned = world.message("local:main", "returned", "x", EngageVerdict::Wake).await;
    let failed = world.start(world.lane()).await;
    world.end(failed.run, End::Exited { code: 1, oom: false }, Cause::Itself).await;
    let held = world.message("local:family", "held", "x", EngageVerdict::Held).await;
    let ignored = world.message("local:family", "ignored", "x", EngageVerdict::Ignore).await;
    let context = world.message("local:family", "context", "x", EngageVerdict::Context).await;
    let waits = world.message("local:family", "waits", "x", EngageVerdict::Wake).await;
    for chat in ["local:main", "local:family"] {
        world.message(chat, &format!("last of {chat}"), "x", EngageVerdict::Ignore).await;
    }
    let removed = world.prune(&after(3650 * DAY_MS)).await;
    assert_eq!(removed, [(History::Messages, vec![ignored])]);
    let left = world.seqs().await;
    assert!([returned, held, context, waits].iter().all(|seq| left.contains(seq)));
    // The run of the batch that came back is its history too.
    let again = world.start(failed.lane).await;
    assert_eq!(again.batch, failed.batch);
    assert!(world.prompt(again.batch).contains(">x<"));
}

#[tokio::test]
async fn an_agents_open_batch_is_kept_with_the_texts_and_commands_of_its_run() {
    let world = world().await;
    let seq = world.message("local:main", "1", "x", EngageVerdict::Wake).await;
    world.message("local:main", "2", "x", EngageVerdict::Ignore).await;
    let handed = world.start(world.lane()).await;
    world.ready(handed.run).await;
    world.store.record(handed.run, 2, say("wait", &[]), NOW).await.unwrap();
    world.deliver("local:main").await;
    let asked = CommandFile { run: Some(handed.run), ..command("main", 1, br#"{"type":"list_tasks"}"#) };
    world.store.settle(asked, Zones::utc(), NOW).await.unwrap();
    world.commands([2], NOW).await;
    assert_eq!(world.prune(&after(3650 * DAY_MS)).await, []);
    // It said something: the batch is not handed over once more.
    world.end(handed.run, End::Exited { code: 1, oom: false }, Cause::Itself).await;
    assert_eq!(world.store.why(seq, NOW).unwrap().unwrap().wirings[0].batch_state, Some(BatchState::Failed));
}

#[tokio::test]
async fn an_unsent_text_is_kept_with_its_run() {
    let world = world().await;
    let (_, first) = world.answered("local:main", "1").await;
    world.store.tell("local:main".into(), "unsaid".into(), "notice: test".into(), NOW).await.unwrap();
    let NextDelivery::Now(row) = world.store.begin_delivery("local:main", NOW).await.unwrap() else {
        panic!()
    };
    world
        .store
        .delivery_failed(row.id, "away", g2::domain::platforms::channels::Then::GiveUp, None, NOW)
        .await
        .unwrap();
    world.message("local:main", "2", "x", EngageVerdict::Ignore).await;
    let removed: BTreeMap<_, _> =
        world.prune(&keep()).await.into_iter().map(|(what, ids)| (what.name(), ids)).collect();
    assert_eq!((&removed["outbox"], &removed["runs"]), (&vec![1], &vec![first]));
    assert_eq!(world.texts("local:main").await, ["unsaid"]);
    world.store.retry_outbox(row.id).await.unwrap();
}

#[tokio::test]
async fn no_id_is_given_twice() {
    let world = world().await;
    let (_, run) = world.answered("local:family", "1").await;
    world.commands([1, 2, 9], NOW).await;
    let last = world.message("local:family", "2", "x", EngageVerdict::Ignore).await;
    let newest_outbox = world.store.outbox(None, None).await.unwrap().last().unwrap().id;
    world.prune(&keep()).await;
    assert_eq!(world.claims(), [9], "the next claim's id begins after the newest receipt");
    assert_eq!(world.store.last_claim().unwrap(), 9);
    assert!(
        world.store.outbox(None, None).await.unwrap().is_empty()
            && world.store.runs(None).unwrap().is_empty()
    );
    let (seq, next) = world.answered("local:family", "3").await;
    assert!(seq > last && next > run);
    assert!(world.store.outbox(None, None).await.unwrap()[0].id > newest_outbox);
    assert_eq!(world.store.runs_gone(&[run, next, next + 1]).unwrap(), [run]);
    for (what, id, given) in [
        (History::Messages, 1, true),
        (History::Messages, seq + 1, false),
        (History::Runs, run, true),
        (History::Outbox, newest_outbox, true),
        (History::Approvals, 1, false),
        (History::Receipts, 1, true),
        (History::Receipts, 10, false),
        (History::Receipts, 0, false),
    ] {
        assert_eq!(world.store.was_given(what, id).unwrap(), given, "{what:?} {id}");
    }
}

#[tokio::test]
async fn a_receipt_is_kept_while_its_file_is_claimed_or_may_lie_in_its_box() {
    let world = world().await;
    world.commands(1..=3, NOW).await;
    world.commands(4..=6, NOW.plus_ms(1)).await;
    let long_after = after(60 * DAY_MS);
    let claimed = Keep { claimed: vec![2], ..long_after.clone() };
    let in_box =
        |group: &str, from: Time| Keep { groups: [(group.to_owned(), from)].into(), ..claimed.clone() };
    assert_eq!(world.prune(&in_box("main", Time(i64::MIN))).await, []);
    assert_eq!(world.prune(&in_box("main", NOW)).await, []);
    assert_eq!(world.prune(&in_box("main", NOW.plus_ms(1))).await, [(History::Receipts, vec![1, 3])]);
    assert_eq!(world.prune(&in_box("family", NOW)).await, [(History::Receipts, vec![4, 5])]);
    assert_eq!(world.claims(), [2, 6]);
    // The same file, claimed anew.
    let anew = Keep { origins: vec![b"file 2".to_vec()], ..long_after.clone() };
    assert_eq!(world.prune(&anew).await, []);
    // The file that is there still is not decided again.
    let again = command("main", 2, br#"{"type":"pause_task","taskId":"2"}"#);
    assert!(!world.store.settle(again, Zones::utc(), NOW).await.unwrap().fresh);
    assert_eq!(world.prune(&long_after).await, [(History::Receipts, vec![2])]);
}

#[tokio::test]
async fn that_a_command_was_tried_again_is_known_as_long_as_the_command_is() {
    let world = world().await;
    let unfit = command("main", 1, br#"{"type":"pause_task","taskId":"none"}"#);
    // Tried again by a clock that was set back.
    world.store.settle(unfit, Zones::utc(), NOW.plus_ms(DAY_MS)).await.unwrap();
    world.store.note_retry(2, 1, NOW).await.unwrap();
    world.commands(2..=3, NOW).await;
    world.store.note_drop(4, "no use".into(), NOW).await.unwrap();
    assert_eq!(world.prune(&keep()).await, [(History::Receipts, vec![2])]);
    assert_eq!(world.store.tried_as(1).unwrap(), Some(2));
    assert!(world.store.note_retry(5, 1, NOW).await.is_err());
    let expected = [(History::Receipts, vec![1]), (History::ByHand, vec![2])];
    assert_eq!(world.prune(&after(31 * DAY_MS)).await, expected);
    let note = world.store.note(4).unwrap();
    assert_eq!(note, Some(Note::Dropped("no use".into())), "its id is the newest that was given");
    world.commands([5], NOW.plus_ms(DAY_MS)).await;
    assert_eq!(
        world.prune(&after(40 * DAY_MS)).await,
        [(History::Receipts, vec![3]), (History::ByHand, vec![4])]
    );
}

/// A command of `family` that carries the token of `run` and is refused for what it asks.
fn refused_of(claim: i64, run: i64) -> CommandFile {
    let claims = ipc_handlers::token::Claims {
        agent_id: "family".into(),
        workspace_id: String::new(),
        role: "group".into(),
        session_id: None,
        run_id: run,
        iat: 0,
        exp: i64::MAX / 1000,
        jti: format!("{run}-18c"),
    };
    let proof = g2::store::Proof::Claims(Box::new(claims));
    let written = Some(NOW.plus_ms(-1));
    CommandFile { proof, written, ..command("family", claim, br#"{"type":"pause_task","taskId":"none"}"#) }
}

#[tokio::test]
async fn a_run_stays_as_long_as_a_command_with_its_token_is_kept_or_may_wait() {
    let world = world().await;
    let (_, run) = world.answered("local:family", "1").await;
    world.message("local:family", "2", "x", EngageVerdict::Ignore).await;
    world.store.settle(refused_of(1, run), Zones::utc(), NOW.plus_ms(1)).await.unwrap();
    world.commands([2], NOW).await;
    let runs = || world.store.runs(None).unwrap().len();
    world.prune(&keep()).await;
    assert_eq!((runs(), world.claims()), (1, vec![1, 2]), "its command is younger than it");
    // Tried again after a month, and claimed still when another one has gone by.
    world.store.note_retry(3, 1, NOW.plus_ms(31 * DAY_MS)).await.unwrap();
    assert_eq!(world.prune(&after(60 * DAY_MS)).await, []);
    let claimed = Keep { claimed: vec![3], ..after(90 * DAY_MS) };
    assert_eq!(world.prune(&claimed).await, []);
    let again = world.store.settle(refused_of(3, run), Zones::utc(), NOW.plus_ms(90 * DAY_MS)).await.unwrap();
    let reason = again.receipt.reason.unwrap_or_default();
    assert!(!reason.contains("on record"), "{reason}");
    // The first try goes; the newest one is kept, and names the run as well.
    assert_eq!(world.prune(&after(300 * DAY_MS)).await, [(History::Receipts, vec![1, 2])]);
    world.commands([4], NOW).await;
    let waits = Keep { groups: [("family".to_owned(), NOW)].into(), ..after(300 * DAY_MS) };
    world.prune(&waits).await;
    assert_eq!(runs(), 1, "a file waits that may be of it");
    let working = Keep { working: vec!["family".into()], ..after(300 * DAY_MS) };
    world.prune(&working).await;
    assert_eq!((runs(), world.claims()), (1, vec![4]), "a file of its group is claimed");
    assert_eq!(world.prune(&after(300 * DAY_MS)).await, [(History::Runs, vec![run])]);
}

#[tokio::test]
async fn a_run_is_kept_for_30_days_even_if_other_history_is_not() {
    let world = world().await;
    world.answered("local:family", "1").await;
    world.message("local:family", "2", "x", EngageVerdict::Ignore).await;
    let horizon = Horizon::new(NOW.plus_ms(29 * DAY_MS), 1, 0);
    let removed = world.prune(&Keep { horizon, ..keep() }).await;
    let removed: Vec<_> = removed.into_iter().map(|(what, _)| what).collect();
    assert_eq!(removed, [History::Messages, History::Batches, History::Outbox]);
    assert_eq!(world.prune(&keep()).await.len(), 1, "now its run goes");
}

/// A question about a stranger, raised by their message; its card is said.
async fn a_question(world: &World, chat: &str, sender: &str) -> (i64, i64) {
    let inbound = Inbound {
        chat_jid: chat.into(),
        replay_key: sender.into(),
        id: sender.into(),
        sender: sender.into(),
        sender_name: sender.into(),
        text: "@G2 hello".into(),
        mentioned: true,
        ..Inbound::default()
    };
    let seq = world.store.accept(inbound, NOW).await.unwrap().seq;
    world.deliver("local:main").await;
    (seq, world.store.approvals(false).await.unwrap().last().expect("a question").id)
}

#[tokio::test]
async fn a_question_keeps_its_messages_until_it_is_old_and_an_open_one_keeps_later_texts() {
    let mut world = world().await;
    let asking = g2::store::Asking { channels: vec!["local".into()].into(), ..g2::store::Asking::default() };
    world.store = world.store.asking(asking);
    let (seq, id) = a_question(&world, "tg:-1", "tg:7").await;
    world.store.tell("local:main".into(), "by the way".into(), "run 1 record 1".into(), NOW).await.unwrap();
    world.deliver("local:main").await;
    let later = Inbound {
        chat_jid: "tg:-1".into(),
        replay_key: "2".into(),
        sender: "tg:8".into(),
        ..Inbound::default()
    };
    world.store.accept(later, NOW.plus_ms(60 * DAY_MS)).await.unwrap();
    assert_eq!(world.prune(&keep()).await, [], "question {id} is open");
    // Something else was said about it last: an answer may be a reply to the first all the same.
    let db = rusqlite::Connection::open(world._dir.path().join("g2.sqlite")).unwrap();
    db.execute("UPDATE approvals SET card = (SELECT max(id) FROM outbox)", []).unwrap();
    assert_eq!(world.prune(&keep()).await, [], "all that was said about {id} is kept");
    world.store.decide(id, g2::store::Pick::No, "local:me", NOW).await.unwrap();
    world.deliver("local:main").await;
    // A no that holds is kept.
    let horizon = Horizon::new(NOW.plus_ms(30 * DAY_MS), 30, 31 * DAY_MS);
    let removed = world.prune(&Keep { horizon, ..keep() }).await;
    assert!(
        !removed.iter().any(|(what, _)| matches!(what, History::Approvals | History::Messages)),
        "{removed:?}"
    );
    let removed = world.prune(&keep()).await;
    assert_eq!(removed, [(History::Approvals, vec![id]), (History::Messages, vec![seq])]);
    assert!(world.store.approval(id).await.unwrap().is_none());
}

#[tokio::test]
async fn the_count_of_unheard_senders_is_removed_once_it_no_longer_grows() {
    let mut world = world().await;
    // Nobody can be asked.
    let asking = g2::store::Asking { channels: Vec::new().into(), ..g2::store::Asking::default() };
    world.store = world.store.asking(asking);
    for (sender, at) in [("tg:1", 0), ("tg:2", 0), ("tg:3", 1)] {
        let inbound = Inbound {
            chat_jid: "tg:-1".into(),
            replay_key: sender.into(),
            sender: sender.into(),
            text: "@G2 hello".into(),
            mentioned: true,
            ..Inbound::default()
        };
        world.store.accept(inbound, NOW.plus_ms(at)).await.unwrap();
    }
    let before = keep().horizon.before;
    assert_eq!(world.store.dropped_until(before).unwrap(), 2);
    assert_eq!(world.store.remove_dropped(before, 1).await.unwrap(), 1);
    assert_eq!(world.store.remove_dropped(before, 9).await.unwrap(), 1);
    assert_eq!(world.store.dropped(None).await.unwrap().len(), 1);
}
