//! One group: its chats, the people whom it knows, its folder, its settings, and its end.

use axum::{body::Body, extract::Path, http::Response};
use ipc_handlers::{
    Folder,
    effect::{EngageMode, IgnoredMessages, SenderScope},
};
use maud::{Markup, html};

use crate::{
    config::Config,
    domain::{
        kept::folders::Stands,
        rows::{Group, Member, User, Wiring},
        runs::{
            group_config::{GroupConfig, Key, Say},
            run_settings::Provider,
        },
    },
    ops::groups::{set::digest_of, stands_of},
    web::{
        act::SURE,
        layout::{Failed, Page, Place, View},
        parts::{act, advice, at, encoded, form, form_to, line, reveal, shown},
    },
};

/// How many members and wirings are shown.
const MOST: usize = 200;

pub(in crate::web) async fn show(view: View, Path(group): Path<String>) -> Result<Response<Body>, Failed> {
    let none = || Failed::not_found(format!("there is no group {group}"));
    let folder = Folder::parse(&group).map_err(|_| none())?;
    let store = &view.web.desk.store;
    let row = store.group(&folder).await?.ok_or_else(none)?;
    let wirings = store.newest_wirings_of(&folder, MOST).await?;
    let members = store.newest_members(Some(&folder), Some(MOST)).await?;
    let admins = store.newest_admins(&folder, MOST).await?;
    let (root, of, had) = (view.web.root.clone(), folder.clone(), store.folder_had_files(&folder)?);
    let stands = view.web.world.blocking(move || stands_of(&root, &of, had)).await?;
    let body = html! {
        p.dim {
            a href="/groups" { "All groups" } " · "
            a href={ "/chats/" (folder) } { "chat" } " · "
            a href={ "/groups/" (folder) "/memory" } { "CLAUDE.md" } " · "
            a href={ "/conversations?group=" (folder) } { "conversations" } " · "
            a href={ "/runs?group=" (folder) } { "runs" }
        }
        dl.facts {
            div { dt { "Name" } dd { (line(&row.name, 60)) @if row.is_main { " " span.state { "main" } } } }
            div { dt { "Its folder" } dd { code { "groups/" (folder) } } }
            div { dt { "Its sessions" } dd { code { "data/sessions/" (folder) } } }
        }
        div.acts { (act(&view, "groups.restart", &[("folder", folder.as_str())], "Ask its run to leave")) }
        @match &stands {
            Ok(Stands::Lost) => (lost(&view, &folder)),
            Ok(_) => {}
            // Whatever is the matter with its folder, the group can be changed.
            Err(error) => { div.item.problem { p { (shown(&error.to_string())) } } }
        }
        (chats(&view, &folder, &wirings))
        (people(&view, &folder, &members, &admins))
        (settings(&view, &row))
        @if !row.is_main { (end(&view, &folder)) }
    };
    let page = Page::new(Place::Groups, format!("g2 groups show {folder}"), body);
    Ok(view.show(&page.titled(line(&row.name, 60))))
}

/// The group has lost its folder.
fn lost(view: &View, folder: &Folder) -> Markup {
    let of = [("folder", folder.as_str())];
    html! {
        div.item.problem {
            p { "The group has lost " code { "groups/" (folder) } ": it is missing or empty. Nothing is launched until it is back." }
            div.acts {
                (act(view, "groups.restore", &of, "Take it from the newest backup"))
                (reveal(view, "groups.renew", &of, "Begin anew", "Give it an empty folder"))
            }
        }
    }
}

fn choice<'a>(name: &str, words: impl Iterator<Item = &'a str>, now: &str) -> Markup {
    html! { select name={ "arg-" (name) } { @for word in words { option value=(word) selected[word == now] { (word) } } } }
}

