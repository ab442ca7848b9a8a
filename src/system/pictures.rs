//! Small pictures of kept files. A process of this program makes each: shut in as a hook is, without any file but the picture on its
//! standard input, and gone afterwards. What it says is kept in memory, as far as there is room.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Mutex,
    time::Duration,
};

use ipc_handlers::Time;
use tokio::sync::Semaphore;

use super::{
    bounds::{self, Bounds, Over},
    confine::{Confined, Reach},
    hook::most_of,
    locked::Locked as _,
    tree,
    world::World,
};

/// The first argument by which this program knows that it is to make one.
pub const SMALL: &str = "small-picture";
/// The code by which it ends where none can be made of the file. The walls around it end by others.
pub const NO_PICTURE: u8 = 65;

/// The largest file of which one is made, bytes.
pub const LARGEST: u64 = 32 << 20;
/// The most that is taken for a small picture, bytes.
const MOST: usize = 512 << 10;
/// How long it may take.
const WITHIN: Duration = Duration::from_secs(15);
/// How long a file of which none could be made is not tried again, ms: it may be one that takes all its time each time.
const REST_MS: i64 = 300_000;
/// How many are made at a time.
const AT_ONCE: usize = 2;
/// The most that is read of why one could not be made.
const MOST_LOG: usize = 2 << 10;
/// How much is kept, bytes; and how many.
const KEPT: usize = 8 << 20;
const MANY: usize = 256;
/// What the process that makes one may use.
const BOUNDS: Bounds = Bounds { tasks: 16, memory: 1 << 30, disk: 1 << 20 };

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum Unmade {
    #[error("it took more than {} s", WITHIN.as_secs())]
    Slow,
    #[error("it was ended: {0}")]
    TooMuch(#[from] Over),
    #[error("the file has more than {} MiB", LARGEST >> 20)]
    Large,
    #[error("the file is no picture that can be shown")]
    NoPicture,
    #[error("the process that makes one failed ({status}): {said:?}")]
    Ended { status: ExitStatus, said: String },
    #[error("it failed a moment ago, and is tried again within minutes")]
    Lately,
    #[error("too many others are made at the moment")]
    Crowded,
    #[error("the host could not make one: {0}")]
    World(#[from] io::Error),
}

/// Makes small pictures, and keeps the newest.
pub struct Pictures {
    world: World,
    /// This program.
    program: PathBuf,
    /// The folder in which process groups are noted.
    notes: PathBuf,
    /// The folder of their own folders.
    work: PathBuf,
    places: Semaphore,
    kept: Mutex<Kept>,
    /// The fault that the log was told of last.
    told: Mutex<Option<String>>,
}

/// What came of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Made {
    Picture(Vec<u8>),
    /// None can be made of it.
    None,
    /// It failed at this instant.
    Failed(Time),
}

impl Made {
    fn shown(self) -> Result<Option<Vec<u8>>, Unmade> {
        match self {
            Self::Picture(picture) => Ok(Some(picture)),
            Self::None => Ok(None),
            Self::Failed(_) => Err(Unmade::Lately),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Picture(bytes) => bytes.len(),
            Self::None | Self::Failed(_) => 0,
        }
    }
}

/// The newest, by the digests of their files.
#[derive(Default)]
struct Kept {
    all: VecDeque<([u8; 32], Made)>,
    bytes: usize,
}

impl Kept {
    fn get(&self, digest: &[u8; 32], now: Time) -> Option<Made> {
        let (_, made) = self.all.iter().rev().find(|(of, _)| of == digest)?;
        let is_over = match made {
            Made::Failed(at) => !(0..REST_MS).contains(&now.ms_since(*at)),
            Made::Picture(_) | Made::None => false,
        };
        (!is_over).then(|| made.clone())
    }

    fn keep(&mut self, digest: [u8; 32], made: Made) {
        self.bytes += made.bytes();
        self.all.push_back((digest, made));
        while self.bytes > KEPT || self.all.len() > MANY {
            let Some((_, gone)) = self.all.pop_front() else { return };
            self.bytes -= gone.bytes();
        }
    }
}

/// Removes a folder when it is dropped.
struct Leaves(PathBuf);

impl Drop for Leaves {
    fn drop(&mut self) {
        // The next one of its name, or the next start, removes what can't be removed now.
        let _ = tree::remove(&self.0);
    }
}

impl Pictures {
    /// Makes them below `data`, by this program. What an earlier process has left there is removed.
    #[must_use]
    pub fn new(world: World, program: PathBuf, notes: PathBuf, data: &Path) -> Self {
        let work = data.join("small");
        drop(Leaves(work.clone()));
        Self {
            world,
            program,
            notes,
            work,
            places: Semaphore::new(AT_ONCE),
            kept: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// Returns the small picture of a file with these contents, as PNG; `open` opens it. `None`: none can be made of it.
    ///
    /// # Errors
    /// It takes too much, or the world fails: another time it may be made.
    pub async fn of(
        &self,
        digest: [u8; 32],
        open: impl FnOnce() -> io::Result<File> + Send + 'static,
    ) -> Result<Option<Vec<u8>>, Unmade> {
        let known = || self.kept.locked().get(&digest, self.world.now());
        if let Some(kept) = known() {
            return kept.shown();
        }
        let place = tokio::time::timeout(WITHIN, self.places.acquire()).await;
        let _place = place.map_err(|_| Unmade::Crowded)?;
        // Another one may have made it meanwhile.
        if let Some(kept) = known() {
            return kept.shown();
        }
        let file = self.world.tried(open).await?;
        let made = match self.make(file).await {
            Ok(picture) => Made::Picture(picture),
            Err(Unmade::NoPicture | Unmade::Large) => Made::None,
            Err(error) => {
                self.tell(&error);
                self.kept.locked().keep(digest, Made::Failed(self.world.now()));
                return Err(error);
            }
        };
        self.kept.locked().keep(digest, made.clone());
        made.shown()
    }

    /// Tells the log of a fault, once until it is another one.
    fn tell(&self, error: &Unmade) {
        let why = error.to_string();
        let mut told = self.told.locked();
        if told.as_ref() != Some(&why) {
            tracing::warn!(error = %why, "a small picture of a file could not be made; the file itself is there");
            *told = Some(why);
        }
    }

    async fn make(&self, file: File) -> Result<Vec<u8>, Unmade> {
        use std::os::unix::fs::DirBuilderExt as _;
        if file.metadata()?.len() > LARGEST {
            return Err(Unmade::Large);
        }
        let home = self.work.join(self.world.id()?);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&home)?;
        let leaves = Leaves(home);
        let command = [self.program.display().to_string(), SMALL.to_owned()];
        let confined = Confined {
            by: &self.program,
            notes: &self.notes,
            command: &command,
            home: &leaves.0,
            spool: None,
            reads: &[],
            writes: &[],
            reach: Reach::Nobody,
            variables: &[],
            is_passing: true,
        };
        // It is dropped, and ends, before its folder is removed.
        let mut group = confined.start(Stdio::from(file), Stdio::piped())?;
        let leader = group.id().ok_or_else(|| io::Error::other("the process has no id"))?;
        let (stdout, stderr) = (group.child.stdout.take(), group.child.stderr.take());
        let all = async { tokio::join!(most_of(stdout, MOST), most_of(stderr, MOST_LOG), group.ended()) };
        let ((picture, more), (said, _), status) = tokio::select! {
            all = tokio::time::timeout(WITHIN, all) => all.map_err(|_| Unmade::Slow)?,
            over = bounds::exceeded(&self.world, leader, vec![leaves.0.clone()], BOUNDS) => return Err(over.into()),
        };
        let status = status?;
        match status.code() {
            Some(0) if !more => Ok(picture),
            Some(code) if code == i32::from(NO_PICTURE) => Err(Unmade::NoPicture),
            Some(_) | None => {
                let said = String::from_utf8_lossy(&said).trim().to_owned();
                Err(Unmade::Ended { status, said })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_pictures_are_kept_as_far_as_there_is_room() {
        let (mut kept, now) = (Kept::default(), Time(0));
        kept.keep([1; 32], Made::None);
        assert_eq!((kept.get(&[1; 32], now), kept.get(&[2; 32], now)), (Some(Made::None), None));
        for n in 0..40 {
            kept.keep([n; 32], Made::Picture(vec![n; MOST]));
            assert!(kept.bytes <= KEPT);
        }
        let newest = Made::Picture(vec![39; MOST]);
        assert_eq!((kept.get(&[39; 32], now), kept.get(&[2; 32], now)), (Some(newest), None));
        for n in 0..=u8::MAX {
            kept.keep([n; 32], Made::None);
        }
        assert!(kept.all.len() <= MANY);
    }

    #[test]
    fn a_file_of_which_none_could_be_made_rests_for_minutes_and_is_tried_again() {
        let (mut kept, at) = (Kept::default(), Time(1_000_000));
        kept.keep([1; 32], Made::Failed(at));
        for (after, rests) in [(0, true), (REST_MS - 1, true), (REST_MS, false), (-1, false)] {
            assert_eq!(kept.get(&[1; 32], at.plus_ms(after)).is_some(), rests, "{after}");
        }
        kept.keep([1; 32], Made::Picture(vec![1]));
        assert_eq!(kept.get(&[1; 32], at), Some(Made::Picture(vec![1])));
    }

    #[tokio::test]
    async fn a_host_that_can_start_no_process_is_no_fault_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let of = |program: &str| {
            Pictures::new(World::real(), program.into(), dir.path().join("notes"), dir.path())
        };
        let open = || {
            use rustix::fs::{Mode, OFlags};
            Ok(File::from(rustix::fs::open("/dev/null", OFlags::RDONLY, Mode::empty())?))
        };
        let pictures = of("/bin/false");
        assert!(matches!(pictures.of([1; 32], open).await, Err(Unmade::Ended { .. })));
        assert!(matches!(pictures.of([1; 32], open).await, Err(Unmade::Lately)));
        let pictures = of("/nowhere/g2");
        assert!(matches!(pictures.of([1; 32], open).await, Err(Unmade::World(_))));
    }
}
