//! Whose boxes the next scan looks at: groups at work each time, of the others a part, so that each has its turn.
//!
//! File events tell of what comes at once. A scan is for what no event told of, and looking at a thousand idle groups
//! every two seconds is most of what an idle daemon would do.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use ipc_handlers::Folder;

/// In so many scans each idle group is looked at once: with one every 2 s, within 30 s.
pub const TURNS: usize = 15;
/// For so many scans a group counts as at work after something of it was heard or found.
const AWAKE: usize = 5;

/// What scans have seen of groups.
#[derive(Debug, Default)]
pub struct Rounds {
    /// The groups that something was heard of, with for how many more scans they are at work.
    awake: BTreeMap<Folder, usize>,
    /// The last idle group that was looked at.
    last: Option<Folder>,
}

impl Rounds {
    /// Something happened in a group's boxes, or will: it is at work for a while.
    pub fn heard(&mut self, group: &Folder) {
        match self.awake.get_mut(group) {
            Some(left) => *left = AWAKE,
            None => drop(self.awake.insert(group.clone(), AWAKE)),
        }
    }

    /// Returns which of `groups` this scan looks at: those heard of lately, those in `busy`, and the next few others.
    pub fn next<T>(
        &mut self,
        groups: &BTreeMap<Folder, T>,
        busy: impl Fn(&Folder) -> bool,
    ) -> BTreeSet<Folder> {
        let mut chosen: BTreeSet<Folder> =
            groups.keys().filter(|group| self.awake.contains_key(*group) || busy(group)).cloned().collect();
        self.awake.retain(|_, left| {
            *left -= 1;
            *left > 0
        });
        let after = self.last.take().map_or(Bound::Unbounded, Bound::Excluded);
        let part: Vec<&Folder> = groups
            .range((after, Bound::Unbounded))
            .map(|(group, _)| group)
            .take(groups.len().div_ceil(TURNS))
            .collect();
        // Where the list ends early the next part begins at its start; nobody waits for more than the turns that there are.
        self.last = part
            .last()
            .filter(|last| groups.last_key_value().is_some_and(|(end, _)| end != **last))
            .map(|last| (*last).clone());
        chosen.extend(part.into_iter().cloned());
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(count: usize) -> BTreeMap<Folder, ()> {
        (0..count).map(|n| (group(n), ())).collect()
    }

    fn group(n: usize) -> Folder {
        Folder::parse(&format!("g{n:04}")).unwrap()
    }

    #[test]
    fn every_idle_group_is_looked_at_once_in_so_many_turns_and_few_at_a_time() {
        for count in [0, 1, 2, 14, 15, 16, 29, 31, 100, 1_000] {
            let all = groups(count);
            let mut rounds = Rounds::default();
            let mut seen = BTreeMap::<Folder, Vec<usize>>::new();
            for turn in 0..4 * TURNS {
                let chosen = rounds.next(&all, |_| false);
                assert!(chosen.len() <= count.div_ceil(TURNS), "{count} groups, {} at a time", chosen.len());
                for group in chosen {
                    seen.entry(group).or_default().push(turn);
                }
            }
            assert_eq!(seen.len(), count);
            for turns in seen.values() {
                assert!(turns[0] < TURNS, "{count} groups: {turns:?}");
                assert!(turns.windows(2).all(|two| two[1] - two[0] <= TURNS), "{count} groups: {turns:?}");
            }
        }
    }

    #[test]
    fn a_group_at_work_is_looked_at_each_time_and_one_heard_of_for_a_while() {
        let all = groups(1_000);
        let mut rounds = Rounds::default();
        let (busy, heard) = (group(700), group(900));
        rounds.heard(&heard);
        let looked: Vec<[bool; 2]> = (0..AWAKE + 2)
            .map(|_| rounds.next(&all, |group| *group == busy))
            .map(|chosen| [chosen.contains(&busy), chosen.contains(&heard)])
            .collect();
        assert!(looked.iter().all(|[busy, _]| *busy));
        assert_eq!(looked.iter().filter(|[_, heard]| *heard).count(), AWAKE);
    }

    #[test]
    fn groups_that_go_or_come_meanwhile_disturb_nobodys_turn() {
        let mut all = groups(100);
        let mut rounds = Rounds::default();
        let first = rounds.next(&all, |_| false);
        for gone in &first {
            all.remove(gone);
        }
        let mut seen = BTreeSet::new();
        for _ in 0..TURNS {
            seen.extend(rounds.next(&all, |_| false));
        }
        assert_eq!(seen.len(), all.len());
    }
}
