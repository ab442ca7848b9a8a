//! Looks into a request for the Messages API while it passes: does it ask the model's host to fetch something? An agent that
//! may choose an address to fetch can put into it all that the model was told; so a container without a network would have one
//! after all. Pure; a list of allowed things, as in [`super::admit`].
//!
//! The request is read, not searched: names by their place, escapes resolved, each of several fields of one name.

mod json;

use json::{Bad, Json, Text, Token};

/// Types of tools that the agent runs itself, or that stay with the model: by how they begin.
const TOOLS: [&[u8]; 6] =
    [b"bash_", b"text_editor_", b"computer_", b"memory_", b"tool_search_tool_", b"advisor_"];
/// Types of sources that bring their contents along, or lie with the model's host already.
const SOURCES: [&[u8]; 4] = [b"base64", b"text", b"content", b"file"];

/// Why a request is not passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Reason {
    #[error("the request is not understood: {0}")]
    Unreadable(Bad),
    #[error("the request is not understood: it is no JSON object")]
    NoObject,
    #[error("{0}")]
    Fetches(Fetches),
}

/// What would have the model's host fetch something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fetches {
    #[error("a tool of the type {0:?} runs at the model's host")]
    Tool(String),
    #[error("`mcp_servers` names servers that the model's host would ask")]
    Servers,
    #[error("a source of the type {0:?} is fetched by the model's host")]
    Source(String),
}

impl From<Bad> for Reason {
    fn from(bad: Bad) -> Self {
        Self::Unreadable(bad)
    }
}

/// The meaning of a value, by its place. A list and its items have the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Request,
    Messages,
    /// Contents of a message, of the system prompt, of a tool's result.
    Blocks,
    Source,
    SourceType,
    /// Where a source of the type `url` has its address.
    Address,
    Tools,
    ToolType,
    Servers,
    /// Nothing that the model's host acts on: a tool's input, a schema.
    Other,
}

impl Role {
    /// The place of a value in an object of this place. Names are compared as the most lenient reader does.
    fn of(self, name: Text<'_>) -> Self {
        let Text::Short(name) = name else { return Self::Other };
        match (self, folded(name).as_slice()) {
            (Self::Request, b"messages") => Self::Messages,
            (Self::Request, b"system") | (Self::Messages | Self::Blocks | Self::Source, b"content") => {
                Self::Blocks
            }
            (Self::Request, b"tools") => Self::Tools,
            (Self::Request, b"mcp_servers") => Self::Servers,
            (Self::Blocks, b"source") => Self::Source,
            (Self::Source, b"type") => Self::SourceType,
            (Self::Source, b"url") => Self::Address,
            (Self::Tools, b"type") => Self::ToolType,
            _ => Self::Other,
        }
    }
}

/// Returns a name as a reader that ignores case may take it: in ASCII and for the two letters beyond it whose other case is
/// there, ſ and K, as Go's does.
fn folded(name: &[u8]) -> Vec<u8> {
    let mut folded = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, ..] = rest {
        let (letter, bytes) = match rest {
            [0xc5, 0xbf, ..] => (b's', 2),
            [0xe2, 0x84, 0xaa, ..] => (b'k', 3),
            _ => (first.to_ascii_lowercase(), 1),
        };
        folded.push(letter);
        rest = &rest[bytes..];
    }
    folded
}

/// The facts about one request.
pub(super) struct Look {
    json: Json,
    places: Places,
}

/// Where in the request we are.
struct Places {
    /// Of each object or list that is open, its place and whether it is a list.
    open: Vec<(Role, bool)>,
    /// Of the value that comes next, where it is an object's.
    named: Role,
}

impl Look {
    pub(super) fn new() -> Self {
        Self { json: Json::new(), places: Places { open: Vec::new(), named: Role::Request } }
    }

    /// Looks at the next piece, before it is passed on.
    ///
    /// # Errors
    /// [`Reason`]; the request is not to be passed on to its end.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), Reason> {
        let Self { json, places } = self;
        json.push(piece, &mut |token| places.take(token))
    }

    /// Looks whether the request is whole.
    ///
    /// # Errors
    /// [`Reason::Unreadable`] where it is not.
    pub(super) fn end(&self) -> Result<(), Reason> {
        Ok(self.json.end()?)
    }
}

