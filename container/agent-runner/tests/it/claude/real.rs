//! What only the real CLI can show.

use std::fs;

use serde_json::json;

use super::cli::{Cli, Stage};

#[test]
fn memory_files_and_the_appended_prompt_reach_the_model_without_settings() {
    let Some(cli) = Cli::real() else { return };
    let stage = Stage::new(&cli, &json!(["done"]));
    for (folder, text) in [("group", "GROUP-MEMORY"), ("global", "GLOBAL-MEMORY")] {
        fs::create_dir_all(stage.home.path(folder)).unwrap();
        stage.home.put(&format!("{folder}/CLAUDE.md"), text);
    }
    let global = stage.home.path("global");
    let stage = stage.with(|provider| {
        provider["appendSystemPrompt"] = "APPENDED-PROMPT".into();
        provider["directories"] = json!([global]);
        provider["model"] = "claude-sonnet-4-5".into();
    });
    stage.run("a").ready().says("done", &["1"]);
    let request = &stage.requests()[0];
    assert_eq!(request["model"], "claude-sonnet-4-5");
    for words in [
        "GROUP-MEMORY",
        "GLOBAL-MEMORY",
        "APPENDED-PROMPT",
        "local times of the user, whose zone is Europe/Berlin",
    ] {
        assert!(request["body"].to_string().contains(words), "{words}");
    }
    let tools = request["tools"].to_string();
    assert!(
        tools.contains("mcp__g2__schedule_task")
            && !tools.contains("Cron")
            && tools.contains("AskUserQuestion"),
        "{tools}"
    );
}

const SKILL: &str = "---\nname: gardening\ndescription: WHEN-TO-USE-IT\n---\nHOW-TO-DO-IT !`echo \"<${AWS_SECRET-unset}>\"`\n";

#[test]
fn skills_are_offered_and_loaded_although_settings_count_for_nothing() {
    let Some(cli) = Cli::real() else { return };
    for sources in [json!([]), json!(["user"])] {
        let name = if sources == json!([]) { "g2:gardening" } else { "gardening" };
        let load = json!({"tool_use": {"name": "Skill", "input": {"skill": name}}});
        let stage = Stage::new(&cli, &json!([load, "done"]))
            .with(|provider| provider["settingSources"] = sources.clone());
        fs::create_dir_all(stage.home.path("home/.claude/skills/gardening")).unwrap();
        stage.home.put("home/.claude/skills/gardening/SKILL.md", SKILL);
        stage.home.put("home/.claude/settings.json", r#"{"disableAllHooks":true}"#);
        let runner =
            stage.run_with("a", |launch| launch["secrets"] = json!({"AWS_SECRET": "aws-real"})).ready();
        runner.says("done", &["1"]);
        let seen: Vec<String> = stage.requests().iter().map(|request| request["body"].to_string()).collect();
        assert!(seen[0].contains("WHEN-TO-USE-IT") && !seen[0].contains("HOW-TO-DO-IT"), "{sources}");
        assert!(seen[1].contains("HOW-TO-DO-IT <unset>"), "{sources}: {}", stage.seen()[1]);
    }
}

#[test]
fn the_skills_of_this_installation_are_offered() {
    let Some(cli) = Cli::real() else { return };
    let stage = Stage::new(&cli, &json!(["done"]));
    fs::create_dir_all(stage.home.path("home/.claude/skills")).unwrap();
    let names = ["browsing", "mailbox", "scheduling"];
    for name in names {
        let text = concat!(env!("CARGO_MANIFEST_DIR"), "/../skills");
        fs::create_dir(stage.home.path(format!("home/.claude/skills/{name}"))).unwrap();
        let text = fs::read(format!("{text}/{name}/SKILL.md")).unwrap();
        stage.home.put(&format!("home/.claude/skills/{name}/SKILL.md"), text);
    }
    stage.run("a").ready().says("done", &["1"]);
    let offered = stage.requests()[0]["body"].to_string();
    for name in names {
        assert!(offered.contains(&format!("g2:{name}: How to")), "{name}");
    }
}

#[test]
fn servers_that_the_agent_names_in_its_folder_are_not_started() {
    let Some(cli) = Cli::real() else { return };
    let stage = Stage::new(&cli, &json!(["done"]));
    let servers = json!({"mcpServers": {"own": {"command": "touch", "args": [stage.home.path("started")]}}});
    stage.home.put("group/.mcp.json", servers.to_string());
    stage.run("a").ready().says("done", &["1"]);
    assert!(!stage.home.path("started").exists());
}

#[test]
fn the_tools_work_from_a_server_of_their_own_too() {
    let Some(cli) = Cli::real() else { return };
    let say = json!({"tool_use": {"name": "mcp__g2__send_message", "input": {"text": "on it"}}});
    let cancel = json!({"tool_use": {"name": "mcp__g2__cancel_task", "input": {"task_id": "t"}}});
    let stage = Stage::new(&cli, &json!([say, cancel, "done"]));
    std::thread::scope(|threads| {
        let host = threads.spawn(|| {
            let refusal = json!({"code": "not_found", "message": "no task", "hint": "look"});
            [
                stage.answer(&json!({"ok": true, "result": {"outboxId": 5}})),
                stage.answer(&json!({"ok": false, "error": refusal})),
            ]
        });
        assert_eq!(stage.alone("hello"), "done");
        let [said, cancelled] = host.join().unwrap();
        assert_eq!((&said["chatJid"], &said["text"]), (&json!("local:kitchen"), &json!("on it")));
        assert_eq!(cancelled["taskId"], "t");
    });
    let requests = stage.requests();
    assert!(requests[0]["tools"].to_string().contains("mcp__g2__schedule_task"));
    assert!(requests[1]["tool_results"].to_string().contains("outboxId"), "{}", requests[1]["tool_results"]);
    let refused = &requests[2]["tool_results"][0];
    assert!(refused["is_error"] == true && refused.to_string().contains("Refused (not_found)"), "{refused}");
}
