//! Random lives of the world in `world.rs`, each run to quiet at its end.

use proptest::prelude::*;

use super::world::{End, LANES, Mode, Pipe, Told, ToldRest, World};
use crate::runs::lanes::{AdoptedState, LaneId, Load, Work};

/// Groups in the world.
const GROUPS: usize = 6;

#[derive(Clone, Debug)]
enum Op {
    Message(usize, usize, ToldRest),
    Empty(usize, usize),
    Wake(usize, usize),
    Task(usize, usize),
    TaskGone(usize, usize),
    NextPipe(usize, Pipe),
    Answer(usize),
    Ready(usize),
    Idle(usize),
    End(usize, End),
    Clear(usize, usize, Told),
    CloseAsked(usize),
    Hold(usize),
    Release(usize),
    AdoptLate(usize, Work, AdoptedState),
    Remove(usize),
    SetMode(Mode),
    PassTime(i64),
}

fn perform(world: &mut World, op: Op) {
    match op {
        Op::Message(g, l, rest) => world.message(g, l, rest),
        Op::Empty(g, l) => world.empty(g, l),
        Op::Wake(g, l) => world.wake(g, l),
        Op::Task(g, t) => world.task(g, t),
        Op::TaskGone(g, t) => world.task_gone(g, t),
        Op::NextPipe(g, pipe) => world.next_pipe(g, pipe),
        Op::Answer(g) => world.answer(g),
        Op::Ready(g) => world.ready(g),
        Op::Idle(g) => world.idle(g),
        Op::End(g, end) => world.end(g, end),
        Op::Clear(g, l, told) => world.clear(g, l, told),
        Op::CloseAsked(g) => world.close_asked(g),
        Op::Hold(g) => world.hold(g),
        Op::Release(g) => world.release(g),
        Op::AdoptLate(g, work, state) => world.adopt_late(g, work, state),
        Op::Remove(g) => world.remove(g),
        Op::SetMode(mode) => world.set_mode(mode),
        Op::PassTime(ms) => world.pass_time(ms),
    }
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        3 => (0..LANES).prop_map(|l| Work::Lane(LaneId(l as i64))),
        1 => (0..LANES).prop_map(|t| Work::Task(t.to_string())),
    ]
}

fn state() -> impl Strategy<Value = AdoptedState> {
    prop_oneof![
        Just(AdoptedState::Starting),
        Just(AdoptedState::Ready(Load::Busy)),
        Just(AdoptedState::Ready(Load::Idle)),
        Just(AdoptedState::Closing),
    ]
}

/// One flat strategy: a tree of alternatives would take longer to grow than the lives take to live.
fn op() -> impl Strategy<Value = Op> {
    (0..100_u8, 0..GROUPS, 0..LANES, 0..60_000_i64).prop_map(|(kind, g, l, n)| match kind {
        0..=13 => Op::Message(g, l, ToldRest::None),
        14..=17 => Op::Message(g, l, ToldRest::Truth),
        18..=19 => Op::Message(g, l, ToldRest::Earlier),
        20..=21 => Op::Message(g, l, ToldRest::Absurd),
        22 => Op::Empty(g, l),
        23 => Op::Wake(g, l),
        24..=28 => Op::Task(g, l),
        29 => Op::TaskGone(g, l),
        30..=31 => Op::NextPipe(g, Pipe::Fails),
        32 => Op::NextPipe(g, Pipe::FindsNothing),
        33..=43 => Op::Answer(g),
        44..=56 => Op::Ready(g),
        57..=70 => Op::Idle(g),
        71..=75 => Op::End(g, End::Clean),
        76..=77 => Op::End(g, End::Returned(None)),
        78..=81 => Op::End(g, End::Returned(Some(n))),
        82..=83 => Op::Clear(g, l, Told::Loudly),
        84 => Op::Clear(g, l, Told::Quietly),
        85 => Op::CloseAsked(g),
        86 => Op::Hold(g),
        87..=88 => Op::Release(g),
        89..=90 => {
            let [work, state] = [n as usize % 4, n as usize / 4 % 4];
            let states = [Load::Busy, Load::Idle].map(AdoptedState::Ready);
            let states = [AdoptedState::Starting, AdoptedState::Closing, states[0], states[1]];
            let work = if work == 0 { Work::Task(l.to_string()) } else { Work::Lane(LaneId(l as i64)) };
            Op::AdoptLate(g, work, states[state])
        }
        91 => Op::Remove(g),
        92 => Op::SetMode(Mode::Paused),
        93..=94 => Op::SetMode(Mode::Open),
        95.. => Op::PassTime(n),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn in_every_life_the_rules_hold_and_all_that_waits_is_served(
        cap in 1..=4_usize,
        adopted in proptest::collection::vec((0..GROUPS, work(), state()), 0..4),
        ops in proptest::collection::vec(op(), 0..200),
    ) {
        let mut world = World::new(cap, GROUPS);
        for (g, work, state) in adopted {
            world.adopt(g, work, state);
        }
        for op in ops {
            perform(&mut world, op);
        }
        world.run_to_quiet();
    }

    #[test]
    fn a_life_that_drains_begins_nothing_any_more(
        before in proptest::collection::vec(op(), 0..40),
        after in proptest::collection::vec(op(), 0..40),
    ) {
        let mut world = World::new(2, GROUPS);
        for op in before.into_iter().chain([Op::SetMode(Mode::Draining)]).chain(after) {
            perform(&mut world, op);
        }
    }
}
