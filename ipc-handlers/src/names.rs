//! Names that come from outside and are checked once, at the border.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A group's folder name; also the group's identity.
///
/// `[A-Za-z0-9][A-Za-z0-9_-]{0,63}`, and not a reserved name (`global`, `errors`, `_template`): v1's rule, with
/// the names that would collide with folders of ours refused too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"))]
pub struct Folder(String);

/// Why a folder name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}; {}", self.why(), Self::HINT)]
pub struct InvalidFolder(pub String);

impl InvalidFolder {
    /// Names that look right and are not.
    pub const HINT: &str = "`global` and `errors` are reserved";

    /// Returns the rule that it breaks.
    #[must_use]
    pub fn why(&self) -> String {
        format!(
            "folder name {:?} is not allowed: use 1 to 64 letters, digits, '-' or '_', starting with a letter or digit",
            self.0
        )
    }
}

impl Folder {
    /// Returns the checked name.
    ///
    /// # Errors
    /// [`InvalidFolder`] when the name breaks the rule above.
    pub fn parse(name: &str) -> Result<Self, InvalidFolder> {
        let ok = (1..=64).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            && name.as_bytes()[0].is_ascii_alphanumeric()
            && !["global", "errors"].contains(&name.to_ascii_lowercase().as_str());
        if ok { Ok(Self(name.to_owned())) } else { Err(InvalidFolder(name.to_owned())) }
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Folder {
    type Err = InvalidFolder;
    fn from_str(name: &str) -> Result<Self, InvalidFolder> {
        Self::parse(name)
    }
}

impl TryFrom<String> for Folder {
    type Error = InvalidFolder;
    fn try_from(name: String) -> Result<Self, InvalidFolder> {
        Self::parse(&name)
    }
}

impl From<Folder> for String {
    fn from(folder: Folder) -> Self {
        folder.0
    }
}

/// Returns whether `id` is one that an agent may give a conversation: `[A-Za-z0-9-]{1,64}`, so it is safe in a file
/// name.
#[must_use]
pub fn is_session_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// The id under which an agent waits for a reply: `[A-Za-z0-9_-]{1,64}`, so it is safe as a file name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = r"^[A-Za-z0-9_-]{1,64}$"))]
pub struct RequestId(String);

/// Why a request id was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request id is 1 to 64 letters, digits, '-' or '_'")]
pub struct InvalidRequestId;

impl RequestId {
    /// Returns the checked id.
    ///
    /// # Errors
    /// [`InvalidRequestId`] when the id breaks the rule above.
    pub fn parse(id: &str) -> Result<Self, InvalidRequestId> {
        let ok = (1..=64).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if ok { Ok(Self(id.to_owned())) } else { Err(InvalidRequestId) }
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for RequestId {
    type Error = InvalidRequestId;
    fn try_from(id: String) -> Result<Self, InvalidRequestId> {
        Self::parse(&id)
    }
}

impl From<RequestId> for String {
    fn from(id: RequestId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_v1_accepts_are_accepted_and_escapes_are_not() {
        for good in ["main", "family-chat", "Team_42", "a", &"x".repeat(64)] {
            assert!(Folder::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "../../etc",
            "/tmp",
            "global",
            "Global",
            "errors",
            "_template",
            "-x",
            "a b",
            "a.b",
            "é",
            " a",
        ] {
            assert!(Folder::parse(bad).is_err(), "{bad}");
        }
        assert!(Folder::parse(&"x".repeat(65)).is_err());
    }

    #[test]
    fn a_request_id_is_a_plain_file_name() {
        for good in ["a", "1700000000000-x1y2z3", "A_b-C", &"x".repeat(64)] {
            assert!(RequestId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "../x", "a/b", "a.b", "a b", "é", "a\0", "a\n", &"x".repeat(65)] {
            assert!(RequestId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
