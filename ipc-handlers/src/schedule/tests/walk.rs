//! Every minute around the jumps of every zone's clocks, one after the other, against asking for the next instant.
//!
//! Zones whose clocks jump alike are one: the walk covers the distinct sets of transitions of the compiled-in data,
//! 2020 to 2040.
#![expect(clippy::disallowed_methods, reason = "the long form is asked for by the environment")]

use std::collections::{BTreeMap, BTreeSet};

use jiff::{
    Timestamp,
    civil::{Date, date},
    tz::TimeZoneDatabase,
};

use super::*;

/// How far to each side of a jump is walked, minutes.
const AROUND: i64 = 18 * 60;

/// One way in which clocks jump.
struct Clocks {
    /// The zones that have it.
    names: Vec<String>,
    zone: TimeZone,
    /// Minutes ahead of UTC at first.
    first: i64,
    /// The minute since the epoch from which on the clocks are this far ahead.
    jumps: Vec<(i64, i64)>,
}

impl Clocks {
    /// Minutes ahead of UTC at a minute since the epoch.
    fn ahead(&self, minute: i64) -> i64 {
        self.jumps.iter().rev().find(|(from, _)| *from <= minute).map_or(self.first, |(_, ahead)| *ahead)
    }

    fn every() -> Vec<Self> {
        let database = TimeZoneDatabase::bundled();
        let start = date(2020, 1, 1).at(0, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap().timestamp();
        let end = date(2041, 1, 1).at(0, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap().timestamp();
        let mut every = BTreeMap::<_, Self>::new();
        for name in database.available() {
            let zone = database.get(name.as_str()).unwrap();
            let minutes = |seconds: i64| {
                assert_eq!(seconds % 60, 0, "{name:?} jumps within a minute");
                seconds / 60
            };
            let first = minutes(zone.to_offset(start).seconds().into());
            let jumps: Vec<(i64, i64)> = zone
                .following(start)
                .take_while(|jump| jump.timestamp() < end)
                .map(|jump| (minutes(jump.timestamp().as_second()), minutes(jump.offset().seconds().into())))
                .collect();
            let clocks = Self { names: Vec::new(), zone: zone.clone(), first, jumps: jumps.clone() };
            every.entry((first, jumps)).or_insert(clocks).names.push(name.to_string());
        }
        every.into_values().collect()
    }

    /// The minutes since the epoch, of those from `from` to `to`, in which a task runs.
    fn walk(&self, plain: &Plain, from: i64, to: i64) -> BTreeSet<i64> {
        let mut found = BTreeSet::new();
        let mut latest = from + self.ahead(from) - 1;
        let mut days = BTreeMap::new();
        let mut matches = |local: i64| {
            let day = local.div_euclid(1440);
            let named = *days.entry(day).or_insert_with(|| plain.names(day_number(day)));
            let (hour, minute) = (local.rem_euclid(1440) / 60, local.rem_euclid(60));
            named
                && plain.hours.as_ref().is_none_or(|hours| hours.iter().any(|h| i64::from(*h) == hour))
                && plain.minutes.iter().any(|m| i64::from(*m) == minute)
        };
        for minute in from..to {
            let local = minute + self.ahead(minute);
            if plain.hours.is_none() {
                if matches(local) {
                    found.insert(minute);
                }
                continue;
            }
            // What clocks leave out is moved on by as much as they jump; what they show again is over.
            for left_out in latest + 1..local {
                if matches(left_out) {
                    found.insert(minute + (left_out - (latest + 1)));
                }
            }
            if local > latest && matches(local) {
                found.insert(minute);
            }
            latest = latest.max(local);
        }
        found.retain(|minute| *minute < to);
        found
    }

    /// The same, by asking for the next one again and again.
    fn step(&self, plain: &Plain, from: i64, to: i64) -> BTreeSet<i64> {
        let cron = Cron::parse(&plain.text()).unwrap();
        let mut found = BTreeSet::new();
        let mut now = Time(from * 60_000 - 1);
        while let Some(next) = cron.next(now, &self.zone).filter(|next| next.0 < to * 60_000) {
            assert!(next > now && next.0 % 60_000 == 0, "{plain:?} in {:?}: {next} after {now}", self.names);
            found.insert(next.0 / 60_000);
            now = next;
        }
        found
    }

    fn check(&self, plain: &Plain, jump: i64) {
        let (from, to) = (jump - AROUND, jump + AROUND);
        let show = |minutes: BTreeSet<i64>| -> Vec<Timestamp> {
            minutes.into_iter().map(|m| Timestamp::from_second(m * 60).unwrap()).collect()
        };
        let (walked, stepped) = (self.walk(plain, from, to), self.step(plain, from, to));
        assert_eq!(show(stepped), show(walked), "{plain:?} in {:?}", self.names);
    }
}

fn day_number(days: i64) -> Date {
    date(1970, 1, 1) + jiff::Span::new().days(days)
}

/// Numbers that are always the same, from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    fn number(&mut self, n: i8) -> i8 {
        i8::try_from(self.below(usize::try_from(n).unwrap())).unwrap()
    }

