//! Run tokens: who wrote a command, proved by the host's own signature, and not by what the file says of itself.
//!
//! The host signs the claims of a run (HMAC-SHA256, one key a root) and hands the token to the runner on its stdin:
//!
//! ```text
//! run token = base64url(claims as JSON) . base64url(HMAC(host's key, "g2 run " + the first part))
//! ```
//!
//! The runner never writes that down. What a command carries as `token` is the claims again, and a seal that only who
//! has the run token can make, over this very command:
//!
//! ```text
//! seal = base64url(claims as JSON) . base64url(HMAC(second part's bytes, "g2 command " + the command))
//! ```
//!
//! *The command* is its JSON without `token`, without blanks, the keys of every object in the order of their bytes. So
//! a seal that was copied out of a file is good for that command alone. Comparing takes the same time wherever the
//! difference is. Nothing here knows what time it is or which runs there are: [`judge`] is told.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::Sha256;

use crate::{Code, Folder, Refusal, Time, json};

/// For how long a token is good at most, ms. Its run's end is the end of it before that.
pub const LIFETIME_MS: i64 = 7 * 24 * 3_600_000;

/// The longest text that is looked at as a token, bytes.
const LONGEST: usize = 4096;

/// The host's signing key. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub [u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// What a token says of its run. Instants are whole seconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The group's folder.
    pub agent_id: String,
    /// The root's instance.
    pub workspace_id: String,
    /// `main` or `group`, when the run began; what a group may do is the host's register's to say.
    pub role: String,
    pub session_id: Option<String>,
    pub run_id: i64,
    pub iat: i64,
    pub exp: i64,
    /// The token's own id.
    pub jti: String,
}

/// A run's token, for the runner alone. Written as JSON it is whole: that is for stdin. Never shown otherwise.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunToken(String);

impl fmt::Debug for RunToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "RunToken(none)" } else { "RunToken(…)" })
    }
}

/// Why a command's token proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the token is no token")]
    Unreadable,
    #[error(
        "the token is not of this command: the command or the token was changed, or the token was copied from another command"
    )]
    NotOfThisCommand,
}

impl RunToken {
    /// Signs the claims of a run.
    #[must_use]
    pub fn sign(key: &Key, claims: &Claims) -> Self {
        let claims = BASE64.encode(serde_json::to_vec(claims).unwrap_or_default());
        Self(format!("{claims}.{}", BASE64.encode(signature(key, &claims))))
    }

    /// Whether there is none: an older host, or one that a person started.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns what `command` is to carry as `token`; `None` without a run token, or when `command` is no object.
    #[must_use]
    pub fn seal(&self, command: &Value) -> Option<String> {
        let (claims, signature) = self.0.split_once('.')?;
        let signature = BASE64.decode(signature).ok()?;
        let seal = sealing(&signature, command.as_object()?).finalize().into_bytes();
        Some(format!("{claims}.{}", BASE64.encode(seal)))
    }
}

/// Returns the claims of the token that the command in `bytes` carries, once it is certain that the holder of the run
/// token wrote this command. `None`: it carries none.
///
/// # Errors
/// [`Fault`]
#[must_use]
pub fn verify(key: &Key, bytes: &[u8]) -> Option<Result<Claims, Fault>> {
    // Most that carry none are known without being parsed: a name is spelt by its letters or by escapes of them.
    let text = std::str::from_utf8(bytes).ok()?;
    if !text.contains("token") && !text.contains(r"\u") {
        return None;
    }
    let command = json::object(bytes).ok()?;
    match command.get("token") {
        None | Some(Value::Null) => None,
        Some(Value::String(token)) => Some(of_command(key, token, &command)),
        Some(_) => Some(Err(Fault::Unreadable)),
    }
}

