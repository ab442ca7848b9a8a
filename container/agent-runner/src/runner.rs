//! One life of the runner: read the launch document, bring the agent up, let it work, leave.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::AsFd,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, Mutex, atomic::AtomicBool},
};

use ipc_handlers::wire::{Launch, Record, Status};

use crate::{
    files::FileError,
    host::{Event, Host},
    inbox::Inbox,
    life::{self, NoLifePipe},
    mailbox::Mailbox,
    outside, prompt,
    provider::{self, Leave, Provider, ProviderError},
    records::{OutputGone, Records},
    seat::{BadSeat, Seat},
    state::State,
    task_script::{self, Verdict},
    turns::{Turn, Turns},
    uses::Uses,
    world::{Machine, World},
};

/// The most that is read from stdin, bytes.
const LAUNCH_LIMIT: u64 = 64 << 20;

/// Runs the agent that stdin describes until the host closes it; the whole of `g2-agent` and of `g2 agent`.
///
/// Reads stdin to its end and writes records to stdout and lines for people to stderr. Whatever ends it before its
/// time is said in an `error` record, with exit code 1.
#[must_use]
pub fn main() -> ExitCode {
    // Past the standard library's line buffer: a record is one write.
    let out = match io::stdout().as_fd().try_clone_to_owned() {
        Ok(fd) => File::from(fd),
        Err(e) => {
            eprintln!("stdout can't be used: {e}");
            return ExitCode::FAILURE;
        }
    };
    let records = Arc::new(Records::new(Box::new(out)));
    ExitCode::from(code_of(live_here(&records), &records))
}

/// Lives one life in a world: reads the launch document, has `start` bring the agent up, lets it work, and returns the exit code.
/// Its mailbox is `ipc`, its working folder `group`; each write to `out` is a record.
pub fn live_in(
    world: &Arc<dyn World>,
    (ipc, group): (PathBuf, PathBuf),
    stdin: impl Read,
    out: Box<dyn Write + Send>,
    start: impl FnOnce(&Launch, &Host) -> Result<Box<dyn Provider>, ProviderError>,
) -> u8 {
    let records = Arc::new(Records::new(out));
    code_of(live(world, Seat::at(ipc, group), stdin, &records, start), &records)
}

/// Says what ended a life before its time, and returns its exit code.
fn code_of(left: Result<Leave, RunnerError>, records: &Records) -> u8 {
    match left {
        Ok(Leave::Closed) => 0,
        Ok(Leave::Exit(code)) => code,
        Err(e) => {
            let error = chain(&e);
            eprintln!("{error}");
            let _ = records.write(Record { status: Status::Error, error: Some(error), ..Record::default() });
            1
        }
    }
}

