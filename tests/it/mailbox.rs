//! Commands as files: what is answered, what is shown, what stays, and that nothing is done twice.

mod bad_input;
mod changes;
mod commands;
mod groups;
mod limits;
mod lost;
mod order;
mod sessions;
mod unwatched;
