//! The channel protocol, version 1: what G2 and an adapter of a chat platform say to each other, over the adapter's standard
//! input and output. UTF-8, one JSON object a line, at most [`LONGEST_LINE`] bytes. G2's lines have `op` ([`Down`]), the
//! adapter's have `is` ([`Up`]). A field or a name that a side does not know is ignored.
//!
//! The adapter's standard error is its log. The end of its standard input is the order to leave.

mod down;
mod json;
mod lines;
mod up;

pub use down::{Amend, Button, Command, Down, Fetch, File, Hint, LookFor, Request, Send, Span, Start, Style};
pub use json::{mended, read_json};
pub use lines::{LONGEST_LINE, LineError, Lines, line, schema};
pub use up::{
    Addresses, Attached, Buttons, Can, Chat, ChatKind, Done, Event, EventKind, Format, Found, From, Hello,
    Kind, LONGEST_DIRECT, LONGEST_TITLE, Light, MOST_ALSO, MOST_ENDINGS, MOST_REFERENCES, Media, Mention,
    Myself, NotSent, Pace, Pair, ReplyTo, Response, Scope, SentTwice, State, TextLimit, Unit, Up, Went,
};

/// The version that this crate speaks.
pub const VERSION: u32 = 1;
/// How many events an adapter may have told without being told `took` for them.
pub const MOST_OPEN: u64 = 64;
