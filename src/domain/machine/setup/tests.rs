use super::*;

fn nothing() -> Facts {
    Facts {
        root: "/r".into(),
        is_root_there: false,
        engine: Engine::Answers,
        image: "g2-agent:latest".into(),
        image_there: ImageThere::No,
        provider: Provider::Scripted,
        key: None,
        zone: "Europe/Paris".into(),
        is_zone_set: false,
        accounts: Vec::new(),
        owned: Vec::new(),
        service: Service::Absent,
        is_up: false,
        needs_restart: false,
    }
}

fn everything() -> Facts {
    Facts {
        is_root_there: true,
        image_there: ImageThere::Yes { claude: true, ours: true },
        provider: Provider::Claude,
        key: Some("an API key"),
        is_zone_set: true,
        accounts: vec!["telegram".into()],
        owned: vec!["local".into(), "telegram".into()],
        service: Service::Runs,
        is_up: true,
        ..nothing()
    }
}

fn yes() -> Wishes {
    Wishes { yes: true, ..Wishes::default() }
}

#[test]
fn nothing_is_asked_or_done_twice() {
    for step in STEPS {
        for wishes in [Wishes::default(), yes()] {
            let next = next(step, &everything(), &wishes);
            if step == Step::Answer {
                assert_eq!(next, Next::Do(Act::SayHello));
            } else if step == Step::Key {
                assert_eq!(next, Next::Do(Act::TryKey("an API key")));
            } else {
                assert!(matches!(next, Next::Stands(_)), "{step:?} {next:?}");
            }
        }
    }
}

#[test]
fn with_yes_nothing_is_asked_and_each_step_does_the_usual() {
    let done: Vec<Next> = STEPS.into_iter().map(|step| next(step, &nothing(), &yes())).collect();
    assert!(done.iter().all(|next| !matches!(next, Next::Ask(_))), "{done:?}");
    assert_eq!(done[0], Next::Do(Act::MakeRoot));
    assert_eq!(done[2], Next::Do(Act::Build(ImageKind::Bare)), "without a key nobody needs Claude Code");
    assert!(matches!(&done[3], Next::Stands(why) if why.contains("built-in")));
    assert_eq!(done[4], Next::Do(Act::SetZone("Europe/Paris".into())));
    assert!(matches!(done[5], Next::Stands(_)));
    assert_eq!(done[6], Next::Do(Act::InstallService));
    let keyed = Wishes { key: Some(KeyWish::Given), ..yes() };
    assert_eq!(next(Step::Image, &nothing(), &keyed), Next::Do(Act::Build(ImageKind::Full)));
    assert_eq!(next(Step::Key, &nothing(), &keyed), Next::Do(Act::PutKey));
}

#[test]
fn a_person_is_asked_and_each_answer_does_what_it_says() {
    let Next::Ask(question) = next(Step::Image, &nothing(), &Wishes::default()) else { panic!() };
    for (answer, act) in [
        ("", Some(Act::Build(ImageKind::Full))),
        ("2", Some(Act::Build(ImageKind::Offline))),
        (" 3 ", Some(Act::Build(ImageKind::Bare))),
        ("S", None),
    ] {
        assert_eq!(taken(Step::Image, &question, answer), Ok(act), "{answer}");
    }
    assert!(taken(Step::Image, &question, "4").unwrap_err().to_string().contains("1, 2, 3, s"));
    let Next::Ask(question) = next(Step::Zone, &nothing(), &Wishes::default()) else { panic!() };
    assert_eq!(taken(Step::Zone, &question, "Asia/Tokyo"), Ok(Some(Act::SetZone("Asia/Tokyo".into()))));
    assert_eq!(taken(Step::Zone, &question, ""), Ok(Some(Act::SetZone("Europe/Paris".into()))));
    let Next::Ask(question) = next(Step::Channel, &nothing(), &Wishes::default()) else { panic!() };
    assert_eq!(taken(Step::Channel, &question, ""), Ok(None));
    let work = Ok(Some(Act::AddAccount("telegram.work".into())));
    assert_eq!(taken(Step::Channel, &question, "telegram.work"), work);
    let none = taken(Step::Channel, &question, "signal").unwrap_err().to_string();
    assert!(
        none.starts_with(
            "G2 has no adapter for signal, only for discord, matrix, slack, telegram, webhook and whatsapp"
        ),
        "{none}"
    );
}

#[test]
fn a_person_becomes_an_owner_where_they_have_an_account_and_a_daemon_reads_it() {
    let of = |accounts: &[&str], owned: &[&str], is_up, wishes: &Wishes| {
        let names = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        let facts = Facts { accounts: names(accounts), owned: names(owned), is_up, ..nothing() };
        next(Step::Owner, &facts, wishes)
    };
    let asked = Wishes::default();
    assert_eq!(of(&[], &["local"], true, &asked), Next::Stands("you, at this machine".into()));
    let both = of(&["telegram"], &["local", "telegram"], true, &asked);
    assert_eq!(both, Next::Stands("you, at this machine and on telegram".into()));
    for (is_up, wishes) in [(false, asked.clone()), (true, yes())] {
        let left = of(&["matrix", "telegram"], &["telegram"], is_up, &wishes);
        assert!(
            matches!(&left, Next::Stands(why) if why.contains("on matrix; `g2 users claim`")),
            "{left:?}"
        );
    }
    let Next::Ask(question) = of(&["telegram"], &["local"], true, &asked) else { panic!() };
    assert_eq!(taken(Step::Owner, &question, ""), Ok(Some(Act::Claim(vec!["telegram".into()]))));
    assert_eq!(taken(Step::Owner, &question, "s"), Ok(None));
}

