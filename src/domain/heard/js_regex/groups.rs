//! The capturing groups of a pattern, and what back-references need to know of them.

use super::parse::ascii;

/// The capturing groups of the whole pattern, known before the first back-reference is read.
#[derive(Default)]
pub(super) struct Groups {
    /// Per group, from 1: its name, when it has one.
    names: Vec<Option<Vec<u16>>>,
    /// Per group, from 1: whether its end lies behind what has been read.
    closed: Vec<bool>,
}

impl Groups {
    pub(super) fn find(source: &[u16]) -> Self {
        let mut groups = Self::default();
        let mut in_class = false;
        let mut at = 0;
        while let Some(unit) = source.get(at) {
            let next = |ahead: usize| source.get(at + ahead).copied().and_then(ascii);
            match ascii(*unit) {
                Some('\\') => at += 1,
                Some('[') => in_class = true,
                Some(']') => in_class = false,
                Some('(') if !in_class => match (next(1), next(2), next(3)) {
                    (Some('?'), Some('<'), Some('=' | '!')) => {}
                    (Some('?'), Some('<'), _) => {
                        let name = &source[at + 3..];
                        groups.names.push(name_length(name).map(|length| name[..length].to_vec()));
                    }
                    (Some('?'), _, _) => {}
                    (_, _, _) => groups.names.push(None),
                },
                Some(_) | None => {}
            }
            at += 1;
        }
        groups.closed = vec![false; groups.names.len()];
        groups
    }

    pub(super) fn count(&self) -> usize {
        self.names.len()
    }

    pub(super) fn have_names(&self) -> bool {
        self.names.iter().any(Option::is_some)
    }

    pub(super) fn named(&self, name: &[u16]) -> Vec<usize> {
        let same = |(_, other): &(usize, &Option<Vec<u16>>)| other.as_deref() == Some(name);
        self.names.iter().enumerate().filter(same).map(|(index, _)| index + 1).collect()
    }

    pub(super) fn close(&mut self, number: usize) {
        if let Some(closed) = number.checked_sub(1).and_then(|index| self.closed.get_mut(index)) {
            *closed = true;
        }
    }

    pub(super) fn is_closed(&self, number: usize) -> bool {
        number.checked_sub(1).and_then(|index| self.closed.get(index)).copied().unwrap_or_default()
    }
}

/// Returns how long a group's name is, which ends at `>`.
pub(super) fn name_length(rest: &[u16]) -> Option<usize> {
    rest.iter().position(|unit| ascii(*unit) == Some('>'))
}