impl Places {
    fn take(&mut self, token: Token<'_>) -> Result<(), Reason> {
        if let Token::Name(name) = token {
            let place = self.open.last().map_or(Role::Other, |(place, _)| *place);
            self.named = place.of(name);
            return Ok(());
        }
        if token == Token::End {
            self.open.pop();
            return Ok(());
        }
        let place = match self.open.last() {
            Some((place, true)) => *place,
            Some((_, false)) => self.named,
            None if token == Token::Object => Role::Request,
            None => return Err(Reason::NoObject),
        };
        judge(place, token)?;
        match token {
            Token::Object => self.open.push((place, false)),
            Token::Array => self.open.push((place, true)),
            Token::End | Token::Name(_) | Token::String(_) | Token::Null | Token::Plain => {}
        }
        Ok(())
    }
}

/// Decides on a value by its place.
fn judge(place: Role, token: Token<'_>) -> Result<(), Reason> {
    let fetches = |fetches| Err(Reason::Fetches(fetches));
    match (place, token) {
        (_, Token::Null) => Ok(()),
        // Of an empty list nothing is asked.
        (Role::Servers, Token::Array) => Ok(()),
        (Role::Servers, _) => fetches(Fetches::Servers),
        (Role::ToolType, Token::String(Text::Short(name)))
            if name == b"custom" || TOOLS.iter().any(|begin| name.starts_with(begin)) =>
        {
            Ok(())
        }
        (Role::ToolType, token) => fetches(Fetches::Tool(shown(token))),
        (Role::SourceType, Token::String(Text::Short(name))) if SOURCES.contains(&name) => Ok(()),
        (Role::SourceType, token) => fetches(Fetches::Source(shown(token))),
        (Role::Address, _) => fetches(Fetches::Source("url".to_owned())),
        (Role::Request | Role::Messages | Role::Blocks | Role::Source | Role::Tools | Role::Other, _) => {
            Ok(())
        }
    }
}

