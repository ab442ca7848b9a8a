//! The life pipe: a runner that is a child of the daemon ends when the daemon ends, however that happens.
//!
//! The daemon holds the only write end and writes nothing. When it is gone the read end reports end of file, and the
//! runner kills its process group, itself included. Children of the runner may inherit the read end; that keeps
//! nothing alive. Containers need none of this: they are meant to outlive the daemon.
#![expect(
    clippy::disallowed_methods,
    reason = "opens the runner's own descriptor through /proc, no shared folder"
)]

use std::{
    fs::File,
    io::{self, Read},
    process, thread,
};

use rustix::process::{Signal, getpgrp, getpid, kill_process, kill_process_group};

/// The life pipe can't be opened.
#[derive(Debug, thiserror::Error)]
#[error("opening the life pipe, descriptor {fd}, failed")]
pub(crate) struct NoLifePipe {
    fd: u32,
    #[source]
    source: io::Error,
}

/// Starts the thread that ends this process, and its group, when the pipe ends.
///
/// # Errors
/// [`NoLifePipe`] when there is no such descriptor, or it is no pipe.
pub(crate) fn live_by(fd: u32) -> Result<(), NoLifePipe> {
    let wrap = |source| NoLifePipe { fd, source };
    let pipe = File::open(format!("/proc/self/fd/{fd}")).map_err(wrap)?;
    thread::Builder::new()
        .name("life".to_owned())
        .spawn(move || {
            wait_for_end(pipe);
            end();
        })
        .map_err(wrap)?;
    Ok(())
}

fn wait_for_end(mut pipe: File) {
    let mut buffer = [0; 64];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn end() -> ! {
    // A group that somebody else leads holds more than what we have started.
    let _ = if getpgrp() == getpid() {
        kill_process_group(getpgrp(), Signal::KILL)
    } else {
        kill_process(getpid(), Signal::KILL)
    };
    process::abort()
}
