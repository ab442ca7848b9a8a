//! A process shuts itself in and becomes another program: it sees the system's libraries and certificates and what it is given,
//! writes what it is given, connects to nothing but addresses of the network, and ends with the daemon. Neither it nor what it
//! starts leaves its process group, so that all of it can be ended.
//!
//! | wall | where |
//! |---|---|
//! | files, signals, names of sockets without a file (Landlock) | a kernel that has it; each part since a version of its own |
//! | calls (seccomp, `calls.rs`) | a kernel that has it |
//! | a user of its own and no rights (`user.rs`), a file system of its own (`room.rs`) | a daemon that is root and may mount |
//! | bounds of each process; of all together `system/bounds.rs` | everywhere |
#![expect(clippy::disallowed_types, reason = "starts this program, which becomes the other one")]

use std::{
    ffi::OsString,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};

use super::{bounds, group::Group, leftovers::Notes, world::World};

mod calls;
mod room;
mod sight;
mod user;

use calls::User;
use sight::Sight;
pub(super) use sight::{identity, read_again};

/// What lines begin with in which the walls say what a person should know, on the program's standard error.
pub const WALLS: &str = "g2: ";
/// The first argument by which this program knows that it is to do so.
pub const CONFINE: &str = "confine-adapter";

/// Bounds of one process.
const LIMITS: [(Resource, u64); 4] =
    [(Resource::Core, 0), (Resource::Nofile, 4096), (Resource::Fsize, 512 << 20), (Resource::Data, 4 << 30)];
/// How much sooner than others it is ended where the machine's memory is used up.
const ENDED_SOONER: &str = "500";

/// Whether a program reaches others by sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Network,
    Nobody,
}

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
    /// A further folder that is nobody else's.
    pub spool: Option<&'a Path>,
    /// What the owner lets it read and write beside them.
    pub reads: &'a [PathBuf],
    pub writes: &'a [PathBuf],
    pub reach: Reach,
    /// What it has in its environment beside the usual.
    pub variables: &'a [(String, String)],
    /// Its own folders are new each time, and with them its user under a root daemon.
    pub is_passing: bool,
}

impl Confined<'_> {
    /// Starts it in a process group of its own, with pipes for what it says and with nothing of our environment.
    ///
    /// # Errors
    /// It can't be started.
    pub fn start(self, stdin: Stdio, stderr: Stdio) -> std::io::Result<Group> {
        let mut program = tokio::process::Command::new(self.by);
        program
            .args(self.arguments())
            .current_dir(self.home)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .env("HOME", self.home)
            .env("TMPDIR", self.home)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(stderr);
        Group::start(&mut program, self.notes.to_owned())
    }

    /// Returns the arguments by which this program becomes the other one.
    fn arguments(self) -> Vec<OsString> {
        let mut arguments = vec![CONFINE.into(), std::process::id().to_string().into(), self.notes.into()];
        let own = std::iter::once(self.home).chain(self.spool);
        arguments.extend(own.clone().flat_map(|path| [OsString::from("--own"), path.into()]));
        if self.reach == Reach::Nobody {
            arguments.push("--alone".into());
        }
        if self.is_passing {
            arguments.push("--passing".into());
        }
        let reads = self.reads.iter().map(|path| ("--read", path));
        let paths = reads.chain(self.writes.iter().map(|path| ("--write", path)));
        arguments.extend(paths.flat_map(|(flag, path)| [flag.into(), path.into()]));
        arguments.push("--".into());
        arguments.extend(self.command.iter().map(Into::into));
        arguments
    }
}

/// What the arguments ask for.
struct Asked {
    parent: Option<Pid>,
    notes: PathBuf,
    own: Vec<PathBuf>,
    reads: Vec<PathBuf>,
    writes: Vec<PathBuf>,
    reach: Reach,
    is_passing: bool,
    program: OsString,
    rest: Vec<OsString>,
}

impl Asked {
    fn read(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let parent = arguments.next().and_then(|pid| pid.to_str()?.parse().ok()).and_then(Pid::from_raw);
        let notes = arguments.next()?.into();
        let (mut own, mut reads, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut reach, mut is_passing) = (Reach::Network, false);
        while let Some(flag) = arguments.next().filter(|flag| flag != "--") {
            let list = match flag.to_str() {
                Some("--alone") => {
                    reach = Reach::Nobody;
                    continue;
                }
                Some("--passing") => {
                    is_passing = true;
                    continue;
                }
                Some("--own") => &mut own,
                Some("--write") => &mut writes,
                _ => &mut reads,
            };
            list.extend(arguments.next().map(PathBuf::from));
        }
        let program = arguments.next()?;
        let rest: Vec<OsString> = arguments.collect();
        // A program that is named by its path, and files among its arguments, have to be read.
        let files =
            std::iter::once(&program).chain(&rest).map(PathBuf::from).filter(|path| path.is_absolute());
        reads.extend(files.filter(|path| path.exists()));
        Some(Self { parent, notes, own, reads, writes, reach, is_passing, program, rest })
    }

    fn dies_with_parent(&self) -> bool {
        set_parent_process_death_signal(Some(Signal::KILL)).is_ok() && getppid() == self.parent
    }
}

