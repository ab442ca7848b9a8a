//! `g2 service`: the daemon as a service of systemd.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{CliResult, Context, Failure, client::Client, confirm::Yes, filter::when, out, show};
use crate::{
    app,
    domain::machine::{
        setup,
        unit::{self, NoUnit, Scope, Unit, Walls},
    },
    ops::{OpCode, OpError},
    root::make_private_folder,
    system::{
        manager::{self, Manager, NoManager, Said},
        process,
    },
};

const INSTALLED: &str = "\
Without --system the service belongs to you and needs no root. It starts when you log in; with
lingering, which this command asks for, it starts with the machine and stays when you log out.
With --system it belongs to the machine and runs as one user.

The service sees the machine as read-only, but for its root. What an agent's container may do is
decided by Docker and the group's settings, not by this.

Examples:
  g2 service install
  g2 service install --print          # show the unit, change nothing
  g2 service install --system --user me   # as root";

const REMOVED: &str = "\
The daemon is stopped in order; its root stays as it is. Containers go on until the next start, or
end with `g2 stop --agents` before this.

Examples:
  g2 service uninstall
  g2 service uninstall --system           # as root";

const SHOWN: &str = "\
Exit codes: 0 it runs, 1 it does not, or is not installed.

Examples:
  g2 service status
  g2 service status --json";

const LOGGED: &str = "\
Examples:
  g2 service logs -f
  g2 service logs --lines 200
  g2 service logs --since 1h";

