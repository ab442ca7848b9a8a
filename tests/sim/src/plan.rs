//! What happens in a simulation, as its seed decides: who writes what when, and what goes wrong.

use g2::domain::platforms::channels::SentTwice;

use crate::{
    Chance, Moods, Weather,
    agent::Temper,
    hostile::Trouble,
    people::{Deed, deeds},
    platform::Kind,
};

/// The platforms, each with how it takes a part that is sent twice.
pub const PLATFORMS: [Kind; 4] = [
    Kind {
        name: "sima",
        twice: SentTwice::Key { window_ms: None, readback: false },
        edits: true,
        reacts: true,
        names_signs: false,
        buttons: true,
        longest: 0,
        files: 1 << 20,
    },
    Kind {
        name: "simb",
        twice: SentTwice::Key { window_ms: Some(60_000), readback: true },
        edits: true,
        reacts: true,
        names_signs: true,
        buttons: false,
        longest: 0,
        files: 1 << 20,
    },
    Kind {
        name: "simc",
        twice: SentTwice::Readback,
        edits: true,
        reacts: false,
        names_signs: false,
        buttons: false,
        longest: 100,
        files: 1 << 20,
    },
    Kind {
        name: "simd",
        twice: SentTwice::Never,
        edits: false,
        reacts: false,
        names_signs: false,
        buttons: false,
        longest: 0,
        files: 0,
    },
];

/// The groups, each with the chats that it hears.
pub const GROUPS: [(&str, &[&str]); 3] =
    [("alpha", &["sima:1", "simb:1"]), ("beta", &["simc:1", "simd:1"]), ("gamma", &["sima:2", "simd:2"])];

/// How many containers run at once.
pub const CAP: usize = 2;

/// When stories begin: on a Thursday in March, and before Europe's clocks change in spring and in autumn.
const BEGINS: [i64; 4] = [1_772_700_000_000, 1_772_700_000_000, 1_774_745_880_000, 1_792_889_880_000];

/// What is to happen.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// What people do by themselves, by platform: when, ms, and what.
    pub deeds: Vec<Vec<(u64, Deed)>>,
    /// When the daemon is killed, ms.
    pub kills: Vec<u64>,
    /// At which call of the disk the daemon dies, counted from the beginning of each of its lives; `None`: at none.
    pub dies_at: Vec<Option<u64>>,
    /// When the wall clock is set, and by how much, ms.
    pub jumps: Vec<(u64, i64)>,
    pub moods: Moods,
    pub weather: Weather,
    /// A text that may have arrived is sent again, also where the platform shows it twice then.
    pub resends: bool,
    /// The number of slow pieces among 1 000 pieces of work.
    pub slow: u64,
    pub trouble: Trouble,
    /// At which call for a file in a box the daemon dies, as above.
    pub dies_at_file: Vec<Option<u64>>,
    /// At which call for a file it panics, as above.
    pub panics_at_file: Vec<Option<u64>>,
    /// Of 1 000 calls of the sandbox, the number of those that panic.
    pub panics: u64,
    /// When it begins by the wall clock, ms since the epoch.
    pub begins: i64,
    /// The number of calls that fail among 1 000 calls of the disk.
    pub disk_fails: u64,
    /// From when on nothing goes wrong any more, ms.
    pub calm_at: u64,
}

impl Plan {
    /// Returns what this seed decides.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let calm_at = 60_000 + chance.below(120_000);
        let deeds = deeds(&mut chance, calm_at);
        let bad = |chance: &mut Chance| chance.one_of(2);
        let kills = match chance.below(3) {
            0 => Vec::new(),
            n => {
                let mut kills: Vec<u64> = (0..n).map(|_| chance.below(calm_at)).collect();
                kills.sort_unstable();
                kills
            }
        };
        let dies_at = (0..3).map(|_| chance.one_of(3).then(|| chance.below(3_000))).collect();
        let jumps = (0..chance.below(3))
            .map(|_| (chance.below(calm_at), i64::try_from(chance.below(7_200_000)).unwrap_or(0) - 3_600_000))
            .collect();
        let temper = if bad(&mut chance) { Temper::BAD } else { Temper::GOOD };
        let moods = if bad(&mut chance) {
            Moods { refuses: 20, is_away: 10, temper }
        } else {
            Moods { refuses: 0, is_away: 0, temper }
        };
        let weather = if bad(&mut chance) { Weather::FOUL } else { Weather::FAIR };
        let slow = if bad(&mut chance) { 30 } else { 0 };
        let disk_fails = if chance.one_of(3) { 2 } else { 0 };
        let resends = chance.one_of(4);
        let trouble = Trouble {
            meddles: if bad(&mut chance) { 5 } else { 0 },
            fails: if chance.one_of(3) { 5 } else { 0 },
            misleads: if bad(&mut chance) { 200 } else { 0 },
        };
        let dies_at_file = (0..3).map(|_| chance.one_of(4).then(|| chance.below(2_000))).collect();
        let panics_at_file = (0..3).map(|_| chance.one_of(8).then(|| chance.below(2_000))).collect();
        let panics = if chance.one_of(4) { 10 } else { 0 };
        let begins = BEGINS[usize::try_from(chance.below(BEGINS.len() as u64)).unwrap_or(0)];
        Self {
            seed,
            panics_at_file,
            panics,
            begins,
            trouble,
            dies_at_file,
            resends,
            deeds,
            kills,
            dies_at,
            jumps,
            moods,
            weather,
            slow,
            disk_fails,
            calm_at,
        }
    }
}

/// The token of the `n`th message: no other message has it.
#[must_use]
pub fn token(n: usize) -> String {
    format!("tok{n}x")
}
