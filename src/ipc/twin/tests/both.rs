//! The twin and a real file system, side by side.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::CString,
    fs::File,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};

use proptest::prelude::*;
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat, inotify},
    io::{Errno, Result},
};

use super::{
    super::{Hands, Held, Settings, Twin},
    As, NOBODY, counter,
    steps::{How, Made, Renamed, SLOTS, Step},
};
use crate::ipc::{
    dir,
    files::{Fd, Files},
    kernel::{Extended, FLAGS, Writer},
    watch::TOLD,
};

/// The attribute that is set.
const ATTRIBUTE: &std::ffi::CStr = c"user.g2.from";
/// Where the two work: deep enough that no way up leads out of what is the same in both.
const DEEP: &str = "d/d/d/d/d/d/d/d/d/d/d/d";
/// The root of the twin's.
const TWINS: &str = "/r/d/d/d/d/d/d/d/d/d/d/d/d";

/// Which file it is, when its contents were changed, and when anything of it was.
type Stamps = (u64, (i64, u64), (i64, u64));

/// What came of a step, to be compared.
type Outcome = std::result::Result<String, Errno>;

/// One side's descriptors.
struct Side {
    files: Files,
    root: PathBuf,
    slots: [Option<Fd>; SLOTS],
}

/// The two.
pub(super) struct Both {
    at: tempfile::TempDir,
    twin: Twin,
    real: Side,
    twins: Side,
    held: [Option<File>; SLOTS],
    twins_held: [Option<Held>; SLOTS],
    instance: rustix::fd::OwnedFd,
    has_projects: bool,
    has_flags: bool,
    is_xfs: bool,
}

fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
    u32::from_str_radix(line.trim(), 8).unwrap()
}

/// What the file system of a folder can do, which the twin then can too.
fn settings(at: &Path, who: As) -> Settings {
    let us = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let held = Files::real().at(at).open().unwrap();
    let probe = dir::create_unnamed(&held, Mode::from_raw_mode(0o600));
    let file = dir::create_new(&held, "probe", Mode::from_raw_mode(0o600)).unwrap();
    dir::unlink(&held, "probe").unwrap();
    dir::make_new_dir(&held, "probe", 0o700).unwrap();
    let removed = dir::open_dir(&held, "probe").unwrap();
    dir::remove_dir(&held, "probe").unwrap();
    let protects = std::fs::read_to_string("/proc/sys/fs/protected_hardlinks").unwrap();
    Settings {
        daemon: if who == As::Nobody { (NOBODY, NOBODY) } else { us },
        daemon_is_root: who == As::Us && us.0 == 0,
        umask: umask(),
        handles: file.handle().is_some(),
        attributes: file.set_attribute(ATTRIBUTE, b"x").is_ok(),
        flags: file.flags().is_ok(),
        unnamed: probe.is_ok(),
        unnamed_in_removed: dir::create_unnamed(&removed, Mode::from_raw_mode(0o600)).err(),
        protects_links: protects.trim() == "1",
        ..Settings::of(counter())
    }
}

