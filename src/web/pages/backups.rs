//! Backups: those in the folder of the daily backup, what became of the last one, and one more at once.

use std::path::PathBuf;

use axum::{body::Body, http::Response};
use maud::{Markup, html};

use crate::{
    domain::{
        kept::backups::{Due, Whole},
        shown::{errors::chain, screen::quoted},
    },
    loops::backups::{OnShelf, Stand, on_the_shelf, stand},
    web::{
        layout::{Failed, Page, Place, View},
        parts::{act, at, count, grouped, line, shown},
    },
};

/// How many backups are shown, the newest.
const MOST: usize = 100;

pub(in crate::web) async fn show(view: View) -> Result<Response<Body>, Failed> {
    let config = view.web.config.now();
    let stand = stand(&view.web.desk.store, &config, view.now)?;
    let to = config.backup.to.as_ref().map(|to| view.web.root.join(to));
    let body = match (&stand, to) {
        (Some(stand), Some(to)) => {
            let (root, folder) = (view.web.root.clone(), to.clone());
            let found = view.web.world.blocking(move || on_the_shelf(&root, &folder, MOST)).await?;
            html! {
                @let is_empty = found.as_ref().is_ok_and(|(_, all)| *all == 0);
                (daily(&view, stand, is_empty, (config.backup.keep, config.backup.with_secrets)))
                section {
                    h2 { "In " code { (line(&to.display().to_string(), 200)) } }
                    @match &found {
                        Ok((files, all)) => (list(files, *all)),
                        Err(error) => p.none { "The folder can’t be read: " (shown(&chain(error.as_ref()))) },
                    }
                }
                (restoring(found.ok().and_then(|(files, _)| files.into_iter().next().map(|one| one.file))))
            }
        }
        _ => html! {
            p.none { "No folder is named for backups, so the daemon makes none." }
            p { code { "g2 config set backup.to DIR" } " names one, on this machine: a backup each day is put there. " code { "g2 backup FILE" } " makes one by itself." }
            (restoring(None))
        },
    };
    let page = Page::new(Place::Backups, "g2 backup --now", body);
    Ok(view.show(&page.every(5)))
}

fn daily(view: &View, stand: &Stand, is_empty: bool, (keep, with_secrets): (usize, bool)) -> Markup {
    html! {
        section {
            h2 { "The daily backup" }
            @match (&stand.failure, &stand.lacks) {
                (Some(why), _) => div.item.problem { p { "The last one failed" @if let Some(failed) = stand.past.failed { ", " (at(failed, view.now, &view.zone)) } ": " (shown(why)) } p.dim { "It is tried again each hour." } },
                (None, Some((looked, parts))) => div.item.problem {
                    p { "The last one lacks " (count(parts.len(), "folder", "folders")) " for want of room, as of " (at(*looked, view.now, &view.zone)) ":" }
                    ul { @for part in parts.iter().take(MOST) { li { code { (line(part, 120)) } } } }
                },
                (None, None) if is_empty => p.none { "None was made yet." },
                (None, None) => p { span.good { "✓" } " The last one went well, and has all folders." },
            }
            dl.facts {
                div { dt { "Next" } dd { @match stand.next { Due::Now => "now", Due::NotBefore(next) => (at(next, view.now, &view.zone)) } } }
                div { dt { "Kept" } dd { (keep) ": of several of one day the older ones go first, then the oldest" } }
                div { dt { "Keys and tokens" } dd { @if with_secrets { "in it" } @else { "not in it: keep .env and data/secrets/ elsewhere" } } }
            }
            @match stand.past.wanted {
                Some(wanted) => p role="status" { "One was asked for " (at(wanted, view.now, &view.zone)) " and is not made yet." },
                None => (act(view, "backup.now", &[], "Make one now")),
            }
        }
    }
}

fn list(files: &[OnShelf], all: usize) -> Markup {
    html! {
        @if files.is_empty() { p.none { "No backup is there yet." } } @else {
            div.scroll tabindex="0" { table.cards {
                thead { tr { th { "File" } th { "Has" } th.num { "Size" } } }
                tbody { @for one in files { tr {
                    td data-of="File" { code { (line(&one.file.file_name().unwrap_or_default().to_string_lossy(), 200)) } }
                    td data-of="Has" { @match one.whole { Whole::Yes => "everything", Whole::No => span.state data-is="held" { "not all groups’ folders" } } }
                    td.num data-of="Size" { (grouped(one.bytes.div_ceil(1024))) " KiB" }
                } } }
            } }
            @if all > files.len() { p.dim { "The newest " (files.len()) " of " (all) "." } }
        }
    }
}

/// How a root is made of a backup, which is done in a terminal.
fn restoring(newest: Option<PathBuf>) -> Markup {
    let file = newest.map_or_else(|| "FILE".to_owned(), |file| quoted(&file.display().to_string()));
    html! {
        section {
            h2 { "Restoring" }
            p { "A backup is restored in a terminal, into a new folder; the daemon of the old one must not run then." }
            pre.output tabindex="0" { "g2 restore --check " (file) "\ng2 --root NEW restore " (file) }
        }
    }
}
