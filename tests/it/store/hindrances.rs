//! What of the host keeps a group's runs from their work.

use std::collections::BTreeMap;

use g2::domain::{
    runs::{
        group_config::Key,
        hindrance::{Hindrance, LONGEST_REST_MS, Refused, STEP_MS},
        model_limit::spread_ms,
    },
    time::times,
};
use jiff::tz::TimeZone;

use super::{
    slots::{begin, make, start, task},
    *,
};

const TOLD: &str = "I can't answer now because the host of my model does not take my key. I keep your message, and answer it by myself when \
                    that is put right.";

impl World {
    /// Has a run for the waiting lane end so at `now`; returns until when the lane rests, from then on, s.
    async fn hindered(&self, end: End, cause: Cause, now: Time) -> i64 {
        let lane = self.lane();
        let handed =
            self.store.start_run(lane, SandboxName::Process, "me", LIMITS, now).await.unwrap().unwrap();
        let end = EndOfRun {
            run: handed.run,
            end,
            cause,
            input: None,
            files_bytes: 0,
            retry_base_ms: 5_000,
            tell_retry_ms: Some(0),
        };
        let ended = self.store.end_run(end, Zones::utc(), now).await.unwrap();
        ended.waiting[0].rest_until.unwrap().ms_since(now) / 1_000
    }

    fn tries(&self, seq: i64, now: Time) -> (u32, String) {
        let why = self.store.why(seq, now).unwrap().unwrap();
        (why.wirings[0].tries, why.wirings[0].waited_for.clone().unwrap())
    }
}

fn refused() -> Cause {
    Cause::Refused(Refused {
        what: Hindrance::Key,
        why: "https://h does not take the key (401)".into(),
        until: None,
    })
}

fn limited(until: Option<Time>) -> Cause {
    Cause::Refused(Refused { what: Hindrance::Limit, why: "https://h says no (429)".into(), until })
}

/// A run was killed for that.
fn ended(run: i64, cause: Cause) -> EndOfRun {
    EndOfRun {
        run,
        end: killed(),
        cause,
        input: None,
        files_bytes: 0,
        retry_base_ms: 5_000,
        tell_retry_ms: None,
    }
}

fn killed() -> End {
    End::Exited { code: 137, oom: false }
}

#[tokio::test]
async fn a_message_that_the_models_host_refuses_waits_longer_each_time_at_no_cost_and_its_chat_is_told_once()
{
    let world = world().await;
    let seq = world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let mut now = NOW;
    let mut rests = Vec::new();
    for _ in 0..10 {
        rests.push(world.hindered(killed(), refused(), now).await);
        let (tries, waits) = world.tries(seq, now);
        assert!(
            tries == 0 && waits.contains("or until this is put right: https://h does not take the key (401)"),
            "{waits}"
        );
        now = now.plus_ms(rests.last().unwrap() * 1_000);
    }
    assert_eq!(rests, [5, 10, 20, 40, 80, 160, 320, 640, 640, 640]);
    assert_eq!(world.texts("local:main").await, [TOLD]);
    let row = world.store.hindrances().unwrap().remove(0);
    assert_eq!((row.group, row.what, row.since, row.until), (folder("main"), Hindrance::Key, NOW, now));

    // It works, and another time it does not: that is told anew.
    let handed = world.start(world.lane()).await;
    world.ready(handed.run).await;
    world.store.record(handed.run, 2, say("answer", &[handed.batch]), now).await.unwrap();
    assert!(world.store.hindrances().unwrap().is_empty(), "with the answer, not with the end of the run");
    world.end(handed.run, End::Exited { code: 0, oom: false }, Cause::Closed).await;
    world.message("local:main", "k2", "two", EngageVerdict::Wake).await;
    assert_eq!(world.hindered(killed(), refused(), now).await, 5);
    assert_eq!(world.texts("local:main").await, [TOLD, "answer", TOLD]);
}

#[tokio::test]
async fn a_missing_image_and_an_engine_that_can_not_cost_no_try_and_are_told_to_no_chat() {
    for (end, words) in [
        (End::NoImage { image: "i".into() }, "image i is not there"),
        (End::NotNow { why: "no space left on device".into() }, "no space left on device"),
    ] {
        let world = world().await;
        let seq = world.message("local:main", "k", "one", EngageVerdict::Wake).await;
        let mut now = NOW;
        let mut rests = Vec::new();
        for _ in 0..8 {
            rests.push(world.hindered(end.clone(), Cause::Itself, now).await);
            let (tries, waits) = world.tries(seq, now);
            assert!(tries == 0 && waits.contains(words), "{waits}");
            now = now.plus_ms(rests.last().unwrap() * 1_000);
        }
        assert_eq!(rests, [5, 10, 20, 40, 80, 80, 80, 80]);
        assert!(world.texts("local:main").await.is_empty());
    }
}

