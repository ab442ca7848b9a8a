//! Where a hostile program runs: as a plain child, and in a container where there is Docker.
#![expect(clippy::disallowed_types, reason = "starts the hostile program")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{path::PathBuf, process::Command};

use super::scene::{image, launched};
use crate::support::{Daemon, Docked, Linkage, Root, docker, program};

/// A root whose agents are the hostile program.
pub(super) enum Place {
    Child(Root),
    Container(Docked),
}

fn hostile_program() -> PathBuf {
    program("hostile/main.rs", Linkage::Static)
}

impl Place {
    /// Each place there is, laid out with a hostile group and its neighbour.
    pub(super) fn all(limits: &str) -> Vec<Self> {
        Self::all_with("", limits)
    }

    /// The same with more settings of the sandbox.
    pub(super) fn all_with(sandbox: &str, limits: &str) -> Vec<Self> {
        let toml =
            format!("[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n{limits}\n");
        let child = Root::new(&format!(
            "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n{sandbox}\n[agent]\ncommand = [\"{}\", \"agent\"]\n{toml}",
            hostile_program().display()
        ));
        let mut places = vec![Self::Child(child)];
        if docker() {
            places.push(Self::Container(Docked::with_image(image(), &format!("{sandbox}\n{toml}"))));
        }
        for place in &places {
            for group in ["evil", "good"] {
                place.root().g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
            }
        }
        places
    }

    pub(super) fn root(&self) -> &Root {
        match self {
            Self::Child(root) => root,
            Self::Container(docked) => docked,
        }
    }

    pub(super) fn serve(&self) -> Daemon {
        match self {
            Self::Child(root) => root.serve(),
            Self::Container(docked) => docked.serve(),
        }
    }

    /// The name of the measurement.
    pub(super) fn named(&self, attack: &str) -> String {
        match self {
            Self::Child(_) => format!("{attack}, a child"),
            Self::Container(_) => format!("{attack}, a container"),
        }
    }

    /// Has the hostile group launched, and returns what runs attacks where it is.
    pub(super) fn attacker(&self) -> Attacker {
        let container = launched(self.root());
        match self {
            Self::Child(root) => Attacker {
                start: vec![hostile_program().display().to_string()],
                mailbox: root.data("ipc/evil"),
            },
            Self::Container(_) => Attacker {
                start: ["docker", "exec", &container, "/hostile"].map(str::to_owned).to_vec(),
                mailbox: "/workspace/ipc".into(),
            },
        }
    }
}

/// How the hostile program is started beside the agent.
pub(super) struct Attacker {
    start: Vec<String>,
    mailbox: PathBuf,
}

impl Attacker {
    /// Has this many commands written, with the next of `texts` in each and its number in place of each `#`.
    pub(super) fn commands(&self, called: &str, count: usize, texts: &[&str]) {
        let count = count.to_string();
        let mut command = Command::new(&self.start[0]);
        command.args(&self.start[1..]).args(["commands", called, &count]).args(texts);
        // A child's is elsewhere; a container is not told.
        assert!(command.env("HOSTILE_MAILBOX", &self.mailbox).status().unwrap().success(), "{called}");
    }
}
