use super::*;

const MS: i64 = 1_000_000;
const NONE: [u32; 0] = [];

/// A file by a word: its age in ms at the look, and its judgement. Stamps are in the order of the words.
fn turn(words: &[&str], sight: Sight) -> usize {
    let mut turns = Turns::default();
    let now = Duration::from_secs(60);
    let mut found = Vec::new();
    for (n, word) in words.iter().enumerate() {
        let (ms, flags) = word.split_once(' ').unwrap_or((word, ""));
        turns.seen.insert(n, now - Duration::from_millis(ms.parse().unwrap()));
        let ctime = i64::try_from(n).unwrap() + if flags.contains("new") { 1_000 } else { 0 };
        found.push(Found { key: n, ctime });
    }
    let look = Look { sight, more: false, begun: 2_000, complete_until: 1_000, now };
    let take = turns.look(look, found).take;
    assert!(take.iter().enumerate().all(|(n, taken)| n == *taken), "{words:?}: {take:?}");
    take.len()
}

#[test]
fn what_was_published_before_now_is_stamped_before_it_however_late_in_the_millisecond() {
    for published in [0, 1, 999_999, 1_000_000, 1_795_323_677_189_999_999] {
        assert!(published < stamp_after(Time(published / 1_000_000)), "{published}");
    }
}

#[test]
fn files_are_taken_in_turn_each_when_nothing_of_it_can_be_outstanding() {
    for (words, first, second) in [
        (vec![], 0, 0),
        (vec!["0"], 1, 0),
        (vec!["0 new"], 0, 0),
        (vec!["999", "1000"], 2, 0),
        (vec!["1000", "1000"], 2, 2),
        (vec!["1000", "999"], 2, 1),
        // An older file that the last listing missed, however long the younger one is known by now.
        (vec!["0 new", "60000"], 0, 0),
        (vec!["1000", "60000"], 2, 2),
    ] {
        assert_eq!(turn(&words, Sight::First), first, "{words:?}");
        assert_eq!(turn(&words, Sight::Second), second, "{words:?}");
    }
}

fn look(sight: Sight, ms: u64, more: bool) -> Look {
    let stamp = i64::try_from(ms).unwrap() * MS;
    Look { sight, more, begun: stamp, complete_until: stamp, now: Duration::from_millis(ms) }
}

/// A first look that may have missed files.
fn unsure(ms: u64, more: bool) -> Look {
    Look { complete_until: 0, ..look(Sight::First, ms, more) }
}

fn file(key: u32) -> Found<u32> {
    Found { key, ctime: i64::from(key) * MS }
}

#[test]
fn what_is_told_of_waits_behind_files_that_nobody_will_tell_of() {
    let mut turns = Turns::default();
    assert_eq!(turns.told(vec![7]), [7], "nothing else is known");
    assert_eq!(turns.look(unsure(100, false), vec![file(1), file(2)]).take, NONE);
    assert_eq!(turns.told(vec![101, 100]), NONE);
    // Seen as well, in the order of the names; that of the events counts.
    let found = || vec![file(1), file(2), file(100), file(101)];
    assert_eq!(turns.look(look(Sight::Second, 1_000, false), found()).take, NONE);
    assert!(turns.anything_waits());
    assert_eq!(turns.told(vec![102]), NONE);
    assert_eq!(turns.look(look(Sight::Second, 1_100, false), found()).take, [1, 2]);
    assert_eq!(turns.told(vec![]), [101, 100, 102]);
    assert_eq!(turns.told(vec![103]), [103]);
}

#[test]
fn a_file_that_an_event_may_still_tell_of_keeps_nothing_back() {
    let mut turns = Turns::default();
    assert_eq!(turns.look(look(Sight::Second, 100, false), vec![file(1)]).take, NONE);
    assert_eq!(turns.told(vec![2]), [2]);
    // Published after the look was asked for.
    assert_eq!(turns.look(look(Sight::First, 100, false), vec![file(200)]).take, NONE);
    assert_eq!(turns.told(vec![3]), [3]);
}

#[test]
fn of_too_many_that_were_told_of_a_look_finds_the_order() {
    let mut turns = Turns::default();
    let _ = turns.look(unsure(100, false), vec![file(1)]);
    let told: Vec<u32> = (0..=4_096).collect();
    assert_eq!(turns.told(told), NONE);
    assert_eq!(turns.sight(Sight::Second), Sight::First);
    assert_eq!(turns.told, NONE);
    assert_eq!(turns.look(look(Sight::First, 2_100, false), vec![file(1), file(200)]).take, [1, 200]);
    assert_eq!(turns.told(vec![5]), [5]);
}

#[test]
fn a_first_look_that_could_not_go_on_to_the_end_is_made_again() {
    let mut turns = Turns::default();
    let _ = turns.look(unsure(100, true), vec![file(1)]);
    assert_eq!(turns.sight(Sight::Second), Sight::First);
    let turn = turns.look(look(Sight::First, 2_100, true), vec![file(1)]);
    assert_eq!((turn.take, turns.sight(Sight::Second)), (vec![1], Sight::Second));
}

