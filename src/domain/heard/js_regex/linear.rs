//! Runs a pattern without back-references in time proportional to pattern times text, whatever it looks like.
//!
//! Only whether it matches is asked, so all ways through the pattern are followed at once and nothing is ever tried
//! twice. A look-around is answered for every place of the text by one pass of its own: a look-behind forwards, a
//! look-ahead backwards. Inner ones come first; to the outer they are tables.

use super::{
    PatternError, TooMuchWork,
    class::Units,
    tree::{Assertion, Direction, Node, Tree, Wanted},
};

/// How many instructions a pattern may become, repeats written out.
const MAX_INSTRUCTIONS: usize = 20_000;
/// How many steps of the compiler that may take.
const MAX_COMPILE_STEPS: usize = 100_000;
/// How many instructions may be executed on one text.
const MAX_STEPS: usize = 10_000_000;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    main: Program,
    /// By the id of the look-around; `None` for one that no way through the pattern meets.
    looks: Vec<Option<Program>>,
}

/// One pass over the text.
#[derive(Clone, Debug)]
struct Program {
    code: Vec<Op>,
    sets: Vec<Set>,
    direction: Direction,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Takes one unit that is in the set of this index.
    Set(usize),
    Split(usize, usize),
    Jump(usize),
    Assertion(Assertion),
    Look(usize, Wanted),
    Accept,
}

/// A set of units, made for asking: ASCII as bits, the rest as ranges.
#[derive(Clone, Debug)]
struct Set {
    ascii: u128,
    units: Units,
}

impl Linear {
    /// Returns the compiled pattern.
    ///
    /// # Errors
    /// `TooComplex` when it has more than [`MAX_INSTRUCTIONS`].
    pub(super) fn compile(tree: &Tree) -> Result<Self, PatternError> {
        let mut compiler = Compiler { looks: vec![None; tree.looks], steps: 0 };
        let main = compiler.program(&tree.root, Direction::Behind)?;
        Ok(Self { main, looks: compiler.looks })
    }

    /// Returns whether the pattern is found anywhere in the text.
    ///
    /// # Errors
    /// [`TooMuchWork`] after [`MAX_STEPS`].
    pub(super) fn test(&self, text: &[u16]) -> Result<bool, TooMuchWork> {
        let mut scan = Scan { text, tables: Vec::with_capacity(self.looks.len()), steps: 0 };
        for look in &self.looks {
            let mut found = vec![];
            if let Some(look) = look {
                found.resize(text.len() + 1, false);
                scan.run(look, |at| {
                    found[at] = true;
                    Next::GoOn
                })?;
            }
            scan.tables.push(found);
        }
        let mut found = false;
        scan.run(&self.main, |_| {
            found = true;
            Next::Stop
        })?;
        Ok(found)
    }
}

struct Compiler {
    looks: Vec<Option<Program>>,
    steps: usize,
}

impl Compiler {
    /// A pass that finds every place *behind* (or *ahead of*) which the node is found.
    fn program(&mut self, node: &Node, direction: Direction) -> Result<Program, PatternError> {
        let mut program = Program { code: vec![], sets: vec![], direction };
        self.node(node, &mut program)?;
        program.code.push(Op::Accept);
        Ok(program)
    }

    fn node(&mut self, node: &Node, to: &mut Program) -> Result<(), PatternError> {
        self.steps += 1;
        if to.code.len() > MAX_INSTRUCTIONS || self.steps > MAX_COMPILE_STEPS {
            return Err(PatternError::TooComplex { why: "its repeats multiply".to_owned() });
        }
        match node {
            Node::Set(units) => {
                to.code.push(Op::Set(to.sets.len()));
                to.sets.push(Set::new(units));
            }
            Node::Assertion(assertion) => to.code.push(Op::Assertion(*assertion)),
            Node::Sequence(nodes) => match to.direction {
                Direction::Behind => nodes.iter().try_for_each(|node| self.node(node, to))?,
                Direction::Ahead => nodes.iter().rev().try_for_each(|node| self.node(node, to))?,
            },
            Node::Either(branches) => self.either(branches, to)?,
            Node::Capture(body) => self.node(body, to)?,
            Node::Repeat { body, min, max, greed: _ } => self.repeat(body, *min, *max, to)?,
            Node::Look { id, direction, wanted, body } => {
                // A repeat writes its body out more than once; its look-arounds are the same each time.
                if self.looks[*id].is_none() {
                    self.looks[*id] = Some(self.program(body, *direction)?);
                }
                to.code.push(Op::Look(*id, *wanted));
            }
            Node::Reference(_) => {
                return Err(PatternError::Unsupported { what: "a back-reference in this place" });
            }
        }
        Ok(())
    }

