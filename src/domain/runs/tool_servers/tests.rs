use super::*;

fn set(text: &str) -> Result<Servers, Fault> {
    changed(Servers::new(), text)
}

fn why(text: &str) -> String {
    match set(text) {
        Ok(servers) => panic!("{text}: {servers:?}"),
        Err(fault) => fault.why.to_string(),
    }
}

fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_line_names_a_program_or_an_address() {
    let servers = set(
        "weather: UNITS=metric python3 'my server.py' --port 7\n\n docs : https://Mcp.Example.com/mcp Authorization='Bearer ${DOCS_TOKEN}'",
    )
    .unwrap();
    let weather = McpServer::Stdio {
        command: "python3".into(),
        args: ["my server.py", "--port", "7"].map(str::to_owned).into(),
        env: pairs(&[("UNITS", "metric")]),
    };
    assert_eq!(servers["weather"], weather);
    let headers = pairs(&[("Authorization", "Bearer ${DOCS_TOKEN}")]);
    assert_eq!(servers["docs"], McpServer::Http { url: "https://Mcp.Example.com/mcp".into(), headers });
    assert_eq!(secrets(&servers["docs"]).collect::<Vec<_>>(), ["DOCS_TOKEN"]);
    assert_eq!(place(&servers["docs"]).map(|place| as_rule(&place)).as_deref(), Some("mcp.example.com"));
    assert_eq!(place(&weather), None);
}

