//! A program of the user's that reads a file: shut in as an adapter is, in a group of its own, with a folder of its own that is
//! gone afterwards, and with nothing of our environment.

use std::{
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::{
    bounds::{self, BOUNDS, Over},
    confine::{Confined, Reach},
    media::Media,
    tree,
    world::World,
};

/// How much of what it says is kept, bytes.
const MOST_SAID: usize = 32 << 10;
/// How much of its log is shown, bytes.
const MOST_LOG: usize = 2 << 10;

/// A hook, and the file that it reads.
pub struct Hook<'a> {
    pub world: &'a World,
    /// This program, which shuts it in.
    pub program: &'a Path,
    /// The folder in which its group is noted.
    pub notes: &'a Path,
    pub command: &'a [String],
    pub reads: &'a [PathBuf],
    /// Its folder, which is made and removed.
    pub work: PathBuf,
    /// Where the file lies there, in a folder of it.
    pub place: String,
    pub within: Duration,
    pub reach: Reach,
}

/// Why nothing is known of what is in a file.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    #[error("the hook took more than {} s", .0.as_secs())]
    Slow(Duration),
    #[error("the hook was ended: {0}")]
    TooMuch(#[from] Over),
    #[error("the hook ended with {0}")]
    Ended(ExitStatus),
    #[error("the hook said nothing")]
    Nothing,
    #[error("the host could not start the hook: {0}")]
    World(#[from] io::Error),
}

/// Removes a folder when it is dropped.
struct Leaves<'a>(&'a Path);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        let _ = tree::remove(self.0);
    }
}

/// Removes what hooks of an earlier daemon have left.
///
/// # Errors
/// The operating system's.
pub fn clean(folder: &Path) -> io::Result<()> {
    tree::remove(folder)
}

impl Hook<'_> {
    /// Has it read a kept file, and returns what it says.
    ///
    /// # Errors
    /// [`Unread`]
    pub async fn run(&self, media: &Arc<Media>, digest: [u8; 32]) -> Result<String, Unread> {
        use std::os::unix::fs::DirBuilderExt as _;
        tree::remove(&self.work)?;
        let _leaves = Leaves(&self.work);
        let above = self.place.rsplit_once('/').map_or("", |(above, _)| above);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(self.work.join(above))?;
        let (of, folder, at) = (Arc::clone(media), self.work.clone(), self.place.clone());
        let _copy = self.world.tried(move || of.lay_out(&digest, &folder, &at)).await?;
        let path = self.work.join(&self.place).display().to_string();
        let command: Vec<String> = self.command.iter().map(|word| word.replace("{file}", &path)).collect();
        let hook = Confined {
            by: self.program,
            notes: self.notes,
            command: &command,
            home: &self.work,
            spool: None,
            reads: self.reads,
            writes: &[],
            reach: self.reach,
            variables: &[],
            is_passing: true,
        };
        // It is dropped, and ends, before its folder is removed.
        let mut group = hook.start(Stdio::null(), Stdio::piped())?;
        let leader = group.id().ok_or_else(|| io::Error::other("the hook has no id"))?;
        let (stdout, stderr) = (group.child.stdout.take(), group.child.stderr.take());
        let all =
            async { tokio::join!(most_of(stdout, MOST_SAID), most_of(stderr, MOST_LOG), group.ended()) };
        let (said, log, status) = tokio::select! {
            all = tokio::time::timeout(self.within, all) => all.map_err(|_| Unread::Slow(self.within))?,
            over = bounds::exceeded(self.world, leader, vec![self.work.clone()], BOUNDS) => return Err(over.into()),
        };
        let log = String::from_utf8_lossy(&log.0);
        if !log.trim().is_empty() {
            tracing::info!(hook = self.command.first(), "{}", log.trim());
        }
        let status = status?;
        if !status.success() {
            return Err(Unread::Ended(status));
        }
        text_of(said).ok_or(Unread::Nothing)
    }
}

/// Reads to the end, and returns the first bytes and whether there were more.
pub(super) async fn most_of(from: Option<impl AsyncRead + Unpin>, most: usize) -> (Vec<u8>, bool) {
    let (mut kept, mut more) = (Vec::new(), false);
    let Some(mut from) = from else { return (kept, more) };
    let mut piece = vec![0; 8 << 10];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        let fits = read.min(most - kept.len());
        kept.extend_from_slice(&piece[..fits]);
        more |= fits < read;
    }
    (kept, more)
}

/// Returns what was said as a text; `None`: nothing.
fn text_of((bytes, more): (Vec<u8>, bool)) -> Option<String> {
    let text = String::from_utf8_lossy(&bytes);
    let plain = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { ' ' } else { c };
    let text: String = text.trim().trim_end_matches('\u{fffd}').chars().map(plain).collect();
    let text = text.trim();
    match (text.is_empty(), more) {
        (true, _) => None,
        (false, true) => Some(format!("{text}… (the rest is left out)")),
        (false, false) => Some(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_hook_says_is_a_text_within_bounds() {
        assert_eq!(text_of((b" hello\r\nyou\0 \n".to_vec(), false)).as_deref(), Some("hello \nyou"));
        assert_eq!(text_of((b"\n \x07".to_vec(), false)), None);
        assert_eq!(text_of(("ä".as_bytes()[..1].to_vec(), false)), None);
        assert_eq!(text_of((b"long".to_vec(), true)).as_deref(), Some("long… (the rest is left out)"));
    }
}
