//! Who asks. Authority comes from the folder a file was claimed from, never from what the file says.

use serde::Serialize;

use crate::{Code, Folder, Refusal};

/// The group that a command file was claimed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The folder of the mailbox.
    pub group: Folder,
    /// Whether the group is the privileged one.
    pub is_main: bool,
    /// The run that the group had when the file was claimed; `None` for a file written outside a run.
    pub run: Option<RunSeat>,
}

/// Where the caller's run sits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSeat {
    /// The run's id.
    pub run: i64,
    /// The lane that it serves.
    pub lane: i64,
    /// The chat of that lane.
    pub chat_jid: String,
}

/// The rows that an effect may touch; it travels into the `WHERE` of the statement that acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Rows of one group.
    Group(Folder),
    /// Rows of every group.
    All,
}

impl Caller {
    /// Returns the rows that the caller may touch: all for main, otherwise its group's.
    #[must_use]
    pub fn scope(&self) -> Scope {
        if self.is_main { Scope::All } else { Scope::Group(self.group.clone()) }
    }

    /// Only main may `act`.
    ///
    /// # Errors
    /// `not_authorized` for any other group.
    pub(crate) fn must_be_main(&self, act: &str) -> Result<(), Refusal> {
        if self.is_main {
            return Ok(());
        }
        Err(Refusal::new(
            Code::NotAuthorized,
            format!("only the main group may {act}, and \"{}\" is not it", self.group),
            "ask the user to do it from the main group",
        ))
    }

    /// Returns whether the caller may act on what belongs to `group`.
    #[must_use]
    pub fn may_touch(&self, group: &Folder) -> bool {
        self.is_main || self.group == *group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_may_touch_everything_and_others_their_own() {
        let family = Folder::parse("family").unwrap();
        let main = Caller { group: Folder::parse("main").unwrap(), is_main: true, run: None };
        let own = Caller { group: family.clone(), is_main: false, run: None };
        assert_eq!(main.scope(), Scope::All);
        assert_eq!(own.scope(), Scope::Group(family.clone()));
        assert!(main.may_touch(&family) && own.may_touch(&family));
        assert!(!own.may_touch(&main.group));
    }

    #[test]
    fn the_name_main_alone_gives_no_rights() {
        let caller = Caller { group: Folder::parse("main").unwrap(), is_main: false, run: None };
        assert_eq!(caller.scope(), Scope::Group(caller.group.clone()));
    }
}
