//! A hostile adapter and a hostile hook try every way out, and reach nothing but what they are given, while what honest ones need
//! goes on working.

use std::{
    collections::BTreeMap,
    fs,
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{MetadataExt as _, PermissionsExt as _, chown},
            net::{SocketAddr, UnixDatagram, UnixListener},
            process::CommandExt as _,
        },
    },
    path::Path,
    process::{Command, Stdio},
};

use super::{
    files_in::{came, put},
    folder,
};
use crate::support::{Daemon, Linkage, Root, program, skipped, wait_for};

/// A user that is not root.
const NOBODY: u32 = 65_534;

/// What of the report may be so on a kernel without the parts of Landlock that hold it.
const BY_LANDLOCK: [&str; 6] = [
    "environment",
    "words of the daemon",
    "words of the first process",
    "signal to the daemon",
    "abstract",
    "store",
];

/// What listens on this machine, and a root whose adapter is hostile.
struct Castle {
    root: Root,
    _listeners: (UnixListener, UnixListener, UnixDatagram, TcpListener),
    given: String,
}

impl Castle {
    fn new(then: &str) -> Self {
        let root = Root::new("");
        // Everybody gets there, so that nothing but the walls holds anybody.
        let gate = root.path().join("gate");
        fs::create_dir(&gate).unwrap();
        let name = format!("g2-climber-{}", root.path().display());
        let listeners = (
            UnixListener::bind(gate.join("socket")).unwrap(),
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
            UnixDatagram::bind(gate.join("datagram")).unwrap(),
            TcpListener::bind("127.0.0.1:0").unwrap(),
        );
        for path in [root.path(), &gate, &gate.join("socket"), &gate.join("datagram")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        fs::create_dir_all(root.data("channels/other")).unwrap();
        fs::write(root.path().join(".env"), "TOKEN=1\n").unwrap();
        let climber = root.path().join("climber");
        fs::copy(program("wall_climber.rs", Linkage::Dynamic), &climber).unwrap();
        let given = format!(
            "root = {:?}\nsocket = {:?}\ndatagram = {:?}\nabstract = {name:?}\ntcp = {:?}\nthen = {then:?}\n",
            root.path(),
            gate.join("socket"),
            gate.join("datagram"),
            listeners.3.local_addr().unwrap().to_string(),
        );
        root.settings(&format!("[channels.climber]\ncommand = [{climber:?}]\n{given}"));
        Self { root, _listeners: listeners, given }
    }

    /// Starts the daemon as a user.
    fn serve(&self, user: u32) -> Daemon {
        if user == 0 {
            return self.root.serve();
        }
        own(self.root.path(), user);
        let g2 = self.root.path().join("g2");
        fs::copy(env!("CARGO_BIN_EXE_g2"), &g2).unwrap();
        chown(&g2, Some(user), Some(user)).unwrap();
        let mut command = Command::new("setpriv");
        let id = user.to_string();
        command
            .args(["--reuid", &id, "--regid", &id, "--clear-groups"])
            .arg(g2)
            .arg("--root")
            .arg(self.root.path());
        command.arg("serve").env_clear().env("PATH", std::env::var_os("PATH").unwrap()).stdin(Stdio::null());
        self.root.spawn_by(command)
    }

    fn report(&self) -> String {
        let report = self.root.data("channels/climber/state/report");
        wait_for("the report", || fs::read_to_string(&report).ok())
    }

    /// Whether this kernel has all of Landlock that the walls use.
    fn has_landlock(&self) -> bool {
        !self.root.log().contains("has no Landlock")
    }
}

/// Gives a folder and all in it to a user.
fn own(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| own(&entry.unwrap().path(), user));
    }
}

/// Checks a report: nothing is reached that may not be, and everything that may be. Returns the user that wrote it.
fn check(report: &str, lacks_landlock: bool) -> u32 {
    let lines: BTreeMap<&str, &str> = report.lines().filter_map(|line| line.rsplit_once(' ')).collect();
    assert!(lines.len() > 30, "{report}");
    let is_nobody = lines["user"] == NOBODY.to_string();
    for (what, is) in &lines {
        // An ordinary user may not give up rights that it can't gain.
        let unless = lacks_landlock && BY_LANDLOCK.contains(what)
            || is_nobody && *what == "rights of programs that it starts";
        let right = match what.strip_prefix("may ") {
            Some(_) => *is == "yes",
            None => *what == "user" || *is == "no" || unless,
        };
        assert!(right, "{what} {is}: {report}");
    }
    lines["user"].parse().unwrap()
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skipped("acting as another user");
    }
    root
}

