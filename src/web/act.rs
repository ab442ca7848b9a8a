//! Changes by a form: the operations that the page may ask for, each shown with the command that does the same.

use std::sync::Arc;

use axum::{
    Extension, Form,
    body::Body,
    extract::{FromRequest, Path, Request, State},
    http::{Response, StatusCode},
    response::{IntoResponse as _, Redirect},
};
use serde_json::{Map, Value};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    Visitor, Web,
    layout::{Failed, with_outcome},
    said::Outcome,
};
use crate::{
    domain::shown::screen::quoted,
    ops::{Answer, Asker, Is, Op, OpError},
};

/// How the page names the field of an argument: this, then the argument. A field that is called `id` hides the form's own id from
/// scripts, and every refresh then makes the form anew, with all that is typed there.
pub(super) const ARGUMENT: &str = "arg-";

/// The field by which somebody says that they are sure: `true`, or the name of what goes.
pub(super) const SURE: &str = "sure";

/// Arguments in which an empty text says something other than none at all.
const EMPTY_SAYS: [(&str, &str); 2] = [
    // The chat itself, not all its threads.
    ("sessions.clear", "thread"),
    // No file was shown, not whatever is there.
    ("groups.back", "was"),
];

/// Changes of the page that are being made: as many at a time, however long they take.
static UNDER_WAY: Semaphore = Semaphore::const_new(64);

/// The fields of every form: the session's token, and the way back.
const OF_EVERY_FORM: [&str; 2] = ["token", "back"];

/// The fields of a form that comes from the page: its token is right.
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Returns what stands in a field; empty: nothing, or there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
    }

    /// Returns an argument of an operation; what the page's own forms put before its name may be left out where the
    /// name is no field of every form.
    fn argument(&self, name: &str) -> Option<&str> {
        let named = self.0.iter().find(|(field, _)| field.strip_prefix(ARGUMENT) == Some(name));
        let bare = || self.arguments().find(|(field, _)| *field == name).map(|(_, value)| value);
        named.map(|(_, value)| value.as_str()).or_else(bare)
    }

    /// Returns what stands in the fields of an argument that has keys, by its keys. An empty text is one, too.
    fn keyed(&self, name: &str) -> Map<String, Value> {
        let of = |field: &str| Some(field.strip_prefix(name)?.strip_prefix('.')?.to_owned());
        // Browsers end lines with both.
        let text = |value: &str| Value::from(value.replace("\r\n", "\n"));
        self.arguments().filter_map(|(field, value)| Some((of(field)?, text(value)))).collect()
    }

    fn arguments(&self) -> impl Iterator<Item = (&str, &str)> {
        let name = |field: &'_ String| match field.strip_prefix(ARGUMENT) {
            None if OF_EVERY_FORM.contains(&&field[..]) => None,
            named => Some(named.map_or(0, |_| ARGUMENT.len())),
        };
        self.0.iter().filter_map(move |(field, value)| Some((&field[name(field)?..], value.as_str())))
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

/// Reads an operation; `None`: the page may not ask for it.
fn read(op: &str, fields: &Fields) -> Option<Result<Op, OpError>> {
    let offered = Op::described(op).filter(|op| op.asked_by.contains(&Asker::Page))?;
    let mut args = Map::new();
    for (name, is) in offered.fields() {
        let said =
            fields.argument(&name).filter(|text| !text.is_empty() || EMPTY_SAYS.contains(&(op, &name)));
        let text = said.unwrap_or_default();
        let value = match is {
            Is::Map => Value::from(fields.keyed(&name)),
            _ if said.is_none() => continue,
            // Browsers end lines with both.
            Is::Text => Value::from(text.replace("\r\n", "\n")),
            Is::Number => match text.parse::<i64>() {
                Ok(number) => number.into(),
                Err(_) => {
                    return Some(Err(OpError::invalid(format!("{name} is no number: {}", quoted(text)))));
                }
            },
            Is::Flag => (text == "true").into(),
        };
        args.insert(name, value);
    }
    Some(Op::read(serde_json::json!({"name": op, "args": args})))
}

