use proptest::prelude::*;

use super::*;

const BASE: i64 = retry::BASE_MS;
const READY: Runner = Runner::Two(Readiness::Ready);
const NOT_READY: Runner = Runner::Two(Readiness::NotYet);

fn exited(code: i64) -> End {
    End::Exited { code, oom: false }
}

fn ended(end: End, runner: Runner, cause: Cause) -> Ended {
    Ended { end, runner, cause, error_record: None }
}

fn on_stdin() -> Batch {
    let (tries, free_returns, retries) = (0, 0, retry::MAX_RETRIES);
    Batch { reached: Reached::OnStdin, said: Said::Nothing, tries, free_returns, retries }
}

fn returned(tries: u32, free_returns: u32, rest_ms: i64) -> Judgement {
    Judgement::Returned { tries, free_returns, rest_ms }
}

#[track_caller]
fn check(ended: &Ended, batch: Batch, expected: &Judgement) {
    let (_, judgements) = judge(ended, &[batch], BASE);
    assert_eq!(judgements, std::slice::from_ref(expected), "{ended:?} {batch:?}");
}

#[track_caller]
fn check_failed(ended: &Ended, batch: Batch, words: &str) {
    let (_, judgements) = judge(ended, &[batch], BASE);
    match judgements.as_slice() {
        [Judgement::Failed { notice }] if notice.contains(words) => {}
        other => panic!("{ended:?} {batch:?}: {other:?}"),
    }
}

#[test]
fn every_crash_that_the_design_lists_gives_its_batch_back() {
    let owner_gone = |end, runner| ended(end, runner, Cause::OwnerGone);
    // Queued, no container of its name; or created and never started.
    check(&owner_gone(End::NeverCreated, NOT_READY), on_stdin(), &returned(0, 0, 0));
    check(
        &owner_gone(End::NeverCreated, NOT_READY),
        Batch { tries: 3, free_returns: 2, ..on_stdin() },
        &returned(3, 2, 0),
    );
    // Started, its document not whole: killed.
    check(&owner_gone(exited(137), NOT_READY), on_stdin(), &returned(0, 1, 0));
    check(&owner_gone(exited(137), NOT_READY), Batch { free_returns: 1, ..on_stdin() }, &returned(0, 2, 0));
    check(
        &owner_gone(exited(137), NOT_READY),
        Batch { free_returns: 2, ..on_stdin() },
        &returned(1, 2, 5_000),
    );
    // At work when it died: our own death is not its fault, but it may be the cause.
    for end in [exited(137), End::Gone] {
        let at_work = owner_gone(end, READY);
        check(&at_work, on_stdin(), &returned(0, 1, 0));
        check(&at_work, Batch { free_returns: 1, ..on_stdin() }, &returned(0, 2, 0));
        check(&at_work, Batch { free_returns: 2, ..on_stdin() }, &returned(1, 2, 5_000));
        check_failed(&at_work, Batch { free_returns: 2, tries: 5, ..on_stdin() }, "because I was restarted");
    }
}

#[test]
fn a_message_that_met_the_end_of_the_budget_is_asked_again_twice_at_no_cost() {
    let out = Ended {
        error_record: Some("claude/billing: x".into()),
        ..ended(exited(1), READY, Cause::OutOfBudget)
    };
    check(&out, on_stdin(), &returned(0, 1, 5_000));
    check(&out, Batch { free_returns: 2, ..on_stdin() }, &returned(1, 2, 5_000));
    check_failed(
        &out,
        Batch { said: Said::Something, ..on_stdin() },
        "today's budget for my work is used up",
    );
    check(&out, Batch { reached: Reached::Done, ..on_stdin() }, &Judgement::Done);
    assert_eq!(fault(&out), Fault::Nobodys);
    let (last, _) = judge(&out, &[on_stdin()], BASE);
    assert_eq!(last.error.as_deref(), Some("the group's budget of the day is used up"));
    // It had answered, and was refused something beside that.
    let well = Ended { error_record: None, ..ended(exited(0), READY, Cause::OutOfBudget) };
    assert_eq!(judge_run(&well, 0).went, Went::Well);
}

