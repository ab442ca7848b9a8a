//! What a hostile container can do, and what must be seen of it. `table.rs` says it, attack by attack: the program of
//! `tests/fixtures/hostile/` runs inside a real container, as its user, with the mounts that every agent has. All of
//! them share one daemon, while a neighbour goes on asking.

mod crowd;
mod deaths;
mod host;
mod ids;
mod instances;
mod lists;
mod model;
pub(crate) mod neighbour;
mod output;
mod place;
mod renames;
mod room;
mod scene;
mod searches;
mod table;
mod transcripts;
mod untouched;
