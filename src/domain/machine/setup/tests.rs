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
    assert!(matches!(next(Step::Service, &facts, &yes()), Next::Stands(_)));
    let wanted = Wishes { service: Some(Toggle::Yes), ..yes() };
    assert!(matches!(next(Step::Service, &facts, &wanted), Next::Lacks(..)));
}
