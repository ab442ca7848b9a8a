//! Texts one by one, with all that is shown of them.

use channel_protocol::Style;

use crate::{Format, Kind, Rendered, Text, Unit, parse, parts, render};

fn texts(markdown: &str, format: Format, limit: usize, unit: Unit) -> Vec<String> {
    parts(markdown, format, limit, unit).into_iter().map(|part| part.text).collect()
}

/// Writes a text with its spans in brackets.
fn spans(text: &Text) -> String {
    let names = |kind: &Kind| match kind {
        Kind::Quote => "quote".to_owned(),
        Kind::Pre { lang } => format!("pre:{}", lang.as_deref().unwrap_or("")),
        Kind::Heading => "heading".to_owned(),
        Kind::Spoiler => "spoiler".to_owned(),
        Kind::Bold => "b".to_owned(),
        Kind::Italic => "i".to_owned(),
        Kind::Strike => "s".to_owned(),
        Kind::Link { to } => format!("link:{to}"),
        Kind::Code => "code".to_owned(),
    };
    let mut out = String::new();
    for at in 0..=text.text().len() {
        for span in text.spans().iter().rev().filter(|s| s.to == at) {
            out.push_str(&format!("‹/{}›", names(&span.kind).split(':').next().unwrap()));
        }
        for span in text.spans().iter().filter(|s| s.from == at) {
            out.push_str(&format!("‹{}›", names(&span.kind)));
        }
        if text.text().is_char_boundary(at) {
            out.extend(text.text()[at..].chars().next());
        }
    }
    out
}

#[test]
fn marks_beside_chinese_japanese_and_korean_are_marks() {
    for (markdown, shown) in [
        ("**「重要」**です", "‹b›「重要」‹/b›です"),
        ("これは**「重要」**です", "これは‹b›「重要」‹/b›です"),
        ("**굵게(bold)**입니다", "‹b›굵게(bold)‹/b›입니다"),
        ("이것은 **굵게(bold)**이고 **\"둘\"**도 있다", "이것은 ‹b›굵게(bold)‹/b›이고 ‹b›\"둘\"‹/b›도 있다"),
        ("**「一」**と**「二」**と**「三」**", "‹b›「一」‹/b›と‹b›「二」‹/b›と‹b›「三」‹/b›"),
        ("这是**“重点”**的话，**注意：**请看", "这是‹b›“重点”‹/b›的话，‹b›注意：‹/b›请看"),
        ("*「斜」*で~~（消）~~は***「両」***だ", "‹i›「斜」‹/i›で‹s›（消）‹/s›は‹b›‹i›「両」‹/i›‹/b›だ"),
        ("これは__（太）__です、報告_（最終）_v2.pdf", "これは‹b›（太）‹/b›です、報告_（最終）_v2.pdf"),
        ("**❤️**です**👍**です", "‹b›❤️‹/b›です‹b›👍‹/b›です"),
        ("API**「v2」**を**`code`**で", "API‹b›「v2」‹/b›を‹b›‹code›code‹/code›‹/b›で"),
        ("**[詳細](https://a.b/c)**を見る", "‹b›‹link:https://a.b/c›詳細‹/link›‹/b›を見る"),
        ("| 列 |\n|-|\n| **「a」**で |", "‹pre:›列\n-------\n「a」で‹/pre›"),
        (
            "https://a.b/英雄_(电影) 和 https://a.b/长城_(电影)",
            "‹link:https://a.b/英雄_(电影)›https://a.b/英雄_(电影)‹/link› 和 ‹link:https://a.b/长城_(电影)›https://a.b/长城_(电影)‹/link›",
        ),
        // What is no mark stays: in code, behind a backslash, beside a space, alone.
        ("`**「a」**で`", "‹code›**「a」**で‹/code›"),
        ("```\n**「a」**で\n```", "‹pre:›**「a」**で‹/pre›"),
        ("\\*\\*「a」\\*\\*で", "**「a」**で"),
        ("2 * 「三」* 4は8", "2 * 「三」* 4は8"),
        ("**「a」で", "**「a」で"),
        // Words without these scripts are as markdown has them.
        ("**(a)**b", "**(a)**b"),
        ("**「a」**\u{a95f}です", "‹b›「a」‹/b›\u{a95f}です"),
    ] {
        assert_eq!(spans(&parse(markdown)), shown, "{markdown}");
    }
}

