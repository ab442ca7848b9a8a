//! Skills: put into every agent's own folder, in which it may have laid any trap.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use g2::ipc::HostDirs;

fn skill(folder: &Path) {
    fs::create_dir_all(folder.join("browse/scripts")).unwrap();
    fs::write(folder.join("browse/SKILL.md"), "how to browse").unwrap();
    fs::write(folder.join("browse/scripts/go.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(folder.join("browse/scripts/go.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.join("README.md"), "not a skill").unwrap();
    symlink("/etc/passwd", folder.join("browse/link")).unwrap();
}

#[test]
fn skills_are_put_beside_the_agent_s_own_which_stay() {
    let dir = tempfile::tempdir().unwrap();
    let (skills, state) = (dir.path().join("skills"), dir.path().join("state"));
    skill(&skills);
    fs::create_dir_all(state.join("skills/mine")).unwrap();
    fs::write(state.join("skills/mine/SKILL.md"), "my own").unwrap();
    fs::create_dir(dir.path().join("data")).unwrap();
    let host = HostDirs::open(&dir.path().join("data")).unwrap();
    assert_eq!(host.put_skills(&skills, &state, None).unwrap(), 2);
    assert_eq!(fs::read_to_string(state.join("skills/browse/SKILL.md")).unwrap(), "how to browse");
    let mode = |path: &str| fs::metadata(state.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("skills/browse/scripts/go.sh"), mode("skills/browse/SKILL.md")), (0o755, 0o644));
    assert!(!state.join("skills/browse/link").exists() && !state.join("skills/README.md").exists());
    assert_eq!(fs::read_to_string(state.join("skills/mine/SKILL.md")).unwrap(), "my own");
    // The same again is nothing; what was changed there is put right.
    assert_eq!(host.put_skills(&skills, &state, None).unwrap(), 0);
    fs::write(state.join("skills/browse/SKILL.md"), "changed").unwrap();
    assert_eq!(host.put_skills(&skills, &state, None).unwrap(), 1);
    assert_eq!(host.put_skills(&dir.path().join("none"), &state, None).unwrap(), 0);
}

/// Lays something into the agent's folder (first) that leads, or might, to what is somebody else's (second).
type Trap = fn(&Path, &Path);

#[test]
fn no_trap_in_the_agent_s_folder_makes_the_host_write_elsewhere() {
    let traps: [(&str, Trap); 6] = [
        ("skills is a link", |state, away| symlink(away, state.join("skills")).unwrap()),
        ("skills is a file", |state, _| fs::write(state.join("skills"), "x").unwrap()),
        ("a skill is a link", |state, away| {
            fs::create_dir(state.join("skills")).unwrap();
            symlink(away, state.join("skills/browse")).unwrap();
        }),
        ("a file is a link", |state, away| {
            fs::create_dir_all(state.join("skills/browse")).unwrap();
            symlink(away.join("SKILL.md"), state.join("skills/browse/SKILL.md")).unwrap();
        }),
        ("a file is a folder", |state, _| {
            fs::create_dir_all(state.join("skills/browse/SKILL.md/deep")).unwrap();
        }),
        ("a folder is a FIFO", |state, _| {
            fs::create_dir_all(state.join("skills/browse")).unwrap();
            let fifo = state.join("skills/browse/scripts");
            rustix::fs::mknodat(rustix::fs::CWD, fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
                .unwrap();
        }),
    ];
    for (trap, lay) in traps {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        skill(&at("skills"));
        for folder in ["state", "away", "data"] {
            fs::create_dir(at(folder)).unwrap();
        }
        fs::write(at("away/SKILL.md"), "theirs").unwrap();
        lay(&at("state"), &at("away"));
        let host = HostDirs::open(&at("data")).unwrap();
        host.put_skills(&at("skills"), &at("state"), None).unwrap();
        assert_eq!(
            fs::read_to_string(at("state/skills/browse/SKILL.md")).unwrap(),
            "how to browse",
            "{trap}"
        );
        assert_eq!(fs::read_to_string(at("away/SKILL.md")).unwrap(), "theirs", "{trap}");
        assert_eq!(fs::read_dir(at("away")).unwrap().count(), 1, "{trap}");
        assert!(fs::symlink_metadata(at("state/skills")).unwrap().is_dir(), "{trap}");
    }
}
