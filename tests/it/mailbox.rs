//! Commands as files: what is answered, what is shown, what stays, and that nothing is done twice.

mod bad_input;
mod commands;
mod lost;
mod order;