fn of_command(key: &Key, token: &str, command: &Map<String, Value>) -> Result<Claims, Fault> {
    let (claims, seal) = token.split_once('.').filter(|_| token.len() <= LONGEST).ok_or(Fault::Unreadable)?;
    let seal = BASE64.decode(seal).map_err(|_| Fault::Unreadable)?;
    sealing(&signature(key, claims), command).verify_slice(&seal).map_err(|_| Fault::NotOfThisCommand)?;
    let claims = BASE64.decode(claims).map_err(|_| Fault::Unreadable)?;
    serde_json::from_slice(&claims).map_err(|_| Fault::Unreadable)
}

/// The facts about the run that a token names, and of the command that carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen<'a> {
    /// The group whose box the command lay in.
    pub group: &'a Folder,
    /// This root's instance.
    pub workspace: &'a str,
    /// The run's group and when it ended; `None`: there is no such run.
    pub run: Option<(Folder, Option<Time>)>,
    /// When the file was last changed in its box, by the host's clock.
    pub written: Option<Time>,
    /// A person has put the command back, so that its run or its time is over does not count.
    pub vouched: bool,
}

/// Decides whether a command may act as the run that its token names.
///
/// # Errors
/// The [`Refusal`], `not_authorized`.
pub fn judge(claims: &Claims, seen: &Seen<'_>, now: Time) -> Result<(), Refusal> {
    let refused = |why: String| Err(refused(&why));
    if claims.workspace_id != seen.workspace {
        return refused("the token is of another installation".into());
    }
    if claims.agent_id != seen.group.as_str() {
        return refused(format!(
            "the token is of group {}, the command of group {}",
            claims.agent_id, seen.group
        ));
    }
    let ended = match &seen.run {
        Some((group, ended)) if group == seen.group => *ended,
        Some(_) | None => return refused(format!("run {} of the token is not on record", claims.run_id)),
    };
    if seen.vouched {
        return Ok(());
    }
    if now.0 >= claims.exp.saturating_mul(1000) {
        return refused("the token has expired".into());
    }
    match ended {
        // It may have waited since: held, or behind others. Nobody but the host sets this time.
        Some(ended) if seen.written.is_none_or(|written| written > ended) => {
            refused(format!("run {} of the token has ended", claims.run_id))
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the refusal of a command whose token proves nothing.
#[must_use]
pub fn refused(why: &str) -> Refusal {
    Refusal::new(
        Code::NotAuthorized,
        why,
        "leave `token` to the runner: send the command through its tools, and write none by hand",
    )
}

/// Returns the refusal of a command without a token, where one is needed.
#[must_use]
pub fn missing() -> Refusal {
    Refusal::new(
        Code::NotAuthorized,
        "the command carries no token, and `ipc.require_token` is set",
        "send it through the runner's tools, which sign it; or set ipc.require_token = false in g2.toml",
    )
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    // Keys of every length are taken; the other arm is there for the type alone.
    Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&Default::default()))
}

fn signature(key: &Key, claims: &str) -> [u8; 32] {
    let mut mac = keyed(&key.0);
    mac.update(b"g2 run ");
    mac.update(claims.as_bytes());
    mac.finalize().into_bytes().into()
}

fn sealing(signature: &[u8], command: &Map<String, Value>) -> Hmac<Sha256> {
    let mut text = String::new();
    write_object(command, "token", &mut text);
    let mut mac = keyed(signature);
    mac.update(b"g2 command ");
    mac.update(text.as_bytes());
    mac
}

/// Writes a value as JSON without blanks, keys in the order of their bytes. As deep as the value is, which is bounded
/// where it was read.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => write_object(map, "", text),
        Value::Array(items) => {
            text.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
    }
}

fn write_object(map: &Map<String, Value>, without: &str, text: &mut String) {
    let mut fields: Vec<_> =
        map.iter().filter(|(key, _)| without.is_empty() || key.as_str() != without).collect();
    fields.sort_by(|a, b| a.0.cmp(b.0));
    text.push('{');
    for (n, (key, value)) in fields.into_iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        text.push_str(&Value::from(key.as_str()).to_string());
        text.push(':');
        write(value, text);
    }
    text.push('}');
}

#[cfg(test)]
mod tests;
