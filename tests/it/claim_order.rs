//! Claims against a simple model: whatever mixture of hints (also late, twice, or for missing files), scans and
//! restarts takes the files, each is claimed once, ids only rise, and a start goes on in the order of the claims. And
//! whatever of the hints is lost, by our queue or by the kernel's, the claims are in the order of publication.
#![expect(clippy::disallowed_methods, reason = "tests play the container")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{collections::BTreeSet, ffi::OsString, fs, path::Path};

use g2::ipc::{ClaimError, Claims, CommandBox, GroupBoxes, Hint, HintSender, Hints, HostDirs, hints};
use ipc_handlers::Folder;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// The container publishes a file; a number keeps the name free.
    Publish(CommandBox),
    /// A hint for the nth file ever published arrives: first, late, or again.
    Hint(usize),
    /// A box is listed, and this many of its files are taken.
    Scan(CommandBox, usize),
    /// The oldest claim is settled and unlinked.
    Acknowledge,
    /// The daemon dies and starts.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let in_box = prop_oneof![Just(CommandBox::Messages), Just(CommandBox::Tasks)];
    prop_oneof![
        4 => in_box.clone().prop_map(Step::Publish),
        4 => (0_usize..40).prop_map(Step::Hint),
        1 => (in_box, 1_usize..5).prop_map(|(b, n)| Step::Scan(b, n)),
        2 => Just(Step::Acknowledge),
        1 => Just(Step::Restart),
    ]
}

struct World {
    claims: Claims,
    boxes: GroupBoxes,
    published: Vec<(CommandBox, OsString)>,
    waiting: BTreeSet<(CommandBox, OsString)>,
    /// Ids that are not acknowledged, in the order of the claims.
    open: Vec<i64>,
    last: i64,
}

fn open(data: &Path, floor: i64) -> (Claims, GroupBoxes) {
    let dirs = HostDirs::open(data).unwrap();
    let claims = Claims::open(&dirs, floor).unwrap();
    let boxes = GroupBoxes::open(&dirs, &Folder::parse("main").unwrap(), None).unwrap();
    (claims, boxes)
}

impl World {
    fn take(&mut self, in_box: CommandBox, name: &OsString) {
        let expected = self.waiting.remove(&(in_box, name.clone()));
        match self.boxes.claim(in_box, name, &self.claims) {
            Ok(claimed) => {
                assert!(expected, "{name:?} was claimed twice");
                assert!(claimed.id > self.last, "claim {} after {}", claimed.id, self.last);
                self.last = claimed.id;
                self.open.push(claimed.id);
            }
            Err(ClaimError::Gone) => assert!(!expected, "{name:?} was lost"),
            Err(other) => panic!("{other}"),
        }
    }

