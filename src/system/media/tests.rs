#![expect(clippy::disallowed_methods, reason = "plays who writes files")]

use std::{fs, io::Read as _};

use super::{built::Bytes, *};

const MOST: u64 = 1 << 20;

struct World {
    root: tempfile::TempDir,
    media: Arc<Media>,
}

fn world() -> World {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("data")).unwrap();
    fs::create_dir(root.path().join("in")).unwrap();
    let media = Media::open(&root.path().join("data")).unwrap();
    World { root, media }
}

impl World {
    fn spool(&self) -> PathBuf {
        self.root.path().join("in")
    }

    fn take(&self, name: &str) -> Result<InHand, NotKept> {
        self.media.take(&self.spool(), name, MOST)
    }

    fn fault(&self, name: &str) -> FileFault {
        match self.take(name) {
            Err(NotKept::Fault(fault)) => fault,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn kept(&self) -> usize {
        let mut count = 0;
        self.media
            .each_kept(|_| {
                count += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
        count
    }
}

#[test]
fn equal_files_are_kept_once_and_leave_where_they_were() {
    let w = world();
    fs::write(w.spool().join("a"), b"\x89PNG\r\n\x1a\nx").unwrap();
    fs::create_dir(w.spool().join("d")).unwrap();
    fs::write(w.spool().join("d/b"), b"\x89PNG\r\n\x1a\nx").unwrap();
    let (a, b) = (w.take("a").unwrap(), w.take("d/b").unwrap());
    assert_eq!((a.digest, a.size, a.mime), (b.digest, 9, Some("image/png")));
    assert_eq!(w.kept(), 1);
    assert!(!w.spool().join("a").exists() && !w.spool().join("d/b").exists());
    assert_eq!(fs::read_dir(w.root.path().join("data/media/new")).unwrap().count(), 0);
    let mut bytes = Vec::new();
    w.media.read(&a.digest).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"\x89PNG\r\n\x1a\nx");
}

#[test]
fn what_is_no_plain_file_of_a_size_is_not_kept() {
    use std::os::unix::fs::symlink;
    let w = world();
    let at = |name: &str| w.spool().join(name);
    fs::write(at("secret"), "x").unwrap();
    symlink(at("secret"), at("link")).unwrap();
    symlink(w.root.path().join("data"), at("out")).unwrap();
    fs::hard_link(at("secret"), at("second")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::RUSR).unwrap();
    fs::create_dir(at("folder")).unwrap();
    fs::write(at("empty"), "").unwrap();
    File::create(at("huge")).unwrap().set_len(1 << 40).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for (name, fault) in [
        ("absent", FileFault::Absent),
        ("link", FileFault::NotAFile),
        ("out/media", FileFault::NotAFile),
        ("../data", FileFault::NotAFile),
        ("second", FileFault::Linked),
        ("secret", FileFault::Linked),
        ("pipe", FileFault::NotAFile),
        ("socket", FileFault::NotAFile),
        ("folder", FileFault::NotAFile),
        ("empty", FileFault::Empty),
        ("huge", FileFault::TooLarge { size: 1 << 40, most: MOST }),
    ] {
        assert_eq!(w.fault(name), fault, "{name}");
    }
    assert_eq!(w.kept(), 0);
}

#[test]
fn a_file_that_grows_or_shrinks_while_it_is_read_is_not_kept() {
    let w = world();
    let path = w.spool().join("a");
    for (before, after) in [(10_u64, 11_u64), (10, 9), (200_000, 100_000)] {
        fs::write(&path, vec![b'x'; usize::try_from(after).unwrap()]).unwrap();
        let contents = Contents::of(&w.media, &File::open(&path).unwrap(), before).unwrap();
        assert_eq!(contents.digest, None, "{before} {after}");
    }
}

#[test]
fn contents_that_are_kept_are_not_built_again() {
    use std::os::unix::fs::MetadataExt as _;
    let mut w = world();
    // In memory at a time, and not.
    for (size, is_small) in [(1, true), (65_536, true), (65_537, false), (200_000, false)] {
        let put = || fs::write(w.spool().join("a"), vec![b'x'; size]).unwrap();
        put();
        let contents =
            Contents::of(&w.media, &File::open(w.spool().join("a")).unwrap(), size as u64).unwrap();
        assert_eq!(matches!(contents.bytes, Bytes::Small(_)), is_small, "{size}");
        drop(contents);
        let first = w.take("a").unwrap();
        let ino = || w.media.read(&first.digest).unwrap().metadata().unwrap().ino();
        let kept = ino();
        put();
        let again = w.take("a").unwrap();
        assert_eq!((first.is_new, again.is_new, first.digest), (true, false, again.digest), "{size}");
        assert!(!w.spool().join("a").exists());
        assert_eq!(ino(), kept);
    }
    assert_eq!(w.kept(), 4);
    assert_eq!(fs::read_dir(w.root.path().join("data/media/new")).unwrap().count(), 0);
    // By another process, which knows of none.
    w.media = Media::open(&w.root.path().join("data")).unwrap();
    fs::write(w.spool().join("a"), "x").unwrap();
    assert!(!w.take("a").unwrap().is_new);
}

#[test]
fn contents_that_are_gone_are_built_again() {
    let w = world();
    let take = || {
        fs::write(w.spool().join("a"), "x").unwrap();
        w.take("a").unwrap()
    };
    let digest = take().digest;
    assert!(w.media.forget(&digest, || Ok::<_, io::Error>(false)).unwrap());
    assert!(take().is_new);
    let path = w.root.path().join("data/media").join(path_of(&digest));
    // Somebody else removes it, or its folder too.
    fs::remove_file(&path).unwrap();
    assert!(take().is_new);
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    assert!(take().is_new && path.exists());
}

#[test]
fn a_file_in_hand_is_there_whoever_else_keeps_and_forgets_it() {
    let w = world();
    std::thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let (w, path) = (&w, w.spool().join(name));
            scope.spawn(move || {
                for _ in 0..200 {
                    fs::write(&path, "the same").unwrap();
                    let hand = w.take(name).unwrap();
                    assert_eq!(w.media.read(&hand.digest).unwrap().metadata().unwrap().len(), 8);
                    let digest = hand.digest;
                    drop(hand);
                    w.media.forget(&digest, || Ok::<_, io::Error>(false)).unwrap();
                }
            });
        }
    });
    assert_eq!(w.kept(), 0);
}

