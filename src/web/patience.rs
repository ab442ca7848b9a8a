//! A stream that gives up on a reader who takes nothing.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// How long a client may take nothing of what it is sent.
const LONGEST: Duration = Duration::from_secs(30);

/// A stream whose writes fail with `TimedOut` where nothing was taken for so long.
pub(super) struct Patient<S> {
    stream: S,
    longest: Duration,
    /// Runs while a write waits.
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, longest: LONGEST, waits: None }
    }

    fn patiently<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.waits = None;
            return done;
        }
        let longest = self.longest;
        ready!(self.waits.get_or_insert_with(|| Box::pin(sleep(longest))).as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, from);
        self.patiently(context, done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(context);
        self.patiently(context, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    fn patient<S>(stream: S, longest: Duration) -> Patient<S> {
        Patient { stream, longest, waits: None }
    }

    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_given_up() {
        let (ours, _theirs) = duplex(8);
        let mut stream = patient(ours, Duration::from_millis(1));
        let error = stream.write_all(&[b'x'; 32]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_reader_that_takes_a_little_at_a_time_gets_all() {
        let (ours, mut theirs) = duplex(8);
        let mut stream = patient(ours, Duration::from_secs(600));
        let mut taken = [0; 32];
        let (written, read) = tokio::join!(stream.write_all(&[b'x'; 32]), theirs.read_exact(&mut taken));
        written.unwrap();
        assert_eq!((read.unwrap(), taken), (32, [b'x'; 32]));
    }
}