impl Both {
    pub(super) fn new(at: &Path, who: As) -> Self {
        let at = tempfile::tempdir_in(at).unwrap();
        let settings = settings(at.path(), who);
        std::fs::create_dir_all(at.path().join(DEEP)).unwrap();
        let twin = Twin::new(settings.clone());
        twin.hands(|hands| {
            hands.make_folder("/r").unwrap();
            hands.chown("/r", settings.daemon.0, settings.daemon.1).unwrap();
            if who == As::Nobody {
                hands.act_as(NOBODY, NOBODY);
            }
            hands.make_folders(TWINS).unwrap();
        });
        let side = |files: Files, root: &Path| {
            let mut slots = [const { None }; SLOTS];
            slots[0] = Some(files.at(root).open().unwrap());
            Side { files, root: root.to_owned(), slots }
        };
        let real = side(Files::real().clone(), &at.path().join(DEEP));
        let twins = side(twin.files(), Path::new(TWINS));
        let held = real.slots[0].as_ref().unwrap();
        let file = dir::create_unnamed(held, Mode::from_raw_mode(0o600));
        let project = |file: Fd| {
            let extended = file.extended()?;
            file.set_extended(Extended { project: 7, ..extended })
        };
        let kind = rustix::fs::statfs(at.path()).unwrap().f_type;
        let has_projects = settings.flags && file.and_then(project).is_ok();
        Self {
            twin,
            real,
            twins,
            held: [const { None }; SLOTS],
            twins_held: [const { None }; SLOTS],
            instance: inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).unwrap(),
            // XFS takes bits of a mode from those who are not root.
            has_projects: has_projects && who == As::Us,
            has_flags: settings.flags,
            is_xfs: kind == 0x5846_5342,
            at,
        }
    }

    /// Does the same with both, and says how they differ.
    pub(super) fn step(&mut self, step: &Step) -> std::result::Result<(), TestCaseError> {
        if self.is_left_out(step) {
            return Ok(());
        }
        let mut real = self.done(step, true);
        let twins = self.done(step, false);
        // A process that is just being started beside us may hold a copy of a descriptor for a moment.
        if matches!(step, Step::Writer(_)) {
            for _ in 0..1_000 {
                if real == twins {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
                real = self.done(step, true);
            }
        }
        if self.is_xfs && real == Err(Errno::EXIST) && twins == Err(Errno::NOTEMPTY) {
            real = twins.clone();
        }
        if real != twins {
            return Err(TestCaseError::fail(format!("real {real:?}, twin {twins:?}")));
        }
        self.compare_notices()
    }

    /// What can't be compared: a read or write that would wait, or has another outcome by chance.
    fn is_left_out(&self, step: &Step) -> bool {
        let twin_is = |path: &str| self.twin.hands(|hands| hands.leads_to(&Path::new(TWINS).join(path)));
        match step {
            Step::TheyRead(path)
            | Step::TheyWrite(path, _)
            | Step::TheyHold(path, ..)
            | Step::TheyCut(path, _) => {
                matches!(twin_is(path), Some(FileType::Fifo | FileType::Socket))
            }
            Step::Write(of, _) | Step::Read(of, ..) => {
                let is = self.twins.slots[*of].as_ref().and_then(|fd| fd.stat().ok());
                is.is_some_and(|is| FileType::from_raw_mode(is.st_mode) != FileType::RegularFile)
            }
            Step::Open(at, path, How::Anew, ..) => {
                let is = self.twins.slots[*at].as_ref().and_then(|fd| dir::stat(fd, path.as_str()).ok());
                is.is_some_and(|is| FileType::from_raw_mode(is.st_mode) == FileType::Fifo)
            }
            // What a link leads to is at another place for each kernel, if it leads up.
            Step::ChmodAt(at, path, _) => {
                let is = self.twins.slots[*at].as_ref().and_then(|fd| dir::stat(fd, path.as_str()).ok());
                is.is_none_or(|is| FileType::from_raw_mode(is.st_mode) == FileType::Symlink)
            }
            // XFS asks for the project of one of the two, ext4 for both.
            Step::Rename(_, _, _, _, Renamed::Exchange) | Step::TheyRename(_, _, Renamed::Exchange) => {
                self.is_xfs
            }
            Step::Mark(..) => !self.has_flags,
            Step::Project(..) => !self.has_projects,
            _ => false,
        }
    }

    fn done(&mut self, step: &Step, real: bool) -> Outcome {
        let theirs = if real { self.they(step) } else { self.twins_they(step) };
        if let Some(outcome) = theirs {
            return outcome;
        }
        let side = if real { &mut self.real } else { &mut self.twins };
        side.daemons(step)
    }

    fn they(&mut self, step: &Step) -> Option<Outcome> {
        let root = self.real.root.clone();
        let at = |path: &str| root.join(path);
        let unit = |done: Result<()>| Some(done.map(|()| String::new()));
        match step {
            Step::Watch(path) => {
                Some(inotify::add_watch(&self.instance, at(path), TOLD).map(|number| number.to_string()))
            }
            Step::TheyMake(path, made) => unit(match made {
                Made::Folder => rustix::fs::mkdir(at(path), Mode::from_raw_mode(0o777)),
                Made::Fifo => {
                    rustix::fs::mknodat(CWD, at(path), FileType::Fifo, Mode::from_raw_mode(0o666), 0)
                }
                Made::Socket => {
                    rustix::fs::mknodat(CWD, at(path), FileType::Socket, Mode::from_raw_mode(0o666), 0)
                }
            }),
            Step::TheyLink(from, to) => unit(rustix::fs::link(at(from), at(to))),
            Step::TheyPoint(to, path) => unit(rustix::fs::symlink(to, at(path))),
            Step::TheyRename(from, to, how) => {
                unit(rustix::fs::renameat_with(CWD, at(from), CWD, at(to), flags(*how)))
            }
            Step::TheyUnlink(path, true) => unit(rustix::fs::rmdir(at(path))),
            Step::TheyUnlink(path, false) => unit(rustix::fs::unlink(at(path))),
            Step::TheyWrite(path, bytes) => unit(self.begin(path).and_then(|file| {
                let mut left = bytes.as_slice();
                while !left.is_empty() {
                    left = &left[rustix::io::write(&file, left)?..];
                }
                Ok(())
            })),
            Step::TheyHold(path, anew, to) => {
                self.held[*to] = None;
                let held = if *anew { self.begin(path) } else { self.open(path, OFlags::WRONLY) };
                unit(held.map(|file| self.held[*to] = Some(file)))
            }
            Step::TheyGoOn(of, bytes) => {
                let file = self.held[*of].as_ref()?;
                unit(rustix::io::write(file, bytes).map(drop))
            }
            Step::TheyClose(of) => {
                self.held[*of] = None;
                unit(Ok(()))
            }
            Step::TheyChmod(path, mode) => unit(rustix::fs::chmod(at(path), Mode::from_raw_mode(*mode))),
            Step::TheyCut(path, length) => {
                unit(self.open(path, OFlags::WRONLY).and_then(|file| rustix::fs::ftruncate(file, *length)))
            }
            Step::TheyRead(path) => Some(self.open(path, OFlags::RDONLY).and_then(|file| {
                // Of a hole enough is read.
                let mut bytes = vec![0; 20_000];
                let read = rustix::io::pread(&file, &mut bytes, 0)?;
                bytes.truncate(read);
                Ok(format!("{bytes:?}"))
            })),
            _ => None,
        }
    }

    fn begin(&self, path: &str) -> Result<File> {
        self.open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)
    }

    fn open(&self, path: &str, flags: OFlags) -> Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::open(self.real.root.join(path), flags, Mode::from_raw_mode(0o666)).map(File::from)
    }

    fn twins_they(&mut self, step: &Step) -> Option<Outcome> {
        if let Step::Watch(path) = step {
            let path = Path::new(TWINS).join(path);
            return Some(self.twin.watch_for_tests(&path).map(|number| number.to_string()));
        }
        let Self { twin, twins_held, .. } = self;
        let (user, group, all) = {
            let settings = &twin.state().disk.settings;
            (settings.daemon.0, settings.daemon.1, settings.daemon_is_root)
        };
        twin.hands(|hands| {
            if !all {
                hands.act_as(user, group);
            }
            twins_hands(hands, twins_held, step)
        })
    }

    fn notices(&self) -> Vec<String> {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(&self.instance, &mut buffer);
        let mut told = Vec::new();
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| String::from_utf8_lossy(name.to_bytes()).into_owned());
            let events = event.events() - inotify::ReadFlags::ISDIR;
            told.push(format!("{} {events:?} {name:?}", event.wd()));
        }
        told
    }

    fn compare_notices(&self) -> std::result::Result<(), TestCaseError> {
        let twins: Vec<String> = self
            .twin
            .told_for_tests()
            .into_iter()
            .map(|(number, events, name)| {
                let name = name.map(|name| name.to_string_lossy().into_owned());
                format!("{number} {events:?} {name:?}")
            })
            .collect();
        let mut real = self.notices();
        // As above, of a file that was closed.
        for _ in 0..1_000 {
            if real.len() >= twins.len() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
            real.extend(self.notices());
        }
        prop_assert_eq!(real, twins, "told by the real one, and by the twin");
        Ok(())
    }

    /// Does the same with both, and compares whose stamps that changed.
    pub(super) fn step_with_stamps(&mut self, step: &Step) -> std::result::Result<(), TestCaseError> {
        let before = [self.real.stamps(), self.twins.stamps()];
        // What changes next has another stamp.
        let scratch = self.at.path().join("scratch");
        let stamp = || {
            std::fs::write(&scratch, "x").unwrap();
            rustix::fs::stat(&scratch).map(|stat| (stat.st_mtime, stat.st_mtime_nsec)).unwrap()
        };
        let first = stamp();
        while stamp() == first {}
        self.step(step)?;
        let after = [self.real.stamps(), self.twins.stamps()];
        let [real, twins] = [0, 1].map(|side| -> Vec<(&PathBuf, [bool; 2])> {
            let changed = |path, now: &Stamps| {
                let was: &Stamps = before[side].get(path)?;
                (was.0 == now.0).then(|| [was.1 != now.1, was.2 != now.2])
            };
            after[side].iter().filter_map(|(path, now)| Some((path, changed(path, now)?))).collect()
        });
        prop_assert_eq!(real, twins, "contents and inode, of the real one and of the twin");
        Ok(())
    }

    /// Compares all that is there.
    pub(super) fn finish(self) -> std::result::Result<(), TestCaseError> {
        let (real, twins) = (self.real.tree(), self.twins.tree());
        prop_assert_eq!(real, twins, "what is there in the real one, and in the twin");
        Ok(())
    }
}

