use ipc_handlers::Folder;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;

const BOUNDED: Budget =
    Budget { requests: Some(10), tokens: Some(1000), money: Some(Money(5_000_000)), minutes: Some(60) };

fn used(requests: u64, tokens: u64, money: u64, minutes: u64) -> Used {
    Used { requests, tokens, money: Money(money), ran_ms: minutes * MINUTE_MS }
}

#[test]
fn a_part_is_near_from_80_per_cent_and_out_at_all_of_it_and_the_worst_part_decides() {
    for (used, expected) in [
        (used(0, 0, 0, 0), Stand::Enough),
        (used(7, 799, 3_999_999, 47), Stand::Enough),
        (used(8, 0, 0, 0), Stand::Near(Part::Requests)),
        (used(0, 800, 0, 0), Stand::Near(Part::Tokens)),
        (used(0, 0, 4_000_000, 0), Stand::Near(Part::Money)),
        (used(0, 0, 0, 48), Stand::Near(Part::Minutes)),
        (used(9, 900, 0, 0), Stand::Near(Part::Requests)),
        (used(10, 0, 0, 0), Stand::Out(Part::Requests)),
        (used(9, 1000, 0, 0), Stand::Out(Part::Tokens)),
        (used(9, 2000, 5_000_000, 60), Stand::Out(Part::Tokens)),
        (used(0, 0, 5_000_000, 0), Stand::Out(Part::Money)),
        (used(u64::MAX, u64::MAX, u64::MAX, 60), Stand::Out(Part::Requests)),
    ] {
        assert_eq!(stand(&BOUNDED, &used), expected, "{used:?}");
        assert_eq!(stand(&Budget::default(), &used), Stand::Enough);
    }
}

#[test]
fn requests_under_way_count_and_the_last_one_before_the_end_may_go_over_in_tokens() {
    for (used, under_way, expected) in [
        (used(9, 0, 0, 0), 0, Ok(())),
        (used(9, 0, 0, 0), 1, Err(Part::Requests)),
        (used(0, 999, 0, 0), 9, Ok(())),
        (used(0, 0, 0, 0), 10, Err(Part::Requests)),
        (used(0, 1000, 0, 0), 0, Err(Part::Tokens)),
        (used(0, 0, 0, 60), 0, Err(Part::Minutes)),
    ] {
        assert_eq!(admit(&BOUNDED, &used, under_way), expected, "{used:?} {under_way}");
    }
}

#[test]
fn a_group_s_own_budget_wins_part_by_part_and_0_is_no_limit() {
    let all = Wish { requests: Some(10), tokens: Some(0), money: Some(2.5), minutes: None };
    let own = Wish { requests: Some(0), minutes: Some(5), ..Wish::default() };
    let expected = Budget { requests: None, tokens: None, money: Some(Money(2_500_000)), minutes: Some(5) };
    assert_eq!(Budget::of(&all, &own), expected);
    assert!(!Budget::of(&Wish::default(), &own.with_minutes(0)).is_bounded());
}

impl Wish {
    fn with_minutes(self, minutes: u64) -> Self {
        Self { minutes: Some(minutes), ..self }
    }
}

#[test]
fn what_can_t_be_a_budget_is_refused() {
    for (wish, part) in [
        (Wish { requests: Some(MOST_COUNTED + 1), ..Wish::default() }, Part::Requests),
        (Wish { money: Some(-0.1), ..Wish::default() }, Part::Money),
        (Wish { money: Some(f64::NAN), ..Wish::default() }, Part::Money),
        (Wish { money: Some(f64::INFINITY), ..Wish::default() }, Part::Money),
        (Wish { minutes: Some(1441), ..Wish::default() }, Part::Minutes),
    ] {
        assert_eq!(wish.fault().map(|(part, _)| part), Some(part));
    }
    let most =
        Wish { requests: Some(MOST_COUNTED), tokens: Some(0), money: Some(MOST_MONEY), minutes: Some(1440) };
    assert_eq!(most.fault(), None);
}