#[test]
fn a_hostile_adapter_of_a_root_daemon_is_a_user_of_its_own_without_rights_and_reaches_nothing() {
    if !is_root() {
        return;
    }
    let castle = Castle::new("rest");
    let daemon = castle.serve(0);
    let user = check(&castle.report(), !castle.has_landlock());
    assert!(user >= 2_000_000_000, "{user}");
    let state = castle.root.data("channels/climber/state");
    assert_eq!(fs::metadata(&state).unwrap().uid(), user);
    daemon.terminate();
    // It stays who it is, and what it wrote its own.
    fs::remove_file(state.join("report")).unwrap();
    let _daemon = castle.serve(0);
    assert_eq!(check(&castle.report(), !castle.has_landlock()), user);
}

#[test]
fn a_hostile_adapter_of_an_ordinary_users_daemon_reaches_nothing() {
    if !is_root() {
        return;
    }
    let castle = Castle::new("rest");
    let _daemon = castle.serve(NOBODY);
    assert_eq!(check(&castle.report(), !castle.has_landlock()), NOBODY);
}

#[test]
fn a_hostile_hook_that_may_use_the_network_reaches_nothing_else() {
    if !is_root() {
        return;
    }
    let castle = Castle::new("rest");
    let given: String = castle
        .given
        .lines()
        .map(|line| line.replacen(" = ", "\":", 1))
        .map(|line| format!("\"{line},"))
        .collect();
    let climber = castle.root.path().join("climber");
    let root = folder::root_with(&format!(
        "[media.hooks]\nvoice = [{climber:?}, \"hook\", \"{{file}}\", '''{given}''']\nnetwork = true\n"
    ));
    put(&root, "1.ogg", b"OggS");
    let _daemon = root.serve();
    let words = wait_for("the hook", || {
        came(&root).first().and_then(|row| row["attachments"][0]["words"].as_str().map(str::to_owned))
    });
    assert!(check(&words, root.log().contains("has no Landlock")) >= 2_000_000_000, "{words}");
}

#[test]
fn an_adapter_that_forks_without_end_is_ended() {
    if !is_root() {
        return;
    }
    for user in [0, NOBODY] {
        let castle = Castle::new("fork");
        let _daemon = castle.serve(user);
        let forks = castle.root.data("channels/climber/state/forks");
        if user == 0 {
            let count: u32 = wait_for("its forks", || fs::read_to_string(&forks).ok()?.parse().ok());
            assert!(count < 512, "{count}");
            continue;
        }
        // The kernel counts the user's others with them.
        wait_for("its end", || {
            castle.root.log().contains("processes and threads, the limit is 512").then_some(())
        });
    }
}

#[test]
fn an_adapter_that_fills_the_disk_is_ended_and_stays_so_until_there_is_room() {
    let castle = Castle::new("disk");
    let _daemon = castle.root.serve();
    let refused = wait_for("its end", || {
        let row = castle.root.json(&["channels", "show", "climber"]);
        (row["connection"] == "refused").then_some(row)
    });
    assert!(refused["why"].as_str().unwrap().contains("keeps too much"), "{refused}");
    assert!(castle.root.log().contains("the adapter was ended: its files take"));
}

#[test]
fn a_program_that_is_shut_in_is_not_heard_at_the_socket_should_it_get_there() {
    let root = Root::new("");
    let _daemon = root.serve();
    let socket = root.data("g2.sock");
    fs::create_dir_all(root.data("children")).unwrap();
    // Stands for an adapter without walls: it can gain no rights, and its group is noted.
    let ask = |noted: bool| {
        use std::io::Write as _;
        let script = format!(
            "read _; python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"{}\"); s.send(b\"{{\\\"op\\\":\\\"ping\\\"}}\\n\"); print(s.recv(999).decode())'",
            socket.display()
        );
        let mut leader = Command::new("setpriv");
        leader.args(["--no-new-privs", "/bin/sh", "-c", &script]).process_group(0);
        let mut asks = leader.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let note = root.data(&format!("children/{}.json", asks.id()));
        if noted {
            fs::write(&note, "{}").unwrap();
        }
        asks.stdin.take().unwrap().write_all(b"\n").unwrap();
        String::from_utf8(asks.wait_with_output().unwrap().stdout).unwrap()
    };
    assert!(ask(true).contains("adapters and hooks may not ask"));
    assert!(ask(false).contains("\"done\""));
}
