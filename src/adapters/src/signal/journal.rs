//! What signal-cli told and the daemon has not stored yet, in a file of the account: signal-cli tells nothing a second time.
//!
//! An entry is a line, its number and what was told. Entries are told in order; each event has its number as a cursor, so that what the
//! daemon has stored is known after any death. The file is emptied once all of it is stored. Beside it
//! stands the id of the newest event that is kept, where signal-cli gives them ids.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::sse::{LONGEST_ID, is_id};

/// How much may wait, bytes and entries. With more, nothing is read, and signal-cli leaves the rest with Signal's servers.
const MOST_BYTES: u64 = 64 << 20;
const MOST_ENTRIES: usize = 20_000;
/// How much of the file may be stored already before it is written anew, bytes.
const MOST_DEAD: u64 = 8 << 20;

/// What has to fit on the disk before signal-cli is asked for more, bytes.
const PLACE: usize = 1 << 20;

/// The file, and where in it what stands.
pub(super) struct Journal {
    inner: Mutex<Inner>,
    more: Notify,
    less: Notify,
}

struct Inner {
    path: PathBuf,
    file: File,
    /// Where the next entry goes, and its number.
    end: u64,
    next: u64,
    /// Entries that nobody was told, and those that are told and not stored.
    waiting: VecDeque<Entry>,
    open: VecDeque<Entry>,
    /// Where what is needed has to begin before the file is written anew: after a try that failed, further on.
    anew_at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    at: u64,
    bytes: usize,
}

impl Journal {
    /// Opens the file of an account. `stored`: the number of the newest entry that the daemon has.
    pub(super) fn open(folder: &Path, stored: u64) -> io::Result<Self> {
        let path = folder.join("inbox");
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
        let mut waiting = VecDeque::new();
        let (mut end, mut newest) = (0, stored);
        let mut lines = BufReader::new(&file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = lines.read_until(b'\n', &mut line)?;
            // What a death left without its end was never told.
            let Some(body) = line.strip_suffix(b"\n") else { break };
            let head = body.iter().position(|byte| *byte == b' ').unwrap_or(body.len());
            let number = std::str::from_utf8(&body[..head]).ok().and_then(|number| number.parse().ok());
            if let Some(number) = number.filter(|number| *number > newest) {
                newest = number;
                let skipped = u64::try_from(head + 1).unwrap_or(u64::MAX);
                let bytes = body.len().saturating_sub(head + 1);
                waiting.push_back(Entry { number, at: end + skipped, bytes });
            }
            end += u64::try_from(read).unwrap_or(u64::MAX);
        }
        file.set_len(end)?;
        File::open(folder)?.sync_all()?;
        let inner = Inner { path, file, end, next: newest + 1, waiting, open: VecDeque::new(), anew_at: 0 };
        Ok(Self { inner: Mutex::new(inner), more: Notify::new(), less: Notify::new() })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once there is room for more.
    pub(super) async fn has_room(self: &Arc<Self>) -> io::Result<()> {
        loop {
            let less = self.less.notified();
            if !self.with(|inner| Ok(inner.is_full())).await? {
                return Ok(());
            }
            less.await;
        }
    }

    /// Does something with the file on a thread of its own: a disk may stand still for long.
    async fn with<T: Send + 'static>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut Inner) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || act(&mut this.inner())).await.map_err(io::Error::other)?
    }

    /// Makes sure that the disk takes something; otherwise signal-cli had better keep what it has.
    pub(super) async fn has_place(self: &Arc<Self>) -> io::Result<()> {
        self.with(|inner| {
            let tried =
                inner.file.write_all_at(&vec![0; PLACE], inner.end).and_then(|()| inner.file.sync_data());
            inner.file.set_len(inner.end)?;
            tried
        })
        .await
    }

    /// Returns the id of the newest event that was heard, where signal-cli gives them ids.
    pub(super) async fn last(self: &Arc<Self>) -> io::Result<Option<String>> {
        self.with(|inner| {
            let mut id = Vec::new();
            match File::open(inner.path.with_extension("last")) {
                Ok(file) => file.take(LONGEST_ID as u64 + 1).read_to_end(&mut id)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            Ok(String::from_utf8(id).ok().filter(|id| is_id(id.as_bytes())))
        })
        .await
    }

    /// An event was heard, and is kept.
    pub(super) async fn heard(self: &Arc<Self>, id: String) -> io::Result<()> {
        self.with(move |inner| std::fs::write(inner.path.with_extension("last"), id)).await
    }

    /// Keeps what was told; each is one line. Returns once it is on the disk; where it fails, it may be tried again.
    pub(super) async fn keep(self: &Arc<Self>, told: Arc<[String]>) -> io::Result<()> {
        if told.is_empty() {
            return Ok(());
        }
        self.with(move |inner| inner.keep(&told)).await?;
        self.more.notify_one();
        Ok(())
    }

    /// Waits for the next entry; returns its number and what was told.
    pub(super) async fn next(self: &Arc<Self>) -> io::Result<(u64, String)> {
        loop {
            if let Some(entry) = self.with(Inner::take).await? {
                return Ok(entry);
            }
            self.more.notified().await;
        }
    }

    /// The daemon has stored an entry, or there was nothing to store. Entries end in order.
    pub(super) async fn stored(self: &Arc<Self>, number: u64) -> io::Result<()> {
        let done = self.with(move |inner| inner.stored(number)).await;
        self.less.notify_one();
        done
    }
}

impl Inner {
    /// Where what is needed begins.
    fn first(&self) -> u64 {
        let first = self.open.front().or(self.waiting.front());
        first.map_or(self.end, |entry| entry.at)
    }