#[test]
fn a_missing_image_an_engine_and_our_own_death_are_no_fault_of_the_agent() {
    let engine = || End::Engine { doing: "create".to_owned(), why: "no space".to_owned() };
    let not_now = || End::NotNow { why: "no engine".to_owned() };
    for (end, cause, whose, begins) in [
        (End::NoImage { image: "i".to_owned() }, Cause::Itself, Fault::Hosts, false),
        (engine(), Cause::Itself, Fault::Hosts, false),
        (not_now(), Cause::Itself, Fault::Hosts, false),
        (End::Gone, Cause::Itself, Fault::Hosts, true),
        (End::NeverCreated, Cause::Itself, Fault::Nobodys, true),
        (exited(137), Cause::OwnerGone, Fault::Nobodys, true),
        (exited(0), stopped(StopThen::GiveUp), Fault::Nobodys, true),
        (exited(1), Cause::Itself, Fault::Agents, true),
        (End::Gone, Cause::NeverReady { limit_ms: 1, seen: String::new() }, Fault::Agents, true),
        (exited(137), Cause::NoSpace { reason: "x".to_owned() }, Fault::Agents, true),
    ] {
        let ended = ended(end, READY, cause);
        assert_eq!((fault(&ended), could_not_begin(&ended)), (whose, !begins), "{ended:?}");
    }
    check(
        &ended(not_now(), NOT_READY, Cause::Itself),
        Batch { tries: 4, ..on_stdin() },
        &returned(4, 0, 5_000),
    );
}

fn refused() -> Cause {
    Cause::Refused(Refused {
        what: Hindrance::Key,
        why: "H does not take the key (401)".to_owned(),
        until: None,
    })
}

#[test]
fn what_the_host_lacks_costs_a_batch_no_try_however_often_and_it_rests_as_long_as_is_said() {
    let no_image = || End::NoImage { image: "g2-agent".to_owned() };
    let not_now = || End::NotNow { why: "no engine".to_owned() };
    let spent = Batch { tries: 5, free_returns: MAX_FREE_RETURNS, ..on_stdin() };
    for (end, runner, cause, what) in [
        (no_image(), NOT_READY, Cause::Itself, Hindrance::NoImage),
        (not_now(), NOT_READY, Cause::Itself, Hindrance::Engine),
        (exited(137), READY, refused(), Hindrance::Key),
        (exited(137), NOT_READY, refused(), Hindrance::Key),
        (exited(0), NOT_READY, refused(), Hindrance::Key),
        (End::Gone, READY, refused(), Hindrance::Key),
    ] {
        let ended = ended(end, runner, cause);
        assert_eq!((hindrance(&ended), could_not_begin(&ended)), (Some(what), true), "{ended:?}");
        let (last, judgements) = judge(&ended, &[on_stdin(), spent], 640_000);
        assert_eq!(
            judgements,
            [returned(0, 0, 640_000), returned(5, MAX_FREE_RETURNS, 640_000)],
            "{ended:?}"
        );
        assert_eq!(last.went, Went::Wrong, "{ended:?}");
    }
    let said = ended(exited(137), READY, refused());
    check_failed(
        &said,
        Batch { said: Said::Something, ..on_stdin() },
        "the host of my model does not take my key",
    );
    assert_eq!(judge_run(&said, 1).error.as_deref(), Some("H does not take the key (401)"));
    check(&said, Batch { reached: Reached::Done, ..on_stdin() }, &Judgement::Done);
    // It has answered, and was refused something beside that.
    assert_eq!(judge_run(&ended(exited(0), READY, refused()), 0).went, Went::Well);
    // What the group itself asks for can be wrong for good.
    let own = End::Engine { doing: "create".to_owned(), why: "no such mount".to_owned() };
    assert_eq!(hindrance(&ended(own, NOT_READY, Cause::Itself)), None);
}

#[test]
fn an_unread_batch_costs_no_try_twice_and_then_one_each_time() {
    for (end, cause) in [
        (End::Engine { doing: "create".to_owned(), why: "no space".to_owned() }, Cause::Itself),
        (exited(137), Cause::NeverReady { limit_ms: 180_000, seen: String::new() }),
        (exited(0), Cause::Itself),
        (exited(1), Cause::Itself),
        (End::Exited { code: 137, oom: true }, Cause::Itself),
    ] {
        let ended = ended(end, NOT_READY, cause);
        check(&ended, on_stdin(), &returned(0, 1, 5_000));
        check(&ended, Batch { free_returns: 1, ..on_stdin() }, &returned(0, 2, 10_000));
        check(&ended, Batch { free_returns: 2, ..on_stdin() }, &returned(1, 2, 5_000));
        check(&ended, Batch { free_returns: 2, tries: 4, ..on_stdin() }, &returned(5, 2, 80_000));
        check_failed(&ended, Batch { free_returns: 2, tries: 5, ..on_stdin() }, "6 attempts failed");
    }
}