/// Why a runner ends before its time.
#[derive(Debug, thiserror::Error)]
enum RunnerError {
    #[error(transparent)]
    Seat(#[from] BadSeat),
    #[error(transparent)]
    Life(#[from] NoLifePipe),
    #[error("reading the launch document from stdin failed")]
    Stdin(#[source] io::Error),
    #[error("the launch document is larger than {LAUNCH_LIMIT} bytes")]
    TooLarge,
    #[error("the launch document on stdin can't be understood: {0}")]
    Launch(String),
    #[error("the mailbox can't be used; is it mounted?")]
    Ipc(#[from] FileError),
    #[error(transparent)]
    Output(#[from] OutputGone),
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

fn live_here(records: &Arc<Records>) -> Result<Leave, RunnerError> {
    let seat = Seat::from_env()?;
    if let Some(fd) = seat.life {
        life::live_by(fd)?;
    }
    if let Some(socket) = seat.outside.clone()
        && let Err(e) = outside::open(socket)
    {
        eprintln!("programs can't reach hosts outside: {}", chain(&e));
    }
    live(&(Arc::new(Machine) as Arc<dyn World>), seat, io::stdin().lock(), records, provider::start)
}

fn live(
    world: &Arc<dyn World>,
    seat: Seat,
    stdin: impl Read,
    records: &Arc<Records>,
    start: impl FnOnce(&Launch, &Host) -> Result<Box<dyn Provider>, ProviderError>,
) -> Result<Leave, RunnerError> {
    let launch = read_launch(stdin)?;
    let batch = Some(launch.batch_id.clone()).filter(|id| !id.is_empty());
    let inbox = Arc::new(Inbox::open(world, &seat.ipc, batch.as_deref(), Arc::clone(records))?);
    let host = Host {
        records: Arc::clone(records),
        inbox: Arc::clone(&inbox),
        state: State::open(world, &seat.ipc)?,
        mailbox: Mailbox::new(
            Arc::clone(world),
            &seat.ipc,
            &launch.run_id,
            launch.limits.reply_timeout_ms,
            launch.token.clone(),
        ),
        blocked_tools: launch.blocked_tools.clone(),
        say: launch.say,
        session: Mutex::new(None),
        known_session: Mutex::new(launch.session_id.clone()),
        is_ready: AtomicBool::new(false),
        seat,
        uses: Mutex::new(Uses::new(secrets_of(&launch))),
    };
    let mut provider = start(&launch, &host)?;
    host.ready()?;
    let prompt = match first_prompt(&launch, &host.seat) {
        First::Prompt(prompt) => prompt,
        First::Nothing => {
            host.report(Event::TurnDone { say: None, batches: batch.into_iter().collect() })?;
            return Ok(Leave::Closed);
        }
        First::Failed(error) => {
            host.report(Event::Failed(error))?;
            return Ok(Leave::Closed);
        }
    };
    drop(launch);
    Ok(provider.run(&Turns::new(&**world, Turn { batch, prompt }, inbox), &host)?)
}

/// The secrets that no word about a tool's use may have in it.
fn secrets_of(launch: &Launch) -> Vec<String> {
    launch.secrets.0.values().chain(launch.mcp_secrets.0.values()).cloned().collect()
}

/// How the first turn begins.
enum First {
    Prompt(String),
    /// The task's script says that there is nothing to do.
    Nothing,
    /// The task's script failed.
    Failed(String),
}

fn first_prompt(launch: &Launch, seat: &Seat) -> First {
    if !launch.is_scheduled_task {
        return First::Prompt(launch.prompt.clone());
    }
    match &launch.script {
        None => First::Prompt(prompt::of_task(&launch.prompt)),
        Some(script) => match task_script::run(script, &seat.group) {
            Verdict::Wake(data) => First::Prompt(prompt::of_task_with_data(&launch.prompt, data.as_ref())),
            Verdict::Rest => First::Nothing,
            Verdict::Failed(error) => First::Failed(error),
        },
    }
}

fn read_launch(stdin: impl Read) -> Result<Launch, RunnerError> {
    let mut bytes = Vec::new();
    stdin.take(LAUNCH_LIMIT + 1).read_to_end(&mut bytes).map_err(RunnerError::Stdin)?;
    if bytes.len() as u64 > LAUNCH_LIMIT {
        return Err(RunnerError::TooLarge);
    }
    serde_json::from_slice(&bytes).map_err(|e| RunnerError::Launch(without_values(&e)))
}

/// A type error quotes the value it met, and that may be a secret.
fn without_values(e: &serde_json::Error) -> String {
    let text = e.to_string();
    if !e.is_data() || text.starts_with("missing field") || text.starts_with("duplicate field") {
        return text;
    }
    format!("a field is not of its type at line {} column {}", e.line(), e.column())
}

/// Returns an error and its causes in one line.
pub(crate) fn chain(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut next = e.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_document_that_is_wrong_is_described_without_its_values() {
        let e = read_launch(
            &br#"{"prompt":"p","groupFolder":"g","chatJid":"j","isMain":true,"secrets":"sk-1"}"#[..],
        )
        .unwrap_err();
        assert!(!chain(&e).contains("sk-1"), "{e}");
        assert!(chain(&e).contains("line 1 column"), "{e}");
        let e = read_launch(&b"{}"[..]).unwrap_err();
        assert!(chain(&e).contains("missing field `prompt`"), "{e}");
    }
}
