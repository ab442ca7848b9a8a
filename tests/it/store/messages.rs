//! Messages: stored once, judged, and judged again.

use super::*;

fn pattern(pattern: &str) -> WiringChanges {
    WiringChanges { pattern: Some(pattern.into()), ..WiringChanges::default() }
}

fn engage(mode: EngageMode) -> WiringChanges {
    WiringChanges { engage: Some(mode), ..WiringChanges::default() }
}

#[tokio::test]
async fn a_held_message_is_judged_anew_after_the_cursor_when_its_wiring_is_changed() {
    let world = world().await;
    let held = world.message("local:family", "1", "puzzle", EngageVerdict::Held).await;
    let ignored = world.message("local:family", "2", "noise", EngageVerdict::Ignore).await;
    world.message("local:family", "3", "first", EngageVerdict::Wake).await;
    let first = world.start(world.lane()).await;
    assert!(world.store.unjudged(100).await.unwrap().is_empty());

    world.store.set_wiring(folder("family"), "local:family", pattern("^p")).await.unwrap();
    let anew: Vec<i64> = world.store.unjudged(100).await.unwrap().iter().map(|row| row.seq).collect();
    assert_eq!(anew, [held], "not {ignored}, which was decided, and not what was handed over");
    // With the next one, everything that is not judged yet is.
    world.message("local:family", "4", "second", EngageVerdict::Wake).await;
    world.ready(first.run).await;
    let next = world.store.pipe(first.run, first.lane, LIMITS, NOW).await.unwrap().unwrap();
    let prompt = world.prompt(next.batch);
    assert!(prompt.contains(">puzzle<") && prompt.contains(">second<"), "{prompt}");
    assert!(!prompt.contains(">first<") && !prompt.contains(">noise<"), "{prompt}");
    world.store.set_wiring(folder("family"), "local:family", pattern(".")).await.unwrap();
    assert!(world.store.unjudged(100).await.unwrap().is_empty(), "nothing is handed over twice");
}

#[tokio::test]
async fn the_same_event_twice_is_one_message() {
    let world = world().await;
    let first = world.message("local:main", "k", "hello", EngageVerdict::Wake).await;
    let again = world.message("local:main", "k", "hello", EngageVerdict::Wake).await;
    assert_eq!(first, again);
    assert_eq!(world.store.messages(None, None).await.unwrap().len(), 1);
    assert_eq!(world.store.waiting_lanes().unwrap().len(), 1);
}

#[tokio::test]
async fn a_chat_that_was_unwired_is_given_to_nobody_until_it_is_wired_again() {
    let world = world().await;
    world.message("local:main", "k", "hello", EngageVerdict::Wake).await;
    let lane = world.lane();
    world.store.remove_wiring(folder("main"), "local:main").await.unwrap();
    assert!(world.store.start_run(lane, SandboxName::Process, "me", LIMITS, NOW).await.unwrap().is_none());
    assert!(
        world.store.waiting_lanes().unwrap().is_empty()
            && world.store.chat_at_rest("local:main").await.unwrap()
    );
}

#[tokio::test]
async fn a_mark_that_was_decided_on_before_its_wiring_changed_is_none() {
    let w = world().await;
    for (mode, marked) in [(EngageMode::MentionSticky, true), (EngageMode::Mention, false)] {
        w.store
            .set_wiring(folder("family"), "local:family", engage(EngageMode::MentionSticky))
            .await
            .unwrap();
        let inbound = Inbound {
            chat_jid: "local:family".into(),
            replay_key: mode.to_string(),
            id: mode.to_string(),
            sender: "local:me".into(),
            text: "@G2 hi".into(),
            ..Inbound::default()
        };
        w.store.accept(inbound, NOW).await.unwrap();
        let rows = w.store.unjudged(100).await.unwrap();
        w.store.set_wiring(folder("family"), "local:family", engage(mode)).await.unwrap();
        let mark = |row: &Unjudged| Judged {
            n: row.n,
            read_as: row.read_as(),
            verdict: EngageVerdict::Wake,
            rule: Rule::Trigger,
            reason: "test".into(),
            sticks: true,
            refused: None,
            answers: None,
        };
        w.store.judge(rows.iter().map(mark).collect(), NOW).await.unwrap();
        w.store
            .set_wiring(folder("family"), "local:family", engage(EngageMode::MentionSticky))
            .await
            .unwrap();
        let sticky = w.store.wirings().await.unwrap().into_iter().any(|wiring| !wiring.sticky.is_empty());
        assert_eq!(sticky, marked, "{mode}");
    }
}