#[tokio::test]
async fn what_is_put_right_ends_the_rests_that_follow_from_it_and_no_other() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let lane = world.lane();
    world.hindered(killed(), refused(), NOW).await;
    let later = NOW.plus_ms(1_000);
    assert!(world.store.try_again(&folder("family"), later).await.unwrap().is_empty());
    assert_eq!(world.store.try_again(&folder("main"), later).await.unwrap(), [lane]);
    assert_eq!(world.store.waiting_lanes().unwrap()[0].rest_until, None);
    assert!(
        world.store.hindrances().unwrap()[0].until <= later,
        "it is a problem until something is answered"
    );
    // A lane whose runs were killed rests for longer.
    world.hindered(killed(), refused(), later).await;
    let rest = format!("UPDATE sessions SET rest_until = {}", later.plus_ms(3_600_000).0);
    rusqlite::Connection::open(world._dir.path().join("g2.sqlite")).unwrap().execute(&rest, []).unwrap();
    assert!(world.store.try_again(&folder("main"), later).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_rest_grows_with_attempts_not_with_runs_and_begins_anew_after_a_long_time() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    assert_eq!(world.hindered(killed(), refused(), NOW).await, 5);
    assert_eq!(world.hindered(killed(), refused(), NOW.plus_ms(1_000)).await, 5, "the same attempt");
    let second = NOW.plus_ms(6_000);
    assert_eq!(world.hindered(killed(), refused(), second).await, 10);
    let later = second.plus_ms(10_000 + LONGEST_REST_MS + 1);
    assert_eq!(world.hindered(killed(), refused(), later).await, 5);
    assert_eq!(world.store.hindrances().unwrap()[0].since, later);
}

/// A task's run has met that its image is not there.
async fn without_image(world: &World, run: i64, now: Time) {
    let end = EndOfRun {
        run,
        end: End::NoImage { image: "i".into() },
        cause: Cause::Itself,
        input: None,
        files_bytes: 0,
        retry_base_ms: 5_000,
        tell_retry_ms: None,
    };
    world.store.end_run(end, Zones::utc(), now).await.unwrap();
}

#[tokio::test]
async fn a_hindrance_lasts_as_long_as_a_task_waits_for_it() {
    let world = world().await;
    make(&world, "interval", "1000", serde_json::json!({})).await;
    let mut now = NOW;
    // Its own rest becomes longer than a lane's.
    for _ in 0..8 {
        now = task(&world).next_run.unwrap();
        let run = start(&world, NOW, now).await.run().unwrap().run;
        without_image(&world, run, now).await;
    }
    let next = task(&world).next_run.unwrap();
    assert!(next > now.plus_ms(80_000), "{}", next.ms_since(now));
    assert_eq!(world.store.hindrances().unwrap()[0].until, next);
    let later = now.plus_ms(81_000);
    world.store.try_again(&folder("main"), later).await.unwrap();
    assert_eq!(task(&world).next_run, Some(later));
    assert!(world.store.hindrances().unwrap()[0].until <= later);
}

#[tokio::test]
async fn what_is_put_right_while_a_task_runs_leaves_its_next_occurrence_where_it_is() {
    let world = world().await;
    make(&world, "interval", "45000", serde_json::json!({})).await;
    let due = task(&world).next_run.unwrap();
    let run = start(&world, NOW, due).await.run().unwrap().run;
    without_image(&world, run, due).await;
    let again = task(&world).next_run.unwrap();
    let run = start(&world, NOW, again).await.run().unwrap().run;
    begin(&world, run, again).await;
    let (next, later) = (Some(due.plus_ms(45_000)), again.plus_ms(1_000));
    assert_eq!(task(&world).next_run, next);
    assert!(world.store.hindrances().unwrap()[0].until <= again, "nothing rests");
    world.store.try_again(&folder("main"), later).await.unwrap();
    assert_eq!(task(&world).next_run, next);
}

