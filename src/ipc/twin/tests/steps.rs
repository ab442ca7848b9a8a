//! What is done with both.

use proptest::{collection::vec, prelude::*};

/// How many descriptors a daemon has, and how many files others hold open.
pub(super) const SLOTS: usize = 6;

/// How something is opened.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    Folder,
    Read,
    Pass,
    New,
    Unnamed,
    Anew,
}

/// How something is renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renamed {
    Over,
    New,
    Exchange,
}

/// What is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Made {
    Folder,
    Fifo,
    Socket,
}

/// One call. Numbers are those of places for descriptors.
#[derive(Clone, Debug)]
pub(super) enum Step {
    // The daemon's.
    OpenPath(String, bool, usize),
    Open(usize, String, How, u32, usize),
    Close(usize),
    MakeFolder(usize, String, u32),
    StatAt(usize, String),
    ChmodAt(usize, String, u32),
    Link(usize, String, usize, String),
    LinkItself(usize, usize, String),
    Rename(usize, String, usize, String, Renamed),
    Unlink(usize, String, bool),
    Names(usize),
    Stat(usize),
    IsSame(usize, usize, String),
    Writer(usize),
    Chmod(usize, u32),
    Chown(usize, u32, u32),
    Read(usize, usize, u64),
    Write(usize, Vec<u8>),
    Sync(usize),
    Attribute(usize, usize),
    AttributeAt(usize, String, usize),
    SetAttribute(usize, Vec<u8>),
    Mark(usize, u32),
    Project(usize, u32, bool),
    Watch(String),
    // Others', by paths.
    TheyMake(String, Made),
    TheyLink(String, String),
    TheyPoint(String, String),
    TheyRename(String, String, Renamed),
    TheyUnlink(String, bool),
    TheyWrite(String, Vec<u8>),
    TheyHold(String, bool, usize),
    TheyGoOn(usize, Vec<u8>),
    TheyClose(usize),
    TheyChmod(String, u32),
    TheyCut(String, u64),
    TheyRead(String),
}

/// Paths: few names, so that they meet.
fn path() -> impl Strategy<Value = String> {
    let name = || prop_oneof![6 => "[abcd]", 1 => Just(".".to_owned()), 1 => Just("..".to_owned())];
    prop_oneof![
        10 => "[abcd]",
        4 => (name(), name()).prop_map(|(one, two)| format!("{one}/{two}")),
        2 => (name(), name(), name()).prop_map(|(one, two, three)| format!("{one}/{two}/{three}")),
        1 => name(),
        1 => "[ab]/",
        1 => Just("x".repeat(255)),
        1 => Just("x".repeat(256)),
    ]
}

/// What a link leads to: something near it, as the two have other roots.
fn target() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[abcd]", 2 => "\\.\\./[abcd]", 1 => "[ab]/[cd]", 1 => Just(".".to_owned())]
}

fn slot() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(0_usize), 5 => 0..SLOTS]
}

fn mode() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => Just(0o755_u32),
        2 => Just(0o644),
        2 => Just(0o700),
        1 => Just(0),
        1 => Just(0o300),
        1 => Just(0o500),
        1 => Just(0o1777),
        1 => Just(0o2775),
        1 => Just(0o6755),
    ]
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        4 => Just(How::Folder),
        4 => Just(How::Read),
        1 => Just(How::Pass),
        3 => Just(How::New),
        3 => Just(How::Unnamed),
        2 => Just(How::Anew),
    ]
}

fn renamed() -> impl Strategy<Value = Renamed> {
    prop_oneof![3 => Just(Renamed::Over), 3 => Just(Renamed::New), 1 => Just(Renamed::Exchange)]
}

fn made() -> impl Strategy<Value = Made> {
    prop_oneof![6 => Just(Made::Folder), 1 => Just(Made::Fifo), 1 => Just(Made::Socket)]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(any::<u8>(), 0..20),
        1 => (0_usize..9_000, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]),
    ]
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0_u64..30, 1 => 4_000_u64..9_000, 1 => Just(1 << 40)]
}