#[test]
fn lines_change_one_server_each_and_json_takes_the_place_of_all() {
    let two = set("a: x\nb: y").unwrap();
    let next = changed(two.clone(), "a:\nc: z").unwrap();
    assert_eq!(next.keys().collect::<Vec<_>>(), ["b", "c"]);
    let whole = changed(two.clone(), r#"{"mcpServers": {"d": {"command": "x"}}}"#).unwrap();
    assert_eq!(whole.keys().collect::<Vec<_>>(), ["d"]);
    assert_eq!(changed(two.clone(), " ").unwrap(), Servers::new());
    let fault = changed(two, "none:").unwrap_err();
    assert_eq!((fault.server.as_str(), fault.why), ("none", BadServer::Absent));
}

#[test]
fn json_is_read_as_claude_code_reads_it() {
    let servers = set(r#"{"mcpServers": {
            "files": {"command": "npx", "args": ["-y", "server-files", "/workspace/group"], "env": {"FILES_TOKEN": "${FILES_TOKEN}"}},
            "old": {"type": "sse", "url": "http://10.0.0.1:8080/sse"},
            "new": {"type": "http", "url": "https://example.com/mcp", "headers": {"X-Api-Key": "${NEW_KEY}"}}
        }}"#);
    let servers = servers.unwrap();
    assert!(
        matches!(&servers["old"], McpServer::Sse { .. }) && matches!(&servers["new"], McpServer::Http { .. })
    );
    let stored = serde_json::to_string(&servers).unwrap();
    assert_eq!(serde_json::from_str::<Servers>(&stored).unwrap(), servers);
    assert_eq!(set(&stored).unwrap(), servers, "what is shown can be set again");
    assert_eq!(place(&servers["old"]).map(|place| as_rule(&place)).as_deref(), Some("10.0.0.1:8080"));
    for (text, words) in [
        ("{", "no JSON at line 1"),
        (r#"{"mcpServers": []}"#, "no object"),
        (r#"{"a": "x"}"#, "a server is an object"),
        (r#"{"a": {}}"#, "`command` and `url`"),
        (r#"{"a": {"command": "x", "args": "y"}}"#, "list of texts"),
        (r#"{"a": {"command": "x", "env": {"A": 1}}}"#, "objects of texts"),
        (r#"{"a": {"command": "x", "disabled": true}}"#, "it has \"disabled\""),
        (r#"{"a": {"command": "x", "url": "https://a.example"}}"#, "it has \"command\""),
        (r#"{"a": {"type": "http", "command": "x"}}"#, "type stdio"),
        (r#"{"a": {"type": 7, "command": "x"}}"#, "type stdio"),
    ] {
        assert!(why(text).contains(words), "{text}: {}", why(text));
    }
}

#[test]
fn what_can_t_be_is_refused_in_words() {
    let words_of_65 = format!("a: {}", "x ".repeat(65));
    let long = format!("a: {}", "x".repeat(LONGEST_TEXT + 1));
    let many: String = (0..=MOST).map(|n| format!("s{n}: x\n")).collect();
    let variables = format!("a: {} x", (0..=MOST_TEXTS).map(|n| format!("V{n}=1 ")).collect::<String>());
    for (text, words) in [
        ("weather", "a line is `NAME: COMMAND`"),
        ("g2: x", "G2's own tools"),
        ("G2: x", "G2's own tools"),
        ("a__b: x", "no `__`"),
        ("-a: x", "begins with a letter"),
        ("ä: x", "letters, digits"),
        (": x", "letters, digits"),
        ("a: A=1", "names no program"),
        ("a: 'x", "a quote is not closed"),
        ("a: x\u{7}", "no control characters"),
        ("a: https://", "http://… or https://"),
        ("a: https://user:pw@example.com", "without a user"),
        ("a: https://example.com:0/", "its port is none"),
        ("a: https://example.com notaheader", "behind an address stand headers"),
        ("a: https://example.com 'X Y=1'", "no name of a variable"),
        (&words_of_65, "at most 64 words"),
        (&variables, "32 variables"),
        (&long, "4096 bytes"),
        (&many, "at most 16 tool servers"),
    ] {
        assert!(why(text).contains(words), "{text}: {}", why(text));
    }
    let much = "x".repeat(LONGEST + 1);
    assert!(why(&much).contains("at most 65536"), "{}", why(&much));
}

#[test]
fn a_secret_stands_in_no_command_and_in_no_store() {
    for (text, words) in [
        ("a: API_KEY=sk-1 x", "API_KEY holds a secret"),
        ("a: https://example.com Authorization='Bearer sk-1'", "Authorization holds a secret"),
        ("a: https://example.com X-Api-Key=sk-1", "X-Api-Key holds a secret"),
        ("a: x --api-key sk-1", "Give --api-key as a variable"),
        ("a: x --token=sk-1", "Give --token as a variable"),
        ("a: x --apiKey=sk-1", "Give --apiKey as"),
        ("a: x '${MY_TOKEN}'", "Give ${MY_TOKEN} as a variable"),
        ("a: x -e API_TOKEN=sk-1", "Give API_TOKEN as a variable"),
        ("a: x -H 'Authorization: Bearer sk-1'", "Give Authorization as a variable"),
        ("a: x '--header=X-Api-Key: sk-1'", "Give X-Api-Key as a variable"),
        ("a: x postgres://ada:sk-1@db/x", "Give the user of an address as a variable"),
        ("a: A='${AWS_SECRET_ACCESS_KEY}' x", "is the model's"),
        ("a: A='${AWS_SESSION_TOKEN}' x", "is the model's"),
        ("a: https://example.com/${MY_TOKEN}", "Give ${MY_TOKEN} as a variable"),
        ("a: https://example.com/?api_key=sk-1", "Give api_key as a variable"),
        ("a: A='${ANTHROPIC_API_KEY}' x", "is the model's"),
        ("a: A='${CLAUDE_CODE_OAUTH_TOKEN}' x", "is the model's"),
        ("a: A='${my_token}' x", "capital letters"),
        ("a: A='${MY_TOKEN:-sk-1}' x", "capital letters"),
    ] {
        let told = why(text);
        assert!(told.contains(words) && !told.contains("sk-1 ") && !told.contains("=sk-1"), "{text}: {told}");
    }
    for fine in [
        "a: API_KEY='${MY_KEY}' x",
        "a: x --max-tokens 5 --keyboard=de",
        "a: MONKEY=1 x",
        "a: x -e PAGE=1 --at=https://example.com/a@b c:/d",
        "a: https://example.com/?page=1 Accept=text/html",
    ] {
        assert!(set(fine).is_ok(), "{fine}: {:?}", set(fine));
    }
}

#[test]
fn of_a_text_only_names_are_logged() {
    for (text, expected) in [
        ("", ""),
        ("weather: A=sk-1 x\ndocs: https://a.example", "weather, docs: …"),
        (r#"{"mcpServers": {"files": {"command": "x", "env": {"A": "sk-1"}}}}"#, "files: …"),
        ("sk-1", "…"),
        ("{\"sk-1", "…"),
    ] {
        assert_eq!(names(text), expected, "{text}");
    }
}

#[test]
fn a_tool_of_a_server_is_shown_with_it() {
    for (name, shown) in [
        ("mcp__weather__forecast", "weather: forecast"),
        ("mcp__my_server__a__b", "my_server: a__b"),
        ("Bash", "Bash"),
        ("mcp__", "mcp__"),
        ("mcp__x__", "mcp__x__"),
        ("mcp____x", "mcp____x"),
    ] {
        assert_eq!(tool_as_shown(name), shown);
    }
}

#[test]
fn what_a_server_lacks_is_told_with_the_command() {
    let group = Folder::parse("home").unwrap();
    let servers = set("docs: https://mcp.example.com:8443/mcp Authorization='${DOCS_TOKEN}'").unwrap();
    let allow = |pattern: &str| Rules { all: vec![pattern.parse().unwrap()], own: Vec::new() };
    let fixes = |servers: &Servers, network, rules: &Rules, has: bool| {
        let lacks = lacks(&group, servers, network, rules, |_| has);
        lacks.into_iter().map(|(_, lack)| lack.fix).collect::<Vec<_>>()
    };
    let (none, all) = (Rules::default(), allow("mcp.example.com:8443"));
    let network = "`g2 groups set home network=allowlist`";
    let egress = "`g2 egress allow mcp.example.com:8443 --group home`";
    let both = format!("{network}, then {egress}");
    for (is, rules, expected) in [
        (Network::Model, &none, &[both.as_str()][..]),
        (Network::Model, &all, &[network]),
        (Network::Allowlist, &none, &[egress]),
        (Network::Allowlist, &allow("mcp.example.com"), &[egress]),
        (Network::Allowlist, &all, &[]),
        (Network::Open, &none, &[]),
    ] {
        assert_eq!(fixes(&servers, is, rules, true), expected, "{is}");
    }
    let secret = fixes(&servers, Network::Open, &none, false);
    assert_eq!(secret, ["write DOCS_TOKEN=… into .env, and `chmod 600` the file"]);
    let near = set("near: http://192.168.1.2:9000/").unwrap();
    assert!(fixes(&near, Network::Allowlist, &none, true)[0].contains("network=open"));
    for inside in ["here: http://127.0.0.1:9000/", "here: http://localhost:9000/"] {
        assert!(fixes(&set(inside).unwrap(), Network::Model, &none, true).is_empty(), "{inside}");
    }
}
