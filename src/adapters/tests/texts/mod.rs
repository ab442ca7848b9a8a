//! What agents write, as the daemon gives it to an adapter.

use channel_protocol::{Format, TextLimit, Unit};
use serde_json::{Value, json};

/// A text that means harm, and a table.
pub(crate) const HOSTILE: &str = "# Plan\n\n@everyone @room @here <@100> **bold `code @everyone` *both*** ||psst||\n\n\
    | part | price |\n|---|---|\n| bolt | 3 |\n| nut @everyone | 12 |\n\n\
    ```rust\nlet a = \"@everyone\"; // ``\n```\n\n> quoted\n\n\
    <img src=x onerror=1> </code></pre> [site](https://a.example/?a=1&b=2) [](javascript:x) _un*closed ~~too || `far \\* 😀";

/// The fields of a `send` for each part.
pub(crate) fn sends(text: &str, max: usize, unit: Unit, format: Format) -> Vec<Value> {
    let limit = TextLimit { max, unit, format };
    let parts = g2_text::parts(text, limit.format, limit.max, limit.unit).into_iter();
    parts.map(|part| json!({"text": part.text, "spans": part.spans, "html": part.html})).collect()
}
