//! Threads for work that blocks: those of the runtime, and one of its own for work that is in no hurry. A panic of the work comes
//! back as an error.

use std::{io, panic::AssertUnwindSafe};

use tokio::{sync::oneshot, task::spawn_blocking};

use super::{
    panics::{Panicked, caught_here},
    process,
};

/// Does work that blocks on a thread of the runtime.
///
/// # Errors
/// [`Panicked`]
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Panicked> {
    spawn_blocking(work).await.map_err(Panicked::from)
}

/// As [`blocking`], for work that may fail by the world. A panic is an error, too: [`Panicked`] lies within it.
///
/// # Errors
/// Those of the work, and its panic.
pub async fn tried<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    blocking(work).await.map_err(io::Error::other)?
}

/// Does long work on a thread of its own that gives way to everybody. A caller that leaves does not wait for it; the thread goes on
/// to its end.
///
/// # Errors
/// There is no thread to be had, or the work panicked: [`Panicked`] lies within the error then.
pub async fn at_leisure<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    apart(name, process::give_way, work).await
}

/// As [`at_leisure`], where `begins` says by how much the thread gives way.
///
/// # Errors
/// As [`at_leisure`].
pub async fn apart<T: Send + 'static>(
    name: &str,
    begins: fn(),
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, outcome) = oneshot::channel();
    let work = move || {
        begins();
        // The caller may have left.
        let _ = done.send(caught_here(AssertUnwindSafe(work)));
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
    // It always says what came of it.
    let outcome = outcome.await.map_err(io::Error::other)?;
    outcome.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panic_in<T>(outcome: io::Result<T>) -> Option<String> {
        let error = outcome.err()?;
        error.get_ref()?.downcast_ref::<Panicked>().map(ToString::to_string)
    }

    #[tokio::test]
    async fn work_that_blocks_returns_what_it_did_or_what_it_said_when_it_panicked() {
        assert_eq!(blocking(|| 7).await, Ok(7));
        let panicked = blocking(|| -> u8 { panic!("plain") }).await.unwrap_err();
        assert_eq!(panicked.to_string(), "it panicked: plain");
        assert_eq!(tried(|| Ok(7)).await.unwrap(), 7);
        let failed = tried(|| -> io::Result<u8> { Err(io::ErrorKind::NotFound.into()) }).await;
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::NotFound);
        let panicked = tried(|| -> io::Result<u8> { panic!("plain") }).await;
        assert_eq!(panic_in(panicked).as_deref(), Some("it panicked: plain"));
    }

    #[tokio::test]
    async fn work_at_leisure_has_a_thread_of_its_own() {
        let name = || std::thread::current().name().map(str::to_owned);
        assert_eq!(at_leisure("slow", name).await.unwrap().as_deref(), Some("slow"));
        let panicked = at_leisure("slow", || -> u8 { panic!("plain") }).await;
        assert_eq!(panic_in(panicked).as_deref(), Some("it panicked: plain"));
    }
}
