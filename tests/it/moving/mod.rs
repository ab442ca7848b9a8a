//! Moving in and out: `g2 export`, `g2 import`.

mod import;
mod round;
mod written;