#[test]
fn a_file_that_came_back_unread_is_handed_out_again_at_once_and_whatever_was_said() {
    let closed = ended(exited(0), READY, Cause::Closed);
    for said in [Said::Nothing, Said::Something] {
        let unread = Batch { reached: Reached::FileUnread, said, ..on_stdin() };
        check(&closed, unread, &returned(0, 1, 0));
        assert_eq!(judge(&closed, &[unread], BASE).0.went, Went::Well);
        check(&ended(exited(1), READY, Cause::Itself), unread, &returned(0, 1, 5_000));
    }
}

#[test]
fn a_batch_in_hand_costs_a_try_and_fails_after_the_fifth_retry() {
    let stuck = ended(exited(137), READY, Cause::Unwell { reason: "gave no sign of life".to_owned() });
    for state in [Reached::OnStdin, Reached::FileTaken] {
        for (tries, rest_ms) in [(0, 5_000), (1, 10_000), (2, 20_000), (3, 40_000), (4, 80_000)] {
            check(&stuck, Batch { reached: state, tries, ..on_stdin() }, &returned(tries + 1, 0, rest_ms));
        }
        check_failed(
            &stuck,
            Batch { reached: state, tries: 5, ..on_stdin() },
            "6 attempts failed, the last one because I got stuck",
        );
    }
    let no_room = ended(exited(137), READY, Cause::NoSpace { reason: "the disk is nearly full".to_owned() });
    assert_eq!(
        judge(&no_room, &[on_stdin()], BASE).0.error.as_deref(),
        Some("stopped: the disk is nearly full")
    );
    check_failed(
        &no_room,
        Batch { tries: 5, ..on_stdin() },
        "6 attempts failed, the last one because the disk was nearly full and I wrote too much to it",
    );
    // Leaving in good order does not finish the batches in hand.
    check(&ended(exited(0), READY, Cause::Itself), on_stdin(), &returned(1, 0, 5_000));
    check(&ended(exited(0), READY, Cause::Closed), on_stdin(), &returned(1, 0, 5_000));
}

#[test]
fn a_batch_that_something_was_said_about_is_never_handed_out_again() {
    for (end, runner, cause, words) in [
        (exited(137), READY, Cause::OwnerGone, "I was restarted"),
        (exited(1), READY, Cause::Itself, "I crashed"),
        (End::Exited { code: 137, oom: true }, READY, Cause::Itself, "I ran out of memory"),
        (exited(137), READY, Cause::Flooded { limit_bytes: 9 }, "too much output"),
        (exited(137), READY, Cause::Gap { expected: 3, got: 5 }, "output was lost"),
        (End::Gone, READY, Cause::Itself, "disappeared"),
        (exited(0), READY, Cause::Closed, "stopped too early"),
        (exited(1), NOT_READY, Cause::Itself, "I crashed"),
        (exited(1), Runner::One, Cause::Itself, "I crashed"),
    ] {
        check_failed(&ended(end, runner, cause), Batch { said: Said::Something, ..on_stdin() }, words);
    }
}

#[test]
fn a_done_batch_is_done_however_the_run_ended() {
    let done =
        Batch { reached: Reached::Done, said: Said::Something, tries: 9, free_returns: 9, ..on_stdin() };
    for end in [exited(0), exited(1), End::Gone, End::NeverCreated] {
        check(&ended(end, READY, Cause::OwnerGone), done, &Judgement::Done);
    }
}

