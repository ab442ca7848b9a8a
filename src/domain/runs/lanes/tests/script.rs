//! A notation for scenarios, one line per event: `seconds event -> actions`.
//!
//! `a2` is lane 2 of group `a`, `a:t` is task `t` of group `a`; `g3` is a generation (1 unless said), `until 5` a
//! rest that ends at second 5.

use std::num::NonZeroUsize;

use ipc_handlers::{Folder, Time};

use crate::runs::lanes::{Action, AdoptedState, Event, Holding, LaneId, Lanes, Load, WaitingLane, Work};

/// Lines after which the run of `a1` is busy.
pub(super) const A_IS_BUSY: &str = "0 waiting a1 -> start a1
                                    0 ready a ->";
/// Lines after which the run of `a1` is idle.
pub(super) const A_IS_IDLE: &str = "0 waiting a1 -> start a1
                                    0 ready a ->
                                    0 idle a ->";

/// Plays a scenario on a new machine with this cap, and checks the actions of each line.
#[track_caller]
pub(super) fn play(cap: usize, script: &str) -> Lanes {
    let mut lanes = Lanes::new(NonZeroUsize::new(cap).unwrap());
    play_on(&mut lanes, script);
    lanes
}

/// Goes on with a scenario.
#[track_caller]
pub(super) fn play_on(lanes: &mut Lanes, script: &str) {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (left, expected) = line.split_once("->").expect("a line has an arrow");
        let (at, event) = left.trim().split_once(' ').expect("a line begins with its second");
        let actions = lanes.on(parse_event(event), seconds(at));
        let actions: Vec<String> = actions.iter().map(show).collect();
        assert_eq!(actions.join(", "), expected.trim(), "after `{line}` of:\n{script}");
    }
}

/// Plays the lines of `before`, then the scenario.
#[track_caller]
pub(super) fn play_after(cap: usize, before: &str, script: &str) -> Lanes {
    let mut lanes = play(cap, before);
    play_on(&mut lanes, script);
    lanes
}

/// Returns the group with this name.
pub(super) fn folder(name: &str) -> Folder {
    Folder::parse(name).unwrap()
}

fn seconds(text: &str) -> Time {
    Time(text.parse::<i64>().unwrap() * 1000)
}

fn parse_event(text: &str) -> Event {
    let words: Vec<&str> = text.split_whitespace().collect();
    let group = || folder(&words[1][..1]);
    let lane = || LaneId(words[1][1..].parse().unwrap());
    let task = || words[1][2..].to_owned();
    match words[0] {
        "waiting" => Event::Waiting { group: group(), waiting: parse_waiting(&words[1..])[0] },
        "emptied" => Event::Emptied { group: group(), lane: lane() },
        "woken" => Event::Woken { group: group(), lane: lane() },
        "due" => Event::TaskDue { group: group(), task: task() },
        "gone" => Event::TaskGone { group: group(), task: task() },
        "ready" => Event::Ready { group: group() },
        "idle" => Event::Idle { group: group() },
        "busy" => Event::Busy { group: group() },
        "pipe-failed" => Event::PipeFailed { group: group(), lane: lane() },
        "pipe-empty" => Event::PipeEmpty { group: group(), lane: lane() },
        "cleared" => Event::SessionCleared {
            group: group(),
            lane: lane(),
            generation: words[2].trim_start_matches('g').parse().unwrap(),
        },
        "close-asked" => Event::CloseAsked { group: group() },
        "ended" => Event::Ended { group: group(), waiting: parse_waiting(&words[2..]) },
        "adopted" => Event::Adopted {
            group: group(),
            work: if words[1].contains(':') { Work::Task(task()) } else { Work::Lane(lane()) },
            generation: 1,
            state: match words[2] {
                "starting" => AdoptedState::Starting,
                "busy" => AdoptedState::Ready(Load::Busy),
                "idle" => AdoptedState::Ready(Load::Idle),
                "closing" => AdoptedState::Closing,
                other => panic!("unknown state {other}"),
            },
        },
        "hold" => Event::Hold { group: group(), reason: Holding::Unknown },
        "release" => Event::Release { group: group(), reason: Holding::Unknown },
        "aside" => Event::Hold { group: group(), reason: Holding::SetAside },
        "back" => Event::Release { group: group(), reason: Holding::SetAside },
        "remove" => Event::Hold { group: group(), reason: Holding::Removal },
        "not-removed" => Event::Release { group: group(), reason: Holding::Removal },
        "removed" => Event::GroupRemoved { group: group() },
        "pause" => Event::Pause,
        "resume" => Event::Resume,
        "drain" => Event::Drain,
        "cap" => Event::Cap { most: words[1].parse().unwrap() },
        "tick" => Event::Tick,
        other => panic!("unknown event {other}"),
    }
}

fn parse_waiting(words: &[&str]) -> Vec<WaitingLane> {
    let mut lanes: Vec<WaitingLane> = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if *word == "until" {
            lanes.last_mut().unwrap().not_before = Some(seconds(words.next().unwrap()));
        } else if let Some(generation) = word.strip_prefix('g').and_then(|n| n.parse().ok())
            && let Some(last) = lanes.last_mut()
        {
            last.generation = generation;
        } else {
            let lane = LaneId(word[1..].parse().unwrap());
            lanes.push(WaitingLane { lane, generation: 1, not_before: None });
        }
    }
    lanes
}

fn show(action: &Action) -> String {
    match action {
        Action::Start { group, work: Work::Lane(lane) } => format!("start {group}{}", lane.0),
        Action::Start { group, work: Work::Task(task) } => format!("start {group}:{task}"),
        Action::Pipe { group, lane } => format!("pipe {group}{}", lane.0),
        Action::Close { group } => format!("close {group}"),
    }
}