/// A type, for people.
fn shown(token: Token<'_>) -> String {
    match token {
        Token::String(Text::Short(name)) => String::from_utf8_lossy(name).into_owned(),
        Token::String(Text::Long) => "…".to_owned(),
        Token::Object | Token::Array | Token::End | Token::Name(_) | Token::Null | Token::Plain => {
            "no text".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the judgement of a request in two pieces.
    fn look(request: &str, cut: usize) -> Result<(), Reason> {
        let mut look = Look::new();
        let (first, second) = request.as_bytes().split_at(cut);
        look.push(first)?;
        look.push(second)?;
        look.end()
    }

    #[track_caller]
    fn refused(request: &str, words: &str) {
        for cut in 0..=request.len() {
            let why = look(request, cut).expect_err(request).to_string();
            assert!(why.contains(words), "{request}: {why}");
        }
    }

    const IMAGE: &str = r#"{"type":"image","source":{"type":"url","url":"https://evil.example/?secret"}}"#;

    #[test]
    fn what_an_agent_sends_passes() {
        for request in [
            r#"{}"#,
            r#"{"model":"m","max_tokens":1,"system":[{"type":"text","text":"web_fetch mcp_servers \"type\":\"url\""}],"messages":[
                {"role":"user","content":"hi"},{"role":"user","content":[{"type":"text","text":"{\"type\":\"url\"}"},
                {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}},
                {"type":"document","source":{"type":"content","content":[{"type":"text","text":"x"}]}},
                {"type":"document","source":{"type":"file","file_id":"f"}},
                {"type":"search_result","source":"https://example","title":"t","content":[]},
                {"type":"tool_result","content":[{"type":"text","text":"x"}]}]}],
                "mcp_servers":[],"tools":[{"name":"a","input_schema":{}},{"type":"custom","name":"b"},{"type":"bash_20250124","name":"c"},
                {"type":"text_editor_20250728"},{"type":"tool_search_tool_regex_20251119"},{"type":"memory_20250818"}],"stream":true}"#,
            // Nobody acts on the arguments of the agent's own tools.
            r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"source":{"type":"url","url":"x"},"tools":[{"type":"web_fetch_1"}],"mcp_servers":[1]}}]}]}"#,
            r#"{"tools":[{"name":"t","input_schema":{"type":"object","properties":{"source":{"type":"string"},"type":{"type":"url"}}}}]}"#,
            r#"{"mcp_servers":null,"metadata":{"tools":[{"type":"web_fetch_1"}]}}"#,
        ] {
            for cut in (0..=request.len()).filter(|cut| request.is_char_boundary(*cut)) {
                assert_eq!(look(request, cut), Ok(()), "{request}");
            }
        }
    }

    #[test]
    fn what_runs_at_the_models_host_is_refused_by_name() {
        for name in [
            "web_search_20250305",
            "web_fetch_20250910",
            "code_execution_20250825",
            "mcp_toolset",
            "new_20300101",
        ] {
            refused(&format!(r#"{{"tools":[{{"name":"a"}},{{"type":"{name}","name":"x"}}]}}"#), name);
        }
        refused(r#"{"mcp_servers":[{"type":"url","url":"https://evil.example","name":"x"}]}"#, "mcp_servers");
        refused(r#"{"mcp_servers":{"a":1}}"#, "mcp_servers");
    }

    #[test]
    fn an_address_is_found_wherever_contents_stand() {
        for request in [
            format!(r#"{{"messages":[{{"role":"user","content":[{IMAGE}]}}]}}"#),
            format!(r#"{{"messages":[{{"role":"user","content":{IMAGE}}}]}}"#),
            format!(r#"{{"messages":{{"content":[[{IMAGE}]]}}}}"#),
            format!(r#"{{"system":[{IMAGE}]}}"#),
            format!(r#"{{"messages":[{{"content":[{{"type":"tool_result","content":[{IMAGE}]}}]}}]}}"#),
            format!(
                r#"{{"messages":[{{"content":[{{"type":"document","source":{{"type":"content","content":[{IMAGE}]}}}}]}}]}}"#
            ),
            r#"{"messages":[{"content":[{"source":{"url":"https://evil.example"}}]}]}"#.to_owned(),
            r#"{"messages":[{"content":[{"source":[{"type":"url"}]}]}]}"#.to_owned(),
            r#"{"messages":[{"content":[{"source":{"type":{"a":1}}}]}]}"#.to_owned(),
        ] {
            refused(&request, "a source of the type");
        }
    }

    #[test]
    fn no_spelling_slips_through() {
        for request in [
            r#"{"tools":[{"\u0074ype":"web_fetch_1"}]}"#,
            r#"{"tools":[{"type":"\u0077eb_fetch_1"}]}"#,
            r#"{"\u0074ools":[{"type":"web_fetch_1"}]}"#,
            r#"{"TOOLS":[{"Type":"web_fetch_1"}]}"#,
            "{\"tool\u{17f}\":[{\"type\":\"web_fetch_1\"}]}",
            r#"{"tool\u017F":[{"type":"web_fetch_1"}]}"#,
            r#"{"tools":[{"type":"custom","type":"web_fetch_1"}]}"#,
            r#"{"tools":[{"type":"web_fetch_1","type":"custom"}]}"#,
            r#"{"tools":[],"tools":[{"type":"web_fetch_1"}],"tools":[]}"#,
            r#"{"tools":{"type":"web_fetch_1"}}"#,
            r#"{"tools":[{"type":["web_fetch_1"]}]}"#,
            r#"{"tools":[{"type":" custom"}]}"#,
            r#"{"tools":[{"type":"Custom"}]}"#,
            r#"{"tools":[{"type":7}]}"#,
        ] {
            refused(request, "a tool of the type");
        }
        refused(r#"{"mcp_\u017ferver\u017f":[{"url":"https://x"}]}"#, "`mcp_servers`");
        let long = format!(r#"{{"tools":[{{"type":"bash_{}"}}]}}"#, "x".repeat(200));
        refused(&long, "a tool of the type");
        for request in ["[]", "7", "\"x\"", "[{\"tools\":[]}]", "", "{", "x=1", "{}{}"] {
            assert!(look(request, 0).is_err(), "{request}");
        }
    }
}
