//! Changes by a form: one closed list of operations, each with the command that does the same.

use std::{borrow::Cow, sync::Arc};

use axum::{
    Extension, Form,
    body::Body,
    extract::{FromRequest, Path, Request, State},
    http::{Response, StatusCode},
    response::{IntoResponse as _, Redirect},
};
use serde_json::{Map, Value};

use super::{Visitor, Web, layout::Failed, said::Outcome};
use crate::ops::{Op, OpError, audit::quoted};

/// How a field of a form is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Text,
    Number,
    /// Said or not.
    Flag,
}

/// An operation that the page offers: its name, its fields, and the command. A word `{field}` of the command is what stands in
/// the field; if that is empty, the word is left out, with the option before it. A word `?field` is an option if it is said.
type Offered = (&'static str, &'static [(&'static str, Is)], &'static str);

#[rustfmt::skip]
const OFFERED: [Offered; 27] = [
    ("approvals.approve", &[("id", Is::Number), ("group", Is::Text), ("new", Is::Text)], "g2 approvals approve {id} --group {group} --new {new}"),
    ("approvals.deny", &[("id", Is::Number)], "g2 approvals deny {id}"),
    ("channels.restart", &[("name", Is::Text)], "g2 channels restart {name}"),
    ("chats.set", &[("chat", Is::Text), ("policy", Is::Text)], "g2 chats set {chat} policy={policy}"),
    ("dropped.clear", &[], "g2 dropped clear"),
    ("groups.restart", &[("folder", Is::Text)], "g2 groups restart {folder}"),
    ("ipc.drop", &[("what", Is::Text), ("reason", Is::Text)], "g2 ipc drop {what} --reason {reason}"),
    ("ipc.hold", &[("what", Is::Text), ("reason", Is::Text)], "g2 ipc hold {what} --reason {reason}"),
    ("ipc.release", &[("what", Is::Text)], "g2 ipc release {what}"),
    ("ipc.retry", &[("what", Is::Text)], "g2 ipc retry {what}"),
    ("lanes.wake", &[("group", Is::Text), ("chat", Is::Text)], "g2 lanes wake {group} --chat {chat}"),
    ("loops.release", &[("loop", Is::Text), ("key", Is::Text), ("all", Is::Flag)], "g2 loops release {loop} {key} ?all"),
    ("members.add", &[("group", Is::Text), ("user", Is::Text)], "g2 members add --group {group} {user}"),
    ("members.remove", &[("group", Is::Text), ("user", Is::Text)], "g2 members remove --group {group} {user}"),
    ("messages.skip", &[("seq", Is::Number), ("reason", Is::Text), ("group", Is::Text)], "g2 messages skip {seq} --reason {reason} --group {group}"),
    ("outbox.drop", &[("id", Is::Number)], "g2 outbox drop {id}"),
    ("outbox.retry", &[("id", Is::Number)], "g2 outbox retry {id}"),
    ("runs.stop", &[("id", Is::Number), ("now", Is::Flag), ("retry", Is::Flag)], "g2 runs stop {id} ?now ?retry"),
    ("tasks.cancel", &[("id", Is::Text), ("group", Is::Text)], "g2 tasks cancel {id} --group {group}"),
    ("tasks.pause", &[("id", Is::Text), ("group", Is::Text)], "g2 tasks pause {id} --group {group}"),
    ("tasks.resume", &[("id", Is::Text), ("group", Is::Text)], "g2 tasks resume {id} --group {group}"),
    ("tasks.run", &[("id", Is::Text), ("group", Is::Text)], "g2 tasks run {id} --group {group}"),
    ("users.add", &[("id", Is::Text), ("name", Is::Text), ("dm", Is::Text)], "g2 users add {id} --name {name} --dm {dm}"),
    ("users.remove", &[("id", Is::Text)], "g2 users remove {id}"),
    ("users.role", &[("id", Is::Text), ("role", Is::Text), ("group", Is::Text)], "g2 users role {id} {role} --group {group}"),
    ("web.revoke", &[("id", Is::Number)], "g2 web sessions revoke {id}"),
    ("wirings.add", &[("group", Is::Text), ("chat", Is::Text)], "g2 wirings add --group {group} --chat {chat}"),
];

/// How the page names the field of an argument: this, then the argument. A field that is called `id` hides the form's own id from
/// scripts, and every refresh then makes the form anew, with all that is typed there.
pub(super) const ARGUMENT: &str = "arg-";

/// The fields of a form that comes from the page: its token is right.
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Returns what stands in a field; empty: nothing, or there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
    }

    /// Returns an argument of an operation; what the page's own forms put before its name may be left out.
    fn argument(&self, name: &str) -> &str {
        let is_it = |field: &str| field.strip_prefix(ARGUMENT).unwrap_or(field) == name;
        self.0.iter().find(|(field, _)| is_it(field)).map_or("", |(_, value)| value)
    }

    /// Returns the way back: a path of ours.
    fn back(&self) -> &str {
        Some(self.get("back"))
            .filter(|back| back.starts_with('/') && !back.starts_with("//"))
            // Browsers take a backslash for a slash, and leave out tabs and ends of lines.
            .filter(|back| !back.contains(|c: char| c == '\\' || c.is_control()))
            .unwrap_or("/")
    }
}