    fn some(&mut self, most: usize, below: i8, from: i8) -> Vec<i8> {
        (0..=self.below(most)).map(|_| self.number(below) + from).collect()
    }

    fn plain(&mut self) -> Plain {
        // Hours near the jumps more often than others.
        let hours = match self.below(5) {
            0 => None,
            1 | 2 => Some(self.some(3, 24, 0)),
            _ => Some(self.some(3, 5, 0)),
        };
        let of_month = (self.below(4) == 0).then(|| self.some(8, 31, 1));
        let of_week = (self.below(4) == 0).then(|| self.some(4, 7, 0));
        Plain { minutes: self.some(3, 60, 0), hours, of_month, of_week }
    }

    /// A jump of these clocks, or any minute where they have none.
    fn jump(&mut self, clocks: &Clocks) -> i64 {
        match clocks.jumps.len() {
            0 => 26_297_280 + i64::try_from(self.below(10_000_000)).unwrap(),
            jumps => clocks.jumps[self.below(jumps)].0,
        }
    }
}

#[test]
fn around_the_jumps_of_any_zone_the_next_instant_is_the_one_that_walking_finds() {
    let every = Clocks::every();
    assert!(every.len() > 50, "{} sets of transitions", every.len());
    let mut dice = Dice(1);
    for n in 0..2_000 {
        let clocks = &every[n % every.len()];
        let (plain, jump) = (dice.plain(), dice.jump(clocks));
        clocks.check(&plain, jump);
    }
}

/// The long form: `G2_CRON=all cargo test --release -p ipc-handlers schedule::tests::walk -- --nocapture`.
#[test]
fn around_every_jump_of_every_zone_each_hour_is_found_as_walking_finds_it() {
    if std::env::var_os("G2_CRON").is_none() {
        return;
    }
    let mut dice = Dice(2);
    let mut cases = 0;
    let every = Clocks::every();
    for clocks in &every {
        let mut jumps: Vec<i64> = clocks.jumps.iter().map(|(at, _)| *at).collect();
        if jumps.is_empty() {
            jumps.push(dice.jump(clocks));
        }
        for jump in jumps {
            let hour = |hour| Some(vec![hour]);
            let mut plains: Vec<Plain> = (0..24)
                .map(|h| Plain {
                    minutes: vec![0, 15, 30, 59],
                    hours: hour(h),
                    of_month: None,
                    of_week: None,
                })
                .collect();
            plains.push(Plain { minutes: vec![0, 30], hours: None, of_month: None, of_week: None });
            plains.extend((0..24).map(|_| dice.plain()));
            plains.iter().for_each(|plain| clocks.check(plain, jump));
            cases += plains.len();
        }
    }
    eprintln!("{cases} cases, {} sets of transitions", every.len());
}
