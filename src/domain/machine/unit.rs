//! The systemd unit that runs the daemon, shut in as far as its work allows.

use std::path::{Path, PathBuf};

/// Whose manager runs the unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The user's own.
    User,
    /// The machine's; the daemon runs as this user.
    System { user: String },
}

/// How far the daemon is shut in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walls {
    All,
    /// Without what needs a namespace: some kernels and containers give users none.
    WithoutNamespaces,
}

/// What a unit is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub scope: Scope,
    pub walls: Walls,
    pub program: PathBuf,
    pub root: PathBuf,
    /// What it writes outside of its root: by the settings, where backups go, and where adapters write.
    pub writes: Vec<PathBuf>,
}

/// Why there can be no unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoUnit {
    #[error("the path {0:?} has a character that a unit can't hold; move it to a plain path")]
    Path(PathBuf),
    #[error("{0:?} is no name of a unit; use letters, digits, - and _, at most 64 characters")]
    Name(String),
}

/// Checks the name of a unit, without `.service`.
///
/// # Errors
/// It has other characters than letters, digits, `-` and `_`, or is too long.
pub fn check_name(name: &str) -> Result<(), NoUnit> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let good = (1..=64).contains(&name.len()) && !name.starts_with('-') && name.chars().all(plain);
    good.then_some(()).ok_or_else(|| NoUnit::Name(name.to_owned()))
}

/// Returns a path as a word of a unit: quoted, and nothing in it is expanded.
fn word(path: &Path) -> Result<String, NoUnit> {
    let bad = || NoUnit::Path(path.to_owned());
    let text = path.to_str().filter(|_| path.is_absolute()).ok_or_else(bad)?;
    if text.chars().any(char::is_control) {
        return Err(bad());
    }
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    Ok(format!("\"{escaped}\""))
}

/// Whether a unit's text has a daemon serve this root, and no other one.
#[must_use]
pub fn serves(text: &str, root: &Path) -> bool {
    let Ok(root) = word(root) else { return false };
    let run = format!(" --root {} serve", root.replace('$', "$$"));
    text.lines().any(|line| line.starts_with("ExecStart=") && line.ends_with(&run))
}

/// What the daemon needs no part of, and takes no namespace to be without. Not `RestrictSUIDSGID`: with it systemd has the
/// kernel deny `openat2`, by which mailboxes are opened.
const PLAIN: &str = "\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
";

/// What stands behind a namespace.
const NAMESPACES: &str = "\
ProtectSystem=strict
ProtectHome=read-only
PrivateDevices=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
";

impl Unit {
    fn is_root(&self) -> bool {
        matches!(&self.scope, Scope::System { user } if user == "root")
    }