fn twins_hands(hands: &mut Hands<'_>, held: &mut [Option<Held>; SLOTS], step: &Step) -> Option<Outcome> {
    let at = |path: &str| Path::new(TWINS).join(path);
    let unit = |done: Result<()>| Some(done.map(|()| String::new()));
    match step {
        Step::TheyMake(path, Made::Folder) => unit(hands.make_folder(at(path))),
        Step::TheyMake(path, Made::Fifo) => unit(hands.make_fifo(at(path))),
        Step::TheyMake(path, Made::Socket) => unit(hands.make_socket(at(path))),
        Step::TheyLink(from, to) => unit(hands.link(at(from), at(to))),
        Step::TheyPoint(to, path) => unit(hands.make_link(to, at(path))),
        Step::TheyRename(from, to, Renamed::Exchange) => unit(hands.exchange(at(from), at(to))),
        Step::TheyRename(from, to, Renamed::New) => unit(hands.rename_new(at(from), at(to))),
        Step::TheyRename(from, to, Renamed::Over) => unit(hands.rename(at(from), at(to))),
        Step::TheyUnlink(path, true) => unit(hands.remove_folder(at(path))),
        Step::TheyUnlink(path, false) => unit(hands.unlink(at(path))),
        Step::TheyWrite(path, bytes) => unit(hands.write(at(path), bytes)),
        Step::TheyHold(path, anew, to) => {
            if let Some(held) = held[*to].take() {
                hands.close(held);
            }
            let begun = if *anew { hands.begin(at(path)) } else { hands.hold(at(path)) };
            unit(begun.map(|file| held[*to] = Some(file)))
        }
        Step::TheyGoOn(of, bytes) => {
            let file = held[*of].as_ref()?;
            unit(hands.go_on(file, bytes))
        }
        Step::TheyClose(of) => {
            if let Some(held) = held[*of].take() {
                hands.close(held);
            }
            unit(Ok(()))
        }
        Step::TheyChmod(path, mode) => unit(hands.chmod(at(path), *mode)),
        Step::TheyCut(path, length) => unit(hands.set_length(at(path), *length)),
        Step::TheyRead(path) => Some(hands.read_some(at(path), 20_000).map(|bytes| format!("{bytes:?}"))),
        _ => None,
    }
}