#[tokio::test]
async fn a_limit_of_the_model_is_waited_for_at_no_cost_and_its_chat_is_told_the_hour_once() {
    const HOUR_MS: i64 = 3_600_000;
    let world = world().await;
    let seq = world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let ends = NOW.plus_ms(5 * HOUR_MS);
    let rest = world.hindered(killed(), limited(Some(ends)), NOW).await;
    assert_eq!(rest, STEP_MS / 1_000, "in steps, within what lanes take for a rest");
    let (tries, waits) = world.tries(seq, NOW);
    assert_eq!(
        (tries, waits),
        (0, format!("the end of a limit of the model, at {ends}: https://h says no (429)"))
    );
    let row = world.store.hindrances().unwrap().remove(0);
    let until = ends.plus_ms(spread_ms("main"));
    assert_eq!((row.what, row.ends, row.until), (Hindrance::Limit, Some(ends), until));
    let told = world.texts("local:main").await;
    let hour = g2::domain::time::times::clock(until, NOW, &Zones::utc().of(None).zone);
    assert_eq!(
        told,
        [format!(
            "I can't answer now because the limit of my model is reached. I keep your message, and try again by myself at {hour}."
        )]
    );

    // Its rest is prolonged until the end is there, and no further.
    let mut now = NOW;
    let mut prolonged = 0;
    while now < until {
        now = now.plus_ms(600_000);
        prolonged += usize::from(!world.store.prolong(&folder("main"), now).await.unwrap().is_empty());
        let rests = world.store.waiting_lanes().unwrap()[0].rest_until.unwrap();
        assert!(rests <= until && (rests > now || rests == until), "{now} {rests}");
        assert!(rests.ms_since(now) <= STEP_MS);
    }
    assert!((9..=14).contains(&prolonged), "{prolonged}");
    assert!(world.store.prolong(&folder("family"), NOW).await.unwrap().is_empty());

    // It is not over then: the chat knows.
    world.hindered(killed(), limited(Some(now.plus_ms(HOUR_MS))), now).await;
    assert_eq!(world.texts("local:main").await, told);
}

#[tokio::test]
async fn a_limit_that_only_the_agent_speaks_of_rests_its_lane_too() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let handed = world.start(world.lane()).await;
    world.ready(handed.run).await;
    let error = "claude/rate_limit: You've hit your limit · resets in 2h (UTC)";
    let failed = Record { status: Status::Error, error: Some(error.into()), ..Record::default() };
    world.store.record(handed.run, 2, failed, NOW).await.unwrap();
    world.end(handed.run, End::Exited { code: 0, oom: false }, Cause::Closed).await;
    let row = world.store.hindrances().unwrap().remove(0);
    assert_eq!((row.what, row.ends), (Hindrance::Limit, Some(NOW.plus_ms(7_200_000))));
    assert!(row.why.contains("resets in 2h"), "{}", row.why);
    assert!(world.store.waiting_lanes().unwrap()[0].rest_until.is_some());
}

#[tokio::test]
async fn a_host_without_room_is_asked_again_after_longer_and_longer_rests_up_to_fifty_minutes() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let busy =
        || Cause::Refused(Refused { what: Hindrance::Busy, why: "https://h (529)".into(), until: None });
    let mut now = NOW;
    let mut rests = Vec::new();
    for _ in 0..12 {
        world.hindered(killed(), busy(), now).await;
        let until = world.store.hindrances().unwrap()[0].until;
        rests.push(until.ms_since(now) / 1_000);
        now = until;
    }
    assert_eq!(rests, [5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_000, 3_000]);
    let told = world.texts("local:main").await;
    assert!(told.len() == 1 && told[0].contains("has no room for me"), "{told:?}");
}

#[tokio::test]
async fn a_task_waits_for_the_end_of_a_limit_and_is_not_paused() {
    let world = world().await;
    make(&world, "interval", "45000", serde_json::json!({})).await;
    let due = task(&world).next_run.unwrap();
    let run = start(&world, NOW, due).await.run().unwrap().run;
    let ends = due.plus_ms(7_200_000);
    let end = ended(run, limited(Some(ends)));
    world.store.end_run(end, Zones::utc(), due).await.unwrap();
    let again = ends.plus_ms(spread_ms("main"));
    assert_eq!(task(&world).next_run, Some(again));
    assert_eq!((task(&world).status.as_str(), task(&world).failures), ("active", 0));
    let hour = times::clock(again, due, &TimeZone::UTC);
    let told = format!(
        "Scheduled task t (“p”) can't run now because the limit of my model is reached. I try again by myself at {hour}."
    );
    assert_eq!(world.texts("local:main").await, [told]);
}

