//! Runs the adapter that the first argument names, on standard input and output.

use std::process::ExitCode;

use g2_channels::{discord, kit, mail, matrix, signal, slack, telegram, webhook};

/// The adapters of this program.
const NAMES: [&str; 7] = ["discord", "mail", "matrix", "signal", "slack", "telegram", "webhook"];

fn main() -> ExitCode {
    let asked = std::env::args().nth(1).unwrap_or_default();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime can be made: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = match &asked[..] {
        "discord" => runtime.block_on(kit::serve(discord::connect)),
        "mail" => runtime.block_on(kit::serve(mail::connect)),
        "matrix" => runtime.block_on(kit::serve(matrix::connect)),
        "signal" => runtime.block_on(kit::serve(signal::connect)),
        "slack" => runtime.block_on(kit::serve(slack::connect)),
        "telegram" => runtime.block_on(kit::serve(telegram::connect)),
        "webhook" => runtime.block_on(kit::serve(webhook::connect)),
        _ => {
            eprintln!(
                "g2-channels has no adapter {asked:?}; it has {NAMES:?}. it is run by a program that speaks the channel protocol"
            );
            return ExitCode::from(2);
        }
    };
    // A read of the standard input may still wait; nobody waits for that.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{asked}: {why}");
            ExitCode::FAILURE
        }
    }
}
