//! Buttons that change something. Each is a form of its own: it works without scripts, and with them only what changes is
//! put in place.

use maud::{Markup, html};

use super::encoded;
use crate::web::{
    act::{ARGUMENT, SURE},
    layout::View,
};

/// A button that asks for an operation, with its arguments.
pub(in crate::web) fn act(view: &View, operation: &str, arguments: &[(&str, &str)], label: &str) -> Markup {
    form(view, operation, arguments, "", &html! { button { (label) } })
}

/// The same for what can't be taken back: it is shown only after a first click.
pub(in crate::web) fn reveal(
    view: &View,
    operation: &str,
    arguments: &[(&str, &str)],
    label: &str,
    sure: &str,
) -> Markup {
    html! {
        details.sure id={ "sure/" (id(operation, "", arguments)) } {
            summary { (label) "…" }
            (form(view, operation, arguments, "", &html! { button.danger { (sure) } }))
        }
    }
}

/// The box by which somebody says that they are sure, where the command line asks.
pub(in crate::web) fn sure(says: &str) -> Markup {
    html! { label.check { input type="checkbox" name=(SURE) value="true" required; " " (says) } }
}

/// The id of a form. A page that is refreshed keeps the forms that it had, by their ids: what is half typed or half pressed stays,
/// and a button never becomes another's.
fn id(operation: &str, asks: &str, arguments: &[(&str, &str)]) -> String {
    arguments
        .iter()
        .fold(format!("{operation}/{asks}"), |id, (name, value)| format!("{id}/{name}={}", encoded(value)))
}

/// A form that asks for an operation, with what people fill in; `asks`: the argument that it asks them for, or nothing.
pub(in crate::web) fn form(
    view: &View,
    operation: &str,
    arguments: &[(&str, &str)],
    asks: &str,
    rest: &Markup,
) -> Markup {
    form_to(view, &view.here, operation, (arguments, asks), rest)
}

/// The same, which leads to another page of ours than its own: what it stands on is gone afterwards.
pub(in crate::web) fn form_to(
    view: &View,
    back: &str,
    operation: &str,
    (arguments, asks): (&[(&str, &str)], &str),
    rest: &Markup,
) -> Markup {
    let path = format!("/do/{operation}");
    html! {
        form.act id=(id(operation, asks, arguments)) method="post" action=(path) hx-post=(path) hx-target="#main" hx-swap="outerMorph" data-clear[!asks.is_empty()] {
            input type="hidden" name="token" value=(view.visitor.forms);
            input type="hidden" name="back" value=(back);
            @for (name, value) in arguments { input type="hidden" name={ (ARGUMENT) (name) } value=(value); }
            (rest)
        }
    }
}

/// The token of the session's forms, and the way back.
pub(in crate::web) fn hidden(view: &View) -> Markup {
    html! {
        input type="hidden" name="token" value=(view.visitor.forms);
        input type="hidden" name="back" value=(view.here);
    }
}

/// Links of which one is chosen: `(word, label)`, the word after `path`.
pub(in crate::web) fn switch(path: &str, choices: &[(&str, &str)], chosen: &str) -> Markup {
    html! {
        nav.switch aria-label="Choose" {
            @for (word, label) in choices {
                a href={ (path) (word) } aria-current=[(*word == chosen).then_some("true")] { (label) }
            }
        }
    }
}
