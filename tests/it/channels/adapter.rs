//! Adapters that are programs of their own: what they do harms nobody else, and what they told is stored once.

use g2::domain::{
    heard::engage::Rule,
    platforms::channels::{Connection, Lamp, SentTwice},
    states::DeliveryStatus,
};

use super::{NOW, Rig, World};

async fn state(world: &World) -> Option<g2::domain::rows::ChannelState> {
    world.store.connection_of("fake").await.unwrap()
}

#[tokio::test]
async fn an_adapter_that_hangs_dies_floods_or_forks_is_killed_and_started_anew() {
    for (harm, why) in [
        ("die", "exit status: 3"),
        ("endless", "longer than"),
        ("hang", "did not answer"),
        ("crowd", "more than 64"),
        ("fork", "exit status: 4"),
        ("escape", "exit status: 4"),
    ] {
        let world = World::new(Rig::adapter_that(SentTwice::Never, harm)).await;
        world
            .until(harm, async || {
                // What is stored may be told before it is too much.
                state(&world).await.is_some_and(|s| s.why.as_deref().is_some_and(|text| text.contains(why)))
            })
            .await;
        let starts = state(&world).await.unwrap().starts;
        world.until("another start", async || state(&world).await.unwrap().starts > starts).await;
        if harm == "fork" || harm == "escape" {
            let pid = std::fs::read_to_string(world.rig.home().join("channels/fake/state/child")).unwrap();
            world
                .until("its child to be gone", async || {
                    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                    stat.is_empty() || stat.contains(") Z ")
                })
                .await;
        }
    }
}

#[tokio::test]
async fn an_adapter_that_is_refused_is_started_anew_when_a_person_wants_it() {
    let world = World::new(Rig::adapter_that(SentTwice::Never, "refused")).await;
    world
        .until("the refusal", async || {
            state(&world).await.is_some_and(|state| state.state == Connection::Refused)
        })
        .await;
    let refused = state(&world).await.unwrap();
    assert_eq!((refused.why.as_deref(), refused.hint.as_deref()), (Some("bad token"), Some("make another")));
    assert_eq!((refused.starts, refused.inbound), (1, Lamp::Refused));
    world.store.want_start("fake", NOW).await.unwrap();
    world.until("another start", async || state(&world).await.unwrap().starts == 2).await;
}

#[tokio::test]
async fn what_an_adapter_should_not_say_is_passed_over() {
    let world = World::new(Rig::adapter_that(SentTwice::Never, "strange")).await;
    world.hears("k1", "1", "hello", None).await;
    world.until_came(&["half \u{fffd}", "[hologram]", "hello"]).await;
    assert_eq!(world.store.messages(None, None).await.unwrap().len(), 3, "not the one of another channel");
    let counted = state(&world).await.unwrap();
    assert_eq!((counted.passed_over, counted.passed_over_at.is_some(), counted.unknown_kinds), (3, true, 1));
    let log = std::fs::read_to_string(world.rig.home().join("channels/fake/adapter.log")).unwrap();
    for line in [
        "something can't be taken in, and is passed over: \"local:main\" is no chat of this account",
        "something can't be read, and is passed over: a line of the adapter: ",
        "something can't be read, and is passed over: a field of another type",
        &format!("a message is of the kind \"holo gram{}\", which the adapter", "x".repeat(55)),
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    let id = world.say("hi").await;
    world.until_row(id, DeliveryStatus::Sent).await;
    assert_eq!(state(&world).await.unwrap().starts, 1);
}

#[tokio::test]
async fn an_adapter_is_given_no_environment_and_sees_no_files_but_its_own_where_the_kernel_can_see_to_it() {
    let world = World::new(Rig::adapter_that(SentTwice::Never, "look")).await;
    world
        .until("what it sees", async || {
            state(&world).await.is_some_and(|state| state.state == Connection::Refused)
        })
        .await;
    let why = state(&world).await.unwrap().why.unwrap();
    let (files, environment) = why.split_once(" env ").unwrap();
    assert!(files.contains("/etc/hosts"), "{files}");
    for name in environment.split_whitespace() {
        assert!(["HOME", "LANG", "PATH", "TMPDIR", "LC_CTYPE"].contains(&name), "{environment}");
    }
    let log = std::fs::read_to_string(world.rig.home().join("channels/fake/adapter.log")).unwrap();
    assert!(log.contains("started with 5 settings"), "{log}");
    if log.contains("has no Landlock") {
        eprintln!("skipped: no Landlock");
    } else {
        assert!(!files.contains("store"), "{files}");
    }
}

#[tokio::test]
async fn an_event_and_the_place_after_it_are_stored_together_and_the_adapter_goes_on_there() {
    let mut world = World::new(Rig::adapter(SentTwice::Never)).await;
    world.hears("k1", "1", "one", None).await;
    world.until_came(&["one"]).await;
    assert_eq!(world.store.cursor_of("fake").await.unwrap()["offset"], "1");
    world.die().await;
    world.hears("k2", "2", "two", None).await;
    world.until_came(&["one", "two"]).await;
    assert_eq!(world.store.cursor_of("fake").await.unwrap()["offset"], "2");
    assert!(state(&world).await.unwrap().last_in.is_some());
}

#[tokio::test]
async fn late_messages_wake_nobody_and_the_chat_is_told_once() {
    let world = World::new(Rig::adapter(SentTwice::Never)).await;
    for (key, at) in
        [("old", "2020-01-01T00:00:00Z"), ("older", "2019-01-01T00:00:00Z"), ("new", "2999-01-01T00:00:00Z")]
    {
        world.platform(&["happens", "late", "fake:1", key, at, key]).await;
    }
    world.until_came(&["old", "older", "new"]).await;
    let late: Vec<bool> = world.store.unjudged(10).await.unwrap().iter().map(|row| row.late).collect();
    assert_eq!(late, [true, true, false]);
    let rows = world.rows().await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows[0].text.contains("away"));
    assert_eq!(Rule::from_name("late").unwrap(), Rule::Late);
}

#[tokio::test]
async fn a_chat_that_moves_takes_its_wiring_its_lanes_and_its_unsaid_texts_along() {
    let world = World::new(Rig::adapter(SentTwice::Never)).await;
    world.hears("k1", "1", "before", None).await;
    world.until_came(&["before"]).await;
    let lane = world.store.unjudged(10).await.unwrap()[0].lane;
    world.platform(&["fault", "busy", "3600000"]).await;
    world.say("waits").await;
    world.until("the wait", async || world.rows().await.iter().any(|row| row.error.is_some())).await;
    world.platform(&["happens", "moved", "fake:1", "fake:9"]).await;
    world.platform(&["happens", "message", "fake:9", "k2", "2", "ada", "", "after"]).await;
    world
        .until("the message at the new address", async || {
            world.store.messages(Some("fake:9"), None).await.unwrap().len() == 1
        })
        .await;
    let rows = world.store.unjudged(10).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.lane).collect::<Vec<_>>(), [lane, lane]);
    // What waited goes at once.
    // What is said to the old address, by a task, say, goes to the new one.
    world.store.tell("fake:1".into(), "late".into(), "test".into(), NOW).await.unwrap();
    world
        .until("both to be said", async || {
            let rows = world.store.outbox(Some("fake:9"), None).await.unwrap();
            rows.iter().filter(|row| row.status == DeliveryStatus::Sent).count() == 2
        })
        .await;
}
