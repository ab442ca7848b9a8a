//! A client's lines, bounded: a client can't make the daemon keep more than one line of the longest kind.

use std::io;

use futures_util::StreamExt as _;
use tokio::io::AsyncRead;
use tokio_util::{
    bytes::BytesMut,
    codec::{Decoder, FramedRead, LinesCodec, LinesCodecError},
};

/// Lines of a stream, each of at most `limit` bytes.
pub(super) struct Lines<R>(FramedRead<R, Bounded>);

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    /// It is no UTF-8.
    Bytes,
    /// It is longer than the limit, and what follows is still of it.
    TooLong,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(input: R, limit: usize) -> Self {
        Self(FramedRead::new(input, Bounded(LinesCodec::new_with_max_length(limit))))
    }

    /// Returns the next line; `None` at the end of the stream, where a line without its end counts for nothing.
    /// Safe to cancel.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        self.0.next().await.transpose()
    }
}

struct Bounded(LinesCodec);

impl Decoder for Bounded {
    type Item = Line;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Line>> {
        match self.0.decode(bytes) {
            Ok(line) => Ok(line.map(Line::Text)),
            Err(LinesCodecError::MaxLineLengthExceeded) => Ok(Some(Line::TooLong)),
            Err(LinesCodecError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Ok(Some(Line::Bytes))
            }
            Err(LinesCodecError::Io(error)) => Err(error),
        }
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Line>> {
        let line = self.decode(bytes)?;
        if line.is_none() {
            bytes.clear();
        }
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8], limit: usize) -> Vec<Line> {
        let mut lines = Lines::new(bytes, limit);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            let over = line == Line::TooLong;
            found.push(line);
            if over {
                break;
            }
        }
        found
    }

    #[tokio::test]
    async fn lines_are_text_or_bytes_or_too_long_and_a_half_one_at_the_end_is_none() {
        let text = |t: &str| Line::Text(t.to_owned());
        assert_eq!(all(b"a\n\nb\r\nc", 9).await, [text("a"), text(""), text("b")]);
        assert_eq!(all(b"\xff\nok\n", 9).await, [Line::Bytes, text("ok")]);
        assert_eq!(all(b"1234\n12345\n", 4).await, [text("1234"), Line::TooLong]);
        assert_eq!(all(&[b'x'; 100_000], 70_000).await, [Line::TooLong]);
    }
}
