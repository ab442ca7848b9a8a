//! What prompts look like: the task prefix, and the way back from v1's XML to what somebody wrote.

use std::borrow::Cow;

use serde_json::Value;

/// What a scheduled prompt opens with.
pub(crate) const TASK_PREFIX: &str = "[SCHEDULED TASK - The following message was sent automatically and is not coming directly from the user or group.]\n\n";
const SCRIPTED_TASK_PREFIX: &str = "[SCHEDULED TASK]\n\n";

/// Returns a scheduled prompt as the agent is to see it.
pub(crate) fn of_task(prompt: &str) -> String {
    format!("{TASK_PREFIX}{prompt}")
}

/// Returns a scheduled prompt whose script has found something for the agent to do.
pub(crate) fn of_task_with_data(prompt: &str, data: Option<&Value>) -> String {
    // `undefined` is what v1 prints for absent data.
    let data = data.map_or_else(|| "undefined".to_owned(), |data| format!("{data:#}"));
    format!("{SCRIPTED_TASK_PREFIX}Script output:\n{data}\n\nInstructions:\n{prompt}")
}

/// Returns the content of the last message in a prompt, unescaped: without what it answers or edits, and of a forward both parts. Of a prompt without messages all but the task
/// prefix.
pub(crate) fn last_message(prompt: &str) -> Cow<'_, str> {
    if let Some(content) = last_content(prompt) {
        let (forwarded, comment) = forwarded(content);
        return match forwarded {
            Some(text) if comment.is_empty() => unescape(text),
            Some(text) => Cow::Owned(format!("{}\n{}", unescape(text), unescape(comment))),
            None => unescape(comment),
        };
    }
    let rest = prompt.strip_prefix(TASK_PREFIX).or_else(|| prompt.strip_prefix(SCRIPTED_TASK_PREFIX));
    Cow::Borrowed(rest.unwrap_or(prompt))
}

/// What people write is escaped, so these tags can only be ours.
fn last_content(prompt: &str) -> Option<&str> {
    let message = &prompt[prompt.rfind("<message ")?..];
    let (_attributes, body) = message.split_once('>')?;
    let (body, _rest) = body.split_once("</message>")?;
    let without = |body, begins: &str, end: &str| match str::trim_start(body).starts_with(begins) {
        true => body.split_once(end).map_or(body, |(_element, content)| content),
        false => body,
    };
    let body = without(body, "<quoted_message ", "</quoted_message>");
    Some(without(body, "<edited_message>", "</edited_message>"))
}

/// Divides a content into forwarded words, if there are any, and those of the sender.
fn forwarded(content: &str) -> (Option<&str>, &str) {
    let forwarded = content.trim_start().strip_prefix("<forwarded_message>");
    match forwarded.and_then(|rest| rest.split_once("</forwarded_message>")) {
        Some((text, comment)) => (Some(text), comment),
        None => (None, content),
    }
}

fn unescape(text: &str) -> Cow<'_, str> {
    const ENTITIES: [(&str, char); 4] = [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"')];
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let (length, c) = ENTITIES
            .iter()
            .find(|(entity, _)| rest.starts_with(entity))
            .map_or((1, '&'), |(entity, c)| (entity.len(), *c));
        plain.push(c);
        rest = &rest[length..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(prompt: &str, text: &str) {
        assert_eq!(last_message(prompt), text, "{prompt}");
    }

    fn escape(text: &str) -> String {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
    }

    #[test]
    fn the_text_is_the_content_of_the_last_message() {
        let header = "<context timezone=\"UTC\" />\n<messages>\n";
        let one = "<message sender=\"Alice\" time=\"Jan 1, 2024, 12:00 PM\">hello</message>";
        let two = "<message sender=\"A &amp; B &lt;Co&gt;\" time=\"Jan 1, 2024, 1:00 PM\">it's &lt;b&gt; &amp;amp; &quot;x&quot;</message>";
        check(&format!("{header}{one}\n</messages>"), "hello");
        check(&format!("{header}{one}\n{two}\n</messages>"), "it's <b> &amp; \"x\"");
        check(&format!("{header}{two}\n{one}\n</messages>"), "hello");
        check(&format!("{header}{one}\n</messages>\n3 more were left out"), "hello");
    }

    #[test]
    fn a_quoted_message_is_not_part_of_the_text() {
        check(
            "<messages>\n<message sender=\"A\" time=\"t\" reply_to=\"42\">\n  <quoted_message from=\"Bob\">Are you?</quoted_message>Yes!\nSoon.</message>\n</messages>",
            "Yes!\nSoon.",
        );
        check(
            "<messages>\n<message sender=\"A\" time=\"t\" reply_to=\"42\">Yes</message>\n</messages>",
            "Yes",
        );
        check(
            "<messages>\n<message sender=\"A\" time=\"t\">&lt;quoted_message x&gt;</message>\n</messages>",
            "<quoted_message x>",
        );
    }

    #[test]
    fn replaced_words_are_not_part_of_the_text_and_forwarded_ones_are() {
        let of = |body: &str| {
            format!("<messages>\n<message sender=\"A\" time=\"t\">{body}</message>\n</messages>")
        };
        check(&of("\n  <edited_message>at nine</edited_message>at ten"), "at ten");
        let both = "\n  <quoted_message from=\"B\">when?</quoted_message>\n  <edited_message>at nine</edited_message>at ten";
        check(&of(both), "at ten");
        check(&of("\n  <forwarded_message>1 &lt; 2</forwarded_message>"), "1 < 2");
        check(&of("\n  <forwarded_message>1 &lt; 2</forwarded_message>is it?"), "1 < 2\nis it?");
        check(&of("&lt;forwarded_message&gt;x"), "<forwarded_message>x");
    }

    #[test]
    fn a_prompt_without_messages_is_its_own_text() {
        check("plain & simple", "plain & simple");
        check("", "");
        check("<messages>\n\n</messages>", "<messages>\n\n</messages>");
        check(&of_task("water the plants"), "water the plants");
        check(&of_task_with_data("go", None), "Script output:\nundefined\n\nInstructions:\ngo");
        check("<message never closed", "<message never closed");
    }

    #[test]
    fn what_a_task_script_found_is_shown_before_the_instructions() {
        assert_eq!(
            of_task_with_data("go", Some(&json!({"a": [1]}))),
            "[SCHEDULED TASK]\n\nScript output:\n{\n  \"a\": [\n    1\n  ]\n}\n\nInstructions:\ngo"
        );
    }

    proptest! {
        #[test]
        fn every_content_comes_back(content in "(?s).*", other in "(?s).*") {
            let prompt = format!(
                "<messages>\n<message sender=\"{o}\" time=\"t\">{o}</message>\n<message sender=\"{o}\" time=\"t\">{c}</message>\n</messages>",
                o = escape(&other), c = escape(&content),
            );
            prop_assert_eq!(last_message(&prompt), content);
        }
    }
}
