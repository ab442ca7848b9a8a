//! Reactions: people see signs, and Slack has names for them. Pure.

/// Signs and their names, those of which people make most use. A name that is not here is told between colons, as people type it.
const SIGNS: [(&str, &str); 104] = [
    ("👍", "+1"),
    ("👎", "-1"),
    ("👀", "eyes"),
    ("❤", "heart"),
    ("🎉", "tada"),
    ("✅", "white_check_mark"),
    ("✔", "heavy_check_mark"),
    ("☑", "ballot_box_with_check"),
    ("❌", "x"),
    ("❎", "negative_squared_cross_mark"),
    ("🔥", "fire"),
    ("🙏", "pray"),
    ("👏", "clap"),
    ("🙌", "raised_hands"),
    ("💯", "100"),
    ("🚀", "rocket"),
    ("😀", "grinning"),
    ("😃", "smiley"),
    ("😄", "smile"),
    ("😁", "grin"),
    ("😆", "laughing"),
    ("😅", "sweat_smile"),
    ("😂", "joy"),
    ("🤣", "rolling_on_the_floor_laughing"),
    ("🙂", "slightly_smiling_face"),
    ("🙃", "upside_down_face"),
    ("😉", "wink"),
    ("😊", "blush"),
    ("😇", "innocent"),
    ("🥰", "smiling_face_with_3_hearts"),
    ("😍", "heart_eyes"),
    ("🤩", "star-struck"),
    ("😘", "kissing_heart"),
    ("😋", "yum"),
    ("😜", "stuck_out_tongue_winking_eye"),
    ("🤗", "hugging_face"),
    ("🤔", "thinking_face"),
    ("🤐", "zipper_mouth_face"),
    ("🤨", "face_with_raised_eyebrow"),
    ("😐", "neutral_face"),
    ("😏", "smirk"),
    ("🙄", "face_with_rolling_eyes"),
    ("😴", "sleeping"),
    ("😎", "sunglasses"),
    ("🤓", "nerd_face"),
    ("😕", "confused"),
    ("🙁", "slightly_frowning_face"),
    ("😮", "open_mouth"),
    ("😱", "scream"),
    ("😢", "cry"),
    ("😭", "sob"),
    ("😡", "rage"),
    ("🤯", "exploding_head"),
    ("🥳", "partying_face"),
    ("🤝", "handshake"),
    ("👌", "ok_hand"),
    ("✌", "v"),
    ("🤞", "crossed_fingers"),
    ("👉", "point_right"),
    ("👈", "point_left"),
    ("👆", "point_up_2"),
    ("👇", "point_down"),
    ("👋", "wave"),
    ("💪", "muscle"),
    ("🫡", "saluting_face"),
    ("🤷", "shrug"),
    ("🤦", "face_palm"),
    ("💔", "broken_heart"),
    ("💚", "green_heart"),
    ("💙", "blue_heart"),
    ("💜", "purple_heart"),
    ("🖤", "black_heart"),
    ("⭐", "star"),
    ("🌟", "star2"),
    ("✨", "sparkles"),
    ("⚡", "zap"),
    ("💡", "bulb"),
    ("💥", "boom"),
    ("🏆", "trophy"),
    ("🎯", "dart"),
    ("🎁", "gift"),
    ("☕", "coffee"),
    ("🍺", "beer"),
    ("🍕", "pizza"),
    ("🐛", "bug"),
    ("🤖", "robot_face"),
    ("👻", "ghost"),
    ("💩", "hankey"),
    ("🤡", "clown_face"),
    ("⚠", "warning"),
    ("🚨", "rotating_light"),
    ("⛔", "no_entry"),
    ("🛑", "octagonal_sign"),
    ("❓", "question"),
    ("❗", "exclamation"),
    ("⏳", "hourglass_flowing_sand"),
    ("⌛", "hourglass"),
    ("🔁", "repeat"),
    ("🔒", "lock"),
    ("🔍", "mag"),
    ("📌", "pushpin"),
    ("📝", "memo"),
    ("✍", "writing_hand"),
    ("🆗", "ok"),
];

/// Other names of the same signs.
const ALSO: [(&str, &str); 7] = [
    ("👍", "thumbsup"),
    ("👎", "thumbsdown"),
    ("😂", "face_with_tears_of_joy"),
    ("😆", "satisfied"),
    ("💥", "collision"),
    ("💩", "poop"),
    ("📝", "pencil"),
];

/// Returns the sign of a name, as people see it. A skin's tone is no sign of its own.
pub(super) fn shown(name: &str) -> String {
    let base = name.split("::").next().unwrap_or(name);
    let found = SIGNS.iter().chain(&ALSO).find(|(_, of)| *of == base);
    found.map_or_else(|| format!(":{base}:"), |(sign, _)| (*sign).to_owned())
}

/// Returns the name of a sign; `None`: it is none that we know.
pub(super) fn name(sign: &str) -> Option<String> {
    let bare: String = sign
        .trim()
        .chars()
        .filter(|c| *c != '\u{fe0f}' && !('\u{1f3fb}'..='\u{1f3ff}').contains(c))
        .collect();
    let known = SIGNS.iter().find(|(of, _)| *of == bare).map(|(_, name)| (*name).to_owned());
    known.or_else(|| {
        let own = bare.strip_prefix(':')?.strip_suffix(':')?;
        let is_name = (1..=100).contains(&own.len())
            && own.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-+'".contains(&b));
        is_name.then(|| own.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_has_one_name_and_comes_back_by_it() {
        for (sign, of) in SIGNS {
            assert_eq!((shown(of), name(sign).as_deref()), (sign.to_owned(), Some(of)));
        }
        for (sign, of) in [("👍🏽", "+1"), ("❤️", "heart"), (":party-parrot:", "party-parrot")] {
            assert_eq!(name(sign).as_deref(), Some(of), "{sign}");
        }
        for none in ["", "x", "::", ":a b:", "🎈", ":A:"] {
            assert_eq!(name(none), None, "{none}");
        }
        for (of, sign) in [("thumbsup::skin-tone-4", "👍"), ("party-parrot", ":party-parrot:")] {
            assert_eq!(shown(of), sign);
        }
    }
}
