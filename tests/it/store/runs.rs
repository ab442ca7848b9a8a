//! Batches and runs: given to an agent, answered, returned, given up.

use super::*;

#[tokio::test]
async fn a_hand_over_moves_the_cursor_and_takes_everything_that_wakes() {
    let world = world().await;
    for n in 0..3 {
        world.message("local:main", &format!("k{n}"), &format!("m{n}"), EngageVerdict::Wake).await;
    }
    let handed = world.start(world.lane()).await;
    let prompt = handed.content.prompt(&Zones::utc().of(None));
    assert!((0..3).all(|n| prompt.contains(&format!(">m{n}</message>"))), "{prompt}");
    assert!(world.store.waiting_lanes().unwrap().is_empty());
}

#[tokio::test]
async fn context_reaches_the_prompt_only_beside_a_message_that_wakes() {
    let world = world().await;
    for n in 0..12 {
        world.message("local:main", &format!("c{n}"), &format!("context {n}"), EngageVerdict::Context).await;
    }
    assert!(world.store.waiting_lanes().unwrap().is_empty());
    world.message("local:main", "w", "now", EngageVerdict::Wake).await;
    let handed = world.start(world.lane()).await;
    let prompt = handed.content.prompt(&Zones::utc().of(None));
    assert!(
        !prompt.contains("context 1<") && prompt.contains("context 2<") && prompt.contains(">now<"),
        "{prompt}"
    );
    assert!(prompt.contains(r#"<left_out count="2">"#), "{prompt}");
}

#[tokio::test]
async fn a_group_has_one_active_run_whatever_races() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let lane = world.lane();
    world.start(lane).await;
    world.message("local:main", "k2", "two", EngageVerdict::Wake).await;
    let refused = world.store.start_run(lane, SandboxName::Process, "me", LIMITS, NOW).await;
    assert!(matches!(refused, Err(StoreError::Sqlite(_))), "{refused:?}");
    assert_eq!(world.store.waiting_lanes().unwrap().len(), 1, "what it would have taken still waits");
}

#[tokio::test]
async fn a_record_is_applied_once_and_a_gap_is_told() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let handed = world.start(world.lane()).await;
    world.ready(handed.run).await;
    let record = say("answer <internal>hidden</internal>", &[handed.batch]);
    let applied = world.store.record(handed.run, 2, record.clone(), NOW).await.unwrap();
    assert_eq!(applied, Recorded::Applied { said: true, idle: true, woken: Vec::new() });
    assert_eq!(world.store.record(handed.run, 2, record.clone(), NOW).await.unwrap(), Recorded::Known);
    assert_eq!(world.store.record(handed.run, 4, record, NOW).await.unwrap(), Recorded::Gap { expected: 3 });
    assert_eq!(world.texts("local:main").await, ["answer"]);
}

#[tokio::test]
async fn a_long_answer_is_said_in_parts_each_once_and_answers_only_its_own_batches() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let lane = world.lane();
    let handed = world.start(lane).await;
    world.ready(handed.run).await;
    world.message("local:main", "k2", "two", EngageVerdict::Wake).await;
    let next = world.store.pipe(handed.run, lane, LIMITS, NOW).await.unwrap().unwrap();
    let long = "line\n".repeat(500_000);
    let record = say(&long, &[handed.batch]);
    // It ends after its second transaction.
    let mut applying = std::pin::pin!(world.store.record(handed.run, 2, record.clone(), NOW));
    while world.texts("local:main").await.is_empty() {
        assert!(
            std::future::poll_fn(|cx| std::task::Poll::Ready(applying.as_mut().poll(cx).is_pending())).await
        );
        tokio::task::yield_now().await;
    }
    let applied = world.store.record(handed.run, 2, record.clone(), NOW).await.unwrap();
    assert_eq!(applied, Recorded::Applied { said: true, idle: false, woken: Vec::new() });
    assert_eq!(world.store.record(handed.run, 2, record, NOW).await.unwrap(), Recorded::Known);
    let texts = world.texts("local:main").await;
    assert!(texts.len() == 3 && texts.iter().all(|text| text.len() <= 1 << 20), "{}", texts.len());
    // What stands around an answer is trimmed.
    assert_eq!(texts.concat(), long.trim_end());
    // The follow-up is in hand, and nothing was said of it.
    world.end(handed.run, End::Exited { code: 3, oom: false }, Cause::Itself).await;
    let again = world.start(world.lane()).await;
    assert_eq!(again.batch, next.batch);
}

