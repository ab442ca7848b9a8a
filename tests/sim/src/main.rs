//! Tells the stories of seeds, a process each.
#![expect(clippy::print_stdout, reason = "a program of tests, for people")]
#![expect(clippy::disallowed_types, reason = "starts itself, once for each seed")]

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use clap::Parser;
use g2_sim::{Tally, Told, plan::Plan, play, seeded, template};

/// Lives of a simulated daemon, each as its seed says.
#[derive(Parser)]
struct Args {
    /// Tell the story of this seed alone
    #[arg(long)]
    seed: Option<u64>,
    /// Show all changes of its store, too
    #[arg(long, requires = "seed")]
    feed: bool,
    /// Show what the daemon logs, too, on stderr
    #[arg(long)]
    log: bool,
    /// The number of seeds to play
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Begin with this one
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// End with the first seed that breaks a promise
    #[arg(long)]
    first: bool,
    #[arg(long, hide = true)]
    play: Option<u64>,
    /// Only make that root
    #[arg(long, hide = true)]
    make: bool,
    /// The root that it begins with
    #[arg(long, hide = true)]
    template: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let (true, Some(template)) = (args.make, &args.template) {
        template::make(template);
        return ExitCode::SUCCESS;
    }
    if let (Some(seed), Some(template)) = (args.play, &args.template) {
        seeded::begin(seed);
        if args.log {
            tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).without_time().init();
        }
        let told = play(&Plan::of(seed), template);
        println!("{}", serde_json::to_string(&told).unwrap_or_default());
        return ExitCode::SUCCESS;
    }
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            println!("there is no folder for temporary files: {error}");
            return ExitCode::FAILURE;
        }
    };
    let template = args.template.clone().unwrap_or_else(|| {
        let made = folder.path().join("template.sqlite");
        template::make(&made);
        made
    });
    match args.seed {
        Some(seed) => one(&args, seed, &template),
        None => many(&args, &template),
    }
}

/// Has another process of this program tell the story of a seed.
fn told(args: &Args, seed: u64, template: &Path) -> Told {
    let own = std::env::current_exe().unwrap_or_else(|_| "g2-sim".into());
    let mut child = Command::new(own);
    child.args(["--play", &seed.to_string(), "--template"]).arg(template);
    if args.log {
        child.arg("--log").stderr(std::process::Stdio::inherit());
    }
    let broken = |why: String| Told { seed, broken: vec![why], ..Told::default() };
    match child.output() {
        Err(error) => broken(format!("a process could not be started: {error}")),
        Ok(output) => serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
            let words = String::from_utf8_lossy(&output.stderr);
            broken(format!("the process ended with {}: {words}", output.status))
        }),
    }
}

fn one(args: &Args, seed: u64, template: &Path) -> ExitCode {
    let told = told(args, seed, template);
    for (at, what) in &told.story {
        println!("{at:>9}  {what}");
    }
    if args.feed {
        println!("{}", told.feed);
    }
    println!("seed {seed}: {} lives, {} s", told.lives, told.passed / 1000);
    for broken in &told.broken {
        println!("BROKEN {broken}");
    }
    if told.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(clippy::disallowed_methods, reason = "tells how many seeds it plays in a second")]
fn many(args: &Args, template: &Path) -> ExitCode {
    let begun = Instant::now();
    let (next, tally) = (AtomicU64::new(args.from), Mutex::new(Tally::default()));
    let end = args.from.saturating_add(args.seeds);
    thread::scope(|threads| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            threads.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let told = told(args, seed, template);
                    if !told.broken.is_empty() {
                        println!("seed {seed}, {} lives:", told.lives);
                        told.broken.iter().for_each(|broken| println!("  {broken}"));
                        if args.first {
                            next.store(end, Ordering::Relaxed);
                        }
                    }
                    tally.lock().unwrap_or_else(PoisonError::into_inner).add(&told);
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{tally}");
    println!("{:.1} seeds a second", args.seeds as f64 / begun.elapsed().as_secs_f64());
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
