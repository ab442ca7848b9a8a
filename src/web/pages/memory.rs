//! A `CLAUDE.md`, of a group or of all: its text, to be changed, and its earlier texts.

use axum::{body::Body, extract::Path, http::Response};
use ipc_handlers::Folder;
use maud::{Markup, html};

use crate::{
    domain::kept::memories::{KeptAs, KeptMemory},
    ipc::{Memory, MemoryOf, read_memory},
    ops::{OpCode, OpError, groups::edit::of_memory},
    root::{kept_memories, kept_memory},
    web::{
        layout::{Failed, Page, Place, View},
        parts::{act, at, form, reveal, shown},
    },
};

/// How the one that all groups share is called in an address; no group has this name.
const ALL: &str = "global";

/// The longest text that a page shows, bytes.
const LONGEST_SHOWN: usize = 256 << 10;

/// Whose memory it is; `None`: that of all groups.
type Whose = Option<Folder>;

async fn whose(view: &View, name: &str) -> Result<Whose, Failed> {
    if name == ALL {
        return Ok(None);
    }
    let none = || Failed::not_found(format!("there is no group {name}"));
    let folder = Folder::parse(name).map_err(|_| none())?;
    view.web.desk.store.group(&folder).await?.ok_or_else(none)?;
    Ok(Some(folder))
}

fn path(whose: &Whose) -> String {
    format!("/groups/{}/memory", whose.as_ref().map_or(ALL, Folder::as_str))
}

fn command(whose: &Whose) -> &str {
    whose.as_ref().map_or("--global", Folder::as_str)
}

fn unreadable(error: &std::io::Error) -> Failed {
    OpError::new(OpCode::Failed, format!("data/memories can't be read: {error}")).into()
}

pub(in crate::web) async fn show(view: View, Path(name): Path<String>) -> Result<Response<Body>, Failed> {
    let whose = whose(&view, &name).await?;
    let (root, of) = (view.web.root.clone(), whose.clone());
    let (memory, kept) = view
        .web
        .world
        .blocking(move || {
            (read_memory(&root, MemoryOf::named(of.as_ref())), kept_memories(&root, of.as_ref()))
        })
        .await?;
    let kept = kept.map_err(|error| unreadable(&error))?;
    let body = html! {
        p.dim {
            @match &whose {
                Some(folder) => { a href={ "/groups/" (folder) } { "Group " (folder) } " · " a href={ "/groups/" (ALL) "/memory" } { "that of all groups" } }
                None => a href="/groups" { "All groups" },
            }
        }
        p { "What the agent is told of itself at the start of each run: its name, how it speaks, what it remembers where. " @if whose.is_none() { "All groups share this one." } }
        @match &memory {
            Ok(memory) => { (text(&view, &whose, memory)) }
            Err(error) => { div.item.problem { p { (shown(&of_memory(error, whose.as_ref()).to_string())) } } }
        }
        section {
            h2 { "Earlier texts" }
            @if kept.is_empty() { p.none { "None is kept. Each save keeps the text before, the newest 20." } } @else {
                (earlier(&view, &whose, memory.as_ref().ok(), &kept))
            }
        }
    };
    let title = whose
        .as_ref()
        .map_or_else(|| "CLAUDE.md of all".to_owned(), |folder| format!("CLAUDE.md of {folder}"));
    // It stays as it was opened: what is typed belongs to the text that was read.
    Ok(view.show(
        &Page::new(Place::Groups, format!("g2 groups edit {}", command(&whose)), body).titled(title).still(),
    ))
}

fn text(view: &View, whose: &Whose, memory: &Memory) -> Markup {
    let seen = shown(&memory.text);
    let hides = memory.text.replace('\r', "") != seen;
    let mut of = vec![("was", memory.digest.as_str())];
    of.extend(whose.as_ref().map(|folder| ("folder", folder.as_str())));
    html! {
        section {
            @if memory.text.len() > LONGEST_SHOWN {
                p.none { "It has more than " (LONGEST_SHOWN >> 10) " KiB, which is too much for a page: " code { "g2 groups edit " (command(whose)) } }
            } @else {
                @if hides { p { strong { "Some characters hide, or turn text around." } " They are left out here, and a save leaves them out of the file." } }
                (form(view, "groups.edit", &of, "text", &html! {
                    label.wide { span.hidden { "Text" }
                        // A browser takes the first end of a line away.
                        textarea name="arg-text" rows="24" required maxlength=(LONGEST_SHOWN) spellcheck="false" { "\n" (seen) } }
                    button.main { "Save" }
                }))
                @if let Some(folder) = whose { div.acts { (act(view, "groups.restart", &[("folder", folder.as_str())], "Ask its run to leave, so that the next one reads it")) } }
            }
        }
    }
}

fn earlier(view: &View, whose: &Whose, memory: Option<&Memory>, kept: &[KeptMemory]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "Number" } th { "Kept since" } th { "It" } th.num { "Bytes" } th { span.hidden { "Change" } } } }
            tbody { @for one in kept { tr {
                td { a href={ (path(whose)) "/" (one.version) } { (one.version) } }
                td { (at(one.at, view.now, &view.zone)) }
                td { (became(one.kept_as)) }
                td.num { (one.bytes) }
                td { @if let Some(memory) = memory { (back(view, whose, memory, one.version)) } }
            } } }
        } }
    }
}

fn back(view: &View, whose: &Whose, memory: &Memory, version: u64) -> Markup {
    let to = version.to_string();
    let mut of = vec![("to", to.as_str()), ("was", memory.digest.as_str())];
    of.extend(whose.as_ref().map(|folder| ("folder", folder.as_str())));
    reveal(view, "groups.back", &of, "Put back", "Put it in the place of the text of now")
}

fn became(kept_as: KeptAs) -> &'static str {
    match kept_as {
        KeptAs::Replaced => "was replaced",
        KeptAs::Unsaved => "was not saved: the file was another by then, or could not be written",
    }
}

pub(in crate::web) async fn one(
    view: View,
    Path((name, version)): Path<(String, u64)>,
) -> Result<Response<Body>, Failed> {
    let whose = whose(&view, &name).await?;
    let (root, of) = (view.web.root.clone(), whose.clone());
    let (memory, kept) = view
        .web
        .world
        .blocking(move || {
            (read_memory(&root, MemoryOf::named(of.as_ref())), kept_memory(&root, of.as_ref(), version))
        })
        .await?;
    let kept = kept.map_err(|error| unreadable(&error))?;
    let (kept, text) =
        kept.ok_or_else(|| Failed::not_found(format!("no text is kept with the number {version}")))?;
    let command = format!("g2 groups history {} --show {version}", command(&whose));
    let end = text.floor_char_boundary(LONGEST_SHOWN);
    let body = html! {
        p.dim { a href=(path(&whose)) { "The text of now" } }
        p { "Kept since " (at(kept.at, view.now, &view.zone)) "; it " (became(kept.kept_as)) "." }
        @if let Ok(memory) = &memory { div.acts { (back(&view, &whose, memory, version)) } }
        @if end < text.len() { p.dim { "The beginning of it. " code { (command) } " has all." } }
        pre.output tabindex="0" { (shown(&text[..end])) }
    };
    Ok(view.show(
        &Page::new(Place::Groups, command, body).titled(format!("Earlier CLAUDE.md, {version}")).still(),
    ))
}
