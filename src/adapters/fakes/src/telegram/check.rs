//! What Telegram refuses in a text: lengths in UTF-16, entities beyond the text, inside a character or across each other.

use serde_json::Value;

use super::{No, bad};

/// Reads a text with its entities, and refuses what Telegram would, or would silently change.
pub(crate) fn text(text: &str, entities: &Value, most: usize, what: &str) -> Result<Vec<Value>, No> {
    let units: Vec<u16> = text.encode_utf16().collect();
    if units.len() > most {
        return bad(format_args!("{what} is too long"));
    }
    let Value::Array(entities) = entities else { return Ok(Vec::new()) };
    if entities.len() > 100 {
        return bad("more than 100 entities, of which Telegram would drop some");
    }
    let mut spans = Vec::new();
    for entity in entities {
        let place =
            |name: &str| entity.get(name).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let (Some(at), Some(len)) = (place("offset"), place("length")) else {
            return bad("can't parse MessageEntity: offset and length are numbers");
        };
        let Some(end) = at.checked_add(len).filter(|end| len > 0 && *end <= units.len()) else {
            return bad(format_args!("entity at {at} with {len} units is not within the text"));
        };
        for edge in [at, end] {
            if edge < units.len() && (0xDC00..0xE000).contains(&units[edge]) {
                return bad(format_args!("entity begins or ends in a middle of a UTF-16 symbol at {edge}"));
            }
        }
        let kind = entity.get("type").and_then(Value::as_str).unwrap_or_default();
        let needs = match kind {
            "bold"
            | "italic"
            | "underline"
            | "strikethrough"
            | "spoiler"
            | "code"
            | "pre"
            | "blockquote"
            | "expandable_blockquote"
            | "mention"
            | "hashtag"
            | "cashtag"
            | "bot_command"
            | "url"
            | "email"
            | "phone_number" => None,
            "text_link" => Some("url"),
            "text_mention" => Some("user"),
            "custom_emoji" => Some("custom_emoji_id"),
            _ => return bad(format_args!("can't parse MessageEntity: type {kind:?} is unknown")),
        };
        if let Some(field) = needs
            && entity.get(field).is_none()
        {
            return bad(format_args!("can't parse MessageEntity: {kind} without {field}"));
        }
        spans.push((at, end, kind));
    }
    for (n, (at, end, kind)) in spans.iter().enumerate() {
        for (other_at, other_end, other) in &spans[n + 1..] {
            let apart = end <= other_at || other_end <= at;
            let nested = (at <= other_at && other_end <= end) || (other_at <= at && end <= other_end);
            if !apart && !nested {
                return bad(format_args!("entities {kind} and {other} overlap"));
            }
            let (alone, quote) = (["code", "pre"], "blockquote");
            let quoted = (*kind == quote) != (*other == quote);
            if !apart && !quoted && (alone.contains(kind) || alone.contains(other)) {
                return bad(format_args!("{kind} and {other} can't be nested"));
            }
            if !apart && *kind == quote && *other == quote {
                return bad("a blockquote can't hold another one");
            }
        }
    }
    Ok(entities.clone())
}

/// Reads rows of buttons below a text.
pub(crate) fn keyboard(markup: &Value) -> Result<(), No> {
    let Some(rows) = markup.get("inline_keyboard").and_then(Value::as_array) else { return Ok(()) };
    let rows: Vec<&Vec<Value>> = rows.iter().filter_map(Value::as_array).collect();
    if rows.iter().any(|row| row.len() > 8) || rows.iter().map(|row| row.len()).sum::<usize>() > 100 {
        return bad("reply markup is too long");
    }
    for button in rows.into_iter().flatten() {
        let text = |name: &str| button.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("text").is_empty() {
            return bad("text buttons are unallowed in the inline keyboard");
        }
        if text("url").is_empty() && !(1..=64).contains(&text("callback_data").len()) {
            return bad("BUTTON_DATA_INVALID");
        }
    }
    Ok(())
}
