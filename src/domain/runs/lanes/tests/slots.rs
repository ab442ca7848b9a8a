//! Slots: the order of starts, and the groups that make room for others.

use std::num::NonZeroUsize;

use ipc_handlers::Time;

use super::script::{A_IS_BUSY, A_IS_IDLE, folder, play, play_after};
use crate::runs::lanes::{Action, Event, LaneId, Lanes, WaitingLane, Work};

#[test]
fn a_group_never_has_two_containers() {
    play(
        2,
        "0 waiting a1 -> start a1
         0 waiting a1 ->
         0 waiting a2 ->
         0 due a:t ->",
    );
}

#[test]
fn the_cap_holds_and_a_freed_slot_goes_to_who_waits() {
    play(
        2,
        "0 waiting a1 -> start a1
         0 waiting b1 -> start b1
         0 waiting c1 ->
         0 ready a ->
         1 ended a -> start c1
         1 ended b ->
         1 ended c ->",
    );
}

#[test]
fn people_go_first_and_a_task_that_was_passed_over_goes_next() {
    play_after(
        1,
        A_IS_BUSY,
        "0 waiting a2 ->
         0 due a:t ->
         0 due a:u ->
         0 idle a -> close a
         1 ended a a2 a1 -> start a2
         1 ready a ->
         1 idle a -> close a
         2 ended a a1 -> start a:t
         2 idle a -> close a
         3 ended a a1 -> start a1
         3 idle a -> close a
         4 ended a -> start a:u",
    );
}

#[test]
fn a_person_waits_for_the_task_at_work_alone_however_many_are_due() {
    play(
        1,
        "0 due a:t -> start a:t
         0 due a:u ->
         1 waiting a1 ->
         1 due a:v ->
         1 idle a -> close a
         2 ended a a1 -> start a1
         3 due a:t ->
         3 idle a -> close a
         4 ended a -> start a:u",
    );
}

#[test]
fn a_task_that_was_passed_over_and_is_gone_leaves_no_right_to_another() {
    play(
        1,
        "0 hold a ->
         0 due a:t ->
         0 waiting a1 ->
         0 waiting a2 ->
         0 release a -> start a1
         0 gone a:t ->
         0 due a:u ->
         1 ended a a2 -> start a2
         2 ended a -> start a:u",
    );
}

#[test]
fn a_task_that_is_queued_or_running_is_not_taken_twice() {
    play(
        1,
        "0 due a:t -> start a:t
         0 due a:t ->
         0 due a:u ->
         0 due a:u ->
         1 ended a -> start a:u
         1 ended a ->
         2 due a:t -> start a:t",
    );
}

#[test]
fn a_task_that_is_gone_is_not_started() {
    play_after(
        1,
        A_IS_BUSY,
        "0 due a:t ->
         0 gone a:t ->
         0 idle a ->
         0 gone b:t ->",
    );
}

#[test]
fn a_busy_run_is_not_closed_for_a_task() {
    play_after(2, A_IS_BUSY, "0 due a:t ->");
}

#[test]
fn an_idle_run_is_closed_once_when_a_task_comes() {
    play_after(
        2,
        A_IS_IDLE,
        "0 due a:t -> close a
         0 due a:u ->
         0 idle a ->
         0 ended a -> start a:t",
    );
}

#[test]
fn a_run_that_was_idle_and_got_a_follow_up_is_not_closed_for_a_task() {
    play_after(
        2,
        A_IS_IDLE,
        "0 waiting a1 -> pipe a1
         0 due a:t ->
         0 busy a ->
         0 due a:u ->
         1 idle a -> close a",
    );
}

#[test]
fn a_tasks_run_is_closed_as_soon_as_it_is_idle() {
    play(
        2,
        "0 due a:t -> start a:t
         0 ready a ->
         1 idle a -> close a
         1 ended a ->",
    );
}

#[test]
fn a_busy_group_gets_its_second_turn_after_those_who_wait() {
    play_after(
        1,
        A_IS_BUSY,
        "0 due a:t ->
         1 waiting b1 ->
         1 waiting c1 ->
         2 idle a -> close a
         2 ended a a1 -> start b1
         3 ended b b1 -> start c1
         4 ended c -> start a1",
    );
}

#[test]
fn idle_runs_are_closed_for_groups_that_wait_longest_idle_first_and_no_more_than_needed() {
    play(
        3,
        "0 waiting a1 -> start a1
         0 waiting b1 -> start b1
         0 waiting c1 -> start c1
         1 ready a ->
         1 ready b ->
         1 ready c ->
         2 idle b ->
         3 idle c ->
         4 idle a ->
         4 idle b ->
         5 waiting d1 -> close b
         5 waiting d2 ->
         6 waiting e1 -> close c
         7 ended b -> start d1
         8 ended c -> start e1",
    );
}

