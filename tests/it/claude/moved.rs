//! A group as NanoClaw's first version left it, with the real Claude Code in a container of ours.
#![expect(clippy::disallowed_methods, reason = "tests play the user")]

use std::fs;

use serde_json::json;

use super::{
    house::{CHAT, House},
    servers::SERVER,
};

#[test]
fn a_group_s_memory_skills_settings_and_tool_servers_go_on_working_where_v1_had_them() {
    let call = json!({"tool_use": {"name": "mcp__weather__forecast", "input": {"city": "Rome"}}});
    let Some(house) = House::new("", &json!([call, "sunny"])) else { return };
    let put = |path: &str, text: &str| {
        let path = house.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("groups/main/CLAUDE.md", "# Andy\n\n@notes/plants.md\n\nThe word is heron.\n");
    put("groups/main/notes/plants.md", "The fern wants water on Mondays.\n");
    put("groups/global/CLAUDE.md", "All of us live in Lisbon.\n");
    let skill =
        |name: &str| format!("---\nname: {name}\ndescription: How to {name}. Use it daily.\n---\nText.\n");
    // One that all groups had, and one that the group's agent wrote for itself.
    put("container/skills/brew/SKILL.md", &skill("brew"));
    put("data/sessions/main/.claude/skills/knead/SKILL.md", &skill("knead"));
    let settings = json!({"env": {"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1",
        "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1", "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "0"}});
    put("data/sessions/main/.claude/settings.json", &settings.to_string());
    let dotenv = house.path().join(".env");
    let secrets = fs::read_to_string(&dotenv).unwrap();
    fs::write(dotenv, format!("{secrets}WEATHER_TOKEN=sk-sky\n")).unwrap();
    put("groups/main/weather.sh", SERVER);
    let servers = json!({"mcpServers": {"weather": {"type": "stdio", "command": "sh",
        "args": ["/workspace/group/weather.sh"], "env": {"WEATHER_TOKEN": "${WEATHER_TOKEN}"}}}});
    put("groups/main/.mcp.json", &servers.to_string());
    house.g2(&[
        "groups",
        "set",
        "main",
        &format!("mcp=@{}", house.path().join("groups/main/.mcp.json").display()),
    ]);

    let daemon = house.serve();
    assert_eq!(house.ask(CHAT, "hello"), "sunny\n");
    let asked = serde_json::to_string(&house.model.requests()).unwrap();
    for text in [
        "The word is heron",
        "The fern wants water on Mondays",
        "All of us live in Lisbon",
        "How to brew",
        "How to knead",
        "sunny in Rome, by sk-sky",
    ] {
        assert!(asked.contains(text), "{text}: {asked}");
    }
    assert_eq!(daemon.terminate(), Some(0));
}
