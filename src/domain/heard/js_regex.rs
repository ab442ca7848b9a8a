//! JavaScript's `new RegExp(pattern).test(text)`, without flags, with a bound on the work.
//!
//! People wrote their engage patterns for JavaScript, so they must mean here what they meant there: UTF-16 code units
//! (an emoji is two), `\w`, `\d` and `\b` that know ASCII only, `.` that stops at four line ends, and the web's legacy
//! escapes. A pattern is checked by JavaScript's own grammar and read into a tree (`parse`). Without back-references
//! it runs on an engine of our own that is linear and counts its steps (`linear`); with them on fancy-regex, after
//! translation and with a limit on backtracking (`fancy`). A JavaScript engine is asked about syntax only: those
//! backtrack without a bound, and a 28-character text can hold one for seconds.
//!
//! What differs from JavaScript: a text is read up to [`MAX_TEXT_CHARS`]; `(?i:…)`, a back-reference inside a
//! look-behind, and back-references with nested look-arounds are refused; with back-references, a group captured in
//! an earlier round of a loop is still set in the next one.

mod caseless;
mod class;
mod escape;
mod fancy;
mod groups;
mod linear;
mod parse;
mod tree;

pub use caseless::ignoring_case;

/// The longest pattern that is taken, bytes.
pub const MAX_PATTERN_BYTES: usize = 4 * 1024;
/// How much of a text is tested, characters. A longer text is tested as if it ended there.
pub const MAX_TEXT_CHARS: usize = 8_000;

/// A pattern ready to be tested.
#[derive(Clone, Debug)]
pub struct Pattern(Engine);

#[derive(Clone, Debug)]
enum Engine {
    Linear(linear::Linear),
    Fancy(Box<fancy::Fancy>),
}

/// Why a pattern can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Longer than [`MAX_PATTERN_BYTES`].
    #[error("the pattern has {bytes} bytes and may have {MAX_PATTERN_BYTES}; say it shorter")]
    TooLong { bytes: usize },
    /// JavaScript refuses it too.
    #[error("the pattern is no JavaScript regular expression: {why}")]
    Syntax { why: String },
    /// JavaScript takes it and we do not.
    #[error("the pattern uses {what}, which is not supported; write it another way")]
    Unsupported { what: &'static str },
    /// It would grow too large, or nests too deeply.
    #[error("the pattern is too complex ({why}); use fewer or smaller repeats and groups")]
    TooComplex { why: String },
}

/// The engine gave up on a text: whether it matches is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "testing the pattern on this text takes more than {steps} steps; simplify repeats and back-references"
)]
pub struct TooMuchWork {
    /// The bound that was reached.
    pub steps: usize,
}

impl Pattern {
    /// Returns the pattern, checked and compiled.
    ///
    /// # Errors
    /// [`PatternError`] says what the mistake is. Never panics on any pattern.
    pub fn compile(pattern: &str) -> Result<Self, PatternError> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(PatternError::TooLong { bytes: pattern.len() });
        }
        let tree = parse::parse(pattern, parse::Case::Counts)?;
        check_syntax(pattern)?;
        Ok(Self(match tree.references {
            0 => Engine::Linear(linear::Linear::compile(&tree)?),
            _ => Engine::Fancy(Box::new(fancy::Fancy::compile(&tree)?)),
        }))
    }

    /// Returns whether the pattern is found anywhere in the first [`MAX_TEXT_CHARS`] characters of `text`.
    ///
    /// # Errors
    /// [`TooMuchWork`] when the bound was reached before there was an answer.
    pub fn test(&self, text: &str) -> Result<bool, TooMuchWork> {
        let text = match text.char_indices().nth(MAX_TEXT_CHARS) {
            Some((end, _)) => &text[..end],
            None => text,
        };
        match &self.0 {
            Engine::Linear(linear) => linear.test(&text.encode_utf16().collect::<Vec<_>>()),
            Engine::Fancy(fancy) => fancy.test(text),
        }
    }
}

/// Returns whether JavaScript's `\s` and `trim()` take the character for white space.
#[must_use]
pub fn is_space(c: char) -> bool {
    u16::try_from(u32::from(c)).is_ok_and(|unit| class::Units::space().contains(unit))
}

/// Returns `text` as JavaScript's `trim()` does.
#[must_use]
pub fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Asks a JavaScript engine whether it would take the pattern; its matcher has no bound and is never run.
fn check_syntax(pattern: &str) -> Result<(), PatternError> {
    let flags = regress::Flags { no_opt: true, ..regress::Flags::default() };
    match regress::Regex::with_flags(pattern, flags) {
        Ok(_) => Ok(()),
        Err(error) => Err(PatternError::Syntax { why: error.to_string() }),
    }
}

#[cfg(test)]
mod tests;
