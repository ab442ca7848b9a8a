//! Runs: follow-ups, sessions, and how a run is told to leave.

use super::script::{A_IS_BUSY, A_IS_IDLE, play, play_after, play_on};
use crate::runs::lanes::PIPES_WHILE_OTHERS_WAIT;

#[test]
fn after_a_drain_nothing_is_started_piped_or_woken_for() {
    let lanes = play_after(
        2,
        A_IS_IDLE,
        "0 waiting b1 until 9 ->
         1 drain ->
         1 waiting a1 ->
         1 waiting c1 ->
         1 due c:t ->
         1 waiting c2 until 9 ->
         2 resume ->
         2 ended a a1 ->
         9 tick ->",
    );
    assert_eq!(lanes.next_wake(), None);
}

#[test]
fn nothing_is_piped_into_a_tasks_run() {
    play(
        2,
        "0 due a:t -> start a:t
         0 ready a ->
         0 waiting a1 ->
         1 idle a -> close a
         1 ended a -> start a1",
    );
}

#[test]
fn follow_ups_wait_until_the_run_is_ready_and_go_in_one_at_a_time() {
    play(
        2,
        "0 waiting a1 -> start a1
         0 waiting a1 ->
         1 ready a -> pipe a1
         1 waiting a1 ->
         1 busy a -> pipe a1
         1 busy a ->
         2 idle a ->
         9 waiting a1 -> pipe a1",
    );
}

#[test]
fn nothing_is_piped_into_a_closing_run() {
    play_after(
        2,
        A_IS_BUSY,
        "0 close-asked a -> close a
         0 waiting a1 ->
         0 busy a ->
         0 idle a ->
         0 ready a ->
         0 close-asked a ->
         1 ended a a1 -> start a1",
    );
}

#[test]
fn an_idle_run_is_closed_for_another_lane_of_its_group() {
    play_after(
        5,
        A_IS_IDLE,
        "1 waiting a2 -> close a
         1 waiting a1 ->
         2 ended a a1 a2 -> start a2
         2 ready a ->
         2 idle a -> close a
         3 ended a a1 -> start a1",
    );
}

#[test]
fn a_cleared_session_closes_even_a_busy_run_and_the_rest_goes_to_a_new_one() {
    play_after(
        2,
        A_IS_BUSY,
        "0 waiting a1 -> pipe a1
         0 cleared a1 g2 -> close a
         0 pipe-failed a1 ->
         0 cleared a1 g3 ->
         1 ended a a1 g3 -> start a1
         1 cleared a1 g3 ->
         1 ready a ->
         2 waiting a1 g3 -> pipe a1",
    );
}

#[test]
fn clearing_another_lane_leaves_the_run_alone() {
    play_after(
        2,
        A_IS_BUSY,
        "0 cleared a2 g2 ->
         0 cleared b1 g2 ->",
    );
}

#[test]
fn what_waits_with_a_newer_generation_is_not_piped_and_closes_the_run_when_it_is_idle() {
    play_after(
        2,
        A_IS_BUSY,
        "0 waiting a1 g2 ->
         1 idle a -> close a
         1 ended a a1 g2 -> start a1",
    );
}

#[test]
fn while_others_wait_a_run_gets_so_many_follow_ups_and_then_has_to_finish() {
    let mut lanes = play_after(1, A_IS_BUSY, "0 waiting b1 ->");
    for _ in 0..PIPES_WHILE_OTHERS_WAIT {
        play_on(
            &mut lanes,
            "1 waiting a1 -> pipe a1
             1 busy a ->",
        );
    }
    play_on(
        &mut lanes,
        "2 waiting a1 ->
         2 busy a ->
         3 idle a -> close a
         4 ended a a1 -> start b1
         5 ended b -> start a1",
    );
}

#[test]
fn a_run_gets_follow_ups_again_when_nobody_waits_any_more() {
    let mut lanes = play_after(1, A_IS_BUSY, "0 waiting a2 ->\n 0 waiting b1 ->");
    for _ in 0..PIPES_WHILE_OTHERS_WAIT {
        play_on(&mut lanes, "1 waiting a1 -> pipe a1 \n 1 busy a ->");
    }
    play_on(
        &mut lanes,
        "2 waiting a1 ->
         2 emptied b1 ->
         2 emptied a2 -> pipe a1",
    );
}

#[test]
fn a_failed_pipe_is_tried_once_more_and_then_the_lane_gets_a_new_run() {
    play_after(
        2,
        A_IS_IDLE,
        "1 waiting a1 -> pipe a1
         1 pipe-failed a1 -> pipe a1
         1 pipe-failed a1 -> close a
         2 ended a a1 -> start a1",
    );
}

#[test]
fn a_busy_run_whose_pipes_fail_stays_until_it_is_idle() {
    play_after(
        2,
        A_IS_BUSY,
        "1 waiting a1 -> pipe a1
         1 pipe-failed a1 -> pipe a1
         1 pipe-failed a1 ->
         1 waiting a1 ->
         2 idle a -> close a",
    );
}

#[test]
fn a_failed_pipe_of_a_run_that_has_ended_changes_nothing() {
    play_after(
        2,
        A_IS_BUSY,
        "1 waiting a1 -> pipe a1
         2 ended a ->
         2 pipe-failed a1 ->",
    );
}

#[test]
fn a_pipe_that_found_nothing_leaves_the_run_as_it_was() {
    play_after(
        1,
        A_IS_IDLE,
        "1 waiting a1 -> pipe a1
         1 pipe-empty a1 ->
         2 waiting b1 -> close a",
    );
}

#[test]
fn what_is_told_while_a_pipe_finds_nothing_is_not_lost() {
    play_after(
        1,
        A_IS_IDLE,
        "1 waiting a1 -> pipe a1
         1 waiting a1 ->
         1 pipe-empty a1 -> pipe a1",
    );
}

#[test]
fn a_group_that_is_removed_is_forgotten_and_its_run_closed() {
    let lanes = play_after(
        2,
        A_IS_BUSY,
        "0 due a:t ->
         0 waiting a2 until 9 ->
         0 removed a -> close a
         0 removed a ->
         0 removed b ->
         1 ended a ->",
    );
    assert_eq!(lanes.next_wake(), None);
}

#[test]
fn what_begins_to_wait_while_the_run_ends_is_not_lost() {
    play_after(
        2,
        A_IS_BUSY,
        "1 close-asked a -> close a
         1 waiting a2 ->
         2 ended a a1 -> start a2
         3 ended a -> start a1",
    );
}

#[test]
fn news_that_do_not_fit_the_state_change_nothing() {
    play(
        2,
        "0 ready a ->
         0 idle a ->
         0 busy a ->
         0 pipe-failed a1 ->
         0 cleared a1 g9 ->
         0 close-asked a ->
         0 emptied a1 ->
         0 pipe-empty a1 ->
         0 release a ->
         0 ended a ->
         1 waiting a1 -> start a1
         1 busy a ->
         1 waiting a1 ->",
    );
}

#[test]
fn a_failed_pipe_told_late_does_not_touch_the_next_run() {
    play_after(
        2,
        A_IS_BUSY,
        "1 waiting a1 -> pipe a1
         2 ended a a1 -> start a1
         2 pipe-failed a1 ->
         3 ready a ->",
    );
}

#[test]
fn news_of_an_older_generation_count_as_the_known_one() {
    play(
        2,
        "0 waiting a1 g2 -> start a1
         0 ready a ->
         1 waiting a1 g1 -> pipe a1
         1 busy a ->
         1 cleared a1 g1 ->",
    );
}