impl FromRequest<Arc<Web>> for Fields {
    type Rejection = (StatusCode, String);

    async fn from_request(request: Request, web: &Arc<Web>) -> Result<Self, Self::Rejection> {
        let visitor = request.extensions().get::<Visitor>().cloned();
        let said =
            request.headers().get("x-g2-token").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let Form(fields) = Form::<Vec<(String, String)>>::from_request(request, web)
            .await
            .map_err(|wrong| (wrong.status(), wrong.body_text()))?;
        let fields = Self(fields);
        let is_right = match visitor {
            Some(Visitor { forms, .. }) => said.as_deref().unwrap_or(fields.get("token")) == forms,
            None => false,
        };
        match is_right {
            true => Ok(fields),
            false => {
                Err((StatusCode::FORBIDDEN, "the form is of another session; load the page again\n".into()))
            }
        }
    }
}

/// Reads an operation and its command; `None`: the page does not offer it.
fn read(name: &str, field: impl Fn(&str) -> String) -> Option<Result<(Op, String), OpError>> {
    let (_, fields, command) = OFFERED.iter().find(|(offered, ..)| *offered == name)?;
    let mut args = Map::new();
    for (name, is) in *fields {
        let text = field(name);
        let value = match is {
            _ if text.is_empty() => continue,
            Is::Text => Value::from(text),
            Is::Number => match text.parse::<i64>() {
                Ok(number) => number.into(),
                Err(_) => {
                    return Some(Err(OpError::invalid(format!("{name} is no number: {}", quoted(&text)))));
                }
            },
            Is::Flag => (text == "true").into(),
        };
        args.insert((*name).to_owned(), value);
    }
    let op = Op::read(serde_json::json!({"name": name, "args": args}));
    Some(op.map(|op| (op, typed(command, field))))
}

/// Returns a command as it could be typed.
fn typed(command: &str, field: impl Fn(&str) -> String) -> String {
    let mut words: Vec<Cow<'_, str>> = Vec::new();
    for word in command.split(' ') {
        if let Some(flag) = word.strip_prefix('?') {
            if field(flag) == "true" {
                words.push(format!("--{flag}").into());
            }
            continue;
        }
        let Some((before, name)) = word.split_once('{') else {
            words.push(word.into());
            continue;
        };
        let value = field(name.trim_end_matches('}'));
        if !value.is_empty() {
            words.push(format!("{before}{}", quoted(&value)).into());
        } else if words.last().is_some_and(|word| word.starts_with("--")) {
            words.pop();
        }
    }
    words.join(" ")
}

/// Does an operation that a form asks for, and leads back to the page.
pub(super) async fn perform(
    State(web): State<Arc<Web>>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
    fields: Fields,
) -> Result<Response<Body>, Failed> {
    let read = read(&name, |name| fields.argument(name).to_owned())
        .ok_or_else(|| Failed::not_found("the page does not offer this operation"))?;
    let (done, command) = match read {
        Ok((op, command)) => (web.desk.perform(visitor.by(), op).await, Some(command)),
        Err(wrong) => (Err(wrong), None),
    };
    let outcome = match done {
        Ok(answer) => {
            let says = std::iter::once(answer.says).chain(answer.notes).collect::<Vec<_>>().join("; ");
            Outcome { done: true, says, command }
        }
        Err(error) => Outcome { done: false, says: error.to_string(), command },
    };
    Ok(back(&web, &visitor, &fields, outcome))
}

