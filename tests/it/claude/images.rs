//! Pictures: the agent looks at them with its own tool, which makes large ones smaller before the model sees them.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user, and look at what agents do"
)]

use std::{fs, process::Command};

use serde_json::{Value, json};

use super::house::{CHAT, House};

/// Writes a picture of that many pixels which can't be packed well.
const DRAW: &str = r#"
import random, struct, sys, zlib
path, width, height = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
noise = random.Random(1)
pack = zlib.compressobj(1)
rows = b"".join(pack.compress(b"\0" + noise.randbytes(width) + bytes(2 * width)) for _ in range(height)) + pack.flush()
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
with open(path, "wb") as file:
    file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)))
    file.write(chunk(b"IDAT", rows) + chunk(b"IEND", b""))
"#;

/// The pictures in a conversation: media type, and bytes as base64.
fn pictures(of: &Value) -> Vec<(String, String)> {
    match of {
        Value::Object(map) if map.get("type") == Some(&json!("image")) => {
            let source = &map["source"];
            let text = |name: &str| source[name].as_str().unwrap_or_default().to_owned();
            vec![(text("media_type"), text("data"))]
        }
        Value::Object(map) => map.values().flat_map(pictures).collect(),
        Value::Array(all) => all.iter().flat_map(pictures).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn a_large_picture_reaches_the_model_made_smaller_by_the_agent_itself() {
    let read = json!({"tool_use": {"name": "Read", "input": {"file_path": "/workspace/group/photo.png"}}});
    let Some(house) = House::new("", &json!([read, "seen"])) else { return };
    let photo = house.path().join("groups/main/photo.png");
    let drawn =
        Command::new("python3").args(["-c", DRAW]).arg(&photo).args(["4000", "3000"]).status().unwrap();
    assert!(drawn.success());
    let size = fs::metadata(&photo).unwrap().len();
    assert!((10 << 20..25 << 20).contains(&size), "{size}");
    let _daemon = house.serve();
    house.ask(CHAT, "look at photo.png");
    let asked = house.model.asked();
    let last = &asked.last().unwrap()["body"]["messages"];
    let seen = pictures(last);
    let shown: Vec<(&str, usize)> = seen.iter().map(|(kind, data)| (kind.as_str(), data.len())).collect();
    eprintln!("pictures: {shown:?} of {size} bytes");
    // What a model takes at most, as base64.
    assert!(seen.len() == 1 && seen[0].1.len() < 5 << 20, "{shown:?} {last}");
    assert!(seen[0].0.starts_with("image/"), "{shown:?}");
}
