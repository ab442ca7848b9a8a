//! What a daemon that adopts a run does about the files of follow-ups that were handed over.

/// Whether the file of a follow-up was ever in its box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    Never,
    /// The daemon died while it placed it.
    Maybe,
    Surely,
}

/// How a follow-up is placed at an adoption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// It is not: the runner has it, or had it.
    Not,
    /// As for the first time.
    First,
    /// Once more. A runner of version 2 passes over what it has taken. Where this file lies there at the end, that proves nothing.
    Again,
}

/// Decides about one. A runner of version 1 (`forgets`) would take a file twice.
#[must_use]
pub fn publish(placed: Placed, forgets: bool) -> Publish {
    match (placed, forgets) {
        (Placed::Never, _) => Publish::First,
        (Placed::Maybe, false) => Publish::Again,
        (Placed::Maybe, true) | (Placed::Surely, _) => Publish::Not,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_there_is_placed_and_what_may_have_been_taken_is_given_to_nobody_who_forgets() {
        for (placed, ours, theirs) in [
            (Placed::Never, Publish::First, Publish::First),
            (Placed::Maybe, Publish::Again, Publish::Not),
            (Placed::Surely, Publish::Not, Publish::Not),
        ] {
            assert_eq!((publish(placed, false), publish(placed, true)), (ours, theirs), "{placed:?}");
        }
    }
}
