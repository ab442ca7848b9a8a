//! `g2 service`: with programs in place of systemd's that note what they are asked, judged by systemd's own tools, and under
//! a real systemd in a container.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user and the machine"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::support::{Root, docker, fail_points, run_docker, wait_for};

/// A user whose systemd is a script.
struct User {
    root: Root,
    home: tempfile::TempDir,
}

impl User {
    /// `manager` is what the script does with the words in `$*`.
    fn new(manager: &str) -> Self {
        let user = Self { root: Root::new(""), home: tempfile::tempdir().unwrap() };
        fs::create_dir(user.home.path().join("bin")).unwrap();
        user.program("systemctl", manager);
        user.program("loginctl", "");
        user.program("journalctl", "echo 'a line'");
        user
    }

    fn program(&self, name: &str, does: &str) {
        let path = self.home.path().join("bin").join(name);
        let asked = self.home.path().join("asked");
        fs::write(&path, format!("#!/bin/sh\necho \"{name} $*\" >> '{}'\n{does}\n", asked.display()))
            .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn service(&self, arguments: &[&str]) -> Output {
        let mut command = self.root.command(&[&["service"], arguments].concat());
        let path = format!("{}/bin:{}", self.home.path().display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("HOME", self.home.path()).output().unwrap()
    }

    fn unit(&self) -> PathBuf {
        self.home.path().join(".config/systemd/user/g2.service")
    }

    /// What the programs were asked since the last time.
    fn asked(&self) -> Vec<String> {
        let path = self.home.path().join("asked");
        let asked = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        asked.lines().map(|line| line.replace(" --user --no-pager", "")).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_service_is_installed_started_and_removed_and_its_root_stays() {
    let user = User::new("");
    let installed = user.service(&["install"]);
    assert!(installed.status.success(), "{installed:?}");
    assert!(text(&installed.stdout).starts_with("g2.service is installed and runs"), "{installed:?}");
    let unit = fs::read_to_string(user.unit()).unwrap();
    assert!(unit.contains(&format!("--root \"{}\" serve\n", user.root.path().display())), "{unit}");
    let mut asked = user.asked();
    // Whether it is asked for depends on the user of the machine.
    asked.retain(|line| line != "loginctl enable-linger");
    let once = [
        "systemctl is-system-running",
        "systemctl daemon-reload",
        "systemctl enable g2.service",
        "systemctl daemon-reload",
        "systemctl restart g2.service",
    ];
    assert_eq!(asked, once);
    let removed = user.service(&["uninstall"]);
    assert!(removed.status.success() && !user.unit().exists(), "{removed:?}");
    assert_eq!(
        user.asked(),
        ["systemctl is-system-running", "systemctl disable --now g2.service", "systemctl daemon-reload"]
    );
    assert!(user.root.data("g2.sqlite").exists());
    let again = user.service(&["uninstall"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("no service g2.service is installed"), "{again:?}");
}

#[test]
fn a_unit_that_was_changed_is_replaced_only_when_that_is_said() {
    let user = User::new("");
    fs::create_dir_all(user.unit().parent().unwrap()).unwrap();
    fs::write(user.unit(), "mine\n").unwrap();
    let asked = user.service(&["install"]);
    assert_eq!(asked.status.code(), Some(2));
    let said = text(&asked.stderr);
    assert!(said.contains("nothing was done. With --yes ") && said.contains("is replaced"), "{asked:?}");
    assert_eq!(fs::read_to_string(user.unit()).unwrap(), "mine\n");
    assert!(user.service(&["install", "--yes"]).status.success());
    assert_ne!(fs::read_to_string(user.unit()).unwrap(), "mine\n");
}

#[test]
fn without_a_manager_of_the_user_it_is_said_how_to_get_one_and_nothing_is_written() {
    let user = User::new("echo 'Failed to connect to bus: No medium found' >&2; exit 1");
    let refused = user.service(&["install"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(said.contains("no service manager that answers") && said.contains("enable-linger"), "{said}");
    assert!(!user.unit().exists());
}

#[test]
fn a_machine_without_systemd_is_told_what_to_run_instead() {
    let user = User::new("");
    let path = user.home.path().join("empty");
    fs::create_dir(&path).unwrap();
    let refused = user
        .root
        .command(&["service", "install"])
        .env("PATH", &path)
        .env("HOME", user.home.path())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("`g2 serve`"), "{refused:?}");
    assert!(user.service(&["install", "--print"]).status.success(), "the unit is shown all the same");
}

#[test]
fn where_there_are_no_namespaces_the_walls_that_need_one_are_left_out_and_that_is_said() {
    let user = User::new(
        "unit=$HOME/.config/systemd/user/g2.service\ncase \"$*\" in\n*restart*) ! grep -q ProtectSystem \"$unit\" || exit 1 ;;\n*ExecMainStatus*) echo ExecMainStatus=226 ;;\nesac",
    );
    let installed = user.service(&["install"]);
    assert!(installed.status.success(), "{installed:?}");
    assert!(text(&installed.stdout).contains("no namespaces"), "{installed:?}");
    let unit = fs::read_to_string(user.unit()).unwrap();
    assert!(unit.contains("NoNewPrivileges=yes") && !unit.contains("ProtectSystem"), "{unit}");
}

#[test]
fn a_service_that_does_not_start_fails_with_what_shows_why() {
    let user = User::new("case \"$*\" in *restart*) echo 'Job failed.' >&2; exit 1 ;; esac");
    let failed = user.service(&["install"]);
    assert_eq!(failed.status.code(), Some(1));
    let said = text(&failed.stderr);
    assert!(said.contains("Job failed.") && said.contains("g2 service logs"), "{said}");
}

#[test]
fn a_daemon_in_the_foreground_is_not_fought_over_the_root() {
    let user = User::new("");
    let _daemon = user.root.serve();
    let refused = user.service(&["install"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("a daemon runs at"), "{refused:?}");
    assert!(!user.unit().exists());
}

#[test]
fn its_state_and_its_log_are_shown() {
    let user = User::new(
        "case \"$*\" in *show*) printf 'ActiveState=active\\nSubState=running\\nMainPID=42\\nStateChangeTimestamp=Mon 2026-11-23\\nUnitFileState=enabled\\nNRestarts=1\\n' ;; esac",
    );
    let absent = user.service(&["status"]);
    assert_eq!(absent.status.code(), Some(1), "not installed");
    assert!(user.service(&["install", "--no-start"]).status.success());
    let mut shown = user.root.command(&["--json", "service", "status"]);
    let path = format!("{}/bin:{}", user.home.path().display(), std::env::var("PATH").unwrap());
    let shown = shown.env("PATH", path).env("HOME", user.home.path()).output().unwrap();
    assert!(shown.status.success(), "{shown:?}");
    let state: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(
        (&state["active"], &state["pid"], &state["restarts"]),
        (&"active".into(), &42.into(), &1.into())
    );
    assert_eq!((&state["installed"], &state["starts_by_itself"]), (&true.into(), &true.into()));
    user.asked();
    let log = user.service(&["logs", "--lines", "5", "--since", "2026-01-02T03:04:05Z"]);
    assert_eq!(text(&log.stdout), "a line\n");
    assert_eq!(user.asked(), ["journalctl --user --unit g2.service --lines 5 --since @1767323045"]);
}

#[test]
fn names_that_are_no_names_are_refused() {
    let user = User::new("");
    for name in ["../evil", "a b", ""] {
        let refused = user.service(&["install", "--name", name]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    }
    let refused = user.service(&["install", "--system", "--user", "nobody-of-this-name"]);
    assert!(text(&refused.stderr).contains("no user of this machine"), "{refused:?}");
}

/// The units that `g2 service install --print` writes, with the exposure that each may have.
fn units(user: &User, folder: &Path) -> Vec<PathBuf> {
    let cases: [(&str, &[&str]); 2] = [
        ("user", &["install", "--print"]),
        ("system", &["install", "--print", "--system", "--user", "daemon"]),
    ];
    cases
        .map(|(name, words)| {
            let printed = user.service(words);
            assert!(printed.status.success(), "{printed:?}");
            let path = folder.join(format!("g2-{name}.service"));
            fs::write(&path, &printed.stdout).unwrap();
            path
        })
        .into()
}

#[test]
fn systemd_finds_no_mistake_in_the_units_and_little_that_they_leave_open() {
    let there = Command::new("systemd-analyze").arg("--version").stdout(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        assert!(
            std::env::var_os("G2_REQUIRE_SYSTEMD").is_none(),
            "G2_REQUIRE_SYSTEMD is set and there is no systemd-analyze"
        );
        return eprintln!("skipped: no systemd-analyze");
    }
    let user = User::new("");
    let folder = tempfile::tempdir().unwrap();
    for unit in units(&user, folder.path()) {
        let verified = Command::new("systemd-analyze").arg("verify").arg(&unit).output().unwrap();
        assert!(verified.status.success(), "{}: {verified:?}", unit.display());
        let name = unit.file_name().unwrap().to_str().unwrap();
        assert!(!text(&verified.stderr).contains(name), "{verified:?}");
        // Tenths: 3.0 and less.
        let judged = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--threshold=30"])
            .arg(&unit)
            .output()
            .unwrap();
        assert!(judged.status.success(), "{}", text(&judged.stdout));
    }
}

/// Returns an image with systemd in it; `None`, told, where none can be made.
fn systemd_image() -> Option<&'static str> {
    const IMAGE: &str = "g2-test-systemd:bookworm-user";
    if !docker() {
        return None;
    }
    if run_docker(&["image", "ls", "--quiet", IMAGE]).trim().is_empty() {
        let work = tempfile::tempdir().unwrap();
        let mirror = Path::new(env!("CARGO_MANIFEST_DIR")).join("container/mirror.sh");
        let made = Command::new("sh")
            .arg("-c")
            .arg(format!(
                "mirror=$('{1}' bookworm) || exit; debootstrap --force-check-gpg --variant=minbase --include=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd bookworm '{0}/root' \"$mirror\" && tar -C '{0}/root' -c . | docker import - {IMAGE}; done=$?; rm -rf --one-file-system '{0}/root'; exit $done",
                work.path().display(),
                mirror.display()
            ))
            .stdout(Stdio::null())
            .status();
        if !made.is_ok_and(|status| status.success()) {
            assert!(
                std::env::var_os("G2_REQUIRE_SYSTEMD").is_none(),
                "G2_REQUIRE_SYSTEMD is set and no image with systemd can be made"
            );
            eprintln!("skipped: no image with systemd can be made here");
            return None;
        }
    }
    Some(IMAGE)
}

/// A container that a real systemd runs; removed in the end.
struct Machine(String);

impl Machine {
    /// `None`: this engine does not let systemd run in a container.
    fn start(image: &str) -> Option<Self> {
        let g2 = Path::new(env!("CARGO_BIN_EXE_g2"));
        let mount = format!("type=bind,source={},target=/usr/bin/g2,readonly", g2.display());
        let started = Command::new("docker")
            .args(["run", "--detach", "--network=none", "--cap-add=SYS_ADMIN", "--cgroupns=host"])
            .args(["--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"])
            .args([
                "--volume=/sys/fs/cgroup:/sys/fs/cgroup",
                "--tmpfs=/run",
                "--tmpfs=/tmp",
                "--env=container=docker",
            ])
            .args(["--mount", &mount, image, "/sbin/init"])
            .output()
            .unwrap();
        if !started.status.success() {
            eprintln!("skipped: the engine does not run systemd: {}", text(&started.stderr).trim());
            return None;
        }
        let machine = Self(text(&started.stdout).trim().to_owned());
        let up = wait_for("systemd to be up, or to have ended", || {
            let state = run_docker(&["inspect", "--format", "{{.State.Running}}", &machine.0]);
            if state.trim() != "true" {
                return Some(false);
            }
            let said = text(&machine.output("systemctl is-system-running").stdout);
            ["running", "degraded"].contains(&said.trim()).then_some(true)
        });
        if !up {
            eprintln!("skipped: the engine does not let systemd run in a container");
            return None;
        }
        Some(machine)
    }

    fn output(&self, script: &str) -> Output {
        Command::new("docker").args(["exec", &self.0, "sh", "-c", script]).output().unwrap()
    }

    fn sh(&self, script: &str) -> String {
        let output = self.output(script);
        assert!(output.status.success(), "{script}: {output:?}");
        text(&output.stdout)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        run_docker(&["rm", "--force", "--volumes", &self.0]);
    }
}

const SETTINGS: &str =
    "[sandbox]\\nkind = \"process\"\\nallow_unsandboxed = true\\n[limits]\\nmin_free_mib = 1\\n";

#[test]
fn a_users_own_manager_starts_the_service_while_nobody_is_logged_in() {
    let Some(image) = systemd_image() else { return };
    let Some(machine) = Machine::start(image) else { return };
    machine.sh("useradd --create-home me");
    let as_me = |command: &str| machine.output(&format!("su me -c 'cd; {command}'"));
    let done = |command: &str| {
        let output = as_me(command);
        assert!(output.status.success(), "{command}: {output:?}");
        text(&output.stdout)
    };
    done("g2 --root /home/me/g2 init");
    machine.sh(&format!("printf '{SETTINGS}' > /home/me/g2/g2.toml"));
    machine.sh("loginctl enable-linger me");
    wait_for("the user's manager", || {
        as_me("XDG_RUNTIME_DIR=/run/user/$(id -u) systemctl --user is-system-running")
            .status
            .success()
            .then_some(())
    });
    // The set-up is killed just after it has installed the service: it goes on, and starts nothing anew.
    let setup = "g2 --root /home/me/g2 --json setup --yes --service yes --patience 60";
    if fail_points() {
        let killed = as_me(&format!("G2_FAILPOINT=setup.service {setup}"));
        assert!(!killed.status.success(), "{killed:?}");
    }
    let pid = || {
        machine.sh("su me -c 'XDG_RUNTIME_DIR=/run/user/$(id -u) systemctl --user show --property MainPID --value g2'")
    };
    let before = pid();
    let steps: serde_json::Value = serde_json::from_str(&done(setup)).unwrap();
    let of = |name: &str| {
        let mut steps = steps.as_array().unwrap().iter();
        steps.find(|step| step["step"] == name).unwrap()["state"].clone()
    };
    assert_eq!(of("answer"), "done", "{steps}");
    if fail_points() {
        assert_eq!((of("service"), pid()), ("stands".into(), before), "{steps}");
    }
    let state = || -> serde_json::Value {
        // It fails while the service is about to be started again.
        serde_json::from_slice(&as_me("g2 --json --root /home/me/g2 service status").stdout).unwrap()
    };
    let first = state();
    assert_eq!(
        (&first["active"], &first["starts_by_itself"], &first["lingers"]),
        (&"active".into(), &true.into(), &true.into()),
        "{first}"
    );
    assert!(done("g2 --root /home/me/g2 send --wait 60 hello").contains("echo: hello"));
    machine.sh(&format!("kill -KILL {}", first["pid"]));
    wait_for("the manager to have started it again", || {
        let next = state();
        (next["active"] == "active" && next["pid"] != first["pid"] && next["pid"].is_u64()).then_some(())
    });
    assert!(done("g2 --root /home/me/g2 send --wait 60 again").contains("echo: again"));
    wait_for("its log", || {
        done("g2 --root /home/me/g2 service logs --lines 500 | cat").contains("ready").then_some(())
    });
    done("g2 --root /home/me/g2 service uninstall");
    assert!(!machine.output("test -e /home/me/.config/systemd/user/g2.service").status.success());
    assert!(machine.output("test -e /home/me/g2/data/g2.sqlite").status.success());
}

#[test]
fn a_real_systemd_starts_the_service_watches_it_and_starts_it_again() {
    let Some(image) = systemd_image() else { return };
    let Some(machine) = Machine::start(image) else { return };
    machine.sh("useradd --create-home me");
    let as_me = |command: &str| machine.sh(&format!("su me -c 'cd; {command}'"));
    as_me("g2 --root /home/me/g2 init");
    machine.sh(&format!("printf '{SETTINGS}' > /home/me/g2/g2.toml"));
    let said = machine.sh("g2 --root /home/me/g2 service install --system --user me");
    assert!(said.contains("g2.service is installed and runs"), "{said}");
    let pid = machine.sh("systemctl show --property MainPID --value g2");
    assert_eq!(machine.sh(&format!("stat -c %U /proc/{}", pid.trim())), "me\n");
    let answer = as_me("g2 --root /home/me/g2 send --wait 60 hello");
    assert!(answer.contains("hello"), "{answer}");
    let state: serde_json::Value =
        serde_json::from_str(&machine.sh("g2 --json --root /home/me/g2 service status --system")).unwrap();
    assert_eq!((&state["active"], &state["starts_by_itself"]), (&"active".into(), &true.into()), "{state}");
    machine.sh(&format!("kill -KILL {}", pid.trim()));
    wait_for("systemd to have started it again", || {
        let next = machine.sh("systemctl show --property MainPID --value g2");
        let active = machine.output("systemctl is-active --quiet g2").status.success();
        (active && next != pid && next.trim() != "0").then_some(())
    });
    let answer = as_me("g2 --root /home/me/g2 send --wait 60 again");
    assert!(answer.contains("again"), "{answer}");
    let log = machine.sh("g2 --root /home/me/g2 service logs --system --lines 500 | cat");
    assert!(log.contains("ready"), "{log}");
    machine.sh("g2 --root /home/me/g2 service uninstall --system");
    assert!(!machine.output("test -e /etc/systemd/system/g2.service").status.success());
    assert!(machine.output("test -e /home/me/g2/data/g2.sqlite").status.success());
}
