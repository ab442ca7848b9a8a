//! Files both ways on each platform.

use super::*;

const REPORT: &str = "%PDF-1.4 a report of this week";

impl Town {
    /// Ada sends a file, and no text.
    fn sends(&self, name: &str, text: &str) {
        match self {
            Self::Telegram(fake) => {
                fake.ask(
                    "file",
                    &json!({"file_id": name, "path": format!("documents/{name}"), "text": text}),
                );
                let file = json!({"file_id": name, "file_unique_id": name, "file_name": name,
                    "mime_type": "application/pdf", "file_size": text.len()});
                fake.message(telegram::GROUP, json!({"document": file}));
            }
            Self::Discord(fake) => {
                let file = fake.world().file(name, "application/pdf", text.as_bytes().to_vec(), 0);
                fake.world().say(GENERAL, ADA, "", &json!({"attachments": [file]}));
            }
            Self::Slack(fake) => {
                let file = fake.world().file("F1", name, "application/pdf", text.as_bytes().to_vec());
                fake.world().say(LOUNGE, ADA_THERE, "", &json!({"files": [file]}));
            }
            Self::Matrix { ada, room, .. } => {
                let content = json!({"msgtype": "m.file", "body": name, "filename": name,
                    "url": ada.upload(text.as_bytes()), "info": {"mimetype": "application/pdf", "size": text.len()}});
                ada.send(room, "m.room.message", content);
            }
        }
    }

    /// The files that the bot brought: the text beside each, its name, and its size.
    fn brought(&self) -> Vec<(String, String, u64)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match self {
            Self::Telegram(fake) => {
                let files = fake.said().into_iter().filter(|said| said["document"].is_object());
                let one = |said: Value| {
                    let file = &said["document"];
                    (text(&said["caption"]), text(&file["file_name"]), file["file_size"].as_u64().unwrap())
                };
                files.map(one).collect()
            }
            Self::Discord(fake) => {
                let mut all = Vec::new();
                for said in fake.said(GENERAL) {
                    for (n, file) in said["attachments"].as_array().into_iter().flatten().enumerate() {
                        let beside = if n == 0 { text(&said["content"]) } else { String::new() };
                        all.push((beside, text(&file["filename"]), file["size"].as_u64().unwrap()));
                    }
                }
                all
            }
            Self::Slack(fake) => {
                let mut all = Vec::new();
                for said in fake.said(LOUNGE) {
                    for (n, file) in said["files"].as_array().into_iter().flatten().enumerate() {
                        let beside = if n == 0 { text(&said["text"]) } else { String::new() };
                        all.push((beside, text(&file["name"]), file["size"].as_u64().unwrap()));
                    }
                }
                all
            }
            Self::Matrix { ada, bot, room, .. } => {
                let files = ada.said_by(room, &bot.id).into_iter().map(|said| said["content"].clone());
                let one = |content: Value| {
                    let (name, body) = (text(&content["filename"]), text(&content["body"]));
                    let bytes = ada.download(content["url"].as_str().unwrap());
                    (if body == name { String::new() } else { body }, name, bytes.len() as u64)
                };
                files.filter(|content| content["url"].is_string()).map(one).collect()
            }
        }
    }
}

#[test]
fn a_file_that_somebody_sends_is_where_the_agent_reads_it() {
    for town in Town::all("files-in") {
        let home = Home::new(&town, "");
        let _daemon = home.serve(&town);
        town.sends("report.pdf", REPORT);
        let row =
            wait_for("the message", || home.root.rows(&["messages", "list", "--chat", &town.chat()]).pop());
        let seq = row["seq"].as_i64().unwrap();
        let run = wait_for("its run", || home.root.why(seq)["wirings"][0]["run"].as_i64());
        wait_for("its answer", || {
            home.root.why(seq)["answers"].as_array().is_some_and(|all| !all.is_empty()).then_some(())
        });
        let date = &row["received_at"].as_str().unwrap()[..10];
        let shown = home.root.data(&format!("media-of/main/{date}/{seq}-1-report.pdf"));
        let line = format!("[document: report.pdf — {}, {} bytes]", shown.display(), REPORT.len());
        let prompt = home.root.prompt(run);
        assert!(prompt.contains(&line), "{}: {prompt}", town.channel());
        assert_eq!(std::fs::read_to_string(shown).unwrap(), REPORT, "{}", town.channel());
    }
}

#[test]
fn files_that_an_agent_sends_arrive_once_with_their_text() {
    for town in Town::all("files-out") {
        let home = Home::new(&town, "");
        let _daemon = home.serve(&town);
        for name in ["a.txt", "b.txt"] {
            std::fs::write(home.root.path().join("groups/main").join(name), name.repeat(1000)).unwrap();
        }
        let command = json!({"type": "send_message", "requestId": "r1", "chatJid": town.chat(), "text": "here you are",
            "attachments": [{"filePath": "a.txt", "mimetype": "text/plain"}, {"filePath": "b.txt", "mimetype": "text/plain"}]});
        home.root.put_command("main", "messages", "r1.json", &command);
        assert_eq!(home.root.reply("main", "r1")["ok"], true);
        home.until(town.channel(), |row| row["unsent"] == 0);
        let brought = [("here you are", "a.txt", 5000), ("", "b.txt", 5000)]
            .map(|(text, name, size)| (text.to_owned(), name.to_owned(), size));
        // A homeserver may show a message a moment after it has taken it.
        wait_for(&format!("both files on {}", town.channel()), || (town.brought() == brought).then_some(()));
        assert_eq!(home.root.rows(&["outbox", "list"])[0]["status"], "sent", "{}", town.channel());
    }
}

#[test]
fn an_album_of_telegram_is_one_message_whose_words_stand_with_any_of_its_files() {
    let town = Town::telegram(0);
    let Town::Telegram(fake) = &town else { panic!() };
    let home = Home::engaged(&town, "", "mention");
    let _daemon = home.serve(&town);
    for (name, words) in [("a.pdf", ""), ("b.pdf", "@g2bot compare them")] {
        fake.ask("file", &json!({"file_id": name, "path": format!("documents/{name}"), "text": REPORT}));
        let mut piece = json!({"media_group_id": "7", "document": {"file_id": name, "file_unique_id": name, "file_name": name,
            "mime_type": "application/pdf", "file_size": REPORT.len()}});
        if !words.is_empty() {
            piece["caption"] = words.into();
            piece["caption_entities"] = json!([{"type": "mention", "offset": 0, "length": 6}]);
        }
        fake.message(telegram::GROUP, piece);
    }
    wait_for("an answer", || (!town.texts().is_empty()).then_some(()));
    let rows = home.root.rows(&["messages", "list", "--chat", &town.chat()]);
    assert_eq!((rows.len(), &rows[0]["text"]), (1, &json!("@g2bot compare them")), "{rows:?}");
    let run = home.root.why(rows[0]["seq"].as_i64().unwrap())["wirings"][0]["run"].as_i64().unwrap();
    let prompt = home.root.prompt(run);
    assert!(prompt.contains("[document: a.pdf — /") && prompt.contains("[document: b.pdf — /"), "{prompt}");
}
