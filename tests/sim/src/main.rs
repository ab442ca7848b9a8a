//! Tells the stories of seeds: `g2-sim --seed 7`, `g2-sim --seeds 1000 [--from 1]`.
#![expect(clippy::print_stdout, reason = "a program of tests, for people")]

use std::process::ExitCode;

use g2_sim::{plan::Plan, play};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let number = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1)?.parse::<u64>().ok()
    };
    if let Some(seed) = number("--twice") {
        let [first, second] = [1, 2].map(|_| play(&Plan::of(seed)));
        let apart = first.story.iter().zip(&second.story).find(|(one, other)| one != other);
        println!("{apart:?}");
        let apart = first.feed.lines().zip(second.feed.lines()).find(|(one, other)| one != other);
        println!("{apart:?} {}", first.feed == second.feed);
        return ExitCode::SUCCESS;
    }
    if let Some(seed) = number("--seed") {
        let told = play(&Plan::of(seed));
        for (at, what) in &told.story {
            println!("{at:>9}  {what}");
        }
        println!("seed {seed}: {} lives, {} ms", told.lives, told.passed);
        for broken in &told.broken {
            println!("BROKEN {broken}");
        }
        return if told.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let from = number("--from").unwrap_or(1);
    let mut failed = 0;
    for seed in from..from + number("--seeds").unwrap_or(100) {
        let told = play(&Plan::of(seed));
        if !told.broken.is_empty() {
            failed += 1;
            println!("seed {seed} ({} lives):", told.lives);
            for broken in &told.broken {
                println!("  {broken}");
            }
        }
    }
    println!("{failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
