//! What agents write, and what arrives.

mod properties;
mod read;
mod shown;
