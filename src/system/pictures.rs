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

/// The largest file of which one is made, bytes.
pub const LARGEST: u64 = 32 << 20;
/// The most that is taken for a small picture, bytes.
const MOST: usize = 512 << 10;
/// How long it may take.
const WITHIN: Duration = Duration::from_secs(15);
/// How many are made at a time.
const AT_ONCE: usize = 2;
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
    #[error("the file is no picture that can be shown ({0})")]
    Ended(ExitStatus),
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
}

/// The newest pictures by the digests of their files; `None`: of that file none can be made.
#[derive(Default)]
struct Kept {
    all: VecDeque<([u8; 32], Option<Vec<u8>>)>,
    bytes: usize,
}

impl Kept {
    fn get(&self, digest: &[u8; 32]) -> Option<Option<Vec<u8>>> {
        self.all.iter().find(|(of, _)| of == digest).map(|(_, picture)| picture.clone())
    }

    fn keep(&mut self, digest: [u8; 32], picture: Option<Vec<u8>>) {
        self.bytes += picture.as_ref().map_or(0, Vec::len);
        self.all.push_back((digest, picture));
        while self.bytes > KEPT || self.all.len() > MANY {
            let Some((_, gone)) = self.all.pop_front() else { return };
            self.bytes -= gone.map_or(0, |gone| gone.len());
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
        Self { world, program, notes, work, places: Semaphore::new(AT_ONCE), kept: Mutex::default() }
    }

    /// Returns the small picture of a file with these contents, as PNG; `open` opens it. `None`: none can be made of it.
    ///
    /// # Errors
    /// The world's: another time it may be made.
    pub async fn of(
        &self,
        digest: [u8; 32],
        open: impl FnOnce() -> io::Result<File> + Send + 'static,
    ) -> Result<Option<Vec<u8>>, Unmade> {
        let known = || self.kept.locked().get(&digest);
        if let Some(kept) = known() {
            return Ok(kept);
        }
        let _place = self.places.acquire().await;
        // Another one may have made it meanwhile.
        if let Some(kept) = known() {
            return Ok(kept);
        }
        let file = self.world.tried(open).await?;
        let picture = match self.make(file).await {
            Ok(picture) => Some(picture),
            Err(error @ (Unmade::World(_) | Unmade::Slow)) => return Err(error),
            Err(Unmade::TooMuch(_) | Unmade::Large | Unmade::Ended(_)) => None,
        };
        self.kept.locked().keep(digest, picture.clone());
        Ok(picture)
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
        let mut group = confined.start(Stdio::from(file), Stdio::null())?;
        let leader = group.id().ok_or_else(|| io::Error::other("the process has no id"))?;
        let stdout = group.child.stdout.take();
        let all = async { tokio::join!(most_of(stdout, MOST), group.ended()) };
        let ((picture, more), status) = tokio::select! {
            all = tokio::time::timeout(WITHIN, all) => all.map_err(|_| Unmade::Slow)?,
            over = bounds::exceeded(&self.world, leader, vec![leaves.0.clone()], BOUNDS) => return Err(over.into()),
        };
        let status = status?;
        if !status.success() || more {
            return Err(Unmade::Ended(status));
        }
        Ok(picture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_pictures_are_kept_as_far_as_there_is_room() {
        let mut kept = Kept::default();
        kept.keep([1; 32], None);
        assert_eq!((kept.get(&[1; 32]), kept.get(&[2; 32])), (Some(None), None));
        for n in 0..40 {
            kept.keep([n; 32], Some(vec![n; MOST]));
            assert!(kept.bytes <= KEPT);
        }
        assert_eq!((kept.get(&[39; 32]), kept.get(&[2; 32])), (Some(Some(vec![39; MOST])), None));
        for n in 0..=u8::MAX {
            kept.keep([n; 32], None);
        }
        assert!(kept.all.len() <= MANY);
    }
}