#[test]
fn a_v1_runner_that_leaves_with_0_has_done_what_it_was_given() {
    let v1 = |code, cause| ended(exited(code), Runner::One, cause);
    for said in [Said::Nothing, Said::Something] {
        check(&v1(0, Cause::Itself), Batch { said, ..on_stdin() }, &Judgement::Done);
    }
    check(&v1(0, Cause::Itself), Batch { reached: Reached::FileUnread, ..on_stdin() }, &returned(0, 1, 0));
    check(&v1(1, Cause::Itself), on_stdin(), &returned(1, 0, 5_000));
    let error = Ended { error_record: Some("overloaded".to_owned()), ..v1(0, Cause::Itself) };
    check(&error, on_stdin(), &returned(1, 0, 5_000));
    check(&ended(End::Gone, Runner::One, Cause::Itself), on_stdin(), &returned(1, 0, 5_000));
}

#[test]
fn a_run_ends_with_the_word_and_the_reason_that_tell_most() {
    use Went::*;
    let oom = End::Exited { code: 137, oom: true };
    let unwell = || Cause::Unwell { reason: "gave no sign of life for 60 s".to_owned() };
    for (end, cause, in_hand, went, error) in [
        (exited(0), Cause::Itself, 0, Well, None),
        (exited(0), Cause::Closed, 0, Well, None),
        (exited(137), Cause::Closed, 0, Well, None),
        (exited(143), Cause::Closed, 0, Well, None),
        (exited(1), Cause::Closed, 0, Wrong, Some("exited with code 1")),
        (exited(137), Cause::Itself, 0, Wrong, Some("exited with code 137")),
        (exited(0), Cause::Itself, 1, Wrong, Some("ended with a message in hand")),
        (exited(0), Cause::Closed, 2, Wrong, Some("ended with 2 batches of messages in hand")),
        (exited(0), stopped(StopThen::AskAgain), 1, Cancelled, Some("stopped by uid 0")),
        (oom.clone(), Cause::Itself, 0, Wrong, Some("out of memory")),
        (oom, unwell(), 1, Wrong, Some("ended because it gave no sign of life for 60 s")),
        (
            exited(137),
            Cause::NeverReady { limit_ms: 180_000, seen: String::new() },
            1,
            Wrong,
            Some("not ready within 3 minutes"),
        ),
        (exited(137), Cause::Flooded { limit_bytes: 1024 }, 0, Wrong, Some("wrote more than 1024 bytes")),
        (
            exited(0),
            Cause::Gap { expected: 3, got: 5 },
            0,
            Wrong,
            Some("record 3 is missing: 5 came instead"),
        ),
        (exited(0), Cause::OwnerGone, 0, Wrong, Some("recovered stale active run")),
        (End::NeverCreated, Cause::Itself, 1, Wrong, Some("recovered stale active run")),
        (End::Gone, Cause::Itself, 0, Wrong, Some("the container is gone")),
        (End::Gone, Cause::Closed, 0, Well, None),
        (
            End::NoImage { image: "g2-agent:latest".to_owned() },
            Cause::Itself,
            1,
            Wrong,
            Some("image g2-agent:latest is not there; build it with `g2 image build g2-agent:latest`"),
        ),
        (
            End::Engine {
                doing: "starting the container".to_owned(),
                why: "no space left\non device".to_owned(),
            },
            Cause::Itself,
            1,
            Wrong,
            Some("starting the container failed: no space left"),
        ),
    ] {
        let ended = ended(end, READY, cause);
        let expected = Final { went, error: error.map(str::to_owned) };
        assert_eq!(judge_run(&ended, in_hand), expected, "{ended:?}");
    }
}

#[test]
fn an_error_record_is_the_reason_and_is_cut_but_a_chat_is_not_shown_it() {
    let long = format!("/secret/path {}\nsecond line", "é".repeat(1_000));
    let ended = Ended { error_record: Some(long), ..ended(exited(1), READY, Cause::Itself) };
    let error = judge_run(&ended, 1).error.unwrap();
    assert!(error.starts_with("/secret/path é") && error.ends_with("é…"), "{error}");
    assert_eq!(error.chars().count(), 501);
    let (_, judgements) = judge(&ended, &[Batch { said: Said::Something, ..on_stdin() }], BASE);
    let [Judgement::Failed { notice }] = judgements.as_slice() else { panic!("{judgements:?}") };
    assert!(notice.contains("(there was an error)") && !notice.contains("secret"), "{notice}");
}

