//! Bytes of stdout into records. Pure: no I/O, no clock.
//!
//! A record is what stands between a start and an end marker, of our family or of v1's. Text outside is none of our
//! business. The parser looks at each byte once, keeps at most [`MAX_RECORD`] of them, and never gives up: what it
//! can't use becomes [`Parsed::Garbage`], and the next good record is read all the same.
//!
//! A marker counts at the start of a line and glued behind other text, with one exception: inside a string of the
//! record's JSON it is text (an agent may speak of markers) unless it ends its line, since no JSON string holds a
//! raw line end.

mod json;
mod matcher;
#[cfg(test)]
mod tests;

use ipc_handlers::wire::Record;

use self::matcher::{Edge, Family, Marker, Matcher};

/// The longest record, bytes between its markers. A longer one is dropped and reported.
pub const MAX_RECORD: usize = 10 << 20;

/// The longest sample of what could not be used, characters.
pub const MAX_SAMPLE: usize = 200;

/// How many batches of a record's `handled` are kept; no run has as many in hand.
pub const MAX_HANDLED: usize = 10_000;

/// Line ends around a record's JSON, which do not count.
const SLACK: usize = 64;

/// What came out of the bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed {
    Record(Record),
    /// Something between or around markers that is no record. `sample` is its beginning, repaired to be text.
    Garbage {
        reason: Reason,
        sample: String,
    },
}

/// Why something is no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("what stands between the markers is no record: {0}")]
    Unreadable(String),
    #[error("the record is longer than {MAX_RECORD} bytes")]
    TooLarge,
    #[error("another record starts before this one has ended")]
    Restarted,
    #[error("an end marker without a start")]
    NoStart,
    #[error("the output ends inside a record")]
    CutOff,
}

/// The incremental parser; one per container.
#[derive(Debug, Default)]
pub struct Parser {
    place: Position,
    matcher: Matcher,
    /// A marker that is text unless its line ends here.
    doubtful: Option<Marker>,
    #[cfg(test)]
    looked: u64,
}

#[derive(Debug, Default)]
enum Position {
    #[default]
    Outside,
    /// Between the markers.
    Inside { family: Family, scan: Scan, body: Vec<u8> },
    /// Between the markers of a record that was dropped for its length.
    Dropped { family: Family, scan: Scan },
}

/// Where we are in the JSON of an open record.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    /// Bytes since the line began.
    column: usize,
    text: Text,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Text {
    #[default]
    Plain,
    Quoted,
    Escaped,
}