#[test]
fn a_file_is_forgotten_when_no_row_names_it_and_nobody_has_it_in_hand() {
    let w = world();
    fs::write(w.spool().join("a"), "x").unwrap();
    let hand = w.take("a").unwrap();
    let digest = hand.digest;
    let forget = |named: bool| w.media.forget(&digest, || Ok::<_, io::Error>(named)).unwrap();
    assert!(!forget(false), "it is in hand");
    drop(hand);
    assert!(!forget(true), "a row names it");
    assert!(forget(false) && !forget(false));
    assert_eq!(w.kept(), 0);
}

#[test]
fn a_file_that_is_shown_is_the_kept_one_and_goes_when_it_is_to() {
    use std::os::unix::fs::MetadataExt as _;
    let w = world();
    fs::write(w.spool().join("a"), "x").unwrap();
    let hand = w.take("a").unwrap();
    for _ in 0..2 {
        w.media.show("main", "2026-11-22/1-1-a", &hand.digest).unwrap();
    }
    let shown = w.media.shown_to("main").join("2026-11-22/1-1-a");
    let meta = fs::metadata(&shown).unwrap();
    assert_eq!((meta.nlink(), meta.mode() & 0o7777), (2, 0o444));
    w.media.sweep_shown(|group, _| group == "main").unwrap();
    assert!(shown.exists());
    w.media.sweep_shown(|_, name| name.is_empty()).unwrap();
    assert!(!shown.exists() && w.media.shown_to("main").exists());
    w.media.sweep_shown(|_, _| false).unwrap();
    assert!(!w.media.shown_to("main").exists());
    assert_eq!(w.kept(), 1);
}

#[test]
fn what_was_being_built_is_gone_at_a_start() {
    let w = world();
    fs::write(w.root.path().join("data/media/new/7"), "half").unwrap();
    Media::open(&w.root.path().join("data")).unwrap();
    assert_eq!(fs::read_dir(w.root.path().join("data/media/new")).unwrap().count(), 0);
}
