//! The queue of commands in people's hands: looked at, held, tried again, dropped, put in; with the daemon up or down.

mod by_hand;
mod holds;
mod looks;