#[test]
fn markdown_becomes_words_and_spans() {
    for (markdown, shown) in [
        ("a **b** *c* ~~d~~ `e`", "a ‹b›b‹/b› ‹i›c‹/i› ‹s›d‹/s› ‹code›e‹/code›"),
        ("***a** b*", "‹i›‹b›a‹/b› b‹/i›"),
        ("# Title\ntext", "‹heading›Title‹/heading›\n\ntext"),
        ("a\nb\\\nc  \nd<br>e", "a\nb\nc\nd\ne"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("- a\n- b\n  - c\n    d\n1) e", "• a\n• b\n  • c\n    d\n\n1. e"),
        ("3. a\n4. b\n\n   c", "3. a\n\n4. b\n\n   c"),
        ("- [x] a\n- [ ] b", "• ☑ a\n• ☐ b"),
        ("> a\n> > b\n\nc", "‹quote›a\n\nb‹/quote›\n\nc"),
        ("- > a", "‹quote›• a‹/quote›"),
        ("```rust\nlet a;\n```\nb", "‹pre:rust›let a;‹/pre›\n\nb"),
        ("- a\n  ```\n    b\n  ```", "• a\n\n‹pre:›  b‹/pre›"),
        ("```echo all of it\n```", "‹pre:›echo all of it‹/pre›"),
        ("```js title=\"x\"\n1\n```", "‹pre:js›1‹/pre›"),
        ("[a](https://b.c)", "‹link:https://b.c›a‹/link›"),
        (
            "![a](https://b.c) ![](https://d.e)",
            "‹link:https://b.c›a‹/link› ‹link:https://d.e›https://d.e‹/link›",
        ),
        ("see https://a.b/c_d_e.", "see ‹link:https://a.b/c_d_e›https://a.b/c_d_e‹/link›."),
        ("(https://a.b/c_(d))", "(‹link:https://a.b/c_(d)›https://a.b/c_(d)‹/link›)"),
        ("a ||b **c**|| d || e || f \\||g||", "a ‹spoiler›b ‹b›c‹/b›‹/spoiler› d || e || f ||g||"),
        ("a_b_c * d", "a_b_c * d"),
        ("Vec<String> &amp; <b>x</b>", "Vec<String> & <b>x</b>"),
        ("[note]: all is well", "[note]: all is well"),
        ("[1] says\n\n[1]: https://a.b", "‹link:https://a.b›1‹/link› says"),
        ("\u{7}a\u{1b}[31mb\0", "a[31mb"),
        ("```\n```", "```\n```"),
        ("", ""),
    ] {
        assert_eq!(spans(&parse(markdown)), shown, "{markdown:?}");
    }
}

#[test]
fn a_narrow_table_has_columns_and_a_wide_one_has_lines() {
    let narrow = "| Name | n |\n|:--|--:|\n| **Ann** | 5 |\n| 林 | 12 | more |\n";
    let shown = "‹pre:›Name   n\n----  --  ----\nAnn    5\n林    12  more‹/pre›";
    assert_eq!(spans(&parse(narrow)), shown);
    let long = "word ".repeat(12);
    let wide = format!("| Name | What |\n|--|--|\n| **Ann** | {long}|\n| Bo | |\n");
    let long = long.trim();
    let shown = format!("‹b›Name‹/b›: ‹b›Ann‹/b›\n‹b›What‹/b›: {long}\n\n‹b›Name‹/b›: Bo");
    assert_eq!(spans(&parse(&wide)), shown);
    let heading = format!("| {long} | b |\n|--|--|\n| c | d |\n");
    assert_eq!(spans(&parse(&heading)), format!("‹b›{long}‹/b› | ‹b›b‹/b›\nc | d"));
}

#[test]
fn each_platform_has_its_own_marks() {
    let all = "# T\n**b** _i_ ~~s~~ ||h|| `c` [l](https://a.b)\n> q\n\n```rust\nx < y\n```";
    for (format, shown) in [
        (
            Format::Discord,
            "**T**\n\n**b** _i_ ~~s~~ ||h|| `c` [l](<https://a.b>)\n\n> q\n\n```rust\nx < y\n```",
        ),
        (Format::Slack, "*T*\n\n*b* _i_ ~s~ h `c` <https://a.b|l>\n\n> q\n\n```\nx &lt; y\n```"),
        (Format::Whatsapp, "*T*\n\n*b* _i_ ~s~ h `c` l (https://a.b)\n\n> q\n\n```\nx < y\n```"),
        (Format::Matrix, "T\n\nb i s h c l\n\n> q\n\nx < y"),
        (Format::Plain, "T\n\nb i s h c l (https://a.b)\n\n> q\n\nx < y"),
        (Format::Spans, "T\n\nb i s h c l\n\nq\n\nx < y"),
    ] {
        assert_eq!(render(&parse(all), format).text, shown, "{format:?}");
    }
    let html = "<strong>T</strong><br><br><strong>b</strong> <em>i</em> <del>s</del> \
                <span data-mx-spoiler>h</span> <code>c</code> <a href=\"https://a.b\">l</a>\
                <blockquote>q</blockquote><pre><code class=\"language-rust\">x &lt; y</code></pre>";
    assert_eq!(render(&parse(all), Format::Matrix).html.unwrap(), html);
    let lines = ["T", "b i s h c l (https://a.b)", "> q", "x < y"];
    assert_eq!(texts(all, Format::Irc, 400, Unit::Bytes), lines);
}

#[test]
fn characters_of_markup_stay_characters() {
    for (markdown, format, shown) in [
        ("\\*a\\* 1 \\_b\\_", Format::Discord, "\\*a\\* 1 \\_b\\_"),
        ("\\# a\n\n\\- b\n\n\\> c\n\n1\\. d", Format::Discord, "\\# a\n\n\\- b\n\n\\> c\n\n1\\. d"),
        ("snake_case ~/x | y", Format::Discord, "snake\\_case \\~/x \\| y"),
        ("https://a.b/c_d_e", Format::Discord, "https://a.b/c_d_e"),
        ("(https://a.b/c).", Format::Discord, "(<https://a.b/c>)."),
        ("`` a`b ``", Format::Discord, "``a`b``"),
        ("a**b**c", Format::Discord, "a**b**c"),
        ("a*b*c", Format::Discord, "a\u{200b}_b_\u{200b}c"),
        ("````\n```\n````", Format::Discord, "```\n``\u{200b}`\n```"),
        ("a**b**c", Format::Slack, "a\u{200b}*b*\u{200b}c"),
        ("\\*a\\* snake_case ~/x and ~/y", Format::Slack, "∗a* snake_case ~/x and ~/y"),
        ("<!channel> a & b", Format::Slack, "&lt;!channel&gt; a &amp; b"),
        ("\\> a", Format::Whatsapp, "\u{200b}> a"),
        ("[a](javascript:alert) [b](x.md)", Format::Discord, "a (javascript:alert) b (x.md)"),
        ("[https://a.b](https://evil.c)", Format::Discord, "https\\://a.b (https\\://evil.c)"),
    ] {
        assert_eq!(render(&parse(markdown), format).text, shown, "{markdown:?}");
    }
    let html = render(&parse("Ann <ann@x.y> & <script>a</script> \"q\""), Format::Matrix).html.unwrap();
    assert_eq!(html, "Ann ann@x.y &amp; &lt;script&gt;a&lt;/script&gt; &quot;q&quot;");
}

#[test]
fn nobody_is_called_by_a_text() {
    for (format, shown) in [
        (Format::Discord, "@\u{200b}everyone @\u{200b}Here \\<@\u{200b}&12> a@b.c"),
        (Format::Slack, "@\u{200b}everyone @\u{200b}Here &lt;@\u{200b}&amp;12&gt; a@b.c"),
        (Format::Matrix, "@\u{200b}everyone @\u{200b}Here <@\u{200b}&12> a@b.c"),
        (Format::Plain, "@everyone @Here <@&12> a@b.c"),
    ] {
        assert_eq!(render(&parse("@everyone @Here <@&12> a@b.c"), format).text, shown);
    }
}

#[test]
fn entities_count_utf16_and_code_stands_alone() {
    let part: Rendered = render(&parse("👍 **a `b` c**\n> 𝒳 *d*"), Format::Spans);
    assert_eq!(part.text, "👍 a b c\n\n𝒳 d");
    let found: Vec<(usize, usize, Style)> = part.spans.into_iter().map(|s| (s.at, s.len, s.is)).collect();
    let expected = [
        (3, 1, Style::Bold),
        (5, 1, Style::Code),
        (7, 1, Style::Bold),
        (10, 4, Style::Quote),
        (13, 1, Style::Italic),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_text_is_cut_where_a_reader_would() {
    let text = "One two. Three four.\n\nFive six seven. Eight nine\nten";
    assert_eq!(
        texts(text, Format::Plain, 30, Unit::Chars),
        ["One two. Three four.", "Five six seven. Eight nine\nten"]
    );
    assert_eq!(
        texts(text, Format::Plain, 20, Unit::Chars),
        ["One two. Three four.", "Five six seven.", "Eight nine\nten"]
    );
    // A prefix stays with its item, and a visible character is never cut.
    assert_eq!(
        texts("- aaaaaaaaaaaaaaaaaaaaaaaaa", Format::Plain, 20, Unit::Chars),
        ["• aaaaaaaaaaaaaaaaaa", "aaaaaaa"]
    );
    let family = "👩‍👩‍👧".repeat(4);
    assert_eq!(texts(&family, Format::Plain, 20, Unit::Utf16), ["👩‍👩‍👧".repeat(2), "👩‍👩‍👧".repeat(2)]);
}

#[test]
fn a_fence_that_is_cut_is_closed_and_opened_again() {
    let code = "```rust\nlet first = 1;\n    let second = 2;\n```";
    assert_eq!(
        texts(code, Format::Discord, 36, Unit::Chars),
        ["```rust\nlet first = 1;\n```", "```rust\n    let second = 2;\n```"]
    );
    let bold = "**one two three four five six**";
    assert_eq!(texts(bold, Format::Discord, 20, Unit::Chars), ["**one two three**", "**four five six**"]);
}

#[test]
fn each_part_keeps_the_limit_after_escaping() {
    let stars = "\\*".repeat(3000);
    for (format, limit, unit) in [
        (Format::Discord, 2000, Unit::Chars),
        (Format::Slack, 4000, Unit::Chars),
        (Format::Irc, 400, Unit::Bytes),
    ] {
        let parts = parts(&stars, format, limit, unit);
        assert!(parts.iter().all(|part| part.size(unit) <= limit));
        let count: usize = parts.iter().map(|p| p.text.matches(['*', '∗']).count()).sum();
        assert_eq!(count, 3000);
    }
    // Many bold words, blocks and links over several parts: marks are whole in each, and no tag is shown.
    let long =
        "**bold** and *italic* [a link](https://example.com/path)\n\n```py\ncode()\n```\n\n".repeat(300);
    for part in parts(&long, Format::Discord, 2000, Unit::Chars) {
        assert_eq!(part.text.matches("**").count() % 2, 0);
        assert_eq!(part.text.matches("```").count() % 2, 0);
        assert_eq!(part.text.matches("](<").count(), part.text.matches(">)").count());
    }
    for part in parts(&long, Format::Spans, 4096, Unit::Utf16) {
        assert!(part.spans.len() <= 100, "Telegram forgets what is more");
        assert!(!part.text.contains(['<', '*', '`']));
    }
}

#[test]
fn a_long_address_is_words_that_can_be_cut() {
    let url = format!("https://a.b/{}", "x".repeat(3000));
    let all: String = texts(&format!("[here]({url})"), Format::Discord, 2000, Unit::Chars).concat();
    assert_eq!(all.replace("\\:", ":").replace("\\(", "("), format!("here({url})"));
}

#[test]
fn hostile_texts_are_read_in_time() {
    let n = 10_000;
    let deep = "> ".repeat(n) + "x" + &"\ny".repeat(n);
    let table = format!("{}\n{}\n{}", "|a".repeat(n), "|-".repeat(n), "|b\n".repeat(n));
    let references = format!("[a]: {}\n\n{}", "b".repeat(n), "[a]".repeat(n));
    let lists = "- ".repeat(n) + "x" + &"\n".repeat(n);
    let lazy = "1. ".repeat(n) + "x" + &"\ny".repeat(n);
    let one = [
        "*", "[", "![", "`", "~~", "||", "<", "\\", "[a]:", "[a](", "a\u{301}", "\u{301}", "&", "https://",
        "@here", "_a_*b*", "> - 1. ",
    ];
    let mut all: Vec<String> = one.iter().map(|one| one.repeat(n)).collect();
    all.extend([
        deep,
        table,
        references,
        lists,
        lazy,
        " ".repeat(n) + "x",
        "a".to_owned() + &"\n".repeat(n) + "b",
    ]);
    for markdown in all {
        for (format, limit) in [(Format::Spans, 4096), (Format::Discord, 2000), (Format::Irc, 400)] {
            let parts = parts(&markdown, format, limit, Unit::Bytes);
            assert!(!parts.is_empty() && parts.iter().all(|part| part.size(Unit::Bytes) <= limit));
        }
    }
}
