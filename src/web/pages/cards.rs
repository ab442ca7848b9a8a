//! Questions: those about strangers and new chats, with their answers, and those that agents ask in their chats.

use maud::{Markup, html};

use crate::{
    domain::heard::{
        approvals::{
            Approval, ApprovalKind,
            wording::{Groups, OF_MAIN},
        },
        questions::Question,
    },
    store::QuestionShown,
    web::{
        layout::{Failed, View},
        parts::{act, at, count, encoded, form, line, marked, shown},
    },
};

/// How much of a stranger's message a card has, characters.
const QUOTED: usize = 300;

/// Questions about strangers and new chats, with what their cards say.
#[derive(Default)]
pub(super) struct Cards {
    all: Vec<(Approval, QuestionShown)>,
    groups: Groups,
}

impl Cards {
    /// Reads the words that questions are about, and the groups that they may be about. Without a question nothing is read.
    pub(super) async fn read(view: &View, questions: Vec<Approval>) -> Result<Self, Failed> {
        if questions.is_empty() {
            return Ok(Self::default());
        }
        let store = &view.web.desk.store;
        let words = store.words_of_questions(&questions).await?;
        let groups = store.groups().await?.into_iter();
        let groups = groups.map(|group| (group.folder, group.name, group.is_main)).collect();
        Ok(Self { all: questions.into_iter().zip(words).collect(), groups })
    }

    /// Returns all cards.
    pub(super) fn all(&self, view: &View) -> Markup {
        html! { @for (question, words) in &self.all { (self.card(view, question, words)) } }
    }

    /// Returns the answers alone, for a chat in which the questions stand already.
    pub(super) fn answers_alone(&self, view: &View) -> Markup {
        html! {
            @for (question, _) in &self.all {
                article.card {
                    p { "Question " (question.id) ", about " (line(&question.sender_name, 60)) ":" }
                    (self.answers(view, question))
                }
            }
        }
    }

    fn card(&self, view: &View, question: &Approval, words: &QuestionShown) -> Markup {
        let is_asked = |folder: &str| question.groups.iter().any(|asked| asked == folder);
        let main = self
            .groups
            .main
            .as_ref()
            .filter(|(folder, _)| is_asked(folder.as_str()))
            .map(|(_, name)| line(name, 40));
        html! {
            article.card {
                p {
                    strong { (line(&question.sender_name, 60)) } " " span.dim { (line(&question.sender, 60)) }
                    " writes in " @if let Some(name) = &words.chat { strong { (line(name, 60)) } " " } code { (line(&question.chat_jid, 60)) }
                    @match question.kind {
                        ApprovalKind::Sender => { ". Is " @if question.groups.is_empty() { "the agent" } @else { (question.groups.join(", ")) } " to hear them?" @if let Some(main) = main { " Careful: " (main) " " (OF_MAIN) "." } }
                        ApprovalKind::Channel => ", which no group listens to. Connect it?",
                    }
                }
                blockquote.heard {
                    // What hides takes no place in what is shown.
                    @match words.text.as_deref().map(|text| (line(&shown(text), QUOTED), text.is_empty())) {
                        Some((text, _)) if !text.is_empty() => (text),
                        Some((_, true)) if words.files > 0 => span.none { (count(words.files, "file", "files")) },
                        Some((_, true)) => span.none { "The message has no text." },
                        Some(_) => span.none { "Nothing can be seen in the beginning of the message." },
                        None => span.none { "The message is gone." },
                    }
                }
                (self.answers(view, question))
                p.dim { "Question " (question.id) ", asked " (at(question.created_at, view.now, &view.zone)) ", open until " (at(question.expires_at, view.now, &view.zone)) ", " (count(question.messages.len(), "message waits", "messages wait")) }
            }
        }
    }

    fn answers(&self, view: &View, question: &Approval) -> Markup {
        let id = question.id.to_string();
        html! {
            div.acts {
                @match question.kind {
                    ApprovalKind::Channel => {
                        (form(view, "approvals.approve", &[("id", &id)], "group", &html! {
                            label { span.hidden { "Group for chat " (line(&question.chat_jid, 60)) }
                                // Nobody is given to an agent that nobody chose, least of all to main.
                                select name="arg-group" required {
                                    option value="" { "Choose a group" }
                                    @for (folder, name) in &self.groups.others { option value=(folder) { (line(name, 40)) } }
                                    @if let Some((folder, name)) = &self.groups.main { option value=(folder) { (line(name, 40)) " (" (OF_MAIN) ")" } }
                                } }
                            button { "Connect" }
                        }))
                        (form(view, "approvals.approve", &[("id", &id)], "new", &html! {
                            label { span.hidden { "Name of a new group" } input name="arg-new" required maxlength="64" placeholder="New group"; }
                            button { "Make and connect" }
                        }))
                        (act(view, "approvals.deny", &[("id", &id)], "Ignore"))
                    }
                    ApprovalKind::Sender => {
                        (act(view, "approvals.approve", &[("id", &id)], "Allow"))
                        (act(view, "approvals.deny", &[("id", &id)], "Deny"))
                    }
                }
            }
        }
    }
}

/// A question of an agent. The people of its chat answer it there.
pub(super) fn asked(view: &View, question: &Question) -> Markup {
    let chat = format!("/chats/{}?chat={}", question.group_folder, encoded(&question.chat_jid));
    html! {
        article.card {
            p {
                strong { (line(&question.group_folder, 40)) } " asks in "
                a href=(chat) { (line(&question.chat_jid, 60)) }
                @if !question.thread.is_empty() { " " span.dim { "in " (line(&question.thread, 30)) } }
            }
            div.text.marked { (marked(&question.question)) }
            @if !question.options.is_empty() { ol { @for option in &question.options { li { (shown(option)) } } } }
            p.dim {
                "Question #q" (question.id) ", asked " (at(question.asked_at, view.now, &view.zone)) ", open until " (at(question.expires_at, view.now, &view.zone))
                @if let Some(run) = question.run { ", by " a href={ "/runs/" (run) } { "run " (run) } }
            }
        }
    }
}
