//! Words that would call everybody, and the character that stops them.

/// Has no width, and is no letter: a mention or a mark that it stands in is none.
pub(crate) const BREAK: char = '\u{200b}';

/// What calls everybody, on one platform or another.
const CALLS: [&str; 4] = ["everyone", "here", "channel", "room"];

/// Returns where a [`BREAK`] has to stand in `text`, so that it calls nobody: behind each `@` of a call.
pub(crate) fn calls(text: &str) -> Vec<usize> {
    let is_call = |at: &usize| {
        let rest = &text[*at..];
        let by_name = CALLS
            .iter()
            .any(|word| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)));
        // Discord's `<@1>`, `<@!1>`, `<@&1>`.
        let by_id = text[..*at].ends_with("<@")
            && rest.trim_start_matches(['!', '&']).starts_with(|c: char| c.is_ascii_digit());
        by_name || by_id
    };
    text.match_indices('@').map(|(at, _)| at + 1).filter(is_call).collect()
}
