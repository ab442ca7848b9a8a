use proptest::{collection::vec, prelude::*};

use super::*;

const STREAM: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-x\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":25,\"cache_creation_input_tokens\":7,\"cache_read_input_tokens\":1000,\"cache_creation\":{\"ephemeral_5m_input_tokens\":9},\"output_tokens\":1,\"service_tier\":\"standard\"}}}\n\n\
event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
event: ping\ndata: {\"type\": \"ping\"}\n\n\
event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"é€😀 \\\"usage\\\":{\\\"output_tokens\\\":9999}\"}}\n\n\
event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":15}}\n\n\
event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

const DOCUMENT: &str = r#"{"model":"claude-y","id":"msg_2","type":"message","role":"assistant",
 "content":[{"type":"text","text":"{\"usage\":{\"input_tokens\":5}}"},
            {"type":"tool_use","id":"t","name":"Bash","input":{"usage":{"input_tokens":77},"model":"spoof"}}],
 "stop_reason":"end_turn","usage":{"input_tokens":2095,"cache_creation_input_tokens":null,"output_tokens":503}}"#;

fn read(form: Form, pieces: &[&[u8]]) -> Usage {
    let mut meter = Meter::new(form);
    pieces.iter().for_each(|piece| meter.push(piece));
    meter.usage().clone()
}

fn used(model: &str, [input, cache_creation, cache_read, output]: [u64; 4]) -> Usage {
    Usage { model: model.into(), tokens: Tokens { input, cache_creation, cache_read, output } }
}

#[test]
fn a_stream_tells_its_start_and_its_last_count() {
    assert_eq!(read(Form::Events, &[STREAM.as_bytes()]), used("claude-x", [25, 7, 1000, 15]));
}

#[test]
fn lines_may_end_in_any_of_three_ways() {
    for end in ["\r\n", "\r"] {
        let stream = STREAM.replace('\n', end);
        assert_eq!(read(Form::Events, &[stream.as_bytes()]), used("claude-x", [25, 7, 1000, 15]), "{end:?}");
    }
}

#[test]
fn data_may_be_spread_over_lines_and_an_event_that_breaks_off_spoils_no_other() {
    let stream = "data: {\"usage\":\ndata:{\"output_tokens\":3}}\n\ndata: {\"usage\":{\"x\":[\"\n\n: note\ndata: {\"usage\":{\"input_tokens\":4}}\n\n";
    assert_eq!(read(Form::Events, &[stream.as_bytes()]), used("", [4, 0, 0, 3]));
}

#[test]
fn a_document_tells_its_usage_and_what_the_model_wrote_is_none() {
    assert_eq!(read(Form::Document, &[DOCUMENT.as_bytes()]), used("claude-y", [2095, 0, 0, 503]));
}

#[test]
fn a_stream_that_breaks_off_has_used_what_it_said_so_far() {
    let cut = STREAM.find("event: message_delta").unwrap();
    assert_eq!(read(Form::Events, &[&STREAM.as_bytes()[..cut]]), used("claude-x", [25, 7, 1000, 1]));
}

#[test]
fn counting_tokens_uses_none_and_figures_out_of_range_are_left_out() {
    for text in [
        r#"{"input_tokens":2095}"#,
        r#"{"usage":{"input_tokens":-1,"output_tokens":1e9,"cache_read_input_tokens":99999999999999}}"#,
        r#"[{"usage":{"input_tokens":1}}]"#,
        r#"{"usage":[{"input_tokens":1}]}"#,
    ] {
        assert_eq!(read(Form::Document, &[text.as_bytes()]), Usage::default(), "{text}");
    }
}

#[test]
fn a_million_brackets_and_a_long_key_cost_nothing() {
    let deep = "[".repeat(1 << 20);
    let long = format!("{{\"{}\":1,\"usage\":{{\"output_tokens\":2}}}}", "k".repeat(1 << 20));
    assert_eq!(read(Form::Document, &[deep.as_bytes()]), Usage::default());
    assert_eq!(read(Form::Document, &[long.as_bytes()]), used("", [0, 0, 0, 2]));
}

#[test]
fn the_form_is_told_by_the_type_of_the_content() {
    assert_eq!(Form::of("text/event-stream; charset=utf-8"), Form::Events);
    assert_eq!(Form::of("Application/JSON"), Form::Document);
    assert_eq!(Form::of("text/html"), Form::Other);
}

proptest! {
    #[test]
    fn pieces_may_end_anywhere(cuts in vec(0..STREAM.len().max(DOCUMENT.len()), 0..40)) {
        for (form, text) in [(Form::Events, STREAM), (Form::Document, DOCUMENT)] {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % text.len()).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|ends| &text.as_bytes()[ends[0]..ends[1]]).collect();
            prop_assert_eq!(read(form, &pieces), read(form, &[text.as_bytes()]));
        }
    }

    #[test]
    fn any_bytes_are_survived_and_spoil_no_later_event(bytes in vec(any::<u8>(), 0..300)) {
        read(Form::Document, &[&bytes]);
        let usage = read(Form::Events, &[&bytes, b"\n\ndata: {\"usage\":{\"output_tokens\":41}}\n\n"]);
        prop_assert_eq!(usage.tokens.output, 41);
    }

    #[test]
    fn figures_are_those_of_a_whole_parser(figures in any::<[Option<u32>; 4]>(), pad in "[ \\n]{0,3}", text in ".{0,40}") {
        let names = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
        let usage: serde_json::Map<String, serde_json::Value> =
            names.iter().zip(figures).map(|(name, figure)| ((*name).to_owned(), figure.into())).collect();
        let document = serde_json::json!({"content": [{"text": text, "usage": {"output_tokens": 1}}], "note": text, "usage": usage});
        let bytes = format!("{pad}{document}{pad}");
        let expected = figures.map(|figure| u64::from(figure.unwrap_or(0)));
        prop_assert_eq!(read(Form::Document, &[bytes.as_bytes()]), used("", expected));
    }
}