/// Does an operation that a form asks for, and leads back to the page.
pub(super) async fn perform(
    State(web): State<Arc<Web>>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
    fields: Fields,
) -> Result<Response<Body>, Failed> {
    let read =
        read(&name, &fields).ok_or_else(|| Failed::not_found("the page does not offer this operation"))?;
    let op = match read {
        Ok(op) => op,
        Err(wrong) => return Ok(back(&web, &visitor, &fields, outcome(Err(wrong), None))),
    };
    let command = Some(op.typed());
    let turn = match begins(&web, &op, fields.get(SURE)).await {
        Ok(turn) => turn,
        Err(refused) => return Ok(back(&web, &visitor, &fields, outcome(Err(refused), command))),
    };
    let (desk, by, shown) = (Arc::clone(&web.desk), visitor.by(), command.clone());
    let change = async move {
        let _turn = turn;
        outcome(desk.perform(by, op).await, shown)
    };
    let n = web.said.coming(visitor.session.id, command, change).await;
    Ok(Redirect::to(&with_outcome(fields.back(), n)).into_response())
}

fn outcome(done: Result<Answer, OpError>, command: Option<String>) -> Outcome {
    match done {
        Ok(answer) => {
            let says = std::iter::once(answer.says).chain(answer.notes).collect::<Vec<_>>().join("; ");
            Outcome { done: true, says, command }
        }
        Err(error) => Outcome { done: false, says: error.to_string(), command },
    }
}

/// Checks that a change may begin.
async fn begins(web: &Web, op: &Op, said: &str) -> Result<SemaphorePermit<'static>, OpError> {
    sure(web, op, said).await?;
    UNDER_WAY.try_acquire().map_err(|_| {
        OpError::refused("too many changes are under way").hint("try again when one of them is over")
    })
}

