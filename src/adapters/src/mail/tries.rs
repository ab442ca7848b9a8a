//! Mails that end their reader's life. Which mails are being read stands in a file, so that the next life knows what ended the last one;
//! a mail that did so some times is read no more.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// How many lives a mail may end.
const MOST: u32 = 3;
/// How many mails are known that ended one.
const KNOWN: usize = 100;
/// The longest file that is read, bytes.
const LONGEST: usize = 16 << 10;

/// A mail: `UIDVALIDITY` and number.
pub(super) type Name = (u32, u32);

/// Mails that are being read, and that ended lives.
pub(super) struct Tries {
    path: PathBuf,
    all: Mutex<All>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct All {
    /// How many lives each of them ended.
    ended: BTreeMap<Name, u32>,
    /// How often each of them is being read at the moment.
    running: BTreeMap<Name, u32>,
}

impl All {
    fn read(text: &str) -> Self {
        let line = |line: &str| {
            let mut numbers = line.split(' ').map(|number| number.parse::<u32>().ok());
            Some(((numbers.next()??, numbers.next()??), numbers.next()??))
        };
        Self { ended: text.lines().filter_map(line).take(KNOWN).collect(), running: BTreeMap::new() }
    }

    /// Returns what the next life is to find if this one ends now.
    fn text(&self) -> String {
        let mut all = self.ended.clone();
        for name in self.running.keys() {
            *all.entry(*name).or_default() += 1;
        }
        // Of too many, the newest.
        let skipped = all.len().saturating_sub(KNOWN);
        all.iter()
            .skip(skipped)
            .map(|((validity, uid), tries)| format!("{validity} {uid} {tries}\n"))
            .collect()
    }

    /// A mail is to be read. `false`: it ended too many lives.
    fn begins(&mut self, name: Name) -> bool {
        if self.ended.get(&name).is_some_and(|tries| *tries >= MOST) {
            return false;
        }
        *self.running.entry(name).or_default() += 1;
        true
    }

    /// A mail was read, and nothing ended.
    fn held(&mut self, name: Name) {
        if let Some(count) = self.running.get_mut(&name) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(&name);
                self.ended.remove(&name);
            }
        }
    }
}

impl Tries {
    pub(super) fn of(state_dir: &str) -> Self {
        let path = Path::new(state_dir).join("reading");
        let kept = std::fs::read_to_string(&path).ok().filter(|kept| kept.len() <= LONGEST);
        Self { path, all: Mutex::new(All::read(&kept.unwrap_or_default())) }
    }

    fn change<T>(&self, change: impl FnOnce(&mut All) -> T) -> T {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut all);
        if let Err(error) = std::fs::write(&self.path, all.text()) {
            eprintln!("what is being read can't be noted: {error}");
        }
        changed
    }

    /// Reads a mail beside the thread that answers the host. `None`: the mail broke its reader, now or in lives before.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        name: Name,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let this = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            if !this.change(|all| all.begins(name)) {
                return None;
            }
            let done = catch_unwind(AssertUnwindSafe(read)).ok();
            this.change(|all| all.held(name));
            done
        });
        done.await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_that_ends_lives_is_read_some_times_and_others_are_not_blamed() {
        let mut all = All::default();
        for life in 1..=MOST {
            assert!(all.begins((7, 1)));
            assert!(all.begins((7, 2)) && all.begins((7, 2)));
            all.held((7, 2));
            assert_eq!(all.text(), format!("7 1 {life}\n7 2 1\n"));
            all.held((7, 2));
            assert_eq!(all.text(), format!("7 1 {life}\n"));
            all = All::read(&all.text());
        }
        assert!(!all.begins((7, 1)) && all.begins((8, 1)), "numbered anew, it is another mail");
        assert_eq!(All::read("x\n7 1\n7 -1 2\n7 1 x\n"), All::default());
        let many: String = (0..5000).map(|uid| format!("7 {uid} 1\n")).collect();
        assert_eq!(All::read(&many).text().lines().count(), KNOWN);
    }
}
