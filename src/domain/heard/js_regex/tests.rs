use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
pub(super) struct Fixture {
    pub(super) texts: Vec<String>,
    pub(super) patterns: Vec<(String, Option<String>)>,
}

#[test]
fn patterns_match_what_node_says_they_match() {
    let fixture: Fixture =
        serde_json::from_str(include_str!("../../../../tests/fixtures/js_regex.json")).unwrap();
    for (pattern, answers) in &fixture.patterns {
        let compiled = Pattern::compile(pattern);
        let Some(answers) = answers else {
            assert!(compiled.is_err(), "{pattern:?} is no pattern to Node");
            continue;
        };
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(PatternError::Unsupported { .. }) => continue,
            Err(error) => panic!("{pattern:?}: {error}"),
        };
        for (text, answer) in fixture.texts.iter().zip(answers.chars()) {
            assert_eq!(compiled.test(text), Ok(answer == '1'), "{pattern:?} on {text:?}");
        }
    }
}

#[test]
fn patterns_mean_what_they_mean_to_javascript() {
    for (pattern, text, found) in [
        // Look-around.
        ("^(?=.*a)(?=.*b)", "b and a", true),
        ("^(?!.*stop)", "go, stop", false),
        (r"(?<=\$)\d+", "costs $42", true),
        ("(?<!no )go", "no go", false),
        // Back-references, by number and by name; of a group that took no part, they are found anywhere.
        (r"\b(\w+) \1\b", "the the", true),
        (r"(?<q>['\x22]).*?\k<q>", "say 'it\"", false),
        (r"(a)?\1b", "b", true),
        // `\b`, `\w` and `\d` know ASCII only, `\s` all of Unicode's spaces.
        (r"\bcaf\b", "café", true),
        (r"^\w+$", "é", false),
        (r"\d", "٣", false),
        (r"^\s$", "\u{feff}", true),
        // No flags: case counts, `.` is no line's end, `^` and `$` are the text's.
        ("deploy", "Deploy", false),
        ("a.b", "a\nb", false),
        ("^b", "a\nb", false),
        ("a$", "a\n", false),
        // Without the flag `u`, a character beyond 0xFFFF is two.
        ("^.$", "😀", false),
        ("^..$", "😀", true),
    ] {
        assert_eq!(Pattern::compile(pattern).unwrap().test(text), Ok(found), "{pattern:?} on {text:?}");
    }
}

#[test]
fn patterns_that_hang_backtracking_engines_are_answered() {
    let text = "a".repeat(MAX_TEXT_CHARS - 1) + "!";
    for (pattern, found) in [
        ("^(a+)+$", false),
        ("(a|aa)+$", false),
        ("(?=.*x)(?=.*y)", false),
        ("(?!.*stop).*go", false),
        ("(?=(?:(?=(?:(?=a*b)a)*b)a)*b)", false),
        ("(?<=(a+)+)!", true),
    ] {
        assert_eq!(Pattern::compile(pattern).unwrap().test(&text), Ok(found), "{pattern}");
    }
}

#[test]
fn a_text_that_takes_too_many_steps_is_given_up_and_not_guessed_about() {
    let text = "ab".repeat(2_000);
    for pattern in ["(.*)(.*)(.*)\\1\\2\\3z", "(?=(.*))\\1z"] {
        assert!(Pattern::compile(pattern).unwrap().test(&text).is_err(), "{pattern}");
    }
}

#[test]
fn only_the_first_8000_characters_of_a_text_are_tested() {
    let pattern = Pattern::compile("x$").unwrap();
    let long = "é".repeat(MAX_TEXT_CHARS - 1);
    assert_eq!(pattern.test(&format!("{long}x")), Ok(true));
    assert_eq!(pattern.test(&format!("{long}x and more")), Ok(true));
    assert_eq!(pattern.test(&format!("{long}éx")), Ok(false));
}

#[test]
fn a_pattern_that_is_too_long_too_deep_or_too_large_is_refused() {
    let refused = |pattern: &str| Pattern::compile(pattern).unwrap_err();
    assert!(matches!(refused(&"a".repeat(MAX_PATTERN_BYTES + 1)), PatternError::TooLong { bytes: 4097 }));
    assert!(matches!(refused(&"(".repeat(2_000)), PatternError::TooComplex { .. }));
    assert!(matches!(refused("((a{100}){100}){100}"), PatternError::TooComplex { .. }));
    assert!(matches!(refused("(((?:){9999}){9999}){9999}"), PatternError::TooComplex { .. }));
    assert!(matches!(refused("(?i:a)"), PatternError::Unsupported { .. }));
    assert!(matches!(refused("(a)(?<=\\1)"), PatternError::Unsupported { .. }));
    assert_eq!(refused("a)").to_string(), "the pattern is no JavaScript regular expression: a ')' too many");
}

#[test]
fn white_space_is_what_javascript_takes_for_it() {
    assert_eq!(trim("\u{feff}\u{a0} \n@Andy\u{2028}\t"), "@Andy");
    assert_eq!(trim("\u{85}x\u{200b}"), "\u{85}x\u{200b}");
}

/// Text made of what patterns are made of, so that a good part of it is one.
pub(super) fn patternish() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b",
        "é",
        "😀",
        "1",
        "-",
        ",",
        "\\",
        "\\d",
        "\\W",
        "\\b",
        "\\1",
        "\\2",
        "\\k",
        "\\k<n>",
        "\\c",
        "\\x4",
        "\\u00",
        "\\uD83D",
        "\\uDE00",
        "\\0",
        "\\18",
        "(",
        "(?:",
        "(?=",
        "(?!",
        "(?<=",
        "(?<!",
        "(?<n>",
        "(?<",
        "(?",
        ")",
        "[",
        "[^",
        "]",
        "*",
        "+",
        "?",
        "{",
        "}",
        "{2}",
        "{2,}",
        "{0,3}",
        "{,4}",
        "{99999999999}",
        "|",
        "^",
        "$",
        ".",
        "\n",
        "\u{2028}",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_pattern_and_no_text_panics(pattern in patternish(), text in "[ab1é😀\\-, \n]{0,40}") {
        if let Ok(pattern) = Pattern::compile(&pattern) {
            let _ = pattern.test(&text);
        }
    }

    #[test]
    fn no_string_at_all_panics_as_a_pattern(pattern in any::<String>(), text in any::<String>()) {
        if let Ok(pattern) = Pattern::compile(&pattern) {
            let _ = pattern.test(&text);
        }
    }

    #[test]
    fn a_text_written_literally_is_found_in_itself(text in "[^\\x00]{0,30}", before in any::<String>()) {
        let literal: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let pattern = Pattern::compile(&literal).unwrap();
        prop_assert_eq!(pattern.test(&format!("{before}{text}")), Ok(true));
    }
}
