//! `search_sessions`: archived conversations by what was said in them.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Command, Entry, Who, target};
use crate::{Caller, Effect, Facts, Folder, Refusal, Wants, fields::Fields};

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "search_sessions",
    alias: None,
    who: Who::Own,
    example: r#"{"type":"search_sessions","requestId":"r-1","query":"holiday"}"#,
    read: |fields| SearchSessions::read(fields).map(Command::SearchSessions),
};

/// The fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchSessions {
    /// What to look for: all of its words must be there, in any order; 32 words and 256 characters at most. Empty:
    /// everything, newest first.
    #[schemars(default)]
    pub query: String,
    /// How many are wanted, 1 to 100.
    #[schemars(default = "limit", range(min = 1, max = 100))]
    pub limit: i64,
    /// The group; left out, the caller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_folder: Option<Folder>,
}

/// How many are returned when nobody says.
const LIMIT: i64 = 50;
fn limit() -> i64 {
    LIMIT
}

/// How many may be asked for.
const MOST: i64 = 100;
/// How many words a query may have.
const WORDS: usize = 32;
/// How long it may be, characters.
const LONGEST: usize = 256;

/// Returns the fault of a query, if any: a search has to end in bounded time, for any text.
///
/// # Errors
/// A sentence that begins with a verb.
pub fn check_query(query: &str) -> Result<(), String> {
    let words =
        query.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).count();
    let length = query.chars().count();
    if words > WORDS {
        return Err(format!("has {words} words; look for {WORDS} at most"));
    }
    if length > LONGEST {
        return Err(format!("has {length} characters; look for {LONGEST} at most"));
    }
    Ok(())
}

impl SearchSessions {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let limit = match fields.get("limit") {
            Some(_) => fields.whole_number("limit")?,
            None => LIMIT,
        };
        if !(1..=MOST).contains(&limit) {
            return Err(fields.invalid("limit", &format!("is {limit}, not 1 to {MOST}")));
        }
        let query = fields.optional_text("query")?.unwrap_or_default();
        check_query(&query).map_err(|fault| fields.invalid("query", &fault))?;
        Ok(Self { query, limit, target_folder: target::read(fields)? })
    }

    /// Returns the group that is searched, where this one asks.
    #[must_use]
    pub fn target<'a>(&'a self, own: &'a Folder) -> &'a Folder {
        self.target_folder.as_ref().unwrap_or(own)
    }

    pub(crate) fn wants(&self, caller: &Caller) -> Wants {
        target::wants(self.target_folder.as_ref(), caller)
    }

    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        let (target, _) = target::decide(self.target_folder.as_ref(), caller, facts)?;
        Ok(vec![Effect::SearchSessions { target, query: self.query.clone(), limit: self.limit }])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        Code,
        commands::testing::{ask, caller, folder, refused},
    };

    fn search(field: &str, value: impl Into<Value>) -> Value {
        let mut command = json!({"type": "search_sessions", "query": "x"});
        command[field] = value.into();
        command
    }

    #[test]
    fn a_group_searches_its_own_and_main_another_s() {
        let found =
            |group: &str| Effect::SearchSessions { target: folder(group), query: "x".into(), limit: 50 };
        assert_eq!(ask(&caller("family"), &search("query", "x")).unwrap(), found("family"));
        assert_eq!(ask(&caller("main"), &search("targetFolder", "family")).unwrap(), found("family"));
        assert_eq!(refused(&caller("family"), &search("targetFolder", "main")), Code::NotAuthorized);
        assert_eq!(refused(&caller("main"), &search("targetFolder", "nobody")), Code::NotFound);
    }

    #[test]
    fn no_query_finds_everything_and_the_limit_is_bounded() {
        let all = ask(&caller("family"), &json!({"type": "search_sessions", "limit": "7"})).unwrap();
        assert_eq!(all, Effect::SearchSessions { target: folder("family"), query: String::new(), limit: 7 });
        for bad in [json!(0), json!(101), json!(-1), json!("many"), json!(1.5)] {
            assert_eq!(
                refused(&caller("family"), &search("limit", bad.clone())),
                Code::InvalidField,
                "{bad}"
            );
        }
        assert_eq!(refused(&caller("family"), &search("query", 7)), Code::InvalidField);
        for (query, is_taken) in [
            ("é".repeat(256), true),
            ("x".repeat(257), false),
            (vec!["x"; 32].join(" "), true),
            (vec!["x"; 33].join(" "), false),
            (vec!["x"; 33].join("\u{1}"), false),
        ] {
            let asked = ask(&caller("family"), &search("query", query.clone()));
            assert_eq!(asked.is_ok(), is_taken, "{query}");
        }
    }
}