    fn either(&mut self, branches: &[Node], to: &mut Program) -> Result<(), PatternError> {
        let mut ends = vec![];
        for (index, branch) in branches.iter().enumerate() {
            if index + 1 == branches.len() {
                self.node(branch, to)?;
                continue;
            }
            let split = to.hole();
            self.node(branch, to)?;
            ends.push(to.hole());
            to.code[split] = Op::Split(split + 1, to.code.len());
        }
        for end in ends {
            to.code[end] = Op::Jump(to.code.len());
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        body: &Node,
        min: usize,
        max: Option<usize>,
        to: &mut Program,
    ) -> Result<(), PatternError> {
        for _ in 0..min {
            self.node(body, to)?;
        }
        let Some(max) = max else {
            let split = to.hole();
            self.node(body, to)?;
            to.code.push(Op::Jump(split));
            to.code[split] = Op::Split(split + 1, to.code.len());
            return Ok(());
        };
        let mut splits = vec![];
        for _ in min..max {
            splits.push(to.hole());
            self.node(body, to)?;
        }
        for split in splits {
            to.code[split] = Op::Split(split + 1, to.code.len());
        }
        Ok(())
    }
}

impl Program {
    /// Leaves room for an instruction whose target is not known yet.
    fn hole(&mut self) -> usize {
        self.code.push(Op::Jump(usize::MAX));
        self.code.len() - 1
    }
}

impl Set {
    fn new(units: &Units) -> Self {
        let ascii = (0..128).filter(|unit| units.contains(*unit)).fold(0, |bits, unit| bits | 1 << unit);
        Self { ascii, units: units.clone() }
    }

    fn contains(&self, unit: u16) -> bool {
        if unit < 128 { self.ascii >> unit & 1 == 1 } else { self.units.contains(unit) }
    }
}

/// Whether a pass has seen enough.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Stop,
}

struct Scan<'t> {
    text: &'t [u16],
    /// By look-around: whether its body is found at each place.
    tables: Vec<Vec<bool>>,
    steps: usize,
}

impl Scan<'_> {
    /// Runs one pass, a new attempt starting at every place, and reports each place where one succeeds.
    fn run(&mut self, program: &Program, mut found: impl FnMut(usize) -> Next) -> Result<(), TooMuchWork> {
        let length = self.text.len();
        let mut here: Vec<usize> = vec![];
        let mut seen = vec![usize::MAX; program.code.len()];
        let mut stack = vec![];
        for round in 0..=length {
            let (at, unit) = match program.direction {
                Direction::Behind => (round, self.text.get(round)),
                Direction::Ahead => (length - round, (length - round).checked_sub(1).map(|i| &self.text[i])),
            };
            stack.push(0);
            stack.append(&mut here);
            while let Some(op) = stack.pop() {
                self.steps += 1;
                if self.steps > MAX_STEPS {
                    return Err(TooMuchWork { steps: MAX_STEPS });
                }
                if std::mem::replace(&mut seen[op], round) == round {
                    continue;
                }
                match program.code[op] {
                    Op::Set(set) => {
                        if unit.is_some_and(|unit| program.sets[set].contains(*unit)) {
                            here.push(op + 1);
                        }
                    }
                    Op::Split(one, other) => stack.extend([other, one]),
                    Op::Jump(to) => stack.push(to),
                    Op::Assertion(assertion) if self.holds(assertion, at) => stack.push(op + 1),
                    Op::Assertion(_) => {}
                    Op::Look(look, wanted) => {
                        if self.tables[look][at] == (wanted == Wanted::Found) {
                            stack.push(op + 1);
                        }
                    }
                    Op::Accept => {
                        if found(at) == Next::Stop {
                            return Ok(());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn holds(&self, assertion: Assertion, at: usize) -> bool {
        let is_word = |index: Option<usize>| {
            index.and_then(|index| self.text.get(index)).is_some_and(|unit| is_word_unit(*unit))
        };
        let boundary = || is_word(at.checked_sub(1)) != is_word(Some(at));
        match assertion {
            Assertion::Start => at == 0,
            Assertion::End => at == self.text.len(),
            Assertion::WordBoundary => boundary(),
            Assertion::NoWordBoundary => !boundary(),
        }
    }
}

fn is_word_unit(unit: u16) -> bool {
    u8::try_from(unit).is_ok_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