fn flags(how: Renamed) -> RenameFlags {
    match how {
        Renamed::Over => RenameFlags::empty(),
        Renamed::New => RenameFlags::NOREPLACE,
        Renamed::Exchange => RenameFlags::EXCHANGE,
    }
}

/// What is compared of a `stat`.
fn shown(stat: &Stat) -> String {
    let is = FileType::from_raw_mode(stat.st_mode);
    let size = if is == FileType::Directory { 0 } else { stat.st_size };
    let mode = stat.st_mode & 0o7777;
    format!("{is:?} {mode:o} {} {}:{} {size}", stat.st_nlink, stat.st_uid, stat.st_gid)
}

impl Side {
    fn daemons(&mut self, step: &Step) -> Outcome {
        let Self { files, root, slots } = self;
        let of = |at: usize| slots[at].as_ref().ok_or(Errno::BADF);
        let unit = |done: Result<()>| done.map(|()| String::new());
        let name = |path: &str| CString::new(path).unwrap();
        match step {
            Step::OpenPath(path, follows, to) => {
                let path = root.join(path);
                let at = files.at(&path);
                let opened = if *follows { at.open() } else { at.open_itself() };
                opened.map(|fd| slots[*to] = Some(fd)).map(|()| String::new())
            }
            Step::Open(at, path, how, mode, to) => {
                let (at, path, mode) = (of(*at)?, path.as_str(), Mode::from_raw_mode(mode & 0o777));
                let opened = match how {
                    How::Folder => dir::open_dir(at, path),
                    How::Read => dir::open_to_read(at, path),
                    How::Pass => dir::pass_dir(at, path),
                    How::New => dir::create_new(at, path, mode),
                    How::Unnamed => dir::create_unnamed(at, mode),
                    How::Anew => dir::open_anew(at, path, mode),
                };
                opened.map(|fd| slots[*to] = Some(fd)).map(|()| String::new())
            }
            Step::Close(at) => {
                if *at > 0 {
                    slots[*at] = None;
                }
                Ok(String::new())
            }
            Step::MakeFolder(at, path, mode) => unit(dir::make_new_dir(of(*at)?, path.as_str(), *mode)),
            Step::StatAt(at, path) => dir::stat(of(*at)?, path.as_str()).map(|stat| shown(&stat)),
            Step::ChmodAt(at, path, mode) => unit(dir::chmod(of(*at)?, path.as_str(), *mode)),
            Step::Link(at, from, to, path) => {
                unit(dir::link(of(*at)?, from.as_str(), of(*to)?, path.as_str()))
            }
            Step::LinkItself(is, at, path) => unit(dir::link_file(of(*is)?, of(*at)?, path.as_str())),
            Step::Rename(at, from, to, path, how) => {
                unit(of(*at)?.rename(&name(from), of(*to)?, &name(path), flags(*how)))
            }
            Step::Unlink(at, path, folder) => {
                let flags = if *folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                unit(of(*at)?.unlink(&name(path), flags))
            }
            Step::Names(at) => {
                let mut names = Vec::new();
                dir::each_name(of(*at)?, |name, is| {
                    names.push(format!("{} {is:?}", name.to_string_lossy()));
                    ControlFlow::Continue(())
                })?;
                names.sort();
                Ok(format!("{names:?}"))
            }
            Step::Stat(at) => of(*at)?.stat().map(|stat| shown(&stat)),
            Step::IsSame(is, at, path) => {
                let (is, other) = (of(*is)?.stat()?, dir::stat(of(*at)?, path.as_str())?);
                Ok((is.st_ino == other.st_ino && is.st_dev == other.st_dev).to_string())
            }
            Step::Writer(at) => {
                let is = of(*at)?.writer();
                // Whether it says so at all is one thing, and what another.
                Ok(if is == Writer::Unknown { "unknown".to_owned() } else { format!("{is:?}") })
            }
            Step::Chmod(at, mode) => unit(of(*at)?.chmod(Mode::from_raw_mode(*mode))),
            Step::Chown(at, user, group) => unit(of(*at)?.chown(*user, *group)),
            Step::Read(at, most, from) => {
                let mut bytes = vec![0; *most];
                let read = of(*at)?.read_at(&mut bytes, *from)?;
                bytes.truncate(read);
                Ok(format!("{bytes:?}"))
            }
            Step::Write(at, bytes) => of(*at)?.write(bytes).map(|written| written.to_string()),
            Step::Sync(at) => unit(of(*at)?.sync()),
            Step::Attribute(at, room) => {
                let mut value = vec![0; *room];
                of(*at)?.attribute(ATTRIBUTE, &mut value).map(|length| format!("{length} {value:?}"))
            }
            Step::AttributeAt(at, path, room) => {
                let mut value = vec![0; *room];
                let length = of(*at)?.attribute_at(&name(path), ATTRIBUTE, &mut value)?;
                Ok(format!("{length} {value:?}"))
            }
            Step::SetAttribute(at, value) => unit(of(*at)?.set_attribute(ATTRIBUTE, value)),
            Step::Mark(at, marks) => {
                let at = of(*at)?;
                let flags = at.flags()?;
                at.set_flags((flags & !0xc0) | marks)?;
                Ok(format!("{:x}", at.flags()? & FLAGS))
            }
            Step::Project(at, project, inherits) => {
                let at = of(*at)?;
                let extended = at.extended()?;
                let flags = if *inherits { extended.flags | 0x200 } else { extended.flags & !0x200 };
                at.set_extended(Extended { flags, project: *project, ..extended })?;
                let is = at.extended()?;
                Ok(format!("{} {:x} {:x}", is.project, is.flags & 0x3ff, at.flags()? & FLAGS))
            }
            _ => Ok("not the daemon's".to_owned()),
        }
    }