impl Parser {
    /// Returns a parser at the start of an output.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes, cut anywhere, and appends what they complete to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut impl Extend<Parsed>) {
        let mut rest = bytes;
        while let Some((&byte, tail)) = rest.split_first() {
            if matches!(self.place, Position::Outside) && self.matcher.is_idle() && byte != b'-' {
                let skip = rest.iter().position(|&b| b == b'-').unwrap_or(rest.len());
                self.count(skip);
                rest = &rest[skip..];
            } else {
                self.count(1);
                self.step(byte, out);
                rest = tail;
            }
        }
    }

    /// Returns how much of an open record it holds, bytes.
    #[must_use]
    pub fn holds(&self) -> usize {
        match &self.place {
            Position::Inside { body, .. } => body.len(),
            Position::Outside | Position::Dropped { .. } => 0,
        }
    }

    /// Whether no record and no marker has begun that is not ended: what follows can be read without what came before.
    #[must_use]
    pub fn is_between(&self) -> bool {
        matches!(self.place, Position::Outside) && self.matcher.is_idle()
    }

    /// Says what an output that ends here leaves behind.
    #[must_use]
    pub fn end(self) -> Option<Parsed> {
        match self.place {
            Position::Inside { body, .. } => Some(garbage(Reason::CutOff, &body)),
            Position::Outside | Position::Dropped { .. } => None,
        }
    }

    fn step(&mut self, byte: u8, out: &mut impl Extend<Parsed>) {
        let hit = self.matcher.step(byte);
        let (family, scan) = match &mut self.place {
            Position::Outside => {
                match hit {
                    Some(Marker { edge: Edge::Start, family, .. }) => self.open(family),
                    Some(Marker { edge: Edge::End, .. }) => out.extend([garbage(Reason::NoStart, b"")]),
                    None => {}
                }
                return;
            }
            Position::Inside { family, scan, body } => {
                body.push(byte);
                (*family, scan)
            }
            Position::Dropped { family, scan } => (*family, scan),
        };
        scan.step(byte);
        let doubtful = self.doubtful.take();
        // How far behind us the marker began, and which one it was.
        let found = match (hit, doubtful) {
            (Some(marker), _) if scan.admits(&marker) => Some((marker, marker.len)),
            (Some(marker), _) => {
                self.doubtful = Some(marker);
                None
            }
            (None, Some(marker)) if matches!(byte, b'\n' | b'\r') => Some((marker, marker.len + 1)),
            (None, _) => None,
        };
        match found {
            Some((Marker { edge: Edge::Start, family: next, .. }, behind)) => {
                self.close(behind, |body| Some(garbage(Reason::Restarted, body)), out);
                self.open(next);
            }
            Some((Marker { edge: Edge::End, family: end, .. }, behind)) if end == family => {
                self.close(behind, read, out);
            }
            // The other family's end is text.
            Some((Marker { edge: Edge::End, .. }, _)) | None => self.bound(out),
        }
    }

    fn open(&mut self, family: Family) {
        self.doubtful = None;
        self.place = Position::Inside { family, scan: Scan::default(), body: Vec::new() };
    }

    /// Leaves the open record; what stands before the marker goes to `judge`. A dropped one was reported before.
    fn close(
        &mut self,
        behind: usize,
        judge: impl FnOnce(&[u8]) -> Option<Parsed>,
        out: &mut impl Extend<Parsed>,
    ) {
        if let Position::Inside { body, .. } = std::mem::take(&mut self.place) {
            let body = body[..body.len().saturating_sub(behind)].trim_ascii();
            let parsed =
                if body.len() > MAX_RECORD { Some(garbage(Reason::TooLarge, body)) } else { judge(body) };
            out.extend(parsed);
        }
    }

    /// Drops an open record that has become too long.
    fn bound(&mut self, out: &mut impl Extend<Parsed>) {
        if let Position::Inside { family, scan, body } = &self.place
            && body.len() > MAX_RECORD + matcher::LONGEST + SLACK
        {
            out.extend([garbage(Reason::TooLarge, body)]);
            self.place = Position::Dropped { family: *family, scan: *scan };
        }
    }

    #[cfg(test)]
    fn count(&mut self, bytes: usize) {
        self.looked += bytes as u64;
    }

    #[cfg(not(test))]
    fn count(&mut self, _bytes: usize) {}
}

impl Scan {
    fn step(&mut self, byte: u8) {
        if byte == b'\n' {
            *self = Self::default();
            return;
        }
        self.column += 1;
        self.text = match (self.text, byte) {
            (Text::Plain, b'"') => Text::Quoted,
            (Text::Plain, _) | (Text::Quoted, b'"') => Text::Plain,
            (Text::Quoted, b'\\') => Text::Escaped,
            (Text::Quoted | Text::Escaped, _) => Text::Quoted,
        };
    }

    /// Whether a marker that ends here is one. (Markers hold no quotes, so its end tells about its start.)
    fn admits(self, marker: &Marker) -> bool {
        self.column == marker.len || self.text == Text::Plain
    }
}

fn read(body: &[u8]) -> Option<Parsed> {
    Some(match json::record(body) {
        Ok(record) => Parsed::Record(record),
        Err(why) => garbage(Reason::Unreadable(why.0), body),
    })
}

fn garbage(reason: Reason, bytes: &[u8]) -> Parsed {
    let head = &bytes[..bytes.len().min(MAX_SAMPLE * 4)];
    Parsed::Garbage { reason, sample: String::from_utf8_lossy(head).chars().take(MAX_SAMPLE).collect() }
}
