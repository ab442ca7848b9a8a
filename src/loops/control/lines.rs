//! A client's lines, bounded: a client can't make the daemon keep more than one line of the longest kind.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Lines of a stream, each of `limit` bytes at most.
pub(super) struct Lines<R> {
    input: BufReader<R>,
    /// What has come of the next line.
    begun: Vec<u8>,
    limit: usize,
}

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
        Self { input: BufReader::new(input), begun: Vec::new(), limit }
    }

    /// Returns the next line; `None` at the end of the stream, where a line without its end counts for nothing.
    /// Safe to cancel.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let some = self.input.fill_buf().await?;
            if some.is_empty() {
                return Ok(None);
            }
            let (bytes, ends) = match some.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at, true),
                None => (some.len(), false),
            };
            if self.begun.len() + bytes > self.limit {
                return Ok(Some(Line::TooLong));
            }
            self.begun.extend_from_slice(&some[..bytes]);
            self.input.consume(bytes + usize::from(ends));
            if ends {
                let line = String::from_utf8(std::mem::take(&mut self.begun));
                return Ok(Some(line.map_or(Line::Bytes, Line::Text)));
            }
        }
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
        assert_eq!(all(b"a\n\nb\r\nc", 9).await, [text("a"), text(""), text("b\r")]);
        assert_eq!(all(b"\xff\nok\n", 9).await, [Line::Bytes, text("ok")]);
        assert_eq!(all(b"1234\n12345\n", 4).await, [text("1234"), Line::TooLong]);
        assert_eq!(all(&[b'x'; 100_000], 70_000).await, [Line::TooLong]);
    }
}
