//! What agents said: texts for chats, and how far each came.

use std::collections::BTreeMap;

use ipc_handlers::Time;
use serde_json::Value;

use super::{
    super::parts::{key, keyed, read_json, told},
    NanoclawV2,
    content::text_of,
    sessions::Session,
};
use crate::{
    domain::moved::{
        findings::Finding,
        rows::{Kind, Row, Said, Text},
    },
    moving::{
        foreign::{Foreign, Read},
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

/// A text that was delivered, or was not.
pub(super) struct Delivered {
    pub failed: bool,
    pub at: Option<Time>,
    pub platform_id: Option<String>,
}

impl NanoclawV2 {
    pub(super) fn read_outbound(
        &mut self,
        store: &Foreign,
        session: &Session,
        delivered: &BTreeMap<String, Delivered>,
        out: &mut Batch,
    ) -> anyhow::Result<()> {
        let mut after = i64::MIN;
        loop {
            let page = store.page("messages_out", &OUT, after, MOST_ROWS);
            told(&format!("{}: messages_out", session.id), &page, Kind::Text, &mut out.findings);
            for row in &page.rows {
                match self.text(row, session, delivered) {
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
        delivered: &BTreeMap<String, Delivered>,
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
        let known = delivered.get(&id);
        let state = match known {
            Some(Delivered { failed: false, .. }) => Said::Sent,
            Some(Delivered { failed: true, .. }) => Said::Failed,
            None => Said::Unsent,
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
            error: (state == Said::Failed).then(|| "its program could not deliver it".to_owned()),
            ids: known.and_then(|known| known.platform_id.clone()).into_iter().collect(),
            files: Vec::new(),
        }))
    }
}
