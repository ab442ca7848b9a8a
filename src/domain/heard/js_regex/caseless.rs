//! A pattern with JavaScript's flag `i`, written as one without flags that is found in the same texts.
//!
//! Each unit becomes the set of units that differ from it in case alone, and the tree is written down again.

use std::{collections::BTreeMap, fmt::Write as _, sync::LazyLock};

use super::{
    MAX_PATTERN_BYTES, Pattern, PatternError,
    class::Units,
    parse::{Case, parse},
    tree::{Assertion, Direction, Greed, Node, Wanted},
};

/// Returns the pattern that takes, without flags, what `pattern` takes with the flag `i`.
///
/// # Errors
/// As [`Pattern::compile`]; also for a back-reference, which would have to ignore case too, and for a pattern that grows too long.
pub fn ignoring_case(pattern: &str) -> Result<String, PatternError> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(PatternError::TooLong { bytes: pattern.len() });
    }
    super::check_syntax(pattern)?;
    let tree = parse(pattern, Case::Ignored)?;
    if tree.references > 0 {
        return Err(PatternError::Unsupported { what: "a back-reference where case is ignored" });
    }
    let mut written = String::new();
    write_node(&tree.root, &mut written);
    Pattern::compile(&written)?;
    Ok(written)
}

/// Units that differ from others in case alone: for each of them all that it is equal to, itself included.
static EQUAL: LazyLock<BTreeMap<u16, Vec<u16>>> = LazyLock::new(|| {
    let mut classes: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
    for unit in 0..=u16::MAX {
        classes.entry(canonical(unit)).or_default().push(unit);
    }
    let several = classes.into_values().filter(|class| class.len() > 1);
    several.flat_map(|class| class.clone().into_iter().map(move |unit| (unit, class.clone()))).collect()
});

/// Returns the unit as JavaScript compares it where case is ignored: in upper case, if that is one unit, and not ASCII for what is
/// not ASCII.
fn canonical(unit: u16) -> u16 {
    let Some(c) = char::from_u32(unit.into()) else { return unit };
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) if c.is_ascii() || !upper.is_ascii() => {
            u16::try_from(u32::from(upper)).unwrap_or(unit)
        }
        (_, _) => unit,
    }
}

impl Units {
    /// Returns the set with all that differs from its members in case alone.
    pub(super) fn in_any_case(&self) -> Self {
        let mut all = self.clone();
        for (from, to) in self.ranges() {
            for unit in EQUAL.range(from..=to).flat_map(|(_, equal)| equal) {
                all.add(*unit, *unit);
            }
        }
        all
    }
}

