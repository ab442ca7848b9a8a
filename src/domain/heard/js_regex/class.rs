//! Sets of UTF-16 code units: what a character class of a pattern accepts.

/// A set of UTF-16 code units, as ranges with both ends included, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Units(Vec<(u16, u16)>);

impl Units {
    /// Returns what `\d` accepts.
    pub(super) fn digit() -> Self {
        Self(vec![(b'0'.into(), b'9'.into())])
    }

    /// Returns what `\w` accepts.
    pub(super) fn word() -> Self {
        let range = |a: u8, b: u8| (a.into(), b.into());
        Self(vec![range(b'0', b'9'), range(b'A', b'Z'), range(b'_', b'_'), range(b'a', b'z')])
    }

    /// Returns what `\s` accepts.
    pub(super) fn space() -> Self {
        let mut units = Self::line_end();
        for (from, to) in [
            (0x09, 0x0D),
            (0x20, 0x20),
            (0xA0, 0xA0),
            (0x1680, 0x1680),
            (0x2000, 0x200A),
            (0x202F, 0x202F),
            (0x205F, 0x205F),
            (0x3000, 0x3000),
            (0xFEFF, 0xFEFF),
        ] {
            units.add(from, to);
        }
        units
    }

    /// Returns what `.` does not accept.
    pub(super) fn line_end() -> Self {
        Self(vec![(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)])
    }

    pub(super) fn one(unit: u16) -> Self {
        Self(vec![(unit, unit)])
    }

    pub(super) fn add(&mut self, from: u16, to: u16) {
        self.0.push((from, to));
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    pub(super) fn contains(&self, unit: u16) -> bool {
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&unit))
    }

    /// Returns every unit that is not in the set.
    pub(super) fn complement(&self) -> Self {
        let mut rest = Self::default();
        let mut next = 0_u32;
        for (from, to) in self.ranges() {
            if let Ok(before) = u16::try_from(u32::from(from).saturating_sub(1))
                && next < u32::from(from)
                && let Ok(start) = u16::try_from(next)
            {
                rest.add(start, before);
            }
            next = u32::from(to) + 1;
        }
        if let Ok(start) = u16::try_from(next) {
            rest.add(start, u16::MAX);
        }
        rest
    }

    /// Returns the ranges sorted, with those that touch made one.
    pub(super) fn ranges(&self) -> Vec<(u16, u16)> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::with_capacity(sorted.len());
        for (from, to) in sorted {
            match merged.last_mut() {
                Some(last) if u32::from(from) <= u32::from(last.1) + 1 => last.1 = last.1.max(to),
                Some(_) | None => merged.push((from, to)),
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complement_holds_exactly_what_the_set_does_not() {
        for set in [
            Units::default(),
            Units::digit(),
            Units::word(),
            Units::space(),
            Units::line_end(),
            Units(vec![(0, 0), (0xFFFF, 0xFFFF)]),
            Units(vec![(0, 0xFFFF)]),
            Units(vec![(5, 9), (3, 6), (10, 11)]),
        ] {
            let rest = set.complement();
            for unit in 0..=u16::MAX {
                assert_ne!(set.contains(unit), rest.contains(unit), "{unit:#x} in {set:?}");
            }
        }
    }
}
