//! Moving in and out.

mod broken;
mod samples;
mod sources;
mod untouched;
