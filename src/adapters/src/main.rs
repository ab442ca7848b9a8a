//! Runs the adapter that the first argument names, on standard input and output.

use std::process::ExitCode;

use g2_channels::{kit, matrix};

/// The adapters of this program.
const NAMES: [&str; 1] = ["matrix"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let asked = std::env::args().nth(1).unwrap_or_default();
    let ended = match &asked[..] {
        "matrix" => kit::serve(matrix::connect).await,
        _ => {
            eprintln!(
                "g2-channels has no adapter {asked:?}; it has {NAMES:?}. G2 starts it: see `g2 channels --help`"
            );
            return ExitCode::from(2);
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{asked}: {why}");
            ExitCode::FAILURE
        }
    }
}
