//! Devices: the browsers that are signed in, and the end of that.

use axum::{body::Body, http::Response};
use maud::html;

use crate::web::{
    layout::{Failed, Page, Place, View},
    parts::{act, at, at_or_dash, line},
};

pub(in crate::web) async fn show(view: View) -> Result<Response<Body>, Failed> {
    let sessions = view.web.desk.store.web_sessions(view.now)?;
    let own = view.visitor.session.id;
    let body = html! {
        p.dim { "Each browser that was let in. A ticket that is not used yet has no browser." }
        div.scroll { table {
            thead { tr { th { "Device" } th { "Browser" } th { "Ticket asked for by" } th { "Came in" } th { "Ends" } th { span.hidden { "Change" } } } }
            tbody { @for session in &sessions {
                @let id = session.id.to_string();
                tr {
                    td { (session.id) @if own == session.id { " " span.state { "this one" } } }
                    td { (session.browser.as_deref().map_or_else(|| "–".to_owned(), |browser| line(browser, 90))) }
                    td { (line(&session.opened_by, 60)) }
                    td { (at_or_dash(session.entered_at, view.now, &view.zone)) }
                    td { (at(session.ends_at, view.now, &view.zone)) }
                    td { (act(&view, "web.revoke", &[("id", &id)], "End")) }
                }
            } }
        } }
    };
    Ok(view.show(&Page::new(Place::Doctor, "g2 web sessions list", body).titled("Devices")))
}