    /// The namespaces and calls that it needs: root shuts each adapter into a file system of its own.
    fn calls(&self) -> &'static str {
        if self.is_root() {
            "RestrictNamespaces=mnt ipc\nSystemCallFilter=@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self mount umount2 pivot_root\n"
        } else {
            "RestrictNamespaces=yes\nSystemCallFilter=@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self\n"
        }
    }

    /// What root needs to keep boxes for agents of other users, and to shut adapters in; nobody else needs any of it.
    fn rights(&self) -> &'static str {
        if self.is_root() {
            "CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_KILL CAP_SETGID CAP_SETPCAP CAP_SETUID CAP_SYS_ADMIN\n"
        } else {
            "CapabilityBoundingSet=\n"
        }
    }

    /// Returns the unit's text.
    ///
    /// # Errors
    /// A path that a unit can't hold.
    pub fn text(&self) -> Result<String, NoUnit> {
        let (program, root) = (word(&self.program)?, word(&self.root)?);
        // In a command line a dollar sign is expanded, elsewhere it is not.
        let (program_run, root_run) = (program.replace('$', "$$"), root.replace('$', "$$"));
        let (after, user, target) = match &self.scope {
            Scope::User => (String::new(), String::new(), "default.target"),
            Scope::System { user } => (
                "Wants=network-online.target\nAfter=network-online.target docker.service\n".to_owned(),
                format!("User={user}\nRemoveIPC=yes\n"),
                "multi-user.target",
            ),
        };
        let calls = self.calls();
        let walls = match self.walls {
            Walls::WithoutNamespaces => String::new(),
            Walls::All => {
                let users = if self.is_root() { "" } else { "PrivateUsers=yes\n" };
                let mut places = [&self.root].into_iter().chain(&self.writes);
                let shared = places.any(|path| ["/tmp", "/var/tmp"].iter().any(|tmp| path.starts_with(tmp)));
                let tmp = if shared { "" } else { "PrivateTmp=yes\n" };
                let mut writes = root.clone();
                for path in self.writes.iter().filter(|path| !path.starts_with(&self.root)) {
                    // The minus: one that is not there keeps nothing from starting.
                    writes.push_str(&format!(" {}", word(path)?.replacen('"', "\"-", 1)));
                }
                format!("{}{users}{NAMESPACES}{tmp}ReadWritePaths={writes}\n", self.rights())
            }
        };
        Ok(format!(
            "# Written by `g2 service install`, which replaces it. Changes of your own: `systemctl edit`.\n\
             [Unit]\n\
             Description=G2: AI agents in containers, one per chat group\n\
             {after}\n\
             [Service]\n\
             Type=notify\n\
             ExecStart={program_run} --root {root_run} serve\n\
             Restart=always\n\
             RestartSec=5\n\
             WatchdogSec=30\n\
             # Containers of Docker outlive the daemon; processes of its own do not.\n\
             KillMode=mixed\n\
             TimeoutStopSec=90\n\
             UMask=0077\n\
             {user}{PLAIN}{calls}{walls}\n\
             [Install]\n\
             WantedBy={target}\n"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(scope: Scope, root: &str) -> Unit {
        Unit {
            scope,
            walls: Walls::All,
            program: "/usr/bin/g2".into(),
            root: root.into(),
            writes: Vec::new(),
        }
    }

    #[test]
    fn a_path_is_one_word_and_nothing_in_it_is_expanded() {
        let text = unit(Scope::User, "/home/a b/100%\"$HOME\\x").text().unwrap();
        assert!(
            text.contains("\nExecStart=\"/usr/bin/g2\" --root \"/home/a b/100%%\\\"$$HOME\\\\x\" serve\n"),
            "{text}"
        );
        assert!(text.contains("\nReadWritePaths=\"/home/a b/100%%\\\"$HOME\\\\x\"\n"), "{text}");
    }

    #[test]
    fn a_unit_serves_its_own_root_and_none_of_a_similar_name() {
        let text = Unit { writes: vec!["/home/me/g2".into()], ..unit(Scope::User, "/home/me/g2-work") };
        let text = text.text().unwrap();
        assert!(serves(&text, Path::new("/home/me/g2-work")));
        for other in ["/home/me/g2", "/home/me/g2-work/x", "/home/me"] {
            assert!(!serves(&text, Path::new(other)), "{other}");
        }
    }

    #[test]
    fn a_path_that_a_unit_cannot_hold_is_refused() {
        for path in ["relative", "/a\nExecStartPre=/bin/evil", "/a\u{1b}"] {
            assert_eq!(unit(Scope::User, path).text(), Err(NoUnit::Path(path.into())));
        }
    }

    #[test]
    fn a_name_is_one_plain_word() {
        for name in ["g2", "g2-work", "A_1"] {
            assert_eq!(check_name(name), Ok(()));
        }
        for name in ["", "-x", "a/b", "a b", "a@b", "a.service", &"x".repeat(65)] {
            assert_eq!(check_name(name), Err(NoUnit::Name(name.to_owned())));
        }
    }

    #[test]
    fn the_machine_s_unit_has_a_user_and_the_user_s_has_none() {
        let system = unit(Scope::System { user: "me".into() }, "/srv/g2").text().unwrap();
        assert!(system.contains("\nUser=me\n") && system.contains("WantedBy=multi-user.target"), "{system}");
        let user = unit(Scope::User, "/home/me/g2").text().unwrap();
        assert!(!user.contains("User=me") && user.contains("WantedBy=default.target"), "{user}");
    }

    #[test]
    fn a_daemon_that_is_root_may_mount_for_its_adapters_and_no_other() {
        let text = |scope| unit(scope, "/srv/g2").text().unwrap();
        let root = text(Scope::System { user: "root".into() });
        for other in [text(Scope::System { user: "me".into() }), text(Scope::User)] {
            for (line, right) in [
                ("RestrictNamespaces=mnt ipc\n", "RestrictNamespaces=yes\n"),
                (" pivot_root\n", "landlock_restrict_self\n"),
                (" CAP_SYS_ADMIN\n", "CapabilityBoundingSet=\n"),
            ] {
                assert!(
                    root.contains(line) && !other.contains(line) && other.contains(right),
                    "{root}{other}"
                );
            }
        }
    }

    #[test]
    fn a_root_in_the_shared_temporary_folder_stays_visible() {
        assert!(!unit(Scope::User, "/tmp/g2").text().unwrap().contains("PrivateTmp"));
        assert!(unit(Scope::User, "/home/me/g2").text().unwrap().contains("PrivateTmp=yes"));
    }

    #[test]
    fn what_the_settings_have_it_write_outside_of_its_root_can_be_written() {
        let writes = ["/g2/data/x", "/srv/b \\ups", "/mnt/toy"].map(PathBuf::from).to_vec();
        let text = Unit { writes, ..unit(Scope::User, "/g2") }.text().unwrap();
        assert!(text.contains("\nReadWritePaths=\"/g2\" \"-/srv/b \\\\ups\" \"-/mnt/toy\"\n"), "{text}");
        let shared = Unit { writes: vec!["/tmp/backups".into()], ..unit(Scope::User, "/g2") };
        assert!(!shared.text().unwrap().contains("PrivateTmp"));
        let odd = Unit { writes: vec!["relative".into()], ..unit(Scope::User, "/g2") };
        assert_eq!(odd.text(), Err(NoUnit::Path("relative".into())));
    }

    #[test]
    fn without_namespaces_only_the_plain_walls_stand() {
        let text = Unit { walls: Walls::WithoutNamespaces, ..unit(Scope::User, "/g2") }.text().unwrap();
        assert!(text.contains("NoNewPrivileges=yes") && !text.contains("Private"), "{text}");
    }
}
