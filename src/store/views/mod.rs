//! What people ask about both halves. Nothing is written here.

pub(super) mod conversation;
pub(super) mod health;
pub(super) mod history;
pub(super) mod trace;
pub(super) mod turns;
pub(super) mod why;