    /// The stamps of all that is below the root.
    fn stamps(&self) -> BTreeMap<PathBuf, Stamps> {
        let (mut found, mut left) = (BTreeMap::new(), VecDeque::from([PathBuf::new()]));
        while let Some(folder) = left.pop_front() {
            let path = self.root.join(&folder);
            let Ok(stat) = self.files.at(&path).stat() else { continue };
            let stamps =
                (stat.st_ino, (stat.st_mtime, stat.st_mtime_nsec), (stat.st_ctime, stat.st_ctime_nsec));
            let held = self.files.at(&path).open_itself();
            let listed = held.and_then(|held| {
                dir::each_name(&held, |name, _| {
                    left.push_back(folder.join(dir::os(name)));
                    ControlFlow::Continue(())
                })
            });
            // It is no folder, or a closed one.
            let _ = listed;
            found.insert(folder, stamps);
        }
        found
    }

    /// All that is below the root, as far as it can be seen.
    fn tree(&self) -> Vec<String> {
        let (mut found, mut left) = (Vec::new(), VecDeque::from([PathBuf::new()]));
        while let Some(folder) = left.pop_front() {
            let path = self.root.join(&folder);
            let held = match self.files.at(&path).open_itself() {
                Ok(held) => held,
                Err(error) => {
                    found.push(format!("{}: {error:?}", folder.display()));
                    continue;
                }
            };
            let listed = dir::each_name(&held, |name, _| {
                let path = folder.join(dir::os(name));
                let is = dir::stat(&held, name);
                let bytes = dir::open_to_read(&held, name).and_then(|file| {
                    let mut bytes = vec![0; 9_000];
                    file.read_at(&mut bytes, 0).map(|read| bytes[..read].to_vec())
                });
                let shows =
                    is.as_ref().is_ok_and(|is| FileType::from_raw_mode(is.st_mode) == FileType::RegularFile);
                let bytes = shows.then_some(bytes);
                found.push(format!("{}: {:?} {bytes:?}", path.display(), is.as_ref().map(shown)));
                if is.is_ok_and(|is| FileType::from_raw_mode(is.st_mode) == FileType::Directory) {
                    left.push_back(path);
                }
                ControlFlow::Continue(())
            });
            if let Err(error) = listed {
                found.push(format!("{}: {error:?}", folder.display()));
            }
        }
        found.sort();
        found
    }
}
