//! How long a client that does not read is waited for.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

/// Writes all bytes, as fast as they are taken.
///
/// # Errors
/// The operating system's; `TimedOut` where nothing was taken for `longest`.
pub(super) async fn write(
    out: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    longest: Duration,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match timeout(longest, out.write(bytes)).await? {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => bytes = &bytes[taken..],
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    const TEXT: &[u8] = &[b'x'; 64];

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_let_go_of() {
        let (mut ours, _theirs) = duplex(8);
        let error = write(&mut ours, TEXT, Duration::from_millis(1)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_takes_a_little_at_a_time_is_told_all() {
        let (mut ours, mut theirs) = duplex(8);
        let mut taken = [0; TEXT.len()];
        let (written, read) =
            tokio::join!(write(&mut ours, TEXT, Duration::from_secs(600)), theirs.read_exact(&mut taken));
        assert_eq!((written.unwrap(), read.unwrap(), taken.as_slice()), ((), TEXT.len(), TEXT));
    }
}
