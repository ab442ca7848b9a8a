//! Decisions. Nothing here waits, reads a clock, or touches the world: values and `now` go in, values come out.