#[derive(Debug, Subcommand)]
pub(super) enum Service {
    /// Install the daemon as a service, and start it
    #[command(after_help = INSTALLED)]
    Install {
        #[command(flatten)]
        which: Which,
        /// With --system: run the daemon as this user [default: the user who called sudo]
        #[arg(long, value_name = "NAME", requires = "system")]
        user: Option<String>,
        /// Install it, and leave starting it to you
        #[arg(long)]
        no_start: bool,
        /// Print the unit and change nothing
        #[arg(long)]
        print: bool,
        #[command(flatten)]
        yes: Yes,
    },
    /// Stop the service and remove it
    #[command(after_help = REMOVED)]
    Uninstall {
        #[command(flatten)]
        which: Which,
    },
    /// Show whether the service is installed, runs, and starts with the machine
    #[command(after_help = SHOWN)]
    Status {
        #[command(flatten)]
        which: Which,
    },
    /// Show the service's log
    #[command(after_help = LOGGED)]
    Logs {
        #[command(flatten)]
        which: Which,
        /// Go on as lines come, until Ctrl-C
        #[arg(long, short)]
        follow: bool,
        /// Show at most N of the newest lines
        #[arg(long, value_name = "N", default_value_t = 100)]
        lines: u32,
        /// Show lines from this time on, written as in lists: 1h (ago), yesterday, 22:00, or an instant (RFC 3339)
        #[arg(long, value_name = "WHEN")]
        since: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(super) struct Which {
    /// The machine's service instead of your own
    #[arg(long)]
    system: bool,
    /// Name of the service: one for each root
    #[arg(long, value_name = "NAME", default_value = "g2")]
    name: String,
}

/// A service: who manages it, and where its unit lies.
struct Place {
    manager: Manager,
    service: String,
    unit: PathBuf,
}

impl Which {
    fn place(&self, context: &Context) -> Result<Place, OpError> {
        unit::check_name(&self.name).map_err(not_a_unit)?;
        let service = format!("{}.service", self.name);
        if self.system {
            let unit = Path::new("/etc/systemd/system").join(&service);
            return Ok(Place { manager: Manager::Machine, service, unit });
        }
        let get = |name: &str| context.environment.get(name).map(PathBuf::from);
        let config = get("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
        let config = config.or_else(|| Some(get("HOME")?.join(".config"))).ok_or_else(|| {
            OpError::invalid("the folder of your own services is not known: HOME is not set")
                .hint("set HOME, or install for the machine with --system")
        })?;
        let manager = Manager::User(process::own_ids().0);
        Ok(Place { manager, unit: config.join("systemd/user").join(&service), service })
    }
}

/// What `g2 service status` shows.
#[derive(Serialize)]
struct State {
    service: String,
    /// Where its unit lies.
    unit: PathBuf,
    installed: bool,
    /// As systemd has it: `active`, `inactive`, `failed`, …
    active: String,
    /// As systemd has it: `running`, `dead`, `auto-restart`, …
    sub_state: String,
    pid: Option<u32>,
    /// Since when it is in this state, in systemd's words.
    since: Option<String>,
    /// It starts with the machine, or when its user logs in.
    starts_by_itself: bool,
    /// Its user's services start with the machine and outlive a log-out; `null` with --system, where that needs nothing.
    lingers: Option<bool>,
    /// How often systemd started it again.
    restarts: u32,
}

impl State {
    /// For people.
    fn told(&self) -> String {
        let Self { service, unit, active, sub_state, restarts, .. } = self;
        if !self.installed {
            return format!(
                "{service} is not installed; `g2 service install` does it\n\nunit  {} is not there\n\n\
                 --name names another service, --system the machine's\n",
                unit.display()
            );
        }
        let pid = self.pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
        let since = self.since.as_ref().map(|since| format!(", since {since}")).unwrap_or_default();
        let starts = match (self.starts_by_itself, self.lingers) {
            (false, _) => "no; `g2 service install` has it start",
            (true, None | Some(true)) => "with the machine",
            (true, Some(false)) => "when you log in, until you log out; `loginctl enable-linger` has it stay",
        };
        let again = match restarts {
            0 => "never".to_owned(),
            1 => "once".to_owned(),
            more => format!("{more} times"),
        };
        format!(
            "{service} is {active} ({sub_state}){pid}{since}\n\nunit           {}\nstarts itself  {starts}\nstarted again  {again} after a failure\n",
            unit.display()
        )
    }
}

fn not_a_unit(error: NoUnit) -> OpError {
    OpError::invalid(error.to_string())
}

fn not_managed(error: NoManager) -> OpError {
    match error {
        NoManager::Program { program, .. } => OpError::new(OpCode::Failed, error.to_string()).hint(format!(
            "{program} belongs to systemd; without systemd have your own supervisor run `g2 serve`"
        )),
        NoManager::File { .. } => OpError::new(OpCode::Failed, error.to_string())
            .hint("the machine's own services need root: use sudo"),
    }
}

/// The failure for something that the manager did not do.
fn refused(what: &str, said: &Said) -> OpError {
    let why = if said.error.is_empty() { &said.out } else { &said.error };
    OpError::new(OpCode::Failed, format!("{what} failed: {why}"))
}

impl Place {
    fn ask(&self, words: &[&str]) -> Result<Said, OpError> {
        self.manager.ask(words).map_err(not_managed)
    }

    fn must(&self, words: &[&str]) -> Result<(), OpError> {
        let said = self.ask(words)?;
        if said.done { Ok(()) } else { Err(refused(&format!("systemctl {}", words.join(" ")), &said)) }
    }

    /// Checks that there is a manager who answers.
    fn check(&self) -> Result<(), OpError> {
        let said = self.ask(&["is-system-running"])?;
        let bus = said.error.contains("bus") || said.out == "offline";
        match self.manager {
            _ if !bus => Ok(()),
            Manager::Machine => Err(OpError::new(OpCode::Failed, "systemd does not run on this machine")
                .hint("have your own supervisor run `g2 serve`; `g2 service install --print` shows what systemd would do")),
            Manager::User(uid) => {
                let name = process::user_name(uid).unwrap_or_else(|| uid.to_string());
                let why = if said.error.is_empty() { String::new() } else { format!(": {}", said.error) };
                Err(OpError::new(OpCode::Failed, format!("the user {name} has no service manager that answers{why}"))
                    .hint(format!(
                        "su and sudo start none: log in as {name}, or run `sudo loginctl enable-linger {name}` once; --system needs none; without systemd have your own supervisor run `g2 serve`"
                    )))
            }
        }
    }

    /// Reads properties of the service.
    fn properties(&self, names: &str) -> Result<impl Fn(&str) -> String, OpError> {
        let said = self.ask(&["show", &self.service, "--property", names])?;
        Ok(move |name: &str| {
            let found = said.out.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            found.unwrap_or_default().to_owned()
        })
    }

    fn state(&self) -> Result<State, OpError> {
        let installed = manager::unit(&self.unit).map_err(not_managed)?.is_some();
        let of =
            self.properties("ActiveState,SubState,MainPID,StateChangeTimestamp,UnitFileState,NRestarts")?;
        let user = match self.manager {
            Manager::Machine => None,
            Manager::User(uid) => Some(process::user_name(uid).unwrap_or_default()),
        };
        Ok(State {
            service: self.service.clone(),
            unit: self.unit.clone(),
            installed,
            active: of("ActiveState"),
            sub_state: of("SubState"),
            pid: of("MainPID").parse().ok().filter(|pid| *pid > 0),
            since: Some(of("StateChangeTimestamp")).filter(|since| !since.is_empty()),
            starts_by_itself: of("UnitFileState") == "enabled",
            lingers: user.map(|user| manager::lingers(&user)),
            restarts: of("NRestarts").parse().unwrap_or(0),
        })
    }

    /// Starts the service, or starts it again; where the kernel gives it no namespaces, without the walls that need one.
    fn start(&self, unit: &Unit) -> Result<Walls, OpError> {
        let walls = [unit.walls, Walls::WithoutNamespaces];
        for walls in walls {
            let text = Unit { walls, ..unit.clone() }.text().map_err(not_a_unit)?;
            manager::put_unit(&self.unit, &text).map_err(not_managed)?;
            self.must(&["daemon-reload"])?;
            let said = self.ask(&["restart", &self.service])?;
            if said.done {
                return Ok(walls);
            }
            // systemd's own exit code for a namespace that can't be made.
            const NAMESPACE: &str = "226";
            if walls == Walls::WithoutNamespaces
                || self.properties("ExecMainStatus")?("ExecMainStatus") != NAMESPACE
            {
                let error = refused(&format!("starting {}", self.service), &said);
                return Err(error.hint("`g2 service logs` says why; the service stays installed"));
            }
        }
        Ok(Walls::WithoutNamespaces)
    }
}

impl Service {
    pub(super) fn is_a_change(&self) -> bool {
        match self {
            Self::Install { print, .. } => !print,
            Self::Uninstall { .. } => true,
            Self::Status { .. } | Self::Logs { .. } => false,
        }
    }

    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::Install { which, user, no_start, print, yes } => {
                let place = which.place(context)?;
                let unit = unit_of(context, which.system, user)?;
                let text = unit.text().map_err(not_a_unit)?;
                if print {
                    return out::own_lines(&text);
                }
                app::check_root(&context.root)?;
                place.check()?;
                show::done(context, &install(context, &place, &unit, &text, no_start, &yes).await?)
            }
            Self::Uninstall { which } => {
                let place = which.place(context)?;
                if manager::unit(&place.unit).map_err(not_managed)?.is_none() {
                    return Err(not_installed(&place).into());
                }
                place.check()?;
                place.must(&["disable", "--now", &place.service])?;
                manager::remove_unit(&place.unit).map_err(not_managed)?;
                place.must(&["daemon-reload"])?;
                show::done(
                    context,
                    &format!("{} is stopped and removed; {} stays", place.service, context.root.display()),
                )
            }
            Self::Status { which } => {
                let place = which.place(context)?;
                let state = place.state()?;
                if context.json {
                    out::json(serde_json::to_value(&state).unwrap_or_default())?;
                } else {
                    out::text(&state.told())?;
                }
                if state.installed && state.active == "active" { Ok(()) } else { Err(Failure::Quiet(1)) }
            }
            Self::Logs { which, follow, lines, since } => {
                let since = match since {
                    Some(text) => Some(when(&text, context.world.now(), &context.config()?.zone.zone)?),
                    None => None,
                };
                // Seconds, which it takes in every zone.
                let since = since.map(|at| format!("@{}", at.0.div_euclid(1000)));
                let place = which.place(context)?;
                let lines = lines.to_string();
                let mut words = vec!["--unit", &place.service, "--lines", &lines];
                words.extend(follow.then_some("--follow"));
                words.extend(since.iter().flat_map(|since| ["--since", since.as_str()]));
                if place.manager.show_log(&words).map_err(not_managed)? {
                    Ok(())
                } else {
                    Err(Failure::Quiet(1))
                }
            }
        }
    }
}

fn not_installed(place: &Place) -> OpError {
    OpError::invalid(format!(
        "no service {} is installed: {} is not there",
        place.service,
        place.unit.display()
    ))
    .hint("--name names another service, --system the machine's")
}

/// Returns the unit for this program and root.
fn unit_of(context: &Context, system: bool, user: Option<String>) -> Result<Unit, OpError> {
    let scope = if system {
        let (uid, _) = process::own_ids();
        let user = user
            .or_else(|| context.environment.get("SUDO_USER").map(str::to_owned))
            .or_else(|| process::user_name(uid))
            .ok_or_else(|| {
                OpError::invalid("the user that the daemon runs as is not known").hint("name it with --user")
            })?;
        if process::user_id(&user).is_none() {
            return Err(
                OpError::invalid(format!("{user:?} is no user of this machine")).hint("name one with --user")
            );
        }
        Scope::System { user }
    } else {
        Scope::User
    };
    let program = super::image::own_program().map_err(|e| OpError::new(OpCode::Failed, format!("{e:#}")))?;
    let root = std::path::absolute(&context.root).map_err(|e| {
        OpError::new(OpCode::Failed, format!("finding {} failed: {e}", context.root.display()))
    })?;
    let config = context.config().map_err(|error| OpError::new(OpCode::Failed, format!("{error:#}")))?;
    let of_accounts = config.channels.into_iter().flat_map(|account| account.writes);
    let written = config.backup.to.into_iter().chain(of_accounts);
    let mut writes: Vec<PathBuf> = written.map(|path| root.join(path)).collect();
    writes.sort();
    writes.dedup();
    Ok(Unit { scope, walls: Walls::All, program, root, writes })
}

/// Whether the usual service of this root was installed with other settings: what it may write is in its unit.
pub(super) fn is_stale(context: &Context) -> bool {
    let Some(Managed { place, .. }) = managed(context) else { return false };
    let Ok(Some(there)) = manager::unit(&place.unit) else { return false };
    let Ok(unit) = unit_of(context, place.manager == Manager::Machine, None) else { return false };
    let written =
        |text: &str| text.lines().find(|line| line.starts_with("ReadWritePaths=")).map(str::to_owned);
    // One without these walls may write everywhere.
    let (there, now) = (written(&there), unit.text().ok().as_deref().and_then(written));
    there.is_some() && there != now
}

async fn install(
    context: &Context,
    place: &Place,
    unit: &Unit,
    text: &str,
    no_start: bool,
    yes: &Yes,
) -> Result<String, Failure> {
    let before = manager::unit(&place.unit).map_err(not_managed)?;
    if before.as_ref().is_some_and(|before| before != text) {
        yes.to(&format!("{} is replaced", place.unit.display()))?;
    }
    let runs = before.is_some() && place.state()?.active == "active";
    if !no_start && !runs && Client::connect(&context.root).await.is_ok() {
        let error =
            OpError::new(OpCode::Failed, format!("a daemon runs at {} already", context.root.display()));
        return Err(error.hint("stop it with `g2 stop`, then install the service").into());
    }
    // In a system that it sees as read-only the daemon can't make them itself.
    for path in unit.writes.iter().filter(|path| !path.exists()) {
        let is_ours = unit.scope == Scope::User || process::own_ids().0 != 0;
        match is_ours.then(|| make_private_folder(path)) {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                out::tell(format!(
                    "{} can't be made: {error}; the service can't write there",
                    path.display()
                ));
            }
            None => out::tell(format!("{} is not there: make it for the service's user", path.display())),
        }
    }
    manager::put_unit(&place.unit, text).map_err(not_managed)?;
    place.must(&["daemon-reload"])?;
    place.must(&["enable", &place.service])?;
    let walls = if no_start { unit.walls } else { place.start(unit)? };
    let mut said = match no_start {
        true => format!("{} is installed; start it with `{}`", place.service, start_by_hand(place)),
        false => format!("{} is installed and runs", place.service),
    };
    if walls == Walls::WithoutNamespaces {
        said.push_str("; this machine gives it no namespaces of its own, so the walls that need one are left out of its unit");
    }
    if let Manager::User(uid) = place.manager {
        let name = process::user_name(uid).unwrap_or_else(|| uid.to_string());
        if !manager::lingers(&name) && !manager::linger().is_ok_and(|said| said.done) {
            said.push_str(&format!(
                "; it ends when you log out, until `sudo loginctl enable-linger {name}` is run once"
            ));
        }
    }
    Ok(said)
}