fn write_node(node: &Node, out: &mut String) {
    match node {
        Node::Set(units) => write_set(units, out),
        Node::Assertion(assertion) => out.push_str(match assertion {
            Assertion::Start => "^",
            Assertion::End => "$",
            Assertion::WordBoundary => r"\b",
            Assertion::NoWordBoundary => r"\B",
        }),
        Node::Sequence(nodes) => {
            for node in nodes {
                // A group without parentheses of its own would join what stands beside it.
                if let Node::Either(_) = node {
                    write_group("(?:", node, out);
                } else {
                    write_node(node, out);
                }
            }
        }
        Node::Either(branches) => {
            for (index, branch) in branches.iter().enumerate() {
                if index > 0 {
                    out.push('|');
                }
                write_node(branch, out);
            }
        }
        Node::Capture(body) => write_group("(", body, out),
        Node::Repeat { body, min, max, greed } => {
            match **body {
                Node::Set(_) | Node::Capture(_) | Node::Look { .. } => write_node(body, out),
                Node::Assertion(_)
                | Node::Sequence(_)
                | Node::Either(_)
                | Node::Repeat { .. }
                | Node::Reference(_) => write_group("(?:", body, out),
            }
            match (min, max) {
                (0, None) => out.push('*'),
                (1, None) => out.push('+'),
                (0, Some(1)) => out.push('?'),
                (min, None) => put(out, format_args!("{{{min},}}")),
                (min, Some(max)) if min == max => put(out, format_args!("{{{min}}}")),
                (min, Some(max)) => put(out, format_args!("{{{min},{max}}}")),
            }
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
        Node::Reference(numbers) => numbers.iter().for_each(|number| put(out, format_args!("\\{number}"))),
    }
}

fn write_group(start: &str, body: &Node, out: &mut String) {
    out.push_str(start);
    write_node(body, out);
    out.push(')');
}

/// Writes a set as shortly as it can be said.
fn write_set(units: &Units, out: &mut String) {
    let ranges = units.ranges();
    if let [(from, to)] = ranges[..]
        && from == to
    {
        return write_unit(from, SYNTAX, out);
    }
    let known = [
        (".", Units::line_end().complement()),
        (r"\d", Units::digit()),
        (r"\D", Units::digit().complement()),
        (r"\w", Units::word()),
        (r"\W", Units::word().complement()),
        (r"\s", Units::space()),
        (r"\S", Units::space().complement()),
    ];
    if let Some((name, _)) = known.iter().find(|(_, set)| set.ranges() == ranges) {
        return out.push_str(name);
    }
    let class = |start: &str, units: &Units| {
        let mut class = start.to_owned();
        for (from, to) in units.ranges() {
            write_unit(from, CLASS_SYNTAX, &mut class);
            if to > from {
                if to > from + 1 {
                    class.push('-');
                }
                write_unit(to, CLASS_SYNTAX, &mut class);
            }
        }
        class.push(']');
        class
    };
    let (plain, negated) = (class("[", units), class("[^", &units.complement()));
    out.push_str(if negated.len() < plain.len() { &negated } else { &plain });
}

/// What means something outside of a class, and inside of one.
const SYNTAX: &str = r"\^$.*+?()[]{}|/";
const CLASS_SYNTAX: &str = r"\]^-";

/// Writes a unit so that it stands for itself where `syntax` has a meaning.
fn write_unit(unit: u16, syntax: &str, out: &mut String) {
    match char::from_u32(unit.into()) {
        Some(c) if syntax.contains(c) => {
            out.push('\\');
            out.push(c);
        }
        Some(c) if c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric() => out.push(c),
        Some(_) | None => put(out, format_args!("\\u{unit:04x}")),
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let written = out.write_fmt(text);
    debug_assert!(written.is_ok(), "writing into a string never fails");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, text: &str) -> bool {
        let written = ignoring_case(pattern).unwrap_or_else(|error| panic!("{pattern:?}: {error}"));
        Pattern::compile(&written).unwrap().test(text).unwrap()
    }

    #[test]
    fn a_trigger_without_case_reads_as_a_person_would_write_it() {
        for (pattern, written) in [
            ("@Andy", r"@[Aa][Nn][Dd][Yy]"),
            ("^(hey|ok) g2\\b", r"^([Hh][Ee][Yy]|[Oo][Kk]) [Gg]2\b"),
            ("(?:a|b)c.*", "(?:[Aa]|[Bb])[Cc].*"),
            ("(?:ab)+?[^c]{2,}", "(?:[Aa][Bb])+?[^Cc]{2,}"),
            ("[а-я]\\d", "[А-я\u{1c80}-\u{1c86}]\\d"),
            (".", "."),
            ("a|", "[Aa]|"),
            (r"(a/b)\.\[c-d\]\{[\]\-^:]", r"([Aa]\/[Bb])\.\[[Cc]-[Dd]\]\{[\-:\]\^]"),
        ] {
            assert_eq!(ignoring_case(pattern).unwrap(), written, "{pattern:?}");
        }
    }

    #[test]
    fn a_pattern_without_case_is_found_where_node_finds_it_with_the_flag() {
        let fixture: super::super::tests::Fixture =
            serde_json::from_str(include_str!("../../../../tests/fixtures/js_regex_i.json")).unwrap();
        for (pattern, answers) in &fixture.patterns {
            let answers = answers.as_ref().expect("each is a pattern to Node");
            for (text, answer) in fixture.texts.iter().zip(answers.chars()) {
                assert_eq!(found(pattern, text), answer == '1', "{pattern:?} in {text:?}");
            }
        }
    }

    #[test]
    fn what_can_not_be_written_without_the_flag_is_refused() {
        assert!(matches!(ignoring_case("(a)\\1"), Err(PatternError::Unsupported { .. })));
        assert!(matches!(ignoring_case("["), Err(PatternError::Syntax { .. })));
        assert!(matches!(ignoring_case(&"a".repeat(4_000)), Err(PatternError::TooLong { bytes: 16_000 })));
        assert!(matches!(ignoring_case(&"a".repeat(5_000)), Err(PatternError::TooLong { bytes: 5_000 })));
    }

    proptest::proptest! {
        #[test]
        fn writing_a_pattern_down_again_changes_nothing_more(pattern in super::super::tests::patternish()) {
            if let Ok(once) = ignoring_case(&pattern) {
                let twice = ignoring_case(&once);
                proptest::prop_assert_eq!(twice.as_ref(), Ok(&once));
            }
        }
    }
}
