//! What containers may write for the host to parse: a corpus of hostile bytes with what each comes to, and any bytes at
//! all. To add one: a file whose name begins with its outcome.
#![expect(clippy::disallowed_methods, reason = "reads the corpus, plays the container")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use g2::{
    domain::runs::health::declared_timeout_ms,
    ipc::{BoxName, GroupBoxes, HostDirs, InputState, StateError, display_name},
    sandbox::output::{Parsed, Parser},
};
use ipc_handlers::Folder;
use proptest::prelude::*;

/// Every file of a part of the corpus, with the outcome that its name begins with.
fn corpus(part: &str) -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/corpus").join(part);
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().split('.').next().unwrap().to_owned(), path))
        .collect();
    found.sort();
    assert!(found.len() > 10, "{part}");
    found
}

fn parsed(pieces: impl Iterator<Item = Vec<u8>>) -> Vec<Parsed> {
    let mut parser = Parser::new();
    let mut parsed = Vec::new();
    for piece in pieces {
        parser.push(&piece, &mut parsed);
    }
    parsed.extend(parser.end());
    parsed
}

#[test]
fn each_hostile_output_gives_its_records_and_its_garbage_however_it_is_cut() {
    for (outcome, path) in corpus("output") {
        let bytes = fs::read(&path).unwrap();
        let whole = parsed(std::iter::once(bytes.clone()));
        let records = whole.iter().filter(|item| matches!(item, Parsed::Record(_))).count();
        assert_eq!(format!("{records}-{}", whole.len() - records), outcome, "{}: {whole:?}", path.display());
        assert_eq!(parsed(bytes.chunks(1).map(<[u8]>::to_vec)), whole, "{}", path.display());
    }
}

struct World {
    _root: tempfile::TempDir,
    boxes: GroupBoxes,
    kept: PathBuf,
}

fn world() -> World {
    let root = tempfile::tempdir().unwrap();
    let host = HostDirs::open(root.path()).unwrap();
    let boxes = GroupBoxes::open(&host, &Folder::parse("main").unwrap(), None).unwrap();
    World { kept: root.path().join("kept"), _root: root, boxes }
}

impl World {
    fn at(&self, b: BoxName, name: &OsStr) -> PathBuf {
        self.boxes.path_of(b).join(name)
    }

    /// What the host makes of a container's state; whatever it is, a declared time is within the host's own bound.
    fn state(&self, bytes: &[u8]) -> &'static str {
        fs::write(self.at(BoxName::State, OsStr::new("container_state.json")), bytes).unwrap();
        match self.boxes.container_state() {
            Ok(state) => {
                let declared = state.as_ref().and_then(declared_timeout_ms);
                assert!(declared.is_none_or(|ms| (0..=7_200_000).contains(&ms)), "{declared:?}");
                "read"
            }
            Err(StateError::Malformed(_)) => "malformed",
            Err(StateError::TooLarge(_)) => "too-large",
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn each_hostile_state_is_read_within_bounds_or_counts_as_absent() {
    let world = world();
    for (outcome, path) in corpus("state") {
        assert_eq!(world.state(&fs::read(&path).unwrap()), outcome, "{}", path.display());
    }
}

/// Names that a file system takes, near to those that mean something in `input/` and far from them.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let any_bytes =
        proptest::collection::vec(any::<u8>().prop_filter("no name", |b| ![0, b'/'].contains(b)), 1..40);
    let near = "[a-zA-Z0-9._-]{1,70}(\\.json|\\.claimed|\\.json\\.claimed|\\.JSON|)";
    prop_oneof![any_bytes, near.prop_map(String::into_bytes)]
        .prop_filter("no name", |name| name != b"." && name != b"..")
}

/// What a name in `input/` stands for, said a second time.
fn stands_for(name: &[u8]) -> Option<(String, InputState)> {
    let name = std::str::from_utf8(name).ok()?;
    let (id, state) = match name.strip_suffix(".json") {
        Some(id) => (id, InputState::Unread),
        None => (name.strip_suffix(".claimed")?, InputState::Claimed),
    };
    let valid = (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    valid.then(|| (id.to_owned(), state))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_state_is_read_or_counts_as_absent(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            (any::<i128>(), ".{0,20}").prop_map(|(number, tool)| {
                format!(r#"{{"current_tool":{tool:?},"tool_declared_timeout_ms":{number},"tool_started_at":{number}}}"#).into_bytes()
            }),
        ],
    ) {
        let world = world();
        world.state(&bytes);
    }

    #[test]
    fn any_names_in_input_are_taken_back_by_their_ids_alone_and_leave_nothing(names in proptest::collection::btree_set(name(), 0..20)) {
        let world = world();
        let mut expected = BTreeMap::new();
        for name in &names {
            fs::write(world.at(BoxName::Input, OsStr::from_bytes(name)), b"x").unwrap();
            if let Some((id, state)) = stands_for(name) {
                let known = expected.entry(id).or_insert(state);
                *known = state.max(*known);
            }
        }
        let left = world.boxes.claim_back_inputs(&world.kept).unwrap();
        let found: BTreeMap<_, _> = left.into_iter().map(|input| (input.batch_id, input.state)).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(fs::read_dir(world.boxes.path_of(BoxName::Input)).unwrap().count(), 0);
    }

    #[test]
    fn any_name_is_shown_on_one_line_and_told_from_any_other(one in name(), other in name()) {
        let [shown, other_shown] = [&one, &other].map(|name| display_name(OsStr::from_bytes(name)));
        prop_assert!(!shown.chars().any(char::is_control));
        prop_assert_eq!(one == other, shown == other_shown);
    }
}
