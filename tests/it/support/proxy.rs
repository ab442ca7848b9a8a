//! A socket in front of the engine's own, which can be cut: an engine that is away, without touching the real one.

use std::{
    fs, io,
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// The engine, as seen through a socket of ours.
pub(crate) struct EngineProxy {
    path: PathBuf,
    away: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<UnixStream>>>,
}

impl EngineProxy {
    /// Listens at `path` and passes everything on to Docker's own socket.
    pub(crate) fn listen(path: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let (away, open) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (is_away, all) = (Arc::clone(&away), Arc::clone(&open));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if is_away.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(engine) = UnixStream::connect("/var/run/docker.sock") else { continue };
                all.lock().unwrap().extend([client.try_clone().unwrap(), engine.try_clone().unwrap()]);
                pass(client.try_clone().unwrap(), engine.try_clone().unwrap());
                pass(engine, client);
            }
        });
        Self { path: path.to_owned(), away, open }
    }

    /// What `DOCKER_HOST` is to be.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.path.display())
    }

    /// Ends every connection, and every new one at once.
    pub(crate) fn cut(&self) {
        self.away.store(true, Ordering::SeqCst);
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn mend(&self) {
        self.away.store(false, Ordering::SeqCst);
    }
}

impl Drop for EngineProxy {
    fn drop(&mut self) {
        self.cut();
        let _ = fs::remove_file(&self.path);
    }
}

/// Copies one way until it ends, then says so to the other side.
fn pass(mut from: UnixStream, mut to: UnixStream) {
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}