fn chats(view: &View, folder: &Folder, wirings: &[Wiring]) -> Markup {
    let modes = || EngageMode::CHOICES.iter().map(|(word, _)| *word);
    let scopes = || SenderScope::CHOICES.iter().map(|(word, _)| *word);
    let ignored = || IgnoredMessages::CHOICES.iter().map(|(word, _)| *word);
    html! {
        section {
            h2 { "Chats" }
            p.dim { "A chat wakes the agent by " code { "engage" } ": messages that match the pattern, those that mention it, or a mention and then the whole thread." }
            @if wirings.is_empty() { p.none { "The group listens to no chat." } }
            @for wiring in wirings {
                @let of = [("group", folder.as_str()), ("chat", wiring.chat_jid.as_str())];
                article.item {
                    p {
                        a href={ "/chats/" (folder) "?chat=" (encoded(&wiring.chat_jid)) } { (line(&wiring.chat_jid, 80)) }
                        " " span.dim { "engages on " (wiring.engage_mode) @if let Some(pattern) = &wiring.engage_pattern { " " code { (line(pattern, 80)) } } ", senders: " (wiring.sender_scope) ", other messages: " (wiring.ignored_message_policy) }
                    }
                    div.acts {
                        // One setting a button: what somebody changed meanwhile stays.
                        (form(view, "wirings.set", &of, "engage", &html! {
                            label { span.hidden { "What wakes the agent in " (line(&wiring.chat_jid, 60)) } (choice("engage", modes(), wiring.engage_mode.as_str())) }
                            label { span.hidden { "Pattern" } input name="arg-pattern" placeholder="pattern" maxlength="1000"; }
                            button { "Engage" }
                        }))
                        (form(view, "wirings.set", &of, "sender_scope", &html! {
                            label { span.hidden { "Senders who wake it" } (choice("sender_scope", scopes(), wiring.sender_scope.as_str())) }
                            button { "Set senders" }
                        }))
                        (form(view, "wirings.set", &of, "ignored", &html! {
                            label { span.hidden { "Messages that do not wake it" } (choice("ignored", ignored(), wiring.ignored_message_policy.as_str())) }
                            button { "Set others" }
                        }))
                        @if !wiring.sticky.is_empty() { (act(view, "wirings.unstick", &of, "Wait for a mention again")) }
                        (reveal(view, "wirings.remove", &of, "Remove", "Remove this wiring"))
                    }
                }
            }
            @if wirings.len() == MOST { p.dim { "The newest " (MOST) ". " code { "g2 wirings list --group " (folder) } " has all." } }
            (form(view, "wirings.add", &[("group", folder.as_str())], "chat", &html! {
                label { span.hidden { "Chat to listen to" } input name="arg-chat" required maxlength="512" placeholder="local:family"; }
                label { span.hidden { "What wakes the agent" } select name="arg-engage" { option value="" { "as fits the chat" } @for word in modes() { option value=(word) { (word) } } } }
                label { span.hidden { "Pattern" } input name="arg-pattern" placeholder="pattern" maxlength="1000"; }
                label { span.hidden { "Senders who wake it" } (choice("sender_scope", scopes(), SenderScope::default().as_str())) }
                label { span.hidden { "Messages that do not wake it" } (choice("ignored", ignored(), IgnoredMessages::default().as_str())) }
                button { "Connect a chat" }
            }))
        }
    }
}

fn people(view: &View, folder: &Folder, members: &[Member], admins: &[User]) -> Markup {
    html! {
        section {
            h2 { "People" }
            p.dim { "The group knows its members and admins, and owners. " a href="/people" { "Everybody’s roles" } }
            @if members.is_empty() && admins.is_empty() { p.none { "The group knows nobody by name." } } @else {
                div.scroll { table {
                    thead { tr { th { "Name" } th { "Id" } th { "Is" } th { "Since" } th { span.hidden { "Change" } } } }
                    tbody {
                        @for admin in admins {
                            tr {
                                td { (line(&admin.name, 40)) }
                                td { code { (line(&admin.id, 60)) } }
                                td { "admin" }
                                td { (at(admin.created_at, view.now, &view.zone)) }
                                td { (reveal(view, "users.role", &[("id", &admin.id), ("role", "none"), ("group", folder.as_str())], "No admin", "Take the role away")) }
                            }
                        }
                        @for member in members {
                            tr {
                                td { (line(&member.name, 40)) }
                                td { code { (line(&member.user, 60)) } }
                                td { "member" span.dim { ", by " (line(&member.added_by, 40)) } }
                                td { (at(member.added_at, view.now, &view.zone)) }
                                td { div.acts {
                                    (reveal(view, "users.role", &[("id", &member.user), ("role", "admin"), ("group", folder.as_str())], "Make admin", "Make them an admin of the group"))
                                    (reveal(view, "members.remove", &[("group", folder.as_str()), ("user", &member.user)], "Remove", "Remove them"))
                                } }
                            }
                        }
                    }
                } }
            }
            @if members.len() == MOST { p.dim { "The newest " (MOST) " members. " code { "g2 members list --group " (folder) } " has all." } }
            @if admins.len() == MOST { p.dim { "The newest " (MOST) " admins. " code { "g2 users list" } " has all." } }
            (form(view, "members.add", &[("group", folder.as_str())], "user", &html! {
                label { span.hidden { "User id of a new member" } input name="arg-user" required placeholder="tg:12345" maxlength="200"; }
                button { "Add a member" }
            }))
        }
    }
}

