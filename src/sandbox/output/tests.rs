use proptest::prelude::*;

use super::*;

fn parse(chunks: &[&[u8]]) -> Vec<Parsed> {
    let mut parser = Parser::new();
    let mut out = Vec::new();
    for chunk in chunks {
        parser.push(chunk, &mut out);
    }
    assert_eq!(
        parser.looked,
        chunks.iter().map(|c| c.len() as u64).sum::<u64>(),
        "each byte is looked at once"
    );
    out.extend(parser.end());
    out
}

fn results(parsed: &[Parsed]) -> Vec<&str> {
    parsed
        .iter()
        .filter_map(|parsed| match parsed {
            Parsed::Record(record) => record.result.as_deref(),
            Parsed::Garbage { .. } => None,
        })
        .collect()
}

fn reasons(parsed: &[Parsed]) -> Vec<&Reason> {
    parsed
        .iter()
        .filter_map(|parsed| match parsed {
            Parsed::Garbage { reason, .. } => Some(reason),
            Parsed::Record(_) => None,
        })
        .collect()
}

fn ours(text: &str) -> String {
    let json = serde_json::json!({"status": "success", "result": text});
    format!("---G2_OUTPUT_START---\n{json}\n---G2_OUTPUT_END---\n")
}

fn v1(text: &str) -> String {
    ours(text).replace("---G2_", "---NANOCLAW_")
}

#[test]
fn records_of_both_families_are_read_and_other_text_is_not_our_business() {
    let bytes = format!("hello\n{}noise --- here\n\n{}bye", ours("one"), v1("two"));
    let parsed = parse(&[bytes.as_bytes()]);
    assert_eq!(results(&parsed), ["one", "two"]);
    assert_eq!(parsed.len(), 2);
}

#[test]
fn markers_count_when_they_are_glued_behind_other_text() {
    let json = r#"{"status":"success","result":"x"}"#;
    for bytes in [
        format!("loading…{}", ours("x")),
        format!("---{}", ours("x")),
        format!("---G2_OUTPUT_START-{}", ours("x")),
        format!("---G2_OUTPUT_START---{json}---G2_OUTPUT_END---"),
        format!("a---NANOCLAW_OUTPUT_START---\r\n{json}---NANOCLAW_OUTPUT_END---b"),
        ours("x").replace('\n', "\r\n"),
        ours("x").replace(',', ",\n  "),
    ] {
        assert_eq!(results(&parse(&[bytes.as_bytes()])), ["x"], "{bytes}");
    }
}

#[test]
fn an_agent_may_speak_of_markers() {
    for text in [
        "---G2_OUTPUT_END---",
        "it prints ---G2_OUTPUT_START---\n{}\n---G2_OUTPUT_END---\n, see?",
        "\"---NANOCLAW_OUTPUT_END---\"",
        "\\---G2_OUTPUT_END---\\",
    ] {
        let parsed = parse(&[ours(text).as_bytes(), v1(text).as_bytes()]);
        assert_eq!(parsed.len(), 2, "{parsed:?}");
        assert_eq!(results(&parsed), [text, &text.replace("---G2_", "---NANOCLAW_")]);
    }
}

#[test]
fn what_is_broken_is_reported_with_a_sample_and_reading_goes_on() {
    let bad = "---G2_OUTPUT_START---\n{nope\n---G2_OUTPUT_END---\n";
    let open = "---G2_OUTPUT_START---\n{\"status\":\"succ";
    let stray = "---NANOCLAW_OUTPUT_END---\n";
    let parsed = parse(&[format!("{bad}{open}{}{stray}{}{open}", ours("a"), v1("b")).as_bytes()]);
    assert_eq!(results(&parsed), ["a", "b"]);
    let [Reason::Unreadable(_), Reason::Restarted, Reason::NoStart, Reason::CutOff] = reasons(&parsed)[..]
    else {
        panic!("{parsed:?}")
    };
    assert!(matches!(&parsed[0], Parsed::Garbage { sample, .. } if sample == "{nope"));
    assert!(
        matches!(&parsed[1], Parsed::Garbage { sample, .. } if sample == "{\"status\":\"succ"),
        "{parsed:?}"
    );
}