/// Checks that somebody who asks for what the command line asks about has said so: by a checked box, or by the name of what goes.
async fn sure(web: &Web, op: &Op, said: &str) -> Result<(), OpError> {
    let Some(loss) = op.loss(&web.root, &web.desk.store, web.world.now()).await? else { return Ok(()) };
    let says = &loss.says;
    match &loss.named {
        Some(name) if said != name => {
            Err(OpError::invalid(format!("nothing was removed: type {name}, and {says}")))
        }
        None if said != "true" => {
            Err(OpError::invalid(format!("nothing was changed. With the box checked {says}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Saves a `CLAUDE.md`, which may be longer than other bodies.
pub(super) async fn edit(
    web: State<Arc<Web>>,
    visitor: Extension<Visitor>,
    fields: Fields,
) -> Result<Response<Body>, Failed> {
    perform(web, visitor, Path("groups.edit".to_owned()), fields).await
}

/// Leads back to the page that a form came from, which says what came of it.
pub(super) fn back(web: &Web, visitor: &Visitor, fields: &Fields, outcome: Outcome) -> Response<Body> {
    let n = web.said.keep(visitor.session.id, outcome);
    Redirect::to(&with_outcome(fields.back(), n)).into_response()
}

/// Leads back with nothing to say: the page shows what came of it.
pub(super) fn back_quietly(fields: &Fields) -> Response<Body> {
    Redirect::to(fields.back()).into_response()
}

/// Does an operation of a form that a page reads by itself, and leads back to the page, which says what came of it.
pub(super) async fn done(web: &Web, visitor: &Visitor, fields: &Fields, op: Op) -> Response<Body> {
    let command = Some(op.typed());
    let outcome = match web.desk.perform(visitor.by(), op).await {
        Ok(answer) => {
            let says = std::iter::once(answer.says).chain(answer.notes).collect::<Vec<_>>().join("; ");
            Outcome { done: true, says, command }
        }
        Err(error) => Outcome { done: false, says: error.to_string(), command },
    };
    back(web, visitor, fields, outcome)
}

/// Leads back to the page, which says how a form is wrong.
pub(super) fn refused(web: &Web, visitor: &Visitor, fields: &Fields, wrong: &OpError) -> Response<Body> {
    let outcome = Outcome { done: false, says: wrong.to_string(), command: None };
    back(web, visitor, fields, outcome)
}

impl Fields {
    /// Returns what was sent in parts, if its token is that of the session's forms.
    pub(super) fn of_parts(parts: Vec<(String, String)>, forms: &str) -> Option<Self> {
        let fields = Self(parts);
        (fields.get("token") == forms).then_some(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(values: &[(&str, &str)]) -> Fields {
        Fields(values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_form_is_shown_as_what_a_person_would_type() {
        let typed = |name, values: &[(&str, &str)]| read(name, &fields(values)).unwrap().unwrap().typed();
        for (name, values, command) in [
            ("approvals.approve", &[("id", "3")][..], "g2 approvals approve 3"),
            ("approvals.approve", &[("id", "3"), ("new", "A b")], "g2 approvals approve 3 --new 'A b'"),
            ("runs.stop", &[("id", "3"), ("now", "true"), ("retry", "false")], "g2 runs stop 3 --now"),
            ("chats.set", &[("chat", "local:a"), ("policy", "strict")], "g2 chats set local:a policy=strict"),
            ("loops.release", &[("loop", "deliver"), ("all", "true")], "g2 loops release deliver --all"),
            ("ipc.drop", &[("what", "7"), ("reason", "no reason was given")], "g2 ipc drop 7"),
            ("members.add", &[("group", "main"), ("user", "tg:7")], "g2 members add --group main tg:7"),
            ("tasks.pause", &[("id", "t"), ("group", "main")], "g2 tasks pause t --group main"),
            ("web.revoke", &[("id", "7")], "g2 web sessions revoke 7"),
            ("dropped.clear", &[], "g2 dropped clear"),
            (
                "groups.edit",
                &[("arg-folder", "main"), ("arg-text", "be\r\nkind"), ("arg-was", "00")],
                "g2 groups edit --file - main",
            ),
            ("groups.edit", &[("text", "be kind")], "g2 groups edit --global --file -"),
            ("groups.back", &[("folder", "main"), ("to", "3"), ("was", "00")], "g2 groups back main --to 3"),
            (
                "sessions.clear",
                &[("group", "main"), ("chat", "tg:-1"), ("thread", "")],
                "g2 sessions clear main --chat tg:-1 --thread ''",
            ),
            (
                "sessions.clear",
                &[("group", "main"), ("chat", "tg:-1")],
                "g2 sessions clear main --chat tg:-1",
            ),
            (
                "groups.set",
                &[("arg-folder", "main"), ("arg-settings.model", "a-b"), ("arg-settings.cpus", "")],
                "g2 groups set main cpus= model=a-b",
            ),
            (
                "groups.set",
                &[("folder", "main"), ("settings.mcp", "{\r\n}")],
                "g2 groups set main mcp=@.mcp.json",
            ),
            (
                "groups.set",
                &[("folder", "main"), ("settings.mounts", "[\r\n {\"a\": 1}]"), ("was.mounts", "00")],
                "g2 groups set main mounts='[{\"a\":1}]'",
            ),
            (
                "wirings.set",
                &[("group", "main"), ("chat", "local:a"), ("engage", "mention")],
                "g2 wirings set --group main --chat local:a engage=mention",
            ),
        ] {
            assert_eq!(typed(name, values), command);
        }
    }

    #[test]
    fn where_no_file_was_shown_that_is_said_and_not_left_out() {
        let was = |values: &[(&str, &str)]| match read("groups.back", &fields(values)) {
            Some(Ok(Op::GroupsBack(args))) => args.was,
            other => panic!("{other:?}"),
        };
        assert_eq!(was(&[("to", "3"), ("was", "")]).as_deref(), Some(""));
        assert_eq!(was(&[("to", "3")]), None);
    }

    #[test]
    fn what_is_wrong_in_a_form_is_said_and_what_the_page_may_not_ask_for_is_not_there() {
        assert!(read("outbox.drop", &fields(&[("id", "x")])).unwrap().is_err());
        assert!(
            read("groups.set", &fields(&[("folder", "main"), ("settings.colour", "red")])).unwrap().is_err()
        );
        assert!(read("ipc.send", &fields(&[("group", "main")])).is_none());
        assert!(read("groups", &fields(&[])).is_none());
    }

    #[test]
    fn the_fields_of_every_form_are_no_arguments() {
        for (values, is) in [
            (&[("token", "forms")][..], None),
            (&[("token", "forms"), ("arg-token", "mine")], Some("mine")),
            (&[("arg-token", "mine"), ("token", "forms")], Some("mine")),
        ] {
            assert_eq!(fields(values).argument("token"), is, "{values:?}");
        }
        assert_eq!(fields(&[("id", "3"), ("arg-id", "4")]).argument("id"), Some("4"));
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