    fn is_full(&self) -> bool {
        self.end - self.first() >= MOST_BYTES || self.waiting.len() + self.open.len() >= MOST_ENTRIES
    }

    fn keep(&mut self, told: &[String]) -> io::Result<()> {
        let mut lines = Vec::new();
        let mut entries = Vec::with_capacity(told.len());
        for (n, said) in (self.next..).zip(told) {
            write!(lines, "{n} ")?;
            let at = self.end + u64::try_from(lines.len()).unwrap_or(u64::MAX);
            entries.push(Entry { number: n, at, bytes: said.len() });
            lines.extend_from_slice(said.as_bytes());
            lines.push(b'\n');
        }
        // Nothing of it counts before all of it is there: a second try begins at the same place.
        self.file.write_all_at(&lines, self.end)?;
        self.file.sync_data()?;
        self.end += u64::try_from(lines.len()).unwrap_or(u64::MAX);
        self.next += u64::try_from(told.len()).unwrap_or(u64::MAX);
        self.waiting.extend(entries);
        Ok(())
    }

    fn take(&mut self) -> io::Result<Option<(u64, String)>> {
        let Some(entry) = self.waiting.front().copied() else { return Ok(None) };
        let mut said = vec![0; entry.bytes];
        self.file.read_exact_at(&mut said, entry.at)?;
        self.waiting.pop_front();
        self.open.push_back(entry);
        Ok(Some((entry.number, String::from_utf8_lossy(&said).into_owned())))
    }

    fn stored(&mut self, number: u64) -> io::Result<()> {
        while self.open.front().is_some_and(|entry| entry.number <= number) {
            self.open.pop_front();
        }
        let first = self.first();
        if first == self.end {
            self.file.set_len(0)?;
            self.end = 0;
            self.anew_at = 0;
        } else if first >= MOST_DEAD.max(self.anew_at) && first >= self.end / 2 {
            // It is to save room alone: what is kept stays kept.
            match self.write_anew() {
                Ok(()) => self.anew_at = 0,
                Err(error) => {
                    self.anew_at = first + MOST_DEAD;
                    eprintln!("the file of what signal-cli told can't be made smaller: {error}");
                }
            }
        }
        Ok(())
    }

    /// Writes what is needed into a new file, which takes the place of this one.
    fn write_anew(&mut self) -> io::Result<()> {
        let path = self.path.with_extension("new");
        let done = self.write_to(&path);
        if done.is_err()
            && let Err(error) = std::fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            eprintln!("{}: {error}", path.display());
        }
        done
    }

    fn write_to(&mut self, path: &Path) -> io::Result<()> {
        let new = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        let mut end = 0;
        let mut places = Vec::new();
        for entry in self.open.iter().chain(&self.waiting) {
            let mut line = format!("{} ", entry.number).into_bytes();
            places.push(end + u64::try_from(line.len()).unwrap_or(u64::MAX));
            let from = line.len();
            line.resize(from + entry.bytes, 0);
            self.file.read_exact_at(&mut line[from..], entry.at)?;
            line.push(b'\n');
            new.write_all_at(&line, end)?;
            end += u64::try_from(line.len()).unwrap_or(u64::MAX);
        }
        new.sync_data()?;
        std::fs::rename(path, &self.path)?;
        for (entry, at) in self.open.iter_mut().chain(&mut self.waiting).zip(places) {
            entry.at = at;
        }
        (self.file, self.end) = (new, end);
        // After a power cut the old file would be there again, without what was kept since.
        self.path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &Path, stored: u64) -> Arc<Journal> {
        Arc::new(Journal::open(dir, stored).unwrap())
    }

    fn size(dir: &Path) -> u64 {
        std::fs::metadata(dir.join("inbox")).unwrap().len()
    }

