//! A JavaScript pattern as a tree.

use super::class::Units;

/// A pattern as a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// One unit of the set.
    Set(Units),
    /// A place in the text; takes no unit.
    Assertion(Assertion),
    Sequence(Vec<Node>),
    /// One of several; there is at least one.
    Either(Vec<Node>),
    /// A capturing group; they are numbered by their opening, from 1.
    Capture(Box<Node>),
    /// `max` is `None` when there is no bound.
    Repeat {
        body: Box<Node>,
        min: usize,
        max: Option<usize>,
        greed: Greed,
    },
    /// `id` numbers the look-arounds from 0 by their closing, so inner ones come first.
    Look {
        id: usize,
        direction: Direction,
        wanted: Wanted,
        body: Box<Node>,
    },
    /// The text of these groups, one after the other; a group that has not taken part has none.
    Reference(Vec<usize>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assertion {
    Start,
    End,
    WordBoundary,
    NoWordBoundary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greed {
    Greedy,
    Lazy,
}

/// Where a look-around looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Ahead,
    Behind,
}

/// Whether a look-around asks that its body is found or that it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Found,
    Absent,
}

/// A pattern and its parts.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) root: Node,
    pub(super) references: usize,
    pub(super) looks: usize,
    /// How deep look-arounds nest; 0 when there are none.
    pub(super) look_depth: usize,
}
