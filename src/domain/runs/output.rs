//! A run's output in lines for people: its records in words, everything else as it is.

use ipc_handlers::wire::{self, Kind, OUTPUT_END, OUTPUT_START, Record};

use super::used::Used;

/// The markers of v1's runners.
const V1: (&str, &str) = ("---NANOCLAW_OUTPUT_START---", "---NANOCLAW_OUTPUT_END---");

/// Turns output into lines, piece by piece.
#[derive(Default)]
pub struct Lines {
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    inside: bool,
}

impl Lines {
    /// Takes a piece of output, and returns the lines for people that are whole by now.
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.rest.extend_from_slice(bytes);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        let text = String::from_utf8_lossy(&whole).into_owned();
        text.lines().filter_map(|line| self.line(line)).collect()
    }

    /// Returns what is left at the end.
    #[must_use]
    pub fn last(mut self) -> Option<String> {
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned();
        (!rest.is_empty()).then(|| self.line(&rest)).flatten()
    }

    fn line(&mut self, line: &str) -> Option<String> {
        match line.trim_end() {
            OUTPUT_START => self.inside = true,
            OUTPUT_END => self.inside = false,
            marker if marker == V1.0 => self.inside = true,
            marker if marker == V1.1 => self.inside = false,
            other if self.inside => {
                return Some(
                    serde_json::from_str(other).map_or_else(|_| other.to_owned(), |record| told(&record)),
                );
            }
            other => return Some(other.to_owned()),
        }
        None
    }
}

/// Tells a record in words.
fn told(record: &Record) -> String {
    let n = record.seq.map_or_else(String::new, |n| format!("#{n} "));
    let text = record.result.as_deref().unwrap_or_default();
    if record.status == wire::Status::Error {
        return format!("{n}failed: {}", record.error.as_deref().unwrap_or("no reason given"));
    }
    if record.kind == Kind::Progress
        && let Some((used, _)) = Used::of(record)
    {
        let begins = if used.end.is_none() { "uses " } else { "" };
        return format!("{n}{begins}{}", used.in_words());
    }
    let what = match record.kind {
        Kind::Ready => "is ready".to_owned(),
        Kind::Progress => format!("is at work {text}"),
        Kind::SoFar => format!("says so far: {text}"),
        Kind::Deferred => "goes on in the background".to_owned(),
        Kind::BlockedTool => format!("ran a tool that is blocked: {text}"),
        Kind::Result if text.is_empty() => "has finished, and says nothing".to_owned(),
        Kind::Result => format!("says: {text}"),
    };
    format!("{n}{}", what.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_told_with_its_argument_as_it_begins_and_with_its_outcome_as_it_ends() {
        let record = |json: &str| format!("{OUTPUT_START}\n{json}\n{OUTPUT_END}\n");
        let output = record(
            r#"{"seq":1,"type":"progress","status":"success","tool":"Bash","toolCall":"a","toolAbout":"ls -la"}"#,
        ) + &record(
            r#"{"seq":2,"type":"progress","status":"success","toolEnd":{"call":"a","tool":"Bash","about":"ls -la","ms":1200}}"#,
        ) + &record(
            r#"{"seq":3,"type":"progress","status":"success","toolEnd":{"call":"b","tool":"Read","about":"CLAUDE.md","failed":true,"ms":3}}"#,
        );
        let told = Lines::default().push(output.as_bytes());
        assert_eq!(
            told,
            ["#1 uses Bash ls -la", "#2 Bash ls -la · ok · 1.2 s", "#3 Read CLAUDE.md · failed · 3 ms"]
        );
    }

    #[test]
    fn records_are_told_in_words_and_what_is_around_them_stays_however_it_is_cut() {
        let output = format!(
            "npm WARN é\n{OUTPUT_START}\n{{\"type\":\"ready\",\"seq\":1,\"status\":\"success\",\"result\":null}}\n{OUTPUT_END}\n\
             {}\n{{\"status\":\"success\",\"result\":\"hi\\nyou\"}}\n{}\n{OUTPUT_START}\n{{\"seq\":2,\"type\":\"progress\",\"status\":\"success\",\"result\":null,\"tool\":\"Bash\"}}\n{OUTPUT_END}\n{OUTPUT_START}\n{{\"seq\":3,\"status\":\"error\",\"result\":null,\"error\":\"no\"}}\n{OUTPUT_END}\nhalf",
            V1.0, V1.1
        );
        let expected =
            ["npm WARN é", "#1 is ready", "says: hi\nyou", "#2 uses Bash", "#3 failed: no", "half"];
        for size in [1, 7, 1000] {
            let mut lines = Lines::default();
            let mut told: Vec<String> =
                output.as_bytes().chunks(size).flat_map(|piece| lines.push(piece)).collect();
            told.extend(lines.last());
            assert_eq!(told, expected, "{size}");
        }
    }
}
