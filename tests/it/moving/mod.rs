//! Moving in and out: `g2 export`, `g2 import`.

mod broken;
mod docs;
mod import;
mod moved_in;
mod paths;
mod rehearse;
mod round;
pub(crate) mod samples;
mod sources;
mod untouched;
mod written;