/// The usual service: one's own, or the machine's for root.
fn usual() -> Which {
    Which { system: process::own_ids().0 == 0, name: "g2".to_owned() }
}

/// Installs the usual service and starts it, or starts it again; returns what was done.
pub(super) async fn install_usual(context: &Context) -> Result<String, Failure> {
    let which = usual();
    let place = which.place(context)?;
    let unit = unit_of(context, which.system, None)?;
    let text = unit.text().map_err(not_a_unit)?;
    app::check_root(&context.root)?;
    place.check()?;
    install(context, &place, &unit, &text, false, &Yes::GIVEN).await
}

/// Returns how the usual service stands.
pub(super) fn stand(context: &Context) -> setup::Service {
    let look = || -> Result<setup::Service, OpError> {
        let place = usual().place(context)?;
        place.check()?;
        let Some(text) = manager::unit(&place.unit).map_err(not_managed)? else {
            return Ok(setup::Service::Absent);
        };
        let root = std::path::absolute(&context.root).unwrap_or_else(|_| context.root.clone());
        if !unit::serves(&text, &root) {
            let why = format!(
                "{} serves another root; give this one a name of its own: `g2 service install --name NAME`",
                place.unit.display()
            );
            return Ok(setup::Service::NoManager(why));
        }
        let runs = place.state()?.active == "active";
        Ok(if runs { setup::Service::Runs } else { setup::Service::Down })
    };
    look().unwrap_or_else(|error| setup::Service::NoManager(error.message))
}