#[tokio::test]
async fn another_model_answers_while_the_groups_own_is_at_a_limit_and_work_rests_if_that_one_is_too() {
    let world = world().await;
    let main = folder("main");
    let set = |value: &str| {
        let settings = BTreeMap::from([(Key::ModelFallback, value.to_owned())]);
        world.store.set_group(folder("main"), settings, None, NOW)
    };
    set("small").await.unwrap();
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let end = |run, ends: Time| ended(run, limited(Some(ends)));
    let begins = || world.store.start_run(world.lane(), SandboxName::Process, "me", LIMITS, NOW);
    let ends = NOW.plus_ms(7_200_000);
    assert_eq!(world.store.fallback_of(&main, NOW).unwrap(), None);
    let run = begins().await.unwrap().unwrap().run;
    let ended = world.store.end_run(end(run, ends), Zones::utc(), NOW).await.unwrap();
    assert_eq!(ended.waiting[0].rest_until, None, "the next run is at once");
    assert_eq!(world.store.fallback_of(&main, NOW).unwrap().as_deref(), Some("small"));
    assert_eq!(world.store.fallback_of(&main, ends).unwrap(), None, "its own again");
    assert_eq!(world.store.fallback_of(&folder("family"), NOW).unwrap(), None);
    assert!(world.store.hindrances().unwrap().is_empty());
    let row = world.store.fallbacks(NOW).unwrap().remove(0);
    assert_eq!((row.group, row.model.as_str(), row.until), (main.clone(), "small", ends));
    assert!(world.texts("local:main").await.is_empty(), "before an answer of that model");

    // That one has a limit, too.
    let run = begins().await.unwrap().unwrap().run;
    for _ in 0..2 {
        world.store.falls_back((&main, run), "small".into(), Zones::utc(), NOW).await.unwrap();
    }
    let told = world.texts("local:main").await;
    assert!(told.len() == 1 && told[0].starts_with("I answer with the model small until "), "{told:?}");
    let later = NOW.plus_ms(18_000_000);
    let ended = world.store.end_run(end(run, later), Zones::utc(), NOW.plus_ms(1)).await.unwrap();
    assert!(ended.waiting[0].rest_until.is_some());
    assert_eq!(world.store.hindrances().unwrap()[0].ends, Some(ends), "the own model is there sooner");
    assert_eq!(world.texts("local:main").await.len(), 2);
    assert!(
        !world.store.may_fall_back(&main, NOW).unwrap() && world.store.may_fall_back(&main, ends).unwrap()
    );

    // An owner ends it.
    set("").await.unwrap();
    assert_eq!(world.store.fallback_of(&main, NOW).unwrap(), None);
    assert!(world.store.fallbacks(NOW).unwrap().is_empty());
}

#[tokio::test]
async fn work_waits_at_no_cost_for_a_model_that_there_is_and_for_its_own_where_the_other_one_is_none() {
    let world = world().await;
    let main = folder("main");
    let none = || {
        let refused = Refused { what: Hindrance::NoModel, why: "no model x".into(), until: None };
        Cause::Refused(refused)
    };
    let begins = |at| world.store.start_run(world.lane(), SandboxName::Process, "me", LIMITS, at);
    let seq = world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let run = begins(NOW).await.unwrap().unwrap().run;
    world.store.end_run(ended(run, none()), Zones::utc(), NOW).await.unwrap();
    let row = world.store.hindrances().unwrap().remove(0);
    assert_eq!((row.what, row.ends, row.has_other_models), (Hindrance::NoModel, None, false));
    let told = world.texts("local:main").await;
    assert!(told.len() == 1 && told[0].contains("does not know the model that I am set to"), "{told:?}");
    world.store.try_again(&main, NOW).await.unwrap();

    // It is the one that stands in for the group's own.
    let settings = BTreeMap::from([(Key::ModelFallback, "smal".to_owned())]);
    world.store.set_group(main.clone(), settings, None, NOW).await.unwrap();
    assert!(world.store.hindrances().unwrap()[0].has_other_models);
    let ends = NOW.plus_ms(7_200_000);
    let run = begins(NOW).await.unwrap().unwrap().run;
    world.store.end_run(ended(run, limited(Some(ends))), Zones::utc(), NOW).await.unwrap();
    let run = begins(NOW).await.unwrap().unwrap().run;
    world.store.falls_back((&main, run), "smal".into(), Zones::utc(), NOW).await.unwrap();
    world.store.end_run(ended(run, none()), Zones::utc(), NOW).await.unwrap();
    let row = world.store.hindrances().unwrap().remove(0);
    assert_eq!((row.what, row.ends), (Hindrance::NoModel, Some(ends)), "the own model is asked then");
    // Of a change that came during a run nobody knows whether the run has seen it.
    assert!(row.has_other_models);
    world.store.try_again(&main, NOW).await.unwrap();
    assert!(!world.store.hindrances().unwrap()[0].has_other_models);
    assert_eq!(world.tries(seq, NOW).0, 0);
}

