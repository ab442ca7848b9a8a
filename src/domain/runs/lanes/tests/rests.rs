//! Rests: when a lane that was sent to rest waits again.

use ipc_handlers::Time;

use super::script::{A_IS_IDLE, play, play_after, play_on};
use crate::runs::lanes::LONGEST_REST_MS;

#[test]
fn a_failed_batch_is_tried_again_when_its_rest_is_over_and_not_earlier() {
    let mut lanes = play(
        2,
        "0 waiting a1 -> start a1
         0 ended a a1 until 5 ->
         1 waiting a1 ->
         4 waiting a1 until 3 ->
         4 tick ->",
    );
    assert_eq!(lanes.next_wake(), Some(Time(5_000)));
    play_on(
        &mut lanes,
        "5 tick -> start a1
         5 ended a a1 until 15 ->
         15 tick -> start a1",
    );
    assert_eq!(lanes.next_wake(), None);
}

#[test]
fn a_rest_is_lengthened_by_later_news() {
    play(
        1,
        "0 waiting a1 until 5 ->
         0 waiting a1 until 9 ->
         5 tick ->
         9 tick -> start a1",
    );
}

#[test]
fn a_lane_that_is_woken_waits_no_longer() {
    let lanes = play(
        1,
        "0 waiting a1 until 50 ->
         0 waiting b1 until 60 ->
         1 woken c1 ->
         1 woken b2 ->
         1 woken b1 -> start b1
         1 woken b1 ->
         2 woken a1 ->
         3 ended b -> start a1",
    );
    assert_eq!(lanes.next_wake(), None);
}

#[test]
fn any_event_ends_a_rest_whose_time_has_come() {
    play(
        2,
        "0 waiting a1 until 5 ->
         6 waiting b1 -> start a1, start b1",
    );
}

#[test]
fn rests_that_end_together_are_served_in_the_order_of_their_ends() {
    play(
        1,
        "0 waiting b1 until 4 ->
         0 waiting a1 until 5 ->
         9 tick -> start b1
         9 ended b -> start a1",
    );
}

#[test]
fn a_rest_further_off_than_the_longest_is_over() {
    let too_far = LONGEST_REST_MS / 1000 + 1;
    play(
        2,
        &format!(
            "0 waiting a1 until {too_far} -> start a1
             100 waiting b1 until 150 ->
             {} tick -> start b1",
            149 - too_far
        ),
    );
}

#[test]
fn a_resting_lane_neither_closes_an_idle_run_nor_holds_a_place_in_the_line() {
    play_after(
        1,
        A_IS_IDLE,
        "0 waiting a2 until 9 ->
         0 waiting b1 until 5 ->
         0 waiting a1 until 7 ->
         1 waiting c1 -> close a
         1 ended a a1 a2 -> start c1
         5 tick ->
         8 ended c -> start b1
         8 ended b -> start a1",
    );
}