/// Leads back to the page that a form came from, which says what came of it.
pub(super) fn back(web: &Web, visitor: &Visitor, fields: &Fields, outcome: Outcome) -> Response<Body> {
    let n = web.said.keep(visitor.session.id, outcome);
    let back = fields.back();
    let joint = if back.contains('?') { '&' } else { '?' };
    Redirect::to(&format!("{back}{joint}said={n}")).into_response()
}

/// Leads back with nothing to say: the page shows what came of it.
pub(super) fn back_quietly(fields: &Fields) -> Response<Body> {
    Redirect::to(fields.back()).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::*;
    use crate::ops::Asker;

    fn field(values: &[(&str, &str)]) -> impl Fn(&str) -> String {
        let values: HashMap<String, String> =
            values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        move |name| values.get(name).cloned().unwrap_or_default()
    }

    #[test]
    fn each_operation_that_is_offered_can_be_asked_for_with_its_fields() {
        let fits = [
            ("id", "7"),
            ("seq", "7"),
            ("group", "main"),
            ("folder", "main"),
            ("chat", "local:main"),
            ("user", "tg:7"),
            ("policy", "strict"),
            ("name", "n"),
            ("what", "main"),
            ("reason", "r"),
            ("now", "true"),
            ("retry", "true"),
            ("role", "admin"),
            ("dm", "tg:7"),
            ("new", "n"),
        ];
        for (name, fields, command) in OFFERED {
            assert!(Op::NAMES.contains(&name), "{name}");
            for (field, _) in fields {
                let stands =
                    command.contains(&format!("{{{field}}}")) || command.contains(&format!("?{field}"));
                assert!(stands, "{name}: {field} is not in its command");
            }
            let mut values = fits.to_vec();
            // One of them is meant, or all.
            values.extend(match name {
                "loops.release" => [("loop", "deliver"), ("key", "local:main")],
                _ => [("all", ""), ("key", "")],
            });
            if name.starts_with("users.") {
                values[0].1 = "tg:7";
            }
            let (op, typed) = read(name, field(&values)).unwrap().unwrap();
            assert_eq!(op.name(), name);
            assert!(typed.starts_with("g2 ") && !typed.contains(['{', '}', '?']), "{typed}");
        }
        assert!(read("groups.remove", field(&fits)).is_none());
    }

    #[test]
    fn the_page_may_ask_for_what_it_offers_and_for_nothing_else() {
        let allowed = Op::ASKED_BY.iter().filter(|(_, by)| by.contains(&Asker::Page)).map(|(name, _)| *name);
        let offered: BTreeSet<&str> = OFFERED.iter().map(|(name, ..)| *name).collect();
        assert_eq!(allowed.collect::<BTreeSet<_>>(), offered);
    }

    #[test]
    fn a_command_is_what_a_person_would_type() {
        let typed = |name, values: &[(&str, &str)]| read(name, field(values)).unwrap().unwrap().1;
        assert_eq!(typed("approvals.approve", &[("id", "3")]), "g2 approvals approve 3");
        assert_eq!(
            typed("approvals.approve", &[("id", "3"), ("new", "A b")]),
            "g2 approvals approve 3 --new 'A b'"
        );
        assert_eq!(typed("runs.stop", &[("id", "3"), ("now", "true")]), "g2 runs stop 3 --now");
        assert_eq!(
            typed("chats.set", &[("chat", "local:a"), ("policy", "strict")]),
            "g2 chats set local:a policy=strict"
        );
        assert_eq!(
            typed("loops.release", &[("loop", "deliver"), ("all", "true")]),
            "g2 loops release deliver --all"
        );
        assert!(read("outbox.drop", field(&[("id", "x")])).unwrap().is_err());
    }

    #[test]
    fn the_way_back_is_ours() {
        for (back, leads) in [
            ("/runs?a=b", "/runs?a=b"),
            ("//evil.example", "/"),
            ("https://evil.example", "/"),
            ("/\\evil", "/"),
            ("/\t/evil.example", "/"),
            ("/\n/evil.example", "/"),
            ("", "/"),
        ] {
            assert_eq!(Fields(vec![("back".into(), back.into())]).back(), leads);
        }
    }
}
