//! What pages share: texts of strangers, times, buttons that change something, charts.

mod charts;
mod forms;
mod qr;
mod text;
mod time;

pub(super) use charts::{bars, days, gauge, grouped};
pub(super) use forms::{act, form, form_to, hidden, reveal, sure, switch};
pub(super) use qr::qr;
pub(super) use text::{advice, count, encoded, line, marked, shown};
pub(super) use time::{at, at_or_dash, took};
