//! The counts of tokens, and the run that each belongs to.

use std::thread;

use super::{
    host::{Host, STREAM, chunk, message, stream_end, stream_start},
    scene::{Agent, Scene, ask, figures},
};

#[test]
fn two_runs_at_a_time_are_metered_apart() {
    // The model is named by the request, so that an answer that got to the wrong run would show.
    let host = Host::start(|seen, out| {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        let model = body["model"].as_str().unwrap().to_owned();
        let stream =
            format!("{STREAM}{}{}0\r\n\r\n", chunk(&stream_start(&model, 10)), chunk(&stream_end(7)));
        let answer = if model.starts_with('s') { stream } else { message(&model, 10, 7) };
        out.write_all(answer.as_bytes()).is_ok()
    });
    let scene = Scene::new(&host);
    let sockets = [scene.open(1), scene.open(2)];
    thread::scope(|scope| {
        for (n, socket) in sockets.iter().enumerate() {
            for model in ["doc", "strea"] {
                scope.spawn(move || {
                    let model = format!("{model}{n}");
                    let mut agent = Agent::connect(socket);
                    for _ in 0..20 {
                        agent.ask(&serde_json::json!({ "model": model }).to_string());
                        assert_eq!(agent.answer().status, 200);
                    }
                });
            }
        }
    });
    (1..=2).for_each(|run| scene.close(run));
    let pages = scene.pages();
    for run in [1, 2] {
        let page = &pages[&run];
        let n = run - 1;
        assert_eq!(page.models.len(), 2, "{page:?}");
        for model in [format!("doc{n}"), format!("strea{n}")] {
            assert_eq!(figures(page, &model), (20, 0, 200, 140), "{page:?}");
        }
    }
}

#[test]
fn an_agent_that_goes_away_in_the_middle_is_charged_for_its_use() {
    let (host, _go) =
        Host::halting(format!("{STREAM}{}", chunk(&stream_start("m", 25))), "0\r\n\r\n".to_owned());
    let scene = Scene::new(&host);
    let mut agent = Agent::connect(&scene.open(1));
    agent.ask("{}");
    assert_eq!(agent.head().unwrap().status, 200);
    assert!(agent.piece().is_some());
    drop(agent);
    assert_eq!(figures(&scene.page(1), "m"), (1, 1, 25, 1));
}

#[test]
fn a_run_that_ends_has_everything_in_the_books() {
    let host = Host::always(message("m", 4, 5));
    let scene = Scene::new(&host);
    let socket = scene.open(1);
    for _ in 0..5 {
        ask(&socket, "{}");
    }
    let page = scene.page(1);
    assert_eq!(figures(&page, "m"), (5, 0, 20, 25));
    assert_eq!(page.models["m"].tokens.cache_read, 15);
}