#[test]
fn a_part_of_a_zone_s_name_is_enough_and_several_are_listed() {
    let Next::Ask(question) = next(Step::Zone, &nothing(), &Wishes::default()) else { panic!() };
    for (typed, zone) in [
        ("berlin", "Europe/Berlin"),
        ("asia/tokyo", "Asia/Tokyo"),
        ("new york", "America/New_York"),
        ("utc", "UTC"),
    ] {
        assert_eq!(taken(Step::Zone, &question, typed), Ok(Some(Act::SetZone(zone.into()))), "{typed}");
    }
    let several = taken(Step::Zone, &question, "argentina").unwrap_err().to_string();
    assert!(several.contains("America/Argentina/Buenos_Aires, America/Argentina/Catamarca"), "{several}");
    let many = taken(Step::Zone, &question, "america").unwrap_err().to_string();
    assert!(many.contains(" more; type more of the name") && many.len() < 800, "{many}");
    let none = taken(Step::Zone, &question, "nowhere").unwrap_err().to_string();
    assert!(none.contains("no time zone has \"nowhere\""), "{none}");
}

#[test]
fn who_has_the_built_in_agent_is_led_on_to_claude_code_and_may_stay() {
    let bare = Facts { image_there: ImageThere::Yes { claude: false, ours: true }, ..nothing() };
    let Next::Ask(question) = next(Step::Image, &bare, &Wishes::default()) else { panic!() };
    assert_eq!(taken(Step::Image, &question, ""), Ok(Some(Act::Build(ImageKind::Full))));
    assert_eq!(taken(Step::Image, &question, "s"), Ok(None));
    assert!(taken(Step::Image, &question, "3").is_err(), "that is the one which is there");
    assert!(matches!(next(Step::Image, &bare, &yes()), Next::Stands(_)));
    let keyed = Wishes { key: Some(KeyWish::Given), ..yes() };
    assert_eq!(next(Step::Image, &bare, &keyed), Next::Do(Act::Build(ImageKind::Full)));
    let acp = Facts { provider: Provider::Acp, ..bare };
    assert!(matches!(next(Step::Image, &acp, &Wishes::default()), Next::Stands(_)));
}

#[test]
fn without_an_engine_the_built_in_agent_is_left_unless_the_engine_is_a_must() {
    let facts = Facts { engine: Engine::Away("no socket".into()), ..nothing() };
    let lacks = next(Step::Engine, &facts, &Wishes { engine: Some(EngineWish::Docker), ..yes() });
    assert!(matches!(lacks, Next::Lacks(why, hint) if why == "no socket" && hint.contains("docker.io")));
    for wishes in [yes(), Wishes::default()] {
        assert!(
            matches!(next(Step::Engine, &facts, &wishes), Next::Stands(why) if why.contains("no socket"))
        );
        assert!(matches!(next(Step::Image, &facts, &wishes), Next::Stands(_)));
    }
}

#[test]
fn an_image_of_another_version_is_built_again_and_one_that_was_asked_for_only_if_it_is_not_there() {
    let old = Facts { image_there: ImageThere::Yes { claude: true, ours: false }, ..nothing() };
    assert!(
        matches!(next(Step::Image, &old, &Wishes::default()), Next::Ask(q) if q.text.contains("another version"))
    );
    let bare = Wishes { image: Some(ImageWish::Build(ImageKind::Bare)), ..yes() };
    assert_eq!(next(Step::Image, &old, &bare), Next::Do(Act::Build(ImageKind::Bare)));
    let there = Facts { image_there: ImageThere::Yes { claude: false, ours: true }, ..nothing() };
    assert!(matches!(next(Step::Image, &there, &bare), Next::Stands(_)));
}

#[test]
fn claude_code_without_a_key_is_what_is_missing() {
    let facts = Facts { key: None, image_there: ImageThere::No, ..everything() };
    assert!(matches!(next(Step::Key, &facts, &yes()), Next::Lacks(..)));
    let facts = Facts { key: None, ..everything() };
    assert!(matches!(next(Step::Key, &facts, &Wishes::default()), Next::Ask(_)));
}

#[test]
fn a_service_is_not_put_over_a_daemon_that_runs_by_hand() {
    let facts = Facts { is_up: true, ..nothing() };
    assert!(matches!(next(Step::Service, &facts, &yes()), Next::Stands(_)));
    let facts = Facts { service: Service::NoManager("no systemd".into()), ..nothing() };
    // It is started in the background instead, unless somebody says no or it is there.
    assert_eq!(next(Step::Service, &facts, &yes()), Next::Do(Act::Detach));
    let Next::Ask(question) = next(Step::Service, &facts, &Wishes::default()) else { panic!() };
    assert_eq!(taken(Step::Service, &question, ""), Ok(Some(Act::Detach)));
    let no = Wishes { service: Some(Toggle::No), ..yes() };
    assert!(matches!(next(Step::Service, &facts, &no), Next::Stands(_)));
    let up = Facts { is_up: true, ..facts.clone() };
    assert!(matches!(next(Step::Service, &up, &yes()), Next::Stands(_)));
    let wanted = Wishes { service: Some(Toggle::Yes), ..yes() };
    assert!(matches!(next(Step::Service, &facts, &wanted), Next::Lacks(..)));
}