#[test]
fn a_record_ends_with_the_family_that_it_began_with() {
    let mixed =
        "---G2_OUTPUT_START---\n{\"status\":\"success\"\n---NANOCLAW_OUTPUT_END---\n}\n---G2_OUTPUT_END---\n";
    let parsed = parse(&[mixed.as_bytes(), ours("next").as_bytes()]);
    assert!(matches!(reasons(&parsed)[..], [Reason::Unreadable(_)]));
    assert_eq!(results(&parsed), ["next"]);
}

#[test]
fn a_record_above_the_bound_is_dropped_once_and_memory_stays_bounded() {
    let mut parser = Parser::new();
    let mut out = Vec::new();
    parser.push(b"---G2_OUTPUT_START---\n\"", &mut out);
    for _ in 0..24 {
        parser.push(&vec![b'x'; 1 << 20], &mut out);
        if let Position::Inside { body, .. } = &parser.place {
            assert!(body.len() <= MAX_RECORD + (1 << 10));
        }
    }
    parser.push(b"\"\n---G2_OUTPUT_END---\n", &mut out);
    parser.push(ours("next").as_bytes(), &mut out);
    assert_eq!(reasons(&out), [&Reason::TooLarge]);
    assert_eq!(results(&out), ["next"]);
}

#[test]
fn a_record_at_the_bound_is_read() {
    let text =
        "x".repeat(MAX_RECORD - serde_json::json!({"status": "success", "result": ""}).to_string().len());
    assert_eq!(results(&parse(&[ours(&text).as_bytes()])), [text.as_str()]);
    let parsed = parse(&[ours(&format!("{text}x")).as_bytes()]);
    assert_eq!(reasons(&parsed), [&Reason::TooLarge]);
}

#[test]
fn a_sample_is_bounded_and_text() {
    let mut bytes = b"---G2_OUTPUT_START---\n\xff".to_vec();
    bytes.extend("€".repeat(10_000).into_bytes());
    bytes.extend(b"\n---G2_OUTPUT_END---");
    let [Parsed::Garbage { sample, .. }] = &parse(&[&bytes])[..] else { panic!() };
    assert_eq!(sample.chars().count(), MAX_SAMPLE);
}

/// Pieces that make trouble: markers, parts of them, quotes, line ends, bytes that are no text.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"---G2_OUTPUT_START---".to_vec()),
        Just(b"---NANOCLAW_OUTPUT_START---\n".to_vec()),
        Just(b"---G2_OUTPUT_END---".to_vec()),
        Just(b"---NANOCLAW_OUTPUT_END---\n".to_vec()),
        Just(b"---G2_OUTPUT_STA".to_vec()),
        Just(b"{\"status\":\"success\",\"result\":\"".to_vec()),
        Just(b"-".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"\\".to_vec()),
        Just(b"\n".to_vec()),
        Just("é😀".as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..8),
        "[a-z{}\" ]{0,12}".prop_map(String::into_bytes),
        "[a-z\"\\\\\n-]{0,8}".prop_map(|text| ours(&text).into_bytes()),
        "[a-z\"\\\\\n-]{0,8}".prop_map(|text| v1(&text).into_bytes()),
    ]
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(piece(), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_yields_the_same(bytes in stream(), mut cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let mut at: Vec<usize> = cuts.drain(..).map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let whole = parse(&[&bytes]);
        prop_assert_eq!(&parse(&chunks), &whole);
        prop_assert_eq!(&parse(&single), &whole);
    }

    #[test]
    fn garbage_never_costs_a_good_record(parts in proptest::collection::vec((stream(), "[ -~\n]{0,30}"), 1..6)) {
        let mut bytes = Vec::new();
        for (n, (noise, text)) in parts.iter().enumerate() {
            bytes.extend(noise);
            bytes.extend(ours(&format!("good {n} {text}")).into_bytes());
        }
        let parsed = parse(&[&bytes]);
        let results = results(&parsed);
        for (n, (_, text)) in parts.iter().enumerate() {
            let good = format!("good {n} {text}");
            prop_assert!(results.contains(&good.as_str()), "{} is lost", good);
        }
    }
}