fn daemons() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (path(), any::<bool>(), slot()).prop_map(|(path, follows, to)| Step::OpenPath(path, follows, to)),
        12 => (slot(), path(), how(), mode(), slot())
            .prop_map(|(at, path, how, mode, to)| Step::Open(at, path, how, mode, to)),
        2 => slot().prop_map(Step::Close),
        4 => (slot(), path(), mode()).prop_map(|(at, path, mode)| Step::MakeFolder(at, path, mode)),
        3 => (slot(), path()).prop_map(|(at, path)| Step::StatAt(at, path)),
        1 => (slot(), path(), mode()).prop_map(|(at, path, mode)| Step::ChmodAt(at, path, mode)),
        4 => (slot(), path(), slot(), path()).prop_map(|(at, from, to, path)| Step::Link(at, from, to, path)),
        4 => (slot(), slot(), path()).prop_map(|(of, at, path)| Step::LinkItself(of, at, path)),
        8 => (slot(), path(), slot(), path(), renamed())
            .prop_map(|(at, from, to, path, how)| Step::Rename(at, from, to, path, how)),
        4 => (slot(), path(), any::<bool>()).prop_map(|(at, path, folder)| Step::Unlink(at, path, folder)),
        4 => slot().prop_map(Step::Names),
        2 => slot().prop_map(Step::Stat),
        2 => (slot(), slot(), path()).prop_map(|(of, at, path)| Step::IsSame(of, at, path)),
        2 => slot().prop_map(Step::Writer),
        2 => (slot(), mode()).prop_map(|(of, mode)| Step::Chmod(of, mode)),
        1 => (slot(), 0_u32..3, 0_u32..3).prop_map(|(of, user, group)| Step::Chown(of, user, group)),
        2 => (slot(), 0_usize..6_000, length()).prop_map(|(of, most, at)| Step::Read(of, most, at)),
        3 => (slot(), bytes()).prop_map(|(of, bytes)| Step::Write(of, bytes)),
        1 => slot().prop_map(Step::Sync),
        1 => (slot(), 1_usize..12).prop_map(|(of, room)| Step::Attribute(of, room)),
        1 => (slot(), path(), 1_usize..12).prop_map(|(at, path, room)| Step::AttributeAt(at, path, room)),
        2 => (slot(), vec(any::<u8>(), 1..10)).prop_map(|(of, value)| Step::SetAttribute(of, value)),
        1 => (slot(), 0_u32..4).prop_map(|(of, marks)| Step::Mark(of, marks << 6)),
        1 => (slot(), 0_u32..3, any::<bool>())
            .prop_map(|(of, project, inherits)| Step::Project(of, project, inherits)),
        2 => path().prop_map(Step::Watch),
    ]
}

fn theirs() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (path(), made()).prop_map(|(path, made)| Step::TheyMake(path, made)),
        2 => (path(), path()).prop_map(|(from, to)| Step::TheyLink(from, to)),
        2 => (target(), path()).prop_map(|(to, path)| Step::TheyPoint(to, path)),
        4 => (path(), path(), renamed()).prop_map(|(from, to, how)| Step::TheyRename(from, to, how)),
        2 => (path(), any::<bool>()).prop_map(|(path, folder)| Step::TheyUnlink(path, folder)),
        5 => (path(), bytes()).prop_map(|(path, bytes)| Step::TheyWrite(path, bytes)),
        2 => (path(), any::<bool>(), slot()).prop_map(|(path, anew, to)| Step::TheyHold(path, anew, to)),
        1 => (slot(), bytes()).prop_map(|(of, bytes)| Step::TheyGoOn(of, bytes)),
        1 => slot().prop_map(Step::TheyClose),
        1 => (path(), mode()).prop_map(|(path, mode)| Step::TheyChmod(path, mode)),
        1 => (path(), length()).prop_map(|(path, length)| Step::TheyCut(path, length)),
        2 => path().prop_map(Step::TheyRead),
    ]
}

/// Some of both, each kind as often.
pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let made = ["a", "b"].map(|name| Step::MakeFolder(0, name.to_owned(), 0o755));
    let opened = Step::Open(0, "a".to_owned(), How::Folder, 0, 1);
    vec(prop_oneof![2 => daemons().boxed(), 1 => theirs().boxed()], 1..50)
        .prop_map(move |steps| made.iter().chain([&opened]).cloned().chain(steps).collect())
}