    fn act(&mut self, data: &Path, step: Step) {
        match step {
            Step::Publish(in_box) => {
                let name = OsString::from(format!("{:03}.json", self.published.len()));
                fs::write(self.boxes.path_of(in_box.name()).join(&name), b"{}").unwrap();
                self.waiting.insert((in_box, name.clone()));
                self.published.push((in_box, name));
            }
            Step::Hint(n) => {
                if let Some((in_box, name)) = self.published.get(n).cloned() {
                    self.take(in_box, &name);
                }
            }
            Step::Scan(in_box, most) => {
                let listing = self.boxes.list(in_box, most).unwrap();
                for entry in listing.entries {
                    self.take(in_box, &entry.name);
                }
            }
            Step::Acknowledge => {
                let left = self.claims.left_over().unwrap();
                if let Some(first) = left.claims.first() {
                    self.claims.acknowledge(first).unwrap();
                    assert_eq!(self.open.remove(0), first.id);
                }
            }
            Step::Restart => {
                // The store knows the highest id that has a receipt: here, the last one acknowledged at most.
                let floor = self.open.first().map_or(self.last, |first| first - 1);
                (self.claims, self.boxes) = open(data, floor);
                let left: Vec<i64> = self.claims.left_over().unwrap().claims.iter().map(|c| c.id).collect();
                assert_eq!(left, self.open, "a start goes on in the order of the claims");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_file_is_claimed_once_and_ids_only_rise(steps in proptest::collection::vec(step(), 1..80)) {
        let root = tempfile::tempdir().unwrap();
        let (claims, boxes) = open(root.path(), 0);
        let mut world = World { claims, boxes, published: Vec::new(), waiting: BTreeSet::new(), open: Vec::new(), last: 0 };
        for step in steps {
            world.act(root.path(), step);
        }
        for in_box in CommandBox::ALL {
            world.act(root.path(), Step::Scan(in_box, 1000));
        }
        prop_assert!(world.waiting.is_empty(), "the scan is the truth: {:?}", world.waiting);
    }
}

/// Events of published files and of their hints.
#[derive(Clone, Debug)]
enum Event {
    /// The container publishes, and the kernel tells.
    Told(CommandBox),
    /// It publishes while the kernel's queue is full; of the whole time only that is told, once it has room.
    Lost(Vec<CommandBox>),
    /// The number of hints that are acted on.
    Act(usize),
    /// The daemon dies: what was told is forgotten, and the next one begins with a look.
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let in_box = prop_oneof![Just(CommandBox::Messages), Just(CommandBox::Tasks)];
    prop_oneof![
        6 => in_box.clone().prop_map(Event::Told),
        1 => proptest::collection::vec(in_box, 0..4).prop_map(Event::Lost),
        3 => (1_usize..6).prop_map(Event::Act),
        1 => Just(Event::Restart),
    ]
}

struct Told {
    world: World,
    sender: HintSender,
    hints: Hints,
    claimed: Vec<OsString>,
}

impl Told {
    fn publish(&mut self, data: &Path, in_box: CommandBox) -> Hint {
        self.world.act(data, Step::Publish(in_box));
        let (in_box, name) = self.world.published[self.world.published.len() - 1].clone();
        Hint::File { folder: Folder::parse("main").unwrap(), in_box, name }
    }

    fn take(&mut self, in_box: CommandBox, name: OsString) {
        if self.world.waiting.contains(&(in_box, name.clone())) {
            self.claimed.push(name.clone());
        }
        self.world.take(in_box, &name);
    }

    fn look(&mut self) {
        let mut found: Vec<_> = CommandBox::ALL
            .into_iter()
            .flat_map(|in_box| {
                let listing = self.world.boxes.list(in_box, 1_000).unwrap();
                listing.entries.into_iter().map(move |entry| (entry, in_box))
            })
            .collect();
        found.sort();
        found.into_iter().for_each(|(entry, in_box)| self.take(in_box, entry.name));
    }

    fn act(&mut self, most: usize) {
        for _ in 0..most {
            match self.hints.try_recv() {
                Some(Hint::File { in_box, name, .. }) => self.take(in_box, name),
                Some(Hint::Rescan | Hint::Lost { .. }) => self.look(),
                None => return,
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn claims_are_in_the_order_of_publication_even_if_hints_are_lost(
        events in proptest::collection::vec(event(), 1..60), room in 1_usize..8,
    ) {
        let root = tempfile::tempdir().unwrap();
        let (claims, boxes) = open(root.path(), 0);
        let world = World { claims, boxes, published: Vec::new(), waiting: BTreeSet::new(), open: Vec::new(), last: 0 };
        let (sender, queue) = hints(room);
        let mut told = Told { world, sender, hints: queue, claimed: Vec::new() };
        for event in events {
            match event {
                Event::Told(in_box) => {
                    let hint = told.publish(root.path(), in_box);
                    told.sender.send(hint);
                }
                Event::Lost(boxes) => {
                    boxes.into_iter().for_each(|in_box| drop(told.publish(root.path(), in_box)));
                    told.sender.send(Hint::Rescan);
                }
                Event::Act(most) => told.act(most),
                Event::Restart => {
                    told.world.act(root.path(), Step::Restart);
                    (told.sender, told.hints) = hints(room);
                    told.look();
                }
            }
        }
        told.act(usize::MAX);
        let published: Vec<_> = told.world.published.into_iter().map(|(_, name)| name).collect();
        prop_assert_eq!(told.claimed, published);
    }
}