fn any_ended() -> impl Strategy<Value = Ended> {
    let end = prop_oneof![
        Just(End::NeverCreated),
        Just(End::NotNow { why: "w".to_owned() }),
        Just(End::NoImage { image: "i".to_owned() }),
        Just(End::Engine { doing: "create".to_owned(), why: "w".to_owned() }),
        (prop::sample::select(vec![0_i64, 1, 137, 143]), any::<bool>())
            .prop_map(|(code, oom)| End::Exited { code, oom }),
        Just(End::Gone),
    ];
    let runner = prop::sample::select(vec![Runner::One, READY, NOT_READY]);
    let cause = prop::sample::select(vec![
        Cause::Itself,
        Cause::Closed,
        stopped(StopThen::GiveUp),
        Cause::Unwell { reason: "x".to_owned() },
        Cause::NoSpace { reason: "x".to_owned() },
        Cause::NeverReady { limit_ms: 1, seen: String::new() },
        Cause::Flooded { limit_bytes: 1 },
        Cause::Gap { expected: 1, got: 2 },
        Cause::OwnerGone,
        Cause::OutOfBudget,
    ]);
    let error = prop::option::of(Just("e".to_owned()));
    (end, runner, cause, error).prop_map(|(end, runner, cause, error_record)| Ended {
        end,
        runner,
        cause,
        error_record,
    })
}

proptest! {
    #[test]
    fn no_batch_is_handed_out_for_ever_lost_or_answered_twice(
        runs in prop::collection::vec((any_ended(), any::<bool>()), 30),
        state in prop::sample::select(vec![Reached::OnStdin, Reached::FileTaken, Reached::FileAbsent, Reached::FileUnread]),
    ) {
        let mut batch = Batch { reached: state, ..on_stdin() };
        let mut spent = 0;
        for (ended, speaks) in runs {
            batch.said = if speaks { Said::Something } else { Said::Nothing };
            let (last_word, judgements) = judge(&ended, &[batch], BASE);
            prop_assert_eq!(last_word.error.is_none(), last_word.went == Went::Well);
            match &judgements[..] {
                [Judgement::Returned { tries, free_returns, rest_ms }] => {
                    let never_was = matches!(ended.end, End::NeverCreated | End::NotNow { .. });
                    prop_assert!(!speaks || batch.reached == Reached::FileUnread || never_was);
                    prop_assert!((0..=80_000).contains(rest_ms));
                    prop_assert!(*tries <= retry::MAX_RETRIES && *free_returns <= MAX_FREE_RETURNS);
                    spent += u32::from((*tries, *free_returns) != (batch.tries, batch.free_returns));
                    prop_assert!(spent <= retry::MAX_RETRIES + MAX_FREE_RETURNS);
                    (batch.tries, batch.free_returns) = (*tries, *free_returns);
                }
                [Judgement::Failed { notice }] => {
                    prop_assert!(!notice.is_empty());
                    return Ok(());
                }
                [Judgement::Done] => {
                    prop_assert_eq!(ended.runner, Runner::One);
                    return Ok(());
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}

fn stopped(then: StopThen) -> Cause {
    Cause::Cancelled { by: "uid 0".to_owned(), then }
}

#[test]
fn what_a_stopped_run_had_in_hand_is_given_up_or_asked_again_at_no_cost_as_the_person_says() {
    let all = [
        (exited(0), READY),
        (exited(137), READY),
        (exited(137), NOT_READY),
        (exited(0), Runner::One),
        (End::NeverCreated, NOT_READY),
        (End::Gone, READY),
    ];
    for (end, runner) in all {
        for said in [Said::Nothing, Said::Something] {
            let batch = |reached| Batch { reached, said, tries: 5, free_returns: 2, ..on_stdin() };
            for then in [StopThen::GiveUp, StopThen::AskAgain] {
                let ended = ended(end.clone(), runner, stopped(then));
                check(&ended, batch(Reached::Done), &Judgement::Done);
                check(&ended, batch(Reached::FileUnread), &returned(5, 2, 0));
                for reached in [Reached::OnStdin, Reached::FileTaken, Reached::FileAbsent] {
                    match then {
                        StopThen::GiveUp => check_failed(&ended, batch(reached), "told to stop"),
                        StopThen::AskAgain => check(&ended, batch(reached), &returned(5, 2, 0)),
                    }
                }
            }
        }
    }
}
