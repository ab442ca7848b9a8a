//! Moving in and out: `g2 export`, `g2 import`.

mod broken;
mod import;
mod paths;
mod rehearse;
mod round;
mod samples;
mod sources;
mod untouched;
mod written;