#[tokio::test]
async fn a_batch_that_comes_back_holds_the_same_messages() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let lane = world.lane();
    let first = world.start(lane).await;
    let before = world.prompt(first.batch);
    world.end(first.run, End::NeverCreated, Cause::OwnerGone).await;
    world.message("local:main", "k2", "two", EngageVerdict::Wake).await;
    let again = world.start(lane).await;
    assert_eq!((again.batch, world.prompt(again.batch)), (first.batch, before));
    world.ready(again.run).await;
    let next = world.store.pipe(again.run, lane, LIMITS, NOW).await.unwrap().unwrap();
    assert!(world.prompt(next.batch).contains(">two<"));
}

#[tokio::test]
async fn nothing_is_piped_into_a_run_that_is_not_ready_or_closes() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let lane = world.lane();
    let handed = world.start(lane).await;
    world.message("local:main", "k2", "two", EngageVerdict::Wake).await;
    assert!(world.store.pipe(handed.run, lane, LIMITS, NOW).await.unwrap().is_none());
    world.ready(handed.run).await;
    world.store.run_closing(handed.run, NOW).await.unwrap();
    assert!(world.store.pipe(handed.run, lane, LIMITS, NOW).await.unwrap().is_none());
    assert_eq!(world.store.waiting_lanes().unwrap().len(), 1);
}

#[tokio::test]
async fn a_run_that_spoke_and_died_is_told_of_once_and_not_tried_again() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let handed = world.start(world.lane()).await;
    world.ready(handed.run).await;
    world.store.record(handed.run, 2, say("half", &[]), NOW).await.unwrap();
    world.end(handed.run, End::Exited { code: 3, oom: false }, Cause::Itself).await;
    world.end(handed.run, End::Exited { code: 3, oom: false }, Cause::Itself).await;
    let texts = world.texts("local:main").await;
    assert_eq!((texts.len(), texts[0].as_str()), (2, "half"), "{texts:?}");
    assert!(world.store.waiting_lanes().unwrap().is_empty());
}

#[tokio::test]
async fn an_answer_is_about_the_batches_it_finishes_and_about_the_rest_only_when_it_finishes_none() {
    for (first, second, third, state) in [
        // The follow-up is in hand, and nothing was said of it.
        (("a", true), None, None, "returned"),
        (("a", true), Some(("b", false)), None, "failed"),
        // What was said before it without finishing anything may be about it.
        (("b", false), Some(("a", true)), None, "failed"),
        (("a", true), None, Some("command"), "failed"),
    ] {
        let world = world().await;
        world.message("local:main", "k", "one", EngageVerdict::Wake).await;
        let lane = world.lane();
        let handed = world.start(lane).await;
        world.ready(handed.run).await;
        world.message("local:main", "k2", "two", EngageVerdict::Wake).await;
        let next = world.store.pipe(handed.run, lane, LIMITS, NOW).await.unwrap().unwrap();
        let records = [Some(first), second];
        for (n, (text, finishes)) in (2..).zip(records.into_iter().flatten()) {
            let handled = if finishes { vec![handed.batch] } else { Vec::new() };
            world.store.record(handed.run, n, say(text, &handled), NOW).await.unwrap();
        }
        if third.is_some() {
            let bytes = br#"{"type":"send_message","chatJid":"local:main","text":"by file"}"#;
            let file = CommandFile { run: Some(handed.run), ..command("main", 1, bytes) };
            world.store.settle(file, Zones::utc(), NOW).await.unwrap();
        }
        world.end(handed.run, End::Exited { code: 3, oom: false }, Cause::Itself).await;
        let waits = world.store.waiting_lanes().unwrap().len();
        assert_eq!(waits == 1, state == "returned", "batch {}: {first:?} {second:?} {third:?}", next.batch);
    }
}