#[tokio::test]
async fn a_task_goes_on_at_once_with_another_model() {
    let world = world().await;
    let settings = BTreeMap::from([(Key::ModelFallback, "small".to_owned())]);
    world.store.set_group(folder("main"), settings, None, NOW).await.unwrap();
    make(&world, "interval", "45000", serde_json::json!({})).await;
    let due = task(&world).next_run.unwrap();
    let run = start(&world, NOW, due).await.run().unwrap().run;
    let end = ended(run, limited(None));
    world.store.end_run(end, Zones::utc(), due).await.unwrap();
    assert_eq!((task(&world).next_run, task(&world).failures), (Some(due), 0));
    assert!(world.texts("local:main").await.is_empty(), "what its run says is for the history");
}

#[tokio::test]
async fn of_limits_the_newest_word_counts_and_what_waited_goes_on_when_one_was_lifted_early() {
    const DAY_MS: i64 = 86_400_000;
    let world = world().await;
    make(&world, "interval", "45000", serde_json::json!({})).await;
    let due = task(&world).next_run.unwrap();
    let run = start(&world, NOW, due).await.run().unwrap().run;
    let end = ended(run, limited(Some(due.plus_ms(7 * DAY_MS))));
    world.store.end_run(end, Zones::utc(), due).await.unwrap();
    assert!(task(&world).next_run.unwrap() > due.plus_ms(6 * DAY_MS));
    // A message tries it in the meantime.
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let soon = due.plus_ms(120_000);
    world.hindered(killed(), limited(Some(soon)), due).await;
    assert_eq!(world.store.hindrances().unwrap()[0].ends, Some(soon));
    let rests = world.store.waiting_lanes().unwrap()[0].rest_until.unwrap();
    assert!(rests <= soon.plus_ms(30_000), "{rests}");
    assert!(world.store.prolong(&folder("main"), rests.plus_ms(-1)).await.unwrap().is_empty());
    let later = rests.plus_ms(1);
    world.store.hinders_no_more(&folder("main"), later).await.unwrap();
    assert_eq!(task(&world).next_run, Some(later), "the newer word was right");

    // A limit that was to last is over.
    world.hindered(killed(), limited(Some(later.plus_ms(DAY_MS))), later).await;
    let woken = world.store.hinders_no_more(&folder("main"), later).await.unwrap();
    assert_eq!(woken, [world.lane()]);
    assert_eq!(task(&world).next_run, Some(later));
    assert_eq!(world.store.waiting_lanes().unwrap()[0].rest_until, None);
    assert!(world.store.hindrances().unwrap().is_empty());
}

#[tokio::test]
async fn a_host_that_says_now_this_and_now_that_is_asked_less_and_less_often() {
    let world = world().await;
    world.message("local:main", "k", "one", EngageVerdict::Wake).await;
    let busy =
        || Cause::Refused(Refused { what: Hindrance::Busy, why: "https://h (529)".into(), until: None });
    let mut now = NOW;
    for (n, rest) in [5, 10, 20, 40].into_iter().enumerate() {
        let cause = if n % 2 == 0 { busy() } else { limited(None) };
        assert_eq!(world.hindered(killed(), cause, now).await, rest);
        now = now.plus_ms(rest * 1_000);
    }
    // Neither does one that always names a short time bring it back at once.
    let rest = world.hindered(killed(), limited(Some(now.plus_ms(1_000))), now).await;
    assert_eq!(rest, 80);
    assert_eq!(world.store.hindrances().unwrap()[0].since, NOW);
}

#[tokio::test]
async fn the_words_of_a_tasks_script_are_no_limit_of_the_model() {
    let world = world().await;
    make(&world, "interval", "45000", serde_json::json!({})).await;
    let due = task(&world).next_run.unwrap();
    let run = start(&world, NOW, due).await.run().unwrap().run;
    world.ready(run).await;
    let error = "the script failed: API rate limit exceeded, try again in 45 minutes";
    let failed = Record { status: Status::Error, error: Some(error.into()), ..Record::default() };
    world.store.record(run, 2, failed, due).await.unwrap();
    let end = EndOfRun {
        run,
        end: End::Exited { code: 0, oom: false },
        cause: Cause::Closed,
        input: None,
        files_bytes: 0,
        retry_base_ms: 5_000,
        tell_retry_ms: None,
    };
    world.store.end_run(end, Zones::utc(), due).await.unwrap();
    assert!(world.store.hindrances().unwrap().is_empty());
    assert_eq!(task(&world).next_run, Some(due.plus_ms(5_000)), "it is tried again as ever");
}