/// The usual service of a root.
pub(super) struct Managed {
    place: Place,
    runs: bool,
}

impl Managed {
    /// Its name.
    pub(super) fn service(&self) -> &str {
        &self.place.service
    }

    /// Whether the daemon that runs is this service.
    pub(super) fn is_ours(&self) -> bool {
        self.runs
    }

    /// Has the manager do something.
    pub(super) fn must(&self, words: &[&str]) -> Result<(), OpError> {
        self.place.must(words)
    }

    /// Shows its log in this terminal.
    pub(super) fn show_log(&self, follow: bool, lines: u32) -> CliResult {
        let lines = lines.to_string();
        let mut words = vec!["--unit", self.service(), "--lines", &lines];
        words.extend(follow.then_some("--follow"));
        match self.place.manager.show_log(&words).map_err(not_managed)? {
            true => Ok(()),
            false => Err(Failure::Quiet(1)),
        }
    }
}

/// Returns the unit of systemd that a process is the daemon of, as a person names it to `systemctl`; `None`: it is of none.
pub(super) fn unit_of_process(pid: u32) -> Option<String> {
    let name = process::service_of(pid)?;
    let main = format!("MainPID={pid}");
    let managers = [(Manager::User(process::own_ids().0), "--user "), (Manager::Machine, "")];
    managers.into_iter().find_map(|(manager, word)| {
        let said = manager.ask(&["show", &name, "--property", "MainPID"]).ok()?;
        (said.out == main).then(|| format!("{word}restart {name}"))
    })
}

