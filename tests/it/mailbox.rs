//! Commands as files: their answers, the files that show and keep them, and that none is done twice.

mod bad_input;
mod changes;
mod commands;
mod descriptors;
mod groups;
mod limits;
mod lost;
mod order;
mod replies;
mod sessions;
mod unwatched;