    fn all(journal: &Journal) -> Vec<(u64, String)> {
        std::iter::from_fn(|| journal.inner().take().unwrap()).collect()
    }

    #[tokio::test]
    async fn what_is_not_stored_is_there_after_a_death_and_what_is_stored_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let journal = open(dir.path(), 6);
        journal.keep(vec!["{\"a\":1}".into(), "zwei ü".into()].into()).await.unwrap();
        journal.keep(vec!["three".into()].into()).await.unwrap();
        assert_eq!(journal.next().await.unwrap(), (7, "{\"a\":1}".into()));
        // The daemon stored the first one, and we did not hear of it.
        let journal = open(dir.path(), 7);
        assert_eq!(all(&journal), [(8, "zwei ü".into()), (9, "three".into())]);
        journal.stored(8).await.unwrap();
        assert!(size(dir.path()) > 0);
        journal.stored(9).await.unwrap();
        assert_eq!(size(dir.path()), 0);
        journal.keep(vec!["four".into()].into()).await.unwrap();
        // Half a line of a write that a death ended.
        let path = dir.path().join("inbox");
        let mut text = std::fs::read(&path).unwrap();
        text.extend(b"11 {\"half");
        std::fs::write(&path, &text).unwrap();
        let journal = open(dir.path(), 9);
        journal.keep(vec!["five".into()].into()).await.unwrap();
        assert_eq!(all(&journal), [(10, "four".into()), (11, "five".into())]);
        assert_eq!(all(&open(dir.path(), 11)), []);
    }

    #[tokio::test]
    async fn a_file_that_is_mostly_stored_is_written_anew_and_a_full_one_waits() {
        let dir = tempfile::tempdir().unwrap();
        let journal = open(dir.path(), 0);
        let long = "x".repeat(1 << 20);
        for _ in 0..12 {
            journal.keep(vec![long.clone()].into()).await.unwrap();
        }
        let told = all(&journal);
        for (number, _) in &told[..9] {
            journal.stored(*number).await.unwrap();
        }
        assert!(size(dir.path()) < 5 << 20);
        journal.keep(vec!["end".into()].into()).await.unwrap();
        let again = all(&open(dir.path(), 9));
        assert_eq!((again.len(), &again[3]), (4, &(13, "end".to_owned())));
        journal.keep(vec!["s".into(); MOST_ENTRIES].into()).await.unwrap();
        assert!(journal.inner().is_full());
        all(&journal);
        journal.stored(u64::MAX).await.unwrap();
        journal.has_room().await.unwrap();
    }

    #[tokio::test]
    async fn what_a_full_disk_did_not_take_is_kept_by_the_next_try() {
        let dir = tempfile::tempdir().unwrap();
        let journal = open(dir.path(), 0);
        journal.keep(vec!["one".into()].into()).await.unwrap();
        journal.has_place().await.unwrap();
        assert_eq!(size(dir.path()), 6, "nothing is left of the probe");
        let path = dir.path().join("inbox");
        let whole = std::mem::replace(&mut journal.inner().file, File::open(&path).unwrap());
        let told: Arc<[String]> = vec!["two".into(), "three".into()].into();
        journal.has_place().await.unwrap_err();
        journal.keep(Arc::clone(&told)).await.unwrap_err();
        journal.inner().file = whole;
        // A part of it is there.
        journal.inner().file.write_all_at(b"2 tw", 6).unwrap();
        journal.keep(told).await.unwrap();
        assert_eq!(all(&journal), [(1, "one".into()), (2, "two".into()), (3, "three".into())]);
        assert_eq!(all(&open(dir.path(), 1)), [(2, "two".into()), (3, "three".into())]);
    }

    #[tokio::test]
    async fn the_newest_event_s_id_is_known_and_what_is_none_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let journal = open(dir.path(), 0);
        assert_eq!(journal.last().await.unwrap(), None);
        journal.heard("42".into()).await.unwrap();
        assert_eq!(open(dir.path(), 0).last().await.unwrap(), Some("42".into()));
        for none in [&b""[..], b"a\nb", b"\xff", &[b'x'; 65]] {
            std::fs::write(dir.path().join("inbox.last"), none).unwrap();
            assert_eq!(journal.last().await.unwrap(), None, "{none:?}");
        }
    }

    #[tokio::test]
    async fn a_file_that_can_t_be_made_smaller_keeps_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("inbox.new")).unwrap();
        let journal = open(dir.path(), 0);
        for _ in 0..12 {
            journal.keep(vec!["x".repeat(1 << 20)].into()).await.unwrap();
        }
        all(&journal);
        journal.stored(9).await.unwrap();
        journal.stored(10).await.unwrap();
        assert!(size(dir.path()) > 12 << 20 && all(&open(dir.path(), 10)).len() == 2);
    }
}