fn prices() -> Prices {
    let price = |input, output, cache_write, cache_read| Price { input, output, cache_write, cache_read };
    Prices::new(
        &[
            ("claude-".to_owned(), price(3.0, 15.0, Some(3.75), Some(0.30))),
            ("claude-big-4".to_owned(), price(15.0, 75.0, None, None)),
        ]
        .into(),
    )
    .unwrap()
}

#[test]
fn tokens_cost_what_the_longest_beginning_of_the_model_s_name_costs() {
    let million =
        Tokens { input: 1_000_000, output: 1_000_000, cache_creation: 1_000_000, cache_read: 1_000_000 };
    for (model, tokens, money) in [
        ("claude-small", million, 22_050_000),
        ("claude-big-4-5", million, 120_000_000),
        // No price is the dearest, each kind for itself.
        ("other", million, 120_000_000),
        ("", Tokens::default(), 0),
        ("claude-x", Tokens { cache_read: 1, ..Tokens::default() }, 1),
        ("claude-x", Tokens { input: 10, cache_read: 9, output: 7, ..Tokens::default() }, 138),
    ] {
        assert_eq!(prices().cost(model, &tokens), Money(money), "{model} {tokens:?}");
    }
    assert_eq!(Prices::default().cost("claude-x", &million), Money(0));
    let bad = Price { input: -1.0, output: 0.0, cache_write: None, cache_read: None };
    assert_eq!(Prices::new(&[("m".to_owned(), bad)].into()), Err(BadPrice("m".into())));
}

