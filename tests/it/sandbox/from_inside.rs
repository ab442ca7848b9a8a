//! The model's socket as it is seen from inside a container: no network, another user, a folder that can't be written.
#![expect(clippy::disallowed_methods, reason = "tests play the user")]

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use g2::sandbox::{Access, Mount, Whose};

use super::house::House;
use crate::{
    gateway::{
        host::{Host, message},
        scene::{KEY, Scene, figures},
    },
    support::{Docked, wait_for},
};

const AGENT: (u32, u32) = (1000, 1000);

#[tokio::test(flavor = "multi_thread")]
async fn the_model_answers_without_a_network_and_over_a_folder_that_can_not_be_written() {
    let Some(house) = House::docker().await else { return };
    let host = Host::always(message("from-the-model", 10, 7));
    let (page, written, seen) = tokio::task::block_in_place(|| {
        let scene = Scene::new(&host);
        let mut spec = house.spec(&["ask", "/run/g2/model.sock"]);
        let folder = scene.folder(spec.run);
        scene.open_for(spec.run, &folder, AGENT);
        spec.env.insert("ANTHROPIC_API_KEY".into(), "placeholder".into());
        spec.mounts.push(Mount {
            host: folder,
            inside: "/run/g2".to_owned(),
            access: Access::ReadOnly,
            whose: Whose::Own,
        });
        let runtime = tokio::runtime::Handle::current();
        let written = runtime.block_on(async {
            let id = house.launch_spec(&spec, b"").await;
            house.written(&id).await.text().to_owned()
        });
        (scene.page(spec.run), written, host.one())
    });
    assert!(written.starts_with("HTTP/1.1 200 OK") && written.contains("from-the-model"), "{written}");
    assert!(!written.contains(KEY));
    assert_eq!(seen.header("x-api-key"), Some(KEY));
    assert_eq!(figures(&page, "from-the-model"), (1, 0, 10, 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_outlives_its_daemon_reaches_the_model_through_the_next_one() {
    let Some(house) = House::docker().await else { return };
    let spec = house.spec(&["ask-until", "/run/g2/model.sock", "enough"]);
    tokio::task::block_in_place(|| {
        let Some(root) = Docked::new("") else { return };
        let last = Arc::new(AtomicBool::new(false));
        let is_last = Arc::clone(&last);
        let host = Host::start(move |_, out| {
            let model = if is_last.load(Ordering::SeqCst) { "enough" } else { "more" };
            out.write_all(message(model, 10, 7).as_bytes()).is_ok()
        });
        root.settings(&format!(
            "[sandbox]\nkind = \"docker\"\nimage = \"{}\"\n[agent]\nprovider = \"claude\"\ncommand = {:?}\n[gateway]\nupstream = \"{}\"\n",
            spec.image,
            spec.command,
            host.url()
        ));
        fs::write(root.path().join(".env"), format!("ANTHROPIC_API_KEY={KEY}\n")).unwrap();
        let daemon = root.serve();
        root.send("local:main", "hello");
        wait_for("a request from inside", || (!host.seen().is_empty()).then_some(()));
        daemon.kill();
        let before = host.seen().len();
        let _daemon = root.serve();
        wait_for("a request after the crash", || (host.seen().len() > before).then_some(()));
        last.store(true, Ordering::SeqCst);
        wait_for("the last answer to be heard inside", || {
            root.run(&["runs", "logs", "1"]).stdout.ends_with(b"heard enough\n").then_some(())
        });
        let models = wait_for("it to be stored", || {
            let rows = root.rows(&["usage", "--by", "model"]);
            let models: Vec<_> =
                rows.iter().filter_map(|row| row["model"].as_str().map(str::to_owned)).collect();
            models.contains(&"enough".to_owned()).then_some(models)
        });
        assert_eq!(models, ["enough", "more"]);
        assert_eq!(root.rows(&["runs", "list"]).len(), 1, "it is one run");
        assert!(host.seen().iter().all(|seen| seen.header("x-api-key") == Some(KEY)));
    });
}
