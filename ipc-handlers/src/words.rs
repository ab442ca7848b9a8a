//! Closed sets of words: an enum a concept, with its words on the wire, in the store and in `--json` from one declaration.

use std::fmt;

/// An enum each variant of which is one word. [`crate::words!`] declares them.
pub trait Word: Copy + Eq + fmt::Debug + 'static {
    /// What the words are of, as errors name it: `task status`.
    const CONCEPT: &'static str;
    /// Every word with its value, in the order of the declaration.
    const CHOICES: &'static [(&'static str, Self)];

    /// Returns the word.
    fn word(self) -> &'static str;

    /// Returns the value of a word.
    ///
    /// # Errors
    /// [`UnknownWord`] for any other text.
    fn from_word(text: &str) -> Result<Self, UnknownWord> {
        let known = Self::CHOICES.iter().find(|(word, _)| *word == text);
        known.map(|(_, value)| *value).ok_or_else(|| UnknownWord {
            concept: Self::CONCEPT,
            found: text.chars().take(64).collect(),
            choices: Self::CHOICES.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", "),
        })
    }
}

/// A text that is none of the words of its concept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?}, which is no {concept}; use one of {choices}")]
pub struct UnknownWord {
    /// What it was read as.
    pub concept: &'static str,
    /// The text, its first 64 characters.
    pub found: String,
    /// The words there are.
    pub choices: String,
}

/// Declares a closed set of words: the enum, [`Word`], `Display`, `FromStr`, serde's two traits, and `as_str`, `from_name` and
/// `CHOICES` of its own.
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident: $concept:literal {
            $( $(#[$variant_meta:meta])* $variant:ident = $word:literal ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize)]
        $visibility enum $name {
            $( $(#[$variant_meta])* #[serde(rename = $word)] $variant ),+
        }

        impl $crate::words::Word for $name {
            const CONCEPT: &'static str = $concept;
            const CHOICES: &'static [(&'static str, Self)] = Self::CHOICES;

            fn word(self) -> &'static str {
                self.as_str()
            }
        }

        impl $name {
            /// Every word with its value.
            $visibility const CHOICES: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];

            /// Returns the word: on the wire, in the store and in `--json`.
            #[must_use]
            $visibility const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Returns the value of a word.
            #[must_use]
            $visibility fn from_name(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(text: &str) -> ::std::result::Result<Self, Self::Err> {
                <Self as $crate::words::Word>::from_word(text)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    words! {
        /// Something that is, or is not.
        enum Light: "light" {
            On = "on",
            OffForNow = "off-for-now",
        }
    }

    #[test]
    fn a_word_is_the_same_for_people_the_store_and_json() {
        for (word, light) in [("on", Light::On), ("off-for-now", Light::OffForNow)] {
            assert_eq!((light.as_str(), light.to_string().as_str()), (word, word));
            assert_eq!(serde_json::to_value(light).unwrap(), word);
            assert_eq!(serde_json::from_value::<Light>(word.into()).unwrap(), light);
            assert_eq!((word.parse(), Light::from_name(word)), (Ok(light), Some(light)));
        }
    }

    #[test]
    fn any_other_text_is_an_error_that_names_the_concept_and_the_choices() {
        let error = "On".parse::<Light>().unwrap_err();
        assert_eq!(error.to_string(), r#""On", which is no light; use one of on, off-for-now"#);
        assert_eq!("x".repeat(1 << 20).parse::<Light>().unwrap_err().found.len(), 64);
    }
}
