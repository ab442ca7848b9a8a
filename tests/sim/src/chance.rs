//! Chance that depends on a seed only.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Begins at a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns any number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, which must not be 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// Whether one case of `cases` came, which must not be 0.
    pub const fn one_of(&mut self, cases: u64) -> bool {
        self.below(cases) == 0
    }

    /// Returns how many of `all` are kept: in one case of four none, in one all, otherwise any number.
    pub fn part(&mut self, all: usize) -> usize {
        match self.below(4) {
            0 => 0,
            1 => all,
            _ => usize::try_from(self.below(all as u64 + 1)).unwrap_or(all),
        }
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.number().to_le_bytes()[..piece.len()]);
        }
    }
}