/// Becomes the program that the arguments name. `say` tells the daemon what a person should know.
#[must_use]
pub fn main(world: &World, say: impl Fn(&str)) -> ExitCode {
    let Some(asked) = Asked::read(std::env::args_os().skip(2)) else { return ExitCode::from(2) };
    if !asked.dies_with_parent() {
        return ExitCode::from(1);
    }
    if let Err(error) = Notes(&asked.notes).note_own() {
        say(&format!("the program can't be noted: what it starts may outlive a daemon that dies: {error}"));
    }
    let user = match shut_in(world, &asked, &say) {
        Ok(user) => user,
        Err(error) => {
            say(&format!("the program could not be shut in, and is not started: {error}"));
            return ExitCode::from(1);
        }
    };
    // Who becomes another user forgets that it ends with its parent.
    if !asked.dies_with_parent() {
        return ExitCode::from(1);
    }
    calls::close_files();
    if let Err(error) = calls::refuse(asked.reach, user) {
        say(&format!(
            "this kernel can't refuse calls: what the program starts may outlive it, it reaches every program of this machine that listens at a file, and a hook reaches the network: {error}"
        ));
    }
    let error = Command::new(&asked.program).args(&asked.rest).exec();
    say(&format!("the program can't be started: {error}"));
    ExitCode::from(127)
}

/// Everything but the refused calls: its bounds, its user, its files.
fn shut_in(world: &World, asked: &Asked, say: &impl Fn(&str)) -> Result<User, Box<dyn std::error::Error>> {
    bound();
    let mut sight = Sight::of_all();
    sight.reads.extend_from_slice(&asked.reads);
    sight.writes.extend(asked.own.iter().chain(&asked.writes).cloned());
    let us = super::process::own_ids().0;
    let own_user = || {
        let user = user::choose(world, &asked.own, &asked.writes);
        room::enter(&asked.notes, &sight, user)?;
        user::keep(&asked.own, user)?;
        Ok::<_, std::io::Error>(user)
    };
    let user = match (us == 0).then(own_user) {
        Some(Ok(user)) => {
            sight.reads.push("/proc".into());
            Some(user)
        }
        Some(Err(error)) => {
            say(&format!(
                "the program keeps this daemon's user, though without its rights, for it can't be given a file system and a user of its own: {error}"
            ));
            // It may have had another one before.
            user::keep(&asked.own, us)?;
            sight.add_own_proc();
            None
        }
        None => {
            sight.add_own_proc();
            None
        }
    };
    bounds::limit_processes(user.filter(|user| user::is_own(*user)), user);
    user::turn_into(user)?;
    if let Some(home) = asked.own.first() {
        rustix::process::chdir(home)?;
    }
    if let Some(user) = user {
        tell_closed(asked, user, say);
    }
    match restrict(&sight)? {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => {}
        RulesetStatus::NotEnforced => {
            say("this kernel has no Landlock: the program can read and write what its user can")
        }
    }
    Ok(if user.is_some() { User::Another } else { User::Daemons })
}

/// Says which of the files that the settings give it the user that it is by now may not have.
fn tell_closed(asked: &Asked, user: u32, say: &impl Fn(&str)) {
    use rustix::fs::{Access, access};
    let reads = asked.reads.iter().map(|path| (path, Access::READ_OK, "read", "rX"));
    let writes = asked.writes.iter().map(|path| (path, Access::WRITE_OK, "write", "rwX"));
    for (path, how, what, rights) in reads.chain(writes) {
        if matches!(access(path, how), Err(rustix::io::Errno::ACCESS)) {
            let path = path.display();
            let lets = if asked.is_passing {
                format!("chmod -R o+{rights} {path}")
            } else {
                format!("setfacl -R -m u:{user}:{rights} {path}")
            };
            say(&format!(
                "the program runs as user {user}, who may not {what} {path}, which its settings give it: `{lets}` lets it"
            ));
        }
    }
}

/// Sets the bounds of one process. One that is refused is no reason not to start.
fn bound() {
    for (resource, most) in LIMITS {
        let most = getrlimit(resource).maximum.map_or(most, |ours| ours.min(most));
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
    #[expect(clippy::disallowed_methods, reason = "writes to /proc")]
    let _ = std::fs::write("/proc/self/oom_score_adj", ENDED_SOONER);
}

/// From now on this process, and what it becomes, sees only these files, signals nobody but what it starts, and can gain no rights.
fn restrict(sight: &Sight) -> Result<RulesetStatus, landlock::RulesetError> {
    let abi = ABI::V6;
    let all = AccessFs::from_all(abi);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(abi))?
        .create()?;
    for path in &sight.reads {
        // A device that its settings give it is of no use without.
        let access = if is_device(path) { all } else { AccessFs::from_read(abi) };
        rules = allow(rules, path, access)?;
    }
    for path in &sight.writes {
        rules = allow(rules, path, all)?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

fn is_device(path: &Path) -> bool {
    use rustix::fs::FileType;
    rustix::fs::stat(path)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice)
}

/// Allows what can be done with a file or a folder; one that is not there is passed over.
fn allow(
    rules: landlock::RulesetCreated,
    path: &Path,
    access: landlock::BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, landlock::RulesetError> {
    let Ok(fd) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(ABI::V6) };
    rules.add_rule(PathBeneath::new(fd, access))
}
