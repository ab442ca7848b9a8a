//! Texts for chats: in order, each once, whatever the platform does with them.

use g2::domain::{
    platforms::{
        channels::{Change, Format, SentTwice, TextLimit, Unit},
        chats::NotListed,
    },
    rows::UnknownDeliveries,
    states::{DeliveryStatus, SandboxName},
};
use g2::store::HandoverLimits;

use g2::{
    domain::{
        runs::{
            group_config::Key,
            judge::{Cause, End},
        },
        time::zone::Zones,
    },
    store::{EndOfRun, Recorded},
};
use g2_text::Rendered;
use ipc_handlers::{
    Folder,
    wire::{Kind, Record},
};
use std::{collections::BTreeMap, sync::Arc};

use super::{NOW, Rig, World, fake::LONGEST};

#[tokio::test]
async fn texts_for_a_chat_are_shown_in_order_over_a_restart() {
    for rig in Rig::all() {
        let mut world = World::new(rig).await;
        for n in 0..10 {
            world.say(&n.to_string()).await;
        }
        world.restart().await;
        for n in 10..20 {
            world.say(&n.to_string()).await;
        }
        let last = world.rows().await.last().unwrap().id;
        world.until_row(last, DeliveryStatus::Sent).await;
        assert_eq!(world.shown().await, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
        for row in world.rows().await {
            let parts = world.store.parts_of(row.id).await.unwrap();
            assert_eq!(parts.len(), 1);
            let id = parts[0].platform_id.clone().unwrap();
            assert_eq!(world.store.said_as(world.rig.chat(), &id).await.unwrap(), Some(row.id));
        }
    }
}

#[tokio::test]
async fn a_connection_that_ends_before_the_confirmation_leaves_the_text_unknown() {
    for fault in ["drop-before", "drop-after"] {
        // A platform that recognises our ids has it once.
        let world = World::new(Rig::fake(true)).await;
        world.platform(&["knows"]).await;
        world.platform(&["fault", fault]).await;
        let id = world.say("hello").await;
        world.until_row(id, DeliveryStatus::Sent).await;
        assert_eq!(world.shown().await, ["hello"], "{fault}");
        // Of any other nobody knows: it is not sent again where that is not wished for, and people are told so.
        let world = World::with(Rig::fake(false), UnknownDeliveries::Leave).await;
        world.platform(&["fault", fault]).await;
        let id = world.say("hello").await;
        world.until_row(id, DeliveryStatus::Failed).await;
        let error = world.rows().await[0].error.clone().unwrap();
        assert!(error.contains("may have arrived"), "{error}");
        assert_eq!(world.platform(&["calls"]).await, ["1"], "{fault}");
        let id = world.say("next").await;
        world.until_row(id, DeliveryStatus::Sent).await;
        // Where it is wished for it is told as unknown until it is sent again.
        let world = World::new(Rig::fake(false)).await;
        world.platform(&["fault", fault]).await;
        let id = world.say("hello").await;
        world.until_row(id, DeliveryStatus::Unknown).await;
        world.until_row(id, DeliveryStatus::Sent).await;
        assert_eq!(world.shown().await.last().unwrap(), "hello");
    }
}

#[tokio::test]
async fn a_platform_that_asks_to_be_left_alone_is_and_that_costs_no_try() {
    let world = World::new(Rig::fake(false)).await;
    for _ in 0..20 {
        world.platform(&["fault", "busy", "1"]).await;
    }
    let id = world.say("hello").await;
    world.until_row(id, DeliveryStatus::Sent).await;
    assert_eq!((world.shown().await, world.rows().await[0].attempts), (vec!["hello".to_owned()], 1));
    assert_eq!(world.platform(&["calls"]).await, ["21"]);
    // As long as it asks: what is said then waits behind.
    world.platform(&["fault", "busy", "3600000"]).await;
    let first = world.say("first").await;
    world.say("second").await;
    world
        .until("the wait to be written down", async || {
            world.rows().await.iter().any(|row| row.id == first && row.error.is_some())
        })
        .await;
    assert_eq!(world.shown().await, ["hello"]);
}

#[tokio::test]
async fn a_failed_text_is_sent_again_and_one_that_fails_for_good_is_told_once_and_delays_nothing() {
    let world = World::new(Rig::fake(false)).await;
    world.platform(&["fault", "away"]).await;
    world.platform(&["fault", "never"]).await;
    let (again, never) = (world.say("again").await, world.say("never").await);
    // The first try of the first row fails; the refusal meets its second.
    world.until_row(again, DeliveryStatus::Failed).await;
    world.until_row(never, DeliveryStatus::Sent).await;
    assert_eq!(world.shown().await, ["never"]);
    assert_eq!(world.platform(&["calls"]).await, ["3"]);
    assert!(world.rows().await[0].error.as_ref().unwrap().contains("refuses"));
}

#[tokio::test]
async fn a_platform_that_answers_late_or_twice_has_it_once() {
    let world = World::new(Rig::fake(false)).await;
    world.platform(&["fault", "twice"]).await;
    world.platform(&["fault", "hold"]).await;
    let (_, late, last) = (world.say("a").await, world.say("b").await, world.say("c").await);
    world.until("the second to be under way", async || world.shown().await.len() == 2).await;
    assert!(world.rows().await.iter().any(|row| row.id == late && row.status == DeliveryStatus::Sending));
    world.platform(&["release"]).await;
    world.until_row(last, DeliveryStatus::Sent).await;
    assert_eq!(world.shown().await, ["a", "b", "c"]);
    let mut ids = Vec::new();
    for row in world.rows().await {
        ids.push(world.store.parts_of(row.id).await.unwrap().remove(0).platform_id);
    }
    assert_eq!(ids, ["m1", "m2", "m3"].map(|id| Some(id.to_owned())));
}

#[tokio::test]
async fn a_long_text_is_shown_in_parts_each_once_wherever_it_was_interrupted() {
    let text = "One two three four five. Six seven eight nine ten eleven. Twelve thirteen fourteen fifteen.";
    for rig in Rig::all() {
        let world = World::new(rig).await;
        let id = world.say(text).await;
        world.until_row(id, DeliveryStatus::Sent).await;
        let shown = world.shown().await;
        match &world.rig {
            Rig::Local(_) => assert_eq!(shown, [text]),
            Rig::Fake { .. } | Rig::Adapter { .. } => {
                assert!(
                    shown.len() == 3 && shown.iter().all(|part| part.chars().count() <= LONGEST),
                    "{shown:?}"
                );
                assert_eq!(shown.join(" "), text);
                let ids = world.store.parts_of(id).await.unwrap();
                assert!(ids.iter().all(|part| part.platform_id.is_some()) && ids.len() == 3);
            }
        }
    }
    // Refused in the middle for a while, or its daemon dead there: what was shown is not shown again.
    for dies in [false, true] {
        let mut world = World::new(Rig::fake(true)).await;
        world.platform(&["knows"]).await;
        world.platform(&["fault", "ok"]).await;
        world.platform(&["fault", if dies { "hold" } else { "away" }]).await;
        let id = world.say(text).await;
        if dies {
            world.until("the second part to be under way", async || world.shown().await.len() == 2).await;
            world.die().await;
            world.platform(&["release"]).await;
        }
        world.until_row(id, DeliveryStatus::Sent).await;
        assert_eq!(world.shown().await.join(" "), text, "dies: {dies}");
        assert_eq!(world.platform(&["calls"]).await, ["4"], "the first part was sent once");
    }
}

#[tokio::test]
async fn a_stop_in_the_middle_waits_for_live_sends_and_sends_nothing_twice() {
    let mut world = World::new(Rig::fake(false)).await;
    world.platform(&["fault", "hold"]).await;
    world.say("first").await;
    let last = world.say("second").await;
    world.until("the first to be under way", async || world.shown().await.len() == 1).await;
    world.stop.cancel();
    world.platform(&["release"]).await;
    world.restart().await;
    world.until_row(last, DeliveryStatus::Sent).await;
    assert_eq!(world.shown().await, ["first", "second"]);
}

#[tokio::test]
async fn a_sent_text_can_be_changed_if_the_platform_can() {
    for rig in Rig::all() {
        let world = World::new(rig).await;
        let id = world.say("before").await;
        world.until_row(id, DeliveryStatus::Sent).await;
        let channel = world.channels.of(world.rig.chat()).unwrap();
        let called = world.store.parts_of(id).await.unwrap().remove(0).platform_id.unwrap();
        let edited = channel
            .amend(
                world.rig.chat(),
                &called,
                Change::Text(Rendered { text: "after".into(), ..Rendered::default() }),
            )
            .await;
        assert_eq!(edited.is_ok(), channel.traits().edits);
        let expected = if channel.traits().edits { "after" } else { "before" };
        assert_eq!(world.shown().await, [expected]);
        assert_eq!(channel.chats().await, Err(NotListed::Never));
        let is_local = matches!(world.rig, Rig::Local(_));
        let limit = TextLimit { max: LONGEST, unit: Unit::Chars, format: Format::Discord };
        assert_eq!(channel.traits().text, (!is_local).then_some(limit));
    }
}

#[tokio::test]
async fn that_an_agent_works_is_shown_and_its_end_too() {
    let world = World::new(Rig::fake(false)).await;
    world.hears("k1", "1", "hello", None).await;
    world.until_came(&["hello"]).await;
    world.judge().await;
    let lane = world.store.waiting_lanes().unwrap()[0].lane;
    let limits = HandoverLimits { messages: 10, bytes: 1 << 20, context: 1 };
    let handed = world.store.start_run(lane, SandboxName::Process, "me", limits, NOW).await.unwrap().unwrap();
    world
        .until("that it works", async || world.platform(&["typed"]).await.contains(&"fake:1=on".to_owned()))
        .await;
    world.store.take_back(handed.run, handed.batch).await.unwrap();
    world
        .until("the end of it", async || {
            world.platform(&["typed"]).await.last().is_some_and(|signal| signal == "fake:1=off")
        })
        .await;
}

#[tokio::test]
async fn what_may_have_arrived_is_looked_for_where_the_platform_can_say() {
    for (fault, calls) in [("drop-before", "2"), ("drop-after", "1")] {
        for dies in [false, true] {
            let mut world = World::with(Rig::fake_that(SentTwice::Readback), UnknownDeliveries::Leave).await;
            world.platform(&["fault", if dies { "hold" } else { fault }]).await;
            let id = world.say("hello").await;
            if dies {
                world.until("it to be under way", async || world.shown().await.len() == 1).await;
                world.die().await;
                world.platform(&["release"]).await;
            }
            world.until_row(id, DeliveryStatus::Sent).await;
            assert_eq!(world.shown().await, ["hello"], "{fault} {dies}");
            assert_eq!(world.platform(&["calls"]).await, [if dies { "1" } else { calls }], "{fault} {dies}");
            assert_eq!(world.store.parts_of(id).await.unwrap()[0].platform_id.as_deref(), Some("m1"));
        }
    }
    // A platform that does not say is treated as one that can't be asked.
    let world = World::with(Rig::fake_that(SentTwice::Readback), UnknownDeliveries::Leave).await;
    world.platform(&["dumb"]).await;
    world.platform(&["fault", "drop-after"]).await;
    let id = world.say("hello").await;
    world.until_row(id, DeliveryStatus::Failed).await;
    assert_eq!((world.shown().await.len(), world.platform(&["calls"]).await), (1, vec!["1".to_owned()]));
}

#[tokio::test]
async fn a_text_waits_without_a_try_until_there_is_a_connection() {
    let world = World::new(Rig::fake(false)).await;
    world.platform(&["fault", "offline"]).await;
    let id = world.say("hello").await;
    world.until_row(id, DeliveryStatus::Sent).await;
    assert_eq!((world.shown().await, world.rows().await[0].attempts), (vec!["hello".to_owned()], 1));
}

#[tokio::test]
async fn what_an_agent_writes_is_shown_in_its_platforms_way_and_what_the_host_says_as_it_is() {
    let markdown = "**b** @room";
    for (format, agents, hosts) in [
        ("plain", "b @room", "**b** @room"),
        ("discord", "**b** @\u{200b}room", "\\*\\*b\\*\\* @\u{200b}room"),
        ("spans", "[bold:b] @room", "**b** @room"),
        ("matrix", "<strong>b</strong> @\u{200b}room", "**b** @\u{200b}room"),
        ("irc", "b @room", "**b** @room"),
    ] {
        let world = World::new(Rig::adapter_with(format)).await;
        world.agent_says(1, markdown).await;
        let id = world.say(markdown).await;
        world.until_row(id, DeliveryStatus::Sent).await;
        assert_eq!(world.shown().await, [agents, hosts], "{format}");
    }
    let world = World::new(Rig::Local(g2::channels::local::Local::default())).await;
    let id = world.agent_says(1, markdown).await;
    world.until_row(id, DeliveryStatus::Sent).await;
    assert_eq!(world.shown().await, [markdown]);
}

#[tokio::test]
async fn a_part_looks_the_same_however_often_it_is_sent() {
    // The platform asks to wait, which costs no try; it does not answer, and the daemon dies; it answers.
    let mut world = World::new(Rig::adapter_with("spans")).await;
    world.platform(&["knows"]).await;
    world.platform(&["fault", "busy", "1"]).await;
    world.platform(&["fault", "hold"]).await;
    let id = world.agent_says(1, "**one** two\n\n`three` four five six seven eight *nine* ten").await;
    world.until("the first part to be under way", async || world.shown().await.len() == 1).await;
    let laid = world.store.parts_of(id).await.unwrap();
    assert_eq!(laid.len(), 2);
    let looks: Vec<usize> = laid.iter().map(|part| part.text.as_ref().unwrap().spans.len()).collect();
    assert_eq!(looks, [2, 1], "{laid:?}");
    world.die().await;
    assert_eq!(world.store.parts_of(id).await.unwrap(), laid);
    world.platform(&["release"]).await;
    world.until_row(id, DeliveryStatus::Sent).await;
    assert_eq!(
        world.shown().await,
        ["[bold:one] two\n\n[code:three] four five six seven eight", "[italic:nine] ten"]
    );
    assert_eq!(world.platform(&["calls"]).await, ["4"]);
    let kept = world.store.parts_of(id).await.unwrap();
    assert!(kept.iter().all(|part| part.text.is_none() && part.platform_id.is_some()), "{kept:?}");
}

/// Has an agent begin with what waits; returns its run and its batch.
async fn takes_up(world: &World) -> (i64, i64) {
    world.judge().await;
    let lane = world.store.waiting_lanes().unwrap()[0].lane;
    let limits = HandoverLimits { messages: 10, bytes: 1 << 20, context: 1 };
    let handed = world.store.start_run(lane, SandboxName::Process, "me", limits, NOW).await.unwrap().unwrap();
    (handed.run, handed.batch)
}

async fn set(world: &World, key: Key, value: &str) {
    let settings = BTreeMap::from([(key, value.to_owned())]);
    world.store.set_group(Folder::parse("main").unwrap(), settings, None, NOW).await.unwrap();
}

/// How many changes are to be made.
fn amends(world: &World) -> i64 {
    let store = rusqlite::Connection::open(&world.path).unwrap();
    store.query_row("SELECT count(*) FROM amends", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn what_an_agent_has_in_hand_has_a_sign_that_goes_when_it_is_done() {
    for rig in Rig::fakes(SentTwice::Never) {
        let mut world = World::new(rig).await;
        let reacted = async |world: &World| {
            let all = world.platform(&["reacted"]).await;
            all.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>()
        };
        // The daemon has to know what the platform can do.
        let hello = world.say("hi").await;
        world.until_row(hello, DeliveryStatus::Sent).await;
        set(&world, Key::Seen, "👀").await;
        world.hears("k1", "m7", "hello", None).await;
        world.until_came(&["hello"]).await;
        let (run, batch) = takes_up(&world).await;
        world.until("the sign", async || reacted(&world).await == ["m7=👀"]).await;
        // A daemon that dies meanwhile leaves it there; the next one takes it away.
        assert_eq!(amends(&world), 1);
        world.die().await;
        let text = world.say("here again").await;
        world.until_row(text, DeliveryStatus::Sent).await;
        assert_eq!(reacted(&world).await.len(), 1, "it is not put twice");
        world.store.take_back(run, batch).await.unwrap();
        world.until("the end of it", async || reacted(&world).await == ["m7=👀", "m7="]).await;
        world.until("it to be forgotten", async || amends(&world) == 0).await;
    }
}

#[tokio::test]
async fn a_sign_that_fails_or_hangs_delays_nothing() {
    let world = World::new(Rig::adapter(SentTwice::Never)).await;
    let hello = world.say("hi").await;
    world.until_row(hello, DeliveryStatus::Sent).await;
    set(&world, Key::Seen, "👀").await;
    world.platform(&["react-fault", "hold"]).await;
    world.hears("k1", "m7", "hello", None).await;
    world.until_came(&["hello"]).await;
    takes_up(&world).await;
    for n in 0..3 {
        let text = world.say(&n.to_string()).await;
        world.until_row(text, DeliveryStatus::Sent).await;
    }
    assert_eq!(world.shown().await, ["hi", "0", "1", "2"]);
    assert!(world.platform(&["reacted"]).await.is_empty(), "the platform is still at it");
}

/// A run of an agent that says something while it grows.
struct Agent {
    run: i64,
    n: u64,
}

impl Agent {
    async fn begin(world: &World) -> Self {
        // The daemon has to know what the platform can do.
        let hello = world.say("hi").await;
        world.until_row(hello, DeliveryStatus::Sent).await;
        set(world, Key::Say, "stream").await;
        world.hears("k1", "m7", "tell me", None).await;
        world.until_came(&["tell me"]).await;
        let (run, _) = takes_up(world).await;
        let mut agent = Self { run, n: 0 };
        agent.says(world, Kind::Ready, None).await;
        agent
    }

    async fn says(&mut self, world: &World, kind: Kind, text: Option<&str>) {
        self.n += 1;
        let record = Record { kind, result: text.map(Into::into), seq: Some(self.n), ..Record::default() };
        let recorded = world.store.record(self.run, self.n, Arc::new(record), NOW).await.unwrap();
        assert!(matches!(recorded, Recorded::Applied { .. }), "{recorded:?}");
    }

    async fn so_far(&mut self, world: &World, text: &str) {
        self.says(world, Kind::SoFar, Some(text)).await;
    }

    async fn whole(&mut self, world: &World, text: &str) {
        self.says(world, Kind::Result, Some(text)).await;
    }
}

async fn until_shown(world: &World, texts: &[&str]) {
    world.until(&format!("{texts:?}"), async || world.shown().await == texts).await;
}

/// Waits until nothing is left to say.
async fn until_said(world: &World) {
    world.until("all to be said", async || world.store.outbox_pending().await.unwrap() == 0).await;
}

#[tokio::test]
async fn a_text_grows_in_place_and_stands_whole_at_the_end() {
    for rig in Rig::fakes(SentTwice::Never) {
        let world = World::new(rig).await;
        let mut agent = Agent::begin(&world).await;
        agent.so_far(&world, "I look").await;
        until_shown(&world, &["hi", "I look"]).await;
        agent.so_far(&world, "I look into **it <inter").await;
        until_shown(&world, &["hi", "I look into \\*\\*it"]).await;
        // Before a tool it is whole; what comes then is another text.
        agent.whole(&world, "I look into **it**.").await;
        agent.so_far(&world, "One two").await;
        agent.so_far(&world, "One two three four five six seven eight nine ten").await;
        let parts = ["hi", "I look into **it**.", "One two three four five six seven eight", "nine ten"];
        until_shown(&world, &parts).await;
        // What it becomes may be shorter, and others may speak meanwhile.
        let other = world.say("somebody else").await;
        world.until_row(other, DeliveryStatus::Sent).await;
        agent.whole(&world, "One.").await;
        until_shown(&world, &["hi", "I look into **it**.", "One.", "somebody else"]).await;
        until_said(&world).await;
        let rows = world.rows().await;
        assert_eq!(
            rows.iter().map(|row| &row.text[..]).collect::<Vec<_>>(),
            ["hi", "I look into **it**.", "One.", "somebody else"]
        );
        for row in rows {
            let parts = world.store.parts_of(row.id).await.unwrap();
            assert!(parts.iter().all(|part| part.text.is_none() && part.platform_id.is_some()), "{parts:?}");
        }
    }
}

#[tokio::test]
async fn a_daemon_that_dies_over_a_growing_text_says_it_once_and_whole() {
    let long = "One two three four five six seven eight nine ten";
    let whole = ["hi", "One two three four five six seven eight", "nine ten eleven."];
    // Each is a request of the platform that is under way at the death: it was done, and its answer never came.
    for (fault, on, then) in
        [("hold", "fault", "One"), ("hold", "edit-fault", "One two"), ("drop", "edit-fault", long)]
    {
        for rig in Rig::fakes(SentTwice::Readback) {
            let mut world = World::new(rig).await;
            let mut agent = Agent::begin(&world).await;
            if on == "edit-fault" {
                agent.so_far(&world, "O").await;
                until_shown(&world, &["hi", "O"]).await;
            }
            world.platform(&[on, fault]).await;
            let before = world.platform(&[if on == "fault" { "calls" } else { "edits" }]).await;
            agent.so_far(&world, then).await;
            let asked = if on == "fault" { "calls" } else { "edits" };
            world.until("the request", async || world.platform(&[asked]).await != before).await;
            world.die().await;
            world.platform(&["release"]).await;
            agent.whole(&world, "One two three four five six seven eight nine ten eleven.").await;
            until_said(&world).await;
            assert_eq!(world.shown().await, whole, "{fault} {on}");
        }
    }
}

#[tokio::test]
async fn a_change_that_fails_is_made_again_and_a_run_that_ends_leaves_what_it_said() {
    let world = World::new(Rig::adapter(SentTwice::Never)).await;
    let mut agent = Agent::begin(&world).await;
    agent.so_far(&world, "One").await;
    until_shown(&world, &["hi", "One"]).await;
    // A change of a beginning that is refused costs nothing.
    world.platform(&["edit-fault", "never"]).await;
    agent.so_far(&world, "One two").await;
    world.until("it to be refused", async || world.platform(&["edits"]).await == ["1"]).await;
    for fault in ["busy", "drop-before", "busy"] {
        world.platform(&["edit-fault", fault]).await;
    }
    agent.so_far(&world, "One two three").await;
    until_shown(&world, &["hi", "One two three"]).await;
    agent.so_far(&world, "One two three four").await;
    let end = EndOfRun {
        run: agent.run,
        end: End::Gone,
        cause: Cause::OwnerGone,
        input: None,
        files_bytes: 0,
        retry_base_ms: 1000,
        tell_retry_ms: None,
    };
    world.store.end_run(end, Zones::utc(), NOW).await.unwrap();
    until_said(&world).await;
    // Behind it the chat is told that the answer was cut short.
    let shown = world.shown().await;
    assert!(shown.len() > 2 && shown[..2] == ["hi", "One two three four"], "{shown:?}");
}

#[tokio::test]
async fn a_group_that_wants_no_beginnings_has_whole_texts_said_and_a_terminal_has_one_row_a_text() {
    // Terminals read what there is of a text; a group may not want it.
    for (rig, say, beginning) in [
        (Rig::Local(g2::channels::local::Local::default()), "stream", vec!["hi", "One"]),
        (Rig::fake(false), "final", vec!["hi"]),
    ] {
        let world = World::new(rig).await;
        let mut agent = Agent::begin(&world).await;
        set(&world, Key::Say, say).await;
        agent.so_far(&world, "One").await;
        until_said(&world).await;
        assert_eq!(world.shown().await, beginning);
        agent.whole(&world, "One two").await;
        agent.so_far(&world, "Th").await;
        agent.whole(&world, "Three").await;
        until_said(&world).await;
        assert_eq!(world.shown().await, ["hi", "One two", "Three"]);
    }
}