fn settings(view: &View, row: &Group) -> Markup {
    let config = view.web.config.now();
    html! {
        section #settings {
            h2 { "Settings" }
            @match row.config() {
                Err(bad) => div.item.problem { p { (shown(&bad.to_string())) } },
                Ok(own) => {
                    p.dim { "Changes of name, trigger, seen, bots, commands and budget hold at once. All others hold from the next run, and a live run is asked to leave." }
                    div.scroll { table {
                        thead { tr { th { "Setting" } th { "Now" } th { span.hidden { "Change" } } } }
                        tbody { @for (word, key) in Key::CHOICES { (setting(view, row, &own, (word, *key), &config)) } }
                    } }
                }
            }
        }
    }
}

fn setting(view: &View, row: &Group, own: &GroupConfig, (word, key): (&str, Key), config: &Config) -> Markup {
    let (now, usual) = (row.setting(own, key), usual(config, key));
    let (field, words) = (format!("arg-settings.{word}"), key.words());
    let value = now.as_deref().unwrap_or_default();
    let is_long = matches!(key, Key::Mounts | Key::Mcp);
    // A list is replaced as a whole: what came to it meanwhile would be lost.
    let (was, seen) = (format!("was.{word}"), digest_of(now.as_deref()));
    let of = [("folder", row.folder.as_str()), (was.as_str(), seen.as_str())];
    let of = if is_long { &of[..] } else { &of[..1] };
    let setting = format!("settings.{word}");
    let default = [of, &[(setting.as_str(), "")]].concat();
    html! {
        tr {
            td { code { (word) } p.dim { (advice(key.help())) } }
            td { @match &now { Some(now) => { @if is_long { pre { (shown(now)) } } @else { (line(now, 120)) } }, None => span.dim { "default: " (line(&usual, 80)) } } }
            td { div.acts {
                (form(view, "groups.set", of, word, &html! {
                    label {
                        span.hidden { "New value of " (word) }
                        @if !words.is_empty() {
                            select name=(field) { @for choice in &words { option value=(choice) selected[*choice == now.as_deref().unwrap_or(&usual)] { (choice) } } }
                        } @else if is_long {
                            textarea name=(field) rows="3" cols="30" maxlength="60000" { (value) }
                        } @else {
                            input name=(field) value=(value) maxlength="1000" placeholder=(line(&usual, 30));
                        }
                    }
                    @if key == Key::Mounts { label.check { input type="checkbox" name=(SURE) value="true"; " The agent may change folders that are not read-only" } }
                    button { "Set" }
                }))
                @if now.is_some() && !matches!(key, Key::Name | Key::Trigger) {
                    (act(view, "groups.set", &default, "Default"))
                }
            } }
        }
    }
}

/// What groups have that set nothing of their own, in words.
fn usual(config: &Config, key: Key) -> String {
    let all = config.run_settings();
    let bounded = |bound: Option<String>| bound.unwrap_or_else(|| "no limit".into());
    match key {
        Key::Name | Key::Trigger | Key::ModelFallback | Key::Seen | Key::Mounts | Key::Mcp => "none".into(),
        Key::Provider => all.provider.as_str().into(),
        Key::Script => {
            let script = config.agent.script.as_ref().filter(|_| all.provider == Provider::Scripted);
            script.map_or_else(|| "none".into(), |path| path.display().to_string())
        }
        Key::Image => all.image,
        Key::Model => all.model.unwrap_or_else(|| "the agent’s own choice".into()),
        Key::Timeout => all.ceiling_ms.to_string(),
        Key::MemoryMib => bounded(all.memory_bytes.map(|bytes| (bytes >> 20).to_string())),
        Key::Cpus => bounded(all.cpus.map(|cpus| cpus.to_string())),
        Key::Pids => bounded(all.pids.map(|pids| pids.to_string())),
        Key::Network => all.network.as_str().into(),
        Key::Egress => all.egress.as_str().into(),
        Key::Credentials => all.credentials.as_str().into(),
        Key::Timezone => config.zone.name.clone(),
        Key::Say => Say::default().as_str().into(),
        Key::Bots => crate::domain::heard::bots::Bots::default().as_str().into(),
        Key::Commands => crate::domain::heard::chat_commands::Commands::default().as_str().into(),
        Key::BudgetRequests | Key::BudgetTokens | Key::BudgetMoney | Key::BudgetMinutes => {
            "no limit of its own".into()
        }
    }
}

fn end(view: &View, folder: &Folder) -> Markup {
    html! {
        section {
            h2 { "Remove the group" }
            p.dim { "Its agent leaves. Its wirings, tasks, members and mailbox go for good; " code { "groups/" (folder) } ", archived conversations and the earlier texts of its CLAUDE.md stay." }
            details.sure id={ "remove/" (folder) } {
                summary { "Remove…" }
                (form_to(view, "/groups", "groups.remove", (&[("folder", folder.as_str())], "sure"), &html! {
                    label { "Type " code { (folder) } " " input name=(SURE) required autocomplete="off" maxlength="64"; }
                    button.danger { "Remove it for good" }
                }))
            }
        }
    }
}
