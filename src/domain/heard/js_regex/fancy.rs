//! Runs a pattern with back-references, which no engine can do in linear time, on one that counts its steps.
//!
//! That engine's words mean other things than JavaScript's, so only structure is written for it: every set of units
//! is spelt out by code points. A unit above ASCII is carried by the character of plane 16 with the same low 16 bits,
//! in the pattern and in the text: these are no letters, digits or spaces to it, and an emoji is two of them.

use std::{borrow::Cow, fmt::Write as _};

use super::{
    MAX_TEXT_CHARS, PatternError, TooMuchWork,
    class::Units,
    tree::{Assertion, Direction, Greed, Node, Tree, Wanted},
};

/// How many times the engine may go back and try another way before the text is given up.
const BACKTRACK_LIMIT: usize = 100_000;
/// How large a compiled piece of a pattern may get, bytes.
const COMPILED_BYTES: usize = 512 * 1024;
/// How many instructions the compiled pattern may have.
const COMPILED_STEPS: usize = 20_000;
/// The longest text for a pattern that looks around too, UTF-16 units: the engine does not count what it does there.
const MAX_UNITS_WITH_LOOKS: usize = 1_000;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Fancy {
    regex: fancy_regex::Regex,
    max_units: usize,
}

impl Fancy {
    /// Returns the compiled pattern.
    ///
    /// # Errors
    /// `Unsupported` for nested look-arounds, `TooComplex` when the engine refuses it.
    pub(super) fn compile(tree: &Tree) -> Result<Self, PatternError> {
        let max_units = match tree.look_depth {
            0 => 2 * MAX_TEXT_CHARS,
            1 => MAX_UNITS_WITH_LOOKS,
            _ => {
                let what = "back-references together with nested look-arounds";
                return Err(PatternError::Unsupported { what });
            }
        };
        let mut text = String::new();
        write_node(&tree.root, &mut text);
        let regex = fancy_regex::RegexBuilder::new(&text)
            .backtrack_limit(BACKTRACK_LIMIT)
            .delegate_size_limit(COMPILED_BYTES)
            .max_prog_size(COMPILED_STEPS)
            .build()
            .map_err(|error| PatternError::TooComplex { why: error.to_string() })?;
        Ok(Self { regex, max_units })
    }

    /// Returns whether the pattern is found anywhere in the text.
    ///
    /// # Errors
    /// [`TooMuchWork`] after [`BACKTRACK_LIMIT`] attempts, or at once when the text is too long for such a pattern.
    pub(super) fn test(&self, text: &str) -> Result<bool, TooMuchWork> {
        let gave_up = TooMuchWork { steps: BACKTRACK_LIMIT };
        if text.encode_utf16().count() > self.max_units {
            return Err(gave_up);
        }
        let text: Cow<'_, str> =
            if text.is_ascii() { text.into() } else { text.encode_utf16().map(carrier).collect() };
        self.regex.is_match(text.as_ref()).map_err(|_| gave_up)
    }
}

fn write_node(node: &Node, out: &mut String) {
    match node {
        Node::Set(units) => write_set(units, out),
        Node::Assertion(assertion) => out.push_str(match assertion {
            Assertion::Start => r"\A",
            Assertion::End => r"\z",
            // The engine's word boundary knows Unicode, but no carried unit is a word character to it.
            Assertion::WordBoundary => r"\b",
            Assertion::NoWordBoundary => r"\B",
        }),
        Node::Sequence(nodes) => nodes.iter().for_each(|node| write_node(node, out)),
        Node::Either(branches) => {
            out.push_str("(?:");
            for (index, branch) in branches.iter().enumerate() {
                if index > 0 {
                    out.push('|');
                }
                write_node(branch, out);
            }
            out.push(')');
        }
        Node::Capture(body) => write_group("(", body, out),
        Node::Repeat { body, min, max, greed } => {
            // The engine refuses to repeat what takes no unit, so it is given a branch that never matches.
            out.push_str("(?:");
            write_node(body, out);
            out.push('|');
            write_set(&Units::default(), out);
            out.push(')');
            let max = max.map_or_else(String::new, |max| max.to_string());
            write_infallible(out, format_args!("{{{min},{max}}}"));
            if *greed == Greed::Lazy {
                out.push('?');
            }
        }
        Node::Look { id: _, direction, wanted, body } => {
            let start = match (direction, wanted) {
                (Direction::Ahead, Wanted::Found) => "(?=",
                (Direction::Ahead, Wanted::Absent) => "(?!",
                (Direction::Behind, Wanted::Found) => "(?<=",
                (Direction::Behind, Wanted::Absent) => "(?<!",
            };
            write_group(start, body, out);
        }
        // A group that has not taken part matches nothing, where the engine alone would fail.
        Node::Reference(numbers) => {
            numbers.iter().for_each(|n| write_infallible(out, format_args!(r"(?({n})\{n}|)")));
        }
    }
}

fn write_group(start: &str, body: &Node, out: &mut String) {
    out.push_str(start);
    write_node(body, out);
    out.push(')');
}

/// Writes a set as a class of the engine's own syntax, by code points only.
fn write_set(units: &Units, out: &mut String) {
    let ranges = units.ranges();
    if ranges.is_empty() {
        out.push_str(r"[^\x{0}-\x{10FFFF}]");
        return;
    }
    out.push('[');
    let mut write_range = |from: u16, to: u16| {
        let (from, to) = (u32::from(carrier(from)), u32::from(carrier(to)));
        write_infallible(out, format_args!(r"\x{{{from:X}}}-\x{{{to:X}}}"));
    };
    for (from, to) in ranges {
        // ASCII and the rest are carried far apart; a range over both is written as two.
        if from < 0x80 && to >= 0x80 {
            write_range(from, 0x7F);
            write_range(0x80, to);
        } else {
            write_range(from, to);
        }
    }
    out.push(']');
}

/// Returns the character that stands for a UTF-16 unit in what the engine sees.
fn carrier(unit: u16) -> char {
    let code = u32::from(unit);
    char::from_u32(if code < 0x80 { code } else { 0x10_0000 + code }).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn write_infallible(out: &mut String, text: std::fmt::Arguments<'_>) {
    let written = out.write_fmt(text);
    debug_assert!(written.is_ok(), "writing into a string never fails");
}
