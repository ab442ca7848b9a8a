//! Moving in and out: `g2 import`, `g2 export`.

mod broken;
mod import;
mod round;
mod samples;
mod sources;
mod untouched;
mod written;
