//! Which of the waiting messages make the next batch.

use std::collections::VecDeque;

use super::{EditOf, Forward, PromptMessage, escape};

/// A message as one wiring sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its inbox number; rows are ordered by it.
    pub n: i64,
    pub waking: Waking,
    pub message: PromptMessage,
}

/// Whether a message asks for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// It engaged the agent: it reaches the prompt, in this batch or in a later one.
    Wakes,
    /// It was accumulated: it reaches the prompt only beside one that wakes, and only if it is recent.
    Context,
}

/// Bounds on one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Messages of either kind.
    pub messages: usize,
    /// Bytes of the formatted prompt.
    pub bytes: usize,
    /// Context messages; `MAX_MESSAGES_PER_PROMPT`.
    pub context: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { messages: 200, bytes: 256 * 1024, context: 10 }
    }
}

/// The next batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection<'r> {
    /// Oldest first.
    pub rows: Vec<&'r Row>,
    /// The first inbox number that the batch covers; it may be that of a row left out.
    pub first: i64,
    /// The last inbox number that the batch covers: where the cursor moves.
    pub last: i64,
    /// How many context messages are covered and not shown.
    pub left_out: usize,
}

/// Room for the header, the line about what was left out, and the tags around the messages.
const FRAME_BYTES: usize = 256;

/// Returns the next batch of what waits after the cursor, or `None` while nothing there asks for an answer.
///
/// `waiting` is ordered by inbox number. Every waking message is taken, oldest first, until a bound is reached; the
/// rest waits for the next batch. With them go the newest context messages that came before the last of them. What
/// came after it stays for later. The first waking message is always taken, even if it alone is over the bounds; then
/// there is no context.
#[must_use]
pub fn select(waiting: &[Row], limits: Limits) -> Option<Selection<'_>> {
    let mut taken = Taken::default();
    let mut best: Option<(usize, Taken)> = None;
    for (index, row) in waiting.iter().enumerate() {
        taken.push(index, row, limits.context);
        if row.waking == Waking::Context {
            continue;
        }
        if best.is_none() {
            taken.drop_context_until_it_fits(limits);
        } else if !taken.fits(limits) {
            break;
        }
        best = Some((index, taken.clone()));
    }
    let (last, taken) = best?;
    let shown = taken.in_order();
    Some(Selection {
        first: waiting.first()?.n,
        last: waiting.get(last)?.n,
        left_out: last + 1 - shown.len(),
        rows: shown.into_iter().filter_map(|index| waiting.get(index)).collect(),
    })
}

/// A batch in the making: indices and their sizes in bytes.
#[derive(Clone, Default)]
struct Taken {
    waking: Vec<(usize, usize)>,
    context: VecDeque<(usize, usize)>,
    bytes: usize,
}

impl Taken {
    fn push(&mut self, index: usize, row: &Row, most_context: usize) {
        let bytes = formatted_bytes(&row.message);
        self.bytes += bytes;
        match row.waking {
            Waking::Wakes => self.waking.push((index, bytes)),
            Waking::Context => {
                self.context.push_back((index, bytes));
                if self.context.len() > most_context {
                    self.drop_oldest_context();
                }
            }
        }
    }

    fn drop_oldest_context(&mut self) {
        if let Some((_, bytes)) = self.context.pop_front() {
            self.bytes -= bytes;
        }
    }

    fn fits(&self, limits: Limits) -> bool {
        self.waking.len() + self.context.len() <= limits.messages && self.bytes + FRAME_BYTES <= limits.bytes
    }

    fn drop_context_until_it_fits(&mut self, limits: Limits) {
        while !self.fits(limits) && !self.context.is_empty() {
            self.drop_oldest_context();
        }
    }

    fn in_order(&self) -> Vec<usize> {
        let mut indices: Vec<usize> =
            self.waking.iter().chain(&self.context).map(|(index, _)| *index).collect();
        indices.sort_unstable();
        indices
    }
}

/// Returns how many bytes a message takes in the prompt, or a few more.
fn formatted_bytes(message: &PromptMessage) -> usize {
    /// Tags, attribute names, the time and the line end, with a quote.
    const MARKUP_BYTES: usize = 160;
    /// The folder that its path is below, and its part of the attributes.
    const FILE_BYTES: usize = 512;
    /// The names of the attributes and elements of what v1 does not tell.
    const MORE_BYTES: usize = 128;
    let fields = [
        &message.reply_to_id,
        &message.reply_to_text,
        &message.reply_to_sender,
        &message.answered.quote,
        &message.answered.chat,
    ];
    let mut optional: usize = fields.into_iter().flatten().map(|text| MORE_BYTES + escape(text).len()).sum();
    if let Some(Forward { from, comment }) = &message.forward {
        optional += MORE_BYTES + escape(from).len() + escape(comment).len();
    }
    if let Some(EditOf { id, before }) = &message.edit {
        optional += MORE_BYTES + escape(id).len() + before.as_deref().map_or(0, |text| escape(text).len());
    }
    if message.answered_file.is_some() {
        optional += FILE_BYTES;
    }
    let files: usize = message
        .files
        .iter()
        .map(|file| {
            FILE_BYTES
                + escape(&file.file.line(&file.path)).len()
                + file.file.read().map_or(0, |read| escape(&read).len() + 1)
        })
        .sum();
    files + MARKUP_BYTES + escape(&message.sender_name).len() + escape(&message.text).len() + optional
}
