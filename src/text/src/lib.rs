#![doc = include_str!("../README.md")]

// In reading order: a text, where it comes from, where it is cut, how it is shown.
mod span;

mod beside;
mod breaks;
mod flow;
mod parse;
mod table;
mod urls;

mod split;

mod adapt;
mod render;

#[cfg(test)]
mod tests;

pub use channel_protocol::{Format, Unit};
pub use parse::parse;
pub use render::{Colours, Rendered, for_page, for_terminal, parts, parts_of, render};
pub use span::{Kind, Span, Text};
pub use split::{LEAST, split};