/// Returns the usual service, if it is installed for this root and its manager answers.
pub(super) fn managed(context: &Context) -> Option<Managed> {
    let runs = match stand(context) {
        setup::Service::Runs => true,
        setup::Service::Down => false,
        setup::Service::Absent | setup::Service::NoManager(_) => return None,
    };
    Some(Managed { place: usual().place(context).ok()?, runs })
}

fn start_by_hand(place: &Place) -> String {
    let user = if place.manager == Manager::Machine { "" } else { "--user " };
    format!("systemctl {user}start {}", place.service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_whether_it_runs_and_when_it_starts() {
        let absent = State {
            service: "g2.service".into(),
            unit: "/u/g2.service".into(),
            installed: false,
            active: String::new(),
            sub_state: String::new(),
            pid: None,
            since: None,
            starts_by_itself: false,
            lingers: Some(false),
            restarts: 0,
        };
        assert!(absent.told().starts_with("g2.service is not installed; `g2 service install` does it\n"));
        let there = State {
            installed: true,
            active: "active".into(),
            sub_state: "running".into(),
            pid: Some(7),
            since: Some("Mon".into()),
            starts_by_itself: true,
            restarts: 2,
            ..absent
        };
        let told = there.told();
        assert!(told.starts_with("g2.service is active (running), process 7, since Mon\n"), "{told}");
        assert!(told.contains("when you log in, until you log out") && told.contains("2 times"), "{told}");
        let lingers = State { lingers: Some(true), ..there };
        assert!(lingers.told().contains("starts itself  with the machine\n"));
    }
}