#[test]
fn a_run_that_becomes_idle_while_others_wait_is_closed_unless_enough_are_closing() {
    play(
        2,
        "0 waiting a1 -> start a1
         0 waiting b1 -> start b1
         0 waiting c1 ->
         1 idle a -> close a
         2 idle b ->
         3 ended a -> start c1",
    );
}

#[test]
fn adopted_runs_count_and_may_exceed_the_cap() {
    play(
        1,
        "0 adopted a1 busy ->
         0 adopted b:t starting ->
         0 adopted c1 closing ->
         0 adopted a2 idle ->
         0 waiting d1 ->
         0 waiting a1 -> pipe a1
         0 due b:t ->
         1 ended c ->
         1 busy a ->
         2 idle a -> close a
         3 ended a ->
         4 ready b ->
         4 idle b -> close b
         5 ended b -> start d1",
    );
}

#[test]
fn an_adopted_task_is_not_queued_any_more() {
    play(
        1,
        "0 hold a ->
         0 due a:t ->
         1 adopted a:t busy ->
         1 release a ->
         2 idle a -> close a
         2 ended a ->",
    );
}

#[test]
fn a_group_that_is_set_aside_is_left_alone_and_keeps_no_slot_from_others() {
    play(
        1,
        "0 aside a ->
         0 waiting a1 ->
         0 waiting b1 -> start b1
         1 idle b ->
         1 aside b ->
         1 waiting b2 ->
         1 due b:t ->
         2 back a ->
         2 back b -> close b
         3 ended b b2 -> start a1",
    );
}

#[test]
fn a_run_that_may_be_alive_takes_a_slot_until_somebody_knows() {
    play(
        2,
        "0 pause ->
         0 hold a ->
         0 hold b ->
         0 waiting c1 ->
         0 waiting d1 ->
         1 resume ->
         1 adopted a1 busy ->
         1 release a ->
         2 release b -> start c1
         3 ended a -> start d1",
    );
}

#[test]
fn a_group_that_is_held_for_two_reasons_is_left_alone_until_both_are_over() {
    for first_over in ["release", "not-removed"] {
        let then = if first_over == "release" { "not-removed" } else { "release" };
        play(
            1,
            &format!(
                "0 hold a ->
                 0 remove a ->
                 0 waiting a1 ->
                 1 {first_over} a ->
                 1 {first_over} a ->
                 2 {then} a -> start a1"
            ),
        );
    }
}

#[test]
fn a_held_run_is_closed_when_that_is_asked_for() {
    play_after(2, A_IS_BUSY, "0 hold a ->\n 0 close-asked a -> close a");
}

#[test]
fn a_pause_stops_starts_but_not_follow_ups_and_closes_nobody() {
    play_after(
        2,
        A_IS_IDLE,
        "0 pause ->
         0 waiting b1 ->
         0 due a:t ->
         0 waiting a1 -> pipe a1
         0 busy a ->
         1 idle a ->
         2 resume -> start b1, close a",
    );
}

#[test]
fn a_higher_cap_starts_those_who_wait_and_a_lower_one_ends_nobody() {
    play(
        1,
        "0 waiting a1 -> start a1
         0 waiting b1 ->
         0 waiting c1 ->
         1 cap 2 -> start b1
         2 cap 1 ->
         3 ended a ->
         4 ended b -> start c1",
    );
}

#[test]
fn a_thousand_waiting_groups_are_each_served_before_one_is_served_again() {
    let mut lanes = Lanes::new(NonZeroUsize::new(5).unwrap());
    let names: Vec<_> = (0..1000).map(|n| folder(&format!("group-{n}"))).collect();
    let waiting = WaitingLane { lane: LaneId(1), generation: 1, not_before: None };
    let mut served: Vec<Action> = Vec::new();
    for _ in 0..5 {
        for group in &names {
            served.extend(lanes.on(Event::Waiting { group: group.clone(), waiting }, Time(0)));
        }
    }
    for group in &names {
        served.extend(lanes.on(Event::Ended { group: group.clone(), waiting: vec![] }, Time(1)));
    }
    // The first five had news while they ran, so they have a second turn after everybody's first.
    let in_turn = names.iter().chain(&names[..5]);
    let expected: Vec<Action> =
        in_turn.map(|group| Action::Start { group: group.clone(), work: Work::Lane(LaneId(1)) }).collect();
    assert!(served == expected, "served in another order");
}
