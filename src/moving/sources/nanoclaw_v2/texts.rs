//! What agents said: texts for chats, and how far each came.

use serde_json::Value;

use super::{
    super::parts::{key, keyed, read_json, told},
    NanoclawV2,
    content::text_of,
    receipts::{Delivered, Noted, Opened, delivered},
    sessions::Session,
};
use crate::{
    domain::moved::{
        findings::Finding,
        rows::{Kind, Row, Said, Text},
    },
    moving::{
        foreign::Read,
        moment,
        source::{Batch, MOST_ROWS},
    },
};

const OUT: [&str; 9] = [
    "id",
    "in_reply_to",
    "timestamp",
    "deliver_after",
    "kind",
    "platform_id",
    "channel_type",
    "thread_id",
    "content",
];

impl NanoclawV2 {
    pub(super) fn read_outbound(
        &mut self,
        outbound: &Opened,
        inbound: Option<&Opened>,
        session: &Session,
        out: &mut Batch,
    ) -> anyhow::Result<()> {
        let mut after = i64::MIN;
        loop {
            let page = outbound.store.page("messages_out", &OUT, after, MOST_ROWS);
            let delivered = delivered(inbound, &page.rows, &self.zone);
            told(&format!("{}: messages_out", session.id), &page, Kind::Text, &mut out.findings);
            for row in &page.rows {
                match self.text(row, session, &delivered) {
                    Ok(None) => {}
                    Ok(Some(text)) => {
                        let id = key(row.text("id")).unwrap_or_default();
                        let key = format!("{:015} {} {id}", text.created_at.0, text.chat);
                        let row = keyed(format!("{} {id}", session.id), Row::Text(Box::new(text)));
                        self.order.add(&key, &serde_json::to_string(&row)?)?;
                    }
                    Err(why) => {
                        let told = format!("{}: messages_out row {}", session.id, row.number);
                        out.findings.push(Finding::left(Kind::Text, told, why));
                    }
                }
            }
            self.bound_told(out);
            match page.next {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
    }

    /// A text for a chat; `None`: it is a word between host and agent.
    fn text(
        &self,
        row: &Read,
        session: &Session,
        delivered: &Noted<Delivered>,
    ) -> Result<Option<Text>, &'static str> {
        if row.too_long || row.has_bytes() {
            return Err("it is longer than a text is, or no text");
        }
        if row.text("kind").as_deref() == Some("system") {
            return Ok(None);
        }
        let id = key(row.text("id"))?;
        let (chat, thread) = self.place(row, session)?;
        let content = row.text("content").unwrap_or_default();
        let read = read_json(&content).unwrap_or(Value::String(content));
        let text = match &read {
            Value::String(text) => Some(text.clone()),
            other => text_of(other, &["text", "markdown", "question", "title"]),
        };
        let text = text.filter(|text| !text.is_empty()).ok_or("it has no text")?;
        let created_at =
            row.text("timestamp").and_then(|at| moment::read(&at, &self.zone)).ok_or("its time is none")?;
        let known = delivered.by_id.get(&id);
        let (state, error) = match known {
            Some(Delivered { failed: false, .. }) => (Said::Sent, None),
            Some(Delivered { failed: true, .. }) => (Said::Failed, Some("its program could not deliver it")),
            None if !delivered.is_all => (Said::Failed, Some("nobody knows whether it was delivered")),
            None => {
                self.may_be_said(row, session, &chat)?;
                (Said::Unsent, None)
            }
        };
        Ok(Some(Text {
            chat,
            thread,
            group: Some(session.group.clone()),
            text,
            sender: None,
            reply_to: None,
            state,
            cause: "it moved in".into(),
            run: None,
            created_at,
            sent_at: (state == Said::Sent).then(|| known.and_then(|known| known.at).unwrap_or(created_at)),
            error: error.map(str::to_owned),
            ids: known.and_then(|known| known.platform_id.clone()).into_iter().collect(),
            files: Vec::new(),
        }))
    }

    /// Its host delivers a text once it is due, and to chats that its agent has a right to.
    fn may_be_said(&self, row: &Read, session: &Session, chat: &str) -> Result<(), &'static str> {
        if session.chat.as_deref() != Some(chat) && !self.central.may_write(&session.group, chat) {
            return Err("it is not sent, and its agent has no right to its chat");
        }
        let due = row.text("deliver_after").filter(|at| !at.is_empty());
        match due.map(|at| moment::read(&at, &self.zone)) {
            Some(at) if at.is_none_or(|at| at > self.now) => Err("it was to be sent later"),
            Some(_) | None => Ok(()),
        }
    }
}
