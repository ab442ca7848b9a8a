//! `forgetful`: mounts a folder's contents over another folder, and takes its orders from a socket, a line each.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program of its own: it has a terminal and a socket"
)]

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::net::UnixListener,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::Parser;
use g2_forgetful::{Call, Failed, Failure, Fault, Forgetful, Random, Slowness, folder};

/// Mounts what is in FOLDER at AT, and forgets what was not synced when it is told to. FOLDER is read once, and written after
/// each power loss and at the end.
///
/// Orders, a line each: `power-loss SEED`, `at-stake`, `fail write|sync|make broken|full AFTER TIMES`,
/// `slow MICROSECONDS SEED`, `sync`, `end`.
#[derive(Parser)]
struct Arguments {
    /// What is mounted.
    folder: PathBuf,
    /// An empty folder, where it is mounted.
    at: PathBuf,
    /// The socket for orders.
    #[arg(long)]
    control: PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum Wrong {
    #[error(transparent)]
    Mount(#[from] Failed),
    #[error("the folder")]
    Folder(#[from] folder::Failed),
    #[error("the socket")]
    Socket(#[from] io::Error),
}

/// Does one order; returns the answer, or nothing when it is over.
fn obey(disk: &mut Forgetful, folder: &std::path::Path, order: &str) -> Result<Option<String>, Wrong> {
    let words: Vec<&str> = order.split_whitespace().collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let answer = match (words.as_slice(), numbers.as_slice()) {
        (["power-loss", _], [seed]) => {
            let forgotten = disk.lose_power(*seed)?;
            folder::write(&disk.with(|disk| disk.clone()), folder)?;
            format!("forgot {} changes and {} writes", forgotten.changes, forgotten.writes)
        }
        (["at-stake"], []) => {
            let stake = disk.with(|disk| disk.at_stake());
            format!("{} changes and {} writes", stake.changes, stake.writes)
        }
        (["fail", call, how, _, _], [after, times]) => {
            let call = match *call {
                "write" => Call::Write,
                "sync" => Call::Sync,
                "make" => Call::Make,
                _ => return Ok(Some(format!("{call} is no call"))),
            };
            let how = match *how {
                "broken" => Failure::Broken,
                "full" => Failure::Full,
                _ => return Ok(Some(format!("{how} is no failure"))),
            };
            disk.faults(|faults| faults.add(Fault { call, how, after: *after, times: *times }));
            "done".to_owned()
        }
        (["slow", _, _], [most, seed]) => {
            let slow = Slowness { most: Duration::from_micros(*most), random: Random::new(*seed) };
            disk.faults(|faults| faults.slow((*most > 0).then_some(slow)));
            "done".to_owned()
        }
        (["sync"], []) => {
            disk.with(|disk| disk.sync_all());
            "done".to_owned()
        }
        (["end"], []) => return Ok(None),
        _ => format!("{order:?} is no order"),
    };
    Ok(Some(answer))
}

fn serve(arguments: &Arguments) -> Result<(), Wrong> {
    let mut disk = Forgetful::mount(folder::read(&arguments.folder)?, &arguments.at)?;
    let listener = UnixListener::bind(&arguments.control)?;
    println!("ready");
    'all: for stream in listener.incoming() {
        let mut lines = BufReader::new(stream?);
        let mut order = String::new();
        while lines.read_line(&mut order)? > 0 {
            let Some(answer) = obey(&mut disk, &arguments.folder, order.trim())? else { break 'all };
            writeln!(lines.get_mut(), "{answer}")?;
            order.clear();
        }
    }
    std::fs::remove_file(&arguments.control)?;
    folder::write(&disk.unmount(), &arguments.folder)?;
    Ok(())
}

fn main() -> ExitCode {
    match serve(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            let mut text = format!("forgetful: {wrong}");
            let mut source = std::error::Error::source(&wrong);
            while let Some(below) = source {
                text.push_str(&format!(": {below}"));
                source = below.source();
            }
            // Nobody reads it where this fails.
            let _ = writeln!(io::stderr(), "{text}");
            ExitCode::FAILURE
        }
    }
}