mod order {
    //! Writers, events that are late or lost, looks and restarts, on a clock of their own.

    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// How far the clock of the stamps may be behind, ms.
    const TICK: u64 = 11;

    #[derive(Clone, Debug)]
    enum Op {
        /// `after` ms after the last, a file is published. An event tells of it after a while, or is lost.
        Publish { after: u64, told: Option<u64> },
        /// These ms go by.
        Pass(u64),
        /// The daemon dies, and its successor begins with a look.
        Restart,
    }

    fn op() -> impl Strategy<Value = Op> {
        let told = prop_oneof![4 => (0_u64..800).prop_map(Some), 1 => Just(None)];
        prop_oneof![
            8 => (1_u64..200, told).prop_map(|(after, told)| Op::Publish { after, told }),
            2 => (1_u64..3_000).prop_map(Op::Pass),
            1 => Just(Op::Restart),
        ]
    }

    struct World {
        now: u64,
        /// When each file was published.
        files: BTreeSet<u64>,
        /// What will be told, and when: of a file, or that something was lost.
        events: VecDeque<(u64, Option<u64>)>,
        turns: Turns<u64>,
        taken: Vec<u64>,
        next_scan: u64,
        /// The number of files that are listed at a time.
        listed: usize,
    }

    impl World {
        fn take(&mut self, keys: Vec<u64>) -> usize {
            let before = self.taken.len();
            // A missing file was taken already.
            self.taken.extend(keys.into_iter().filter(|key| self.files.remove(key)));
            self.taken.len() - before
        }

        fn told(&mut self, keys: Vec<u64>) {
            let keys = self.turns.told(keys);
            self.take(keys);
        }

        fn look(&mut self, sight: Sight) {
            let sight = self.turns.sight(sight);
            let stamp = |ms: u64| i64::try_from(ms).unwrap() * MS;
            let begun = self.now + 1;
            loop {
                let complete_until = self.now.saturating_sub(TICK);
                let found = self.files.iter().take(self.listed);
                let found = found.map(|at| Found { key: *at, ctime: stamp(*at) }).collect();
                let more = self.files.len() > self.listed;
                let look = Look {
                    sight,
                    more,
                    begun: stamp(begun),
                    complete_until: stamp(complete_until),
                    now: Duration::from_millis(self.now),
                };
                let turn = self.turns.look(look, found);
                let taken = self.take(turn.take);
                if turn.too_new && complete_until < begun {
                    self.now += TICK + 1;
                } else if taken == 0 || !more {
                    break;
                }
            }
            self.told(Vec::new());
        }

        /// Lets the clock go on to `until`, and the daemon do its due work.
        fn pass(&mut self, until: u64) {
            while self.now < until {
                let again = if self.turns.anything_waits() { self.now + 100 } else { u64::MAX };
                let told = self.events.front().map_or(u64::MAX, |(at, _)| *at);
                let due = again.min(told).min(self.next_scan);
                if due > until {
                    self.now = until;
                    return;
                }
                self.now = self.now.max(due);
                if told <= due {
                    match self.events.pop_front() {
                        Some((_, Some(file))) => self.told(vec![file]),
                        Some((_, None)) => self.look(Sight::First),
                        None => {}
                    }
                } else {
                    if due == self.next_scan {
                        self.next_scan = self.now + 2_000;
                    }
                    self.look(Sight::Second);
                }
            }
        }

        fn act(&mut self, op: Op) {
            match op {
                Op::Publish { after, told } => {
                    self.pass(self.now + after);
                    self.files.insert(self.now);
                    // Events come in the order of what they tell; of all that is lost at a time there is one.
                    let last = self.events.back().copied();
                    let at = (self.now + told.unwrap_or(0)).max(last.map_or(0, |(at, _)| at));
                    let event = (at, told.map(|_| self.now));
                    if event.1.is_some() || last.is_none_or(|(_, file)| file.is_some()) {
                        self.events.push_back(event);
                    }
                    self.pass(self.now + 1);
                }
                Op::Pass(ms) => self.pass(self.now + ms),
                Op::Restart => {
                    self.events.clear();
                    self.turns = Turns::default();
                    self.look(Sight::First);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn each_file_is_taken_once_and_none_before_one_that_was_published_earlier(
            ops in proptest::collection::vec(op(), 1..60), listed in 1_usize..8,
        ) {
            let mut world = World {
                now: 1_000, files: BTreeSet::new(), events: VecDeque::new(), turns: Turns::default(), taken: Vec::new(),
                next_scan: 1_000, listed,
            };
            let published = ops.iter().filter(|op| matches!(op, Op::Publish { .. })).count();
            ops.into_iter().for_each(|op| world.act(op));
            world.pass(world.now + 60_000);
            prop_assert!(world.taken.is_sorted(), "{:?}", world.taken);
            prop_assert_eq!(world.taken.len(), published);
        }
    }
}
