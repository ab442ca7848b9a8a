//! Lines of bounded length.

use std::io::{self, BufRead};

/// What came next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line without its end; the last one may have had none.
    Whole(Vec<u8>),
    /// A line longer than the bound; passed over, never held.
    TooLong,
    End,
}

/// The lines of a stream.
pub(super) struct Lines<R> {
    from: R,
    limit: usize,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(from: R, limit: usize) -> Self {
        Self { from, limit }
    }

    /// Reads the next line. Empty ones are passed over.
    pub(super) fn next(&mut self) -> io::Result<Line> {
        let mut line = Vec::new();
        let mut length = 0;
        loop {
            let bytes = match self.from.fill_buf() {
                Ok(bytes) => bytes,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            let ended = bytes.is_empty();
            let (part, used) = match bytes.iter().position(|&b| b == b'\n') {
                Some(at) => (&bytes[..at], at + 1),
                None => (bytes, bytes.len()),
            };
            let whole = used > part.len();
            length += part.len();
            if length <= self.limit {
                line.extend_from_slice(part);
            } else {
                line = Vec::new();
            }
            self.from.consume(used);
            match (whole || ended, length) {
                (false, _) => {}
                (true, 0) if ended => return Ok(Line::End),
                (true, 0) => {}
                (true, _) if length > self.limit => return Ok(Line::TooLong),
                (true, _) => return Ok(Line::Whole(line)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8], capacity: usize, limit: usize) -> Vec<Line> {
        let mut lines = Lines::new(BufReader::with_capacity(capacity, bytes), limit);
        let mut all = Vec::new();
        loop {
            match lines.next().unwrap() {
                Line::End => return all,
                line => all.push(line),
            }
        }
    }

    #[test]
    fn a_line_that_is_too_long_costs_only_itself() {
        let whole = |text: &str| Line::Whole(text.into());
        assert_eq!(all(b"ab\n\nabcdef\ncd\nx", 3, 4), [whole("ab"), Line::TooLong, whole("cd"), whole("x")]);
        assert_eq!(all(b"", 3, 4), []);
        assert_eq!(all(b"abcde", 2, 4), [Line::TooLong]);
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_they_arrive(text in "[a-c\n]{0,60}", capacity in 1_usize..20) {
            let expected: Vec<Line> = text
                .split('\n')
                .filter(|line| !line.is_empty())
                .map(|line| if line.len() > 5 { Line::TooLong } else { Line::Whole(line.into()) })
                .collect();
            prop_assert_eq!(all(text.as_bytes(), capacity, 5), expected);
        }
    }
}
