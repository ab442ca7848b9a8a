//! Arguments that are one of a closed set of words; help lists them.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use ipc_handlers::Word;

/// Reads one of the words of `W`.
pub(super) fn word<W: Word + Send + Sync>() -> impl TypedValueParser<Value = W> {
    PossibleValuesParser::new(W::CHOICES.iter().map(|(word, _)| *word)).try_map(|word| W::from_word(&word))
}