#[tokio::test]
async fn tries_rest_longer_each_time_and_end_with_one_notice() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let lane = world.lane();
    let mut rests = Vec::new();
    while !world.store.waiting_lanes().unwrap().is_empty() {
        let handed = world.start(lane).await;
        world.ready(handed.run).await;
        world.end(handed.run, End::Exited { code: 1, oom: false }, Cause::Itself).await;
        rests.extend(
            world
                .store
                .waiting_lanes()
                .unwrap()
                .first()
                .and_then(|w| w.rest_until)
                .map(|at| at.ms_since(NOW)),
        );
    }
    assert_eq!(rests, [5000, 10_000, 20_000, 40_000, 80_000]);
    assert_eq!(world.texts("local:main").await.len(), 1);
}

#[tokio::test]
async fn a_lane_whose_runs_are_killed_three_times_in_an_hour_rests_and_says_so_once() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let lane = world.lane();
    for _ in 0..4 {
        let handed = world.start(lane).await;
        world.ready(handed.run).await;
        let stuck = Cause::Unwell { reason: "took a message and gave no sign of life".into() };
        world.end(handed.run, End::Exited { code: 137, oom: false }, stuck).await;
    }
    let rest = world.store.waiting_lanes().unwrap()[0].rest_until.unwrap();
    assert_eq!(rest, NOW.plus_ms(3_600_000));
    let told = world.texts("local:main").await.iter().filter(|text| text.contains("three times")).count();
    assert_eq!(told, 1);
}

#[tokio::test]
async fn a_run_of_a_cleared_session_can_not_write_its_session_back() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let lane = world.lane();
    let handed = world.start(lane).await;
    world.ready(handed.run).await;
    let session = |id: &str| Record { new_session_id: Some(id.into()), ..Record::default() };
    world.store.record(handed.run, 2, session("old"), NOW).await.unwrap();
    world
        .store
        .settle(command("main", 1, br#"{"type":"clear_session","name":"n"}"#), Zones::utc(), NOW)
        .await
        .unwrap();
    world.store.record(handed.run, 3, session("old"), NOW).await.unwrap();
    world.end(handed.run, End::Exited { code: 0, oom: false }, Cause::Closed).await;
    world.message("local:main", "k2", "two", EngageVerdict::Wake).await;
    assert_eq!(world.start(lane).await.session_id, None);
    assert_eq!(world.store.session_history(&folder("main"), 1 << 20).unwrap()[0].session_id, "old");
}

#[tokio::test]
async fn a_batch_that_comes_back_is_whole_whatever_the_limits_are_now() {
    let world = world().await;
    for n in 0..9 {
        world.message("local:main", &format!("k{n}"), &format!("m{n}"), EngageVerdict::Wake).await;
    }
    let lane = world.lane();
    let first = world.start(lane).await;
    world.end(first.run, End::NeverCreated, Cause::OwnerGone).await;
    let few = HandoverLimits { messages: 2, bytes: 10, context: 1 };
    let again = world.store.start_run(lane, SandboxName::Process, "me", few, NOW).await.unwrap().unwrap();
    let prompt = again.content.prompt(&Zones::utc().of(None));
    assert!((0..9).all(|n| prompt.contains(&format!(">m{n}</message>"))), "{prompt}");
}

#[tokio::test]
async fn a_follow_up_that_could_not_be_placed_waits_again_at_no_cost() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let lane = world.lane();
    let handed = world.start(lane).await;
    world.ready(handed.run).await;
    world.message("local:main", "k2", "two", EngageVerdict::Wake).await;
    let piped = world.store.pipe(handed.run, lane, LIMITS, NOW).await.unwrap().unwrap();
    assert!(world.store.waiting_lanes().unwrap().is_empty());
    world.store.take_back(handed.run, piped.batch).await.unwrap();
    assert_eq!(world.store.waiting_lanes().unwrap().len(), 1);
    let again = world.store.pipe(handed.run, lane, LIMITS, NOW).await.unwrap().unwrap();
    assert_eq!(again.batch, piped.batch);
}
