//! Finds the four markers in a stream, byte by byte, in constant space.

use ipc_handlers::wire::{OUTPUT_END, OUTPUT_START, V1_OUTPUT_END, V1_OUTPUT_START};

/// Whose markers: a record ends with the family that it began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Ours,
    V1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Start,
    End,
}

/// A marker that was just completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) family: Family,
    pub(super) edge: Edge,
    /// Bytes.
    pub(super) len: usize,
}

/// The length of the longest marker, bytes.
pub(super) const LONGEST: usize = V1_OUTPUT_START.len();

/// How many dashes a marker begins and ends with. No other part of a marker looks like its beginning.
const DASHES: usize = 3;

const MARKERS: [(&str, Family, Edge); 4] = [
    (OUTPUT_START, Family::Ours, Edge::Start),
    (OUTPUT_END, Family::Ours, Edge::End),
    (V1_OUTPUT_START, Family::V1, Edge::Start),
    (V1_OUTPUT_END, Family::V1, Edge::End),
];

/// The longest end of the stream that is the beginning of a marker: `len` bytes, shared by the `live` markers.
#[derive(Debug, Default)]
pub(super) struct Matcher {
    len: usize,
    live: [bool; 4],
}

impl Matcher {
    /// Whether nothing of a marker was seen.
    pub(super) fn is_idle(&self) -> bool {
        self.len == 0
    }

    /// Takes one byte and returns the marker that it completes.
    pub(super) fn step(&mut self, byte: u8) -> Option<Marker> {
        let mut longer = [false; 4];
        for (i, (text, ..)) in MARKERS.iter().enumerate() {
            longer[i] = (self.len == 0 || self.live[i]) && text.as_bytes().get(self.len) == Some(&byte);
        }
        if !longer.contains(&true) {
            // The dashes so far may still begin a marker.
            let dashes = if byte == b'-' { self.trailing_dashes() + 1 } else { 0 };
            self.fall_back(dashes.min(DASHES));
            return None;
        }
        self.len += 1;
        self.live = longer;
        let done = MARKERS.iter().zip(longer).find(|((text, ..), live)| *live && text.len() == self.len);
        let ((text, family, edge), _) = done?;
        self.fall_back(DASHES);
        Some(Marker { family: *family, edge: *edge, len: text.len() })
    }

    fn fall_back(&mut self, dashes: usize) {
        *self = Self { len: dashes, live: [dashes > 0; 4] };
    }

    fn trailing_dashes(&self) -> usize {
        let seen = MARKERS.iter().zip(self.live).find(|(_, live)| *live).map_or("", |((text, ..), _)| text);
        seen.as_bytes()[..self.len.min(seen.len())].iter().rev().take_while(|b| **b == b'-').count()
    }
}
