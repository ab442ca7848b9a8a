//! The model's host fails, falls silent, or the container dies: the message is answered all the same, or the chat is
//! told once.

use serde_json::{Value, json};

use super::house::{CHAT, House, conversation, told, until_go};
use crate::support::{noon, run_docker};

/// How each run ended, the first one first.
fn errors(house: &House) -> Vec<String> {
    let mut runs = house.rows(&["runs", "list"]);
    runs.sort_by_key(|run| run["id"].as_i64());
    runs.iter().map(|run| run["error"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_host_that_is_busy_for_a_moment_costs_no_run() {
    let busy = json!({"status": 429, "headers": {"retry-after": "1"}});
    let Some(house) = House::new("", &json!([busy, {"status": 500}, "answered"])) else { return };
    let _daemon = house.serve();
    assert_eq!(house.ask(CHAT, "hello"), "answered\n");
    assert_eq!((errors(&house), house.model.asked().len()), (vec![String::new()], 3));
}

#[test]
fn a_limit_that_its_host_says_lasts_ends_the_run_at_once_and_is_told_with_the_hour_and_a_word_of_the_owner_tries_it()
 {
    let limit = json!({"status": 429, "headers": {"retry-after": "7200"}});
    let Some(house) = House::new("", &json!([limit, "answered"])) else { return };
    let _daemon = house.serve();
    house.send(CHAT, "hello");
    let told = house.has_said(1);
    assert!(
        told[0]
            .contains("the limit of my model is reached. I keep your message, and try again by myself at "),
        "{told:#?}"
    );
    let lanes = house.rows(&["lanes", "list"]);
    assert!(
        lanes[0]["waits_for"].as_str().unwrap().contains("the end of a limit of the model, at "),
        "{lanes:#?}"
    );
    let status = house.json(&["status"]);
    assert!(
        status["problems"][0].as_str().unwrap().contains("says that the limit of the key is reached (429"),
        "{status}"
    );
    assert_eq!(house.model.asked().len(), 1, "the CLI does not wait for two hours");
    house.send(CHAT, "are you there?");
    assert_eq!(house.has_said(2)[1], "answered");
    let asked = conversation(house.model.asked().last().unwrap());
    assert!(asked.contains("hello") && asked.contains("are you there?"), "{asked}");
    assert!(house.json(&["status"])["problems"].as_array().unwrap().is_empty());
}

#[test]
fn another_model_answers_while_the_groups_own_is_at_its_limit_and_work_rests_once_that_one_is_too() {
    let limit = json!({"status": 429, "headers": {"retry-after": "7200"}});
    let short = json!({"status": 429, "headers": {"retry-after": "3600"}});
    let Some(house) = House::new("", &json!([limit, "answered", short])) else { return };
    let _daemon = house.serve();
    house.g2(&["groups", "set", "main", "model=claude-large-1", "model_fallback=claude-small-1"]);
    house.send(CHAT, "hello");
    let told = house.has_said(2);
    assert!(
        told[0].starts_with("I answer with the model claude-small-1 until ")
            && told[0].ends_with(" because the limit of my model is reached."),
        "{told:#?}"
    );
    assert_eq!(told[1], "answered");
    let models: Vec<String> =
        house.model.asked().iter().map(|asked| asked["model"].as_str().unwrap().to_owned()).collect();
    assert_eq!(models, ["claude-large-1", "claude-small-1"]);
    let status = house.json(&["status"]);
    let problem = status["problems"][0].as_str().unwrap();
    assert!(
        problem.contains("(429") && problem.contains("the model claude-small-1 answers for main"),
        "{status}"
    );
    // The other model has a limit, too.
    house.send(CHAT, "and now?");
    let told = house.has_said(3);
    assert!(told[2].contains("I keep your message, and try again by myself at "), "{told:#?}");
}

#[test]
fn a_name_of_no_model_costs_no_try_and_another_name_is_tried_at_once() {
    let limit = json!({"status": 429, "headers": {"retry-after": "7200"}});
    // The CLI asks once more without a stream.
    let none = json!({"status": 404, "message": "model: claude-smal-1", "times": 2});
    let Some(house) = House::new("", &json!([limit, none, limit, "answered"])) else { return };
    let _daemon = house.serve();
    house.g2(&["groups", "set", "main", "model=claude-large-1", "model_fallback=claude-smal-1"]);
    house.send(CHAT, "hello");
    let told = house.has_said(2);
    assert!(told[1].contains("does not know the model that I am set to. I keep your message"), "{told:#?}");
    let status = house.json(&["status"]);
    let problem = status["problems"][0].as_str().unwrap();
    assert!(problem.contains("does not know the model that it was asked for (404"), "{status}");
    house.g2(&["groups", "set", "main", "model_fallback=claude-small-1"]);
    let told = house.has_said(4);
    assert_eq!(told[3], "answered", "{told:#?}");
    let mut models: Vec<String> =
        house.model.asked().iter().map(|asked| asked["model"].as_str().unwrap().to_owned()).collect();
    models.dedup();
    assert_eq!(models, ["claude-large-1", "claude-smal-1", "claude-large-1", "claude-small-1"]);
}

#[test]
fn a_message_that_always_fails_is_tried_six_times_and_told_once_and_the_session_lives() {
    let Some(house) = House::new("", &json!([{"status": 400, "times": 6}, "better now"])) else { return };
    let _daemon = house.serve();
    let said = house.ask(CHAT, "hello");
    assert!(said.starts_with("I could not answer your last message: 6 attempts failed"), "{said}");
    let runs = errors(&house);
    assert_eq!(runs.len(), 6, "{runs:#?}");
    assert!(runs.iter().all(|error| error.contains("claude/invalid_request")), "{runs:#?}");
    assert_eq!(house.ask(CHAT, "and now?"), "better now\n");
    let told = conversation(house.model.asked().last().unwrap());
    assert!(told.contains("hello") && told.contains("and now?"), "{told}");
}

#[test]
fn a_host_that_falls_silent_before_or_in_the_middle_of_an_answer_is_given_up_and_asked_again() {
    let Some(house) = House::new(
        "[agent.claude]\nstall_timeout_ms = 5000\n",
        &json!([{"hang": 600}, {"text": "one two three", "hang_mid": 600}, "answered"]),
    ) else {
        return;
    };
    let _daemon = house.serve();
    assert_eq!(house.ask(CHAT, "hello"), "answered\n");
    let runs = errors(&house);
    assert_eq!(runs.len(), 3, "{runs:#?}");
    assert!(runs[0].contains("claude/stalled_before_answer"), "{runs:#?}");
    assert!(runs[1].contains("claude/stalled_mid_answer"), "{runs:#?}");
}

#[test]
fn a_container_that_is_killed_in_the_middle_of_a_turn_is_followed_by_one_that_answers() {
    let Some(house) = House::new("", &json!([until_go(), "answered"])) else { return };
    let _daemon = house.serve();
    house.send(CHAT, "hello");
    house.at_work("Bash");
    run_docker(&["kill", &house.container()]);
    assert_eq!(house.has_said(1), ["answered"]);
    assert_eq!(errors(&house).len(), 2);
    assert!(conversation(&house.model.asked()[1]).contains("hello"));
}

#[test]
fn a_key_that_is_refused_ends_the_run_within_seconds_and_the_message_is_answered_with_the_next_key() {
    let Some(house) = House::new("", &json!(["answered"])) else { return };
    house.put_key("sk-ant-api03-wrong");
    house.g2(&["config", "set", "limits.retry_base_ms", "600000"]);
    let _daemon = house.serve();
    house.send(CHAT, "hello");
    let told = house.has_said(1);
    assert!(told[0].contains("the host of my model does not take my key"), "{told:#?}");
    let run = house.json(&["runs", "show", "1"]);
    assert!(run["error"].as_str().unwrap().contains("invalid x-api-key"), "{run}");
    house.put_key(&house.key);
    assert_eq!(house.has_said(2)[1], "answered");
    assert_eq!(errors(&house)[1], "");
    assert!(conversation(house.model.asked().last().unwrap()).contains("hello"));
}

#[test]
fn a_tool_that_is_blocked_is_not_offered_and_refused_when_it_is_used_all_the_same() {
    let blocked = json!({"tool_use": {"name": "EnterPlanMode", "input": {}}});
    let Some(house) = House::new("", &json!([blocked, "without it, then"])) else { return };
    let _daemon = house.serve();
    assert_eq!(house.ask(CHAT, "hello"), "without it, then\n");
    let asked = house.model.asked();
    let offered: Vec<&Value> = asked[0]["tools"].as_array().unwrap().iter().collect();
    assert!(
        offered.contains(&&json!("Bash")) && offered.contains(&&json!("mcp__g2__send_message")),
        "{offered:?}"
    );
    for name in ["EnterPlanMode", "ExitPlanMode", "CronCreate"] {
        assert!(!offered.contains(&&json!(name)), "{name}");
    }
    assert_eq!(asked[1]["tool_results"][0]["is_error"], true);
    assert!(told(&asked[1]).contains("EnterPlanMode"), "{}", asked[1]);
}

#[test]
fn a_question_of_its_own_tool_is_asked_in_the_chat_and_the_answer_comes_as_a_message() {
    let question = json!({"question": "Which hotel?", "header": "Hotel", "multiSelect": false, "options": [
        {"label": "Ibis", "description": "cheap"}, {"label": "Hilton", "description": "dear"}]});
    let asks = json!({"tool_use": {"name": "AskUserQuestion", "input": {"questions": [question]}}});
    let Some(house) = House::new("", &json!([asks, "I have asked", "booked"])) else { return };
    let _daemon = house.serve();
    house.send(CHAT, "book a hotel");
    let said = house.has_said(2);
    assert!(said[0].starts_with("Which hotel?") && said[0].contains("2. Hilton"), "{said:#?}");
    assert_eq!(said[1], "I have asked");
    assert_eq!(house.ask(CHAT, "2"), "booked\n");
    let asked = house.model.asked();
    assert!(asked[0]["tools"].as_array().unwrap().contains(&json!("AskUserQuestion")), "{}", asked[0]);
    assert!(told(&asked[1]).contains("This was asked in the chat"), "{}", asked[1]);
    let answer = conversation(asked.last().unwrap());
    assert!(answer.contains("Which hotel?") && answer.contains(">2</message>"), "{answer}");
    let questions = house.json(&["questions", "list", "--all"]);
    assert_eq!((&questions[0]["state"], &questions[0]["answer"]), (&json!("answered"), &json!("Hilton")));
}

#[test]
fn a_budget_that_is_used_up_ends_the_turn_without_more_tries_and_the_message_is_answered_when_there_is_more()
{
    let script = json!([super::house::bash("true"), "answered"]);
    let Some(house) = House::new("[budget]\nrequests = 1\n", &script) else { return };
    let _daemon = house.serve_with(&[("TZ", &noon())]);
    house.send(CHAT, "hello");
    // The model asked for a tool, and was not asked again.
    let told = house.has_said(2);
    assert!(told.iter().any(|said| said.contains("Today's budget for my work is used up")), "{told:#?}");
    assert_eq!(errors(&house), ["the group's budget of the day is used up"]);
    assert_eq!(house.model.asked().len(), 1);
    let log = house.g2(&["runs", "logs", "1", "--raw"]);
    assert!(
        log.contains("claude/billing") && log.contains("g2: the budget of group main for today"),
        "{log}"
    );
    house.g2(&["groups", "set", "main", "budget.requests=50"]);
    assert_eq!(house.has_said(3).last().unwrap(), "answered");
    assert!(conversation(house.model.asked().last().unwrap()).contains("hello"));
}
