//! Runs the adapter of WhatsApp on standard input and output.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|asked| asked != "whatsapp") {
        eprintln!(
            "g2-whatsapp has the adapter `whatsapp` alone. it is run by a program that speaks the channel protocol"
        );
        return ExitCode::from(2);
    }
    // Its own threads are few: an account has little to do at once, and files are read and written beside them.
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime can be made: {error}");
            return ExitCode::FAILURE;
        }
    };
    g2_whatsapp::log_to_stderr();
    let ended = runtime.block_on(g2_whatsapp::serve());
    // A read of the standard input may still wait; nobody waits for that.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("whatsapp: {why}");
            ExitCode::FAILURE
        }
    }
}
