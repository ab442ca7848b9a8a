//! What people keep from being claimed.

use std::collections::BTreeSet;

use ipc_handlers::{Folder, Time};

/// One wish that something waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub group: Folder,
    /// One file, by its box and its name's bytes; `None`: all of the group's.
    pub file: Option<(String, Vec<u8>)>,
    pub reason: Option<String>,
    pub at: Time,
    /// The daemon set the group aside, because it died again and again over the group's commands or output: claimed commands
    /// are not taken in, and its run's output is not read.
    pub aside: bool,
}

/// Everything that is held, for a quick look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    groups: BTreeSet<Folder>,
    aside: BTreeSet<Folder>,
    files: BTreeSet<(Folder, String, Vec<u8>)>,
}

impl Holds {
    /// Returns the holds of these rows.
    #[must_use]
    pub fn new(holds: impl IntoIterator<Item = Hold>) -> Self {
        let mut all = Self::default();
        for hold in holds {
            if hold.aside {
                all.aside.insert(hold.group.clone());
            }
            match hold.file {
                Some((in_box, name)) => drop(all.files.insert((hold.group, in_box, name))),
                None => drop(all.groups.insert(hold.group)),
            }
        }
        all
    }

    /// Whether all of the group's commands wait.
    #[must_use]
    pub fn group(&self, group: &Folder) -> bool {
        self.groups.contains(group)
    }

    /// Whether the group is set aside.
    #[must_use]
    pub fn aside(&self, group: &Folder) -> bool {
        self.aside.contains(group)
    }

    /// Whether this file waits, by itself or with its group.
    #[must_use]
    pub fn file(&self, group: &Folder, in_box: &str, name: &[u8]) -> bool {
        self.group(group)
            || (!self.files.is_empty()
                && self.files.contains(&(group.clone(), in_box.to_owned(), name.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_or_one_file_is_held_and_nothing_beside_it() {
        let folder = |name: &str| Folder::parse(name).unwrap();
        let hold = |group: &str, file: Option<(&str, &[u8])>| Hold {
            group: folder(group),
            file: file.map(|(b, name)| (b.to_owned(), name.to_vec())),
            reason: None,
            at: Time(0),
            aside: group == "d",
        };
        let holds = Holds::new([hold("a", None), hold("b", Some(("tasks", b"x\xff.json"))), hold("d", None)]);
        assert!(holds.group(&folder("d")) && holds.aside(&folder("d")) && !holds.aside(&folder("a")));
        assert!(holds.group(&folder("a")) && holds.file(&folder("a"), "messages", b"any.json"));
        assert!(!holds.group(&folder("b")) && holds.file(&folder("b"), "tasks", b"x\xff.json"));
        assert!(!holds.file(&folder("b"), "messages", b"x\xff.json"));
        assert!(!holds.file(&folder("b"), "tasks", b"x.json"));
        assert!(!holds.file(&folder("c"), "tasks", b"x\xff.json"));
    }
}
