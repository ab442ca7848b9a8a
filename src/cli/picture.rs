//! The process in which the daemon has a small picture made: a picture comes by the standard input, the small one goes to the output.

use std::{io::Read as _, process::ExitCode};

use super::out;
use crate::{
    domain::platforms::pictures::small,
    system::pictures::{LARGEST, NO_PICTURE},
};

/// Makes the small picture of what comes. Codes: [`NO_PICTURE`], none can be made of it; 2, the world's.
pub(super) fn small_one() -> ExitCode {
    let mut bytes = Vec::new();
    if std::io::stdin().lock().take(LARGEST).read_to_end(&mut bytes).is_err() {
        return ExitCode::from(2);
    }
    match small(&bytes).map(|picture| out::picture(&picture)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(_)) => ExitCode::from(2),
        Err(_) => ExitCode::from(NO_PICTURE),
    }
}
