//! The stream of events of signal-cli, as it comes in pieces. Pure.

/// The longest event that is read, bytes. What is longer is passed over.
pub(super) const LONGEST: usize = 1 << 20;

/// The longest id of an event that is taken up, bytes.
pub(super) const LONGEST_ID: usize = 64;

/// Divides a stream into events.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The line that is not whole yet.
    line: Vec<u8>,
    /// What the lines of this event said.
    data: Vec<u8>,
    has_data: bool,
    too_long: bool,
    /// The line before ended with a carriage return.
    after_return: bool,
    /// The newest event's id, and that of the event which is not whole yet.
    pub(super) last: Option<String>,
    id: Option<String>,
}

/// What a piece of the stream ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// What an event says.
    Event(Vec<u8>),
    /// An event that is longer than one may be.
    TooLong,
}

impl Stream {
    /// Takes a piece in; returns the events that it ends.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<Piece> {
        let mut ended = Vec::new();
        for byte in piece {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => ended.extend(self.end_line()),
                _ if self.line.len() + self.data.len() >= LONGEST => self.too_long = true,
                byte => self.line.push(*byte),
            }
        }
        ended
    }

    fn end_line(&mut self) -> Option<Piece> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() && !self.has_data && self.too_long {
            self.too_long = false;
            self.last = self.id.take().or_else(|| self.last.take());
            return Some(Piece::TooLong);
        }
        if line.is_empty() {
            self.last = self.id.take().or_else(|| self.last.take());
            let (data, too_long) = (std::mem::take(&mut self.data), std::mem::take(&mut self.too_long));
            let piece = if too_long { Piece::TooLong } else { Piece::Event(data) };
            return std::mem::take(&mut self.has_data).then_some(piece);
        }
        if let Some(id) = line.strip_prefix(b"id:") {
            let id = id.strip_prefix(b" ").unwrap_or(id);
            self.id = std::str::from_utf8(id).ok().filter(|_| is_id(id)).map(str::to_owned);
            return None;
        }
        // A colon alone keeps the connection alive; other fields say nothing that we need.
        if let Some(said) = line.strip_prefix(b"data:") {
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(said.strip_prefix(b" ").unwrap_or(said));
        }
        None
    }
}

/// Whether an event's id is one that is taken up.
pub(super) fn is_id(id: &[u8]) -> bool {
    (1..=LONGEST_ID).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: &[u8], at_once: usize) -> Vec<Piece> {
        let mut reader = Stream::default();
        stream.chunks(at_once).flat_map(|piece| reader.push(piece)).collect()
    }

    #[test]
    fn events_are_divided_however_they_come() {
        let stream = b":\nevent:receive\ndata:{\"a\":1}\n\n:\n\nid:7\r\ndata: x\r\ndata:y\r\n\r\ndata\n\ndata:\xc3\xbc\n\ndata:half";
        let event = |text: &str| Piece::Event(text.as_bytes().to_vec());
        for at_once in 1..stream.len() {
            assert_eq!(read(stream, at_once), [event("{\"a\":1}"), event("x\ny"), event("ü")], "{at_once}");
        }
    }

    #[test]
    fn the_last_whole_event_s_id_is_known() {
        let mut reader = Stream::default();
        let mut last = |piece: &[u8]| {
            reader.push(piece);
            reader.last.clone()
        };
        assert_eq!(last(b"data:x\n\n"), None);
        assert_eq!(last(b"id:7\ndata:x\n\n:\n\n"), Some("7".into()));
        assert_eq!(last(b"id: 8\ndata:y\n"), Some("7".into()), "it is not whole");
        assert_eq!(last(b"\n"), Some("8".into()));
        let long = format!("id:{}\ndata:z\n\nid:a\x07b\ndata:z\n\n", "9".repeat(65));
        assert_eq!(last(long.as_bytes()), Some("8".into()));
    }

    #[test]
    fn an_event_that_is_too_long_is_passed_over_and_the_next_one_is_read() {
        let mut stream = b"data:".to_vec();
        stream.extend(vec![b'x'; 2 * LONGEST]);
        stream.extend(b"\n\ndata:y\n\n");
        assert_eq!(read(&stream, 4096), [Piece::TooLong, Piece::Event(b"y".to_vec())]);
        // Nor does what is no event, or has many lines, grow.
        let mut reader = Stream::default();
        for _ in 0..2000 {
            assert!(reader.push(&[b'z'; 1024]).is_empty());
        }
        assert!(reader.push(b"\n").is_empty() && reader.line.capacity() <= 2 * LONGEST);
        for _ in 0..2000 {
            let mut line = b"data:".to_vec();
            line.extend([b'z'; 1024]);
            line.push(b'\n');
            assert!(reader.push(&line).is_empty());
        }
        assert!(reader.data.len() <= LONGEST + 2048);
        assert_eq!(reader.push(b"\n"), [Piece::TooLong]);
    }
}
