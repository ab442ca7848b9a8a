//! The way to hosts outside, where the host gives one: programs find a proxy at [`wire::PROXY`], and everything that they say to
//! it goes through a socket file to the host, which judges it. The container has no network but its own loopback.

use std::{
    io,
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use ipc_handlers::wire;

/// The most connections at a time; further ones are closed.
const MOST: usize = 128;

/// Listens for programs from now on.
///
/// # Errors
/// The system's, when the port is taken.
pub(crate) fn open(socket: PathBuf) -> io::Result<()> {
    let listener = TcpListener::bind(wire::PROXY)?;
    thread::Builder::new().name("outside".to_owned()).spawn(move || serve(&listener, &socket))?;
    Ok(())
}

fn serve(listener: &TcpListener, socket: &Path) {
    let open = Arc::new(AtomicUsize::new(0));
    for program in listener.incoming().filter_map(Result::ok) {
        if open.fetch_add(1, Ordering::Relaxed) >= MOST {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (socket, held) = (socket.to_owned(), Arc::clone(&open));
        let carrying = thread::Builder::new().spawn(move || {
            let _ = UnixStream::connect(socket).and_then(|host| carry(&program, &host));
            held.fetch_sub(1, Ordering::Relaxed);
        });
        if carrying.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Carries bytes both ways until both sides have ended.
fn carry(program: &TcpStream, host: &UnixStream) -> io::Result<()> {
    let _ = program.set_nodelay(true);
    let (mut from_program, mut to_host) = (program.try_clone()?, host.try_clone()?);
    let up = thread::Builder::new().spawn(move || {
        let _ = io::copy(&mut from_program, &mut to_host);
        let _ = to_host.shutdown(Shutdown::Write);
    })?;
    let (mut from_host, mut to_program) = (host, program);
    let carried = io::copy(&mut from_host, &mut to_program);
    // The host has ended it: nothing that the program says reaches anybody.
    let _ = program.shutdown(Shutdown::Both);
    let _ = up.join();
    carried.map(drop)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        os::unix::net::UnixListener,
    };

    use super::*;

    #[test]
    fn bytes_go_both_ways_and_both_ends_are_passed_on() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let host = UnixListener::bind(&socket).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || serve(&listener, &socket));
        let mut program = TcpStream::connect(at).unwrap();
        let (mut side, _) = host.accept().unwrap();
        program.write_all(b"up").unwrap();
        program.shutdown(Shutdown::Write).unwrap();
        let mut said = String::new();
        side.read_to_string(&mut said).unwrap();
        side.write_all(b"down").unwrap();
        drop(side);
        let mut heard = String::new();
        program.read_to_string(&mut heard).unwrap();
        assert_eq!((said.as_str(), heard.as_str()), ("up", "down"));
    }
}
