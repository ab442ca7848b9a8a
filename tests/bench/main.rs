//! The figures: what the release binary does on this machine, beside what the machine itself can do, in one run.
//!
//! `cargo bench` takes all of them, `cargo bench -- --quick` fewer samples, `cargo bench -- drain rest` those that are
//! named. Each figure makes roots of its own under `target/`, drives the real `g2` from outside, and prints rows of one
//! table. Nothing is asserted here: a figure that is missed reads `no`. `G2_BENCH_BUSY=1` keeps one processor busy meanwhile.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "plays users, agents and the machine; a figure that can't be taken ends the run"
)]

use std::time::{Duration, Instant};

mod report;

mod channels;
mod claude;
mod command;
mod docker;
mod drain;
mod growth;
mod launch;
mod moving;
mod profile;
mod rest;
mod rivals;
mod tasks;

mod bare;
mod busy;
mod client;
mod commands;
mod events;
mod floor;
mod rig;

use report::Table;

/// How thorough a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    Quick,
    Full,
}

impl Effort {
    /// Returns one of two numbers.
    pub(crate) fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// A run that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(45 * 60);

/// What fills a part of the table.
type Figure = fn(Effort, &mut Table);

/// All figures, in the order of the table.
const FIGURES: [(&str, Figure); 12] = [
    ("profile", profile::take),
    ("command", command::take),
    ("drain", drain::take),
    ("launch", launch::take),
    ("docker", docker::take),
    ("claude", claude::take),
    ("rest", rest::take),
    ("tasks", tasks::take),
    ("channels", channels::take),
    ("growth", growth::take),
    ("moving", moving::take),
    ("rivals", rivals::take),
];

fn main() {
    if rivals::agent::was_docker() {
        return;
    }
    let mut effort = Effort::Full;
    let mut wanted = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Cargo's own.
            "--bench" => {}
            channels::ADAPTER => return channels::adapter(),
            rivals::channel::CHANNEL => return rivals::channel::run(),
            busy::BUSY => return busy::run(),
            rivals::agent::AGENT => return rivals::agent::run(&arguments.next().unwrap()),
            "--quick" => effort = Effort::Quick,
            name if FIGURES.iter().any(|(known, _)| *known == name) => wanted.push(argument),
            other => {
                let names = FIGURES.map(|(name, _)| name).join(", ");
                eprintln!("{other:?} is no figure; there are {names}, and --quick");
                std::process::exit(2);
            }
        }
    }
    std::thread::spawn(|| {
        std::thread::sleep(LONGEST);
        eprintln!("a figure hangs; the run is given up");
        std::process::exit(1);
    });
    let began = Instant::now();
    let mut table = Table::default();
    println!("{}\n", report::machine());
    let _busy = busy::Busy::begin();
    for (name, take) in FIGURES {
        if wanted.is_empty() || wanted.iter().any(|one| one == name) {
            take(effort, &mut table);
            eprintln!("{name}: done after {:.0} s", began.elapsed().as_secs_f64());
        }
    }
    println!("{table}");
    println!("{} Taken in {:.0} s.", report::load(), began.elapsed().as_secs_f64());
}