#[test]
fn a_day_is_the_user_s_also_where_the_clocks_change() {
    let at = |text: &str| Time::from_jiff(text.parse().unwrap());
    for (zone, now, start, end) in [
        ("UTC", "2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"),
        ("Asia/Kathmandu", "2026-03-01T18:14:59Z", "2026-02-28T18:15:00Z", "2026-03-01T18:15:00Z"),
        ("Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
        ("Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
        // Midnight itself is skipped there.
        ("America/Santiago", "2026-09-06T12:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"),
    ] {
        let day = Day::of(at(now), &TimeZone::get(zone).unwrap());
        assert_eq!(day, Day { start: at(start), end: at(end) }, "{zone} {now}");
        assert_eq!(day.start.0 % crate::runs::usage::QUARTER_MS, 0, "use is stored by quarters of an hour");
        assert!(!day.is_over(at(now)) && day.is_over(day.end) && day.is_over(day.start.plus_ms(-1)));
    }
}

#[test]
fn people_are_told_how_much_of_what() {
    let group = Folder::parse("family").unwrap();
    for (part, words) in [
        (Part::Requests, "8 of 10 requests"),
        (Part::Tokens, "900 of 1000 tokens"),
        (Part::Money, "4.25 of 5.00 of money"),
        (Part::Minutes, "48.5 of 60 minutes"),
    ] {
        let used = Used { ran_ms: 2_910_000, ..used(8, 900, 4_250_000, 0) };
        assert_eq!(short(&BOUNDED, &used, part), words);
    }
    for (requests, words) in
        [(8, Some("80 %")), (12, Some("used up today's budget (12 of 10 requests)")), (1, None)]
    {
        let used = used(requests, 0, 0, 0);
        let warning = for_the_owner(&group, &BOUNDED, &used, stand(&BOUNDED, &used));
        let told =
            warning.as_ref().map(|told| told.contains(words.unwrap()) && told.contains("budget.requests=N"));
        assert_eq!(told, words.map(|_| true), "{warning:?}");
    }
    let until = Time::from_jiff("2026-03-01T18:15:00Z".parse().unwrap());
    let told = for_a_chat(until, &TimeZone::get("Asia/Kathmandu").unwrap());
    assert!(told.contains("2026-03-02 00:00"), "{told}");
    let shares = shares(&Budget { minutes: Some(60), ..Budget::default() }, &used(1, 1, 1, 30));
    assert_eq!(
        shares,
        [Share { part: Part::Minutes, used: 30.0, budget: 60.0, percent: 50, state: BudgetState::Enough }]
    );
}

fn any_budget() -> impl Strategy<Value = Budget> {
    let bound = || proptest::option::of(1_u64..2000);
    (bound(), bound(), bound(), bound()).prop_map(|(requests, tokens, money, minutes)| Budget {
        requests,
        tokens,
        money: money.map(Money),
        minutes,
    })
}

fn any_used() -> impl Strategy<Value = Used> {
    (0_u64..3000, 0_u64..3000, 0_u64..3000, 0_u64..3000)
        .prop_map(|(requests, tokens, money, minutes)| used(requests, tokens, money, minutes))
}

/// How bad a stand is.
fn rank(stand: Stand) -> u8 {
    match stand {
        Stand::Enough => 0,
        Stand::Near(_) => 1,
        Stand::Out(_) => 2,
    }
}

proptest! {
    #[test]
    fn more_use_never_stands_better_and_a_higher_budget_never_worse(budget in any_budget(), one in any_used(), other in any_used(), more in 0_u64..500) {
        let both = one.at_least(other);
        prop_assert!(rank(stand(&budget, &both)) >= rank(stand(&budget, &one)));
        let raised = Budget { requests: budget.requests.map(|n| n + more), ..budget };
        prop_assert!(rank(stand(&raised, &one)) <= rank(stand(&budget, &one)));
    }

    #[test]
    fn what_is_out_admits_nothing_and_all_else_admits_one_request(budget in any_budget(), used in any_used()) {
        prop_assert_eq!(admit(&budget, &used, 0).is_err(), stand(&budget, &used).is_out());
    }

    /// However requests come and end, no more are passed on than the budget has.
    #[test]
    fn no_more_requests_go_out_than_the_budget_has(bound in 1_u64..20, steps in proptest::collection::vec(any::<bool>(), 0..200)) {
        let budget = Budget { requests: Some(bound), ..Budget::default() };
        let (mut used, mut under_way, mut passed) = (Used::default(), 0, 0);
        for begins in steps {
            if begins && admit(&budget, &used, under_way).is_ok() {
                under_way += 1;
                passed += 1;
            } else if !begins && under_way > 0 {
                under_way -= 1;
                used.add(1, &Tokens::default(), Money(0));
            }
            prop_assert!(passed <= bound);
            prop_assert_eq!(admit(&budget, &used, under_way).is_ok(), passed < bound);
        }
    }

    #[test]
    fn a_group_is_looked_at_when_its_stand_changes_and_not_before(budget in any_budget(), used in any_used()) {
        let now = Time(1_000);
        let after = |ms: i64| Used { ran_ms: used.ran_ms + u64::try_from(ms).unwrap(), ..used };
        match next_look(&budget, &used, now) {
            None => prop_assert_eq!(stand(&budget, &after(i64::from(u32::MAX))).is_out(), stand(&budget, &used).is_out() ),
            Some(at) => {
                prop_assert!(at > now);
                prop_assert_eq!(stand(&budget, &after(at.ms_since(now) - 1)), stand(&budget, &used));
                let only = Budget { minutes: budget.minutes, ..Budget::default() };
                prop_assert!(rank(stand(&only, &after(at.ms_since(now)))) > rank(stand(&only, &used)));
            }
        }
    }

    #[test]
    fn the_cost_of_all_is_at_most_that_of_its_pieces_and_a_millionth_less_for_each(pieces in proptest::collection::vec(0_u64..100_000, 1..20)) {
        let tokens = |input| Tokens { input, ..Tokens::default() };
        let of_all = prices().cost("claude-x", &tokens(pieces.iter().sum())).0;
        let each: u64 = pieces.iter().map(|piece| prices().cost("claude-x", &tokens(*piece)).0).sum();
        prop_assert!(of_all <= each && each - of_all <= pieces.len() as u64);
    }
}
