//! What comes in: order, stamps and ids of every kind, many at once, and input that is bad.

mod bad_input;
mod cursors;
