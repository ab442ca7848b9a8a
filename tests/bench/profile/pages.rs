//! Pages that commits wrote, read in the store's log of writes (`g2.sqlite-wal`) and its index, both as SQLite documents them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::PathBuf,
};

use crate::rig::Root;

/// Bytes before the first frame of the log, and before the page of each.
const HEAD: u64 = 32;
const FRAME: u64 = 24;

/// The log of a root's store.
pub(super) struct Log {
    wal: PathBuf,
    index: PathBuf,
}

/// How far the log goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    frames: u32,
    pub(super) commits: u32,
    page: u32,
    salt: [u8; 8],
}

impl Log {
    pub(super) fn of(root: &Root) -> Self {
        Self { wal: root.data("g2.sqlite-wal"), index: root.data("g2.sqlite-shm") }
    }

    /// Has it begin anew with the next commit, so that it does not while it is looked at.
    pub(super) fn begin_anew(&self, root: &Root) {
        let busy: i64 =
            root.store().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
        assert_eq!(busy, 0, "somebody reads");
    }

    /// Reads it in the index, where the daemon writes it down with each commit.
    pub(super) fn end(&self) -> End {
        let bytes = fs::read(&self.index).unwrap();
        let number = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let page = u16::from_ne_bytes(bytes[14..16].try_into().unwrap());
        End {
            commits: number(8),
            frames: number(16),
            // 1 stands for 65 536.
            page: if page == 1 { 65_536 } else { page.into() },
            salt: bytes[32..40].try_into().unwrap(),
        }
    }

    /// Returns how many pages were written between two looks, by the table or index that has each of them now, most first; `None`:
    /// the log began anew in between.
    pub(super) fn pages(&self, root: &Root, from: &End, to: &End) -> Option<Vec<(String, u64)>> {
        if from.salt != to.salt {
            return None;
        }
        let names = names(root);
        let log = File::open(&self.wal).unwrap();
        let mut counts = BTreeMap::<String, u64>::new();
        for frame in from.frames..to.frames {
            let mut number = [0; 4];
            log.read_exact_at(&mut number, HEAD + u64::from(frame) * (FRAME + u64::from(to.page))).unwrap();
            let name = names.get(&u32::from_be_bytes(number)).map_or("free or the map", String::as_str);
            *counts.entry(name.to_owned()).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Some(counts)
    }
}

/// Returns which table or index each page belongs to.
fn names(root: &Root) -> BTreeMap<u32, String> {
    let store = root.look();
    let mut pages = store.prepare("SELECT pageno, name FROM dbstat").unwrap();
    let pages = pages.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    pages.collect::<rusqlite::Result<_>>().unwrap()
}
