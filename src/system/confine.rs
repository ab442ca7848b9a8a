//! A process shuts itself in and becomes another program: it may read the system's libraries and certificates and what it is
//! given, write what it is given, and ends with the daemon. Neither it nor what it starts leaves its process group, so that all of
//! it can be ended.
#![expect(clippy::disallowed_types, reason = "starts this program, which becomes the other one")]

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus,
};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use super::{group::Group, leftovers::Notes};

/// The first argument by which this program knows that it is to do so.
pub const CONFINE: &str = "confine-adapter";

/// What every program needs to run and to reach the network.
const READABLE: [&str; 12] = [
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/sbin",
    "/etc",
    "/opt",
    "/nix/store",
    "/run/systemd/resolve",
    "/proc",
    "/sys/devices/system/cpu",
    "/dev",
];
const WRITABLE: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/tty"];

/// Bounds of one process.
const LIMITS: [(Resource, u64); 4] =
    [(Resource::Core, 0), (Resource::Nofile, 4096), (Resource::Fsize, 1 << 30), (Resource::Data, 4 << 30)];

/// Whether a program reaches others by sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Network,
    Nobody,
}

/// Calls by which a process leaves its group.
const LEAVES: [i64; 2] = [libc::SYS_setsid, libc::SYS_setpgid];
/// Calls that open a socket. `io_uring` would do it without another call.
const CONNECTS: [i64; 2] = [libc::SYS_socket, libc::SYS_io_uring_setup];
/// The same calls by the numbers of programs with short addresses.
const SHORT: i64 = 0x4000_0000;

/// A program that is to run shut in.
#[derive(Clone, Copy, Debug)]
pub struct Confined<'a> {
    /// This program, which shuts it in.
    pub by: &'a Path,
    /// The folder in which its group is noted ([`Notes`]).
    pub notes: &'a Path,
    pub command: &'a [String],
    /// The folder in which it begins. It may write there.
    pub home: &'a Path,
    pub reads: &'a [PathBuf],
    pub writes: &'a [PathBuf],
    pub reach: Reach,
}

impl Confined<'_> {
    /// Starts it in a process group of its own, with pipes for what it says and with nothing of our environment.
    ///
    /// # Errors
    /// It can't be started.
    pub fn start(self, stdin: Stdio) -> std::io::Result<Group> {
        let mut program = tokio::process::Command::new(self.by);
        program
            .args(self.arguments())
            .current_dir(self.home)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .env("HOME", self.home)
            .env("TMPDIR", self.home)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Group::start(&mut program, self.notes.to_owned())
    }

    /// Returns the arguments by which this program becomes the other one.
    fn arguments(self) -> Vec<OsString> {
        let mut arguments = vec![CONFINE.into(), std::process::id().to_string().into(), self.notes.into()];
        if self.reach == Reach::Nobody {
            arguments.push("--alone".into());
        }
        let writes = std::iter::once(self.home).chain(self.writes.iter().map(PathBuf::as_path));
        let reads = self.reads.iter().map(PathBuf::as_path);
        let paths = reads.map(|path| ("--read", path)).chain(writes.map(|path| ("--write", path)));
        arguments.extend(paths.flat_map(|(flag, path)| [flag.into(), path.into()]));
        arguments.push("--".into());
        arguments.extend(self.command.iter().map(Into::into));
        arguments
    }
}

/// Becomes the program that the arguments name. `say` tells the daemon what a person should know.
#[must_use]
pub fn main(say: impl Fn(&str)) -> ExitCode {
    let mut arguments = std::env::args_os().skip(2);
    let parent = arguments.next().and_then(|pid| pid.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let Some(notes) = arguments.next().map(PathBuf::from) else { return ExitCode::from(2) };
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let mut reach = Reach::Network;
    while let Some(flag) = arguments.next().filter(|flag| flag != "--") {
        if flag == "--alone" {
            reach = Reach::Nobody;
            continue;
        }
        let list = if flag == "--write" { &mut writes } else { &mut reads };
        list.extend(arguments.next().map(PathBuf::from));
    }
    let Some(program) = arguments.next() else { return ExitCode::from(2) };
    let rest: Vec<OsString> = arguments.collect();
    // A program that is named by its path, and files among its arguments, have to be read.
    reads.extend(std::iter::once(&program).chain(&rest).map(PathBuf::from).filter(|path| path.is_absolute()));
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() || getppid() != parent {
        return ExitCode::from(1);
    }
    if let Err(error) = Notes(&notes).note_own() {
        say(&format!("the program can't be noted: what it starts may outlive a daemon that dies: {error}"));
    }
    for (resource, most) in LIMITS {
        let most = getrlimit(resource).maximum.map_or(most, |ours| ours.min(most));
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
    match shut_in(&reads, &writes) {
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => {}
        Ok(RulesetStatus::NotEnforced) => {
            say("this kernel has no Landlock: the program can read and write what this user can")
        }
        Err(error) => {
            say(&format!("the program could not be shut in, and is not started: {error}"));
            return ExitCode::from(1);
        }
    }
    if let Err(error) = refuse(reach) {
        say(&format!(
            "this kernel can't refuse calls: what the program starts may outlive it, and a hook reaches the network: {error}"
        ));
    }
    let error = Command::new(program).args(rest).exec();
    say(&format!("the program can't be started: {error}"));
    ExitCode::from(127)
}

/// From now on this process, and what it starts, stays in its process group, and opens no sockets if it reaches nobody.
fn refuse(reach: Reach) -> Result<(), seccompiler::Error> {
    let connects = if reach == Reach::Nobody { &CONNECTS[..] } else { &[] };
    let refused = LEAVES.iter().chain(connects).flat_map(|call| [*call, *call | SHORT]);
    let rules: BTreeMap<i64, Vec<_>> = refused.map(|call| (call, Vec::new())).collect();
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, std::env::consts::ARCH.try_into()?)?;
    apply_filter(&BpfProgram::try_from(filter)?)
}

/// From now on this process, and what it becomes, sees only these files.
fn shut_in(reads: &[PathBuf], writes: &[PathBuf]) -> Result<RulesetStatus, landlock::RulesetError> {
    let abi = ABI::V3;
    let all = AccessFs::from_all(abi);
    let mut rules =
        Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(all)?.create()?;
    let readable = READABLE.iter().map(Path::new).chain(reads.iter().map(PathBuf::as_path));
    for path in readable {
        rules = allow(rules, path, AccessFs::from_read(abi))?;
    }
    for path in WRITABLE.iter().map(Path::new).chain(writes.iter().map(PathBuf::as_path)) {
        rules = allow(rules, path, all)?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// Allows what can be done with a file or a folder; one that is not there is passed over.
fn allow(
    rules: landlock::RulesetCreated,
    path: &Path,
    access: landlock::BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, landlock::RulesetError> {
    let Ok(fd) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(ABI::V3) };
    rules.add_rule(PathBeneath::new(fd, access))
}
